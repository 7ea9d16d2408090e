// Disks and memories in the book of rates: each host and disk has its own row, the newest counts,
// old ones are not used, and the file in which earlier versions kept them is still read.
#define _GNU_SOURCE
#include "rates_support.h"

#include "base/cpu.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const zr_storage_rates disk_of_a = {.host = "a",
                                           .disk = "254:0 /",
                                           .measured = 1800000000,
                                           .read = 3e9,
                                           .write = 1.5e9,
                                           .mix = 2.25e9,
                                           .direct = true,
                                           .block = 1 << 20,
                                           .depth = 8};
static const zr_storage_rates memory_of_a = {
    .host = "a", .measured = 1800000000, .copy = 19.5e9, .update = 24e9};

static void put(zr_rate_book *book, const zr_storage_rates *rates)
{
    assert_int_equal(zr_rate_book_set_storage(book, rates, NULL), ZERO_OK);
}

static const zr_storage_rates *row_of(const zr_rate_book *book, const char *host, const char *disk)
{
    for (int i = 0; i < book->storage_count; i++)
        if (!strcmp(book->storage[i].host, host) && !strcmp(book->storage[i].disk, disk))
            return &book->storage[i];
    return NULL;
}

static void assert_same(const zr_storage_rates *a, const zr_storage_rates *b)
{
    assert_non_null(a);
    assert_true(a->read == b->read && a->write == b->write && a->mix == b->mix &&
                a->copy == b->copy && a->update == b->update);
    assert_true(a->direct == b->direct && a->block == b->block && a->depth == b->depth &&
                a->measured == b->measured);
}

static void test_each_host_and_disk_has_a_row(void **state)
{
    (void)state;
    zr_rate_book book = {0};
    zr_storage_rates other = disk_of_a;
    strcpy(other.host, "b");
    other.read = 1e8;
    put(&book, &disk_of_a);
    put(&book, &memory_of_a);
    put(&book, &other);
    assert_int_equal(book.storage_count, 3);
    assert_same(row_of(&book, "a", "254:0 /"), &disk_of_a);
    assert_same(row_of(&book, "a", ""), &memory_of_a);
    assert_same(row_of(&book, "b", "254:0 /"), &other);
    zr_rate_book_free(&book);
}

static void test_the_newest_counts(void **state)
{
    (void)state;
    zr_rate_book book = {0}, from = {0};
    zr_storage_rates newer = disk_of_a, older = disk_of_a;
    newer.measured++, newer.read = 1e9;
    older.measured--, older.read = 2e9;
    put(&book, &disk_of_a);
    put(&from, &newer);
    assert_int_equal(zr_rate_book_merge(&book, &from, NULL), ZERO_OK);
    put(&book, &older);
    assert_int_equal(book.storage_count, 1);
    assert_same(row_of(&book, "a", "254:0 /"), &newer);
    zr_rate_book_free(&book);
    zr_rate_book_free(&from);
}

static void test_the_oldest_makes_room(void **state)
{
    (void)state;
    zr_rate_book book = {0};
    zr_storage_rates row = disk_of_a;
    for (int i = 0; i <= ZR_MOST_STORAGE_RATES; i++) {
        snprintf(row.disk, sizeof row.disk, "254:%d /", i);
        row.measured = i == 5 ? 1 : 2;
        put(&book, &row);
    }
    assert_int_equal(book.storage_count, ZR_MOST_STORAGE_RATES);
    assert_null(row_of(&book, "a", "254:5 /"));
    assert_non_null(row_of(&book, "a", "254:0 /"));
    assert_non_null(row_of(&book, "a", row.disk));
    zr_rate_book_free(&book);
}

static int open_desk(void **state)
{
    desk *d = open_cache();
    snprintf(d->file, sizeof d->file, "%s/libzero", d->directory);
    assert_int_equal(zr_directory_create(d->file, NULL), ZERO_OK);
    strcat(d->file, "/bandwidth.json");
    *state = d;
    return 0;
}

