// Storage types: their sizes, their names, and conversions that round to nearest even. The tests
// hold dtype_range.c and compute/cpu against these.
#include "base/dtype.h"

#include <math.h>
#include <string.h>

typedef struct dtype_row {
    const char *name;
    size_t bytes;
} dtype_row;

static const dtype_row dtypes[] = {
    [ZERO_F32] = {"f32", 4}, [ZERO_BF16] = {"bf16", 2}, [ZERO_F16] = {"f16", 2},
    [ZERO_I32] = {"i32", 4}, [ZERO_I64] = {"i64", 8},   [ZERO_F64] = {"f64", 8},
    [ZERO_U8] = {"u8", 1},
};

static bool is_known_dtype(zero_dtype dtype)
{
    return (int)dtype >= 0 && (int)dtype < ZR_COUNT(dtypes);
}

const char *zr_dtype_name(zero_dtype dtype)
{
    return is_known_dtype(dtype) ? dtypes[dtype].name : "unknown";
}

size_t zero_dtype_bytes(zero_dtype dtype)
{
    return is_known_dtype(dtype) ? dtypes[dtype].bytes : 0;
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float zr_bf16_to_f32(uint16_t bits) { return bits_float((uint32_t)bits << 16); }

uint16_t zr_f32_to_bf16(float value)
{
    uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); // NaN: made quiet, its sign kept
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float zr_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t magnitude = bits & 0x7fff;
    if (magnitude < 0x400) { // zero and subnormals: magnitude x 2^-24, exact
        float value = (float)magnitude * 0x1p-24f;
        return bits_float(float_bits(value) | sign);
    }
    if (magnitude > 0x7c00) // NaN: made quiet, as the processor's own instruction does
        return bits_float(sign | 0x7fc00000 | (magnitude & 0x3ff) << 13);
    if (magnitude == 0x7c00)
        return bits_float(sign | 0x7f800000);
    return bits_float(sign | ((magnitude << 13) + ((127 - 15) << 23)));
}

// Returns bits >> shift, rounded to nearest even.
static uint32_t shift_rounded(uint32_t bits, int shift)
{
    uint32_t half = (uint32_t)1 << (shift - 1);
    return (bits + half - 1 + (bits >> shift & 1)) >> shift;
}

uint16_t zr_f32_to_f16(float value)
{
    uint32_t bits = float_bits(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) // 65520 and above round to infinity
        return sign | 0x7c00;
    // From 2^-14 on the result is normal; a carry out of the mantissa raises the exponent, as it
    // should.
    if (magnitude >= 0x38800000)
        return (uint16_t)(sign | shift_rounded(magnitude - ((127 - 15) << 23), 13));
    if (magnitude < 0x33000000) // below 2^-25: 0
        return sign;
    uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    return (uint16_t)(sign | shift_rounded(mantissa, 126 - (int)(magnitude >> 23)));
}

int64_t zr_f16_overflows(const float *values, int64_t count)
{
    const float most = 65520; // from here on numbers round to infinity in fp16
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        found += isfinite(values[i]) && fabsf(values[i]) >= most;
    return found;
}

int64_t zr_tensor_elements(const zero_tensor *tensor)
{
    int64_t elements = 1;
    for (int i = 0; i < tensor->dims; i++)
        elements *= tensor->shape[i];
    return elements;
}

size_t zr_tensor_bytes(const zero_tensor *tensor)
{
    return (size_t)zr_tensor_elements(tensor) * zero_dtype_bytes(tensor->dtype);
}
