// Storage types: every 16-bit pattern is converted there and back, rounding is compared with the
// definition, and ranges with single values.
#include "scratch_directory.h"

#include "base/dtype.h"
#include "base/random.h"
#include <math.h>

static void names_and_sizes(void **state)
{
    static const struct {
        zero_dtype dtype;
        const char *name;
        size_t bytes;
    } rows[] = {{ZERO_F32, "f32", 4}, {ZERO_BF16, "bf16", 2}, {ZERO_F16, "f16", 2},
                {ZERO_I32, "i32", 4}, {ZERO_I64, "i64", 8},   {ZERO_F64, "f64", 8},
                {ZERO_U8, "u8", 1}};
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        assert_string_equal(zr_dtype_name(rows[i].dtype), rows[i].name);
        assert_int_equal(zero_dtype_bytes(rows[i].dtype), rows[i].bytes);
        assert_int_equal(rows[i].dtype, i);
    }
    // The first that is none follows the last row, so that a new type needs a row here.
    const zero_dtype none = (zero_dtype)ZR_COUNT(rows);
    assert_int_equal(zero_dtype_bytes(none), 0);
    assert_string_equal(zr_dtype_name(none), "unknown");
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
                assert_true(isnan(wide) && isnan(formats[f].widen(back)) &&
                            (back & 0x8000) == (bits & 0x8000));
            } else {
                assert_true(wide == expected && !signbit(wide) == !signbit(expected));
                assert_int_equal(back, bits);
            }
        }
    }
}

