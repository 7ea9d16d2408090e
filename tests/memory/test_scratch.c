// Scratch files have the requested size, are invisible to others, disappear with the process, and
// are refused if there is no room. The linker's --wrap replaces the functions below, so that a file
// system can lack a feature.
#define _GNU_SOURCE
#include "../base/scratch_directory.h"

#include "base/alloc.h"
#include "memory/scratch.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((int64_t)ZR_IO_ALIGN)

static bool without_tmpfile, without_direct_transfers;
static int64_t pretended_free = -1; // bytes

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
ssize_t __real_pwrite64(int fd, const void *data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off_t offset);
int __real_statvfs64(const char *path, struct statvfs *info);
int __wrap_statvfs64(const char *path, struct statvfs *info);

int __wrap_open64(const char *path, int flags, ...)
{
    if (without_tmpfile && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return __real_open64(path, flags, 0600);
}

ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off_t offset)
{
    if (without_direct_transfers && (fcntl(fd, F_GETFL) & O_DIRECT)) {
        errno = EINVAL;
        return -1;
    }
    return __real_pwrite64(fd, data, bytes, offset);
}

int __wrap_statvfs64(const char *path, struct statvfs *info)
{
    int result = __real_statvfs64(path, info);
    if (pretended_free >= 0)
        info->f_bavail = (fsblkcnt_t)(pretended_free / (int64_t)info->f_frsize);
    return result;
}

static zero_status create_in(scratch *home, int64_t bytes, const zr_io_faults *faults,
                             zr_scratch *out, zero_error *error)
{
    const char *directories[] = {home->directory};
    return zr_scratch_create(directories, 1, bytes, 16 * PAGE, "vector", faults, out, error);
}

static void bytes_are_dealt_in_stripes(void **state)
{
    zr_scratch scratch = {.count = 3, .stripe = 2 * PAGE};
    static const int64_t expected[][3] = {{0, 0, 0}, {1, 0, 1}, {2, 1, 0}, {5, 2, 1},
                                          {6, 0, 2}, {7, 0, 3}, {8, 1, 2}, {17, 2, 5}};
    for (int i = 0; i < ZR_COUNT(expected); i++) {
        int64_t offset = -1;
        assert_int_equal(zr_scratch_find(&scratch, expected[i][0] * PAGE + 5, &offset),
                         expected[i][1]);
        assert_int_equal(offset, expected[i][2] * PAGE + 5);
    }
}

