// The file of the book of rates keeps all of it, whoever else writes to it.
#define _GNU_SOURCE
#include "rates_support.h"

#include "base/cpu.h"
#include "base/file.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    assert_int_equal(again.storage_count, 2);
    assert_string_equal(again.storage[0].disk, "8:1 /a \"b\"");
    assert_int_equal(again.storage[0].block, 4096);
    assert_close(again.storage[0].mix, 1.0 / 3);
    assert_close(again.storage[1].update, 2e10);
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
        "{\"format\": 1, \"processor\": \"p\", \"storage\": [{\"host\": \"a\", \"copy\": 1}]}",
        "{\"format\": 1, \"processor\": \"p\", \"storage\": [{\"copy\": 1, \"update\": 1}]}",
        "{\"format\": 1, \"processor\": \"p\", \"storage\": [{\"host\": \"a\", \"disk\": \"d\", "
        "\"read\": 1, \"write\": 1, \"mix\": 1, \"block\": 0, \"depth\": 1}]}",
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
    zr_report *r = zr_report_create(NULL);
    zr_rate_book_report(&book, r);
    zr_report_finish(r, ZR_REPORT_TEXT, 0, &text);
    assert_non_null(strstr(text.data, "bf16, 1 thread, 2 ranks at once, avx512_bf16"));
    assert_non_null(strstr(text.data, "matrix products"));
    assert_non_null(strstr(text.data, "370.4 to 370.4 Gflop/s"));
    assert_non_null(strstr(text.data, "x 1.250"));
    assert_non_null(strstr(text.data, "reserving memory "));
    zr_buffer_free(&text);
    zr_rate_book_free(&book);
}

static int open_desk(void **state)
{
    desk *d = open_cache();
    char *file;
    assert_int_equal(zr_rate_book_file(&file, NULL), ZERO_OK);
    snprintf(d->file, sizeof d->file, "%s", file);
    zr_free(file);
    *state = d;
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
