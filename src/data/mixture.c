// Chooses the source of a sample among several: a pure function of the sample's number, without
// state.
//
// Samples are divided in two, again and again: of the first s samples source 0 has floor(s w0 / W),
// of the s' left source 1 has floor(s' w1 / (W - w0)), ... Each count grows by 0 or 1 from one
// sample to the next, and sample s is the source's sample of that count.
//
// The bound: let W_k be the sum of the weights from source k on, and f_i in [0, 1) the part that
// the floor of source i cuts off. The samples left for source i exceed their due by r_i, where r_0
// = 0 and r_(i+1) = r_i (1 - w_i/W_i) + f_i. So of s samples source i has had
//
//     s w_i/W + r_i w_i/W_i - f_i,   which is above its share - 1 and
//                                    below its share + w_i/W_1 + w_i/W_2 + ... + w_i/W_i;
//
// source 0 never has more than its share, the last source never less. For two sources that is less
// than one. The excess is never more than i for source i, and never more than 1 + 1/2 + ... + 1/i
// if no weight is larger than one before it. Shares have 52 bits.
#include "data/dataset.h"

#define ONE (UINT64_C(1) << 52) // a share of 1

// Computes floor(s * share) exactly, with a product of 128 bits.
static int64_t floor_of_share(int64_t s, uint64_t share)
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
        int64_t before = floor_of_share(sample, share);
        if (floor_of_share(sample + 1, share) > before) {
            *of_source = before;
            return i;
        }
        sample -= before;
    }
    *of_source = sample;
    return count - 1;
}
