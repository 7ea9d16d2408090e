// Codes in four and eight bits. This file is compiled without fused multiply-adds, so that scales
// have the bits that bitsandbytes gives them.
#include "base/quantised.h"

#include "base/dtype.h"
#include "base/dynamic_map.h"
#include "base/errors.h"

#include <math.h>
#include <string.h>

const float zr_nf4_levels[ZR_NF4_LEVELS] = {
    -1.0f,         -0.6961928f, -0.52507305f, -0.3949175f, -0.28444138f, -0.18477343f,
    -0.091050036f, 0.0f,        0.0795803f,   0.1609302f,  0.2461123f,   0.33791524f,
    0.44070983f,   0.562617f,   0.72295684f,  1.0f,
};

static const char *const names[] = {
    [ZR_WEIGHT_PLAIN] = NULL, [ZR_WEIGHT_NF4] = "nf4", [ZR_WEIGHT_INT8] = "int8"};

const char *zr_weight_format_name(zr_weight_format format) { return names[format]; }

bool zr_weight_format_find(const char *name, zr_weight_format *out)
{
    for (int f = ZR_WEIGHT_NF4; f < ZR_COUNT(names); f++)
        if (!strcmp(name, names[f])) {
            *out = (zr_weight_format)f;
            return true;
        }
    return false;
}

int64_t zr_weight_row_scales(zr_weight_format format, int64_t in)
{
    return format == ZR_WEIGHT_NF4 ? in / ZR_NF4_BLOCK : 1;
}

int64_t zr_weight_code_bytes(zr_weight_format format, int64_t in)
{
    return format == ZR_WEIGHT_NF4 ? in / 2 : in;
}

int64_t zr_weight_scale_bytes(zr_weight_format format, int64_t in)
{
    return format == ZR_WEIGHT_NF4 ? in / ZR_NF4_BLOCK : (int64_t)sizeof(float);
}

static int64_t groups_of(int64_t scales) { return (scales + ZR_NF4_GROUP - 1) / ZR_NF4_GROUP; }

int64_t zr_weight_shared_bytes(zr_weight_format format, int64_t out, int64_t in)
{
    if (format != ZR_WEIGHT_NF4)
        return 0;
    return (1 + groups_of(out * (in / ZR_NF4_BLOCK))) * (int64_t)sizeof(float);
}

// ---- nf4

static float largest_magnitude(const float *values, int64_t count)
{
    float largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fabsf(values[i]) > largest ? fabsf(values[i]) : largest;
    return largest;
}

float zr_nf4_scale(const float *block) { return largest_magnitude(block, ZR_NF4_BLOCK); }

// The level of a value is the number of points half way between two levels that lie below it.
void zr_nf4_encode(const float *block, uint8_t *codes)
{
    float by = 1 / fmaxf(zr_nf4_scale(block), 1e-38f);
    int32_t level[ZR_NF4_BLOCK] = {0};
    for (int l = 0; l + 1 < ZR_NF4_LEVELS; l++) {
        float border = (zr_nf4_levels[l] + zr_nf4_levels[l + 1]) / 2;
        for (int i = 0; i < ZR_NF4_BLOCK; i++)
            level[i] += border < block[i] * by;
    }
    for (int i = 0; i < ZR_NF4_BLOCK; i += 2)
        codes[i / 2] = (uint8_t)(level[i] << 4 | level[i + 1]);
}

// bitsandbytes looks a value up by the nearest of 65,536 points in [-1, 1], for each of which it
// knows the nearest code.
static uint8_t code_of_scale(float value)
{
    const int last = 65535;
    float held = fminf(fmaxf(value, -1), 1);
    int point = (uint16_t)((held + 1) * 0.5f * (float)last + 0.5f);
    float of_point = -1 + 2 * (float)point / (float)last;
    return zr_dynamic_code(zr_signed_map, of_point);
}

void zr_nf4_encode_scales(const float *scales, int64_t count, uint8_t *codes, float *shared)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += scales[i];
    shared[0] = count ? (float)(sum / (double)count) : 0;
    for (int64_t g = 0; g < groups_of(count); g++) {
        int64_t first = g * ZR_NF4_GROUP, n = ZR_MIN(count - first, (int64_t)ZR_NF4_GROUP);
        float less[ZR_NF4_GROUP];
        for (int64_t i = 0; i < n; i++)
            less[i] = scales[first + i] - shared[0];
        float largest = shared[1 + g] = largest_magnitude(less, n), by = 1 / largest;
        for (int64_t i = 0; i < n; i++)
            codes[first + i] = largest > 0 ? code_of_scale(less[i] * by) : 0;
    }
}

void zr_nf4_decode_scales(const uint8_t *codes, const float *shared, int64_t first, int64_t count,
                          float *scales)
{
    for (int64_t i = 0; i < count; i++)
        scales[i] = zr_signed_map[codes[i]] * shared[1 + (first + i) / ZR_NF4_GROUP] + shared[0];
}

static void decode_nf4(const uint8_t *codes, const float *scales, int64_t first, int64_t count,
                       float *out)
{
    for (int64_t i = first; i < first + count; i++) {
        int level = i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
        *out++ = zr_nf4_levels[level] * scales[i / ZR_NF4_BLOCK];
    }
}

// ---- int8

float zr_int8_encode(const float *row, int64_t in, int8_t *codes)
{
    float largest = 0;
    for (int64_t i = 0; i < in; i++)
        largest = fmaxf(largest, fabsf(zr_f16_to_f32(zr_f32_to_f16(row[i]))));
    float by = largest > 0 ? 1 / largest * 127 : 0; // as torch divides a number by a tensor
    for (int64_t i = 0; i < in; i++)
        codes[i] = (int8_t)rintf(zr_f16_to_f32(zr_f32_to_f16(row[i])) * by);
    return largest;
}

static void decode_int8(const int8_t *codes, float scale, int64_t first, int64_t count, float *out)
{
    float by = scale * (1.0f / 127);
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)codes[first + i] * by;
}

void zr_weight_decode(zr_weight_format format, const void *codes, const float *scales,
                      int64_t first, int64_t count, float *out)
{
    if (format == ZR_WEIGHT_NF4)
        decode_nf4(codes, scales, first, count, out);
    else
        decode_int8(codes, scales[0], first, count, out);
}
