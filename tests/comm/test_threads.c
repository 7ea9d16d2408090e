// Ranks as threads: every operation, the protocol of versions, and every way in which a wait can
// fail.
#include "comm/window.h"
#include "exercise.h"

#include "base/alloc.h"
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

static void every_operation_on_1_to_8_threads(void **state)
{
    static const int counts[] = {1, 2, 3, 4, 8};
    for (int i = 0; i < ZR_COUNT(counts); i++) {
        rank_result results[8];
        uint64_t digests[8];
        run_threads(counts[i], 30, run_exercise, digests, results);
        expect_all_ok(results, counts[i]);
        for (int r = 1; r < counts[i]; r++)
            assert_int_equal(digests[r], digests[0]);
    }
}

static void self_and_one_thread_agree(void **state)
{
    zero_comm *self;
    zero_error error;
    uint64_t alone, threaded;
    rank_result result;
    assert_int_equal(zero_comm_self(&self, &error), ZERO_OK);
    assert_string_equal(zero_comm_name(self), "self");
    if (exercise(self, &alone, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    run_threads(1, 30, run_exercise, &threaded, &result);
    expect_all_ok(&result, 1);
    assert_int_equal(alone, threaded);
    zero_comm_destroy(self);
}

// One slot, rewritten by its owners as soon as all readers have released it: a reader that saw
// another version's values would report them.
#define VERSIONS 200
#define WORDS 64

static zero_status read_versions(zero_comm *comm, void *user, zero_error *error)
{
    static const char *const names[] = {"piece"};
    zr_window window;
    const zr_version_ops *versions = comm->versions;
    zero_status status = ZERO_OK;
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SHARED, comm->size * WORDS * (int64_t)sizeof(float),
                              1, names, &window, error));
    float *data = (float *)window.mine;
    for (uint64_t v = 1; v <= VERSIONS && status == ZERO_OK; v++) {
        status = versions->await_released(&window, 0, v - 1, error);
        for (int i = 0; i < WORDS; i++)
            data[comm->rank * WORDS + i] = (float)v;
        status = status ? status : versions->publish(&window, 0, v, error);
        status = status ? status : versions->await_published(&window, 0, v, error);
        for (int i = 0; i < comm->size * WORDS && status == ZERO_OK; i++)
            if (data[i] != (float)v)
                status = zr_fail(error, ZERO_ERR_DATA, "rank %d reads %g of version %d", comm->rank,
                                 data[i], (int)v);
        status = status ? status : versions->release(&window, 0, v, error);
    }
    zr_window_destroy(&window);
    return status;
}

static void versions_are_read_whole_and_overwritten_late(void **state)
{
    rank_result results[4];
    run_threads(4, 30, read_versions, NULL, results);
    expect_all_ok(results, 4);
}

static zero_status skip_a_release(zero_comm *comm, void *user, zero_error *error)
{
    static const char *const names[] = {"wte", "h.0"};
    zr_window window;
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SHARED, 4096, 2, names, &window, error));
    zr_comm_progress(comm, 41);
    zero_status status = comm->versions->publish(&window, 1, 1, error);
    status = status ? status : comm->versions->await_published(&window, 1, 1, error);
    if (status == ZERO_OK && comm->rank != 2)
        status = comm->versions->release(&window, 1, 1, error);
    status = status ? status : comm->versions->await_released(&window, 1, 1, error);
    zr_window_destroy(&window);
    return status;
}

static void a_skipped_release_times_out_and_names_rank_and_slot(void **state)
{
    rank_result results[3];
    run_threads(3, 1.0, skip_a_release, NULL, results);
    for (int r = 0; r < 3; r++) {
        expect_message(&results[r], ZERO_ERR_TIMEOUT,
                       "waiting for release of h.0, step 41: rank 2");
        expect_message(&results[r], ZERO_ERR_TIMEOUT, "last seen at step 41");
    }
}

