// The MPI module under mpirun: it gives the same bits as threads, and its ranks end properly. This
// program is also its own rank.
#define _GNU_SOURCE
#include "exercise.h"
#include "comm_grid.h"
#include "mpirun.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

// ---- a rank ----

static zero_status run_exercise(zero_comm *comm, zero_error *error)
{
    uint64_t digest;
    ZERO_TRY(exercise(comm, &digest, error));
    printf("[rank %d digest %016llx as %s]\n", comm->rank, (unsigned long long)digest,
           zero_comm_name(comm));
    return ZERO_OK;
}

static zero_status run_overlapped(zero_comm *comm, zero_error *error)
{
    ZERO_TRY(zr_comm_overlap(comm, error));
    if (!comm->comm_thread)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "this MPI cannot be called from two threads in turn");
    return run_exercise(comm, error);
}

static zero_status give_up(zero_comm *comm, zero_error *error)
{
    zr_comm_progress(comm, 12);
    if (comm->rank == 1)
        return zr_fail(error, ZERO_ERR_IO, "disk full");
    return zr_comm_barrier(comm, error);
}

static zero_status be_stopped(zero_comm *comm, zero_error *error)
{
    zr_comm_progress(comm, 7);
    ZERO_TRY(zr_comm_barrier(comm, error));
    if (comm->rank == 1)
        raise(SIGSTOP);
    return zr_comm_barrier(comm, error);
}

static zero_status be_late(zero_comm *comm, zero_error *error)
{
    for (int i = 0; comm->rank == 1 && i < 18; i++) {
        zr_sleep_seconds(0.1);
        zr_comm_progress(comm, i);
    }
    return zr_comm_barrier(comm, error);
}

static zero_status ask_for_too_much(zero_comm *comm, zero_error *error)
{
    zr_window window;
    return zr_window_create(comm, ZR_WINDOW_SYMMETRIC, comm->rank == 1 ? (int64_t)1 << 45 : 4096, 1,
                            NULL, &window, error);
}

static zero_status run_different_operations(zero_comm *comm, zero_error *error)
{
    double value = 1;
    return comm->rank == 0 ? zr_comm_barrier(comm, error)
                           : zr_comm_all_reduce_small(comm, &value, 1, ZERO_F64, ZR_SUM, error);
}

static zero_status run_groups(zero_comm *comm, zero_error *error)
{
    uint64_t digests[GRID_RANKS + 1];
    ZERO_TRY(exercise_groups(comm, digests, error));
    for (int ranks = 1; ranks <= GRID_RANKS; ranks++)
        if (digests[ranks])
            printf("[rank %d in a group of %d: %016llx]\n", comm->rank, ranks,
                   (unsigned long long)digests[ranks]);
    return ZERO_OK;
}

static zero_status run_interleaved(zero_comm *comm, zero_error *error)
{
    for (comm_thread_case comm_threads = NO_COMM_THREAD; comm_threads < COMM_THREAD_CASES;
         comm_threads++)
        ZERO_TRY(interleave_groups(comm, comm_threads, comm_threads, error));
    return ZERO_OK;
}

// Rank 3 does not come. Rank 0 has no group with it: it waits for rank 1, which waits for rank 3.
static zero_status miss_rank_3(zero_comm *comm, bool stops, zero_error *error)
{
    grid grid;
    ZERO_TRY(grid_open(comm, &grid, error));
    zr_comm_progress(grid.data, 7);
    ZERO_TRY(zr_comm_barrier(comm, error));
    if (comm->rank == 3 && stops)
        raise(SIGSTOP);
    if (comm->rank == 3) {
        zr_sleep_seconds(0.5); // until the others wait
        return zr_fail(error, ZERO_ERR_IO, "disk full");
    }
    // Rank 0 waits first, so that its deadline passes first.
    if (comm->rank == 1)
        zr_sleep_seconds(stops ? 1 : 0);
    zero_status status = zr_comm_barrier(grid.data, error);
    if (comm->rank == 2)
        zr_sleep_seconds(stops ? 1 : 0);
    return status ? status : zr_comm_barrier(grid.tensor, error);
}

static zero_status give_up_in_groups(zero_comm *comm, zero_error *error)
{
    return miss_rank_3(comm, false, error);
}

static zero_status be_stopped_in_groups(zero_comm *comm, zero_error *error)
{
    return miss_rank_3(comm, true, error);
}

