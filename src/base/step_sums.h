// What a step adds up over its micro-batches, and over the ranks.
#ifndef ZR_BASE_STEP_SUMS_H
#define ZR_BASE_STEP_SUMS_H

#include "base/exact.h"

typedef struct zr_step_sums {
    zr_exact loss;   // means over targets, times their share of the positions
    zr_exact norm;   // squares of the gradients of shards
    int64_t targets; // of the loss
    // Like zr_exact it is an array of int64: the words of two add up to the sums of both.
} zr_step_sums;

enum { ZR_STEP_SUMS_WORDS = sizeof(zr_step_sums) / sizeof(int64_t) };

#endif
