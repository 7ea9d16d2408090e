// Storage types: every 16-bit pattern there and back, and rounding against the definition.
#include "scratch.h"

#include "base/dtype.h"
#include "base/random.h"
#include <math.h>

static void names_and_sizes(void **state)
{
    static const struct {
        zero_dtype dtype;
        const char *name;
        size_t bytes;
    } rows[] = {{ZERO_F32, "f32", 4}, {ZERO_BF16, "bf16", 2}, {ZERO_F16, "f16", 2}, {ZERO_I32, "i32", 4},
                {ZERO_I64, "i64", 8}, {ZERO_F64, "f64", 8},   {ZERO_U8, "u8", 1}};
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        assert_string_equal(zr_dtype_name(rows[i].dtype), rows[i].name);
        assert_int_equal(zero_dtype_bytes(rows[i].dtype), rows[i].bytes);
    }
    assert_int_equal(zero_dtype_bytes((zero_dtype)99), 0);
    zero_tensor tensor = {.dtype = ZERO_BF16, .dims = 3, .shape = {2, 3, 5}};
    assert_int_equal(zr_tensor_elements(&tensor), 30);
    assert_int_equal(zr_tensor_bytes(&tensor), 60);
    tensor.dims = 0;
    assert_int_equal(zr_tensor_elements(&tensor), 1);
}

// The value of a 16-bit pattern by the definition of the format.
static double value_of(uint16_t bits, int exponent_bits)
{
    int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
    int mantissa = bits & ((1 << mantissa_bits) - 1);
    double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1)
        return mantissa ? NAN : sign * INFINITY;
    if (!exponent)
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

typedef struct format {
    int exponent_bits;
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
} format;

static const format formats[] = {
    {.exponent_bits = 8, .widen = zr_bf16_to_f32, .narrow = zr_f32_to_bf16},
    {.exponent_bits = 5, .widen = zr_f16_to_f32, .narrow = zr_f32_to_f16},
};

static void every_pattern_survives(void **state)
{
    for (int f = 0; f < ZR_COUNT(formats); f++) {
        for (int bits = 0; bits < 1 << 16; bits++) {
            double expected = value_of((uint16_t)bits, formats[f].exponent_bits);
            float wide = formats[f].widen((uint16_t)bits);
            uint16_t back = formats[f].narrow(wide);
            if (isnan(expected)) {
                assert_true(isnan(wide) && isnan(formats[f].widen(back)) && (back & 0x8000) == (bits & 0x8000));
            } else {
                assert_true(wide == expected && !signbit(wide) == !signbit(expected));
                assert_int_equal(back, bits);
            }
        }
    }
}

// A float between two neighbours a <= x < a + 1 pattern goes to the nearer one, a tie to the even pattern.
static void assert_nearest(const format *format, float x)
{
    uint16_t got = format->narrow(x) & 0x7fff;
    double magnitude = fabs((double)x);
    uint16_t below = got, above = got;
    if (value_of(got, format->exponent_bits) > magnitude)
        below--;
    else
        above++;
    double low = value_of(below, format->exponent_bits), high = value_of(above, format->exponent_bits);
    if (isinf(high)) // as far as the next step would be
        high = 2 * low - value_of((uint16_t)(below - 1), format->exponent_bits);
    assert_true(low <= magnitude && magnitude <= high);
    double to_low = magnitude - low, to_high = high - magnitude;
    uint16_t expected = to_low < to_high ? below : to_low > to_high ? above : below & 1 ? above : below;
    assert_int_equal(got, expected);
}

static void rounding_is_to_nearest_even(void **state)
{
    for (int f = 0; f < ZR_COUNT(formats); f++) {
        uint16_t infinity = formats[f].exponent_bits == 8 ? 0x7f80 : 0x7c00;
        for (uint16_t bits = 0; bits + 1 < infinity; bits++) {
            double low = formats[f].widen(bits), high = formats[f].widen((uint16_t)(bits + 1));
            float middle = (float)((low + high) / 2);
            assert_nearest(&formats[f], middle);
            assert_nearest(&formats[f], -nextafterf(middle, INFINITY));
            assert_nearest(&formats[f], nextafterf(middle, 0));
        }
    }
    for (uint64_t i = 0; i < 100000; i++) {
        uint32_t bits = zr_philox4x32(1, 2, i).v[0];
        float x;
        memcpy(&x, &bits, sizeof x);
        if (isfinite(x))
            assert_nearest(&formats[0], x);
        if (isfinite(x) && fabsf(x) < 65520.0f)
            assert_nearest(&formats[1], x);
    }
}

static void the_ends_of_the_ranges(void **state)
{
    assert_int_equal(zr_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(zr_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(zr_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(zr_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(zr_f32_to_f16(0x1.000002p-25f), 1);
    assert_int_equal(zr_f32_to_f16(-0.0f), 0x8000);
    assert_int_equal(zr_f32_to_f16(0x1p-149f), 0);
    assert_int_equal(zr_f32_to_bf16(3.4028235e38f), 0x7f80);
    assert_int_equal(zr_f32_to_bf16(INFINITY), 0x7f80);
    assert_int_equal(zr_f32_to_bf16(-0.0f), 0x8000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sizes),
        cmocka_unit_test(every_pattern_survives),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(the_ends_of_the_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
