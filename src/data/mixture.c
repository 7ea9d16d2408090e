#include "data/mixture.h"

#define ONE (UINT64_C(1) << 52) // of a share

// floor(s * share): exact, as one number of 128 bits.
static int64_t part(int64_t s, uint64_t share)
{
    return (int64_t)(((unsigned __int128)(uint64_t)s * share) >> 52);
}

int zr_mixture_source(const double *weights, int count, int64_t sample, int64_t *of_source)
{
    double left = 0;
    for (int i = count - 1; i >= 0; i--)
        left += weights[i];
    for (int i = 0; i < count - 1; i++) {
        uint64_t share = (uint64_t)(weights[i] / left * (double)ONE + 0.5);
        int64_t before = part(sample, share);
        if (part(sample + 1, share) > before) {
            *of_source = before;
            return i;
        }
        sample -= before;
        left -= weights[i];
    }
    *of_source = sample;
    return count - 1;
}
