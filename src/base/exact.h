// An exact accumulator of doubles: fixed-point limbs, so that the sum does not depend on the order
// of additions.
//
//   value = sum over i of limb[i] * 2^(32*i - ZR_EXACT_BIAS)
//
// Each limb holds 32 bits of value in 64, so that 2^31 additions, or an integer all-reduce over
// ranks, cannot overflow between normalisations. Not-a-number and infinities are counted next to
// the limbs.
#ifndef ZR_BASE_EXACT_H
#define ZR_BASE_EXACT_H

#include "base/errors.h"

#define ZR_EXACT_BIAS 1088
#define ZR_EXACT_LIMBS 68

typedef struct zr_exact {
    int64_t limb[ZR_EXACT_LIMBS];
    int64_t nonfinite; // how many of the addends were not finite
} zr_exact;            // an array of int64: two are added by adding the words, on any communicator
#define ZR_EXACT_WORDS (ZR_EXACT_LIMBS + 1)

void zr_exact_zero(zr_exact *sum);
void zr_exact_add(zr_exact *sum, double value);
void zr_exact_merge(zr_exact *sum, const zr_exact *other);
// correctly rounded to nearest even; NaN where a nonfinite addend was seen
double zr_exact_value(const zr_exact *sum);

#endif
