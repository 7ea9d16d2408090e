// How numbers in blocks lie in memory: blocks of ZR_BLOCK elements, the last of which may be shorter.
// compute/block_ops.h makes them. A block begins at a multiple of 4 bytes:
//
//   float scale   an element is its code times its block's scale
//   codes         8 bits: a byte each; 4 bits: two a byte, the first in the low half. Both are
//                 signed. Zeros follow, up to a multiple of 4 bytes.
#ifndef ZR_BASE_BLOCKS_H
#define ZR_BASE_BLOCKS_H

#include <stdint.h>

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

#endif
