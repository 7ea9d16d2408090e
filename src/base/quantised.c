// Codes in four and eight bits. This file is compiled without fused multiply-adds, so that scales
// have the bits that bitsandbytes gives them.
#include "base/quantised.h"

#include "base/dtype.h"
#include "base/errors.h"

#include <math.h>
#include <string.h>

const float zr_nf4_levels[ZR_NF4_LEVELS] = {
    -1.0f,         -0.6961928f, -0.52507305f, -0.3949175f, -0.28444138f, -0.18477343f,
    -0.091050036f, 0.0f,        0.0795803f,   0.1609302f,  0.2461123f,   0.33791524f,
    0.44070983f,   0.562617f,   0.72295684f,  1.0f,
};

// The dynamic map of 8 bits (arXiv 1511.04561), with bitsandbytes' values.
const float zr_nf4_map[ZR_NF4_MAP] = {
    -0.99296874f,    -0.9789063f,     -0.96484375f,    -0.9507812f,
    -0.93671876f,    -0.92265624f,    -0.9085938f,     -0.89453125f,
    -0.8804687f,     -0.86640626f,    -0.85234374f,    -0.8382813f,
    -0.82421875f,    -0.8101562f,     -0.79609376f,    -0.78203124f,
    -0.7679688f,     -0.75390625f,    -0.7398437f,     -0.72578126f,
    -0.7117188f,     -0.6976563f,     -0.68359375f,    -0.6695312f,
    -0.65546876f,    -0.6414063f,     -0.6273438f,     -0.61328125f,
    -0.5992187f,     -0.58515626f,    -0.5710938f,     -0.5570313f,
    -0.54296875f,    -0.5289062f,     -0.5148437f,     -0.50078124f,
    -0.4867187f,     -0.47265625f,    -0.45859373f,    -0.44453126f,
    -0.43046874f,    -0.41640624f,    -0.40234375f,    -0.38828123f,
    -0.37421876f,    -0.36015624f,    -0.34609374f,    -0.33203125f,
    -0.31796873f,    -0.30390626f,    -0.28984374f,    -0.27578127f,
    -0.26171875f,    -0.24765624f,    -0.23359375f,    -0.21953125f,
    -0.20546874f,    -0.19140625f,    -0.17734376f,    -0.16328125f,
    -0.14921875f,    -0.13515624f,    -0.12109375f,    -0.107031256f,
    -0.09859375f,    -0.09578126f,    -0.092968754f,   -0.09015625f,
    -0.08734375f,    -0.08453125f,    -0.08171876f,    -0.07890625f,
    -0.07609375f,    -0.07328125f,    -0.070468746f,   -0.067656256f,
    -0.06484375f,    -0.06203125f,    -0.059218753f,   -0.05640625f,
    -0.05359375f,    -0.05078125f,    -0.04796875f,    -0.04515625f,
    -0.042343747f,   -0.03953125f,    -0.036718752f,   -0.03390625f,
    -0.03109375f,    -0.028281251f,   -0.02546875f,    -0.02265625f,
    -0.019843752f,   -0.01703125f,    -0.01421875f,    -0.01140625f,
    -0.00971875f,    -0.009156249f,   -0.00859375f,    -0.00803125f,
    -0.00746875f,    -0.00690625f,    -0.00634375f,    -0.00578125f,
    -0.0052187503f,  -0.0046562497f,  -0.00409375f,    -0.0035312497f,
    -0.00296875f,    -0.00240625f,    -0.00184375f,    -0.0012812499f,
    -0.0009437501f,  -0.00083125f,    -0.00071875006f, -0.0006062501f,
    -0.00049375003f, -0.00038125002f, -0.00026875004f, -0.00015625001f,
    -8.875e-05f,     -6.625e-05f,     -4.375e-05f,     -2.1249998e-05f,
    -7.75e-06f,      -3.2500002e-06f, -5.5000004e-07f, 0.0f,
    5.5000004e-07f,  3.2500002e-06f,  7.75e-06f,       2.1249998e-05f,
    4.375e-05f,      6.625e-05f,      8.875e-05f,      0.00015625001f,
    0.00026875004f,  0.00038125002f,  0.00049375003f,  0.0006062501f,
    0.00071875006f,  0.00083125f,     0.0009437501f,   0.0012812499f,
    0.00184375f,     0.00240625f,     0.00296875f,     0.0035312497f,
    0.00409375f,     0.0046562497f,   0.0052187503f,   0.00578125f,
    0.00634375f,     0.00690625f,     0.00746875f,     0.00803125f,
    0.00859375f,     0.009156249f,    0.00971875f,     0.01140625f,
    0.01421875f,     0.01703125f,     0.019843752f,    0.02265625f,
    0.02546875f,     0.028281251f,    0.03109375f,     0.03390625f,
    0.036718752f,    0.03953125f,     0.042343747f,    0.04515625f,
    0.04796875f,     0.05078125f,     0.05359375f,     0.05640625f,
    0.059218753f,    0.06203125f,     0.06484375f,     0.067656256f,
    0.070468746f,    0.07328125f,     0.07609375f,     0.07890625f,
    0.08171876f,     0.08453125f,     0.08734375f,     0.09015625f,
    0.092968754f,    0.09578126f,     0.09859375f,     0.107031256f,
    0.12109375f,     0.13515624f,     0.14921875f,     0.16328125f,
    0.17734376f,     0.19140625f,     0.20546874f,     0.21953125f,
    0.23359375f,     0.24765624f,     0.26171875f,     0.27578127f,
    0.28984374f,     0.30390626f,     0.31796873f,     0.33203125f,
    0.34609374f,     0.36015624f,     0.37421876f,     0.38828123f,
    0.40234375f,     0.41640624f,     0.43046874f,     0.44453126f,
    0.45859373f,     0.47265625f,     0.4867187f,      0.50078124f,
    0.5148437f,      0.5289062f,      0.54296875f,     0.5570313f,
    0.5710938f,      0.58515626f,     0.5992187f,      0.61328125f,
    0.6273438f,      0.6414063f,      0.65546876f,     0.6695312f,
    0.68359375f,     0.6976563f,      0.7117188f,      0.72578126f,
    0.7398437f,      0.75390625f,     0.7679688f,      0.78203124f,
    0.79609376f,     0.8101562f,      0.82421875f,     0.8382813f,
    0.85234374f,     0.86640626f,     0.8804687f,      0.89453125f,
    0.9085938f,      0.92265624f,     0.93671876f,     0.9507812f,
    0.96484375f,     0.9789063f,      0.99296874f,     1.0f,
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
    int low = 0, high = ZR_NF4_MAP - 1; // the first code whose upper border is not below the point
    while (low < high) {
        int middle = (low + high) / 2;
        if (0.5f * (zr_nf4_map[middle] + zr_nf4_map[middle + 1]) < of_point)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint8_t)low;
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
        scales[i] = zr_nf4_map[codes[i]] * shared[1 + (first + i) / ZR_NF4_GROUP] + shared[0];
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