// Rank 0's comm thread is the one that hears of it; its own thread waits in another group.
static zero_status give_up_under_comm_threads(zero_comm *comm, zero_error *error)
{
    grid grid;
    zr_window window;
    zr_handle handle;
    float sum[16];
    const zr_sum_target to = {.data = sum, .dtype = ZERO_F32};
    ZERO_TRY(grid_open(comm, &grid, error));
    ZERO_TRY(zr_comm_overlap(grid.data, error));
    ZERO_TRY(
        zr_window_create(grid.data, ZR_WINDOW_SYMMETRIC, 2 * sizeof sum, 1, NULL, &window, error));
    if (comm->rank == 2)
        return zr_fail(error, ZERO_ERR_IO, "disk full");
    if (comm->rank == 0)
        ZERO_TRY(zr_comm_start(&window, ZERO_COMM_reduce_scatter, 0, 0, 16, ZERO_F32, &to, &handle,
                               error));
    zero_status status = zr_comm_barrier(comm->rank == 0 ? grid.tensor : comm, error);
    if (comm->rank == 0)
        zr_comm_wait(&handle, NULL); // it holds `sum`
    return status;
}

// Ranks 1 and 3 sum different operands, in their comm threads; their own threads wait for the
// others.
static zero_status mismatch_under_comm_threads(zero_comm *comm, zero_error *error)
{
    grid grid;
    zr_window window;
    zr_handle handle;
    static float sum[4096];
    const zr_sum_target to = {.data = sum, .dtype = ZERO_F32};
    ZERO_TRY(grid_open(comm, &grid, error));
    ZERO_TRY(zr_comm_overlap(grid.data, error));
    ZERO_TRY(
        zr_window_create(grid.data, ZR_WINDOW_SYMMETRIC, 2 * sizeof sum, 1, NULL, &window, error));
    if (comm->rank % 2)
        ZERO_TRY(zr_comm_start(&window, ZERO_COMM_reduce_scatter, 0, 0, comm->rank == 1 ? 16 : 32,
                               ZERO_F32, &to, &handle, error));
    if (comm->rank == 0)
        zr_sleep_seconds(5);
    return zr_comm_barrier(comm, error);
}

static const mpirun_scenario scenarios[] = {
    {.name = "exercise", .run = run_exercise},
    {.name = "overlapped", .run = run_overlapped},
    {.name = "give-up", .run = give_up},
    {.name = "stopped", .run = be_stopped},
    {.name = "late", .run = be_late},
    {.name = "too-much", .run = ask_for_too_much},
    {.name = "different", .run = run_different_operations},
    {.name = "groups", .run = run_groups},
    {.name = "interleaved", .run = run_interleaved},
    {.name = "give-up-in-groups", .run = give_up_in_groups},
    {.name = "stopped-in-groups", .run = be_stopped_in_groups},
    {.name = "give-up-under-couriers", .run = give_up_under_comm_threads},
    {.name = "mismatch-under-couriers", .run = mismatch_under_comm_threads},
};

// ---- the test ----

static zero_status digest_of_thread(zero_comm *comm, void *user, zero_error *error)
{
    return exercise(comm, &((uint64_t *)user)[comm->rank], error);
}

static void the_same_bits_as_threads(void **state)
{
    static const int counts[] = {1, 3, 4, 8};
    for (int i = 0; i < ZR_COUNT(counts); i++) {
        char text[16384], want[80];
        rank_result results[8];
        uint64_t digests[8];
        run_threads(counts[i], 30, digest_of_thread, digests, results);
        assert_int_equal(mpirun_self(counts[i], "mpi", i % 2 ? "overlapped" : "exercise", "30",
                                     text, sizeof text),
                         0);
        for (int r = 0; r < counts[i]; r++) {
            snprintf(want, sizeof want, "[rank %d digest %016llx as mpi]", r,
                     (unsigned long long)digests[0]);
            expect_words(text, want);
        }
    }
}

static void auto_takes_shared_memory_on_one_machine(void **state)
{
    char text[16384];
    assert_int_equal(mpirun_self(3, "auto", "exercise", "30", text, sizeof text), 0);
    expect_words(text, "as local processes]");
}

static void a_rank_that_gives_up_ends_the_others(void **state)
{
    char text[16384];
    assert_int_not_equal(mpirun_self(3, "mpi", "give-up", "30", text, sizeof text), 0);
    expect_words(text, "[rank 1 ends with ERR_IO: disk full]");
    expect_words(text, "[rank 0 ends with ERR_PEER: rank 0, barrier, step 12: rank 1 gave up at "
                       "step 12: disk full]");
    expect_words(text, "[rank 2 ends with ERR_PEER: rank 2, barrier, step 12: rank 1 gave up at "
                       "step 12: disk full]");
}

static void a_stopped_rank_ends_the_others_at_the_deadline(void **state)
{
    char text[16384];
    assert_int_not_equal(mpirun_self(2, "mpi", "stopped", "1", text, sizeof text), 0);
    expect_words(text, "[rank 0 ends with ERR_TIMEOUT: rank 0, barrier, step 7: rank 1 made no "
                       "progress for 1 s; it was last heard of at step 7]");
}

static void signs_of_life_put_off_the_deadline(void **state)
{
    char text[16384];
    if (mpirun_self(2, "mpi", "late", "1", text, sizeof text))
        fail_msg("%s", text);
}

