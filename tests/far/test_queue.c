// Queues of the far device: when their rows run, in which order, what they refuse, and how failures
// and timeouts come.
#include "far_harness.h"

#include <pthread.h>

enum { QUEUES = 3, BYTES = 100 };

typedef struct bench { // three queues, device memory and pinned memory
    zr_queue *queue[QUEUES];
    unsigned char *device, *pinned;
} bench;

static void open_bench(bench *b, const far_options *options)
{
    far_begin(options);
    for (int i = 0; i < QUEUES; i++)
        b->queue[i] = far_queue_new();
    b->device = take(ZR_MEMORY_DEVICE, 2 * BYTES);
    b->pinned = take(ZR_MEMORY_PINNED, BYTES);
}

static void close_queues(bench *b)
{
    for (int i = 0; i < QUEUES; i++)
        zr_queue_close(b->queue[i]);
}

static void release_bench(bench *b)
{
    give_back(ZR_MEMORY_DEVICE, b->device, 2 * BYTES);
    give_back(ZR_MEMORY_PINNED, b->pinned, BYTES);
}

static void close_bench(bench *b)
{
    close_queues(b);
    release_bench(b);
    end_clean();
}

static int64_t executed(void)
{
    far_report report;
    far_report_now(&report);
    return report.executed;
}

static void far_is_a_name_between_begin_and_end(void **state)
{
    zr_queue *queue = NULL;
    zero_error error = {0};
    assert_int_equal(zr_queue_open("far", NULL, 1, &queue, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "there is no backend \"far\" here"));
    far_begin(&(far_options){0});
    assert_int_equal(zr_queue_open("far", "avx2", 1, &queue, &error), ZERO_ERR_UNSUPPORTED);
    assert_int_equal(zr_queue_open("far", "portable", 1, &queue, &error), ZERO_OK);
    assert_string_equal(queue->backend->name, "far");
    assert_string_equal(queue->backend->path(), "portable");
    assert_ptr_equal(queue->device, far_device());
    zr_queue_close(queue);
    assert_int_equal(zr_queue_open("ref", NULL, 1, &queue, &error), ZERO_OK);
    assert_string_equal(queue->backend->name, "ref");
    zr_queue_close(queue);
    end_clean();
}

static void more_queues_than_there_is_room_for_are_refused(void **state)
{
    zr_queue *queue[FAR_MOST_QUEUES], *more = NULL;
    far_begin(&(far_options){0});
    for (int i = 0; i < FAR_MOST_QUEUES; i++)
        queue[i] = far_queue_new();
    assert_int_equal(zr_queue_open("far", NULL, 1, &more, NULL), ZERO_ERR_UNSUPPORTED);
    for (int i = 0; i < FAR_MOST_QUEUES; i++)
        zr_queue_close(queue[i]);
    end_clean();
}

static void a_queue_that_stays_open_is_told(void **state)
{
    far_begin(&(far_options){0});
    zr_queue *queue = far_queue_new();
    end_with("queue 0 was not closed");
    zr_queue_close(queue);
}

// ---- when rows run ----

static void eager_rows_run_at_once(void **state)
{
    bench b;
    open_bench(&b, &(far_options){.order = FAR_EAGER});
    for (int i = 1; i <= 5; i++) {
        far_fill(b.queue[i % QUEUES], b.device, BYTES, i);
        assert_int_equal(executed(), i);
    }
    close_bench(&b);
}

static void lazy_rows_run_when_a_finish_needs_them(void **state)
{
    bench b;
    open_bench(&b, &(far_options){.order = FAR_LAZY});
    far_fill(b.queue[0], b.device, BYTES, 1);
    zr_mark first = zr_queue_mark(b.queue[0]);
    far_fill(b.queue[0], b.device, BYTES, 2);
    far_fill(b.queue[1], b.device + BYTES, BYTES, 3);
    zr_queue_after(b.queue[2], first);
    far_copy(b.queue[2], b.device, b.pinned, BYTES);
    assert_int_equal(executed(), 0);
    finish_all(b.queue[2]);
    assert_int_equal(executed(), 2);
    assert_int_equal(b.pinned[BYTES - 1], 1);
    finish_all(b.queue[0]);
    assert_int_equal(executed(), 3);
    close_bench(&b);
}

