// Groups of a job's ranks: who is in which, that each works like a job of its own, and that a
// failure in one is the whole job's.
#include "comm_grid.h"
#include "exercise.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/agreement.h"
#include "comm/window.h"

#include "../sanitizers.h"

#include <stdio.h>
#include <string.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static zero_status run_exercise(zero_comm *comm, void *user, zero_error *error)
{
    return exercise(comm, &((uint64_t *)user)[comm->rank], error);
}

static zero_status run_groups(zero_comm *job, void *user, zero_error *error)
{
    return exercise_groups(job, (uint64_t *)user + (GRID_RANKS + 1) * job->rank, error);
}

// Sizes 1, 2, 3 and 4: with the bits of a job of so many ranks.
static void every_operation_over_groups(void **state)
{
    rank_result results[GRID_RANKS];
    uint64_t digests[GRID_RANKS][GRID_RANKS + 1];
    run_threads(GRID_RANKS, 60, run_groups, digests, results);
    expect_all_ok(results, GRID_RANKS);
    for (int ranks = 1; ranks <= GRID_RANKS; ranks++) {
        uint64_t alone[GRID_RANKS];
        run_threads(ranks, 60, run_exercise, alone, results);
        expect_all_ok(results, ranks);
        for (int r = 0; r < GRID_RANKS; r++)
            if (digests[r][ranks])
                assert_int_equal(digests[r][ranks], alone[0]);
    }
}

static zero_status run_interleaved(zero_comm *job, void *user, zero_error *error)
{
    for (uint64_t seed = 0; seed < (SANITIZED ? 2 : 6); seed++)
        ZERO_TRY(interleave_groups(job, *(comm_thread_case *)user, seed, error));
    return ZERO_OK;
}

static void three_groups_at_once(void **state)
{
    for (comm_thread_case comm_threads = NO_COMM_THREAD; comm_threads < COMM_THREAD_CASES;
         comm_threads++) {
        rank_result results[GRID_RANKS];
        run_threads(GRID_RANKS, 60, run_interleaved, &comm_threads, results);
        expect_all_ok(results, GRID_RANKS);
    }
}

static zero_status split_self(zero_comm *job, void *user, zero_error *error)
{
    zero_comm *group;
    uint64_t digest;
    char byte = 0;
    ZERO_TRY(zr_comm_split(job, job->rank, 0, "tensor", &group, error));
    assert_int_equal(group->size, 1);
    assert_ptr_equal(group->job, job);
    zero_status status = exercise(group, &digest, error);
    // Alone, it cannot send; that ends the job.
    if (status == ZERO_OK && job->rank == 1)
        status = zr_comm_send(group, &byte, 1, 1, error);
    if (status == ZERO_OK)
        status = zr_comm_barrier(job, error);
    zero_comm_destroy(group);
    return status;
}

static void a_group_of_one_is_like_self(void **state)
{
    rank_result results[2], alone;
    run_threads(2, 60, split_self, NULL, results);
    expect_message(&results[1], ZERO_ERR_INTERNAL,
                   "rank 1 of 2: cannot send to rank 1 of the tensor group of 1");
    expect_message(&results[0], ZERO_ERR_PEER,
                   "rank 0, barrier, step 0: rank 1 gave up at step 0: rank 1 of 2: cannot send");
    run_threads(1, 60, split_self, NULL, &alone);
    expect_all_ok(&alone, 1);
}

static void self_is_split_too(void **state)
{
    zero_comm *self;
    rank_result result = {0};
    assert_int_equal(zero_comm_self(&self, NULL), ZERO_OK);
    result.status = split_self(self, NULL, &result.error);
    expect_all_ok(&result, 1);
    zero_comm_destroy(self);
}

typedef struct asked {
    int colour[GRID_RANKS];
    const char *words;
} asked;

static zero_status ask_for(zero_comm *job, void *user, zero_error *error)
{
    zero_comm *group;
    return zr_comm_split(job, ((const asked *)user)->colour[job->rank], 0, "data", &group, error);
}

static void negative_colours_are_refused(void **state)
{
    asked cases[] = {
        {{0, 0, -1, 1}, "rank 2 asks for the data group of colour -1: colours begin at 0"},
        {{-7, -7, -7, -7}, "rank 0 asks for the data group of colour -7: colours begin at 0"}};
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        rank_result results[GRID_RANKS];
        run_threads(GRID_RANKS, 60, ask_for, &cases[i], results);
        for (int r = 0; r < GRID_RANKS; r++)
            expect_message(&results[r], ZERO_ERR_INTERNAL, cases[i].words);
    }
}

