// What a far queue refuses: operands that it cannot reach, arrays of the host that are too large,
// and two threads. What is refused is not touched, and everything else still runs.
#define _GNU_SOURCE
#include "far_harness.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 100 };

static struct {
    zr_queue *queue;
    char *device, *pinned;
} bench;

static void open_far(far_order order)
{
    far_begin(&(far_options){.order = order});
    bench.queue = far_queue_new();
    bench.device = take(ZR_MEMORY_DEVICE, BYTES);
    bench.pinned = take(ZR_MEMORY_PINNED, BYTES);
}

static void release_far(void)
{
    zr_queue_close(bench.queue);
    give_back(ZR_MEMORY_DEVICE, bench.device, BYTES);
    give_back(ZR_MEMORY_PINNED, bench.pinned, BYTES);
}

static void close_far(void)
{
    release_far();
    end_clean();
}

static void assert_refused(zr_queue *queue, const char *text)
{
    zero_error error = {0};
    assert_int_equal(zr_mark_finish(zr_queue_mark(queue), 1, &error), ZERO_ERR_INTERNAL);
    if (!strstr(error.message, text))
        fail_msg("\"%s\" lacks \"%s\"", error.message, text);
    finish_all(queue);
}

static void memory_of_the_host_is_refused(void **state)
{
    char on_stack[BYTES];
    char *on_heap = malloc(BYTES), *of_device = NULL;
    assert_non_null(on_heap);
    memset(on_stack, 1, BYTES);
    memset(on_heap, 1, BYTES);
    open_far(FAR_LAZY);
    of_device = take(ZR_MEMORY_HOST, BYTES);
    far_copy(bench.queue, on_stack, bench.device, BYTES);
    assert_refused(bench.queue, "operation copy: its operand from, 100 bytes at ");
    far_copy(bench.queue, on_stack, bench.device, BYTES);
    assert_refused(bench.queue, "is a pointer to the caller's stack");
    far_copy(bench.queue, bench.device, on_heap, BYTES);
    assert_refused(bench.queue, "operand to, 100 bytes at ");
    far_copy(bench.queue, bench.device, on_heap, BYTES);
    assert_refused(bench.queue, "is memory of the host");
    assert_int_equal(on_heap[0], 1);
    far_copy(bench.queue, of_device, bench.device, BYTES);
    assert_refused(bench.queue, "is memory of the host");
    const double divisor = 1;
    zr_run(bench.queue, zr_op_sum_rows(&(zr_row_sum){1}, &divisor, (float *)(void *)bench.device,
                                       (double *)(void *)on_heap)); // lent
    assert_refused(bench.queue, "operation sum_rows: its operand out, 8 bytes at ");
    give_back(ZR_MEMORY_HOST, of_device, BYTES);
    free(on_heap);
    close_far();
}

static void what_ends_after_its_memory_is_refused(void **state)
{
    open_far(FAR_EAGER);
    far_fill(bench.queue, bench.pinned + 1, BYTES, 7);
    assert_refused(bench.queue, "ends 1 bytes after allocation 2, 100 bytes of pinned memory");
    assert_int_equal(bench.pinned[1], 0);
    far_fill(bench.queue, bench.pinned + 1, BYTES - 1, 7);
    finish_all(bench.queue);
    assert_int_equal(bench.pinned[BYTES - 1], 7);
    close_far();
}

static void released_memory_is_refused(void **state)
{
    open_far(FAR_LAZY);
    char *gone = take(ZR_MEMORY_DEVICE, BYTES);
    far_fill(bench.queue, gone, BYTES, 7); // runs after the release
    give_back(ZR_MEMORY_DEVICE, gone, BYTES);
    assert_refused(bench.queue, "is released memory");
    far_fill(bench.queue, gone, BYTES, 7);
    assert_refused(bench.queue, "is released memory");
    release_far();
    end_with("is released memory"); // under the first operation
}

static void nothing_is_touched_where_there_are_no_bytes(void **state)
{
    char on_stack;
    open_far(FAR_EAGER);
    far_copy(bench.queue, &on_stack, NULL, 0);
    finish_all(bench.queue);
    close_far();
}

static void sources_of_a_sum_are_checked(void **state)
{
    float on_stack[4] = {1};
    const void *sources[] = {bench.device, on_stack};
    const zr_tree tree = {.dtype = ZERO_F32, .ranks = 2, .count = 4};
    open_far(FAR_EAGER);
    sources[0] = bench.device;
    zr_run(bench.queue, zr_op_tree_sum(&tree, sources, bench.pinned));
    assert_refused(bench.queue, "operation tree_sum: its operand sources, 16 bytes at ");
    sources[1] = bench.device + 64;
    far_fill(bench.queue, bench.device, BYTES, 0);
    zr_run(bench.queue, zr_op_tree_sum(&tree, sources, bench.pinned));
    finish_all(bench.queue);
    close_far();
}