// Two queues write the same bytes, so that the outcome is the order.
static unsigned race_by(uint64_t seed)
{
    bench b;
    unsigned outcome = 0;
    open_bench(&b, &(far_options){.order = FAR_RANDOM, .seed = seed});
    for (int round = 0; round < 16; round++) {
        far_fill(b.queue[0], b.device, BYTES, 0);
        far_fill(b.queue[1], b.device, BYTES, 1);
        zr_queue_after(b.queue[2], zr_queue_mark(b.queue[0]));
        zr_queue_after(b.queue[2], zr_queue_mark(b.queue[1]));
        far_copy(b.queue[2], b.device, b.pinned, BYTES);
        finish_all(b.queue[2]);
        outcome = outcome << 1 | b.pinned[0];
    }
    close_bench(&b);
    return outcome;
}

static void random_orders_follow_from_their_seed(void **state)
{
    unsigned first = race_by(1), second = race_by(2);
    assert_true(first != 0 && first != 0xffff);
    assert_int_not_equal(first, second);
    assert_int_equal(race_by(1), first);
}

// A finish, too, runs rows that it does not need.
static void random_rows_run_at_finishes(void **state)
{
    enum { ROWS = 8 };
    int64_t before = 0;
    for (uint64_t seed = 0; seed < 5; seed++) {
        bench b;
        open_bench(&b, &(far_options){.order = FAR_RANDOM, .seed = seed});
        far_fill(b.queue[1], b.pinned, BYTES, 0);
        for (int i = 1; i < ROWS; i++)
            far_fill(b.queue[0], b.device, BYTES, i);
        before += executed();
        for (int i = 0; i < 100; i++)
            finish_all(b.queue[1]);
        assert_int_equal(executed(), ROWS);
        close_bench(&b);
    }
    assert_true(before < 5 * ROWS);
}

static void closing_runs_what_has_not_run(void **state)
{
    bench b;
    open_bench(&b, &(far_options){.order = FAR_LAZY});
    far_fill(b.queue[0], b.device, BYTES, 9);
    zr_queue_after(b.queue[1], zr_queue_mark(b.queue[0]));
    far_copy(b.queue[1], b.device, b.pinned, BYTES);
    zr_queue_close(b.queue[1]);
    assert_int_equal(b.pinned[0], 9);
    b.queue[1] = NULL;
    close_bench(&b);
}

// ---- in which order ----

// Returns the byte that three queues bring from the first to the last.
static int pass_on(const far_options *options, bool waits)
{
    bench b;
    open_bench(&b, options);
    far_fill(b.queue[0], b.device, BYTES, 42);
    if (waits)
        zr_queue_after(b.queue[1], zr_queue_mark(b.queue[0]));
    far_copy(b.queue[1], b.device, b.device + BYTES, BYTES);
    zr_queue_after(b.queue[2], zr_queue_mark(b.queue[1]));
    far_copy(b.queue[2], b.device + BYTES, b.pinned, BYTES);
    finish_all(b.queue[2]);
    int byte = b.pinned[BYTES - 1];
    close_bench(&b);
    return byte;
}

static void queues_wait_for_marks(void **state)
{
    assert_int_equal(pass_on(&(far_options){.order = FAR_EAGER}, true), 42);
    assert_int_equal(pass_on(&(far_options){.order = FAR_LAZY}, true), 42);
    for (uint64_t seed = 0; seed < 50; seed++)
        assert_int_equal(pass_on(&(far_options){.order = FAR_RANDOM, .seed = seed}, true), 42);
}

static void a_missing_wait_is_seen(void **state)
{
    int seen = 0;
    assert_int_equal(pass_on(&(far_options){.order = FAR_LAZY}, false), 0xff);
    for (uint64_t seed = 0; seed < 50; seed++)
        seen += pass_on(&(far_options){.order = FAR_RANDOM, .seed = seed}, false) == 0xff;
    assert_true(seen > 0 && seen < 50);
}

// What a queue waits for belongs to its marks, also if it was given nothing else.
static void marks_have_what_their_queue_waits_for(void **state)
{
    bench b;
    open_bench(&b, &(far_options){.order = FAR_LAZY});
    assert_int_equal(zr_queue_mark(b.queue[0]).number, 0);
    far_fill(b.queue[0], b.device, BYTES, 4);
    zr_queue_after(b.queue[1], zr_queue_mark(b.queue[0]));
    zr_queue_after(b.queue[2], zr_queue_mark(b.queue[1]));
    far_copy(b.queue[2], b.device, b.pinned, BYTES);
    finish_all(b.queue[2]);
    assert_int_equal(b.pinned[0], 4);
    close_bench(&b);
}

