// Numbers in blocks, as the quantised exchanges of ZeRO++ (arXiv 2306.10209) send them: a code of 8
// or 4 bits an element, and a scale for each block of ZR_BLOCK elements; the last block may be
// shorter. compute.h states what holds for all operations, op.h how they are declared.
//
// base/blocks.h says how they lie in memory.
//
// The scale is largest/127 (4 bits: largest/7), where largest is the block's largest magnitude, so
// that nothing is clamped: DeepSpeed divides by 128 (8), and takes a whole step from the largest
// value if it is positive; its mean error of 4 bits is a tenth less, that of 8 bits is the same.
// The code is the nearest whole number to x times 1/scale, ties to even, computed in fp32. Every
// backend and instruction set gives the same bits, because:
// - the last 7 bits of a scale's fraction are 0 (it is rounded towards 0), so code times scale is
//   exact in fp32, and multiply-adds change nothing;
// - a scale is at least 2^-126, or 0 where largest is at most half of that: neither it nor its
//   reciprocal is subnormal or overflows.
// So an element changes by at most half a step and 1/60000 of one (2^-127 where the scale is 0),
// and what was decoded gives the same bytes if it is encoded again, unless a 16-bit type has
// rounded it.
// A block with an infinity or a NaN has the scale NaN and codes 0: all of its elements become NaN.
// -0 becomes 0.
#ifndef ZR_COMPUTE_BLOCK_OPS_H
#define ZR_COMPUTE_BLOCK_OPS_H

#include "base/blocks.h"
#include "compute/operand.h"

typedef struct zr_blocks {
    int bits;         // of a code: 8 or 4
    zero_dtype dtype; // of the elements that are encoded, or of what they are decoded to
    int64_t n;
    float err_beta; // of the carry, from 0 to below 1
} zr_blocks;

// Encodes the source; or source + carry, where the carry holds what earlier rounding has lost
// (LoCo, arXiv 2407.04480, as DeepSpeed computes it). With x = source + carry and d = x - code
// times scale, both rounded to fp32, carry = err_beta carry + (1 - err_beta) d, rounded once. The
// carry of a block that is not finite stays as it is, so that it is always finite. It begins, and
// is reset, as zeros. NULL: there is none.
#define ZR_OPERANDS_blocks_encode(AT)                                                              \
    AT(source, const void *, ZR_READ, s->dtype, s->n)                                              \
    AT(carry, float *, ZR_BOTH, ZERO_F32, s->n)                                                    \
    AT(encoded, void *, ZR_WRITTEN, ZERO_U8, zr_block_bytes(s->bits, s->n))

// Any bytes can be decoded.
#define ZR_OPERANDS_blocks_decode(AT)                                                              \
    AT(encoded, const void *, ZR_READ, ZERO_U8, zr_block_bytes(s->bits, s->n))                     \
    AT(out, void *, ZR_WRITTEN, s->dtype, s->n)

// sums += the elements. Its bits are the same everywhere only for scales that blocks_encode makes.
#define ZR_OPERANDS_blocks_add(AT)                                                                 \
    AT(encoded, const void *, ZR_READ, ZERO_U8, zr_block_bytes(s->bits, s->n))                     \
    AT(sums, float *, ZR_BOTH, ZERO_F32, s->n)

// out = the elements that blocks_decode makes of what blocks_encode makes of the source without a
// carry.
#define ZR_OPERANDS_blocks_round(AT)                                                               \
    AT(source, const float *, ZR_READ, ZERO_F32, s->n)                                             \
    AT(out, void *, ZR_WRITTEN, s->dtype, s->n)

#define ZR_BLOCK_OPS(OP)                                                                           \
    OP(blocks_encode, blocks, element, 0, 0)                                                       \
    OP(blocks_decode, blocks, element, 0, 0)                                                       \
    OP(blocks_add, blocks, element, 0, 0)                                                          \
    OP(blocks_round, blocks, element, 0, 0)

#endif
