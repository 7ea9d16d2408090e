// Where the heads of packed qkv lie, and which positions see which. Query head h reads the keys
// and values of head h / (heads / kv_heads); a position sees those from its start to itself.
#ifndef ZR_CUDA_ATTENTION_H
#define ZR_CUDA_ATTENTION_H

#include "attention_dropout.h"

#ifdef __CUDACC__
#define ZR_UNROLL _Pragma("unroll")
#define ZR_NO_UNROLL _Pragma("unroll 1")
#define ZR_UNROLL_TWO _Pragma("unroll 2")
#else
#define ZR_UNROLL
#define ZR_NO_UNROLL
#define ZR_UNROLL_TWO
#endif

namespace zr {

__device__ __forceinline__ float no_score() { return float_of_bits(0xff800000u); } // -infinity

// One head of one sample; places are elements.
struct attention_head {
    int64_t q, k, v, row;  // in qkv, where position 0 lies, and the elements between two
    int64_t out, out_row;  // in out and dout
    int64_t sums;          // in lse and delta
    const int32_t *starts; // of the sample, or NULL
    uint64_t element;      // of the mask of dropout, the head's first
    uint64_t key, threshold;
    int seq, window;
    float kept;
};

template <class A>
__device__ __forceinline__ attention_head head_of(const A &a, int64_t sample, int64_t head)
{
    attention_head at;
    const int64_t dim = a.head_dim, all = a.all_heads ? a.all_heads : a.heads;
    at.row = (a.heads + 2 * a.kv_heads) * dim;
    at.q = sample * a.seq * at.row + head * dim;
    at.k = sample * a.seq * at.row + (a.heads + head / (a.heads / a.kv_heads)) * dim;
    at.v = at.k + a.kv_heads * dim;
    at.out_row = a.heads * dim;
    at.out = sample * a.seq * at.out_row + head * dim;
    at.sums = (sample * a.heads + head) * a.seq;
    at.starts = a.starts ? a.starts + sample * a.seq : nullptr;
    at.element = (uint64_t)(sample * all + a.first_head + head) * (uint64_t)a.seq * (uint64_t)a.seq;
    at.key = a.key;
    at.threshold = a.threshold;
    at.seq = (int)a.seq;
    at.window = (int)(a.window < a.seq ? a.window : 0);
    at.kept = a.kept;
    return at;
}

// The first position that `row` sees, whose document starts at `start`.
__device__ __forceinline__ int first_seen(const attention_head &at, int row, int start)
{
    const int of_window = at.window && row >= at.window ? row - at.window + 1 : 0;
    return start > of_window ? start : of_window;
}

// The same where there is such a row.
__device__ __forceinline__ int first_seen(const attention_head &at, int row)
{
    return first_seen(at, row, at.starts ? at.starts[row] : 0);
}

// The row after the last one that sees a position up to `last`. Starts do not fall, so that their
// first above `last` is looked for by halves.
__device__ __forceinline__ int rows_seeing(const attention_head &at, int last)
{
    int end = at.window && last < at.seq - at.window ? last + at.window : at.seq, low = 0;
    if (!at.starts)
        return end;
    while (low < end) {
        const int middle = low + (end - low) / 2;
        if (at.starts[middle] > last)
            end = middle;
        else
            low = middle + 1;
    }
    return end;
}

__device__ __forceinline__ uint64_t mask_element(const attention_head &at, int row, int key)
{
    return at.element + (uint64_t)row * (uint64_t)at.seq + (uint64_t)key;
}

} // namespace zr

#endif
