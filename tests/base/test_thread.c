// The queue of jobs, and the clock. Every wait here has a deadline.
#include "scratch_directory.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include <stdatomic.h>

#define DEADLINE 20.0 // seconds

typedef struct record {
    int order[200];
    int count;
} record;

typedef struct entry {
    record *all;
    int number;
} entry;

static void note_number(void *argument)
{
    entry *one = argument;
    one->all->order[one->all->count++] = one->number;
}

static void one_thread_keeps_the_order(void **state)
{
    record all = {.count = 0};
    entry entries[200];
    zr_workers *workers;
    assert_int_equal(zr_workers_create(1, 3, &workers, NULL), ZERO_OK);
    for (int i = 0; i < 200; i++) { // far more than there is room for
        entries[i] = (entry){.all = &all, .number = i};
        assert_int_equal(zr_workers_submit(workers, note_number, &entries[i], NULL), ZERO_OK);
    }
    zr_workers_drain(workers);
    assert_int_equal(all.count, 200);
    for (int i = 0; i < 200; i++)
        assert_int_equal(all.order[i], i);
    zr_workers_drain(workers);
    zr_workers_destroy(workers);
}

static void add_one(void *argument) { atomic_fetch_add((atomic_int *)argument, 1); }

static void many_threads_do_every_job_once(void **state)
{
    atomic_int done = 0;
    zr_workers *workers;
    assert_int_equal(zr_workers_create(4, 7, &workers, NULL), ZERO_OK);
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < 1000; i++)
            assert_int_equal(zr_workers_submit(workers, add_one, &done, NULL), ZERO_OK);
        zr_workers_drain(workers);
        assert_int_equal(atomic_load(&done), 1000 * round);
    }
    for (int i = 0; i < 100; i++)
        zr_workers_submit(workers, add_one, &done, NULL);
    zr_workers_destroy(workers); // drains first
    assert_int_equal(atomic_load(&done), 3100);
}

typedef struct meeting {
    atomic_int arrived, met;
} meeting;

static void meet(void *argument)
{
    meeting *place = argument;
    atomic_fetch_add(&place->arrived, 1);
    double end = zr_clock_seconds() + DEADLINE;
    while (atomic_load(&place->arrived) < 3 && zr_clock_seconds() < end)
        zr_sleep_seconds(1e-4);
    atomic_fetch_add(&place->met, atomic_load(&place->arrived) == 3);
}

static void jobs_run_at_the_same_time(void **state)
{
    meeting place = {0};
    zr_workers *workers;
    assert_int_equal(zr_workers_create(3, 3, &workers, NULL), ZERO_OK);
    for (int i = 0; i < 3; i++)
        zr_workers_submit(workers, meet, &place, NULL);
    zr_workers_destroy(workers);
    assert_int_equal(atomic_load(&place.met), 3);
}

static void finish_late(void *argument)
{
    zr_sleep_seconds(0.02);
    atomic_store((atomic_int *)argument, 1);
}

static void draining_waits_for_what_runs(void **state)
{
    zr_workers *workers;
    assert_int_equal(zr_workers_create(2, 4, &workers, NULL), ZERO_OK);
    for (int i = 0; i < 5; i++) {
        atomic_int done = 0;
        zr_workers_submit(workers, finish_late, &done, NULL);
        // long enough, mostly, for the queue to be empty and the job to run
        zr_sleep_seconds(0.002);
        zr_workers_drain(workers);
        assert_int_equal(atomic_load(&done), 1);
    }
    zr_workers_destroy(workers);
}

static void waiting_may_end_before_the_jobs(void **state)
{
    zr_workers *workers;
    _Atomic int ended = 0;
    assert_int_equal(zr_workers_create(1, 1, &workers, NULL), ZERO_OK);
    assert_true(zr_workers_drain_for(workers, 100)); // nothing to wait for
    assert_int_equal(zr_workers_submit(workers, finish_late, &ended, NULL), ZERO_OK);
    assert_false(zr_workers_drain_for(workers, 0.001));
    assert_int_equal(ended, 0);
    assert_true(zr_workers_drain_for(workers, 100));
    assert_int_equal(ended, 1);
    zr_workers_destroy(workers);
}

static void wrong_use_is_refused(void **state)
{
    zr_workers *workers;
    zero_error error = {0};
    assert_int_equal(zr_workers_create(0, 1, &workers, &error), ZERO_ERR_INTERNAL);
    assert_int_equal(zr_workers_create(1, 0, &workers, &error), ZERO_ERR_INTERNAL);
    assert_null(workers);
    assert_int_equal(zr_workers_create(1, 1, &workers, NULL), ZERO_OK);
    assert_int_equal(zr_workers_submit(workers, NULL, NULL, &error), ZERO_ERR_INTERNAL);
    zr_workers_destroy(workers);
    zr_workers_destroy(NULL);
    for (int nth = 1; nth <= 3; nth++) {
        zr_alloc_fail_at(nth);
        assert_int_equal(zr_workers_create(1, 1, &workers, NULL), ZERO_ERR_MEMORY);
        zr_alloc_fail_at(0);
        assert_null(workers);
    }
}

static void sleeping_takes_at_least_its_time(void **state)
{
    double before = zr_clock_seconds();
    zr_sleep_seconds(0.01);
    assert_true(zr_clock_seconds() - before >= 0.01);
    before = zr_clock_seconds();
    zr_sleep_seconds(0);
    zr_sleep_seconds(-1);
    assert_true(zr_clock_seconds() >= before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_keeps_the_order),
        cmocka_unit_test(many_threads_do_every_job_once),
        cmocka_unit_test(jobs_run_at_the_same_time),
        cmocka_unit_test(wrong_use_is_refused),
        cmocka_unit_test(draining_waits_for_what_runs),
        cmocka_unit_test(waiting_may_end_before_the_jobs),
        cmocka_unit_test(sleeping_takes_at_least_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
