// Whole reads, positioned transfers and mapping: correct results, and one clear error for each
// fault.
#include "scratch_directory.h"

#include "../sanitizers.h"
#include "base/alloc.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void whole_files_are_read(void **state)
{
    scratch *dir = *state;
    char *data;
    size_t length;
    scratch_write(dir, "a", "some text");
    assert_int_equal(zr_file_read(scratch_path(dir, "a"), 9, &data, &length, NULL), ZERO_OK);
    assert_int_equal(length, 9);
    assert_string_equal(data, "some text");
    zr_free(data);
    scratch_write(dir, "empty", "");
    assert_int_equal(zr_file_read(scratch_path(dir, "empty"), 0, &data, &length, NULL), ZERO_OK);
    assert_int_equal(length, 0);
    assert_string_equal(data, "");
    zr_free(data);
    // its size says 0
    assert_int_equal(zr_file_read("/proc/self/status", 1 << 20, &data, &length, NULL), ZERO_OK);
    assert_contains(data, "Pid:");
    zr_free(data);
}

static void large_files_come_whole(void **state)
{
    scratch *dir = *state;
    enum { N = 300000 };
    char *text = malloc(N + 1), *data;
    size_t length;
    for (int i = 0; i < N; i++)
        text[i] = (char)('a' + i % 23);
    text[N] = 0;
    scratch_write(dir, "large", text);
    assert_int_equal(zr_file_read(scratch_path(dir, "large"), N, &data, &length, NULL), ZERO_OK);
    assert_int_equal(length, N);
    assert_string_equal(data, text);
    zr_free(data);
    free(text);
}

static void assert_read_fails(const char *path, size_t limit, zero_status status, const char *words)
{
    zero_error error = {0};
    char *data;
    size_t length;
    assert_int_equal(zr_file_read(path, limit, &data, &length, &error), status);
    assert_contains(error.message, path);
    assert_contains(error.message, words);
}

static void what_cannot_be_read_is_named(void **state)
{
    scratch *dir = *state;
    assert_read_fails(scratch_path(dir, "absent"), 10, ZERO_ERR_IO, "No such file");
    assert_read_fails(dir->directory, 10, ZERO_ERR_DATA, "is a directory");
    scratch_write(dir, "ten", "0123456789");
    assert_read_fails(scratch_path(dir, "ten"), 9, ZERO_ERR_DATA, "has 10 bytes, more than the 9");
    assert_read_fails("/dev/zero", 1000, ZERO_ERR_DATA, "is a device, where a file is needed");
    // 1 TiB, sparse: refused before it is read
    assert_int_equal(truncate(scratch_path(dir, "ten"), (off_t)1 << 40), 0);
    assert_read_fails(dir->path, 1 << 20, ZERO_ERR_DATA, "1099511627776");
}

// A pipe without a writer is not waited for, a socket not taken for an absent file.
static void what_is_no_file_is_refused_at_once(void **state)
{
    scratch *dir = *state;
    zero_error error = {0};
    zr_mapped_file file;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), other = 7;
    assert_int_equal(mkfifo(scratch_path(dir, "pipe"), 0600), 0);
    alarm(20); // what waits is killed
    assert_read_fails(dir->path, 10, ZERO_ERR_DATA, "is a named pipe, where a file is needed");
    assert_int_equal(zr_file_map(dir->path, &file, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "is a named pipe");
    assert_int_equal(zr_file_open(dir->path, &other, &error), ZERO_ERR_DATA);
    assert_int_equal(other, -1);
    alarm(0);
    assert_true(strlen(scratch_path(dir, "s")) < sizeof address.sun_path);
    memcpy(address.sun_path, dir->path, strlen(dir->path) + 1);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address))
        print_message("no socket can be bound here\n");
    else
        assert_read_fails(dir->path, 10, ZERO_ERR_DATA, "is a socket, where a file is needed");
    close(fd);
}

// What a person names may be a pipe, as a shell's <(...) is; the limit holds there too.
static void streams_are_read(void **state)
{
    zero_error error = {0};
    char path[64], *data;
    size_t length;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "piped", 5), 5);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_int_equal(zr_file_read_stream(path, 10, &data, &length, NULL), ZERO_OK);
    assert_string_equal(data, "piped");
    zr_free(data);
    close(ends[0]);
    assert_int_equal(zr_file_read_stream("/dev/zero", 1000, &data, &length, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "more than the 1000");
    // passed by the second transfer only
    assert_int_equal(zr_file_read_stream("/dev/zero", 100000, &data, &length, &error),
                     ZERO_ERR_DATA);
    assert_contains(error.message, "more than the 100000");
}

static void positioned_transfers(void **state)
{
    scratch *dir = *state;
    zero_error error = {0};
    char got[8] = {0};
    const char *path = scratch_path(dir, "p");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(zr_file_pwrite(fd, "abcdef", 6, 10, path, &error), ZERO_OK);
    assert_int_equal(zr_file_pread(fd, got, 3, 12, path, &error), ZERO_OK);
    assert_string_equal(got, "cde");
    assert_int_equal(zr_file_pread(fd, got, 0, 1000, path, &error), ZERO_OK);
    assert_int_equal(zr_file_pread(fd, got, 4, 14, path, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "ends at byte 16");
    assert_contains(error.message, path);
    close(fd);
    assert_int_equal(zr_file_pread(fd, got, 1, 0, path, &error), ZERO_ERR_IO);
}

static void a_full_disk_is_an_error(void **state)
{
    zero_error error = {0};
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        print_message("SKIPPED: no /dev/full here\n");
        skip();
    }
    assert_int_equal(zr_file_pwrite(fd, "abc", 3, 0, "/dev/full", &error), ZERO_ERR_IO);
    assert_contains(error.message, "No space left");
    close(fd);
}

