// The file of measured bandwidths: what is stored is read again, by its machine and disk; what is
// damaged, old or belongs to another machine is not.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/file.h"
#include "predict/bandwidth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NOW ((int64_t)1800000000)

static const zr_bandwidth disk_of_a = {
    .read = 3e9, .write = 1.5e9, .mix = 2.25e9, .direct = true, .block = 1 << 20, .depth = 8};
static const zr_bandwidth memory_of_a = {.copy = 19.5e9, .update = 24e9};
static const zr_bandwidth disk_of_b = {
    .read = 1e8, .write = 9e7, .mix = 8e7, .block = 4096, .depth = 1};

static zr_bandwidth_site place_of(const char *host, const char *disk)
{
    zr_bandwidth_site place = {.processor = "a processor", .disk = (char *)disk, .now = NOW};
    snprintf(place.host, sizeof place.host, "%s", host);
    return place;
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
    assert_non_null(strstr(message, "bandwidth"));
    d->warnings++;
}

static int open_desk(void **state)
{
    desk *d = calloc(1, sizeof *d);
    strcpy(d->directory, "/tmp/zero-bandwidth-XXXXXX");
    assert_non_null(mkdtemp(d->directory));
    snprintf(d->file, sizeof d->file, "%s/bandwidth.json", d->directory);
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

static void keep(desk *d, const char *host, const char *disk, const zr_bandwidth *measured)
{
    zr_bandwidth_site place = place_of(host, disk);
    assert_int_equal(zr_bandwidth_write_to(d->file, &place, measured, &d->logger, NULL), ZERO_OK);
}

static zr_bandwidth look(desk *d, const char *host, const char *disk)
{
    zr_bandwidth_site place = place_of(host, disk);
    zr_bandwidth found;
    zr_bandwidth_read_from(d->file, &place, &d->logger, &found);
    return found;
}

static void assert_same(zr_bandwidth a, zr_bandwidth b)
{
    assert_true(a.read == b.read && a.write == b.write && a.mix == b.mix && a.copy == b.copy &&
                a.update == b.update);
    assert_true(a.direct == b.direct && a.block == b.block && a.depth == b.depth);
}

static void write_file(desk *d, const char *text)
{
    assert_int_equal(zr_file_write_durable(d->file, text, strlen(text), NULL), ZERO_OK);
}

static void test_what_is_kept_is_read_again(void **state)
{
    desk *d = *state;
    zr_bandwidth both = disk_of_a;
    both.copy = memory_of_a.copy, both.update = memory_of_a.update;
    keep(d, "a", "254:0 /", &disk_of_a);
    assert_same(look(d, "a", "254:0 /"), disk_of_a);
    keep(d, "a", NULL, &memory_of_a); // the disk's stay
    assert_same(look(d, "a", "254:0 /"), both);
    assert_same(look(d, "a", NULL), memory_of_a);
    keep(d, "a", "254:0 /", &disk_of_b); // again: the last counts
    assert_true(look(d, "a", "254:0 /").read == disk_of_b.read);
    assert_int_equal(d->warnings, 0);
}

static void test_machines_and_disks_have_their_own(void **state)
{
    desk *d = *state;
    keep(d, "a", "254:0 /", &disk_of_a);
    keep(d, "b", "254:0 /", &disk_of_b);
    keep(d, "b", "254:1 /data", &disk_of_a);
    assert_same(look(d, "a", "254:0 /"), disk_of_a);
    assert_same(look(d, "b", "254:0 /"), disk_of_b);
    assert_same(look(d, "b", "254:1 /data"), disk_of_a);
    assert_same(look(d, "a", "254:1 /data"), (zr_bandwidth){0});
    assert_same(look(d, "c", "254:0 /"), (zr_bandwidth){0});
    assert_int_equal(d->warnings, 0);
}

static void test_a_missing_file_is_no_news(void **state)
{
    desk *d = *state;
    assert_same(look(d, "a", "254:0 /"), (zr_bandwidth){0});
    assert_int_equal(d->warnings, 0);
}

static void test_damaged_files_are_left_aside(void **state)
{
    desk *d = *state;
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"format\": 2, \"machines\": {}}",
        "{\"format\": 1, \"machines\": []}",
        "\xff\xfe",
        "{\"format\": 1, \"machines\": {\"a\": 3}}",
        "{\"format\": 1, \"machines\": {\"a\": {\"processor\": \"a processor\", \"disks\": {\"d\": "
        "{\"measured\": 1800000000, \"read\": -1}}}}}",
        "{\"format\": 1, \"machines\": {\"a\": {\"processor\": \"a processor\", \"disks\": {\"d\": "
        "\"fast\"}}}}",
    };
    for (int i = 0; i < ZR_COUNT(texts); i++) {
        d->warnings = 0;
        write_file(d, texts[i]);
        assert_same(look(d, "a", "d"), (zr_bandwidth){0});
        assert_int_equal(d->warnings, 1);
        keep(d, "a", "d", &disk_of_a); // and replaced
        d->warnings = 0;
        assert_same(look(d, "a", "d"), disk_of_a);
        assert_int_equal(d->warnings, 0);
    }
}