static void memory_that_one_rank_lacks_fails_all(void **state)
{
    char text[16384];
    assert_int_not_equal(mpirun_self(2, "mpi", "too-much", "30", text, sizeof text), 0);
    expect_words(text, "[rank 1 ends with ERR_MEMORY: rank 1: reserving");
    expect_words(text, "[rank 0 ends with ERR_MEMORY: rank 1 could not reserve");
}

static void different_operations_are_told(void **state)
{
    char text[16384];
    assert_int_not_equal(mpirun_self(2, "mpi", "different", "30", text, sizeof text), 0);
    expect_words(text, "runs another operation or another size");
}

static void every_operation_over_groups(void **state)
{
    char text[16384], want[80];
    rank_result results[GRID_RANKS];
    uint64_t digests[GRID_RANKS];
    assert_int_equal(mpirun_self(GRID_RANKS, "mpi", "groups", "30", text, sizeof text), 0);
    for (int ranks = 1; ranks <= GRID_RANKS; ranks++) {
        run_threads(ranks, 30, digest_of_thread, digests, results);
        for (int r = 0; r < GRID_RANKS; r++) {
            snprintf(want, sizeof want, "[rank %d in a group of %d: %016llx]", r, ranks,
                     (unsigned long long)digests[0]);
            if (ranks != (r == 2 ? 3 : 0)) // which is in no group of 3
                expect_words(text, want);
        }
    }
}

static void three_groups_at_once(void **state)
{
    char text[16384];
    if (mpirun_self(GRID_RANKS, "mpi", "interleaved", "30", text, sizeof text))
        fail_msg("%s", text);
}

static void a_rank_that_gives_up_ends_the_waits_in_other_groups(void **state)
{
    char text[16384];
    assert_int_not_equal(
        mpirun_self(GRID_RANKS, "mpi", "give-up-in-groups", "30", text, sizeof text), 0);
    expect_words(text, "[rank 3 ends with ERR_IO: disk full]");
    expect_words(text, "[rank 0 ends with ERR_PEER: rank 0, barrier (tensor group of 2), step 7: "
                       "rank 3 gave up at step 7: disk full]");
    expect_words(text, "[rank 1 ends with ERR_PEER: rank 1, barrier (data group of 2), step 7: "
                       "rank 3 gave up at step 7: disk full]");
    assert_int_not_equal(
        mpirun_self(GRID_RANKS, "mpi", "give-up-under-couriers", "30", text, sizeof text), 0);
    expect_words(text, "[rank 0 ends with ERR_PEER: rank 0, barrier (tensor group of 2), step 0: "
                       "rank 2 gave up at step 0: disk full]");
}

static void a_failure_of_a_comm_thread_ends_the_waits_of_all(void **state)
{
    char text[16384];
    assert_int_not_equal(
        mpirun_self(GRID_RANKS, "mpi", "mismatch-under-couriers", "30", text, sizeof text), 0);
    // In which operation the others wait by then is up to their speed.
    expect_words(text, "[rank 2 ends with ERR_PEER: rank 2, ");
    expect_words(text,
                 "step 0: rank 1 gave up at step 0: rank 1, reduce_scatter (data group of 2), "
                 "step 0: MPI says: ");
}

static void a_stopped_rank_of_a_group_ends_the_others_at_the_deadline(void **state)
{
    char text[16384];
    assert_int_not_equal(
        mpirun_self(GRID_RANKS, "mpi", "stopped-in-groups", "3", text, sizeof text), 0);
    expect_words(text, "rank 0, barrier (tensor group of 2), step 7: rank 3 made no progress for 3 "
                       "s; it was last heard of at step 7");
}

int main(int count, char **arguments)
{
    if (count == 5 && !strcmp(arguments[1], "rank"))
        return mpirun_rank(scenarios, ZR_COUNT(scenarios), arguments);
    mpirun_program = arguments[0];
    const char *reason = mpirun_reason_to_skip();
    if (reason) {
        fprintf(stderr, "SKIPPED: the communicator of MPI is not tested: %s\n", reason);
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits_as_threads),
        cmocka_unit_test(auto_takes_shared_memory_on_one_machine),
        cmocka_unit_test(a_rank_that_gives_up_ends_the_others),
        cmocka_unit_test(a_stopped_rank_ends_the_others_at_the_deadline),
        cmocka_unit_test(signs_of_life_put_off_the_deadline),
        cmocka_unit_test(memory_that_one_rank_lacks_fails_all),
        cmocka_unit_test(different_operations_are_told),
        cmocka_unit_test(every_operation_over_groups),
        cmocka_unit_test(three_groups_at_once),
        cmocka_unit_test(a_rank_that_gives_up_ends_the_waits_in_other_groups),
        cmocka_unit_test(a_failure_of_a_comm_thread_ends_the_waits_of_all),
        cmocka_unit_test(a_stopped_rank_of_a_group_ends_the_others_at_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