static zero_status split_a_group(zero_comm *job, void *user, zero_error *error)
{
    zero_comm *group, *part;
    ZERO_TRY(zr_comm_split(job, 0, 0, "data", &group, error));
    zero_status status = zr_comm_split(group, 0, 0, "tensor", &part, error);
    zero_comm_destroy(group);
    return status;
}

static void a_group_is_not_split(void **state)
{
    rank_result results[2];
    run_threads(2, 60, split_a_group, NULL, results);
    assert_int_equal(results[0].status, ZERO_ERR_INTERNAL);
    expect_message(&results[1], ZERO_ERR_INTERNAL,
                   "tensor groups are requested of a data group: only a whole job is split");
}

#define MANY 40

static zero_status keep_splitting(zero_comm *job, void *user, zero_error *error)
{
    zero_comm *groups[MANY] = {0};
    zero_status status = ZERO_OK;
    for (int i = 0; i < MANY && status == ZERO_OK; i++)
        status = zr_comm_split(job, 0, 0, "data", &groups[i], error);
    for (int i = 0; i < MANY; i++)
        zero_comm_destroy(groups[i]);
    return status;
}

static void too_many_groups_are_refused(void **state)
{
    rank_result results[2];
    run_threads(2, 60, keep_splitting, NULL, results);
    for (int r = 0; r < 2; r++)
        expect_message(&results[r], ZERO_ERR_INTERNAL, "more than 8 groups of rank 0 are alive");
}

static zero_status make_windows_in_turn(zero_comm *comm, int count, zero_error *error)
{
    for (int i = 0; i < count; i++) {
        zr_window window;
        ZERO_TRY(zr_window_create(comm, i % 2 ? ZR_WINDOW_SHARED : ZR_WINDOW_SYMMETRIC, 100 * i,
                                  i % 3, NULL, &window, error));
        zr_window_destroy(&window);
    }
    return ZERO_OK;
}

// More windows than there are entries, of groups and of a job that holds the memory of its groups;
// more groups than that, too.
static zero_status come_and_go(zero_comm *job, void *user, zero_error *error)
{
    grid grid;
    ZERO_TRY(grid_open(job, &grid, error));
    zero_status status = make_windows_in_turn(grid.data, 150, error);
    if (status == ZERO_OK)
        status = make_windows_in_turn(job, 150, error);
    if (status == ZERO_OK)
        status = make_windows_in_turn(grid.tensor, 150, error);
    grid_close(&grid);
    for (int i = 0; i < 100 && status == ZERO_OK; i++) {
        status = grid_open(job, &grid, error);
        grid_close(&grid);
    }
    return status;
}

static void windows_and_groups_come_and_go(void **state)
{
    rank_result results[GRID_RANKS];
    run_threads(GRID_RANKS, 60, come_and_go, NULL, results);
    expect_all_ok(results, GRID_RANKS);
}

static zero_status lack_memory(zero_comm *job, void *user, zero_error *error)
{
    zero_comm *group;
    if (job->rank == 2)
        zr_alloc_fail_at(*(int *)user);
    zero_status status = zr_comm_split(job, job->rank / 3, 0, "data", &group, error);
    zr_alloc_fail_at(0);
    zero_comm_destroy(group);
    return status;
}

// Its list of members, its communicator, its part of the window; rank 3 is a group of one.
static void a_split_for_which_one_rank_has_no_memory_fails_on_all(void **state)
{
    for (int nth = 1; nth <= 3; nth++) {
        rank_result results[GRID_RANKS];
        run_threads(GRID_RANKS, 60, lack_memory, &nth, results);
        assert_int_equal(results[2].status, ZERO_ERR_MEMORY);
        for (int r = 0; r < GRID_RANKS; r++)
            if (r != 2)
                expect_message(&results[r], ZERO_ERR_MEMORY, "rank 2: no memory for");
    }
}

// ---- failures ----

typedef zero_status (*grid_function)(grid *grid, zero_error *error);
typedef struct grid_case {
    grid_function run;
} grid_case;

static zero_status run_grid(zero_comm *job, void *user, zero_error *error)
{
    grid grid;
    ZERO_TRY(grid_open(job, &grid, error));
    zr_comm_progress(grid.data, 3); // the step is the job's
    zero_status status = ((const grid_case *)user)->run(&grid, error);
    if (status != ZERO_OK) // before others can miss this rank in a group
        zero_comm_abort(grid.tensor, error->message);
    grid_close(&grid);
    return status;
}

