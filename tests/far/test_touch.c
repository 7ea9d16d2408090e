// Touches of memory that the host must not make, each in a child process: it ends with FAR_TOUCHED,
// and says what was touched, where, and what the thread submitted last. System calls get EFAULT.
#define _GNU_SOURCE
#include "far_harness.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 10000, AT = 5000 };

static struct {
    zr_queue *queue, *other;
    volatile unsigned char *device, *pinned;
} bench;

static void open_bench(void)
{
    far_begin(&(far_options){.order = FAR_LAZY});
    bench.queue = far_queue_new();
    bench.other = far_queue_new();
    bench.device = take(ZR_MEMORY_DEVICE, BYTES);
    bench.pinned = take(ZR_MEMORY_PINNED, BYTES);
}

static void close_bench(void)
{
    zr_queue_close(bench.queue);
    zr_queue_close(bench.other);
    give_back(ZR_MEMORY_DEVICE, (void *)bench.device, BYTES);
    give_back(ZR_MEMORY_PINNED, (void *)bench.pinned, BYTES);
    end_clean();
}

enum { ENDED_WELL = 0 };

// Runs `body` in a child; returns its exit code, and what it says on stderr.
static int run_child(void (*body)(void), char *said, size_t size)
{
    int ends[2], status = 0;
    size_t count = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGSEGV, SIG_DFL); // in place of cmocka's
        alarm(60);
        open_bench();
        body();
        _exit(ENDED_WELL);
    }
    close(ends[1]);
    for (ssize_t n = 1; n > 0 && count<size - 1; count += n> 0 ? (size_t)n : 0)
        n = read(ends[0], said + count, size - 1 - count);
    said[count] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void assert_touched(void (*body)(void), const char *text)
{
    char said[8192];
    int code = run_child(body, said, sizeof said);
    if (code != FAR_TOUCHED || !strstr(said, text) || !strstr(said, "test_far_touch"))
        fail_msg("exit code %d, it says \"%s\", not \"%s\"", code, said, text);
}

static void assert_well(void (*body)(void))
{
    char said[8192];
    int code = run_child(body, said, sizeof said);
    if (code != ENDED_WELL)
        fail_msg("exit code %d, it says \"%s\"", code, said);
}

static void write_down(zr_queue *queue, size_t at, size_t bytes)
{
    far_copy(queue, (void *)bench.device, (void *)(bench.pinned + at), bytes);
}

// ---- device memory ----

static void set_device(void) { bench.device[AT] = 1; }
static void read_device(void) { bench.pinned[0] = bench.device[AT + 1]; }

// The compiler does not know what they are.
static void *(*volatile set)(void *, int, size_t) = memset;
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;

enum { MANY = 64 };

static void set_many(void) { set((void *)(bench.device + AT), 0, MANY); }
static void copy_many(void) { copy((void *)bench.pinned, (void *)(bench.device + AT), MANY); }

static void set_device_after_fill(void)
{
    far_fill(bench.queue, (void *)bench.device, BYTES, 0);
    finish_all(bench.queue);
    set_device();
}

static void device_memory_is_not_touched(void **state)
{
    assert_touched(set_device, "far: the host touches device memory (device): byte 5000 of "
                               "allocation 1, 10000 bytes; the last operation that this thread "
                               "submitted: none\n");
    assert_touched(read_device, "byte 5001 of allocation 1");
    // Whichever of the bytes comes first.
    assert_touched(set_many, "far: the host touches device memory (device): byte 50");
    assert_touched(copy_many, "far: the host touches device memory (device): byte 50");
    assert_touched(set_device_after_fill, "byte 5000 of allocation 1, 10000 bytes; the last "
                                          "operation that this thread submitted: fill\n");
}

static void touch_released(void)
{
    give_back(ZR_MEMORY_DEVICE, (void *)bench.device, BYTES);
    read_device();
}

static void touch_released_pinned(void)
{
    give_back(ZR_MEMORY_PINNED, (void *)bench.pinned, BYTES);
    bench.pinned[3] = 1;
}

static void released_memory_is_not_touched(void **state)
{
    assert_touched(touch_released, "the host touches released memory (device): byte 5001");
    assert_touched(touch_released_pinned, "the host touches released memory (pinned): byte 3");
}

