// The one order in which ranks are summed (contract 3), blocked so that each source is read once and partial sums stay in L1.
//
//   sum(lo, n) = sum(lo, k) + sum(lo + k, n - k),  k the largest power of two below n:  ((0+1)+(2+3))+(4+5)
//
// Blocks are independent of each other and elements of their neighbours, so neither threads nor vectors change a bit.
// Every sum goes to a buffer of its own before dst is written: dst may be one of the sources.
#include "comm/comm.h"
#include "comm/copy.h"

#include <string.h>

#define BLOCK 1024           // floats
#define PARALLEL_FROM 131072 // floats: below, waking a team costs more than it brings

typedef const float *const *sources;

static void add_pair(float *restrict out, const float *restrict a, const float *restrict b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

static void add_four(float *restrict out, sources src, int64_t first, int64_t count)
{
    const float *restrict a = src[0] + first, *restrict b = src[1] + first;
    const float *restrict c = src[2] + first, *restrict d = src[3] + first;
    for (int64_t i = 0; i < count; i++)
        out[i] = (a[i] + b[i]) + (c[i] + d[i]);
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

// out(count) = sum over src[0..n) of elements first..first+count; at most 10 levels deep, a block each.
static void sum_block(float *restrict out, sources src, int n, int64_t first, int64_t count)
{
    if (n == 1) {
        memcpy(out, src[0] + first, sizeof *out * (size_t)count);
        return;
    }
    if (n == 2) {
        add_pair(out, src[0] + first, src[1] + first, count);
        return;
    }
    if (n == 4) {
        add_four(out, src, first, count);
        return;
    }
    int k = largest_power_below(n);
    sum_block(out, src, k, first, count);
    if (n == k + 1) {
        accumulate(out, src[k] + first, count);
        return;
    }
    float right[BLOCK];
    sum_block(right, src + k, n - k, first, count);
    accumulate(out, right, count);
}

enum { STORE, STORE_STREAMING, STORE_ADDING };

static void sum_and_store(float *dst, sources src, int ranks, int64_t first, int64_t count, int how)
{
    float total[BLOCK];
    size_t bytes = sizeof *dst * (size_t)count;
    sum_block(total, src, ranks, first, count);
    if (how == STORE_ADDING)
        accumulate(dst + first, total, count);
    else if (how == STORE_STREAMING)
        zr_comm_copy_streaming(dst + first, total, (int64_t)bytes);
    else
        memcpy(dst + first, total, bytes);
}

// A large result that is not in the cache already, as a source in whose place it goes is, would only push others out.
static int choose_store(const float *dst, sources src, int ranks, int64_t count, bool add)
{
    bool large = count * (int64_t)sizeof *dst >= ZR_STREAM_FROM;
    for (int r = 0; r < ranks; r++)
        large = large && dst != src[r];
    return add ? STORE_ADDING : large ? STORE_STREAMING : STORE;
}

void zr_tree_sum(float *dst, const float *const *src, int ranks, int64_t count, bool add, int threads)
{
    int64_t blocks = (count + BLOCK - 1) / BLOCK;
    int how = choose_store(dst, src, ranks, count, add);
#ifdef _OPENMP
#pragma omp parallel for schedule(static) num_threads(ZR_MAX(threads, 1)) if (count >= PARALLEL_FROM)
#endif
    for (int64_t b = 0; b < blocks; b++)
        sum_and_store(dst, src, ranks, b * BLOCK, ZR_MIN(BLOCK, count - b * BLOCK), how);
}
