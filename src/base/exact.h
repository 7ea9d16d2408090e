// An exact accumulator of doubles in fixed-point limbs: its sum does not depend on the order of
// additions.
//
//   value = sum over i of limb[i] * 2^(32*i - ZR_EXACT_BIAS)
//
// Each limb holds 32 bits of value in 64 bits, so that neither 2^31 additions nor an integer
// all-reduce over ranks can overflow between normalisations. NaNs and infinities are counted next
// to the limbs.
#ifndef ZR_BASE_EXACT_H
#define ZR_BASE_EXACT_H

#include "base/errors.h"

#define ZR_EXACT_BIAS 1088
#define ZR_EXACT_LIMBS 68

typedef struct zr_exact {
    int64_t limb[ZR_EXACT_LIMBS];
    int64_t nonfinite; // how many of the addends were not finite
    // It is an array of int64: adding the words of two accumulators adds the accumulators, so any
    // communicator can reduce them.
} zr_exact;
#define ZR_EXACT_WORDS (ZR_EXACT_LIMBS + 1)

void zr_exact_zero(zr_exact *sum);
void zr_exact_add(zr_exact *sum, double value);
// Returns the sum, rounded correctly to nearest even; NaN if an addend was not finite.
double zr_exact_value(const zr_exact *sum);

#endif