static zero_status give_up(grid *grid, zero_error *error)
{
    char byte = 0;
    if (grid->job->rank == 3)
        return zr_comm_send(grid->data, &byte, 1, 17, error);
    ZERO_TRY(zr_comm_barrier(grid->data, error));
    return zr_comm_barrier(grid->tensor, error);
}

static void a_failure_in_a_group_ends_the_job(void **state)
{
    const grid_case c = {give_up};
    rank_result results[GRID_RANKS];
    run_threads(GRID_RANKS, 60, run_grid, (void *)&c, results);
    for (int r = 0; r < 3; r++)
        expect_message(&results[r], ZERO_ERR_PEER,
                       " group of 2), step 3: rank 3 gave up at step 3: rank 3 of 4: cannot send "
                       "to rank 17 of the data group of 2");
    expect_message(&results[1], ZERO_ERR_PEER, "rank 1, barrier (data group of 2), step 3:");
    expect_message(&results[3], ZERO_ERR_INTERNAL, "cannot send to rank 17");
}

static zero_status leave_early(grid *grid, zero_error *error)
{
    if (grid->job->rank == 3) {
        zero_comm_destroy(grid->data);
        grid->data = NULL;
        return zr_comm_barrier(grid->job, error); // it is alive
    }
    if (grid->job->rank == 1)
        return zr_comm_barrier(grid->data, error);
    return zr_comm_barrier(grid->tensor, error);
}

static void a_rank_that_left_a_group_is_not_waited_for(void **state)
{
    const grid_case c = {leave_early};
    rank_result results[GRID_RANKS];
    run_threads(GRID_RANKS, 60, run_grid, (void *)&c, results);
    for (int r = 0; r < GRID_RANKS; r++)
        expect_message(&results[r], ZERO_ERR_PEER,
                       "rank 3 has destroyed its communicator of the data group and will not come");
}

static zero_status sum_over(zero_comm *comm, zero_error *error)
{
    static const char *const names[] = {"h.3"};
    zr_window window;
    zr_handle handle;
    float sum[16];
    const zr_sum_target to = {.data = sum, .dtype = ZERO_F32};
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SYMMETRIC, 2 * sizeof sum, 1, names, &window, error));
    if (comm->job->rank == 3)
        zr_sleep_seconds(2.2);
    zero_status status = ZERO_OK;
    if (comm->job->rank != 3)
        status = zr_comm_start(&window, ZERO_COMM_reduce_scatter, 0, 0, 16, ZERO_F32, &to, &handle,
                               error);
    if (comm->job->rank != 3 && status == ZERO_OK)
        status = zr_comm_wait(&handle, error);
    zr_window_destroy(&window);
    return status;
}

// Rank 0 waits for rank 1 in a tensor group, and that one for rank 3 in a data group.
static zero_status wait_in_a_chain(grid *grid, zero_error *error)
{
    if (grid->job->rank % 2)
        return sum_over(grid->data, error);
    return zr_comm_barrier(grid->tensor, error);
}

static zero_status wait_in_a_chain_of_comm_threads(grid *grid, zero_error *error)
{
    ZERO_TRY(zr_comm_overlap(grid->tensor, error));
    ZERO_TRY(zr_comm_overlap(grid->data, error));
    ZERO_TRY(zr_comm_overlap(grid->job, error));
    return wait_in_a_chain(grid, error);
}

static void a_timeout_names_the_end_of_the_chain(void **state)
{
    const grid_case cases[] = {{wait_in_a_chain}, {wait_in_a_chain_of_comm_threads}};
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        rank_result results[GRID_RANKS];
        run_threads(GRID_RANKS, 1.0, run_grid, (void *)&cases[i], results);
        for (int r = 0; r < 3; r++) {
            char words[160];
            snprintf(words, sizeof words,
                     "rank %d, %s group of 2), step 3: rank 3 (alive) made no progress for 1 s; it "
                     "was last seen at step 3",
                     r, r == 1 ? "reduce_scatter of h.3 (data" : "barrier (tensor");
            expect_message(&results[r], ZERO_ERR_TIMEOUT, words);
        }
    }
}

