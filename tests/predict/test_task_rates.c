// What runs have taught of their tasks: time is a constant and a rate, which one disturbed run does
// not change much; types are told apart;
// what is full forgets least; and a file has what was kept.
#include "predict/task_rates.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9 * (1 + fabs(expected))))
        fail_msg("%.12g, expected %.12g", value, expected);
}

// As likely lines meet the samples, but not to the bit where what is usual says a little more.
static void close_to(double value, double expected)
{
    if (!(fabs(value / expected - 1) <= 0.15))
        fail_msg("%.12g, expected about %.12g", value, expected);
}

static void teach(zr_task_rates *rates, zr_task task, int together, int64_t amount, double seconds)
{
    zr_task_rates_add(
        rates, task,
        &(zr_task_sample){.together = together, .amount = amount, .seconds = seconds, .seen = 1});
}

static double known(const zr_task_rates *rates, zr_task task, int together, int64_t amount)
{
    return zr_task_rates_seconds(rates, task,
                                 &(zr_task_sample){.together = together, .amount = amount}, NULL);
}

static void test_lines(void **state)
{
    const int64_t mb = 1000000;
    zr_task_rates rates = {0};
    near(known(&rates, ZR_TASK_RESERVE, 1, 100), 0);
    teach(&rates, ZR_TASK_RESERVE, 1, 1000 * mb, 2); // of more than a usual machine takes
    near(known(&rates, ZR_TASK_RESERVE, 1, 1000 * mb), 2);
    near(known(&rates, ZR_TASK_RESERVE, 4, 1000 * mb), 2); // of other ranks, for lack
    near(known(&rates, ZR_TASK_LOAD, 1, 1000), 0);
    teach(&rates, ZR_TASK_RESERVE, 1, 3000 * mb, 4);
    near(known(&rates, ZR_TASK_RESERVE, 1, 2000 * mb), 3);
    close_to(known(&rates, ZR_TASK_RESERVE, 1, 5000 * mb), 6);
    near(known(&rates, ZR_TASK_RESERVE, 1, 0), 1);
    teach(&rates, ZR_TASK_RESERVE, 2, 1000 * mb, 7);
    near(known(&rates, ZR_TASK_RESERVE, 2, 1000 * mb), 7);
    near(known(&rates, ZR_TASK_RESERVE, 1, 1000 * mb), 2);
    teach(&rates, ZR_TASK_BEGIN, 1, 0, 0.5);
    near(known(&rates, ZR_TASK_BEGIN, 1, 0), 0.5);
}

// What a small model's run takes is mostly a constant: of a checkpoint of 1.2 MB in 0.6 s that of
// one a thousand times as large is none of ten minutes. Where it is mostly the usual rate, nothing
// is said, until a run of its size has told it, or the disk's rate and a run of a quarter of its
// size.
static void test_small_and_large(void **state)
{
    const int64_t small = 1200000, large = 1488000000;
    const zr_task_sample wanted = {.together = 2, .amount = large};
    const zr_task_facts disk = {.write = 1e8};
    zr_task_rates rates = {0};
    teach(&rates, ZR_TASK_CHECKPOINT, 2, small, 0.6);
    near(known(&rates, ZR_TASK_CHECKPOINT, 2, small), 0.6);
    near(known(&rates, ZR_TASK_CHECKPOINT, 2, 100 * small), 0.6 + 99 * 1.2e-3);
    near(known(&rates, ZR_TASK_CHECKPOINT, 2, large), 0);
    teach(&rates, ZR_TASK_CHECKPOINT, 2, large / 3, 1);
    double usual = known(&rates, ZR_TASK_CHECKPOINT, 2, large),
           slow = zr_task_rates_seconds(&rates, ZR_TASK_CHECKPOINT, &wanted, &disk);
    close_to(usual, 2);
    close_to(slow, 2);
    teach(&rates, ZR_TASK_CHECKPOINT, 2, large, 1.3);
    near(known(&rates, ZR_TASK_CHECKPOINT, 2, large), 1.3);
}

