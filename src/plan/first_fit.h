// Places in a buffer that are taken and given back, first fit, while a schedule is played through
// once: so that the run itself, which plays the same schedule, allocates nothing.
#ifndef ZR_PLAN_FIRST_FIT_H
#define ZR_PLAN_FIRST_FIT_H

#include "base/errors.h"

// bytes
typedef struct zr_taken {
    int64_t first, end;
    int owner;
} zr_taken;

typedef struct zr_first_fit {
    zr_taken *taken; // (count) sorted by first
    int count, capacity;
    int64_t bytes; // that it needs
} zr_first_fit;

// Room for `capacity` places at a time. ZERO_ERR_MEMORY. Zeroed regions may be freed.
zero_status zr_first_fit_begin(zr_first_fit *region, int capacity, zero_error *error);
void zr_first_fit_end(zr_first_fit *region);
int64_t zr_first_fit_take(zr_first_fit *region, int owner, int64_t bytes); // the first byte
void zr_first_fit_give_back(zr_first_fit *region, int owner);

#endif
