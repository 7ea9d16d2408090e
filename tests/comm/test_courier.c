// The courier: operations that are carried out on a thread of their own are the same bits, and keep the deadline.
#include "exercise.h"

#include "base/clock.h"

#include <string.h>
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

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
    assert_non_null(comm->courier);
    return run_exercise(comm, user, error);
}

// A thread that carries operations out meanwhile changes no bit.
static void a_courier_gives_the_same_bits(void **state)
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

static zero_status leave_a_courier_waiting(zero_comm *comm, void *user, zero_error *error)
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
        status = zr_comm_start(&window, ZERO_COMM_reduce_scatter, 0, 0, 16, ZERO_F32, &to, &handle, error);
        status = status ? status : zr_comm_wait(&handle, error);
    } else {
        zr_sleep_seconds(0.5);
    }
    zr_window_destroy(&window);
    return status;
}

static void a_courier_keeps_the_deadline(void **state)
{
    rank_result results[2];
    run_threads(2, 0.1, leave_a_courier_waiting, NULL, results);
    expect_message(&results[0], ZERO_ERR_TIMEOUT, "rank 1");
    expect_message(&results[0], ZERO_ERR_TIMEOUT, "reduce_scatter of g");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_courier_gives_the_same_bits),
        cmocka_unit_test(a_courier_keeps_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