// As above, but rank 1's own thread is late, and never hears of the sum that its comm thread waits
// for.
static zero_status wait_for_the_comm_thread_of_another(grid *grid, zero_error *error)
{
    zero_comm *data = grid->data;
    zr_window window;
    zr_handle handle;
    float sum[16];
    const zr_sum_target to = {.data = sum, .dtype = ZERO_F32};
    if (grid->job->rank % 2 == 0)
        return zr_comm_barrier(grid->tensor, error);
    ZERO_TRY(zr_comm_overlap(data, error));
    ZERO_TRY(zr_window_create(data, ZR_WINDOW_SYMMETRIC, 2 * sizeof sum, 1, NULL, &window, error));
    zero_status status = ZERO_OK;
    if (grid->job->rank == 1) {
        status = zr_comm_start(&window, ZERO_COMM_reduce_scatter, 0, 0, 16, ZERO_F32, &to, &handle,
                               error);
        if (status == ZERO_OK)
            status = zr_comm_barrier(grid->job, error);
        if (handle.pending)
            zr_comm_wait(&handle, NULL); // it holds `sum`
    } else {
        zr_sleep_seconds(2.2);
    }
    zr_window_destroy(&window);
    return status;
}

static void a_comm_thread_that_fails_ends_the_waits_of_its_rank(void **state)
{
    const grid_case c = {wait_for_the_comm_thread_of_another};
    rank_result results[GRID_RANKS];
    run_threads(GRID_RANKS, 1.0, run_grid, (void *)&c, results);
    for (int r = 0; r < 3; r++)
        expect_message(&results[r], ZERO_ERR_TIMEOUT, "rank 3 (alive) made no progress for 1 s");
}

static zero_status run_another_operation(grid *grid, zero_error *error)
{
    double value = 1;
    if (grid->job->rank == 3)
        return zr_comm_all_reduce_small(grid->data, &value, 1, ZERO_F64, ZR_SUM, error);
    return zr_comm_barrier(grid->data, error);
}

static void different_operations_are_told_by_ranks_of_the_job(void **state)
{
    const grid_case c = {run_another_operation};
    rank_result results[GRID_RANKS];
    run_threads(GRID_RANKS, 60, run_grid, (void *)&c, results);
    const char *told = results[1].error.message;
    if (!strstr(told, "rank 1 runs another operation or another size than rank 3") &&
        !strstr(told, "rank 3 runs another operation or another size than rank 1"))
        fail_msg("%s", told);
}

static zero_status fail_together(grid *grid, zero_error *error)
{
    zero_status mine =
        grid->job->rank == 3 ? zr_fail(error, ZERO_ERR_IO, "the disk is full") : ZERO_OK;
    return zr_comm_agree(grid->data, mine, error);
}

static void ranks_of_a_group_agree(void **state)
{
    const grid_case c = {fail_together};
    rank_result results[GRID_RANKS];
    run_threads(GRID_RANKS, 60, run_grid, (void *)&c, results);
    expect_message(&results[1], ZERO_ERR_IO, "rank 3: the disk is full");
    expect_message(&results[3], ZERO_ERR_IO, "the disk is full");
}

static zero_status ask_differently(grid *grid, zero_error *error)
{
    zr_window window;
    zero_comm *data = grid->data;
    int64_t bytes = grid->job->rank == 3 ? (int64_t)1 << 45 : 4096;
    if (grid->job->rank % 2 == 0)
        return ZERO_OK;
    return zr_window_create(data, ZR_WINDOW_SYMMETRIC, bytes, 1, NULL, &window, error);
}

static void different_windows_are_told(void **state)
{
    const grid_case c = {ask_differently};
    rank_result results[GRID_RANKS];
    run_threads(GRID_RANKS, 60, run_grid, (void *)&c, results);
    for (int r = 1; r < GRID_RANKS; r += 2)
        expect_message(&results[r], ZERO_ERR_INTERNAL, "the ranks ask for different windows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_over_groups),
        cmocka_unit_test(three_groups_at_once),
        cmocka_unit_test(a_group_of_one_is_like_self),
        cmocka_unit_test(self_is_split_too),
        cmocka_unit_test(negative_colours_are_refused),
        cmocka_unit_test(a_group_is_not_split),
        cmocka_unit_test(too_many_groups_are_refused),
        cmocka_unit_test(windows_and_groups_come_and_go),
        cmocka_unit_test(a_split_for_which_one_rank_has_no_memory_fails_on_all),
        cmocka_unit_test(a_failure_in_a_group_ends_the_job),
        cmocka_unit_test(a_rank_that_left_a_group_is_not_waited_for),
        cmocka_unit_test(a_timeout_names_the_end_of_the_chain),
        cmocka_unit_test(a_comm_thread_that_fails_ends_the_waits_of_its_rank),
        cmocka_unit_test(different_operations_are_told_by_ranks_of_the_job),
        cmocka_unit_test(ranks_of_a_group_agree),
        cmocka_unit_test(different_windows_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
