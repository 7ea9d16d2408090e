// How numbers in blocks lie in memory: blocks of ZR_BLOCK elements; the last one may be shorter.
// compute/block_ops.h makes them. A block begins at a multiple of 4 bytes:
//
//   float scale   an element is its code times its block's scale
//   codes         8 bits: a byte each; 4 bits: two a byte, the first in the low half. Both are
//                 signed. Zeros follow, up to a multiple of 4 bytes.
#ifndef ZR_BASE_BLOCKS_H
#define ZR_BASE_BLOCKS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { ZR_BLOCK = 256, ZR_BLOCK_SCALE_BYTES = sizeof(float) };

static inline int64_t zr_block_count(int64_t n) { return (n + ZR_BLOCK - 1) / ZR_BLOCK; }
// Returns the bytes of n codes, without the zeros after them.
static inline int64_t zr_block_code_bytes(int bits, int64_t n) { return (n * bits + 7) / 8; }
// Returns the bytes from one block to the next.
static inline int64_t zr_block_stride(int bits)
{
    return ZR_BLOCK_SCALE_BYTES + ZR_BLOCK * bits / 8;
}
static inline int64_t zr_block_bytes(int bits, int64_t n) // of n encoded elements
{
    int64_t rest = n % ZR_BLOCK;
    return n / ZR_BLOCK * zr_block_stride(bits) +
           (rest ? ZR_BLOCK_SCALE_BYTES + (zr_block_code_bytes(bits, rest) + 3) / 4 * 4 : 0);
}
// Returns the scale (compute/block_ops.h) of a block whose largest magnitude, or NaN, has these
// bits.
static inline float zr_block_scale(int bits, uint32_t largest)
{
    const uint32_t infinity = 0x7f800000, exact = ~0x7fu;
    float scale, least = 0x1p-126f;
    memcpy(&scale, &largest, sizeof scale);
    if (largest >= infinity)
        return NAN;
    if (scale <= least / 2)
        return 0;
    scale /= bits == 8 ? 127 : 7;
    memcpy(&largest, &scale, sizeof scale);
    largest &= exact;
    memcpy(&scale, &largest, sizeof scale);
    return scale > least ? scale : least;
}
// Returns what elements of that block are multiplied by.
static inline float zr_block_reciprocal(float scale) { return scale > 0 ? 1 / scale : 0; }

#endif
