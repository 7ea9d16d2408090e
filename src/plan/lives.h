// Which bytes of each space a pass holds, and from when to when. One walk over the program finds
// this.
#ifndef ZR_PLAN_LIVES_H
#define ZR_PLAN_LIVES_H

#include "plan/full_plan.h"

typedef struct zr_life { // bytes [first, first + bytes) of a space hold a flat parameter
    zr_space space;      // GATHERED, GRADIENTS, OPEN_SUMS, STAGED_PARAMETERS or STAGED_SUMS
    int flat_param;
    int64_t first, bytes;
    int from, to; // instructions of the pass: the first to write there, the last to need it
} zr_life;

typedef struct zr_lives {
    zr_life *at; // (count) in the order in which they begin
    int count, capacity;
} zr_lives;

// ZERO_ERR_MEMORY. The caller frees *out with zr_lives_free, also after an error.
zero_status zr_lives_of(const zr_plan *plan, zr_pass_kind kind, zr_lives *out, zero_error *error);
void zr_lives_free(zr_lives *lives);
int64_t zr_lives_end(const zr_lives *lives, zr_space space); // bytes that the space needs

#endif
