// Codes in nf4 and int8: those that bitsandbytes makes (tests/oracle/quantised.py --golden), and
// what they decode to.
#include "base/quantised.h"

#include "base/errors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS = 128, WIDTH = 64 };

static void fill(float values[ROWS][WIDTH])
{
    for (int i = 0; i < ROWS * WIDTH; i++)
        values[i / WIDTH][i % WIDTH] = (float)((i * 7919 + 13) % 2003 - 1001) / 1000;
}

static const uint8_t two_blocks[] = {
    0x0f, 0xee, 0xed, 0xcb, 0xa9, 0x87, 0x65, 0x43, 0x22, 0x11, 0x00, 0xff, 0xee, 0xdd, 0xcb, 0xa9,
    0x86, 0x54, 0x43, 0x21, 0x11, 0x00, 0xfe, 0xee, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x21, 0x10,
    0x0f, 0xfe, 0xed, 0xdc, 0xba, 0x98, 0x75, 0x54, 0x32, 0x21, 0x10, 0x0f, 0xee, 0xed, 0xcb, 0xa9,
    0x87, 0x65, 0x43, 0x22, 0x11, 0x10, 0xff, 0xee, 0xdd, 0xcb, 0xa9, 0x87, 0x65, 0x43, 0x22, 0x11,
};

static const uint8_t of_scales[ROWS] = {
    0,   1,   2,   3,   4,   5,   6,   8,   9,   10,  11,  12,  13,  14,  15,  16,  18,  19,  20,
    21,  22,  23,  24,  25,  27,  28,  29,  29,  31,  32,  33,  34,  35,  37,  38,  39,  40,  41,
    43,  44,  44,  45,  47,  48,  49,  50,  51,  53,  54,  54,  55,  57,  58,  59,  59,  61,  63,
    64,  67,  72,  81,  89,  89,  92,  158, 167, 171, 171, 177, 186, 191, 192, 192, 194, 196, 197,
    197, 198, 200, 201, 202, 202, 204, 206, 206, 207, 208, 210, 212, 211, 212, 214, 216, 217, 216,
    218, 221, 221, 222, 222, 224, 226, 226, 226, 228, 231, 232, 232, 232, 234, 236, 236, 237, 238,
    240, 242, 241, 242, 245, 247, 247, 246, 248, 251, 251, 252, 252, 255,
};

static const int8_t of_row[WIDTH] = {
    -127, 119, 107, 95,  83,   71,   59,  47,  35,  23,   11,   -1,   -13, -25, -37, -49,
    -61,  -73, -85, -97, -109, -121, 125, 113, 101, 89,   77,   65,   53,  41,  29,  17,
    5,    -7,  -19, -30, -42,  -54,  -66, -78, -90, -102, -114, -126, 119, 107, 96,  84,
    72,   60,  48,  36,  24,   12,   0,   -12, -24, -36,  -48,  -60,  -72, -84, -96, -108,
};

static void test_nf4_codes(void **state)
{
    float values[ROWS][WIDTH];
    uint8_t codes[2][WIDTH / 2];
    fill(values);
    for (int b = 0; b < 2; b++)
        zr_nf4_encode(values[b], codes[b]);
    assert_memory_equal(codes, two_blocks, sizeof codes);
}

// The scales of rows that grow.
static void test_nf4_scales(void **state)
{
    float values[ROWS][WIDTH], scales[ROWS], shared[2], decoded[ROWS];
    uint8_t codes[ROWS];
    fill(values);
    for (int r = 0; r < ROWS; r++)
        scales[r] = zr_nf4_scale(values[r]) * (0.1f + 2.9f / (ROWS - 1) * (float)r);
    zr_nf4_encode_scales(scales, ROWS, codes, shared);
    assert_memory_equal(codes, of_scales, sizeof codes);
    zr_nf4_decode_scales(codes, shared, 0, ROWS, decoded);
    for (int r = 0; r < ROWS; r++)
        assert_true(fabsf(decoded[r] - scales[r]) < 0.015f);
}

static void test_int8_codes(void **state)
{
    float values[ROWS][WIDTH];
    int8_t codes[WIDTH];
    fill(values);
    assert_true(zr_int8_encode(values[0], WIDTH, codes) == 0.98779296875f);
    assert_memory_equal(codes, of_row, sizeof codes);
}

// What is decoded lies nearest to what was encoded: half a step of the levels, or of the codes.
static void test_decoded_values(void **state)
{
    float values[ROWS][WIDTH], decoded[WIDTH];
    uint8_t nf4[WIDTH / 2];
    int8_t int8[WIDTH];
    fill(values);
    for (int r = 0; r < ROWS; r++) {
        float scale = zr_nf4_scale(values[r]), row = zr_int8_encode(values[r], WIDTH, int8);
        zr_nf4_encode(values[r], nf4);
        zr_weight_decode(ZR_WEIGHT_NF4, nf4, &scale, 0, WIDTH, decoded);
        for (int i = 0; i < WIDTH; i++)
            assert_true(fabsf(decoded[i] - values[r][i]) <= 0.152f * scale);
        zr_weight_decode(ZR_WEIGHT_INT8, int8, &row, 3, WIDTH - 3, decoded);
        for (int i = 3; i < WIDTH; i++)
            assert_true(fabsf(decoded[i - 3] - values[r][i]) <= row / 127 * 0.6f);
    }
}

// Blocks of zeros, and of one value beside zeros.
static void test_extremes(void **state)
{
    float block[ZR_NF4_BLOCK] = {0}, scale = zr_nf4_scale(block), decoded[ZR_NF4_BLOCK];
    uint8_t codes[ZR_NF4_BLOCK / 2];
    int8_t int8[ZR_NF4_BLOCK];
    zr_nf4_encode(block, codes);
    zr_weight_decode(ZR_WEIGHT_NF4, codes, &scale, 0, ZR_NF4_BLOCK, decoded);
    assert_memory_equal(decoded, block, sizeof block);
    assert_true(zr_int8_encode(block, ZR_NF4_BLOCK, int8) == 0);
    block[5] = -3.5f;
    scale = zr_nf4_scale(block);
    zr_nf4_encode(block, codes);
    zr_weight_decode(ZR_WEIGHT_NF4, codes, &scale, 0, ZR_NF4_BLOCK, decoded);
    assert_memory_equal(decoded, block, sizeof block);
}

static void test_sizes(void **state)
{
    assert_int_equal(zr_weight_code_bytes(ZR_WEIGHT_NF4, 128), 64);
    assert_int_equal(zr_weight_scale_bytes(ZR_WEIGHT_NF4, 128), 2);
    assert_int_equal(zr_weight_shared_bytes(ZR_WEIGHT_NF4, 129, 128), 4 * (1 + 2));
    assert_int_equal(zr_weight_code_bytes(ZR_WEIGHT_INT8, 128), 128);
    assert_int_equal(zr_weight_scale_bytes(ZR_WEIGHT_INT8, 128), 4);
    assert_int_equal(zr_weight_shared_bytes(ZR_WEIGHT_INT8, 129, 128), 0);
    zr_weight_format found;
    assert_true(zr_weight_format_find("int8", &found) && found == ZR_WEIGHT_INT8);
    assert_false(zr_weight_format_find("fp4", &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nf4_codes),  cmocka_unit_test(test_nf4_scales),
        cmocka_unit_test(test_int8_codes), cmocka_unit_test(test_decoded_values),
        cmocka_unit_test(test_extremes),   cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
