// How ranks fail together: every rank gets the failure of the lowest rank that failed.
#include "exercise.h"

#include "comm/agreement.h"

#include <stdio.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static zero_status fail_here(zero_comm *comm, void *user, zero_error *error)
{
    const bool *fails = user;
    zero_status mine = fails[comm->rank]
                           ? zr_fail(error, ZERO_ERR_IO, "the disk of %d is full", comm->rank)
                           : ZERO_OK;
    return zr_comm_agree(comm, mine, error);
}

static void everyone_has_the_failure_of_the_lowest(void **state)
{
    for (int first = 0; first < 3; first++) {
        rank_result results[4];
        bool fails[4] = {0};
        char own[64], others[96];
        fails[first] = fails[3] = true;
        snprintf(own, sizeof own, "the disk of %d is full", first);
        snprintf(others, sizeof others, "rank %d: %s", first, own);
        run_threads(4, 30, fail_here, fails, results);
        for (int r = 0; r < 4; r++) {
            assert_int_equal(results[r].status, ZERO_ERR_IO);
            assert_string_equal(results[r].error.message, fails[r] ? own : others);
        }
    }
}

static void who_does_not_fail_goes_on(void **state)
{
    rank_result results[4];
    const bool fails[4] = {0};
    run_threads(4, 30, fail_here, (void *)fails, results);
    expect_all_ok(results, 4);
    run_threads(1, 30, fail_here, (void *)fails, results);
    expect_all_ok(results, 1);
    run_threads(1, 30, fail_here, (void *)(const bool[]){true}, results);
    assert_string_equal(results[0].error.message, "the disk of 0 is full");
}

static zero_status fail_where_one_is_gone(zero_comm *comm, void *user, zero_error *error)
{
    if (comm->rank == 2) {
        zero_comm_abort(comm, "rank 2 has had enough");
        return ZERO_OK;
    }
    zero_status mine =
        comm->rank == 0 ? zr_fail(error, ZERO_ERR_IO, "the disk of 0 is full") : ZERO_OK;
    return zr_comm_agree(comm, mine, error);
}

// A rank that failed reports its own failure, not that it could not reach the others.
static void a_failure_outlives_the_communicator(void **state)
{
    rank_result results[3];
    run_threads(3, 30, fail_where_one_is_gone, NULL, results);
    expect_message(&results[0], ZERO_ERR_IO, "the disk of 0 is full");
    expect_message(&results[1], ZERO_ERR_PEER, "rank 2 has had enough");
}

// A caller that wants no message has the status all the same.
static zero_status fail_without_a_word(zero_comm *comm, void *user, zero_error *error)
{
    return zr_comm_agree(comm, comm->rank == 1 ? ZERO_ERR_DATA : ZERO_OK, NULL) == ZERO_ERR_DATA
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_INTERNAL, "another status");
}

static zero_status find_the_largest(zero_comm *comm, void *user, zero_error *error)
{
    int64_t value = 10 * (comm->rank == 1) - comm->rank;
    ZERO_TRY(zr_comm_agree_on_largest(comm, &value, error));
    return value == 9
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_INTERNAL, "%lld is not the largest", (long long)value);
}

static void statuses_and_values_are_shared(void **state)
{
    rank_result results[3];
    run_threads(3, 30, fail_without_a_word, NULL, results);
    expect_all_ok(results, 3);
    run_threads(3, 30, find_the_largest, NULL, results);
    expect_all_ok(results, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everyone_has_the_failure_of_the_lowest),
        cmocka_unit_test(who_does_not_fail_goes_on),
        cmocka_unit_test(a_failure_outlives_the_communicator),
        cmocka_unit_test(statuses_and_values_are_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
