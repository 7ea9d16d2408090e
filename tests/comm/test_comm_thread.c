// The comm thread: operations that run on a thread of their own give the same bits, and respect the
// deadline.
#include "comm/window.h"
#include "exercise.h"

#include "base/clock.h"

#include <string.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static zero_status run_exercise(zero_comm *comm, void *user, zero_error *error)
{
    uint64_t digest;
    ZERO_TRY(exercise(comm, &digest, error));
    ((uint64_t *)user)[comm->rank] = digest;
    return ZERO_OK;
}

static zero_status run_overlapped(zero_comm *comm, void *user, zero_error *error)
{
    ZERO_TRY(zr_comm_overlap(comm, error));
    assert_non_null(comm->comm_thread);
    return run_exercise(comm, user, error);
}

// A thread that carries operations out meanwhile changes no bit.
static void a_comm_thread_gives_the_same_bits(void **state)
{
    for (int ranks = 1; ranks <= 4; ranks++) {
        rank_result results[4];
        uint64_t plain[4], overlapped[4];
        run_threads(ranks, 30, run_exercise, plain, results);
        expect_all_ok(results, ranks);
        run_threads(ranks, 30, run_overlapped, overlapped, results);
        expect_all_ok(results, ranks);
        assert_memory_equal(plain, overlapped, sizeof(uint64_t) * (size_t)ranks);
    }
}

static zero_status leave_a_comm_thread_waiting(zero_comm *comm, void *user, zero_error *error)
{
    zr_window window;
    zr_handle handle;
    float sum[16];
    const zr_sum_target to = {.data = sum, .dtype = ZERO_F32};
    static const char *const names[] = {"g"};
    ZERO_TRY(zr_comm_overlap(comm, error));
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SYMMETRIC, 2 * sizeof sum, 1, names, &window, error));
    zero_status status = ZERO_OK;
    if (comm->rank == 0) {
        status = zr_comm_start(&window, ZERO_COMM_reduce_scatter, 0, 0, 16, ZERO_F32, &to, &handle,
                               error);
        status = status ? status : zr_comm_wait(&handle, error);
    } else {
        zr_sleep_seconds(0.5);
    }
    zr_window_destroy(&window);
    return status;
}

static void a_comm_thread_keeps_the_deadline(void **state)
{
    rank_result results[2];
    run_threads(2, 0.1, leave_a_comm_thread_waiting, NULL, results);
    expect_message(&results[0], ZERO_ERR_TIMEOUT, "rank 1");
    expect_message(&results[0], ZERO_ERR_TIMEOUT, "reduce_scatter of g");
}

// Starts a sum that rank 1 joins late, and ends the window without having waited for it, as a rank
// does after a failure.
static zero_status end_a_window_early(zero_comm *comm, void *user, zero_error *error)
{
    zr_window window;
    zr_handle handle;
    float sum[16] = {0};
    const zr_sum_target to = {.data = sum, .dtype = ZERO_F32};
    static const char *const names[] = {"g"};
    ZERO_TRY(zr_comm_overlap(comm, error));
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SYMMETRIC, 2 * sizeof sum, 1, names, &window, error));
    for (int i = 0; i < 2 * 16; i++)
        ((float *)window.mine)[i] = 1;
    if (comm->rank == 1)
        zr_sleep_seconds(0.3);
    zero_status status =
        zr_comm_start(&window, ZERO_COMM_reduce_scatter, 0, 0, 16, ZERO_F32, &to, &handle, error);
    zr_window_destroy(&window);
    ((bool *)user)[comm->rank] = status == ZERO_OK && handle.arrived && sum[15] == 2;
    return status;
}

// After it nobody touches what the operation reads and writes.
static void a_window_ends_with_its_operations(void **state)
{
    rank_result results[2];
    bool ended[2] = {false, false};
    run_threads(2, 30, end_a_window_early, ended, results);
    expect_all_ok(results, 2);
    assert_true(ended[0] && ended[1]);
}

// Comm threads of all ranks sum; rank 2 takes long to join. Meanwhile rank 0's own thread waits for
// rank 1's comm thread to have read its operand, and rank 1's own thread for a word that rank 0
// gives afterwards: rank 1 finds two threads of rank 0 that wait, one for rank 1 and one for rank
// 2. between two naps: a sign of life; summed: after the sum
typedef struct late_rank {
    int naps;
    double seconds;
    bool comes, summed;
} late_rank;

static void join_late(zero_comm *comm, const late_rank *late)
{
    for (int i = 0; i < late->naps; i++) {
        zr_comm_progress(comm, i);
        zr_sleep_seconds(late->seconds);
    }
}

