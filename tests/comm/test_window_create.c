// Windows that come and go, and those that cannot be made: all ranks fail, for one reason.
#include "exercise.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static zero_status ask_for_too_much(zero_comm *comm, void *user, zero_error *error)
{
    zr_window window;
    zero_status status =
        zr_window_create(comm, ZR_WINDOW_SYMMETRIC, *(int64_t *)user, 1, NULL, &window, error);
    assert(window.comm == NULL);
    zr_window_destroy(&window);
    return status;
}

static void a_window_that_cannot_be_reserved_fails_on_all_ranks(void **state)
{
    static int64_t sizes[] = {(int64_t)1 << 45, INT64_MAX};
    for (int i = 0; i < ZR_COUNT(sizes); i++) {
        rank_result results[3];
        run_threads(3, 60, ask_for_too_much, &sizes[i], results);
        for (int r = 0; r < 3; r++)
            expect_message(&results[r], ZERO_ERR_MEMORY, "rank 0: ");
    }
}

static zero_status ask_differently(zero_comm *comm, void *user, zero_error *error)
{
    zr_window window;
    bool of_kinds = *(const bool *)user;
    return zr_window_create(comm, of_kinds && comm->rank ? ZR_WINDOW_SHARED : ZR_WINDOW_SYMMETRIC,
                            of_kinds ? 4096 : 4096 * (1 + comm->rank), 1, NULL, &window, error);
}

static zero_status lack_memory(zero_comm *comm, void *user, zero_error *error)
{
    zr_window window;
    if (comm->rank == 2)
        zr_alloc_fail_at(1);
    zero_status status = zr_window_create(comm, ZR_WINDOW_SHARED, 4096, 1, NULL, &window, error);
    zr_alloc_fail_at(0);
    return status;
}

static void a_window_for_which_one_rank_has_no_memory_fails_on_all(void **state)
{
    rank_result results[3];
    run_threads(3, 60, lack_memory, NULL, results);
    for (int r = 0; r < 3; r++)
        expect_message(&results[r], ZERO_ERR_MEMORY, "rank 2: no memory for");
}

static void different_windows_are_told(void **state)
{
    static const char *const words[] = {"bytes 4096 to 8192",
                                        "the ranks ask for different windows"};
    for (int kinds = 0; kinds < 2; kinds++) {
        bool of_kinds = kinds;
        rank_result results[2];
        run_threads(2, 60, ask_differently, &of_kinds, results);
        for (int r = 0; r < 2; r++)
            expect_message(&results[r], ZERO_ERR_INTERNAL, words[kinds]);
    }
}

static zero_status make_many_windows(zero_comm *comm, void *user, zero_error *error)
{
    for (int i = 0; i < 150; i++) {
        zr_window window;
        ZERO_TRY(zr_window_create(comm, i % 2 ? ZR_WINDOW_SHARED : ZR_WINDOW_SYMMETRIC, 100 * i,
                                  i % 3, NULL, &window, error));
        zr_window_destroy(&window);
    }
    return ZERO_OK;
}

static void windows_come_and_go(void **state)
{
    rank_result results[3];
    run_threads(3, 60, make_many_windows, NULL, results);
    expect_all_ok(results, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_that_cannot_be_reserved_fails_on_all_ranks),
        cmocka_unit_test(a_window_for_which_one_rank_has_no_memory_fails_on_all),
        cmocka_unit_test(different_windows_are_told),
        cmocka_unit_test(windows_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