static void files_are_whole_and_unseen(void **state)
{
    scratch *home = *state;
    for (int way = 0; way < 4; way++) {
        zr_scratch made;
        zero_error error = {0};
        const char *directories[] = {home->directory, home->directory, home->directory};
        static const int64_t pages[] = {6, 5, 4}; // of 15 in stripes of 2
        without_tmpfile = way & 1;
        without_direct_transfers = way & 2;
        zero_status status =
            zr_scratch_create(directories, 3, 15 * PAGE, 2 * PAGE, "vector", NULL, &made, &error);
        without_tmpfile = without_direct_transfers = false;
        assert_string_equal(error.message, "");
        assert_int_equal(status, ZERO_OK);
        assert_int_equal(made.count, 3);
        assert_int_equal(made.bytes, 15 * PAGE);
        assert_int_equal(scratch_entries(home->directory), 0);
        for (int i = 0; i < 3; i++) {
            struct stat info;
            assert_int_equal(fstat(made.fds[i], &info), 0);
            assert_int_equal(info.st_size, pages[i] * PAGE);
            assert_true((int64_t)info.st_blocks * 512 >= pages[i] * PAGE);
            assert_int_equal(info.st_nlink, 0);
            assert_int_equal(fcntl(made.fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
            assert_int_equal((fcntl(made.fds[i], F_GETFL) & O_DIRECT) != 0, made.direct);
            assert_contains(made.names[i], home->directory);
            assert_contains(made.names[i], "/vector.");
        }
        assert_false((way & 2) && made.direct);
        zr_scratch_destroy(&made);
        zr_scratch_destroy(&made);
    }
}

static void no_bytes_are_no_files(void **state)
{
    zr_scratch made;
    assert_int_equal(create_in(*state, 0, NULL, &made, NULL), ZERO_OK);
    assert_int_equal(made.count, 0);
    zr_scratch_destroy(&made);
}

static int allocate_errno(void *user, int64_t bytes) { return *(int *)user; }

static void what_cannot_be_preallocated_is_as_long(void **state)
{
    static const int reasons[] = {EOPNOTSUPP, ENOSYS};
    for (int i = 0; i < ZR_COUNT(reasons); i++) {
        zr_scratch made;
        struct stat info;
        zr_io_faults faults = {.user = (void *)&reasons[i], .allocate = allocate_errno};
        assert_int_equal(create_in(*state, 7 * PAGE, &faults, &made, NULL), ZERO_OK);
        assert_int_equal(fstat(made.fds[0], &info), 0);
        assert_int_equal(info.st_size, 7 * PAGE);
        zr_scratch_destroy(&made);
    }
}

static void assert_refused(scratch *home, const zr_io_faults *faults, const char *words)
{
    zr_scratch made;
    zero_error error = {0};
    assert_int_equal(create_in(home, 100 * PAGE, faults, &made, &error), ZERO_ERR_IO);
    assert_contains(error.message, home->directory);
    assert_contains(error.message, "409600 bytes");
    assert_contains(error.message, words);
    assert_int_equal(made.count, 0);
    assert_int_equal(scratch_entries(home->directory), 0);
}

static void no_room_is_said_with_numbers(void **state)
{
    int reason = ENOSPC;
    zr_io_faults faults = {.user = &reason, .allocate = allocate_errno};
    pretended_free = 99 * PAGE;
    assert_refused(*state, NULL, "405504 are free");
    pretended_free = 100 * PAGE;
    assert_refused(*state, &faults, "409600 are free");
    pretended_free = -1;
    reason = EFBIG;
    assert_refused(*state, &faults, "File too large");
}

static void wrong_directories_are_the_users(void **state)
{
    scratch *home = *state;
    zr_scratch made;
    zero_error error = {0};
    scratch_write(home, "file", "text");
    char file[512];
    snprintf(file, sizeof file, "%s", home->path);
    const char *wrong[][2] = {{home->directory, scratch_path(home, "absent")},
                              {home->directory, file}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            zr_scratch_create(wrong[i], 2, 8 * PAGE, PAGE, "vector", NULL, &made, &error),
            ZERO_ERR_USAGE);
        assert_contains(error.message, wrong[i][1]);
        assert_int_equal(made.count, 0);
    }
    if (geteuid() != 0) {
        assert_int_equal(zr_directory_create(scratch_path(home, "locked"), NULL), ZERO_OK);
        assert_int_equal(chmod(home->path, 0500), 0);
        const char *locked[] = {home->path};
        assert_int_equal(zr_scratch_create(locked, 1, PAGE, PAGE, "vector", NULL, &made, &error),
                         ZERO_ERR_USAGE);
    }
    unlink(file);
    assert_int_equal(zr_scratch_create(wrong[0], 17, PAGE, PAGE, "vector", NULL, &made, &error),
                     ZERO_ERR_USAGE);
    assert_int_equal(zr_scratch_create(wrong[0], 0, PAGE, PAGE, "vector", NULL, &made, &error),
                     ZERO_ERR_USAGE);
    assert_int_equal(zr_scratch_create(wrong[0], 1, PAGE, 1000, "vector", NULL, &made, &error),
                     ZERO_ERR_INTERNAL);
    for (int nth = 1; nth <= 4; nth++) {
        zr_alloc_fail_at(nth);
        assert_int_equal(zr_scratch_create((const char *[]){home->directory, home->directory}, 2,
                                           8 * PAGE, PAGE, "vector", NULL, &made, &error),
                         ZERO_ERR_MEMORY);
        zr_alloc_fail_at(0);
    }
}

// Two of one process in one directory, linked for a moment: their names differ.
static void names_do_not_collide(void **state)
{
    scratch *home = *state;
    zr_scratch first, second;
    char taken[64];
    snprintf(taken, sizeof taken, "vector.%ld.0", (long)getpid());
    scratch_write(home, taken, "another's");
    without_tmpfile = true;
    assert_int_equal(create_in(home, PAGE, NULL, &first, NULL), ZERO_OK);
    assert_int_equal(create_in(home, PAGE, NULL, &second, NULL), ZERO_OK);
    without_tmpfile = false;
    assert_contains(first.names[0], ".1");
    assert_int_equal(scratch_entries(home->directory), 1);
    zr_scratch_destroy(&first);
    zr_scratch_destroy(&second);
    unlink(home->path);
}

static void a_killed_process_leaves_nothing(void **state)
{
    scratch *home = *state;
    for (int way = 0; way < 2; way++) {
        int ready[2], status = 0;
        char byte = 0;
        assert_int_equal(pipe(ready), 0);
        pid_t child = fork();
        if (child == 0) {
            zr_scratch made;
            without_tmpfile = way;
            byte = create_in(home, 1 << 20, NULL, &made, NULL) == ZERO_OK;
            if (write(ready[1], &byte, 1) == 1)
                pause();
            _exit(1);
        }
        assert_int_equal(read(ready[0], &byte, 1), 1);
        assert_int_equal(byte, 1);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(scratch_entries(home->directory), 0);
        close(ready[0]);
        close(ready[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_dealt_in_stripes),
        cmocka_unit_test_setup_teardown(files_are_whole_and_unseen, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(no_bytes_are_no_files, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(what_cannot_be_preallocated_is_as_long, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(no_room_is_said_with_numbers, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(wrong_directories_are_the_users, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(names_do_not_collide, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(a_killed_process_leaves_nothing, scratch_open,
                                        scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