// Rank 1 drains late; rank 0 may overwrite its operand only then.
static zero_status overwrite_after_quiesce(zero_comm *comm, void *user, zero_error *error)
{
    zr_window window;
    zr_handle handle;
    float sum[16];
    const zr_sum_target to = {.data = sum, .dtype = ZERO_F32};
    static const char *const names[] = {"g"};
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SYMMETRIC, 2 * sizeof sum, 1, names, &window, error));
    float *data = (float *)window.mine;
    zero_status status = ZERO_OK;
    for (int round = 1; round <= 20 && status == ZERO_OK; round++) {
        for (int i = 0; i < 32; i++)
            data[i] = (float)round;
        status = zr_comm_start(&window, ZERO_COMM_reduce_scatter, 0, 0, 16, ZERO_F32, &to, &handle,
                               error);
        if (comm->rank == 1)
            zr_sleep_seconds(0.002);
        status = status ? status : zr_comm_wait(&handle, error);
        for (int i = 0; i < 16 && status == ZERO_OK; i++)
            if (sum[i] != 2 * (float)round)
                status = zr_fail(error, ZERO_ERR_DATA, "round %d: %g", round, sum[i]);
        status = status ? status : zr_comm_quiesce(&window, 0, error);
    }
    zr_window_destroy(&window);
    return status;
}

static void quiesce_waits_for_the_slowest_reader(void **state)
{
    rank_result results[2];
    run_threads(2, 30, overwrite_after_quiesce, NULL, results);
    expect_all_ok(results, 2);
}

static zero_status give_up(zero_comm *comm, void *user, zero_error *error)
{
    zr_comm_progress(comm, 12);
    if (comm->rank == 1)
        return zr_fail(error, ZERO_ERR_IO, "disk full");
    return zr_comm_barrier(comm, error);
}

static void an_abort_ends_the_waits_of_all_others(void **state)
{
    rank_result results[4];
    run_threads(4, 60, give_up, NULL, results);
    for (int r = 0; r < 4; r++)
        if (r != 1)
            expect_message(&results[r], ZERO_ERR_PEER,
                           "barrier, step 12: rank 1 gave up at step 12: disk full");
}

static zero_status abort_in_turn(zero_comm *comm, void *user, zero_error *error)
{
    char byte;
    if (comm->rank == 0)
        zero_comm_abort(comm, "first");
    // that nobody sends: ends with the first abort
    zr_comm_recv(comm, &byte, 1, (comm->rank + 1) % comm->size, error);
    zero_comm_abort(comm, "later");
    return zr_comm_recv(comm, &byte, 1, (comm->rank + 1) % comm->size, error);
}

static void the_first_abort_is_the_one_told(void **state)
{
    rank_result results[3];
    run_threads(3, 60, abort_in_turn, NULL, results);
    for (int r = 0; r < 3; r++)
        expect_message(&results[r], ZERO_ERR_PEER, "rank 0 gave up at step 0: first");
}

static zero_status fail_in_an_operation(zero_comm *comm, void *user, zero_error *error)
{
    char bytes[8] = {0};
    // no such rank, and no error object
    if (comm->rank == 2)
        return zr_comm_send(comm, bytes, sizeof bytes, 17, NULL);
    return zr_comm_recv(comm, bytes, sizeof bytes, 2, error);
}

static void a_failed_operation_leaves_nobody_waiting(void **state)
{
    rank_result results[3];
    run_threads(3, 60, fail_in_an_operation, NULL, results);
    assert_int_equal(results[2].status, ZERO_ERR_INTERNAL);
    expect_message(&results[0], ZERO_ERR_PEER, "cannot send to rank 17");
    expect_message(&results[1], ZERO_ERR_PEER, "cannot send to rank 17");
}

static zero_status run_different_operations(zero_comm *comm, void *user, zero_error *error)
{
    double value = 1;
    return comm->rank == 0 ? zr_comm_barrier(comm, error)
                           : zr_comm_all_reduce_small(comm, &value, 1, ZERO_F64, ZR_SUM, error);
}

static void different_operations_are_told(void **state)
{
    rank_result results[2];
    run_threads(2, 60, run_different_operations, NULL, results);
    int told = 0;
    for (int r = 0; r < 2; r++)
        told += results[r].status == ZERO_ERR_INTERNAL &&
                strstr(results[r].error.message, "runs another operation");
    assert_true(told >= 1);
}

static zero_status reduce_differently(zero_comm *comm, void *user, zero_error *error)
{
    double value = 1;
    return zr_comm_all_reduce_small(comm, &value, 1, ZERO_F64, comm->rank ? ZR_SUM : ZR_MAX, error);
}

static void different_reductions_are_told(void **state)
{
    rank_result results[2];
    run_threads(2, 60, reduce_differently, NULL, results);
    int told = 0;
    for (int r = 0; r < 2; r++)
        told += results[r].status == ZERO_ERR_INTERNAL &&
                strstr(results[r].error.message, "runs another operation");
    assert_true(told >= 1);
}

