// Links: what is seen is told again, seconds lie on a straight line between, the nearest link of
// the same kind stands for another one, and the file keeps them.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "predict/rates.h"

#include <math.h>
#include <string.h>

#define GATHER ZR_ACTIVITY_all_gather
#define REDUCE ZR_ACTIVITY_reduce_scatter

static void near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-9 * fabs(wanted)))
        fail_msg("%.12g, expected %.12g", got, wanted);
}

static zr_rates *add_link(zr_rate_book *book, int machines, int together, bool one_copy)
{
    zr_rate_setting setting = zr_link_setting(machines, together, one_copy);
    zr_rates *link = zr_rate_book_take(book, &setting, NULL);
    assert_non_null(link);
    return link;
}

static double seconds(const zr_rates *link, zr_activity what, double bytes)
{
    double unknown;
    return zr_link_seconds(link, what, bytes, &unknown);
}

static double unknown(const zr_rates *link, zr_activity what, double bytes)
{
    double out;
    zr_link_seconds(link, what, bytes, &out);
    return out;
}

static void test_seconds_lie_on_a_line(void **state)
{
    (void)state;
    zr_rate_book book = {0};
    zr_rates *link = add_link(&book, 2, 1, false);
    zr_rates_add(link, GATHER, 1000000, 0, 11e-3, 1);
    zr_rates_add(link, GATHER, 0, 0, 1e-3, 1);
    zr_rates_add(link, GATHER, 100000, 0, 2e-3, 1);
    near(seconds(link, GATHER, 100000), 2e-3);
    near(seconds(link, GATHER, 1000), 1.01e-3);
    near(seconds(link, GATHER, 300000), 4e-3);
    near(seconds(link, GATHER, 3000000), 31e-3); // as before the last one
    near(unknown(link, GATHER, 300000), 0);
    assert_true(unknown(link, GATHER, 3000000) > 0);
    // Another operation takes as long, as far as anybody knows.
    near(seconds(link, ZR_ACTIVITY_send, 300000), 4e-3);
    assert_true(unknown(link, ZR_ACTIVITY_send, 300000) > 0);
    double rate, latency;
    assert_true(zr_link_describe(link, &rate, &latency));
    near(rate, 1e6 / 11e-3);
    near(latency, 1e-3);
    zr_rate_book_free(&book);
}

static void test_one_sample_tells_a_rate(void **state)
{
    (void)state;
    zr_rate_book book = {0};
    double rate, latency;
    zr_rates *link = add_link(&book, 2, 1, false);
    assert_false(zr_link_describe(link, &rate, &latency));
    near(unknown(link, REDUCE, 1000), 1);
    assert_true(seconds(link, REDUCE, 2000) > seconds(link, REDUCE, 1000));
    near(unknown(NULL, REDUCE, 1000), 1);
    zr_rates_add(link, REDUCE, 1000, 0, 1e-3, 1);
    near(seconds(link, REDUCE, 2000), 2e-3);
    near(seconds(link, REDUCE, 1), 1e-3); // a latency, as far as anybody knows
    zr_rate_book_free(&book);
}

static const zr_rates *find(const zr_rate_book *book, int machines, int together, bool one_copy)
{
    zr_rate_setting setting = zr_link_setting(machines, together, one_copy);
    return zr_rate_book_link(book, &setting);
}

static void test_the_nearest_link_is_found(void **state)
{
    (void)state;
    zr_rate_book book = {0};
    const zr_rate_setting kernels = {"avx2", ZERO_F32, 1, 2};
    bool exact;
    assert_false(zr_rate_book_knows_network(&book));
    add_link(&book, 1, 2, false);
    assert_false(zr_rate_book_knows_network(&book));
    assert_false(zr_rate_book_knows_kernels(&book));
    assert_null(find(&book, 2, 2, false)); // memory is no network
    add_link(&book, 2, 4, false);
    add_link(&book, 8, 1, false);
    assert_true(zr_rate_book_knows_network(&book));
    assert_int_equal(find(&book, 2, 3, false)->setting.together, 4);
    assert_int_equal(find(&book, 16, 1, false)->setting.machines, 8);
    assert_int_equal(find(&book, 1, 8, false)->setting.machines, 1);
    assert_null(find(&book, 2, 4, true)); // gathers into one copy are another link
    add_link(&book, 2, 2, true);
    assert_non_null(find(&book, 2, 4, true));
    // Neither is taken for what ranks compute.
    assert_null(zr_rate_book_find(&book, &kernels, &exact));
    assert_non_null(zr_rate_book_take(&book, &kernels, NULL));
    assert_true(zr_rate_book_knows_kernels(&book));
    zr_rate_book_free(&book);
}

static void test_the_file_keeps_links(void **state)
{
    (void)state;
    zr_rate_book book = {0}, again;
    zr_buffer text = {0}, words = {0};
    zero_error error = {0};
    zr_rates *link = add_link(&book, 2, 1, false);
    zr_rates_add(link, GATHER, 0, 0, 1e-3, 1);
    zr_rates_add(link, GATHER, 100000, 0, 2e-3, 1);
    add_link(&book, 1, 2, false);
    zr_rate_book_json(&book, "p", &text);
    if (zr_rate_book_parse(text.data, text.length, "rates.json", "p", &again, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_int_equal(find(&again, 2, 1, false)->setting.machines, 2);
    near(seconds(find(&again, 2, 1, false), GATHER, 50000), 1.5e-3);
    zr_report *r = zr_report_create(NULL);
    zr_rate_book_report(&again, r);
    zr_report_finish(r, ZR_REPORT_TEXT, 0, &words);
    assert_non_null(strstr(words.data, "network, 2 machines of 1 rank: 50.0 MB/s to a rank, "
                                       "latency 1.00 ms; last measured"));
    assert_non_null(strstr(words.data, "messages among 2 ranks of this machine; last measured"));
    zr_buffer_free(&words);
    zr_buffer_free(&text);
    zr_rate_book_free(&again);
    zr_rate_book_free(&book);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seconds_lie_on_a_line),
        cmocka_unit_test(test_one_sample_tells_a_rate),
        cmocka_unit_test(test_the_nearest_link_is_found),
        cmocka_unit_test(test_the_file_keeps_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
