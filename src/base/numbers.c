// The exact accumulator: a sum of doubles without rounding (a small Kulisch accumulator), which
// therefore does not depend on an order.
//
// Invariant: after every operation here the magnitude of each limb is below 2^52. So 1,024
// accumulators may be added word by word, as a communicator does, before any limb can overflow.
#include "base/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LIMB_BITS 32
#define LIMB_MASK 0xffffffffll
#define LIMB_SOFT_LIMIT ((int64_t)1 << 51)

// Brings all limbs but the last to digits of 0 ... 2^32-1; the last one carries the sign. The value
// does not change.
static void normalise_limbs(zr_exact *sum)
{
    int64_t carry = 0;
    for (int i = 0; i < ZR_EXACT_LIMBS - 1; i++) {
        int64_t limb = sum->limb[i] + carry;
        carry = limb >> LIMB_BITS;
        sum->limb[i] = limb & LIMB_MASK;
    }
    sum->limb[ZR_EXACT_LIMBS - 1] += carry;
}

void zr_exact_zero(zr_exact *sum) { memset(sum, 0, sizeof *sum); }

// Does limb[at ... at+2] += (or -=) mantissa << shift, for mantissa < 2^53 and shift < 32.
static void add_shifted(int64_t *limb, uint64_t mantissa, int shift, int64_t sign)
{
    uint64_t low = (mantissa & LIMB_MASK) << shift;
    uint64_t rest = low >> LIMB_BITS | (mantissa >> LIMB_BITS) << shift;
    limb[0] += sign * (int64_t)(low & LIMB_MASK);
    limb[1] += sign * (int64_t)(rest & LIMB_MASK);
    limb[2] += sign * (int64_t)(rest >> LIMB_BITS);
}

static bool near_limit(int64_t limb) { return limb > LIMB_SOFT_LIMIT || limb < -LIMB_SOFT_LIMIT; }

void zr_exact_add(zr_exact *sum, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t mantissa = bits & (((uint64_t)1 << 52) - 1);
    if (exponent == 0x7ff) {
        sum->nonfinite++;
        return;
    }
    if (exponent)
        mantissa |= (uint64_t)1 << 52;
    else
        exponent = 1;
    // value = mantissa * 2^(exponent - 1075)
    int position = exponent - 1075 + ZR_EXACT_BIAS;
    int64_t *limb = &sum->limb[position / LIMB_BITS];
    add_shifted(limb, mantissa, position % LIMB_BITS, bits >> 63 ? -1 : 1);
    if (near_limit(limb[0]) || near_limit(limb[1]) || near_limit(limb[2]))
        normalise_limbs(sum);
}

static bool make_positive(zr_exact *sum)
{
    normalise_limbs(sum);
    if (sum->limb[ZR_EXACT_LIMBS - 1] >= 0)
        return false;
    for (int i = 0; i < ZR_EXACT_LIMBS; i++)
        sum->limb[i] = -sum->limb[i];
    normalise_limbs(sum);
    return true;
}

// Returns 64 bits downwards from `top`, the number of the highest bit that is set in the whole. The
// last of them is also set if any bit below is, which is enough for one correct rounding.
static uint64_t leading_bits(const zr_exact *sum, int top)
{
    uint64_t window = 0;
    for (int bit = top; bit > top - 64; bit--) {
        uint64_t set = bit < 0 ? 0 : (uint64_t)(sum->limb[bit / LIMB_BITS] >> bit % LIMB_BITS & 1);
        window = window << 1 | set;
    }
    for (int bit = top - 64; bit >= 0; bit--)
        window |= (uint64_t)(sum->limb[bit / LIMB_BITS] >> bit % LIMB_BITS & 1);
    return window;
}

double zr_exact_value(const zr_exact *sum)
{
    if (sum->nonfinite)
        return NAN;
    zr_exact positive = *sum;
    bool negative = make_positive(&positive);
    int limb = ZR_EXACT_LIMBS - 1;
    while (limb > 0 && !positive.limb[limb])
        limb--;
    if (!positive.limb[limb])
        return 0.0;
    int top = limb * LIMB_BITS + 63 - __builtin_clzll((uint64_t)positive.limb[limb]);
    // Every addend is a multiple of 2^-1074: a subnormal result has at most 52 bits, so ldexp does
    // not round again.
    double value = ldexp((double)leading_bits(&positive, top), top - 63 - ZR_EXACT_BIAS);
    return negative ? -value : value;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void zr_sort_numbers(double *numbers, int count)
{
    qsort(numbers, (size_t)count, sizeof *numbers, compare_numbers);
}

double zr_quantile(const double *sorted, int count, double part)
{
    double place = part * (count - 1);
    int below = (int)place, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

double zr_median(double *numbers, int count)
{
    zr_sort_numbers(numbers, count);
    return zr_quantile(numbers, count, 0.5);
}

double zr_usual_mean(double *numbers, int count)
{
    double most = 2 * zr_median(numbers, count), sum = 0;
    int usual = 0;
    while (usual < count && numbers[usual] <= most)
        sum += numbers[usual++];
    return usual ? sum / usual : 0;
}
