// Directories: made, removed without following links, locked for one run at a time.
#include "scratch.h"

#include "base/alloc.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int syncs;

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    syncs++;
    return __real_fsync(fd);
}

// Each of them is on the disk when it is there: what is written into it would be lost otherwise.
static void directories_come_with_their_parents(void **state)
{
    scratch *dir = *state;
    struct stat info;
    syncs = 0;
    assert_int_equal(zr_directory_create(scratch_path(dir, "a/b//c/"), NULL), ZERO_OK);
    assert_int_equal(syncs, 3);
    assert_int_equal(zr_directory_create(scratch_path(dir, "a/b/c"), NULL), ZERO_OK);
    assert_int_equal(syncs, 3);
    assert_int_equal(stat(dir->path, &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    assert_int_equal(zr_directory_create("/", NULL), ZERO_OK);
    assert_int_equal(zr_directory_create(".", NULL), ZERO_OK);
    assert_int_equal(zr_directory_sync(dir->path, NULL), ZERO_OK);
}

static void what_is_in_the_way_is_named(void **state)
{
    scratch *dir = *state;
    zero_error error = {0};
    scratch_write(dir, "file", "x");
    assert_int_equal(zr_directory_create(dir->path, &error), ZERO_ERR_IO);
    assert_contains(error.message, "something else of that name");
    assert_int_equal(zr_directory_create(scratch_path(dir, "file/below"), &error), ZERO_ERR_IO);
    assert_contains(error.message, "/file\"");
    assert_int_equal(zr_directory_create("", &error), ZERO_ERR_IO);
    assert_int_equal(zr_directory_sync(scratch_path(dir, "absent"), &error), ZERO_ERR_IO);
    assert_contains(error.message, "absent");
}

static void removal_takes_all_and_follows_no_link(void **state)
{
    scratch *dir = *state;
    char outside[512];
    scratch_write(dir, "outside", "stays");
    strcpy(outside, dir->path);
    assert_int_equal(zr_directory_create(scratch_path(dir, "tree/a/b"), NULL), ZERO_OK);
    scratch_write(dir, "tree/a/b/file", "x");
    scratch_write(dir, "tree/.hidden", "x");
    assert_int_equal(symlink(dir->directory, scratch_path(dir, "tree/a/up")), 0);
    assert_int_equal(symlink("nowhere", scratch_path(dir, "tree/dangling")), 0);
    assert_int_equal(zr_directory_remove(scratch_path(dir, "tree"), NULL), ZERO_OK);
    assert_false(zr_path_exists(dir->path));
    assert_true(zr_path_exists(outside));
    assert_int_equal(zr_directory_remove(dir->path, NULL), ZERO_OK); // absent is fine
    zero_error error = {0};
    assert_int_equal(zr_directory_remove(outside, &error), ZERO_ERR_IO);
    assert_true(zr_path_exists(outside));
    assert_int_equal(symlink(dir->directory, scratch_path(dir, "link")), 0);
    assert_int_equal(zr_directory_remove(dir->path, &error), ZERO_ERR_IO); // a link is not the directory it names
    assert_true(zr_path_exists(outside));
}

static void endless_depth_is_an_error(void **state)
{
    scratch *dir = *state;
    char path[512];
    strcpy(path, scratch_path(dir, "d"));
    for (int i = 0; i < 80; i++)
        strcat(path, "/d");
    assert_int_equal(zr_directory_create(path, NULL), ZERO_OK);
    zero_error error = {0};
    assert_int_equal(zr_directory_remove(scratch_path(dir, "d"), &error), ZERO_ERR_IO);
    char deep[512];
    strcpy(deep, scratch_path(dir, "d"));
    for (int i = 0; i < 40; i++)
        strcat(deep, "/d");
    assert_int_equal(zr_directory_remove(deep, NULL), ZERO_OK); // from half way it can be removed
}

static void a_lock_keeps_others_out(void **state)
{
    scratch *dir = *state;
    zero_error error = {0};
    int first, second;
    assert_int_equal(zr_directory_lock(dir->directory, &first, NULL), ZERO_OK);
    assert_int_equal(zr_directory_lock(dir->directory, &second, &error), ZERO_ERR_USAGE);
    assert_int_equal(second, -1);
    assert_contains(error.message, dir->directory);
    assert_contains(error.message, "another run");
    close(first);
    assert_int_equal(zr_directory_lock(dir->directory, &second, &error), ZERO_OK);
    close(second);
    assert_int_equal(zr_directory_lock(scratch_path(dir, "absent"), &first, &error), ZERO_ERR_IO);
    assert_contains(error.message, "absent/.lock");
}

static void a_dead_process_s_lock_is_gone(void **state)
{
    scratch *dir = *state;
    int fd, status;
    pid_t child = fork();
    if (child == 0)
        _exit(zr_directory_lock(dir->directory, &fd, NULL) == ZERO_OK ? 7 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    assert_int_equal(zr_directory_lock(dir->directory, &fd, NULL), ZERO_OK);
    close(fd);
}

static void failing_allocations_are_reported(void **state)
{
    scratch *dir = *state;
    int fd;
    zr_alloc_fail_at(1);
    assert_int_equal(zr_directory_create(scratch_path(dir, "m"), NULL), ZERO_ERR_MEMORY);
    zr_alloc_fail_at(1);
    assert_int_equal(zr_directory_lock(dir->directory, &fd, NULL), ZERO_ERR_MEMORY);
    assert_false(zr_path_exists(dir->path));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)
    const struct CMUnitTest tests[] = {
        CASE(directories_come_with_their_parents), CASE(what_is_in_the_way_is_named), CASE(removal_takes_all_and_follows_no_link),
        CASE(endless_depth_is_an_error),           CASE(a_lock_keeps_others_out),     CASE(a_dead_process_s_lock_is_gone),
        CASE(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