static void write_earlier(desk *d, const char *text)
{
    assert_int_equal(zr_file_write_durable(d->file, text, strlen(text), NULL), ZERO_OK);
}

// What earlier versions wrote after `zero bench memory` and `zero bench io` on two hosts; PROCESSOR
// stands for the name of one.
static const char earlier_text[] =
    "{\n  \"format\": 1,\n  \"machines\": {\n    \"a\": {\n      \"processor\": \"PROCESSOR\",\n"
    "      \"memory\": {\n        \"measured\": 1800000000,\n        \"copy\": 19500000000.0,\n"
    "        \"update\": 24000000000.0\n      },\n      \"disks\": {\n        \"254:0 /\": {\n"
    "          \"measured\": 1800000000,\n          \"read\": 3000000000.0,\n"
    "          \"write\": 1500000000.0,\n          \"mix\": 2250000000.0,\n"
    "          \"direct\": true,\n          \"block\": 1048576,\n          \"depth\": 8\n"
    "        },\n        \"damaged\": {\"measured\": 1800000000, \"read\": -1}\n      }\n    },\n"
    "    \"b\": {\n      \"processor\": \"another\",\n      \"memory\": {\n"
    "        \"measured\": 1800000000,\n        \"copy\": 1.0,\n        \"update\": 1.0\n      }\n"
    "    }\n  }\n}";

static void write_earlier_of(desk *d, const char *processor)
{
    char text[2048];
    const char *name = strstr(earlier_text, "PROCESSOR");
    snprintf(text, sizeof text, "%.*s%s%s", (int)(name - earlier_text), earlier_text, processor,
             name + strlen("PROCESSOR"));
    write_earlier(d, text);
}

static void test_rates_of_before_load(void **state)
{
    desk *d = *state;
    char processor[128];
    zr_rate_book book, found = {0};
    zr_cpu_model(processor, sizeof processor);
    write_earlier_of(d, processor);
    zr_rate_book_read(&d->logger, &book);
    assert_int_equal(d->warnings, 0);
    assert_int_equal(book.storage_count, 2); // not the damaged disk, nor another processor's host
    assert_same(row_of(&book, "a", "254:0 /"), &disk_of_a);
    assert_same(row_of(&book, "a", ""), &memory_of_a);
    zr_rate_book_free(&book);
    // Whatever is kept next takes them into the file of the book.
    zr_correction_learn(&found.whole, 1, 1.5);
    assert_true(zr_rate_book_keep(&found, &d->logger));
    assert_int_equal(unlink(d->file), 0);
    zr_rate_book_read(&d->logger, &book);
    assert_int_equal(book.whole.runs, 1);
    assert_same(row_of(&book, "a", "254:0 /"), &disk_of_a);
    assert_same(row_of(&book, "a", ""), &memory_of_a);
    zr_rate_book_free(&book);
}

static void test_damaged_files_of_before_are_left_aside(void **state)
{
    desk *d = *state;
    static const char *const texts[] = {
        "", "{", "[]", "{}", "{\"format\": 2, \"machines\": {}}", "\xff\xfe"};
    for (int i = 0; i < ZR_COUNT(texts); i++) {
        zr_rate_book book;
        d->warnings = 0;
        write_earlier(d, texts[i]);
        zr_rate_book_read(&d->logger, &book);
        assert_int_equal(d->warnings, 1);
        assert_int_equal(book.storage_count, 0);
        zr_rate_book_free(&book);
    }
    d->warnings = 0;
    write_earlier(d, "{\"format\": 1, \"machines\": {\"a\": 3}}");
    zr_rate_book book;
    zr_rate_book_read(&d->logger, &book);
    assert_int_equal(book.storage_count, 0);
    zr_rate_book_free(&book);
}

