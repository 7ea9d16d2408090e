// A spill: what is written is read back by its own process and by another one, no file can be seen,
// and a disk that fails or is full ends in one message.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "data/spill.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { COUNT = 200000 }; // several times the buffer of a spill

static char directory[] = "/tmp/zero-spill-XXXXXX";
static int32_t numbers[COUNT];

static int make_place(void **state)
{
    for (int i = 0; i < COUNT; i++)
        numbers[i] = i * 7;
    return !mkdtemp(directory) || setenv("TMPDIR", directory, 1);
}

static int remove_place(void **state) { return zr_directory_remove(directory, NULL) != ZERO_OK; }

static void expect_no_file(void)
{
    char names[256];
    assert_false(zr_directory_others(directory, zr_path_is_link, names, sizeof names));
}

// Writes all numbers, in pieces of several lengths.
static zr_spill *write_numbers(void)
{
    zr_spill *spill;
    assert_int_equal(zr_spill_create("numbers", &spill, NULL), ZERO_OK);
    for (int at = 0, piece = 1; at < COUNT; at += piece, piece = piece * 3 % 70001) {
        piece = ZR_MIN(piece, COUNT - at);
        assert_int_equal(
            zr_spill_append(spill, numbers + at, (size_t)piece * sizeof *numbers, NULL), ZERO_OK);
        assert_int_equal(zr_spill_bytes(spill), (at + piece) * (int64_t)sizeof *numbers);
    }
    assert_int_equal(zr_spill_finish(spill, NULL), ZERO_OK);
    expect_no_file();
    return spill;
}

static void expect_numbers(zr_spill *spill)
{
    static int32_t read[COUNT];
    const int at[] = {0, 1, 65535, 65536, 131071, COUNT - 3};
    memset(read, 1, sizeof read);
    zr_spill_read(spill, 0, read, sizeof read);
    assert_memory_equal(read, numbers, sizeof numbers);
    for (int i = 0; i < ZR_COUNT(at); i++) {
        zr_spill_read(spill, at[i] * (int64_t)sizeof *read, read, 3 * sizeof *read);
        assert_memory_equal(read, numbers + at[i], 3 * sizeof *read);
    }
    assert_int_equal(zr_spill_check(spill, NULL), ZERO_OK);
}

static void test_what_is_written_is_read(void **state)
{
    zr_spill *spill = write_numbers();
    zr_mapped_file mapped;
    expect_numbers(spill);
    assert_int_equal(zr_spill_map(spill, &mapped, NULL), ZERO_OK);
    zr_spill_destroy(spill);
    assert_int_equal(mapped.length, sizeof numbers);
    assert_memory_equal(mapped.data, numbers, sizeof numbers);
    zr_file_release(&mapped, 5000, sizeof numbers); // the file still has them
    assert_memory_equal(mapped.data, numbers, sizeof numbers);
    zr_file_unmap(&mapped);
    expect_no_file();
}

static void test_another_process_reads_it(void **state)
{
    zr_spill *spill = write_numbers(), *other;
    const zr_spill_place place = zr_spill_place_of(spill);
    pid_t child = fork();
    if (child == 0) {
        zr_spill_destroy(spill); // so that it is the parent's, not an inherited one
        if (zr_spill_open_at(&place, "numbers", &other, NULL) != ZERO_OK || !other)
            _exit(1);
        expect_numbers(other);
        zr_spill_destroy(other);
        _exit(0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    zr_spill_destroy(spill);
}

// A process of that number, and a file of that number in it, may be others.
static void test_a_place_that_is_not_there(void **state)
{
    zr_spill *spill = write_numbers(), *other;
    zr_spill_place places[3];
    for (int i = 0; i < ZR_COUNT(places); i++)
        places[i] = zr_spill_place_of(spill);
    places[0].process = -1;
    places[1].fd = 0;
    places[2].inode++;
    for (int i = 0; i < ZR_COUNT(places); i++) {
        assert_int_equal(zr_spill_open_at(&places[i], "numbers", &other, NULL), ZERO_OK);
        assert_null(other);
    }
    zr_spill_destroy(spill);
}

// Bytes that are not there are zeros, and the spill says so from then on.
static void test_a_read_that_fails(void **state)
{
    zr_spill *spill = write_numbers();
    int32_t read[4] = {1, 1, 1, 1};
    zero_error error = {0};
    zr_spill_read(spill, (int64_t)sizeof numbers - 8, read, sizeof read);
    assert_int_equal(read[1], numbers[COUNT - 1]);
    assert_int_equal(read[2], 0);
    assert_int_equal(read[3], 0);
    assert_int_equal(zr_spill_check(spill, &error), ZERO_ERR_IO);
    assert_non_null(strstr(error.message, "numbers: cannot read them back from"));
    zr_spill_destroy(spill);
}

static void test_a_full_disk(void **state)
{
    struct rlimit before, limit;
    zr_spill *spill;
    zero_error error = {0};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 300000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(zr_spill_create("numbers", &spill, NULL), ZERO_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    zero_status status = zr_spill_append(spill, numbers, sizeof numbers, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, ZERO_ERR_IO);
    assert_non_null(strstr(error.message, directory));
    assert_non_null(strstr(error.message, "after 300000 bytes"));
    assert_non_null(strstr(error.message, "TMPDIR"));
    zr_spill_destroy(spill);
    expect_no_file();
}

static void test_no_directory(void **state)
{
    zr_spill *spill;
    zero_error error = {0};
    assert_int_equal(setenv("TMPDIR", "/tmp/zero-is-not-there", 1), 0);
    assert_int_equal(zr_spill_create("numbers", &spill, &error), ZERO_ERR_USAGE);
    assert_int_equal(setenv("TMPDIR", directory, 1), 0);
    assert_null(spill);
    assert_non_null(strstr(error.message, "\"/tmp/zero-is-not-there\" (TMPDIR names another"));
}

static void test_no_memory_for_a_spill(void **state)
{
    zr_spill *spill;
    int64_t before = zr_alloc_count();
    zr_spill_destroy(write_numbers());
    int64_t needed = zr_alloc_count() - before;
    for (int64_t nth = 1; nth <= needed; nth++) {
        zero_error error = {0};
        zr_alloc_fail_at(nth);
        assert_int_equal(zr_spill_create("numbers", &spill, &error), ZERO_ERR_MEMORY);
        assert_null(spill);
        assert_true(error.message[0] != 0);
    }
    zr_alloc_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_another_process_reads_it),
        cmocka_unit_test(test_a_place_that_is_not_there),
        cmocka_unit_test(test_a_read_that_fails),
        cmocka_unit_test(test_a_full_disk),
        cmocka_unit_test(test_no_directory),
        cmocka_unit_test(test_no_memory_for_a_spill),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
