// Blocks of optimizer states in 8 bits, as fp32 numbers and back: what was widened is narrowed to
// the same numbers, and other numbers to their nearest.
#include "base/numbers.h"
#include "base/quantised.h"
#include "base/random.h"
#include "base/state_codes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { BLOCK = ZR_STATE_BLOCK, BLOCKS = 3000 };

static const float *const maps[] = {zr_signed_map, zr_unsigned_map};

static uint32_t random_word(uint64_t block, int64_t i)
{
    return zr_philox4x32(block, 5, (uint64_t)i).v[0];
}

// A scale from 1e-38 to 1e38; each eighth one is subnormal.
static float random_scale(uint64_t block)
{
    double of = 1 + random_word(block, BLOCK) * 0x1p-32, power = random_word(block, BLOCK + 1) % 76;
    return (float)(block % 8 ? of * pow(10, power - 38) : of * 1e-41);
}

// An update gives its largest magnitude the last code, or the first one if that is negative.
static void random_codes(const float *map, uint64_t block, int64_t n, uint8_t codes[BLOCK])
{
    bool negative = map[0] < 0 && block % 3 == 0;
    for (int64_t i = 0; i < n; i++)
        codes[i] = (uint8_t)(negative ? random_word(block, i) % 255 : random_word(block, i));
    codes[random_word(block, BLOCK + 2) % n] = negative ? 0 : 255;
}

static void check_again(const float *map, const uint8_t *codes, float scale, int64_t n)
{
    float values[BLOCK], again[BLOCK];
    uint8_t found[BLOCK];
    zr_state_block_widen(map, codes, scale, n, values);
    float found_scale = zr_state_block_narrow(map, values, n, found);
    zr_state_block_widen(map, found, found_scale, n, again);
    for (int64_t i = 0; i < n; i++)
        if (again[i] != values[i])
            fail_msg("%a became %a, code %d of scale %a code %d of scale %a", values[i], again[i],
                     codes[i], scale, found[i], found_scale);
}

static void widened_blocks_stay(void **state)
{
    uint8_t codes[BLOCK];
    for (uint64_t block = 0; block < BLOCKS; block++)
        for (int m = 0; m < ZR_COUNT(maps); m++) {
            int64_t n = block % 5 ? BLOCK : 1 + random_word(block, BLOCK + 3) % BLOCK;
            random_codes(maps[m], block, n, codes);
            check_again(maps[m], codes, random_scale(block), n);
        }
}

static void zeros_stay(void **state)
{
    float values[BLOCK] = {0};
    uint8_t codes[BLOCK];
    for (int m = 0; m < ZR_COUNT(maps); m++) {
        memset(codes, 77, sizeof codes);
        assert_true(zr_state_block_narrow(maps[m], values, BLOCK, codes) == 0);
        for (int i = 0; i < BLOCK; i++)
            assert_int_equal(codes[i], m ? 0 : 127);
    }
}

static void others_become_the_nearest(void **state)
{
    float values[BLOCK];
    uint8_t codes[BLOCK];
    for (uint64_t block = 0; block < 200; block++)
        for (int m = 0; m < ZR_COUNT(maps); m++) {
            float largest = 0;
            for (int64_t i = 0; i < BLOCK; i++) {
                values[i] = (float)random_word(block, i) * 0x1p-31f - (m ? 0 : 1);
                largest = fmaxf(largest, fabsf(values[i]));
            }
            assert_true(zr_state_block_narrow(maps[m], values, BLOCK, codes) == largest);
            for (int64_t i = 0; i < BLOCK; i++)
                assert_int_equal(codes[i], zr_dynamic_code(maps[m], values[i] / largest));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widened_blocks_stay),
        cmocka_unit_test(zeros_stay),
        cmocka_unit_test(others_become_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
