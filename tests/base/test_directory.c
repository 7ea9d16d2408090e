// Directories: making them, removing them without following links, and locking them for one run at
// a time.
#include "scratch_directory.h"

#include "base/alloc.h"
#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int syncs;

static int fails_at; // the nth fsync, rename or renameat2 from now on fails; 0 if none does
static bool is_nfs;  // names cannot be exchanged

static bool fails(void) { return fails_at > 0 && --fails_at == 0; }

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    syncs++;
    if (!fails())
        return __real_fsync(fd);
    errno = EIO;
    return -1;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    if (!fails())
        return __real_rename(from, to);
    errno = EIO;
    return -1;
}

int __real_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    if (!(is_nfs && flags) && !fails())
        return __real_renameat2(a, from, b, to, flags);
    errno = is_nfs && flags ? EINVAL : EIO;
    return -1;
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
    // a link is not the directory it names
    assert_int_equal(zr_directory_remove(dir->path, &error), ZERO_ERR_IO);
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

// By link, and by what ".." leads to; a name that only begins alike is elsewhere.
static void what_lies_where_is_known(void **state)
{
    scratch *dir = *state;
    char place[512], inside[512], link[512], round[512], alike[512];
    snprintf(place, sizeof place, "%s/place", dir->directory);
    snprintf(inside, sizeof inside, "%s/place/deep/file", dir->directory);
    snprintf(link, sizeof link, "%s/link", dir->directory);
    snprintf(round, sizeof round, "%s/place/../place", dir->directory);
    snprintf(alike, sizeof alike, "%s/placed", dir->directory);
    assert_int_equal(zr_directory_create(scratch_path(dir, "place/deep"), NULL), ZERO_OK);
    scratch_write(dir, "place/deep/file", "x");
    scratch_write(dir, "placed", "x");
    assert_int_equal(symlink("place/deep/file", link), 0);
    assert_true(zr_path_lies_in(place, place) && zr_path_lies_in(inside, place) &&
                zr_path_lies_in(inside, round) && zr_path_lies_in(link, place));
    assert_true(zr_path_lies_in(link, inside) && zr_path_lies_in(place, "/"));
    assert_false(zr_path_lies_in(place, inside) || zr_path_lies_in(alike, place) ||
                 zr_path_lies_in(place, alike));
    assert_false(zr_path_lies_in(place, "/nowhere") || zr_path_lies_in("/nowhere", "/"));
}

static void the_head_of_a_file_is_no_pipe_s(void **state)
{
    scratch *dir = *state;
    char head[4];
    scratch_write(dir, "file", "abcdef");
    assert_int_equal(zr_file_head(dir->path, head, sizeof head), 3);
    assert_string_equal(head, "abc");
    assert_int_equal(mkfifo(scratch_path(dir, "pipe"), 0600), 0);
    assert_int_equal(zr_file_head(dir->path, head, sizeof head), 0); // nobody writes to it, ever
    assert_int_equal(zr_file_head(dir->directory, head, sizeof head), 0);
    assert_string_equal(head, "");
}

static bool is_known(const char *name) { return name[0] == 'k'; }

static void others_are_named(void **state)
{
    scratch *dir = *state;
    char names[256];
    static const char *const files[] = {"known", "a", "b", "c", "d"};
    for (int i = 0; i < 5; i++) {
        scratch_write(dir, files[i], "x");
        assert_int_equal(zr_directory_others(dir->directory, is_known, names, sizeof names), i > 0);
    }
    assert_contains(names, " and 1 more");
    assert_true(zr_durable_is_left_over("known.tmp.12.0", is_known));
    static const char *const not_left[] = {"known.tmp.12", "known.tmp.x.0", "known.tmp.12.0x",
                                           "other.tmp.12.0", "known"};
    for (int i = 0; i < ZR_COUNT(not_left); i++)
        assert_false(zr_durable_is_left_over(not_left[i], is_known));
}

static char word_in(scratch *dir, const char *file)
{
    char *text, word = 0;
    size_t length;
    if (zr_file_read(scratch_path(dir, file), 10, &text, &length, NULL) == ZERO_OK) {
        word = *text;
        zr_free(text);
    }
    return word;
}

// A directory takes the place of an earlier one, also where names cannot be exchanged; whatever
// fails, the earlier one stays.
static void an_earlier_directory_is_replaced(void **state)
{
    scratch *dir = *state;
    char hidden[512];
    for (int nfs = 0; nfs < 2; nfs++)
        for (int nth = 0, failed = 1; failed || nth == 1; nth++) { // 0: nothing fails
            zero_error error = {0};
            assert_int_equal(zr_directory_create(scratch_path(dir, "d"), NULL), ZERO_OK);
            scratch_write(dir, "d/f", "old");
            char *name = zr_directory_hidden(scratch_path(dir, "d"), NULL);
            snprintf(hidden, sizeof hidden, "%s", name);
            zr_free(name);
            assert_int_equal(zr_directory_create(hidden, NULL), ZERO_OK);
            scratch_write(dir, ".d.tmp/f", "new");
            is_nfs = nfs;
            fails_at = nth;
            failed = zr_directory_publish(hidden, scratch_path(dir, "d"), &error) != ZERO_OK;
            is_nfs = false;
            fails_at = 0;
            assert_int_equal(word_in(dir, "d/f"), failed ? 'o' : 'n');
            assert_true(!failed || word_in(dir, ".d.tmp/f") == 'n');
            assert_true(failed || !zr_path_exists(hidden));
            assert_false(zr_path_exists(scratch_path(dir, ".d.tmp.earlier")));
            assert_true(nth > 0 || !failed);
        }
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
        CASE(directories_come_with_their_parents),
        CASE(what_is_in_the_way_is_named),
        CASE(removal_takes_all_and_follows_no_link),
        CASE(endless_depth_is_an_error),
        CASE(a_lock_keeps_others_out),
        CASE(a_dead_process_s_lock_is_gone),
        CASE(what_lies_where_is_known),
        CASE(the_head_of_a_file_is_no_pipe_s),
        CASE(others_are_named),
        CASE(an_earlier_directory_is_replaced),
        CASE(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
