// Numbers in blocks, one element at a time. Roundings to fp32 are part of the format (block_ops.h),
// so what is fp32 here is fp32 in every backend.
#include "compute/ref/ref.h"

typedef struct block { // of encoded elements
    int64_t first, count;
    float scale;
} block;

static void *scale_at(const zr_blocks *of, const void *encoded, int64_t k)
{
    return (char *)encoded + k * zr_block_stride(of->bits);
}

static block block_at(const zr_blocks *of, const void *encoded, int64_t k)
{
    block b = {.first = k * ZR_BLOCK, .count = ZR_MIN(of->n - k * ZR_BLOCK, ZR_BLOCK)};
    memcpy(&b.scale, scale_at(of, encoded, k), sizeof b.scale);
    return b;
}

// Returns where the code of element i is.
static uint8_t *code_byte(int bits, const void *encoded, int64_t i)
{
    return (uint8_t *)encoded + i / ZR_BLOCK * zr_block_stride(bits) + ZR_BLOCK_SCALE_BYTES +
           i % ZR_BLOCK * bits / 8;
}

static int code_at(int bits, const void *encoded, int64_t i)
{
    uint8_t byte = *code_byte(bits, encoded, i);
    if (bits == 8)
        return (int8_t)byte;
    int half = byte >> i % 2 * 4 & 15;
    return half < 8 ? half : half - 16;
}

// The bytes are zero before the first code is written to them.
static void write_code(int bits, void *encoded, int64_t i, int code)
{
    if (bits == 8)
        *code_byte(bits, encoded, i) = (uint8_t)code;
    else
        *code_byte(bits, encoded, i) |= (uint8_t)((code & 15) << i % 2 * 4);
}

static float element_of(const zr_blocks *of, const void *source, const float *carry, int64_t i)
{
    float x = (float)ref_get(of->dtype, source, i);
    return carry ? x + carry[i] : x;
}

static uint32_t largest_of(const zr_blocks *of, const void *source, const float *carry,
                           const block *b)
{
    uint32_t largest = 0;
    for (int64_t i = b->first; i < b->first + b->count; i++) {
        float x = fabsf(element_of(of, source, carry, i));
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        largest = ZR_MAX(largest, bits);
    }
    return largest;
}

static void encode_block(const zr_blocks *of, const void *source, float *carry, const block *b,
                         void *encoded)
{
    const float inverse = zr_block_reciprocal(b->scale), fresh = 1 - of->err_beta;
    for (int64_t i = b->first; i < b->first + b->count && !isnan(b->scale); i++) {
        float x = element_of(of, source, carry, i), quotient = x * inverse;
        int code = (int)nearbyintf(quotient);
        write_code(of->bits, encoded, i, code);
        float lost = (float)(x - (double)code * b->scale);
        if (carry)
            carry[i] = (float)((double)of->err_beta * carry[i] + (double)fresh * lost);
    }
}

void zr_ref_blocks_encode(zr_queue *queue, const zr_blocks *blocks, const void *source,
                          float *carry, void *encoded)
{
    memset(encoded, 0, (size_t)zr_block_bytes(blocks->bits, blocks->n));
    for (int64_t k = 0; k < zr_block_count(blocks->n); k++) {
        block b = block_at(blocks, encoded, k);
        b.scale = zr_block_scale(blocks->bits, largest_of(blocks, source, carry, &b));
        memcpy(scale_at(blocks, encoded, k), &b.scale, sizeof b.scale);
        encode_block(blocks, source, carry, &b, encoded);
    }
}

void zr_ref_blocks_decode(zr_queue *queue, const zr_blocks *blocks, const void *encoded, void *out)
{
    for (int64_t k = 0; k < zr_block_count(blocks->n); k++) {
        const block b = block_at(blocks, encoded, k);
        for (int64_t i = b.first; i < b.first + b.count; i++)
            ref_put(blocks->dtype, out, i, (float)code_at(blocks->bits, encoded, i) * b.scale);
    }
}

void zr_ref_blocks_add(zr_queue *queue, const zr_blocks *blocks, const void *encoded, float *sums)
{
    for (int64_t k = 0; k < zr_block_count(blocks->n); k++) {
        const block b = block_at(blocks, encoded, k);
        for (int64_t i = b.first; i < b.first + b.count; i++)
            sums[i] = (float)(sums[i] + (double)code_at(blocks->bits, encoded, i) * b.scale);
    }
}

void zr_ref_blocks_round(zr_queue *queue, const zr_blocks *blocks, const float *source, void *out)
{
    zr_blocks wide = *blocks;
    wide.dtype = ZERO_F32;
    for (int64_t k = 0; k < zr_block_count(blocks->n); k++) {
        block b = {.first = k * ZR_BLOCK, .count = ZR_MIN(blocks->n - k * ZR_BLOCK, ZR_BLOCK)};
        b.scale = zr_block_scale(blocks->bits, largest_of(&wide, source, NULL, &b));
        const float inverse = zr_block_reciprocal(b.scale);
        for (int64_t i = b.first; i < b.first + b.count; i++) {
            float quotient = source[i] * inverse;
            ref_put(blocks->dtype, out, i,
                    isnan(b.scale) ? NAN : nearbyintf(quotient) * b.scale + 0.0f);
        }
    }
}
