// Numbers in blocks (compute/block_ops.h), with ref's bits: products of codes and scales are exact
// in fp32. A warp has a block, eight elements a lane; a lane's codes are one word of 4 bits, or two
// of 8 bits, in which the first code is in the lowest bits (base/blocks.h).
#include "eights.h"

using namespace zr;

namespace {

constexpr int block_elements = 256; // ZR_BLOCK
constexpr uint32_t nan_bits = 0x7fc00000u;

struct part { // a lane's elements of a block, from i on, of which `left` are there: up to 8
    int64_t block, i;
    int left;
};

__device__ __forceinline__ int64_t blocks_of(int64_t n)
{
    return (n + block_elements - 1) / block_elements;
}

__device__ __forceinline__ part part_of(int64_t n, int64_t block)
{
    const int64_t i = block * block_elements + 8 * (threadIdx.x % 32), rest = n - i;
    return part{block, i, rest < 0 ? 0 : rest < 8 ? (int)rest : 8};
}

// The word of a block's scale; its codes follow.
__device__ __forceinline__ int64_t scale_word(int bits, int64_t block)
{
    return block * (1 + block_elements * bits / 32);
}

// The scale of a block whose largest magnitude, or NaN, has these bits: zr_block_scale.
__device__ __forceinline__ float scale_of(int bits, uint32_t largest)
{
    const float least = 0x1p-126f;
    if (largest >= 0x7f800000u)
        return float_of_bits(nan_bits);
    if (float_of_bits(largest) <= least / 2)
        return 0;
    const float step = float_of_bits(largest) / (bits == 8 ? 127.0f : 7.0f),
                scale = float_of_bits(bits_of_float(step) & ~0x7fu);
    return scale > least ? scale : least;
}

// The scale of the block that a warp has.
__device__ __forceinline__ float find_scale(int bits, const float x[8])
{
    uint32_t largest = 0;
    for (int k = 0; k < 8; k++) {
        const uint32_t size = bits_of_float(x[k]) & 0x7fffffffu;
        largest = size > largest ? size : largest;
    }
    for (int with = 16; with > 0; with /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, largest, with);
        largest = other > largest ? other : largest;
    }
    return scale_of(bits, largest);
}

__device__ __forceinline__ float reciprocal_of(float scale) { return scale > 0 ? 1 / scale : 0; }

// What a code stands for. Of a block that is not finite all have the bits of its scale, which a
// product would not have on every processor.
__device__ __forceinline__ float element_of(int code, float scale)
{
    return scale == scale ? (float)code * scale : scale;
}

// How many words the codes of `left` elements take, up to a multiple of four bytes.
__device__ __forceinline__ int words_of(int bits, int left) { return (left * bits + 31) / 32; }

__device__ __forceinline__ void store_codes(uint32_t *to, int bits, int left, const int code[8])
{
    uint32_t low = 0, high = 0;
    for (int k = 0; k < 8; k++) {
        if (bits == 4)
            low |= ((uint32_t)code[k] & 15) << 4 * k;
        else if (k < 4)
            low |= ((uint32_t)code[k] & 255) << 8 * k;
        else
            high |= ((uint32_t)code[k] & 255) << 8 * (k - 4);
    }
    if (words_of(bits, left) > 0)
        to[0] = low;
    if (words_of(bits, left) > 1)
        to[1] = high;
}

__device__ __forceinline__ void load_codes(const uint32_t *from, int bits, int left, int code[8])
{
    const uint32_t low = words_of(bits, left) > 0 ? from[0] : 0,
                   high = words_of(bits, left) > 1 ? from[1] : 0;
    for (int k = 0; k < 8; k++)
        code[k] = bits == 4 ? (int)(low << 4 * (7 - k)) >> 28
                            : (int)((k < 4 ? low : high) << 8 * (3 - k % 4)) >> 24;
}

// Encodes x, and moves the carry towards what is lost. Nothing of a block that is not finite is.
__device__ __forceinline__ void encode(const zr_blocks_encode_args &a, float scale,
                                       const float x[8], float carry[8], int code[8])
{
    const float inverse = reciprocal_of(scale);
    const bool finite = scale == scale;
    for (int k = 0; k < 8; k++) {
        code[k] = finite ? (int)rintf(x[k] * inverse) : 0;
        const float lost = x[k] - (float)code[k] * scale;
        if (a.carry && finite)
            carry[k] = (float)((double)a.keep * carry[k] + (double)a.take * lost);
    }
}

} // namespace

ZR_GLOBAL_HELD(blocks_encode, 256, 5)
{
    const bool whole = are_whole(a.source, a.carry);
    for (int64_t b = thread_number() / 32; b < blocks_of(a.n); b += thread_count() / 32) {
        const part at = part_of(a.n, b);
        float x[8], carry[8] = {};
        int code[8];
        load_some(a.source, a.type, at.i, at.left, whole, x);
        if (a.carry)
            load_some(a.carry, ZR_TYPE_F32, at.i, at.left, whole, carry);
        for (int k = 0; k < 8 && a.carry; k++)
            x[k] += carry[k];
        const float scale = find_scale(a.bits, x);
        uint32_t *to = a.encoded + scale_word(a.bits, b);
        encode(a, scale, x, carry, code);
        if (threadIdx.x % 32 == 0)
            to[0] = bits_of_float(scale);
        store_codes(to + 1 + threadIdx.x % 32 * (a.bits / 4), a.bits, at.left, code);
        if (a.carry)
            store_some(a.carry, ZR_TYPE_F32, at.i, at.left, whole, carry);
    }
}

ZR_GLOBAL(blocks_decode, 256)
{
    const bool whole = is_aligned(a.out);
    for (int64_t b = thread_number() / 32; b < blocks_of(a.n); b += thread_count() / 32) {
        const part at = part_of(a.n, b);
        const uint32_t *from = a.encoded + scale_word(a.bits, b);
        const float scale = float_of_bits(from[0]);
        float out[8] = {};
        int code[8];
        load_codes(from + 1 + threadIdx.x % 32 * (a.bits / 4), a.bits, at.left, code);
        if (a.adds)
            load_some(a.out, a.type, at.i, at.left, whole, out);
        for (int k = 0; k < 8; k++) {
            const float element = element_of(code[k], scale);
            out[k] = a.adds ? out[k] + element : element;
        }
        store_some(a.out, a.type, at.i, at.left, whole, out);
    }
}

ZR_GLOBAL(blocks_round, 256)
{
    const bool whole = are_whole(a.source, a.out);
    for (int64_t b = thread_number() / 32; b < blocks_of(a.n); b += thread_count() / 32) {
        const part at = part_of(a.n, b);
        float x[8];
        load_some(a.source, ZR_TYPE_F32, at.i, at.left, whole, x);
        const float scale = find_scale(a.bits, x), inverse = reciprocal_of(scale);
        for (int k = 0; k < 8; k++) // + 0: -0 becomes 0
            x[k] = scale == scale ? rintf(x[k] * inverse) * scale + 0.0f : float_of_bits(nan_bits);
        store_some(a.out, a.type, at.i, at.left, whole, x);
    }
}
