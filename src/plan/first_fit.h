// Places in a buffer that are taken and given back, first fit, while a schedule is played through
// once. The run itself plays the same schedule, so it allocates nothing.
#ifndef ZR_PLAN_FIRST_FIT_H
#define ZR_PLAN_FIRST_FIT_H

#include "base/errors.h"

// Bytes [first, end) of the buffer.
typedef struct zr_taken {
    int64_t first, end;
    int owner;
} zr_taken;

typedef struct zr_first_fit {
    zr_taken *taken; // (count) sorted by first
    int count, capacity;
    int64_t bytes; // that the buffer needs
} zr_first_fit;

// Makes room for `capacity` places at a time. ZERO_ERR_MEMORY. zr_first_fit_end accepts a zeroed
// one.
zero_status zr_first_fit_begin(zr_first_fit *fit, int capacity, zero_error *error);
void zr_first_fit_end(zr_first_fit *fit);
// Returns the first byte of the place.
int64_t zr_first_fit_take(zr_first_fit *fit, int owner, int64_t bytes);
void zr_first_fit_give_back(zr_first_fit *fit, int owner);

#endif
