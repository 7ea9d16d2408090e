// The book of rates: what is seen is told again, and what lies between is on the line between.
#include "rates_support.h"

#include <string.h>

// What a busy machine has taken is replaced by what a quieter one takes, hardly changes that, and
// is told as such in the file; a run's own quietness is that of all of its samples.
static void test_busy_times_weigh_little(void **state)
{
    zr_rates *r = new_rates(), *found = new_rates();
    const zr_rate_sample busy = {.bytes = 1000, .seconds = 8, .seen = 4, .quiet = 0.25};
    zr_rates_add_sample(r, NORM, &busy);
    assert_close(seconds(r, NORM, 1000, 0), 8);
    zr_rates_add(r, NORM, 1000, 0, 2, 1);
    assert_close(seconds(r, NORM, 1000, 0), 2);
    zr_rates_add_sample(r, NORM, &busy);
    assert_true(seconds(r, NORM, 1000, 0) < 2.25);
    zr_rate_book from = {.settings = found, .count = 1}, into = {0}, again = {0};
    found->setting = two_ranks;
    found->quiet = 0.5;
    zr_rates_add(found, NORM, 1000, 0, 8, 1);
    assert_int_equal(zr_rate_book_merge(&into, &from, NULL), ZERO_OK);
    zr_buffer text = {0};
    zr_rate_book_json(&into, "p", &text);
    assert_non_null(strstr(text.data, "\"seen\": 1, \"quiet\": 0.5}"));
    assert_int_equal(zr_rate_book_parse(text.data, text.length, "f", "p", &again, NULL), ZERO_OK);
    assert_close(again.settings[0].at[NORM][0].quiet, 0.5);
    zr_buffer_free(&text);
    zr_rate_book_free(&into);
    zr_rate_book_free(&again);
    free(r);
    free(found);
}

static void test_what_was_seen_is_told_again(void **state)
{
    (void)state;
    zr_rates *r = new_rates();
    zr_rates_add(r, PRODUCT, 1000, 50000, 2e-6, 3);
    zr_rates_add(r, NORM, 1000, 0, 3e-7, 3);
    assert_close(seconds(r, PRODUCT, 1000, 50000), 2e-6);
    assert_close(seconds(r, NORM, 1000, 0), 3e-7);
    assert_close(unknown(r, NORM, 1000, 0), 0);
    assert_close(seconds(r, NORM, 0, 0), 0);
    free(r);
}

static void test_between_samples_is_the_line_of_logarithms(void **state)
{
    (void)state;
    zr_rates *r = new_rates();
    zr_rates_add(r, NORM, 1 << 20, 0, 1e-3, 1);
    zr_rates_add(r, NORM, 1 << 24, 0, 4e-3, 1); // 16 times the bytes, 4 times the seconds
    assert_close(seconds(r, NORM, 1 << 22, 0), 2e-3);
    assert_close(seconds(r, NORM, 1 << 26, 0), 16e-3); // outside: in proportion
    assert_close(seconds(r, NORM, 1 << 19, 0), 0.5e-3);
    double inside = unknown(r, NORM, 1 << 22, 0), outside = unknown(r, NORM, 1 << 26, 0),
           far = unknown(r, NORM, 1 << 30, 0);
    assert_true(0 < inside && inside < outside && outside < far && far < 1);
    free(r);
}

static void test_products_of_similar_shape_are_preferred(void **state)
{
    (void)state;
    zr_rates *r = new_rates();
    zr_rates_add(r, PRODUCT, 10000, 1000000, 1e-5, 1);   // 100 flops a byte, 100 Gflop/s
    zr_rates_add(r, PRODUCT, 1000000, 1000001, 1e-3, 1); // 1 flop a byte, 1 Gflop/s
    assert_close(seconds(r, PRODUCT, 9000, 900000), 0.9e-5);
    assert_close(seconds(r, PRODUCT, 900000, 900000), 0.9 / 1.000001 * 1e-3);
    free(r);
}