// A float between two neighbours a <= x < a + 1 pattern goes to the nearer one, a tied weight to
// the even pattern.
static void assert_nearest(const format *format, float x)
{
    uint16_t got = format->narrow(x) & 0x7fff;
    double magnitude = fabs((double)x);
    uint16_t below = got, above = got;
    if (value_of(got, format->exponent_bits) > magnitude)
        below--;
    else
        above++;
    double low = value_of(below, format->exponent_bits),
           high = value_of(above, format->exponent_bits);
    if (isinf(high)) // as far as the next step would be
        high = 2 * low - value_of((uint16_t)(below - 1), format->exponent_bits);
    assert_true(low <= magnitude && magnitude <= high);
    double to_low = magnitude - low, to_high = high - magnitude;
    uint16_t expected = to_low < to_high   ? below
                        : to_low > to_high ? above
                        : below & 1        ? above
                                           : below;
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

// ---- ranges: bit by bit what single values give ----

typedef struct range_way {
    const char *name;
    bool f16;
    void (*widen)(zero_dtype dtype, const void *from, int64_t count, float *to);
    void (*narrow)(zero_dtype dtype, const float *from, int64_t count, void *to);
} range_way;

static const range_way range_ways[] = {
    {"bf16", false, zr_widen, zr_narrow},
    {"f16", true, zr_widen, zr_narrow},
    {"portable bf16", false, zr_widen_portable, zr_narrow_portable},
    {"portable f16", true, zr_widen_portable, zr_narrow_portable},
};

static void widen_range(const range_way *way, const void *from, int64_t count, void *to)
{
    way->widen(way->f16 ? ZERO_F16 : ZERO_BF16, from, count, to);
}

static void narrow_range(const range_way *way, const void *from, int64_t count, void *to)
{
    way->narrow(way->f16 ? ZERO_F16 : ZERO_BF16, from, count, to);
}

static uint32_t widened_bits(const range_way *way, uint16_t bits)
{
    float wide = way->f16 ? zr_f16_to_f32(bits) : zr_bf16_to_f32(bits);
    uint32_t out;
    memcpy(&out, &wide, sizeof out);
    return out;
}

static uint16_t narrowed_bits(const range_way *way, uint32_t bits)
{
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return way->f16 ? zr_f32_to_f16(wide) : zr_f32_to_bf16(wide);
}

#define PATTERNS 65536

static void ranges_widen_every_pattern(void **state)
{
    static uint16_t from[PATTERNS];
    static uint32_t to[PATTERNS];
    for (int i = 0; i < PATTERNS; i++)
        from[i] = (uint16_t)i;
    for (int w = 0; w < ZR_COUNT(range_ways); w++) {
        widen_range(&range_ways[w], from, PATTERNS, to);
        for (int i = 0; i < PATTERNS; i++)
            if (to[i] != widened_bits(&range_ways[w], (uint16_t)i))
                fail_msg("%s: %04x widens to %08x, not %08x", range_ways[w].name, i, to[i],
                         widened_bits(&range_ways[w], (uint16_t)i));
    }
}

// Every sign and exponent, with mantissas about every bit at which a rounding can be decided, and
// some at random.
static int make_singles(uint32_t *out)
{
    int n = 0;
    for (uint32_t head = 0; head < 512; head++)
        for (int bit = 0; bit < 23; bit++) {
            uint32_t tied_weight = 1u << bit, odd = 3u << bit,
                     random = zr_philox4x32(5, head, (uint64_t)bit).v[0];
            const uint32_t mantissas[] = {tied_weight,      tied_weight - 1, tied_weight + 1, odd,
                                          odd - 1,          odd + 1,         ~tied_weight,    ~odd,
                                          0u - tied_weight, random};
            for (int i = 0; i < ZR_COUNT(mantissas); i++)
                out[n++] = head << 23 | (mantissas[i] & 0x7fffff);
        }
    return n;
}

static void ranges_narrow_every_exponent_and_rounding(void **state)
{
    static uint32_t from[512 * 23 * 10];
    static uint16_t to[ZR_COUNT(from)];
    int count = make_singles(from);
    for (int w = 0; w < ZR_COUNT(range_ways); w++) {
        narrow_range(&range_ways[w], from, count, to);
        for (int i = 0; i < count; i++)
            if (to[i] != narrowed_bits(&range_ways[w], from[i]))
                fail_msg("%s: %08x narrows to %04x, not %04x", range_ways[w].name, from[i], to[i],
                         narrowed_bits(&range_ways[w], from[i]));
    }
}

// Any count from any address to any other, and not a byte around it.
static void check_placed(const range_way *way, int64_t count, int from_at, int to_at)
{
    enum { BYTES = 1024 };
    unsigned char halves[BYTES], singles[BYTES], back[BYTES];
    zr_philox words[BYTES / 16];
    for (int i = 0; i < ZR_COUNT(words); i++)
        words[i] = zr_philox4x32(6, (uint64_t)count, (uint64_t)i);
    memcpy(halves, words, BYTES);
    memset(singles, 0xee, BYTES);
    memset(back, 0xee, BYTES);
    widen_range(way, halves + from_at, count, singles + to_at);
    narrow_range(way, singles + to_at, count, back + from_at);
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits, again;
        uint32_t wide;
        memcpy(&bits, halves + from_at + 2 * i, 2);
        memcpy(&wide, singles + to_at + 4 * i, 4);
        memcpy(&again, back + from_at + 2 * i, 2);
        assert_int_equal(wide, widened_bits(way, bits));
        assert_int_equal(again, narrowed_bits(way, wide));
    }
    for (int i = 0; i < BYTES; i++) {
        assert_true((i >= to_at && i < to_at + 4 * count) || singles[i] == 0xee);
        assert_true((i >= from_at && i < from_at + 2 * count) || back[i] == 0xee);
    }
}

static void ranges_of_any_count_and_address(void **state)
{
    for (int w = 0; w < ZR_COUNT(range_ways); w++)
        for (int64_t count = 0; count <= 75; count++)
            for (int at = 0; at < 5; at++)
                check_placed(&range_ways[w], count, 64 + at, 64 + 3 * at);
}

static void ranges_of_fp32_are_copies(void **state)
{
    const float from[3] = {1.5f, -0.0f, 0x1p-149f};
    float to[3] = {0}, back[3] = {0};
    zr_widen(ZERO_F32, from, 3, to);
    zr_narrow(ZERO_F32, to, 3, back);
    zr_narrow(ZERO_F32, back, 3, back);
    assert_memory_equal(from, back, sizeof from);
    zr_widen(ZERO_F32, NULL, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sizes),
        cmocka_unit_test(every_pattern_survives),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(the_ends_of_the_ranges),
        cmocka_unit_test(ranges_widen_every_pattern),
        cmocka_unit_test(ranges_narrow_every_exponent_and_rounding),
        cmocka_unit_test(ranges_of_any_count_and_address),
        cmocka_unit_test(ranges_of_fp32_are_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
