// The book of rates: what is seen is told again, what lies between is on the line between, and the
// file keeps all of it, whoever else writes to it.
#define _GNU_SOURCE
#include "base/cpu.h"
#include "base/file.h"
#include "predict/rates.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PRODUCT ZR_ACTIVITY_product
#define NORM ZR_ACTIVITY_norm

static const zr_rate_setting two_ranks = {"avx512_bf16", ZERO_BF16, 1, 2};

static void assert_close(double a, double b)
{
    if (fabs(a - b) > 1e-9 * fabs(b))
        fail_msg("%.17g is not %.17g", a, b);
}

static zr_rates *new_rates(void)
{
    zr_rates *rates = calloc(1, sizeof *rates);
    assert_non_null(rates);
    return rates;
}

static double seconds(const zr_rates *rates, zr_activity what, int64_t bytes, int64_t flops)
{
    double unknown;
    return zr_rates_seconds(rates, what, bytes, flops, &unknown);
}

static double unknown(const zr_rates *rates, zr_activity what, int64_t bytes, int64_t flops)
{
    double out;
    zr_rates_seconds(rates, what, bytes, flops, &out);
    return out;
}

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

static void fill(zr_rate_book *book, double norm)
{
    zr_rates *rates = zr_rate_book_take(book, &two_ranks, NULL);
    assert_non_null(rates);
    zr_rates_add(rates, NORM, 1000, 0, norm, 2);
    zr_rates_add(rates, PRODUCT, 1000, 123456789012, 1.0 / 3, 2);
    zr_correction_learn(&book->corrections[ZR_TIME_UPDATE], 1, 1.25);
    zr_correction_learn(&book->whole, 1, 1.5);
    book->read = 1e9, book->write = 5e8, book->mix = 7e8, book->checksum = 3e9;
    zr_task_rates_add(&book->tasks, ZR_TASK_RESERVE,
                      &(zr_task_sample){.together = 2, .amount = 1000, .seconds = 0.5, .seen = 1});
}

static void test_json_keeps_everything(void **state)
{
    (void)state;
    zr_rate_book book = {0}, again;
    zr_buffer text = {0}, text_again = {0};
    zero_error error = {0};
    fill(&book, 1e-6);
    zr_rate_book_json(&book, "a \"processor\"", &text);
    assert_false(text.failed);
    if (zr_rate_book_parse(text.data, text.length, "rates.json", "a \"processor\"", &again,
                           &error) != ZERO_OK)
        fail_msg("%s", error.message);
    zr_rate_book_json(&again, "a \"processor\"", &text_again);
    assert_string_equal(text.data, text_again.data);
    assert_close(again.mix, 7e8);
    assert_close(zr_task_rates_seconds(&again.tasks, ZR_TASK_RESERVE,
                                       &(zr_task_sample){.together = 2, .amount = 1000}, NULL),
                 0.5);
    assert_close(again.whole.factor, 1.5);
    assert_close(seconds(&again.settings[0], PRODUCT, 1000, 123456789012), 1.0 / 3);
    assert_int_equal(again.settings[0].measured, book.settings[0].measured);
    zr_rate_book_free(&again);
    assert_int_equal(
        zr_rate_book_parse(text.data, text.length, "rates.json", "another", &again, &error),
        ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "another processor"));
    zr_buffer_free(&text);
    zr_buffer_free(&text_again);
    zr_rate_book_free(&book);
}

static void test_damaged_text_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "[]",
        "{\"format\": 2, \"processor\": \"p\"}",
        "{\"format\": 1, \"processor\": \"p\", \"settings\": [1]}",
        "{\"format\": 1, \"processor\": \"p\", \"settings\": [{\"path\": \"x\", \"dtype\": "
        "\"bf16\", \"threads\": 0, \"together\": 1}]}",
        "{\"format\": 1, \"processor\": \"p\", \"settings\": [{\"path\": \"x\", \"dtype\": "
        "\"bf16\", \"threads\": 1, \"together\": 1, \"samples\": {\"norm\": [{\"bytes\": 1, "
        "\"flops\": 0, \"seconds\": -1, \"seen\": 1}]}}]}",
        "{\"format\": 1, \"processor\": \"p\", \"corrections\": {\"step\": {\"factor\": 0}}}",
        "{\"format\": 1, \"processor\": \"p\", \"tasks\": {\"read\": [{\"seconds\": 1}]}}",
    };
    for (int i = 0; i < ZR_COUNT(texts); i++) {
        zr_rate_book book;
        zero_error error = {0};
        assert_int_not_equal(
            zr_rate_book_parse(texts[i], strlen(texts[i]), "rates.json", "p", &book, &error),
            ZERO_OK);
        assert_non_null(strstr(error.message, "rates.json"));
        assert_int_equal(book.count, 0);
    }
}

static void test_people_are_told(void **state)
{
    (void)state;
    zr_rate_book book = {0};
    zr_buffer text = {0};
    fill(&book, 1e-6);
    zr_rate_book_text(&book, &text);
    assert_non_null(strstr(text.data, "bf16, 1 thread, 2 ranks at once, avx512_bf16"));
    assert_non_null(strstr(text.data, "matrix products"));
    assert_non_null(strstr(text.data, "370.4 to 370.4 Gflop/s"));
    assert_non_null(strstr(text.data, "x 1.250"));
    assert_non_null(strstr(text.data, "reserving memory "));
    zr_buffer_free(&text);
    zr_rate_book_free(&book);
}

