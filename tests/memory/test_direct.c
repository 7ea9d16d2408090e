// Long transfers: the files receive what was given, at whatever offsets, with each way of the file
// system, and whatever system calls do.
#define _GNU_SOURCE
#include "../base/scratch_directory.h"

#include "base/alloc.h"
#include "base/file.h"
#include "memory/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

// SHORT, for a reason: the half of what was asked for
enum { FILES = 3, BYTES = 2500 * 1000 + 17, RANGES = 150, SHORT = 4711 };

static struct {
    atomic_int in, times; // after so many transfers, so many fail
    int reason;
    bool direct_only; // those past the page cache
    bool none;        // no file opens with O_DIRECT
    atomic_int direct, cached;
} fault;

static bool is_direct(int fd) { return fcntl(fd, F_GETFL) & O_DIRECT; }

// One less, unless none is left: transfers are on two threads, and must not take the same one.
static bool take(atomic_int *left)
{
    int count = atomic_load(left);
    while (count > 0 && !atomic_compare_exchange_weak(left, &count, count - 1))
        ;
    return count > 0;
}

static bool fails(int fd)
{
    bool direct = is_direct(fd);
    atomic_fetch_add(direct ? &fault.direct : &fault.cached, 1);
    if ((fault.direct_only && !direct) || atomic_load(&fault.times) == 0 || take(&fault.in) ||
        !take(&fault.times))
        return false;
    errno = fault.reason;
    return true;
}

int __real_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode)
{
    errno = EINVAL;
    return fault.none && flags & O_DIRECT ? -1 : __real_open64(path, flags, mode);
}

ssize_t __real_pwrite64(int fd, const void *data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off_t offset)
{
    if (!fails(fd))
        return __real_pwrite64(fd, data, bytes, offset);
    size_t half = is_direct(fd) ? bytes / 2 / 4096 * 4096 : (bytes + 1) / 2;
    // the last: nothing that could be gone on from
    return errno != SHORT ? -1 : half ? __real_pwrite64(fd, data, half, offset) : 1;
}

ssize_t __real_pread64(int fd, void *data, size_t bytes, off_t offset);
ssize_t __wrap_pread64(int fd, void *data, size_t bytes, off_t offset);
ssize_t __wrap_pread64(int fd, void *data, size_t bytes, off_t offset)
{
    bool failing = fails(fd);
    return failing && errno == SHORT
               ? __real_pread64(fd, data, is_direct(fd) ? bytes / 2 / 4096 * 4096 : (bytes + 1) / 2,
                                offset)
           : failing ? -1
                     : __real_pread64(fd, data, bytes, offset);
}

static uint32_t seed;
static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

typedef struct written {
    zr_direct_file files[FILES];
    char *wanted[FILES]; // (BYTES) what they must hold
} written;

