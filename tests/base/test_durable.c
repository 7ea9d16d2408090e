// Durable writes under injected failures: each system call in turn fails, comes short or is
// interrupted, and the path then holds the old content or the new, without a temporary file. The
// linker's --wrap replaces the functions below.
#include "scratch_directory.h"

#include "base/alloc.h"
#include <errno.h>
#include <unistd.h>

typedef enum fault_kind {
    FAULT_NONE,
    FAULT_PREAD,
    FAULT_PWRITE,
    FAULT_FSYNC,
    FAULT_RENAME
} fault_kind;

static struct {
    fault_kind kind;
    int errnum;     // 0: a short transfer of one byte instead
    int skip, left; // after `skip` calls, `left` of them are faulty
    int hits;
    char order[64]; // of the calls: w f r
} fault;

static bool faulty(fault_kind kind)
{
    bool hit = fault.kind == kind && fault.skip-- <= 0 && fault.left-- > 0;
    fault.hits += hit;
    if (hit && fault.errnum)
        errno = fault.errnum;
    return hit;
}

static void note(const char *letter)
{
    if (strlen(fault.order) + 1 < sizeof fault.order)
        strcat(fault.order, letter);
}

ssize_t __real_pread64(int fd, void *data, size_t bytes, off_t offset);
ssize_t __wrap_pread64(int fd, void *data, size_t bytes, off_t offset);
ssize_t __real_pwrite64(int fd, const void *data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off_t offset);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);

ssize_t __wrap_pread64(int fd, void *data, size_t bytes, off_t offset)
{
    if (faulty(FAULT_PREAD))
        return fault.errnum ? -1 : __real_pread64(fd, data, 1, offset);
    return __real_pread64(fd, data, bytes, offset);
}

ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off_t offset)
{
    note("w");
    if (faulty(FAULT_PWRITE))
        return fault.errnum ? -1 : __real_pwrite64(fd, data, 1, offset);
    return __real_pwrite64(fd, data, bytes, offset);
}

int __wrap_fsync(int fd)
{
    note("f");
    return faulty(FAULT_FSYNC) ? -1 : __real_fsync(fd);
}

int __wrap_rename(const char *from, const char *to)
{
    note("r");
    return faulty(FAULT_RENAME) ? -1 : __real_rename(from, to);
}

static void arm(fault_kind kind, int errnum, int skip, int count)
{
    memset(&fault, 0, sizeof fault);
    fault.kind = kind;
    fault.errnum = errnum;
    fault.skip = skip;
    fault.left = count;
}

static void assert_content(const char *path, const char *expected)
{
    char *data;
    size_t length;
    assert_int_equal(zr_file_read(path, 1000, &data, &length, NULL), ZERO_OK);
    assert_string_equal(data, expected);
    zr_free(data);
}

static void the_order_is_write_sync_rename_sync(void **state)
{
    scratch *dir = *state;
    arm(FAULT_NONE, 0, 0, 0);
    assert_int_equal(zr_file_write_durable(scratch_path(dir, "f"), "new", 3, NULL), ZERO_OK);
    assert_string_equal(fault.order, "wfrf");
    assert_content(dir->path, "new");
    assert_int_equal(scratch_entries(dir->directory), 1);
    assert_int_equal(zr_file_write_durable(dir->path, "", 0, NULL), ZERO_OK);
    assert_content(dir->path, "");
}

static void a_failure_keeps_the_old_content(void **state)
{
    static const struct {
        fault_kind kind;
        int errnum;
    } cases[] = {{FAULT_PWRITE, ENOSPC},
                 {FAULT_PWRITE, EIO},
                 {FAULT_FSYNC, EIO},
                 {FAULT_FSYNC, ENOSPC},
                 {FAULT_RENAME, EACCES}};
    scratch *dir = *state;
    scratch_write(dir, "f", "old");
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zero_error error = {0};
        arm(cases[i].kind, cases[i].errnum, 0, 1);
        assert_int_equal(zr_file_write_durable(dir->path, "new", 3, &error), ZERO_ERR_IO);
        assert_int_equal(fault.hits, 1);
        assert_contains(error.message, strerror(cases[i].errnum));
        assert_contains(error.message, dir->path);
        arm(FAULT_NONE, 0, 0, 0);
        assert_content(dir->path, "old");
        assert_int_equal(scratch_entries(dir->directory), 1);
    }
}

static void a_directory_that_is_not_synced_is_reported(void **state)
{
    scratch *dir = *state;
    zero_error error = {0};
    arm(FAULT_FSYNC, EIO, 1, 1);
    assert_int_equal(zr_file_write_durable(scratch_path(dir, "f"), "new", 3, &error), ZERO_ERR_IO);
    assert_contains(error.message, "the directory");
    arm(FAULT_NONE, 0, 0, 0);
    assert_content(dir->path, "new");
    assert_int_equal(scratch_entries(dir->directory), 1);
}

