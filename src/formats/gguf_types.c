// How GGUF stores elements, and ggml's quantisers of blocks, bit for bit.
#include "formats/gguf.h"

#include "base/dtype.h"

#include <math.h>
#include <string.h>

enum { HALF = ZR_GGUF_BLOCK / 2, SCALE = sizeof(uint16_t) };

static const zr_gguf_type types[] = {
    {"f32", 0, 0, 1, 4},
    {"f16", 1, 1, 1, 2},
    {"bf16", 30, 32, 1, 2},
    {"q8_0", 8, 7, ZR_GGUF_BLOCK, SCALE + ZR_GGUF_BLOCK},
    {"q4_0", 2, 2, ZR_GGUF_BLOCK, SCALE + HALF},
};
static const zero_dtype plain[] = {ZERO_F32, ZERO_F16, ZERO_BF16}; // the first rows
enum { Q8_0 = ZR_COUNT(plain) };

const zr_gguf_type *zr_gguf_type_at(int i) { return i < ZR_COUNT(types) ? &types[i] : NULL; }

const zr_gguf_type *zr_gguf_type_find(const char *name)
{
    for (int i = 0; i < ZR_COUNT(types); i++)
        if (!strcmp(types[i].name, name))
            return &types[i];
    return NULL;
}

const zr_gguf_type *zr_gguf_type_of(uint32_t code)
{
    for (int i = 0; i < ZR_COUNT(types); i++)
        if (types[i].code == code)
            return &types[i];
    return NULL;
}

int64_t zr_gguf_bytes(const zr_gguf_type *type, int64_t elements)
{
    return elements / type->block * type->bytes;
}

// Returns the element of the largest magnitude, the first of several; a NaN if there is one.
static float largest_of_block(const float *x)
{
    float largest = 0;
    for (int i = 0; i < ZR_GGUF_BLOCK; i++) {
        if (isnan(x[i]))
            return x[i];
        if (fabsf(x[i]) > fabsf(largest))
            largest = x[i];
    }
    return largest;
}

// Writes the scale, and *inverse: by what elements are multiplied, which is 0 where the scale, or
// what it becomes in fp16, is too small to have one.
static bool put_scale(float scale, unsigned char *out, float *inverse)
{
    uint16_t half = zr_f32_to_f16(scale);
    memcpy(out, &half, SCALE);
    *inverse = scale == 0 || isinf(1 / scale) ? 0 : 1 / scale;
    return isfinite(zr_f16_to_f32(half));
}

static bool encode_q8_0(const float *x, unsigned char *out)
{
    float inverse;
    if (!put_scale(fabsf(largest_of_block(x)) / 127, out, &inverse))
        return false;
    for (int i = 0; i < ZR_GGUF_BLOCK; i++)
        ((signed char *)out)[SCALE + i] = (signed char)roundf(x[i] * inverse);
    return true;
}

static unsigned nibble_of(float x, float inverse)
{
    return (unsigned)ZR_MIN(x * inverse + 8.5F, 15.0F);
}

static bool encode_q4_0(const float *x, unsigned char *out)
{
    float inverse;
    if (!put_scale(largest_of_block(x) / -8, out, &inverse))
        return false;
    for (int i = 0; i < HALF; i++)
        out[SCALE + i] =
            (unsigned char)(nibble_of(x[i], inverse) | nibble_of(x[i + HALF], inverse) << 4);
    return true;
}

bool zr_gguf_encode(const zr_gguf_type *type, const float *values, int64_t count, void *out)
{
    bool good = true;
    unsigned char *at = out;
    if (type - types < Q8_0) {
        zr_narrow(plain[type - types], values, count, out);
        return true;
    }
    for (int64_t i = 0; i < count && good; i += type->block, at += type->bytes)
        good = type - types == Q8_0 ? encode_q8_0(values + i, at) : encode_q4_0(values + i, at);
    return good;
}

static float scale_of_block(const unsigned char *in)
{
    uint16_t half;
    memcpy(&half, in, SCALE);
    return zr_f16_to_f32(half);
}

static void decode_q8_0(const unsigned char *in, float *x)
{
    float scale = scale_of_block(in);
    for (int i = 0; i < ZR_GGUF_BLOCK; i++)
        x[i] = (float)((const signed char *)in)[SCALE + i] * scale;
}

static void decode_q4_0(const unsigned char *in, float *x)
{
    float scale = scale_of_block(in);
    for (int i = 0; i < HALF; i++) {
        x[i] = scale * (float)((in[SCALE + i] & 15) - 8);
        x[i + HALF] = scale * (float)((in[SCALE + i] >> 4) - 8);
    }
}

void zr_gguf_decode(const zr_gguf_type *type, const void *in, int64_t count, float *values)
{
    const unsigned char *at = in;
    if (type - types < Q8_0) {
        zr_widen(plain[type - types], in, count, values);
        return;
    }
    for (int64_t i = 0; i < count; i += type->block, at += type->bytes)
        if (type - types == Q8_0)
            decode_q8_0(at, values + i);
        else
            decode_q4_0(at, values + i);
}
