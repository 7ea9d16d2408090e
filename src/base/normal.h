// Normal deviates from random bits, by arithmetic that is the same on every machine.
#ifndef ZR_BASE_NORMAL_H
#define ZR_BASE_NORMAL_H

#include "base/errors.h"

enum { ZR_NORMAL_BLOCK = 32 };

// Box-Muller on a block: of 64 random bits for a radius and 64 for an angle each (the upper 52
// count), out[2i] and out[2i+1] are two independent standard normal numbers, to about 1e-15. Needs
// no math library, whose last digits differ.
void zr_normal_block(const uint64_t radius[ZR_NORMAL_BLOCK], const uint64_t angle[ZR_NORMAL_BLOCK],
                     double out[2 * ZR_NORMAL_BLOCK]);

#endif
