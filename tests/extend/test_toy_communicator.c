// A toy communicator: threads that count. It takes over opened communicators and keeps their
// operations, counts what is begun and what is ended, and exchanges the same.
#include "comm/comm_ops.h"
#include "exercise.h"
#include "toy.h"

#include <stdatomic.h>

static atomic_int begun[ZERO_COMM_OP_COUNT], ended[ZERO_COMM_OP_COUNT]; // by all ranks
static const zr_comm_ops *threads;
static zr_comm_ops counting;

static zero_status start(zr_handle *handle, zero_error *error)
{
    begun[handle->op]++;
    return threads->start(handle, error);
}

// The two waits may run on the comm thread's thread.
static zero_status gather(zr_handle *handle, zero_error *error)
{
    ended[handle->op]++;
    return threads->all_gather_wait(handle, error);
}

static zero_status reduce(zr_handle *handle, const zr_sum_target *to, zero_error *error)
{
    ended[handle->op]++;
    return threads->reduce_scatter_wait(handle, to, error);
}

static void take_over(zero_comm *comm)
{
    threads = comm->ops;
    counting = *threads;
    counting.name = "counting threads";
    counting.start = start;
    counting.all_gather_wait = gather;
    counting.reduce_scatter_wait = reduce;
    comm->ops = &counting;
}

static bool chosen;

// Here the communicator is.
typedef zero_status open_threads(int, const zero_comm_options *, zero_comm **, zero_error *);
open_threads __real_zero_comm_threads, __wrap_zero_comm_threads;
zero_status __wrap_zero_comm_threads(int ranks, const zero_comm_options *options, zero_comm **comms,
                                     zero_error *error)
{
    ZERO_TRY(__real_zero_comm_threads(ranks, options, comms, error));
    for (int r = 0; r < ranks && chosen; r++)
        take_over(comms[r]);
    return ZERO_OK;
}

static zero_status run_exercise(zero_comm *comm, void *user, zero_error *error)
{
    uint64_t digest; // compared with the oracle's sums
    return exercise(comm, &digest, error);
}

static void every_operation_is_right(void **state)
{
    rank_result results[3];
    chosen = true;
    run_threads(3, 30, run_exercise, NULL, results);
    expect_all_ok(results, 3);
}

// Every rank begins what rank 0 does. At stage 3 flat parameters that are mapped are messages of no
// bytes.
static void it_trains_to_the_same_bits(void **state)
{
    harness_case c = {.ranks = 2, .accumulation = 2, .batch = 2, .overlap = true};
    for (c.stage = 0; c.stage <= 3; c.stage++) {
        memset(begun, 0, sizeof begun);
        memset(ended, 0, sizeof ended);
        const zero_traffic *told = &toy_trains_alike(&c, &chosen)->traffic;
        int64_t sums = told->calls[ZERO_COMM_reduce_scatter];
        int64_t gathers = c.stage < 3 ? told->calls[ZERO_COMM_all_gather] : 0;
        assert_true(sums > 0);
        assert_int_equal(begun[ZERO_COMM_reduce_scatter], c.ranks * sums);
        assert_int_equal(begun[ZERO_COMM_all_gather], c.ranks * gathers);
        assert_memory_equal(begun, ended, sizeof begun);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_operation_is_right),
                                       cmocka_unit_test(it_trains_to_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