static void scratch_of_products_is_checked(void **state)
{
    char on_stack[64];
    const zr_product product = {.m = 1, .n = 1, .k = 1};
    open_far(FAR_EAGER);
    zr_queue bad = zr_queue_with_scratch(bench.queue, on_stack, sizeof on_stack),
             good = zr_queue_with_scratch(bench.queue, bench.device + 32, 64);
    far_fill(bench.queue, bench.device, BYTES, 0);
    zr_run(&bad, zr_op_product(&product, bench.device, bench.device, NULL, bench.device));
    assert_refused(bench.queue, "operation product: its operand scratch, 64 bytes at ");
    zr_run(&good, zr_op_product(&product, bench.device, bench.device, NULL, bench.device));
    finish_all(bench.queue);
    close_far();
}

static void arrays_of_the_host_are_short(void **state)
{
    enum { PARTS = ZR_MOST_SQUARE_PARTS + 1 };
    static const zr_square_part parts[PARTS];
    zr_square_parts shape = {.parts = PARTS};
    open_far(FAR_EAGER);
    zr_run(bench.queue, zr_op_square_sums_exact(&shape, parts, NULL, NULL));
    assert_refused(bench.queue, "operation square_sums_exact: its operand parts is an array of the "
                                "host's of 4104 bytes, at most 4096 are copied");
    shape.parts--;
    zr_run(bench.queue, zr_op_square_sums_exact(&shape, parts, NULL, NULL));
    finish_all(bench.queue);
    close_far();
}

static void arrays_of_the_host_are_not_on_the_device(void **state)
{
    const zr_row_sum shape = {1};
    open_far(FAR_EAGER);
    const double *divisor = (void *)bench.device;
    zr_run(bench.queue, zr_op_sum_rows(&shape, divisor, (float *)(void *)bench.pinned,
                                       (double *)(void *)bench.device));
    assert_refused(bench.queue,
                   "its operand divisor is an array of the host's, but lies in device");
    close_far();
}

// ---- threads ----

static void *fill_in_thread(void *finishes)
{
    far_fill(bench.queue, bench.device, BYTES, 1);
    if (finishes)
        zr_mark_finish(zr_queue_mark(bench.queue), 1, NULL);
    return NULL;
}

static void run_thread(bool finishes)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fill_in_thread, finishes ? &bench : NULL), 0);
    pthread_join(thread, NULL);
}

static void a_thread_takes_over_after_a_finish(void **state)
{
    open_far(FAR_EAGER);
    far_fill(bench.queue, bench.device, BYTES, 0);
    finish_all(bench.queue);
    run_thread(true);
    far_fill(bench.queue, bench.device, BYTES, 2);
    finish_all(bench.queue);
    close_far();
    open_far(FAR_EAGER);
    far_fill(bench.queue, bench.device, BYTES, 0);
    run_thread(true);
    release_far();
    end_with("thread 1 submits to queue 0, and no finish has covered what thread 0 submitted");
}

// The array of the host that a thread submits makes it wait inside of its submit: its page cannot
// be read before another thread has submitted, too.
static struct {
    sem_t inside, go_on;
    void *page;
} meeting;

static void wait_inside(int signal)
{
    sem_post(&meeting.inside);
    sem_wait(&meeting.go_on);
    mprotect(meeting.page, (size_t)sysconf(_SC_PAGESIZE), PROT_READ);
}

static void *submit_slowly(void *unused)
{
    zr_run(bench.queue,
           zr_op_sum_rows(&(zr_row_sum){1}, meeting.page, (float *)(void *)bench.device,
                          (double *)(void *)bench.device));
    return NULL;
}

static void two_threads_are_not_inside_at_once(void **state)
{
    pthread_t thread;
    open_far(FAR_EAGER);
    sem_init(&meeting.inside, 0, 0);
    sem_init(&meeting.go_on, 0, 0);
    meeting.page =
        mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(meeting.page != MAP_FAILED);
    signal(SIGSEGV, wait_inside);
    assert_int_equal(pthread_create(&thread, NULL, submit_slowly, NULL), 0);
    sem_wait(&meeting.inside);
    far_fill(bench.queue, bench.device, BYTES, 1);
    sem_post(&meeting.go_on);
    pthread_join(thread, NULL);
    munmap(meeting.page, (size_t)sysconf(_SC_PAGESIZE));
    release_far();
    end_with("are inside of queue 0 at once");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_the_host_is_refused),
        cmocka_unit_test(what_ends_after_its_memory_is_refused),
        cmocka_unit_test(released_memory_is_refused),
        cmocka_unit_test(nothing_is_touched_where_there_are_no_bytes),
        cmocka_unit_test(sources_of_a_sum_are_checked),
        cmocka_unit_test(scratch_of_products_is_checked),
        cmocka_unit_test(arrays_of_the_host_are_short),
        cmocka_unit_test(arrays_of_the_host_are_not_on_the_device),
        cmocka_unit_test(a_thread_takes_over_after_a_finish),
        cmocka_unit_test(two_threads_are_not_inside_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
