// Which token is chosen, which bytes form a character, and the defaults of a first run.
#include "infer/decoding.h"
#include "setup/defaults.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static int32_t choose(const float *logits, int32_t count, double temperature, int top_k,
                      double top_p, double random)
{
    zr_candidate room[16];
    return zr_choose_token(logits, count, temperature, top_k, top_p, random, room);
}

static void test_temperature_zero_takes_the_likeliest(void **state)
{
    const float logits[] = {0.5f, 2.0f, -1.0f, 2.0f};
    assert_int_equal(choose(logits, 4, 0, 0, 1, 0.99), 1); // the first of equals
}

static void test_probabilities_are_those_of_softmax(void **state)
{
    const float logits[] = {0, (float)log(3), -INFINITY, (float)log(4)}; // 1 : 3 : 0 : 4
    int counts[4] = {0};
    enum { DRAWS = 8000 };
    for (int i = 0; i < DRAWS; i++)
        counts[choose(logits, 4, 1, 0, 1, (i + 0.5) / DRAWS)]++;
    assert_in_range(counts[0], 998, 1002);
    assert_in_range(counts[1], 2998, 3002);
    assert_int_equal(counts[2], 0);
    assert_in_range(counts[3], 3998, 4002);
}

static void test_temperature_sharpens(void **state)
{
    const float logits[] = {0, 1};
    double even = 1 / (1 + exp(1)), sharp = 1 / (1 + exp(2));
    assert_int_equal(choose(logits, 2, 1, 0, 1, even - 1e-6), 0);
    assert_int_equal(choose(logits, 2, 1, 0, 1, even + 1e-6), 1);
    assert_int_equal(choose(logits, 2, 0.5, 0, 1, sharp - 1e-6), 0);
    assert_int_equal(choose(logits, 2, 0.5, 0, 1, sharp + 1e-6), 1);
}

static void test_top_k_and_top_p_cut(void **state)
{
    // 0.1 0.5 0.3 0.1
    const float logits[] = {(float)log(1), (float)log(5), (float)log(3), (float)log(1)};
    for (int i = 0; i < 100; i++) {
        double random = (i + 0.5) / 100;
        int32_t two = choose(logits, 4, 1, 2, 1, random),
                half = choose(logits, 4, 1, 0, 0.49, random),
                most = choose(logits, 4, 1, 0, 0.79, random);
        assert_true(two == 1 || two == 2);
        assert_int_equal(half, 1);
        assert_true(most == 1 || most == 2);
        assert_int_equal(choose(logits, 4, 1, 1, 1, random), 1);
    }
    assert_int_equal(choose(logits, 4, 1, 2, 1, 0.9999), 2);
    assert_int_equal(choose(logits, 4, 1, 99, 1, 0.9999), 3); // more than there are: all
}

static void test_the_last_is_reached(void **state)
{
    const float logits[] = {0, 0, 0};
    assert_int_equal(choose(logits, 3, 1, 0, 1, nextafter(1, 0)), 2);
    assert_int_equal(choose(logits, 3, 1, 0, 1, 0), 0);
}

static void test_rates_by_size(void **state)
{
    assert_float_equal(zr_default_lr(800000), 1e-3, 1e-12);
    assert_float_equal(zr_default_lr(124000000), 6e-4, 1e-12);
    assert_float_equal(zr_default_lr(1560000000), 2e-4, 1e-12);
    assert_float_equal(zr_default_lr(INT64_MAX), 2e-4, 1e-12);
    double before = zr_default_lr(1);
    for (int64_t size = 1; size < (int64_t)1 << 40; size *= 2) {
        double lr = zr_default_lr(size);
        assert_true(lr <= before);
        assert_float_equal(zr_default_lr_further(size), lr / 10, 1e-12);
        before = lr;
    }
}

static void test_lengths(void **state)
{
    assert_int_equal(zr_default_batch(800000, 64), 12);
    assert_int_equal(zr_default_batch(124440000, 1024), 4);
    assert_int_equal(zr_default_batch(100, 100000), 1);
    assert_int_equal(zr_default_steps(10, 768), 100);
    assert_int_equal(zr_default_steps(768 * 300, 768), 1500);
    assert_int_equal(zr_default_steps((int64_t)1 << 40, 768), 5000);
    assert_int_equal(zr_default_warmup(2000), 100);
    assert_int_equal(zr_default_warmup(200), 20);
    assert_int_equal(zr_default_warmup(1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_temperature_zero_takes_the_likeliest),
        cmocka_unit_test(test_probabilities_are_those_of_softmax),
        cmocka_unit_test(test_temperature_sharpens),
        cmocka_unit_test(test_top_k_and_top_p_cut),
        cmocka_unit_test(test_the_last_is_reached),
        cmocka_unit_test(test_rates_by_size),
        cmocka_unit_test(test_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