static void test_old_and_foreign_figures_are_left_aside(void **state)
{
    desk *d = *state;
    zr_bandwidth found;
    zr_bandwidth_site later = place_of("a", "d"), renewed = place_of("a", "d");
    keep(d, "a", "d", &disk_of_a);
    later.now = NOW + (int64_t)181 * 86400;
    zr_bandwidth_read_from(d->file, &later, &d->logger, &found);
    assert_same(found, (zr_bandwidth){0});
    assert_int_equal(d->warnings, 1);
    strcpy(renewed.processor, "another processor");
    zr_bandwidth_read_from(d->file, &renewed, &d->logger, &found);
    assert_same(found, (zr_bandwidth){0});
    assert_int_equal(d->warnings, 2);
    assert_int_equal(zr_bandwidth_write_to(d->file, &renewed, &memory_of_a, &d->logger, NULL),
                     ZERO_OK);
    zr_bandwidth_read_from(d->file, &renewed, &d->logger, &found);
    assert_same(found, memory_of_a); // the earlier processor's disk went with it
}

static void test_a_file_that_cannot_be_written_is_an_error_to_see(void **state)
{
    desk *d = *state;
    zero_error error = {0};
    zr_bandwidth_site place = place_of("a", "d");
    assert_int_equal(zr_bandwidth_write_to("/proc/nowhere/bandwidth.json", &place, &disk_of_a,
                                           &d->logger, &error),
                     ZERO_ERR_IO);
    assert_non_null(strstr(error.message, "/proc/nowhere"));
}

static void test_this_machine(void **state)
{
    desk *d = *state;
    char *file = NULL;
    zr_bandwidth found;
    zr_bandwidth_site here, below;
    assert_int_equal(zr_bandwidth_site_find(d->directory, &here, NULL), ZERO_OK);
    assert_int_equal(zr_bandwidth_site_find("/proc/self", &below, NULL), ZERO_OK);
    assert_non_null(strchr(here.disk, '/'));
    assert_string_equal(strchr(below.disk, '/'), "/proc");
    zr_bandwidth_site_free(&here);
    zr_bandwidth_site_free(&below);
    setenv("XDG_CACHE_HOME", d->directory, 1);
    zr_bandwidth_keep(d->directory, &disk_of_a, &d->logger, &file);
    assert_non_null(file);
    assert_true(strncmp(file, d->directory, strlen(d->directory)) == 0);
    zr_free(file);
    zr_bandwidth_read(d->directory, &d->logger, &found);
    assert_same(found, disk_of_a);
    assert_int_equal(d->warnings, 0);
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    zr_bandwidth_keep(d->directory, &disk_of_a, &d->logger, &file);
    assert_null(file);
    assert_int_equal(d->warnings, 1);
    zr_bandwidth_read(d->directory, &d->logger, &found);
    assert_same(found, (zr_bandwidth){0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_kept_is_read_again, open_desk, close_desk),
        cmocka_unit_test_setup_teardown(test_machines_and_disks_have_their_own, open_desk,
                                        close_desk),
        cmocka_unit_test_setup_teardown(test_a_missing_file_is_no_news, open_desk, close_desk),
        cmocka_unit_test_setup_teardown(test_damaged_files_are_left_aside, open_desk, close_desk),
        cmocka_unit_test_setup_teardown(test_old_and_foreign_figures_are_left_aside, open_desk,
                                        close_desk),
        cmocka_unit_test_setup_teardown(test_a_file_that_cannot_be_written_is_an_error_to_see,
                                        open_desk, close_desk),
        cmocka_unit_test_setup_teardown(test_this_machine, open_desk, close_desk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
