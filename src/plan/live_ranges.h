// Which bytes of each buffer a pass holds, and from when to when. One walk over the program finds
// this.
#ifndef ZR_PLAN_LIVE_RANGES_H
#define ZR_PLAN_LIVE_RANGES_H

#include "plan/plan.h"

typedef struct zr_live_range { // bytes [first, first + bytes) of a buffer hold a flat parameter
    zr_buffer_id buffer;       // GATHERED, GRADIENTS, OPEN_SUMS, STAGED_PARAMETERS or STAGED_SUMS
    int flat_param;
    int64_t first, bytes;
    int from, to; // instructions of the pass: the first to write there, the last to need it
} zr_live_range;

typedef struct zr_live_ranges {
    zr_live_range *at; // (count) in the order in which they begin
    int count, capacity;
} zr_live_ranges;

// ZERO_ERR_MEMORY. The caller frees *out with zr_live_ranges_free, also after an error.
zero_status zr_live_ranges_of(const zr_plan *plan, zr_pass_kind kind, zr_live_ranges *out,
                              zero_error *error);
void zr_live_ranges_free(zr_live_ranges *live_ranges);
int64_t zr_live_ranges_end(const zr_live_ranges *live_ranges,
                           zr_buffer_id buffer); // bytes that the buffer needs

#endif