static void test_this_machine(void **state)
{
    desk *d = *state;
    char *file = NULL;
    zr_rate_book book;
    zr_storage_rates here, below;
    assert_int_equal(zr_storage_name(d->directory, &here, NULL), ZERO_OK);
    assert_int_equal(zr_storage_name("/proc/self", &below, NULL), ZERO_OK);
    assert_non_null(strchr(here.disk, '/'));
    assert_string_equal(strchr(below.disk, '/'), "/proc");
    assert_int_equal(zr_storage_name("/nowhere", &below, NULL), ZERO_ERR_USAGE);
    zr_storage_keep(d->directory, &disk_of_a, &d->logger, &file);
    assert_non_null(file);
    assert_non_null(strstr(file, "/libzero/rates-"));
    zr_free(file);
    zr_storage_keep(NULL, &memory_of_a, &d->logger, &file);
    zr_free(file);
    zr_rate_book_read(&d->logger, &book);
    assert_int_equal(book.storage_count, 2);
    assert_true(zr_rate_book_storage(&book, d->directory)->read == disk_of_a.read);
    assert_true(zr_rate_book_storage(&book, NULL)->copy == memory_of_a.copy);
    assert_null(zr_rate_book_storage(&book, "/proc"));
    assert_int_equal(d->warnings, 0);
    zr_rate_book_free(&book);
}

static void test_a_plan_uses_the_disk_of_its_directory(void **state)
{
    desk *d = *state;
    zr_rate_book book = {.read = 1, .write = 2, .mix = 3};
    zr_storage_rates here;
    assert_int_equal(zr_storage_name(d->directory, &here, NULL), ZERO_OK);
    here.read = 10, here.write = 20, here.mix = 30;
    put(&book, &here);
    zr_rate_book_use_disk(&book, NULL);
    zr_rate_book_use_disk(&book, "/proc");
    assert_true(book.read == 1 && book.write == 2 && book.mix == 3);
    zr_rate_book_use_disk(&book, d->directory);
    assert_true(book.read == 10 && book.write == 20 && book.mix == 30);
    zr_rate_book_free(&book);
}

static void test_old_rates_are_not_used(void **state)
{
    desk *d = *state;
    const int64_t day = 86400, now = time(NULL);
    const struct {
        int64_t measured;
        bool used;
    } cases[] = {{now - 179 * day, true}, {now - 181 * day, false}, {now + 2 * day, false}};
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zr_rate_book book = {0};
        zr_storage_rates here;
        assert_int_equal(zr_storage_name(d->directory, &here, NULL), ZERO_OK);
        here.measured = cases[i].measured;
        put(&book, &here);
        assert_int_equal(zr_rate_book_storage(&book, d->directory) != NULL, cases[i].used);
        zr_rate_book_free(&book);
    }
}

static void test_a_file_that_cannot_be_written_is_a_warning(void **state)
{
    desk *d = *state;
    char *file = NULL;
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    zr_storage_keep(d->directory, &disk_of_a, &d->logger, &file);
    assert_null(file);
    assert_int_equal(d->warnings, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_host_and_disk_has_a_row),
        cmocka_unit_test(test_the_newest_counts),
        cmocka_unit_test(test_the_oldest_makes_room),
        cmocka_unit_test_setup_teardown(test_rates_of_before_load, open_desk, close_desk),
        cmocka_unit_test_setup_teardown(test_damaged_files_of_before_are_left_aside, open_desk,
                                        close_desk),
        cmocka_unit_test_setup_teardown(test_this_machine, open_desk, close_desk),
        cmocka_unit_test_setup_teardown(test_a_plan_uses_the_disk_of_its_directory, open_desk,
                                        close_desk),
        cmocka_unit_test_setup_teardown(test_old_rates_are_not_used, open_desk, close_desk),
        cmocka_unit_test_setup_teardown(test_a_file_that_cannot_be_written_is_a_warning, open_desk,
                                        close_desk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