// A product of one row takes what being called takes; a large one what the fastest that is known
// says, and of none what such kernels do.
static void test_large_products_are_not_as_slow_as_tiny_ones(void **state)
{
    (void)state;
    zr_rates *r = new_rates();
    const int64_t mega = 1000000;
    r->setting = two_ranks;
    for (int i = 1; i <= 4; i++)
        zr_rates_add(r, PRODUCT, 10000 * i, 10000 * i, i * 1e-4, 1); // 0.1 Gflop/s
    double assumed = zr_rates_assumed_flops(&two_ranks);
    assert_true(assumed > 1e10);
    assert_close(seconds(r, PRODUCT, mega, 1000 * mega), 1000 * (double)mega / assumed);
    assert_true(unknown(r, PRODUCT, mega, 1000 * mega) > 0.8);
    assert_true(seconds(r, PRODUCT, 100 * mega, 100 * mega) < 0.1); // as fast as memory is
    assert_true(seconds(r, PRODUCT, 100 * mega, 100 * mega) > 0.001);
    zr_rates_add(r, ZR_ACTIVITY_attention, mega, 10 * mega, 1e-3, 1); // 10 Gflop/s
    assert_close(seconds(r, PRODUCT, mega, 1000 * mega), 0.1);
    zr_rates_add(r, PRODUCT, mega, 10 * mega, 5e-4, 1);  // 20 Gflop/s
    zr_rates_add(r, PRODUCT, mega, 11 * mega, 11e-4, 1); // 10 Gflop/s
    assert_close(seconds(r, PRODUCT, mega, 1000 * mega), 0.05);
    double near = seconds(r, PRODUCT, mega, 12 * mega); // much like the nearest one
    assert_true(near > 10e-4 && near < 12e-4);
    assert_close(unknown(r, PRODUCT, mega, 11 * mega), 0);
    free(r);
}

static void test_long_vectors_are_not_as_slow_as_short_ones(void **state)
{
    (void)state;
    zr_rates *r = new_rates();
    zr_rates_add(r, NORM, 100, 0, 1e-6, 1); // 0.1 GB/s
    zr_rates_add(r, ZR_ACTIVITY_all_reduce, 100, 0, 1e-6, 1);
    assert_true(seconds(r, NORM, 100000000, 0) < 0.1);
    assert_true(seconds(r, NORM, 200, 0) >= 1e-6); // no less than half of it
    zr_rates_add(r, ZR_ACTIVITY_gelu, 1000000, 0, 1e-3, 1);
    assert_close(seconds(r, NORM, 100000000, 0), 0.1); // as other vectors
    zr_rates_add(r, NORM, 500000, 0, 1e-4, 1);         // in a cache
    zr_rates_add(r, NORM, 5000000, 0, 2e-3, 1);
    assert_close(seconds(r, NORM, 100000000, 0), 0.04);
    assert_close(seconds(r, ZR_ACTIVITY_all_reduce, 1000, 0), 1e-5); // exchanges: in proportion
    free(r);
}

static void test_of_other_activities_it_is_a_guess(void **state)
{
    (void)state;
    zr_rates *r = new_rates();
    zr_rates_add(r, NORM, 1000000, 0, 1e-3, 1);
    zr_rates_add(r, ZR_ACTIVITY_all_gather, 1000, 0, 5e-6, 1);
    zr_rates_add(r, ZR_ACTIVITY_wait, 2000, 0, 1, 1); // no transfer of so many bytes
    assert_close(seconds(r, ZR_ACTIVITY_gelu, 2000000, 0), 2e-3);
    assert_close(unknown(r, ZR_ACTIVITY_gelu, 2000000, 0), 1);
    assert_close(seconds(r, ZR_ACTIVITY_reduce_scatter, 2000, 0), 10e-6); // of its own track
    assert_close(unknown(r, PRODUCT, 1000, 1000), 1);
    assert_true(seconds(r, PRODUCT, 1000, 1000) > 0);
    assert_true(seconds(NULL, NORM, 1000, 0) > 0);
    assert_close(unknown(NULL, NORM, 1000, 0), 1);
    assert_close(seconds(r, ZR_ACTIVITY_forward, 100, 0), 0); // operations explain it
    free(r);
}

static void test_later_times_count_more(void **state)
{
    (void)state;
    zr_rates *r = new_rates();
    for (int i = 0; i < 50; i++)
        zr_rates_add(r, NORM, 1000, 0, 1e-6, 1);
    zr_rates_add(r, NORM, 1000, 0, 2e-6, 1);
    double once = seconds(r, NORM, 1000, 0);
    assert_true(once > 1e-6 && once < 1.5e-6);
    for (int i = 0; i < 20; i++)
        zr_rates_add(r, NORM, 1000, 0, 2e-6, 1);
    assert_true(seconds(r, NORM, 1000, 0) > 1.98e-6);
    assert_int_equal(r->count[NORM], 1);
    zr_rates_add(r, NORM, 1000, 0, 0, 1);
    zr_rates_add(r, NORM, 2000, 0, NAN, 1);
    zr_rates_add(r, NORM, 2000, 0, -1, 1);
    assert_int_equal(r->count[NORM], 1);
    free(r);
}

