// Which bytes of which space a pass holds, from when to when: the footprint of every place over
// time, by going over the program once.
#ifndef ZR_PLAN_LIVES_H
#define ZR_PLAN_LIVES_H

#include "plan/full_plan.h"

typedef struct zr_life { // bytes [first, first + bytes) of a space are a piece's
    zr_space space;      // GATHERED, GRADIENTS, OPEN_SUMS, STAGED_PARAMETERS or STAGED_SUMS
    int piece;
    int64_t first, bytes;
    int from, to; // instructions of the pass: the first that writes there, the last that needs it
} zr_life;

typedef struct zr_lives {
    zr_life *at; // (count) in the order in which they begin
    int count, capacity;
} zr_lives;

// ZERO_ERR_MEMORY. *out is freed with zr_lives_free, also after an error.
zero_status zr_lives_of(const zr_plan *plan, zr_pass_kind kind, zr_lives *out, zero_error *error);
void zr_lives_free(zr_lives *lives);
int64_t zr_lives_end(const zr_lives *lives, zr_space space); // bytes that the space needs

#endif