typedef struct operand {
    int64_t offset;
    zero_dtype dtype;
} operand;

static zero_status seal_different_operands(zero_comm *comm, void *user, zero_error *error)
{
    zr_window window;
    zr_handle handle;
    float sum[16];
    const zr_sum_target to = {.data = sum, .dtype = ZERO_F32};
    const operand *own = &((const operand *)user)[comm->rank];
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SYMMETRIC, 4096, 1, NULL, &window, error));
    zero_status status = zr_comm_start(&window, ZERO_COMM_reduce_scatter, 0, own->offset, 16,
                                       own->dtype, &to, &handle, error);
    status = status ? status : zr_comm_wait(&handle, error);
    zr_window_destroy(&window);
    return status;
}

static void different_operands_are_told(void **state)
{
    operand elsewhere[2] = {{0, ZERO_F32}, {64, ZERO_F32}},
            otherwise[2] = {{0, ZERO_BF16}, {0, ZERO_F16}};
    operand *cases[] = {elsewhere, otherwise};
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        rank_result results[2];
        run_threads(2, 60, seal_different_operands, cases[i], results);
        for (int r = 0; r < 2; r++)
            expect_message(&results[r], ZERO_ERR_INTERNAL, "runs another operation");
    }
}

static zero_status be_late(zero_comm *comm, void *user, zero_error *error)
{
    for (int i = 0; comm->rank == 1 && i < 17; i++) {
        zr_sleep_seconds(0.1);
        zr_comm_progress(comm, i);
    }
    return zr_comm_barrier(comm, error);
}

static void signs_of_life_put_off_the_deadline(void **state)
{
    rank_result results[3];
    run_threads(3, 1.0, be_late, NULL, results);
    expect_all_ok(results, 3);
}

// Rank 2 waits for rank 1, which waits for rank 0, which sleeps: all must name rank 0.
static zero_status wait_in_a_chain(zero_comm *comm, void *user, zero_error *error)
{
    char byte = 0;
    zr_comm_progress(comm, 3);
    if (comm->rank == 0) {
        zr_sleep_seconds(2.2);
        return ZERO_OK;
    }
    ZERO_TRY(zr_comm_recv(comm, &byte, 1, comm->rank - 1, error));
    return zr_comm_send(comm, &byte, 1, 2, error);
}

static void a_timeout_names_the_end_of_the_chain(void **state)
{
    rank_result results[3];
    run_threads(3, 1.0, wait_in_a_chain, NULL, results);
    expect_message(&results[1], ZERO_ERR_TIMEOUT,
                   "rank 0 (alive) made no progress for 1 s; it was last seen at step 3");
    expect_message(&results[2], ZERO_ERR_TIMEOUT,
                   "rank 2, recv, step 3: rank 0 (alive) made no progress");
}

static void communicators_without_memory_are_refused(void **state)
{
    zero_comm *comms[4];
    zero_error error;
    for (int n = 1; n <= 4; n++) {
        zr_alloc_fail_at(n);
        assert_int_equal(zero_comm_threads(4, NULL, comms, &error), ZERO_ERR_MEMORY);
    }
    zr_alloc_fail_at(1);
    assert_int_equal(zero_comm_self(comms, &error), ZERO_ERR_MEMORY);
    zr_alloc_fail_at(0);
}

static zero_status count_traffic(zero_comm *comm, void *user, zero_error *error)
{
    zr_window window;
    zr_handle handle;
    float sum[2048];
    const zr_sum_target to = {.data = sum, .dtype = ZERO_F32};
    zr_comm_hash_reset(comm);
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SYMMETRIC, 3 * sizeof sum, 1, NULL, &window, error));
    zero_status status =
        zr_comm_start(&window, ZERO_COMM_reduce_scatter, 0, 0, 2048, ZERO_F32, &to, &handle, error);
    status = status ? status : zr_comm_wait(&handle, error);
    status = status ? status : zr_comm_quiesce(&window, 0, error);
    status = status ? status
                    : zr_comm_start(&window, ZERO_COMM_reduce_scatter, 0, 0, 2048, ZERO_BF16, &to,
                                    &handle, error);
    status = status ? status : zr_comm_wait(&handle, error);
    status = status ? status : zr_comm_quiesce(&window, 0, error);
    status = status ? status : zr_comm_all_reduce(&window, 0, 0, 1024, error);
    zr_comm_count_mapped(comm, 0, 2048);
    zr_window_destroy(&window);
    ZERO_TRY(status);
    assert(comm->traffic.calls[ZERO_COMM_reduce_scatter] == 2);
    assert(comm->traffic.bytes[ZERO_COMM_reduce_scatter] == 2 * 8192 + 2 * 4096);
    assert(comm->traffic.calls[ZERO_COMM_all_reduce] == 1 &&
           comm->traffic.bytes[ZERO_COMM_all_reduce] == 4 * 4096);
    assert(comm->traffic.calls[ZERO_COMM_all_gather] == 1 &&
           comm->traffic.bytes[ZERO_COMM_all_gather] == 0);
    ((uint64_t *)user)[comm->rank] = comm->message_hash;
    return comm->message_count == 4
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_DATA, "%d messages", (int)comm->message_count);
}

