// The one order in which ranks are summed (contract 3), blocked so that each source is read once
// and partial sums stay in L1.
//
//   sum(lo, n) = sum(lo, k) + sum(lo + k, n - k),  k the largest power of two below n
//
//   of six ranks:  ((0+1)+(2+3))+(4+5)
//
// Sources of 16 bits are widened as they are read, a block at a time; the sum is rounded once to
// the target's type, as it is stored. Blocks are independent of each other, and elements of their
// neighbours, so neither threads nor vectors change a bit. Every sum goes to a buffer of its own
// before the target is written, because the target may be one of the sources.
#include "compute/tree_sum.h"
#include "base/blocks.h"
#include "base/dtype.h"

#include <assert.h>
#include <string.h>

#define BLOCK 1024 // elements
// Elements below which waking a team of threads costs more than it gains.
#define PARALLEL_FROM 131072

typedef struct sum_sources {
    zero_dtype dtype;
    int bits;                // of codes; 0: elements of dtype
    const void *const *data; // (ranks)
} sum_sources;

static int64_t bytes_of_elements(zero_dtype dtype, int64_t count)
{
    return count * (int64_t)zero_dtype_bytes(dtype);
}

static void accumulate(float *restrict out, const float *restrict a, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] += a[i];
}

static int largest_power_below(int n)
{
    int k = 1;
    while (2 * k < n)
        k *= 2;
    return k;
}

// out(count) = sum over sources lo..lo+n-1 of elements first..first+count. At most 10 levels deep,
// with a block on each.
static void sum_block(float *restrict out, const sum_sources *src, int lo, int n, int64_t first,
                      int64_t count)
{
    if (n == 1 && src->bits) {
        zr_widen_block_range(src->bits, src->data[lo], first, count, out);
        return;
    }
    if (n == 1) {
        zr_widen(src->dtype, (const char *)src->data[lo] + bytes_of_elements(src->dtype, first),
                 count, out);
        return;
    }
    if (n == 2 && !src->bits) {
        zr_tree_leaf_sum(ZR_LEAF_PAIR, src->dtype, out, src->data + lo, first, count);
        return;
    }
    if (n == 4 && !src->bits) {
        zr_tree_leaf_sum(ZR_LEAF_FOUR, src->dtype, out, src->data + lo, first, count);
        return;
    }
    int k = largest_power_below(n);
    sum_block(out, src, lo, k, first, count);
    if (n == k + 1 && !src->bits) {
        zr_tree_leaf_sum(ZR_LEAF_ADD, src->dtype, out, src->data + lo + k, first, count);
        return;
    }
    float right[BLOCK];
    sum_block(right, src, lo + k, n - k, first, count);
    accumulate(out, right, count);
}

// Adds earlier sums, which are widened, the last first. The new sum takes the place of the first,
// rounded once.
static void add_block(const zr_sum_target *to, int64_t first, float *total, int64_t count)
{
    void *dst = (char *)to->data + bytes_of_elements(to->dtype, first);
    for (int i = to->adds - 1; i > 0; i--) {
        const void *earlier = (const char *)dst + bytes_of_elements(to->dtype, i * to->stride);
        zr_tree_leaf_sum(ZR_LEAF_ADD, to->dtype, total, &earlier, 0, count);
    }
    if (to->dtype == ZERO_F32) {
        accumulate(dst, total, count);
        return;
    }
    zr_tree_leaf_sum(ZR_LEAF_ADD, to->dtype, total, (const void *const *)&dst, 0, count);
    zr_narrow(to->dtype, total, count, dst);
}

static void stream_block(zero_dtype dtype, void *dst, const float *total, int64_t count)
{
    if (dtype == ZERO_F32) {
        zr_stream_bytes(dst, total, bytes_of_elements(dtype, count));
        return;
    }
    uint16_t narrow[BLOCK];
    zr_narrow(dtype, total, count, narrow);
    zr_stream_bytes(dst, narrow, bytes_of_elements(dtype, count));
}

enum { STORE, STORE_STREAMING, STORE_ADDING };

static void sum_and_store(const zr_sum_target *to, const sum_sources *src, int ranks, int64_t first,
                          int64_t count, int how)
{
    float total[BLOCK];
    sum_block(total, src, 0, ranks, first, count);
    if (to->bits) {
        zr_narrow_blocks(to->bits, total, count,
                         (char *)to->data + zr_block_bytes(to->bits, first));
        return;
    }
    void *dst = (char *)to->data + bytes_of_elements(to->dtype, first);
    if (how == STORE_ADDING)
        add_block(to, first, total, count);
    else if (how == STORE_STREAMING)
        stream_block(to->dtype, dst, total, count);
    else
        zr_narrow(to->dtype, total, count, dst);
}

// Chooses whether to stream the result. A large result would only push other data out of the cache,
// unless it is there already because it replaces a source.
static int choose_store(const zr_sum_target *to, const void *const *src, int ranks, int64_t count)
{
    bool large = bytes_of_elements(to->dtype, count) >= ZR_STREAM_FROM;
    for (int r = 0; r < ranks; r++)
        large = large && to->data != src[r];
    return to->adds ? STORE_ADDING : large ? STORE_STREAMING : STORE;
}

static void sum_all(const zr_sum_target *to, const sum_sources *sources, int ranks, int64_t count,
                    int threads)
{
    int64_t blocks = (count + BLOCK - 1) / BLOCK;
    int how = choose_store(to, sources->data, ranks, count);
#ifdef _OPENMP
#pragma omp parallel for schedule(static)                                                          \
    num_threads(ZR_MAX(threads, 1)) if (count >= PARALLEL_FROM)
#endif
    for (int64_t b = 0; b < blocks; b++)
        sum_and_store(to, sources, ranks, b * BLOCK, ZR_MIN(BLOCK, count - b * BLOCK), how);
}

void zr_tree_sum(const zr_sum_target *to, zero_dtype dtype, const void *const *src, int ranks,
                 int64_t count, int threads)
{
    sum_all(to, &(sum_sources){.dtype = dtype, .data = src}, ranks, count, threads);
}

void zr_tree_sum_blocks(const zr_sum_target *to, int bits, const void *const *src, int ranks,
                        int64_t count, int threads)
{
    assert(count % ZR_BLOCK == 0);
    sum_all(to, &(sum_sources){.bits = bits, .data = src}, ranks, count, threads);
}
