// CUDA's words for kernels that a C++ compiler builds for the CPU: qualifiers, indices, barriers,
// shuffles, atomics, mma.sync. It is included before the text of a kernel. Only what kernels of
// this tree use is here. Threads are fibers of simt_block.h, so an atomic is a plain one, and
// shared memory is static.
#ifndef ZR_SIMT_H
#define ZR_SIMT_H

#include "simt_launch.h"

#include <cmath>
#include <cstring>

#define __global__
#define __device__
#define __shared__ static
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

struct __align__(8) uint2 { unsigned x, y; };
struct __align__(16) uint4 { unsigned x, y, z, w; };

#define threadIdx (simt::running->self().index)
#define blockIdx (simt::running->index)
#define blockDim (simt::running->shape)
#define gridDim (simt::running->grid)
#define SIMT_SITE(what) (simt::site{what, __LINE__})

#define __syncthreads() simt::sync_block(SIMT_SITE("the barrier"))
#define __syncwarp() simt::sync_warp(SIMT_SITE("__syncwarp"))
#define __shfl_xor_sync(mask, value, with)                                                         \
    simt::shuffle(mask, value, simt::lane() ^ (with), SIMT_SITE("__shfl_xor_sync"))
#define __shfl_down_sync(mask, value, by)                                                          \
    simt::shuffle(mask, value, simt::lane() + (by), SIMT_SITE("__shfl_down_sync"))
#define __shfl_sync(mask, value, lane) simt::shuffle(mask, value, lane, SIMT_SITE("__shfl_sync"))
#define __ballot_sync(mask, says_so) simt::ballot(mask, says_so, SIMT_SITE("__ballot_sync"))
#define mma_16816(d, a, b) simt::multiply_16816(d, a, b, SIMT_SITE("mma.sync"))

inline void sincospi(double half_turns, double *sine, double *cosine)
{
    *sine = std::sin(M_PI * half_turns);
    *cosine = std::cos(M_PI * half_turns);
}

namespace simt {

inline unsigned lane() { return running->self().lane; }

inline void sync_warp(site where)
{
    const unsigned threads = running->warps[running->self().warp].threads;
    const uint32_t nothing = 0;
    exchange(threads == warp_size ? ~0u : (1u << threads) - 1, &nothing, 1, where);
}

// The value of another lane; one's own where there is no such lane.
template <class T> T shuffle(uint32_t mask, T value, unsigned from, site where)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint32_t words[2] = {};
    memcpy(words, &value, sizeof value);
    const lane_words *all = exchange(mask, words, 2, where);
    const unsigned lanes = running->warps[running->self().warp].threads;
    memcpy(&value, all[from < lanes ? from : lane()], sizeof value);
    return value;
}

// A bit for each lane, set where that lane says so.
inline uint32_t ballot(uint32_t mask, bool says_so, site where)
{
    const uint32_t mine = says_so;
    const lane_words *all = exchange(mask, &mine, 1, where);
    uint32_t bits = 0;
    for (unsigned i = 0; i < running->warps[running->self().warp].threads; i++)
        bits |= all[i][0] << i;
    return bits;
}

// One of the two bf16 in a word.
inline float half_of(uint32_t word, unsigned which)
{
    uint32_t bits = word >> 16 * which << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// mma.sync.m16n8k16 of bf16 with sums in fp32. By the PTX manual, lane 4 group + pair has:
//   a   the words of rows group and group + 8, columns 2 pair and 2 pair + 8
//   b   those of its column group, rows 2 pair and 2 pair + 8
//   d   rows group and group + 8, columns 2 pair and 2 pair + 1
inline void multiply_16816(float *d, const uint32_t *a, const uint32_t *b, site where)
{
    const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    const lane_words *all = exchange(~0u, mine, 6, where);
    const unsigned group = lane() / 4, pair = lane() % 4;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned row = group + 8 * (i / 2), column = 2 * pair + i % 2;
        float sum = 0;
        for (unsigned k = 0; k < 16; k++) {
            const unsigned owner = k % 8 / 2, high = k / 8;
            sum += half_of(all[row % 8 * 4 + owner][row / 8 + 2 * high], k % 2) *
                   half_of(all[column * 4 + owner][4 + high], k % 2);
        }
        d[i] += sum;
    }
}

} // namespace simt

template <class T> T atomicAdd(T *at, T more)
{
    T old = *at;
    *at += more;
    return old;
}

inline int __popc(uint32_t bits) { return __builtin_popcount(bits); }
inline float __expf(float x) { return expf(x); }

inline uint32_t __float_as_uint(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }

inline float __uint_as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

inline long long __double_as_longlong(double value)
{
    long long bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// The conversions of kernel.h, which a card has as instructions.
inline float zr_half_to_float(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;
    if (rest >= 0x7c00) // infinities and NaNs
        return __uint_as_float(sign | 0x7f800000u | (rest & 0x3ff) << 13);
    const float scaled = __uint_as_float(rest << 13) * 0x1p112f;
    return __uint_as_float(sign | __float_as_uint(scaled));
}

inline uint16_t zr_float_to_half(float value)
{
    const uint32_t bits = __float_as_uint(value), sign = bits >> 16 & 0x8000;
    const float size = fabsf(value);
    if (std::isnan(value))
        return 0x7fff;
    if (size >= 65520)
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x1p-14f) // a multiple of 2^-24, to nearest even
        return (uint16_t)(sign | (uint32_t)lrintf(size * 0x1p24f));
    const uint32_t rest = (bits & 0x7fffffff) - (112u << 23);
    return (uint16_t)(sign | (rest + 0xfff + (rest >> 13 & 1)) >> 13);
}

#include "simt_tiles.h"

#endif
