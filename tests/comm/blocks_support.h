// Contributions and weights in blocks of codes (base/blocks.h), made of functions of their place:
// what they stand for is known without reading them.
#ifndef TESTS_COMM_BLOCKS_SUPPORT_H
#define TESTS_COMM_BLOCKS_SUPPORT_H

#include "base/blocks.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

static inline uint32_t draw_block_word(uint64_t of, int64_t i)
{
    return zr_philox4x32(of, 77, (uint64_t)i).v[0];
}

// A scale as blocks_encode makes them: its fraction's last 7 bits are 0; from 2^-10 to below 2^4.
static inline float block_scale_of(uint64_t of, int64_t block)
{
    uint32_t word = draw_block_word(of, -1 - block),
             bits = (117 + word % 14) << 23 | (word >> 8 & 0xffff) << 7;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

// Any code, also those that blocks_encode makes none of.
static inline int block_code_of(int bits, uint64_t of, int64_t i)
{
    return (int)(draw_block_word(of, i) % (1u << bits)) - (1 << (bits - 1));
}

static inline float block_value_of(int bits, uint64_t of, int64_t i)
{
    return (float)block_code_of(bits, of, i) * block_scale_of(of, i / ZR_BLOCK);
}

// Rounds the elements of a block as codes of so many bits have them, one at a time.
static inline void round_block(int bits, float *x)
{
    float largest = 0;
    for (int i = 0; i < ZR_BLOCK; i++)
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    float scale = largest / (bits == 8 ? 127 : 7);
    uint32_t of_scale;
    memcpy(&of_scale, &scale, sizeof scale);
    of_scale = of_scale >> 7 << 7;
    memcpy(&scale, &of_scale, sizeof scale);
    float inverse = scale > 0 ? 1 / scale : 0;
    for (int i = 0; i < ZR_BLOCK; i++) {
        float quotient = x[i] * inverse;
        x[i] = nearbyintf(quotient) * scale;
    }
}

// Writes elements `first` on of those that `of` names; elems: a multiple of ZR_BLOCK.
static inline void write_blocks(int bits, uint64_t of, int64_t first, int64_t elems, void *to)
{
    unsigned char *block = to;
    for (int64_t i = first; i < first + elems; i += ZR_BLOCK, block += zr_block_stride(bits)) {
        float scale = block_scale_of(of, i / ZR_BLOCK);
        memcpy(block, &scale, sizeof scale);
        memset(block + ZR_BLOCK_SCALE_BYTES, 0, (size_t)(ZR_BLOCK * bits / 8));
        for (int e = 0; e < ZR_BLOCK; e++) {
            unsigned code = (unsigned)block_code_of(bits, of, i + e) & ((1u << bits) - 1);
            block[ZR_BLOCK_SCALE_BYTES + e * bits / 8] |=
                (unsigned char)(bits == 8 ? code : code << e % 2 * 4);
        }
    }
}

#endif