static void give_to_the_system(void)
{
    int ends[2];
    if (pipe(ends) || write(ends[1], (void *)bench.device, 10) != -1 || errno != EFAULT)
        _exit(1);
    write_down(bench.queue, 0, 10);
    if (write(ends[1], (void *)bench.pinned, 10) != -1 || errno != EFAULT)
        _exit(2);
    finish_all(bench.queue);
    if (write(ends[1], (void *)bench.pinned, 10) != 10)
        _exit(3);
}

static void system_calls_get_efault(void **state) { assert_well(give_to_the_system); }

// ---- pinned memory ----

static void read_what_is_written(void)
{
    write_down(bench.queue, 100, BYTES - 100);
    bench.device = &bench.pinned[AT];
    (void)bench.device[0];
}

static void write_what_is_written(void)
{
    write_down(bench.queue, 100, BYTES - 100);
    bench.pinned[100] = 1;
}

static void read_before_all_is_covered(void) // two rows write the page, one is covered
{
    write_down(bench.queue, 0, 10);
    write_down(bench.other, 20, 10);
    finish_all(bench.queue);
    bench.pinned[0] = bench.pinned[5]; // this is covered
    bench.pinned[40] = bench.pinned[25];
}

static void read_after_a_finish_of_less(void)
{
    write_down(bench.queue, 0, 10);
    zr_mark mark = zr_queue_mark(bench.queue);
    write_down(bench.queue, AT, 10);
    zr_mark_finish(mark, 1, NULL);
    (void)bench.pinned[AT];
}

static void pinned_memory_under_way_is_not_touched(void **state)
{
    assert_touched(read_what_is_written,
                   "far: the host touches pinned memory that an operation writes (pinned): byte "
                   "5000 of allocation 2, 10000 bytes; the last operation that this thread "
                   "submitted: copy\n");
    assert_touched(write_what_is_written, "byte 100 of allocation 2");
    assert_touched(read_after_a_finish_of_less, "byte 5000 of allocation 2");
#ifdef __x86_64__
    assert_touched(read_before_all_is_covered, "byte 25 of allocation 2");
#endif
}

static void change_what_is_read(void)
{
    far_copy(bench.queue, (void *)bench.pinned, (void *)bench.device, BYTES);
    bench.pinned[8] = bench.pinned[7]; // reading is allowed
}

static void pinned_memory_that_is_read_is_not_changed(void **state)
{
    assert_touched(change_what_is_read, "the host touches pinned memory that an operation reads, "
                                        "to write it (pinned): byte 8 of allocation 2");
}

static void touch_what_is_covered(void)
{
    far_fill(bench.queue, (void *)bench.device, BYTES, 3);
    write_down(bench.queue, 0, BYTES);
    zr_queue_after(bench.other, zr_queue_mark(bench.queue));
    finish_all(bench.other); // covers what it waits for
    bench.pinned[AT] = bench.pinned[0];
    if (bench.pinned[AT] != 3)
        _exit(1);
    close_bench();
}

static void touch_bytes_of_the_same_page(void)
{
    write_down(bench.queue, 8, 8);
    bench.pinned[16] = bench.pinned[7] + 1;
    finish_all(bench.queue);
    if (bench.pinned[16] != 1 || bench.pinned[8] != 0xff)
        _exit(1);
    close_bench();
}

static void what_is_not_under_way_is_the_host_s(void **state)
{
    assert_well(touch_what_is_covered);
    assert_well(touch_bytes_of_the_same_page);
}

// ---- other faults ----

static volatile char *volatile nowhere = (volatile char *)8;

static void touch_nothing(void) { *nowhere = 1; }

static void other_faults_are_what_they_were(void **state)
{
    char said[8192];
    int code = run_child(touch_nothing, said, sizeof said);
    assert_int_not_equal(code, FAR_TOUCHED);
    assert_int_not_equal(code, ENDED_WELL);
    assert_null(strstr(said, "far:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_memory_is_not_touched),
        cmocka_unit_test(released_memory_is_not_touched),
        cmocka_unit_test(system_calls_get_efault),
        cmocka_unit_test(pinned_memory_under_way_is_not_touched),
        cmocka_unit_test(pinned_memory_that_is_read_is_not_changed),
        cmocka_unit_test(what_is_not_under_way_is_the_host_s),
        cmocka_unit_test(other_faults_are_what_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