static void begin(written *w, scratch *at)
{
    char name[8];
    for (int f = 0; f < FILES; f++) {
        snprintf(name, sizeof name, "%d", f);
        w->files[f].path = strdup(scratch_path(at, name));
        w->files[f].fd = open(w->files[f].path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        w->wanted[f] = calloc(1, BYTES);
        assert_true(w->files[f].fd >= 0 && w->wanted[f]);
        assert_int_equal(ftruncate(w->files[f].fd, BYTES), 0);
    }
}

static void end(written *w)
{
    for (int f = 0; f < FILES; f++) {
        close(w->files[f].fd);
        free(w->files[f].path);
        free(w->wanted[f]);
    }
}

// Ranges of all sizes, file after file, some of them in a row, some places left out.
static zero_status write_all(written *w, zero_error *error)
{
    static const uint32_t most[] = {1, 5000, 70000, 1500000};
    int64_t at[FILES] = {0};
    zr_direct *direct;
    assert_int_equal(zr_direct_create(w->files, FILES, &direct, error), ZERO_OK);
    zero_status status = ZERO_OK;
    char *data = malloc(1500000);
    for (int i = 0, f = 0; i < RANGES && status == ZERO_OK; i++) {
        uint32_t bytes = draw(most[draw(4)]) + 1, sum;
        f = draw(3) ? f : (int)draw(FILES);
        if (at[f] + bytes > BYTES)
            continue;
        for (uint32_t b = 0, tag = draw(1 << 16); b < bytes; b++)
            data[b] = (char)(tag + b + (b >> 8));
        memcpy(w->wanted[f] + at[f], data, bytes);
        status = zr_direct_write(direct, f, at[f], data, bytes, &sum, error);
        if (status == ZERO_OK)
            assert_int_equal(sum, zr_crc32c(0, w->wanted[f] + at[f], bytes));
        memset(data, 0x55, bytes); // it was copied
        at[f] += bytes + (draw(4) ? 0 : draw(9000));
    }
    if (status == ZERO_OK)
        status = zr_direct_sync(direct, error);
    zr_direct_destroy(direct);
    free(data);
    return status;
}

static void check(const written *w)
{
    char *found = malloc(BYTES);
    for (int f = 0; f < FILES; f++) {
        assert_int_equal(__real_pread64(w->files[f].fd, found, BYTES, 0), BYTES);
        for (int i = 0; memcmp(found, w->wanted[f], BYTES) && i < BYTES; i++)
            if (found[i] != w->wanted[f][i])
                fail_msg("byte %d of file %d", i, f);
    }
    free(found);
}

// Rows of all widths, thinner than a page and wider, with what others have written between them,
// and stretches before and after.
static zero_status write_rectangles(written *w, zero_error *error)
{
    zr_direct *direct;
    char *data = malloc(ZR_DIRECT_EXTENT);
    zero_status status = zr_direct_create(w->files, FILES, &direct, error);
    assert_int_equal(status, ZERO_OK);
    for (int f = 0, i = 0; f < FILES; f++, i = 0)
        for (int64_t at = 0; status == ZERO_OK && i < 12; i++) {
            zr_direct_extent e = zr_direct_stretch(at + draw(9000), 1 + draw(90000));
            if (i % 3) {
                e.width = 1 + draw(i % 2 ? 700 : 9000);
                e.stride = e.width + draw(2 * (uint32_t)e.width);
                e.rows = 2 + draw(20);
            }
            uint32_t sum;
            int64_t bytes = zr_direct_extent_bytes(&e);
            for (int64_t b = 0; b < bytes; b++)
                data[b] = (char)draw(256);
            for (int64_t b = 0; b < bytes; b++)
                w->wanted[f][e.offset + b / e.width * e.stride + b % e.width] = data[b];
            status = zr_direct_write_extent(direct, f, &e, data, &sum, error);
            if (status == ZERO_OK)
                assert_int_equal(sum, zr_crc32c(0, data, (size_t)bytes));
            memset(data, 0x55, (size_t)bytes); // it was copied
            at = e.offset + e.rows * e.stride;
            assert_true(at < BYTES);
        }
    if (status == ZERO_OK)
        status = zr_direct_sync(direct, error);
    zr_direct_destroy(direct);
    free(data);
    return status;
}

static bool takes_direct(scratch *at)
{
    int fd =
        __real_open64(scratch_path(at, "probe"), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0666);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void arrives_whatever_calls_do(void **state)
{
    static const int reasons[] = {0, EINTR, EINVAL, SHORT};
    zero_error error;
    for (int none = 0; none < 2; none++)
        for (int r = 0; r < ZR_COUNT(reasons); r++)
            for (int in = 0; in < 3; in++) {
                written w;
                seed = (uint32_t)(100 * r + in);
                fault.none = none;
                fault.reason = reasons[r];
                fault.direct_only = reasons[r] == EINVAL; // a file system may refuse those
                fault.direct = fault.cached = 0;
                begin(&w, *state);
                fault.in = 4 * in;
                fault.times = reasons[r] ? 1 + in : 0;
                if (write_all(&w, &error) != ZERO_OK)
                    fail_msg("%s", error.message);
                fault.times = 0;
                assert_true(fault.direct ? !none
                                         : none || reasons[r] == EINVAL || !takes_direct(*state));
                check(&w);
                end(&w);
            }
    fault.none = fault.direct_only = false;
}

static void rows_arrive_among_those_of_others(void **state)
{
    static const int reasons[] = {0, EINTR, SHORT, ENOSPC};
    zero_error error;
    for (int none = 0; none < 2; none++)
        for (int i = 0; i < 4 * ZR_COUNT(reasons); i++) {
            written w;
            seed = (uint32_t)i;
            begin(&w, *state);
            for (int f = 0; f < FILES; f++) { // the gaps are somebody else's
                memset(w.wanted[f], 'x', BYTES);
                assert_int_equal(__real_pwrite64(w.files[f].fd, w.wanted[f], BYTES, 0), BYTES);
            }
            fault.none = none;
            fault.reason = reasons[i / 4];
            fault.in = 7 * i;
            fault.times = fault.reason ? 1 : 0;
            bool fails_too = fault.reason == ENOSPC;
            assert_int_equal(write_rectangles(&w, &error), fails_too ? ZERO_ERR_IO : ZERO_OK);
            fault.times = 0;
            if (!fails_too)
                check(&w);
            end(&w);
        }
    fault.none = false;
}

// After rows thinner than a page nothing goes past the cache, after wider ones stretches do.
static void rows_thinner_than_a_page_keep_a_file_in_the_cache(void **state)
{
    static const char data[3 * 65536];
    zr_direct *direct;
    zero_error error;
    uint32_t sum;
    for (int wide = 0; wide < 2; wide++) {
        const zr_direct_extent rows = {
            .offset = 5, .width = wide ? 4096 : 4095, .stride = 20000, .rows = 2};
        written w;
        begin(&w, *state);
        fault.direct = 0;
        assert_int_equal(zr_direct_create(w.files, FILES, &direct, &error), ZERO_OK);
        assert_int_equal(zr_direct_write_extent(direct, 0, &rows, data, &sum, &error), ZERO_OK);
        assert_int_equal(zr_direct_write(direct, 0, 1 << 20, data, sizeof data, &sum, &error),
                         ZERO_OK);
        assert_int_equal(zr_direct_sync(direct, &error), ZERO_OK);
        zr_direct_destroy(direct);
        assert_int_equal(fault.direct, wide && takes_direct(*state) ? 1 : 0);
        check(&w);
        end(&w);
    }
}

static void tells_what_fails(void **state)
{
    static const int reasons[] = {ENOSPC, EIO};
    for (int r = 0; r < ZR_COUNT(reasons); r++)
        for (int in = 0; in < 12; in++) {
            written w;
            zero_error error = {0};
            begin(&w, *state);
            fault.reason = reasons[r];
            fault.in = in;
            fault.times = 1;
            assert_int_equal(write_all(&w, &error), ZERO_ERR_IO);
            assert_non_null(strstr(error.message, strerror(reasons[r])));
            assert_non_null(strstr(error.message, ((scratch *)*state)->directory));
            assert_int_equal(fault.times, 0);
            end(&w);
        }
}

// Places and sizes of all kinds, twice the same, to the last byte of the file.
static int list_extents(zr_direct_extent *out, int most)
{
    int count = 0;
    for (; count < most - 1; count++) {
        int64_t bytes = 1 + draw(draw(2) ? 1 << 20 : 9000);
        out[count] = zr_direct_stretch(draw((uint32_t)(BYTES - bytes)), bytes);
        if (bytes < 9000 && !draw(2)) { // rows with gaps
            out[count].rows = 1 + draw(9);
            out[count].width = bytes / out[count].rows / 2 + 1;
            out[count].stride = bytes / out[count].rows + 1;
            out[count].offset = draw(BYTES - 2 * 9100);
        }
        if (count && !draw(5))
            out[count] = out[count - 1];
    }
    out[count++] = zr_direct_stretch(BYTES - 5000, 5000);
    return count;
}

static zero_status read_all(const written *w, const zr_direct_extent *extents, int count,
                            zero_error *error)
{
    zr_direct_reader *reader;
    ZERO_TRY(zr_direct_reader_create(w->files[0].path, extents, count, &reader, error));
    zero_status status = ZERO_OK, first = ZERO_OK;
    zero_error later;
    for (int i = 0; i < count; i++) {
        const char *data;
        uint32_t sum;
        status = zr_direct_reader_next(reader, &data, &sum, first == ZERO_OK ? error : &later);
        first = first == ZERO_OK ? status : first;
        if (status != ZERO_OK)
            continue; // the others come all the same
        const zr_direct_extent *e = &extents[i];
        for (int64_t row = 0; row < e->rows; row++)
            assert_memory_equal(data + row * e->width, w->wanted[0] + e->offset + row * e->stride,
                                (size_t)e->width);
        assert_int_equal(sum, zr_crc32c(0, data, (size_t)zr_direct_extent_bytes(e)));
    }
    if (first == ZERO_OK) {
        const char *data;
        uint32_t sum;
        assert_int_equal(zr_direct_reader_next(reader, &data, &sum, &later), ZERO_ERR_INTERNAL);
    }
    zr_direct_reader_destroy(reader);
    return first;
}

static void reads_in_order(void **state)
{
    static const int reasons[] = {0, EINTR, EINVAL, SHORT, EIO};
    zr_direct_extent extents[40];
    written w;
    zero_error error;
    seed = 5;
    begin(&w, *state);
    assert_int_equal(write_all(&w, &error), ZERO_OK);
    for (int none = 0; none < 2; none++)
        for (int r = 0; r < ZR_COUNT(reasons); r++)
            for (int count = 0; count < 40; count += 3) {
                int listed = count ? list_extents(extents, count) : 0;
                fault.none = none;
                fault.reason = reasons[r];
                fault.direct_only = reasons[r] == EINVAL;
                fault.in = count / 2;
                fault.times = reasons[r] ? 1 : 0;
                bool rows = false;
                for (int i = 0; i < listed; i++)
                    rows = rows || extents[i].rows > 1;
                // past the cache, where only stretches go, it is asked for once more
                if (read_all(&w, extents, listed, &error) != ZERO_OK)
                    assert_true(reasons[r] == EIO && (none || rows) &&
                                strstr(error.message, w.files[0].path));
                fault.times = 0;
            }
    fault.none = fault.direct_only = false;
    extents[0] = zr_direct_stretch(BYTES - 10, 11);
    assert_int_equal(read_all(&w, extents, 1, &error), ZERO_ERR_DATA);
    zr_direct_reader *reader;
    assert_int_equal(zr_direct_reader_create("/nonexistent/file", extents, 1, &reader, &error),
                     ZERO_ERR_IO);
    assert_null(reader);
    end(&w);
}

static void no_memory(void **state)
{
    written w;
    zr_direct *direct;
    zr_direct_reader *reader;
    zero_error error;
    const zr_direct_extent extent = zr_direct_stretch(0, 100);
    begin(&w, *state);
    for (int64_t n = 1;; n++) {
        zr_alloc_fail_at(n);
        zero_status writes = zr_direct_create(w.files, FILES, &direct, &error);
        zero_status reads = writes == ZERO_OK ? zr_direct_reader_create(w.files[0].path, &extent, 1,
                                                                        &reader, &error)
                                              : ZERO_OK;
        zr_alloc_fail_at(0);
        assert_true((writes == ZERO_OK) == (direct != NULL));
        if (writes == ZERO_OK)
            zr_direct_destroy(direct);
        if (writes == ZERO_OK && reads == ZERO_OK) {
            zr_direct_reader_destroy(reader);
            assert_true(n > 6);
            break;
        }
        assert_int_equal(writes == ZERO_OK ? reads : writes, ZERO_ERR_MEMORY);
        assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0); // what was never opened is not closed
    }
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(arrives_whatever_calls_do, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(rows_arrive_among_those_of_others, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(rows_thinner_than_a_page_keep_a_file_in_the_cache,
                                        scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(tells_what_fails, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(reads_in_order, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(no_memory, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