// Measurements that contradict each other make no time negative, nor let more take less.
static void test_disturbed(void **state)
{
    zr_task_rates rates = {0};
    teach(&rates, ZR_TASK_READ, 1, 1000, 5);
    teach(&rates, ZR_TASK_READ, 1, 2000, 4);
    close_to(known(&rates, ZR_TASK_READ, 1, 9000), 4);
    close_to(known(&rates, ZR_TASK_READ, 1, 10), 4.5);
    teach(&rates, ZR_TASK_LOAD, 1, 1000, 1);
    teach(&rates, ZR_TASK_LOAD, 1, 2000, 9);
    assert_true(known(&rates, ZR_TASK_LOAD, 1, 0) >= 0);
    teach(&rates, ZR_TASK_MODEL, 1, 10, 0);
    teach(&rates, ZR_TASK_MODEL, 1, 10, NAN);
    teach(&rates, ZR_TASK_MODEL, 0, 10, 1);
    teach(&rates, ZR_TASK_MODEL, 1, -1, 1);
    assert_int_equal(rates.count[ZR_TASK_MODEL], 0);
}

// One run in many that was disturbed leaves the line of the others, at small amounts and at large
// ones.
static void test_outlier(void **state)
{
    zr_task_rates rates = {0};
    for (int64_t amount = 1; amount <= 1000000000; amount *= 10)
        teach(&rates, ZR_TASK_RESERVE, 1, amount,
              amount == 1000000 ? 9 : 0.02 + 1e-9 * (double)amount);
    close_to(known(&rates, ZR_TASK_RESERVE, 1, 0), 0.02);
    close_to(known(&rates, ZR_TASK_RESERVE, 1, 1000000), 0.021);
    close_to(known(&rates, ZR_TASK_RESERVE, 1, 2000000000), 2.02);
}

static void test_types(void **state)
{
    zr_task_rates rates = {0};
    zr_task_sample sample = {.together = 1, .amount = 1000, .element = 4, .seconds = 2, .seen = 1};
    zr_task_rates_add(&rates, ZR_TASK_MODEL, &sample);
    sample.element = 2;
    near(zr_task_rates_seconds(&rates, ZR_TASK_MODEL, &sample, NULL),
         2); // of another type, for lack
    sample.seconds = 3;
    zr_task_rates_add(&rates, ZR_TASK_MODEL, &sample);
    near(zr_task_rates_seconds(&rates, ZR_TASK_MODEL, &sample, NULL), 3);
    sample.element = 4;
    near(zr_task_rates_seconds(&rates, ZR_TASK_MODEL, &sample, NULL), 2);
    sample.together = 8;
    near(zr_task_rates_seconds(&rates, ZR_TASK_MODEL, &sample, NULL), 2);
}

static void test_averages_and_room(void **state)
{
    zr_task_rates rates = {0};
    teach(&rates, ZR_TASK_MODEL, 1, 10, 1);
    teach(&rates, ZR_TASK_MODEL, 1, 10, 4);
    near(known(&rates, ZR_TASK_MODEL, 1, 10), 2);
    for (int i = 1; i < ZR_TASK_SAMPLES; i++)
        teach(&rates, ZR_TASK_MODEL, 1, (int64_t)1 << (i + 4), i);
    teach(&rates, ZR_TASK_MODEL, 1, 10, 2);
    assert_int_equal(rates.count[ZR_TASK_MODEL], ZR_TASK_SAMPLES);
    teach(&rates, ZR_TASK_MODEL, 1, (int64_t)1 << 50, 99);
    assert_int_equal(rates.count[ZR_TASK_MODEL], ZR_TASK_SAMPLES);
    bool kept[2] = {false, false};
    for (int i = 0; i < rates.count[ZR_TASK_MODEL]; i++) {
        const zr_task_sample *s = &rates.at[ZR_TASK_MODEL][i];
        kept[0] |= s->amount == 10 && s->seen == 3;
        kept[1] |= s->amount == (int64_t)1 << 50;
    }
    assert_true(kept[0] && kept[1]);
}

static void write_rates(const zr_task_rates *rates, zr_buffer *out)
{
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_SPACED);
    zr_task_rates_json(rates, NULL, &w);
    assert_false(out->failed);
}