static void test_the_most_alike_make_room(void **state)
{
    (void)state;
    zr_rates *r = new_rates();
    for (int i = 0; i < ZR_RATE_SAMPLES - 1; i++)
        zr_rates_add(r, NORM, 1000 + 100 * i, 0, 1e-6 * (10 + i), 1);
    zr_rates_add(r, NORM, 1001, 0, 7e-6, 9); // next to the first, but seen more often
    assert_int_equal(r->count[NORM], ZR_RATE_SAMPLES);
    zr_rates_add(r, NORM, 1000000, 0, 1e-3, 1);
    assert_int_equal(r->count[NORM], ZR_RATE_SAMPLES);
    assert_close(seconds(r, NORM, 1000000, 0), 1e-3);
    assert_close(unknown(r, NORM, 1001, 0), 0);
    assert_true(unknown(r, NORM, 1000, 0) > 0);
    free(r);
}

static void test_the_nearest_setting_is_found(void **state)
{
    (void)state;
    zr_rate_book book = {0};
    zr_rate_setting wanted = two_ranks, other = two_ranks;
    bool exact;
    assert_null(zr_rate_book_find(&book, &wanted, &exact));
    assert_false(exact);
    other.threads = 2, other.together = 1;
    assert_non_null(zr_rate_book_take(&book, &other, NULL));
    const zr_rates *found = zr_rate_book_find(&book, &wanted, &exact);
    assert_non_null(found);
    assert_false(exact);
    assert_close(zr_rates_factor(found, &wanted), 2);
    assert_non_null(zr_rate_book_take(&book, &wanted, NULL));
    found = zr_rate_book_find(&book, &wanted, &exact);
    assert_true(exact && found->setting.threads == 1 && found->measured > 0);
    wanted.dtype = ZERO_F32;
    assert_null(zr_rate_book_find(&book, &wanted, &exact));
    zr_rate_book_free(&book);
}

static void test_the_oldest_setting_makes_room(void **state)
{
    (void)state;
    zr_rate_book book = {0};
    zr_rate_setting setting = two_ranks;
    bool exact;
    for (int i = 0; i <= ZR_MOST_RATE_SETTINGS; i++) {
        setting.threads = i + 1;
        zr_rates *rates = zr_rate_book_take(&book, &setting, NULL);
        assert_non_null(rates);
        rates->measured = i == 3 ? 1 : 100 + i;
        zr_rates_add(rates, NORM, 1000, 0, 1e-6, 1);
    }
    assert_int_equal(book.count, ZR_MOST_RATE_SETTINGS);
    setting.threads = 4;
    zr_rate_book_find(&book, &setting, &exact);
    assert_false(exact);
    setting.threads = ZR_MOST_RATE_SETTINGS + 1;
    assert_int_equal(zr_rate_book_find(&book, &setting, &exact)->count[NORM], 1);
    assert_true(exact);
    zr_rate_book_free(&book);
}

static void test_corrections_are_learnt(void **state)
{
    (void)state;
    zr_correction c = {0};
    assert_close(zr_correction_factor(&c), 1);
    zr_correction_learn(&c, 0, 1);
    zr_correction_learn(&c, 1, NAN);
    assert_int_equal(c.runs, 0);
    zr_correction_learn(&c, 1, 2);
    assert_close(c.factor, 2);
    assert_close(c.spread, 0);
    assert_true(zr_correction_factor(&c) > 1 && zr_correction_factor(&c) < 2);
    zr_correction_learn(&c, 1, 0.5);
    assert_close(c.factor, 1); // the geometric mean
    assert_close(c.spread, log(2));
    for (int i = 0; i < 40; i++)
        zr_correction_learn(&c, 1, 1.5);
    assert_true(fabs(c.factor - 1.5) < 0.02 && c.spread < 0.1);
    zr_correction_learn(&c, 1, 1e9); // a disturbance
    assert_true(c.factor < 2);
    assert_int_equal(c.runs, 43);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busy_times_weigh_little),
        cmocka_unit_test(test_what_was_seen_is_told_again),
        cmocka_unit_test(test_between_samples_is_the_line_of_logarithms),
        cmocka_unit_test(test_products_of_similar_shape_are_preferred),
        cmocka_unit_test(test_large_products_are_not_as_slow_as_tiny_ones),
        cmocka_unit_test(test_long_vectors_are_not_as_slow_as_short_ones),
        cmocka_unit_test(test_of_other_activities_it_is_a_guess),
        cmocka_unit_test(test_later_times_count_more),
        cmocka_unit_test(test_the_most_alike_make_room),
        cmocka_unit_test(test_the_nearest_setting_is_found),
        cmocka_unit_test(test_the_oldest_setting_makes_room),
        cmocka_unit_test(test_corrections_are_learnt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