typedef struct desk {
    char directory[64], file[96];
    int warnings;
    zero_logger logger;
} desk;

static void count_warning(void *user, zero_log_level level, const char *message)
{
    desk *d = user;
    assert_int_equal(level, ZERO_LOG_WARNING);
    assert_non_null(strstr(message, "measured rates"));
    d->warnings++;
}

static int open_desk(void **state)
{
    desk *d = calloc(1, sizeof *d);
    strcpy(d->directory, "/tmp/zero-rates-XXXXXX");
    assert_non_null(mkdtemp(d->directory));
    assert_int_equal(setenv("XDG_CACHE_HOME", d->directory, 1), 0);
    char *file;
    assert_int_equal(zr_rate_book_file(&file, NULL), ZERO_OK);
    snprintf(d->file, sizeof d->file, "%s", file);
    zr_free(file);
    d->logger = (zero_logger){.write = count_warning, .user = d};
    *state = d;
    return 0;
}

static int close_desk(void **state)
{
    desk *d = *state;
    assert_int_equal(zr_directory_remove(d->directory, NULL), ZERO_OK);
    free(d);
    return 0;
}

static void test_the_file_keeps_what_was_found(void **state)
{
    desk *d = *state;
    zr_rate_book found = {0}, read;
    zr_rate_book_read(&d->logger, &read);
    assert_int_equal(read.count, 0);
    fill(&found, 1e-6);
    zr_rate_book_keep(&found, &d->logger);
    zr_rate_book_keep(&found, &d->logger);
    zr_rate_book_read(&d->logger, &read);
    assert_int_equal(read.count, 1);
    assert_int_equal(read.whole.runs, 2);
    assert_close(seconds(&read.settings[0], NORM, 1000, 0), 1e-6);
    assert_int_equal(d->warnings, 0);
    zr_rate_book_free(&found);
    zr_rate_book_free(&read);
}

// Machines that share a home directory and are of different kinds have a file each.
static void test_the_file_is_named_after_the_processor(void **state)
{
    desk *d = *state;
    char model[128], words[160] = "";
    const char *name = strrchr(d->file, '/') + 1;
    zr_cpu_model(model, sizeof model);
    assert_non_null(strstr(d->file, "/libzero/rates-"));
    for (const char *c = model; *c; c++)
        if (isalnum((unsigned char)*c))
            sprintf(words + strlen(words), "%c", tolower((unsigned char)*c));
    for (const char *c = name + strlen("rates"), *at = words; strcmp(c, ".json") != 0; c++)
        if (*c != '-')
            assert_int_equal(*c, *at++);
}

static void test_a_damaged_file_counts_as_empty(void **state)
{
    desk *d = *state;
    zr_rate_book found = {0}, read;
    fill(&found, 1e-6);
    zr_rate_book_keep(&found, &d->logger);
    assert_int_equal(zr_file_write_durable(d->file, "{", 1, NULL), ZERO_OK);
    zr_rate_book_read(&d->logger, &read);
    assert_int_equal(read.count, 0);
    assert_int_equal(d->warnings, 1);
    zr_rate_book_keep(&found, &d->logger); // who keeps has read it before, and was told
    zr_rate_book_read(&d->logger, &read);
    assert_int_equal(read.count, 1);
    assert_int_equal(d->warnings, 1);
    zr_rate_book_free(&found);
    zr_rate_book_free(&read);
}

static void test_a_file_that_cannot_be_written_is_a_warning(void **state)
{
    desk *d = *state;
    zr_rate_book found = {0};
    char path[128];
    snprintf(path, sizeof path, "%s/libzero", d->directory);
    assert_int_equal(zr_file_write_durable(path, "x", 1, NULL), ZERO_OK); // no directory
    fill(&found, 1e-6);
    zr_rate_book_keep(&found, &d->logger);
    assert_int_equal(d->warnings, 1);
    zr_rate_book_free(&found);
}

enum { KEEPERS = 4, RUNS = 5 };

static void *keep_often(void *user)
{
    zr_rate_book found = {0};
    zr_correction_learn(&found.whole, 1, 1.5);
    for (int i = 0; i < RUNS; i++)
        zr_rate_book_keep(&found, &((desk *)user)->logger);
    return NULL;
}

static void test_runs_that_end_together_lose_nothing(void **state)
{
    desk *d = *state;
    pthread_t threads[KEEPERS];
    zr_rate_book read;
    for (int i = 0; i < KEEPERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_often, d), 0);
    for (int i = 0; i < KEEPERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    zr_rate_book_read(&d->logger, &read);
    assert_int_equal(read.whole.runs, KEEPERS * RUNS);
    assert_int_equal(d->warnings, 0);
    zr_rate_book_free(&read);
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
        cmocka_unit_test(test_json_keeps_everything),
        cmocka_unit_test(test_damaged_text_is_refused),
        cmocka_unit_test(test_people_are_told),
        cmocka_unit_test_setup_teardown(test_the_file_keeps_what_was_found, open_desk, close_desk),
        cmocka_unit_test_setup_teardown(test_the_file_is_named_after_the_processor, open_desk,
                                        close_desk),
        cmocka_unit_test_setup_teardown(test_a_damaged_file_counts_as_empty, open_desk, close_desk),
        cmocka_unit_test_setup_teardown(test_a_file_that_cannot_be_written_is_a_warning, open_desk,
                                        close_desk),
        cmocka_unit_test_setup_teardown(test_runs_that_end_together_lose_nothing, open_desk,
                                        close_desk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
