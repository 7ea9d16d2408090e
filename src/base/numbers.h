// Sums of many numbers that do not depend on the order of additions, and quantiles of a few.
#ifndef ZR_BASE_NUMBERS_H
#define ZR_BASE_NUMBERS_H

#include "base/errors.h"

#define ZR_EXACT_BIAS 1088
#define ZR_EXACT_LIMBS 68

// An exact accumulator of doubles in fixed-point limbs:
//
//   value = sum over i of limb[i] * 2^(32*i - ZR_EXACT_BIAS)
//
// Each limb holds 32 bits of value in 64 bits, so that neither 2^31 additions nor an integer
// all-reduce over ranks can overflow between normalisations. NaNs and infinities are counted next
// to the limbs.
//
// It is an array of int64: adding the words of two accumulators adds the accumulators, so any
// communicator can reduce them.
typedef struct zr_exact {
    int64_t limb[ZR_EXACT_LIMBS];
    int64_t nonfinite; // number of addends that were not finite
} zr_exact;
#define ZR_EXACT_WORDS (ZR_EXACT_LIMBS + 1)

void zr_exact_zero(zr_exact *sum);
void zr_exact_add(zr_exact *sum, double value);
// Returns the sum, rounded correctly to nearest even; NaN if an addend was not finite.
double zr_exact_value(const zr_exact *sum);

// What a step adds up over its micro-batches, and over the ranks. Like zr_exact it is an array of
// int64: adding the words of two adds both sums.
typedef struct zr_step_sums {
    zr_exact loss;   // means over targets, times their share of the positions
    zr_exact norm;   // squares of the gradients of shards
    int64_t targets; // of the loss
} zr_step_sums;

enum { ZR_STEP_SUMS_WORDS = sizeof(zr_step_sums) / sizeof(int64_t) };

// Sorts numbers, which contain no NaN, in ascending order.
void zr_sort_numbers(double *numbers, int count);
// Returns a quantile of sorted numbers (at least one), part: 0 to 1. Between two neighbors it
// interpolates linearly (Hyndman and Fan's seventh rule, NumPy's default). The whole library takes
// quantiles by this rule.
double zr_quantile(const double *sorted, int count, double part);

// Sorts numbers, at least one, and returns their median.
double zr_median(double *numbers, int count);
// Sorts numbers, at least one, and returns the mean of those that are at most twice the median. Of
// measured times this leaves out the ones that something interrupted.
double zr_usual_mean(double *numbers, int count);

#endif