static zero_status sum_and_publish(zr_window *sums, zr_window *word, const late_rank *late,
                                   zero_error *error)
{
    zero_comm *comm = sums->comm;
    zr_handle handle;
    float sum[16];
    const zr_sum_target to = {.data = sum, .dtype = ZERO_F32};
    if (comm->rank > 0)
        ZERO_TRY(comm->versions->publish(word, 0, 1, error));
    if (comm->rank == 2) {
        join_late(comm, late);
        if (!late->comes)
            return ZERO_OK;
    }
    ZERO_TRY(
        zr_comm_start(sums, ZERO_COMM_reduce_scatter, 0, 0, 16, ZERO_F32, &to, &handle, error));
    zr_sleep_seconds(0.02); // the comm thread waits first
    zero_status status = ZERO_OK;
    if (comm->rank == 0)
        status = zr_comm_quiesce(sums, 0, error);
    if (comm->rank == 0 && status == ZERO_OK)
        status = comm->versions->publish(word, 0, 1, error);
    if (status == ZERO_OK)
        status = comm->versions->await_published(word, 0, 1, error);
    // which holds `sum`
    zero_status waited = zr_comm_wait(&handle, status == ZERO_OK ? error : NULL);
    return status == ZERO_OK ? waited : status;
}

// Comm threads of all ranks have summed. Now rank 0's own thread waits for rank 1, and that of rank
// 1 for rank 2.
static zero_status sum_and_wait(zr_window *sums, zr_window *word, const late_rank *late,
                                zero_error *error)
{
    zero_comm *comm = sums->comm;
    zr_handle handle;
    float sum[16];
    const zr_sum_target to = {.data = sum, .dtype = ZERO_F32};
    // which rank 1 would publish when it has seen rank 2's first
    const uint64_t version = comm->rank == 0 ? 2 : 1;
    ZERO_TRY(
        zr_comm_start(sums, ZERO_COMM_reduce_scatter, 0, 0, 16, ZERO_F32, &to, &handle, error));
    ZERO_TRY(zr_comm_wait(&handle, error));
    if (comm->rank == 2) {
        join_late(comm, late);
        return ZERO_OK;
    }
    ZERO_TRY(comm->versions->publish(word, 0, version, error));
    return comm->versions->await_published(word, 0, version, error);
}

static zero_status wait_with_two_threads(zero_comm *comm, void *user, zero_error *error)
{
    const late_rank *late = user;
    static const char *const sum_names[] = {"g"}, *const word_names[] = {"p"};
    zr_window sums, word;
    ZERO_TRY(zr_comm_overlap(comm, error));
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SYMMETRIC, 3 * 16 * sizeof(float), 1, sum_names,
                              &sums, error));
    zero_status status =
        zr_window_create(comm, ZR_WINDOW_SHARED, 4096, 1, word_names, &word, error);
    if (status == ZERO_OK)
        status = (late->summed ? sum_and_wait : sum_and_publish)(&sums, &word, late, error);
    zr_window_destroy(&word);
    zr_window_destroy(&sums);
    return status;
}

static void a_slow_rank_ends_no_job_where_two_threads_of_another_wait(void **state)
{
    late_rank slow = {.naps = 3, .seconds = 0.85, .comes = true};
    rank_result results[3];
    run_threads(3, 1.6, wait_with_two_threads, &slow, results);
    expect_all_ok(results, 3);
}

// A second sign of life sets back the clocks of all that watch rank 2: who watched another would be
// first.
static void a_stopped_rank_is_named_where_two_threads_of_another_wait(void **state)
{
    late_rank stopped = {.naps = 2, .seconds = 0.5, .comes = false};
    rank_result results[3];
    run_threads(3, 1.0, wait_with_two_threads, &stopped, results);
    for (int r = 0; r < 2; r++)
        expect_message(&results[r], ZERO_ERR_TIMEOUT,
                       ": rank 2 (alive) made no progress for 1 s; it was last seen at step 1");
}

// A comm thread that has nothing to carry holds nobody up: as above, who took it for one at work
// would name rank 1, and first.
static void a_stopped_rank_is_named_where_comm_threads_are_done(void **state)
{
    late_rank stopped = {.naps = 2, .seconds = 0.3, .summed = true};
    rank_result results[3];
    run_threads(3, 0.6, wait_with_two_threads, &stopped, results);
    for (int r = 0; r < 2; r++)
        expect_message(&results[r], ZERO_ERR_TIMEOUT,
                       ": rank 2 (alive) made no progress for 0.6 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_comm_thread_gives_the_same_bits),
        cmocka_unit_test(a_comm_thread_keeps_the_deadline),
        cmocka_unit_test(a_window_ends_with_its_operations),
        cmocka_unit_test(a_slow_rank_ends_no_job_where_two_threads_of_another_wait),
        cmocka_unit_test(a_stopped_rank_is_named_where_two_threads_of_another_wait),
        cmocka_unit_test(a_stopped_rank_is_named_where_comm_threads_are_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