static void short_and_interrupted_transfers_go_on(void **state)
{
    scratch *dir = *state;
    static const int errnums[] = {0, EINTR};
    for (int i = 0; i < ZR_COUNT(errnums); i++) {
        char got[9] = {0};
        zr_durable file;
        arm(FAULT_PWRITE, errnums[i], 0, 5);
        assert_int_equal(zr_durable_open(scratch_path(dir, "f"), &file, NULL), ZERO_OK);
        assert_int_equal(zr_file_pwrite(file.fd, "abcdefgh", 8, 0, "f", NULL), ZERO_OK);
        assert_int_equal(fault.hits, 5);
        arm(FAULT_PREAD, errnums[i], 0, 5);
        assert_int_equal(zr_file_pread(file.fd, got, 8, 0, "f", NULL), ZERO_OK);
        assert_int_equal(fault.hits, 5);
        assert_string_equal(got, "abcdefgh");
        assert_int_equal(zr_durable_commit(&file, NULL), ZERO_OK);
        assert_content(dir->path, "abcdefgh");
    }
    arm(FAULT_PREAD, EIO, 0, 1);
    zero_error error = {0};
    char byte;
    assert_int_equal(zr_file_pread(0, &byte, 1, 0, "disk", &error), ZERO_ERR_IO);
    assert_contains(error.message, "\"disk\"");
}

static void discarded_files_leave_nothing(void **state)
{
    scratch *dir = *state;
    zr_durable file, beside;
    arm(FAULT_NONE, 0, 0, 0);
    assert_int_equal(zr_durable_open(scratch_path(dir, "f"), &file, NULL), ZERO_OK);
    // two of one name do not disturb each other
    assert_int_equal(zr_durable_open(dir->path, &beside, NULL), ZERO_OK);
    assert_int_equal(scratch_entries(dir->directory), 2);
    zr_durable_discard(&file);
    zr_durable_discard(&file);
    zr_durable_discard(&beside);
    assert_int_equal(scratch_entries(dir->directory), 0);
}

static void places_that_cannot_be_written_are_named(void **state)
{
    scratch *dir = *state;
    zero_error error = {0};
    zr_durable file;
    assert_int_equal(zr_durable_open(scratch_path(dir, "absent/f"), &file, &error), ZERO_ERR_IO);
    assert_contains(error.message, "absent/f");
    assert_int_equal(zr_directory_create(scratch_path(dir, "d"), NULL), ZERO_OK);
    // a directory of that name
    assert_int_equal(zr_file_write_durable(dir->path, "x", 1, &error), ZERO_ERR_IO);
    assert_int_equal(scratch_entries(dir->directory), 1);
}

static void texts_are_written_and_freed(void **state)
{
    scratch *dir = *state;
    zero_error error = {0};
    for (int failed = 0; failed <= 1; failed++) {
        zr_buffer text = {0}, again = {0};
        zr_buffer_printf(&text, "%s", failed ? "not written" : "text");
        zr_buffer_printf(&again, "%s", failed ? "not written" : "text");
        text.failed = again.failed = failed;
        zero_status wanted = failed ? ZERO_ERR_MEMORY : ZERO_OK;
        assert_int_equal(zr_file_write_text(scratch_path(dir, "f"), &text, &error), wanted);
        assert_content(dir->path, "text");
        assert_int_equal(zr_file_write_text_in(dir->directory, "g", &again, &error), wanted);
        assert_content(scratch_path(dir, "g"), "text");
        assert_true(!text.data && !again.data);
    }
    assert_contains(error.message, "no memory for the text of");
    assert_contains(error.message, "/g\"");
}

static void every_failing_allocation_is_reported(void **state)
{
    scratch *dir = *state;
    arm(FAULT_NONE, 0, 0, 0);
    scratch_write(dir, "f", "old");
    for (int nth = 1; nth <= 3; nth++) { // the path, the temporary name, the directory
        zr_alloc_fail_at(nth);
        assert_int_equal(zr_file_write_durable(dir->path, "new", 3, NULL), ZERO_ERR_MEMORY);
        zr_alloc_fail_at(0);
        assert_content(dir->path, "old");
        assert_int_equal(scratch_entries(dir->directory), 1);
    }
    zr_alloc_fail_at(4);
    assert_int_equal(zr_file_write_durable(dir->path, "new", 3, NULL), ZERO_OK);
    zr_alloc_fail_at(0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)
    const struct CMUnitTest tests[] = {
        CASE(the_order_is_write_sync_rename_sync),
        CASE(a_failure_keeps_the_old_content),
        CASE(a_directory_that_is_not_synced_is_reported),
        CASE(short_and_interrupted_transfers_go_on),
        CASE(discarded_files_leave_nothing),
        CASE(places_that_cannot_be_written_are_named),
        CASE(texts_are_written_and_freed),
        CASE(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
