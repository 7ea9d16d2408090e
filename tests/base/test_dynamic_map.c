// The maps of eight bits are computed from their description (arXiv 1511.04561), and the code of a
// number is found by comparing all values.
#include "base/dynamic_map.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { CODES = ZR_DYNAMIC_CODES };

// From 10^(decade - 7) to 10 times that lie the centres of 2^decade (signed) or 2^(decade + 1)
// equal parts.
static void maps_are_as_described(void **state)
{
    for (int has_sign = 0; has_sign < 2; has_sign++) {
        const float *map = has_sign ? zr_signed_map : zr_unsigned_map;
        int k = has_sign ? CODES / 2 - 1 : 0, parts = has_sign ? 1 : 2;
        assert_true(map[k] == 0 && map[CODES - 1] == 1);
        for (int decade = 0; decade < 7; decade++, parts *= 2)
            for (int i = 0; i < parts; i++) {
                double want = pow(10, decade - 6) * (0.1 + 0.9 * (i + 0.5) / parts);
                assert_true(fabs(map[++k] - want) <= 3e-7 * want);
                if (has_sign)
                    assert_true(map[CODES - 2 - k] == -map[k]);
            }
        assert_int_equal(k, CODES - 2);
    }
}

static void check_code(const float *map, float x)
{
    int nearest = 0;
    for (int k = 1; k < CODES; k++)
        if (fabs((double)map[k] - x) < fabs((double)map[nearest] - x))
            nearest = k;
    int code = zr_dynamic_code(map, x);
    double least = fabs((double)map[nearest] - x), got = fabs((double)map[code] - x);
    assert_true(got <= least + 3e-7 * fabs(x));
}

static void codes_are_nearest(void **state)
{
    const float *const maps[] = {zr_signed_map, zr_unsigned_map};
    for (int m = 0; m < 2; m++) {
        const float *map = maps[m];
        for (int k = 0; k + 1 < CODES; k++) {
            float border = 0.5f * (map[k] + map[k + 1]);
            assert_int_equal(zr_dynamic_code(map, map[k]), k);
            assert_int_equal(zr_dynamic_code(map, border), k);
            assert_int_equal(zr_dynamic_code(map, nextafterf(border, 2)), k + 1);
            for (int i = 0; i < 10; i++)
                check_code(map, map[k] + (map[k + 1] - map[k]) * 0.1f * (float)i);
        }
        assert_int_equal(zr_dynamic_code(map, 7), CODES - 1);
        assert_int_equal(zr_dynamic_code(map, INFINITY), CODES - 1);
        assert_int_equal(zr_dynamic_code(map, -7), 0);
        assert_int_equal(zr_dynamic_code(map, NAN), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(maps_are_as_described),
                                       cmocka_unit_test(codes_are_nearest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