static void traffic_and_messages_are_counted(void **state)
{
    rank_result results[3];
    uint64_t hashes[3];
    run_threads(3, 60, count_traffic, hashes, results);
    expect_all_ok(results, 3);
    assert_int_equal(hashes[0], hashes[1]);
    assert_int_equal(hashes[0], hashes[2]);
}

typedef struct refused_sum {
    zero_dtype of, to;
    zero_comm_op op;
    const char *words;
} refused_sum;

static zero_status ask_for_a_type(zero_comm *comm, void *user, zero_error *error)
{
    const refused_sum *asked = user;
    zr_window window;
    zr_handle handle;
    double sum[16];
    const zr_sum_target to = {.data = sum, .dtype = asked->to};
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SYMMETRIC, 4096, 1, NULL, &window, error));
    zero_status status =
        zr_comm_start(&window, asked->op, 0, 0, 16, asked->of, &to, &handle, error);
    if (status == ZERO_OK)
        status = zr_comm_wait(&handle, error);
    zr_window_destroy(&window);
    return status;
}

static void other_types_are_refused(void **state)
{
    refused_sum asked[] = {
        {ZERO_I32, ZERO_F32, ZERO_COMM_reduce_scatter, "operands are of f32, bf16 or f16"},
        {ZERO_F64, ZERO_F32, ZERO_COMM_all_gather, "operands are of f32, bf16 or f16"},
        {(zero_dtype)99, ZERO_F32, ZERO_COMM_reduce_scatter, "operands are of f32, bf16 or f16"},
        {ZERO_BF16, ZERO_F64, ZERO_COMM_reduce_scatter, "sums are rounded to f32, bf16 or f16"},
    };
    for (int i = 0; i < ZR_COUNT(asked); i++) {
        rank_result result;
        run_threads(1, 60, ask_for_a_type, &asked[i], &result);
        expect_message(&result, ZERO_ERR_INTERNAL, asked[i].words);
    }
}

static void wrong_arguments_are_refused(void **state)
{
    zero_error error;
    zero_comm *comms[1];
    zero_comm_options old = {.struct_size = 4}, odd = {.struct_size = sizeof odd, .kind = "nccl"};
    assert_int_equal(zero_comm_threads(0, NULL, comms, &error), ZERO_ERR_USAGE);
    assert_int_equal(zero_comm_threads(1025, NULL, comms, NULL), ZERO_ERR_USAGE);
    assert_int_equal(zero_comm_threads(1, &old, comms, &error), ZERO_ERR_USAGE);
    assert_int_equal(zero_comm_open(&odd, comms, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "nccl"));
    zero_comm_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_on_1_to_8_threads),
        cmocka_unit_test(self_and_one_thread_agree),
        cmocka_unit_test(versions_are_read_whole_and_overwritten_late),
        cmocka_unit_test(a_skipped_release_times_out_and_names_rank_and_slot),
        cmocka_unit_test(quiesce_waits_for_the_slowest_reader),
        cmocka_unit_test(an_abort_ends_the_waits_of_all_others),
        cmocka_unit_test(the_first_abort_is_the_one_told),
        cmocka_unit_test(a_failed_operation_leaves_nobody_waiting),
        cmocka_unit_test(different_operations_are_told),
        cmocka_unit_test(different_reductions_are_told),
        cmocka_unit_test(different_operands_are_told),
        cmocka_unit_test(signs_of_life_put_off_the_deadline),
        cmocka_unit_test(a_timeout_names_the_end_of_the_chain),
        cmocka_unit_test(communicators_without_memory_are_refused),
        cmocka_unit_test(traffic_and_messages_are_counted),
        cmocka_unit_test(other_types_are_refused),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