// What a busy machine takes hardly changes what is known of a quiet one, and is forgotten once
// there is a quiet run.
static void test_quiet(void **state)
{
    zr_task_rates rates = {0}, read = {0};
    zr_task_sample busy = {.together = 1, .amount = 1000, .seconds = 8, .seen = 1, .quiet = 0.25};
    zr_task_rates_add(&rates, ZR_TASK_READ, &busy);
    near(known(&rates, ZR_TASK_READ, 1, 1000), 8);
    zr_buffer text = {0};
    write_rates(&rates, &text);
    assert_non_null(strstr(text.data, "\"seen\": 1, \"quiet\": 0.25}"));
    json_t *root = NULL;
    assert_int_equal(zr_json_parse(text.data, text.length, "test", &root, NULL), ZERO_OK);
    assert_true(zr_task_rates_read(root, &read) && read.at[ZR_TASK_READ][0].quiet == 0.25);
    json_decref(root);
    zr_buffer_free(&text);
    teach(&rates, ZR_TASK_READ, 1, 1000, 2);
    near(known(&rates, ZR_TASK_READ, 1, 1000), 2);
    zr_task_rates_add(&rates, ZR_TASK_READ, &busy);
    near(known(&rates, ZR_TASK_READ, 1, 1000), 2 * pow(4, 0.1 / 3));
}

static json_t *parse(const char *text)
{
    json_t *root = NULL;
    assert_int_equal(zr_json_parse(text, strlen(text), "test", &root, NULL), ZERO_OK);
    return root;
}

static void assert_same(const zr_task_rates *a, const zr_task_rates *b)
{
    zr_buffer first = {0}, second = {0};
    write_rates(a, &first);
    write_rates(b, &second);
    assert_string_equal(first.data, second.data);
    zr_buffer_free(&first);
    zr_buffer_free(&second);
}

static void test_files(void **state)
{
    zr_task_rates rates = {0}, read = {0}, merged = {0};
    zr_buffer text = {0};
    assert_true(zr_task_rates_are_empty(&rates));
    teach(&rates, ZR_TASK_BEGIN, 2, 0, 0.25);
    teach(&rates, ZR_TASK_CHECKPOINT, 2, (int64_t)3 << 30, 1.5);
    zr_task_rates_add(
        &rates, ZR_TASK_MODEL,
        &(zr_task_sample){.together = 1, .amount = 7, .element = 2, .seconds = 0.5, .seen = 1});
    write_rates(&rates, &text);
    json_t *root = parse(text.data);
    assert_true(zr_task_rates_read(root, &read));
    assert_same(&read, &rates);
    json_decref(root);
    root = parse("{\"of another version\": [{}], \"reserve\": [{\"together\": 1, \"amount\": 1}]}");
    assert_false(zr_task_rates_read(root, &read));
    json_decref(root);
    root =
        parse("{\"reserve\": [{\"together\": 1, \"amount\": 9223372036854775807, \"seconds\": 1, "
              "\"seen\": 9223372036854775807}, {\"together\": 1, \"amount\": "
              "9223372036854775807, \"seconds\": 1, \"seen\": 9223372036854775807}]}");
    assert_true(zr_task_rates_read(root, &read)); // and nothing overflows
    json_decref(root);
    zr_task_rates_merge(&merged, &rates);
    assert_same(&merged, &rates);
    text.length = 0;
    zr_report *r = zr_report_create(NULL);
    zr_task_rates_report(&rates, r);
    zr_report_finish(r, ZR_REPORT_TEXT, 0, &text);
    assert_non_null(strstr(text.data, "beginning a run "));
    assert_non_null(strstr(text.data, "1.50 s by 2 ranks, 3221225472 bytes; 1 amount\n"));
    zr_buffer_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),     cmocka_unit_test(test_small_and_large),
        cmocka_unit_test(test_disturbed), cmocka_unit_test(test_outlier),
        cmocka_unit_test(test_types),     cmocka_unit_test(test_averages_and_room),
        cmocka_unit_test(test_quiet),     cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
