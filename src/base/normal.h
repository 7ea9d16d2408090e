// Normal deviates from random bits, by arithmetic that gives the same bits on every machine.
#ifndef ZR_BASE_NORMAL_H
#define ZR_BASE_NORMAL_H

#include "base/errors.h"

enum { ZR_NORMAL_BLOCK = 32 };

// Box-Muller on a block. Each radius and each angle takes 64 random bits, of which the upper 52
// count; out[2i] and out[2i+1] are two independent standard normal numbers, accurate to about
// 1e-15. It needs no math library, because those differ in the last digits.
void zr_normal_block(const uint64_t radius[ZR_NORMAL_BLOCK], const uint64_t angle[ZR_NORMAL_BLOCK],
                     double out[2 * ZR_NORMAL_BLOCK]);

#endif