static void a_queue_with_another_scratch_is_the_same_queue(void **state)
{
    bench b;
    open_bench(&b, &(far_options){.order = FAR_LAZY});
    zr_queue copy = zr_queue_with_scratch(b.queue[0], b.device, BYTES);
    far_fill(&copy, b.pinned, BYTES, 1);
    far_fill(b.queue[0], b.pinned, BYTES, 2);
    assert_int_equal(zr_queue_mark(&copy).number, 2);
    finish_all(&copy);
    assert_int_equal(b.pinned[0], 2);
    close_bench(&b);
}

// ---- failures ----

static void failures_come_once_with_the_next_finish(void **state)
{
    static const far_order orders[] = {FAR_EAGER, FAR_LAZY};
    for (int i = 0; i < ZR_COUNT(orders); i++) {
        bench b;
        zero_error error = {0};
        open_bench(&b, &(far_options){.order = orders[i], .fail_row = 2});
        for (int k = 0; k < 3; k++)
            far_fill(b.queue[0], b.device, BYTES, k);
        assert_int_equal(zr_mark_finish(zr_queue_mark(b.queue[1]), 1, &error), ZERO_OK);
        assert_int_equal(zr_mark_finish(zr_queue_mark(b.queue[0]), 1, &error), ZERO_ERR_INTERNAL);
        assert_non_null(strstr(error.message, "operation fill, the one that runs as number 2"));
        finish_all(b.queue[0]);
        assert_int_equal(executed(), 3);
        close_bench(&b);
    }
}

static void failures_of_ref_are_those_of_the_queue(void **state)
{
    const zr_product product = {.m = 1, .n = 1, .k = 1, .dtype = ZERO_I32, .out = ZERO_I32};
    bench b;
    zero_error error = {0};
    open_bench(&b, &(far_options){.order = FAR_LAZY});
    zr_run(b.queue[0], zr_op_product(&product, NULL, NULL, NULL, NULL));
    far_fill(b.queue[0], b.pinned, BYTES, 3);
    assert_int_equal(zr_mark_finish(zr_queue_mark(b.queue[0]), 1, &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "matrix product"));
    assert_int_equal(b.pinned[0], 3);
    close_bench(&b);
}

static void assert_times_out(zr_mark mark, const char *text)
{
    zero_error error = {0};
    assert_int_equal(zr_mark_finish(mark, 0.01, &error), ZERO_ERR_TIMEOUT);
    if (!strstr(error.message, text))
        fail_msg("\"%s\" lacks \"%s\"", error.message, text);
}

static void what_never_ends_is_named(void **state)
{
    bench b;
    open_bench(&b, &(far_options){.order = FAR_LAZY});
    assert_times_out((zr_mark){b.queue[0], 1}, "queue 0 has not ended within 0.01 s: the mark is");
    zr_queue_after(b.queue[1], (zr_mark){b.queue[0], 1});
    far_fill(b.queue[1], b.device, BYTES, 1);
    assert_times_out(zr_queue_mark(b.queue[1]),
                     "operation after, number 1 of queue 1, has not ended within 0.01 s: it waits "
                     "for number 1 of queue 0, which was given 0");
    far_fill(b.queue[0], b.device, BYTES, 1);
    finish_all(b.queue[1]);
    close_bench(&b);
}

static void closing_what_never_ends_is_told(void **state)
{
    bench b;
    open_bench(&b, &(far_options){.order = FAR_LAZY});
    zr_queue_after(b.queue[1], (zr_mark){b.queue[0], 1});
    zr_queue_close(b.queue[1]);
    b.queue[1] = far_queue_new(); // in its place
    far_fill(b.queue[1], b.pinned, BYTES, 8);
    finish_all(b.queue[1]);
    assert_int_equal(b.pinned[0], 8);
    close_queues(&b);
    release_bench(&b);
    end_with("closing a queue: operation after, number 1 of queue 1, has not ended");
}

static void finishes_are_counted(void **state)
{
    bench b;
    open_bench(&b, &(far_options){.order = FAR_LAZY});
    finish_all(b.queue[0]); // nothing to wait for
    far_fill(b.queue[0], b.device, BYTES, 1);
    finish_all(b.queue[0]);
    finish_all(b.queue[0]);
    assert_int_equal(far_finishes_of(far_host()), 2);
    close_queues(&b);
    release_bench(&b);
    far_report report;
    far_end(&report);
    assert_int_equal(report.finishes, 2);
    assert_int_equal(report.submitted, 1);
    assert_int_equal(report.executed, 1);
}

// ---- ranks as threads ----

enum { RANKS = 3, ROUNDS = 20 };

static struct {
    pthread_barrier_t all;
    zr_share shares[RANKS];
} world;

