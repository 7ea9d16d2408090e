// Opening queues: names, paths, failing allocations, products that are cached without further
// allocation, and queues of several threads.
#include "compute/compute.h"
#include "compute_check.h"
#include "base/alloc.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void names_and_paths(void **state)
{
    zero_error error = {0};
    zr_queue *queue = NULL;
    assert_int_equal(zr_queue_open("gpu", NULL, 1, &queue, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "gpu"));
    assert_int_equal(zr_queue_open("cpu", "mmx", 1, &queue, &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "\"cpu:mmx\""));
    assert_int_equal(zr_queue_open("cpu:mmx", NULL, 1, &queue, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(
        error.message, "\"cpu:mmx\" here; this build on this processor offers cpu (that is cpu:"));
    assert_non_null(strstr(error.message, "cpu:portable, ref"));
    assert_int_equal(zr_queue_open("cpu:", NULL, 1, &queue, &error), ZERO_ERR_USAGE);
    assert_int_equal(zr_queue_open("ref:avx2", NULL, 1, &queue, &error), ZERO_ERR_USAGE);
    assert_int_equal(zr_queue_open("cp", NULL, 1, &queue, &error), ZERO_ERR_USAGE);
    assert_int_equal(zr_queue_open("cpu", NULL, 0, &queue, &error), ZERO_ERR_USAGE);
    assert_int_equal(zr_queue_open("cpu", "portable", 2, &queue, &error), ZERO_OK);
    assert_string_equal(queue->backend->path(), "portable");
    assert_string_equal(queue->backend->name, "cpu");
    assert_int_equal(queue->threads, 2);
    zr_queue_close(queue);
    assert_int_equal(zr_queue_open("cpu:portable", NULL, 1, &queue, &error), ZERO_OK);
    assert_string_equal(queue->backend->path(), "portable");
    zr_queue_close(queue);
    zr_queue_close(NULL);
}

// Each path that is offered is there by name, also in one process with the others; each other one
// is refused, and says so.
static void each_path_has_a_name(void **state)
{
    char offered[160], name[32];
    zr_backends_offered(offered, sizeof offered);
    for (const zr_backend *const *b = zr_backends(); *b; b++) {
        zero_error error = {0};
        zr_queue *queue = NULL;
        bool cpu = strcmp((*b)->name, "cpu") == 0;
        snprintf(name, sizeof name, cpu ? "cpu:%s" : "%s", cpu ? (*b)->path() : (*b)->name);
        zero_status status = zr_queue_open(name, NULL, 1, &queue, &error);
        assert_int_equal(status, zr_backend_offered(*b) ? ZERO_OK : ZERO_ERR_USAGE);
        assert_int_equal(strstr(offered, name) != NULL, zr_backend_offered(*b));
        if (status == ZERO_OK)
            assert_ptr_equal(queue->backend, *b);
        else
            assert_non_null(strstr(error.message, offered));
        zr_queue_close(queue);
    }
}

static void best_path_is_chosen(void **state)
{
    zr_queue *best = check_queue("cpu", NULL, 1);
    assert_non_null(best);
    const char *first = NULL;
    for (const zr_backend *const *b = zr_backends(); *b; b++) {
        zr_queue *queue = check_queue((*b)->name, (*b)->path(), 1);
        assert_int_equal(zr_backend_offered(*b), queue != NULL);
        if (queue && !first && strcmp((*b)->name, "cpu") == 0)
            first = (*b)->path();
        if (queue)
            check_queue_close(queue);
    }
    assert_string_equal(best->backend->path(), first);
    check_queue_close(best);
}

static void failing_allocations_leave_nothing(void **state)
{
    for (int64_t nth = 1;; nth++) {
        zero_error error = {0};
        zr_queue *queue = NULL;
        zr_alloc_fail_at(nth);
        zero_status status = zr_queue_open("cpu", NULL, 1, &queue, &error);
        zr_alloc_fail_at(0);
        if (status == ZERO_OK) {
            assert_true(nth > 1);
            zr_queue_close(queue);
            return;
        }
        assert_int_equal(status, ZERO_ERR_MEMORY);
        assert_true(nth < 10);
    }
}

static void a_shape_allocates_once(void **state)
{
    zr_queue *queue = check_queue("cpu", NULL, 1);
    zero_error error = {0};
    float *a = floats_random(64 * 64, 1, 1), *d = floats_new(64 * 64);
    for (int round = 0; round < 3; round++) {
        int64_t before = zr_alloc_count();
        for (int64_t m = 1; m <= 64; m++) {
            zr_product p = {.m = m, .n = 65 - m, .k = 8};
            assert_int_equal(check_run(queue, zr_op_product(&p, a, a, NULL, d), &error), ZERO_OK);
        }
        if (round > 0)
            assert_int_equal(zr_alloc_count(), before);
    }
    floats_free(a);
    floats_free(d);
    check_queue_close(queue);
}

// ---- ranks as threads, each with a queue and a number of threads of its own ----

enum { RANKS = 3, SIZE = 96 };

typedef struct rank {
    int threads;
    float *d, *y;
} rank;

static void rank_compute(zr_queue *queue, float *d, float *y)
{
    float *a = floats_random(SIZE * SIZE, 1, 1), *gamma = floats_random(SIZE, 2, 1);
    zr_product p = {.m = SIZE, .n = SIZE, .k = SIZE, .trans_b = true};
    zr_norm norm = {.rows = SIZE, .width = SIZE, .epsilon = 1e-5f};
    zero_error error = {0};
    for (int repeat = 0; repeat < 5; repeat++) {
        assert_int_equal(check_run(queue, zr_op_product(&p, a, a, NULL, d), &error), ZERO_OK);
        zr_run(queue, zr_op_norm_forward(&norm, d, NULL, NULL, gamma, gamma, y, NULL, NULL));
    }
    floats_free(a);
    floats_free(gamma);
}

static void *rank_main(void *argument)
{
    rank *self = argument;
    zr_queue *queue = check_queue("cpu", NULL, self->threads);
    rank_compute(queue, self->d, self->y);
    check_queue_close(queue);
    return NULL;
}

static void ranks_as_threads(void **state)
{
    zr_queue *queue = check_queue("cpu", NULL, 1);
    float *d = floats_new(SIZE * SIZE), *y = floats_new(SIZE * SIZE);
    rank_compute(queue, d, y);
    pthread_t thread[RANKS];
    rank ranks[RANKS];
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = (rank){
            .threads = 1 + r % 2, .d = floats_new(SIZE * SIZE), .y = floats_new(SIZE * SIZE)};
        assert_int_equal(pthread_create(&thread[r], NULL, rank_main, &ranks[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(thread[r], NULL);
        check_close("product", ranks[r].d, d, SIZE * SIZE, 1e-5, 1e-5);
        check_close("norm", ranks[r].y, y, SIZE * SIZE, 1e-5, 1e-5);
        if (ranks[r].threads == 1)
            check_same_bits("the same number of threads", ranks[r].d, d, SIZE * SIZE * 4);
        floats_free(ranks[r].d);
        floats_free(ranks[r].y);
    }
    floats_free(d);
    floats_free(y);
    check_queue_close(queue);
}

// Every call has ended when it returns: marks are nothing to wait for, and finishing one brings the
// first failure, once. Its queue is that of the CPU's device.
static void marks_of_the_cpu_have_passed(void **state)
{
    static const char *const names[] = {"ref", "cpu"};
    const zr_product refused = {.m = 1, .n = 1, .k = 1, .dtype = ZERO_I32, .out = ZERO_I32};
    for (int i = 0; i < ZR_COUNT(names); i++) {
        zr_queue *queue = check_queue(names[i], NULL, 1), *other = check_queue("ref", NULL, 1);
        zero_error error = {0};
        assert_ptr_equal(queue->device, zr_device_host());
        zr_mark mark = zr_queue_mark(queue);
        assert_ptr_equal(mark.queue, queue);
        assert_int_equal(mark.number, 0);
        zr_queue_after(other, mark);
        assert_int_equal(zr_mark_finish(mark, 0, &error), ZERO_OK);
        assert_int_equal(zr_mark_finish((zr_mark){0}, 0, &error), ZERO_OK);
        zr_run(queue, zr_op_product(&refused, NULL, NULL, NULL, NULL));
        assert_int_equal(zr_mark_finish(zr_queue_mark(queue), 0, &error), ZERO_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, "matrix product"));
        assert_int_equal(zr_mark_finish(zr_queue_mark(queue), 0, &error), ZERO_OK);
        check_queue_close(queue);
        check_queue_close(other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_paths),
        cmocka_unit_test(each_path_has_a_name),
        cmocka_unit_test(best_path_is_chosen),
        cmocka_unit_test(failing_allocations_leave_nothing),
        cmocka_unit_test(a_shape_allocates_once),
        cmocka_unit_test(ranks_as_threads),
        cmocka_unit_test(marks_of_the_cpu_have_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
