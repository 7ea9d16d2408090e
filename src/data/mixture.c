#include "data/mixture.h"

#define ONE (UINT64_C(1) << 52) // a share of 1

// Computes floor(s * share) exactly, with a product of 128 bits.
static int64_t part(int64_t s, uint64_t share)
{
    return (int64_t)(((unsigned __int128)(uint64_t)s * share) >> 52);
}

// Returns the sum of weights first..count-1. It adds from the end, so that the sum is never less
// than any of them; a sum from which others were subtracted may be.
static double sum_from(const double *weights, int first, int count)
{
    double sum = 0;
    for (int i = count - 1; i >= first; i--)
        sum += weights[i];
    return sum;
}

int zr_mixture_source(const double *weights, int count, int64_t sample, int64_t *of_source)
{
    for (int i = 0; i < count - 1; i++) {
        uint64_t share = (uint64_t)(weights[i] / sum_from(weights, i, count) * (double)ONE + 0.5);
        int64_t before = part(sample, share);
        if (part(sample + 1, share) > before) {
            *of_source = before;
            return i;
        }
        sample -= before;
    }
    *of_source = sample;
    return count - 1;
}