// Each fills its memory, and reads that of the next one.
static void exchange(int rank, zr_queue *compute, zr_queue *down, void *own, unsigned char *seen)
{
    zr_device *device = far_device();
    void *next;
    device->ops->share(device, own, &world.shares[rank], NULL);
    pthread_barrier_wait(&world.all);
    device->ops->attach(device, &world.shares[(rank + 1) % RANKS], &next, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        far_fill(compute, own, BYTES, round * RANKS + rank);
        finish_all(compute);
        pthread_barrier_wait(&world.all);
        far_copy(down, next, seen, BYTES);
        finish_all(down);
        assert_int_equal(seen[BYTES - 1], round * RANKS + (rank + 1) % RANKS);
        pthread_barrier_wait(&world.all);
    }
    device->ops->detach(device, next);
    pthread_barrier_wait(&world.all);
}

static void *run_rank(void *number)
{
    zr_queue *compute = far_queue_new(), *down = far_queue_new();
    void *own = take(ZR_MEMORY_DEVICE, BYTES), *seen = take(ZR_MEMORY_PINNED, BYTES);
    exchange(*(int *)number, compute, down, own, seen);
    assert_int_equal(far_finishes_of(far_host()), 2 * ROUNDS);
    zr_queue_close(compute);
    zr_queue_close(down);
    give_back(ZR_MEMORY_DEVICE, own, BYTES);
    give_back(ZR_MEMORY_PINNED, seen, BYTES);
    return NULL;
}

static void ranks_reach_each_other_s_memory(void **state)
{
    static const far_order orders[] = {FAR_EAGER, FAR_LAZY, FAR_RANDOM};
    for (int i = 0; i < ZR_COUNT(orders); i++) {
        pthread_t thread[RANKS];
        int numbers[RANKS];
        far_begin(&(far_options){.order = orders[i]});
        pthread_barrier_init(&world.all, NULL, RANKS);
        for (int r = 0; r < RANKS; r++) {
            numbers[r] = r;
            assert_int_equal(pthread_create(&thread[r], NULL, run_rank, &numbers[r]), 0);
        }
        for (int r = 0; r < RANKS; r++)
            pthread_join(thread[r], NULL);
        pthread_barrier_destroy(&world.all);
        end_clean();
    }
}

// ---- recording ----

static void what_is_recorded_is_waited_for(void **state)
{
    bench b;
    zr_recorder *recorder = NULL;
    zr_wrapper *recording;
    zero_error error = {0};
    open_bench(&b, &(far_options){.order = FAR_LAZY, .fail_row = 2});
    assert_int_equal(zr_recorder_create(8, &recorder, NULL), ZERO_OK);
    assert_int_equal(zr_queue_record(b.queue[0], recorder, &recording, NULL), ZERO_OK);
    far_fill(b.queue[0], b.device, BYTES, 1);
    assert_int_equal(executed(), 1);
    far_fill(b.queue[0], b.device, BYTES, 2); // fails
    assert_int_equal(executed(), 2);
    zr_queue_unwrap(b.queue[0], recording);
    assert_int_equal(zr_mark_finish(zr_queue_mark(b.queue[0]), 1, &error), ZERO_ERR_INTERNAL);
    assert_non_null(strstr(error.message, "as the test asked"));
    zr_recorder_destroy(recorder);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(far_is_a_name_between_begin_and_end),
        cmocka_unit_test(more_queues_than_there_is_room_for_are_refused),
        cmocka_unit_test(a_queue_that_stays_open_is_told),
        cmocka_unit_test(eager_rows_run_at_once),
        cmocka_unit_test(lazy_rows_run_when_a_finish_needs_them),
        cmocka_unit_test(random_orders_follow_from_their_seed),
        cmocka_unit_test(random_rows_run_at_finishes),
        cmocka_unit_test(closing_runs_what_has_not_run),
        cmocka_unit_test(queues_wait_for_marks),
        cmocka_unit_test(a_missing_wait_is_seen),
        cmocka_unit_test(marks_have_what_their_queue_waits_for),
        cmocka_unit_test(a_queue_with_another_scratch_is_the_same_queue),
        cmocka_unit_test(failures_come_once_with_the_next_finish),
        cmocka_unit_test(failures_of_ref_are_those_of_the_queue),
        cmocka_unit_test(what_never_ends_is_named),
        cmocka_unit_test(closing_what_never_ends_is_told),
        cmocka_unit_test(finishes_are_counted),
        cmocka_unit_test(ranks_reach_each_other_s_memory),
        cmocka_unit_test(what_is_recorded_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