static void files_are_mapped(void **state)
{
    scratch *dir = *state;
    zero_error error = {0};
    zr_mapped_file file;
    scratch_write(dir, "m", "mapped");
    assert_int_equal(zr_file_map(scratch_path(dir, "m"), &file, NULL), ZERO_OK);
    assert_int_equal(file.length, 6);
    assert_memory_equal(file.data, "mapped", 6);
    zr_file_unmap(&file);
    assert_null(file.data);
    zr_file_unmap(&file);
    scratch_write(dir, "none", "");
    assert_int_equal(zr_file_map(scratch_path(dir, "none"), &file, NULL), ZERO_OK);
    assert_null(file.data);
    assert_int_equal(file.length, 0);
    assert_int_equal(zr_file_map(dir->directory, &file, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "is a directory");
    assert_int_equal(zr_file_map("/dev/null", &file, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "is a device");
}

static int64_t resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*s %ld", &pages), 1);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

// Pages that were read leave this process's memory, and come again with the same content. Memory
// that no file has stays as it is.
static void pages_of_a_mapping_are_released(void **state)
{
    enum { LENGTH = 32 << 20, STEP = 4096 };
    if (UNDER_ASAN || UNDER_TSAN)
        skip(); // their own memory grows with what is read
    scratch *dir = *state;
    char *bytes = zr_alloc(LENGTH, NULL);
    zr_mapped_file file;
    int64_t sum = 0;
    for (int i = 0; i < LENGTH; i += STEP)
        bytes[i] = (char)(i / STEP);
    assert_int_equal(zr_file_write_durable(scratch_path(dir, "large"), bytes, LENGTH, NULL),
                     ZERO_OK);
    assert_int_equal(zr_file_map(dir->path, &file, NULL), ZERO_OK);
    int64_t before = resident_bytes();
    for (int i = 0; i < LENGTH; i += STEP)
        sum += file.data[i];
    int64_t read = resident_bytes();
    zr_file_release(&file, LENGTH / 2, LENGTH);
    int64_t half = resident_bytes();
    zr_file_release(&file, 0, LENGTH);
    assert_true(read - before > LENGTH * 3 / 4);
    assert_true(half - before < LENGTH * 3 / 4);
    assert_true(resident_bytes() - before < LENGTH / 4);
    for (int i = 0; i < LENGTH; i += STEP)
        sum -= file.data[i];
    assert_int_equal(sum, 0);
    assert_memory_equal(file.data, bytes, LENGTH);
    const zr_mapped_file memory = {.data = bytes, .length = LENGTH};
    zr_file_release(&memory, 0, LENGTH);
    assert_memory_equal(file.data, bytes, LENGTH);
    zr_file_unmap(&file);
    zr_free(bytes);
}

static void files_without_a_name(void **state)
{
    scratch *dir = *state;
    char *name, prefix[300], read[4] = "";
    int fd[2];
    snprintf(prefix, sizeof prefix, "%s/p", dir->directory);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(zr_file_open_unnamed(dir->directory, prefix, 7, &name, &fd[i]), 0);
        assert_non_null(strstr(name, "/p.7"));
        assert_false(zr_path_exists(name));
        zr_free(name);
    }
    assert_int_equal(pwrite(fd[0], "one", 3, 0), 3);
    assert_int_equal(pread(fd[1], read, 3, 0), 0);
    assert_int_equal(pread(fd[0], read, 3, 0), 3);
    assert_string_equal(read, "one");
    close(fd[0]);
    close(fd[1]);
    assert_int_equal(zr_file_open_unnamed("/nowhere", "/nowhere/p", 7, &name, &fd[0]), ENOENT);
    assert_null(name);
}

static void every_failing_allocation_is_reported(void **state)
{
    scratch *dir = *state;
    scratch_write(dir, "t", "text");
    int64_t nth = 1;
    for (; nth < 100; nth++) {
        char *data = NULL;
        size_t length;
        zr_alloc_fail_at(nth);
        zero_status status = zr_file_read(dir->path, 100, &data, &length, NULL);
        zr_alloc_fail_at(0);
        if (status == ZERO_OK) {
            assert_string_equal(data, "text");
            zr_free(data);
            break;
        }
        assert_int_equal(status, ZERO_ERR_MEMORY);
    }
    assert_in_range(nth, 2, 99);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)
    const struct CMUnitTest tests[] = {
        CASE(whole_files_are_read),
        CASE(large_files_come_whole),
        CASE(what_cannot_be_read_is_named),
        CASE(what_is_no_file_is_refused_at_once),
        CASE(streams_are_read),
        CASE(positioned_transfers),
        CASE(a_full_disk_is_an_error),
        CASE(files_are_mapped),
        CASE(pages_of_a_mapping_are_released),
        CASE(files_without_a_name),
        CASE(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
