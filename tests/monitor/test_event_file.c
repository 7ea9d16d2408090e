// Event files equal those of TensorBoard's own writer byte for byte (tests/oracle/event_file.py),
// each run has a file of its own, and a write that fails leaves nothing half-written.
#define _GNU_SOURCE
#include "../base/scratch_directory.h"
#include "monitor/scalar_files.h"
#include "monitor/append_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static void test_golden(void **state)
{
    char *golden;
    size_t length;
    zr_buffer out = {0};
    zr_event_append_version(&out, 1700000000.25);
    zr_event_append_start(&out, 1700000000.5, 769);
    zr_event_append_scalar(&out, 1700000001.0, 0,
                           &(zr_scalar){ZR_SCALAR_train_loss, 5.540217399597168});
    zr_event_append_scalar(&out, 1700000001.0, 127, &(zr_scalar){ZR_SCALAR_lr, 1e-5});
    zr_event_append_scalar(&out, 1700000001.0, 128, &(zr_scalar){ZR_SCALAR_loss_scale, 65536});
    zr_event_append_scalar(&out, 1700000001.0, 768, &(zr_scalar){ZR_SCALAR_eval_loss, NAN});
    zr_event_append_scalar(&out, 1700000001.0, INT64_C(1) << 40,
                           &(zr_scalar){ZR_SCALAR_elapsed_time_ms_backward_allreduce, -0.0});
    assert_false(out.failed);
    assert_int_equal(zr_file_read(GOLDEN_EVENTS, 1 << 20, &golden, &length, NULL), ZERO_OK);
    assert_int_equal(out.length, length);
    assert_memory_equal(out.data, golden, length);
    zr_free(golden);
    zr_buffer_free(&out);
}

// The only file of a directory whose name ends so; NULL where there is none.
static char *find(scratch *s, const char *end)
{
    char *found = NULL;
    DIR *directory = opendir(s->directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        size_t length = strlen(entry->d_name), tail = strlen(end);
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) || length < tail ||
            strcmp(entry->d_name + length - tail, end))
            continue;
        assert_null(found);
        assert_true(asprintf(&found, "%s/%s", s->directory, entry->d_name) > 0);
    }
    closedir(directory);
    return found;
}

static size_t length_of(const char *path)
{
    char *text;
    size_t length;
    assert_int_equal(zr_file_read(path, 1 << 20, &text, &length, NULL), ZERO_OK);
    zr_free(text);
    return length;
}

static size_t length_of_records(int64_t start, int scalars)
{
    zr_buffer out = {0};
    zr_event_append_version(&out, 1);
    if (start)
        zr_event_append_start(&out, 1, start);
    for (int i = 0; i < scalars; i++)
        zr_event_append_scalar(&out, 1, 700, &(zr_scalar){ZR_SCALAR_lr, 1});
    size_t length = out.length;
    zr_buffer_free(&out);
    return length;
}

// The file has a version and a START of that step, whatever the time.
static void expect_start(const char *path, int64_t step)
{
    enum { TIME = 9 };
    char *text;
    size_t length, version = length_of_records(0, 0) + 12;
    zr_buffer wanted = {0};
    zr_event_append_version(&wanted, 1);
    zr_event_append_start(&wanted, 1, step);
    assert_int_equal(zr_file_read(path, 1 << 20, &text, &length, NULL), ZERO_OK);
    assert_int_equal(length, wanted.length);
    assert_memory_equal(text + version + TIME, wanted.data + version + TIME,
                        length - version - TIME - 4);
    zr_free(text);
    zr_buffer_free(&wanted);
}

static void test_files(void **state)
{
    const zr_scalar lr = {ZR_SCALAR_lr, 1};
    zr_event_file *first, *second;
    assert_int_equal(zr_event_file_open(((scratch *)*state)->directory, 0, &first, NULL), ZERO_OK);
    char *path = find(*state, ".0"), end[32];
    snprintf(end, sizeof end, ".%d.0", (int)getpid());
    assert_non_null(strstr(path, end));
    assert_int_equal(length_of(path), length_of_records(0, 0));
    assert_int_equal(zr_event_file_write(first, 700, &lr, 1, NULL), ZERO_OK);
    assert_int_equal(length_of(path), length_of_records(0, 1)); // before it is closed
    assert_int_equal(zr_event_file_write(first, 700, (zr_scalar[]){lr, lr}, 2, NULL), ZERO_OK);
    assert_int_equal(length_of(path), length_of_records(0, 3));
    // Another run of this second goes on from 500 samples.
    assert_int_equal(zr_event_file_open(((scratch *)*state)->directory, 500, &second, NULL),
                     ZERO_OK);
    zr_event_file_close(second);
    zr_event_file_close(first);
    free(path);
    path = find(*state, ".1");
    if (path) // else a second has passed in between
        expect_start(path, 501);
    free(path);
}

static void test_no_directory(void **state)
{
    zr_event_file *file;
    zero_error error = {0};
    assert_int_equal(zr_event_file_open(scratch_path(*state, "absent"), 0, &file, &error),
                     ZERO_ERR_IO);
    assert_null(file);
    assert_contains(error.message, "absent/events.out.tfevents.");
    assert_contains(error.message, "No such file");
}

// A disk that is full in the middle of a record, by the largest file that the process may write.
static void test_full(void **state)
{
    struct rlimit before, limit;
    zr_append_file tail;
    zr_buffer entry = {0};
    zero_error error = {0};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){.rlim_cur = 10, .rlim_max = before.rlim_max};
    assert_int_equal(zr_append_file_open(scratch_path(*state, "full"), O_CREAT, &tail, &error),
                     ZERO_OK);
    zr_buffer_append(&entry, "whole,", 6);
    assert_int_equal(zr_append_file_write(&tail, &entry, &error), ZERO_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    zr_buffer_append(&entry, "half,half,", 10);
    zero_status status = zr_append_file_write(&tail, &entry, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, ZERO_ERR_IO);
    assert_contains(error.message, "cannot write to ");
    assert_int_equal(length_of(scratch_path(*state, "full")), 6);
    zr_buffer_append(&entry, "again", 5);
    assert_int_equal(zr_append_file_write(&tail, &entry, &error), ZERO_OK);
    assert_int_equal(length_of(scratch_path(*state, "full")), 11);
    zr_append_file_close(&tail);
    zr_buffer_free(&entry);
}

static void test_no_memory(void **state)
{
    zr_event_file *file;
    int64_t nth = 1;
    for (;; nth++) {
        zr_alloc_fail_at(nth);
        zero_status status = zr_event_file_open(((scratch *)*state)->directory, 1, &file, NULL);
        zr_alloc_fail_at(0);
        if (status == ZERO_OK)
            break;
        assert_int_equal(status, ZERO_ERR_MEMORY);
        assert_true(!file && nth < 20);
    }
    assert_true(nth > 3);
    zr_event_file_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test_setup_teardown(test_files, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_no_directory, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_full, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_no_memory, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
