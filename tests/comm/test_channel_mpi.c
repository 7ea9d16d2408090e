// Channels under mpirun, where each end has slots of its own. This program is also its own rank.
#define _GNU_SOURCE
#include "channel_ring.h"
#include "comm_grid.h"
#include "mpirun.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

// ---- a rank ----

static zero_status run_channels(zero_comm *comm, zero_error *error)
{
    ZERO_TRY(exchange_in_ring(comm, 0, error));
    for (int comm_threads = 0; comm_threads < 2; comm_threads++)
        ZERO_TRY(exchange_in_rings(comm, comm_threads, (uint64_t)comm_threads, error));
    return ZERO_OK;
}

static zero_status end_badly(zero_comm *comm, zero_error *error)
{
    zr_sleep_seconds(0.5); // until the others wait
    return zr_fail(error, ZERO_ERR_IO, "disk full");
}

static zero_status give_up_in_a_chain(zero_comm *comm, zero_error *error)
{
    return break_chain(comm, end_badly, error);
}

static zero_status stop_itself(zero_comm *comm, zero_error *error)
{
    raise(SIGSTOP);
    return ZERO_OK;
}

static zero_status be_stopped_in_a_chain(zero_comm *comm, zero_error *error)
{
    return break_chain(comm, stop_itself, error);
}

static const zr_channel_shape one_way = {
    .from = 0, .to = 1, .slots = 2, .bytes = 256, .name = "h.5 to h.6"};

static zero_status send_and_count(zr_channels *channels, zero_error *error)
{
    const zero_traffic *traffic = &channels->comm->traffic;
    for (int i = 0; i < 20; i++) {
        ZERO_TRY(zr_channel_take(channels, 0, i % 2, error));
        ZERO_TRY(zr_channel_send(channels, 0, i % 2, 100, error));
    }
    return traffic->calls[ZERO_COMM_send] == 20 && traffic->bytes[ZERO_COMM_send] == 20 * 100
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_DATA, "the sender counts otherwise");
}

static zero_status receive_and_count(zr_channels *channels, zero_error *error)
{
    const zero_traffic *traffic = &channels->comm->traffic;
    for (int i = 0; i < 20; i++) {
        ZERO_TRY(zr_channel_receive(channels, 0, i % 2, 100, error));
        ZERO_TRY(zr_channel_release(channels, 0, i % 2, error));
    }
    return traffic->calls[ZERO_COMM_recv] == 20 && traffic->bytes[ZERO_COMM_recv] == 20 * 100
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_DATA, "the receiver counts otherwise");
}

// The receiver ends while the next messages may still come; then there are other channels.
static zero_status count_in_channels(zero_comm *comm, zero_error *error)
{
    zr_channels channels;
    ZERO_TRY(zr_channels_create(comm, &one_way, 1, &channels, error));
    zero_status status =
        comm->rank == 0 ? send_and_count(&channels, error) : receive_and_count(&channels, error);
    zr_channels_destroy(&channels);
    return status ? status : exchange_in_ring(comm, 1, error);
}

static zero_status expect_more(zero_comm *comm, zero_error *error)
{
    zr_channels channels;
    ZERO_TRY(zr_channels_create(comm, &one_way, 1, &channels, error));
    zr_comm_progress(comm, 5);
    if (comm->rank == 1)
        return zr_channel_receive(&channels, 0, 1, 104, error);
    ZERO_TRY(zr_channel_send(&channels, 0, 1, 100, error));
    return zr_comm_barrier(comm, error);
}

// Rank 1 receives one message and releases nothing. One more may leave meanwhile.
static zero_status run_ahead(zero_comm *comm, zero_error *error)
{
    zr_channel_shape shape = one_way;
    zr_channels channels;
    shape.slots = 1;
    ZERO_TRY(zr_channels_create(comm, &shape, 1, &channels, error));
    for (int i = 0; comm->rank == 0; i++) {
        ZERO_TRY(zr_channel_take(&channels, 0, 0, error));
        ZERO_TRY(zr_channel_send(&channels, 0, 0, 8, error));
        printf("[sent %d]\n", i);
    }
    ZERO_TRY(zr_channel_receive(&channels, 0, 0, 8, error));
    zr_sleep_seconds(0.5);
    return zr_fail(error, ZERO_ERR_IO, "disk full");
}

// The sender computes for 2 s, with signs of life, while its message, which is too long to be
// buffered, has to go.
static zero_status compute_and_send(zero_comm *comm, zero_error *error)
{
    zr_channel_shape shape = one_way;
    zr_channels channels;
    shape.bytes = 4 << 20;
    ZERO_TRY(zr_channels_create(comm, &shape, 1, &channels, error));
    double begin = zr_clock_seconds();
    if (comm->rank == 0)
        ZERO_TRY(zr_channel_send(&channels, 0, 0, shape.bytes, error));
    for (int i = 0; comm->rank == 0 && i < 200; i++) {
        zr_sleep_seconds(0.01);
        zr_comm_progress(comm, i);
    }
    if (comm->rank == 1)
        ZERO_TRY(zr_channel_receive(&channels, 0, 0, shape.bytes, error));
    double seconds = zr_clock_seconds() - begin;
    zr_channels_destroy(&channels);
    return comm->rank == 0 || seconds < 1.8
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_TIMEOUT, "the message came after %g s", seconds);
}

static zero_status make_too_large(zero_comm *comm, zero_error *error)
{
    zr_channel_shape shape = one_way;
    zr_channels channels;
    shape.bytes = (int64_t)1 << 31;
    return zr_channels_create(comm, &shape, 1, &channels, error);
}

static zero_status make_too_many(zero_comm *comm, zero_error *error)
{
    zr_channel_shape shapes[] = {one_way, one_way};
    zr_channels channels;
    shapes[1].slots = INT32_MAX;
    return zr_channels_create(comm, shapes, 2, &channels, error);
}

static const mpirun_scenario scenarios[] = {
    {.name = "channels", .run = run_channels},
    {.name = "count-in-channels", .run = count_in_channels},
    {.name = "run-ahead", .run = run_ahead},
    {.name = "compute-and-send", .run = compute_and_send},
    {.name = "expect-more", .run = expect_more},
    {.name = "too-large", .run = make_too_large},
    {.name = "too-many", .run = make_too_many},
    {.name = "give-up-in-a-chain", .run = give_up_in_a_chain},
    {.name = "stopped-in-a-chain", .run = be_stopped_in_a_chain},
};

// ---- the test ----

static void messages_over_channels(void **state)
{
    char text[16384];
    if (mpirun_self(GRID_RANKS, "mpi", "channels", "30", text, sizeof text))
        fail_msg("%s", text);
    if (mpirun_self(2, "mpi", "count-in-channels", "30", text, sizeof text))
        fail_msg("%s", text);
}

static void a_sender_waits_for_releases(void **state)
{
    char text[16384];
    assert_int_not_equal(mpirun_self(2, "mpi", "run-ahead", "30", text, sizeof text), 0);
    expect_words(text, "[sent 1]");
    assert_null(strstr(text, "[sent 2]"));
    expect_words(text, "[rank 0 ends with ERR_PEER: rank 0, take of h.5 to h.6, slot 0, step 0: "
                       "rank 1 gave up at step 0: disk full]");
}

// Over TCP, because shared memory needs no help of the sender.
static void messages_go_on_while_their_sender_computes(void **state)
{
    char text[16384];
    setenv("OMPI_MCA_btl", "tcp,self", 1);
    int status = mpirun_self(2, "mpi", "compute-and-send", "30", text, sizeof text);
    unsetenv("OMPI_MCA_btl");
    if (status)
        fail_msg("%s", text);
}

static void mistakes_in_channels_are_told(void **state)
{
    char text[16384];
    assert_int_not_equal(mpirun_self(2, "mpi", "expect-more", "30", text, sizeof text), 0);
    expect_words(text, "[rank 1 ends with ERR_INTERNAL: rank 1, receive of h.5 to h.6, slot 1, "
                       "step 5: rank 0 sent 100 bytes, where 104 are expected]");
    assert_int_not_equal(mpirun_self(2, "mpi", "too-large", "30", text, sizeof text), 0);
    expect_words(text, "channel h.5 to h.6: a message of MPI has at most 2147483647 bytes, and a "
                       "slot 2147483648]");
    assert_int_not_equal(mpirun_self(2, "mpi", "too-many", "30", text, sizeof text), 0);
    expect_words(text, "channels of 2147483649 slots: this MPI tells ");
}

static void failures_end_the_waits_of_channels(void **state)
{
    char text[16384];
    assert_int_not_equal(mpirun_self(3, "mpi", "give-up-in-a-chain", "30", text, sizeof text), 0);
    expect_words(text, "[rank 0 ends with ERR_PEER: rank 0, take of h.0 to h.1, slot 0, step 41: "
                       "rank 1 gave up at step 41: disk full]");
    expect_words(text, "[rank 2 ends with ERR_PEER: rank 2, receive of h.1 to h.2, slot 0, step "
                       "41: rank 1 gave up at step 41: disk full]");
    assert_int_not_equal(mpirun_self(3, "mpi", "stopped-in-a-chain", "2", text, sizeof text), 0);
    expect_words(text, "rank 1 made no progress for 2 s; it was last heard of at step 41]");
}

int main(int count, char **arguments)
{
    if (count == 5 && !strcmp(arguments[1], "rank"))
        return mpirun_rank(scenarios, ZR_COUNT(scenarios), arguments);
    mpirun_program = arguments[0];
    const char *reason = mpirun_reason_to_skip();
    if (reason) {
        fprintf(stderr, "SKIPPED: channels over MPI are not tested: %s\n", reason);
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_over_channels),
        cmocka_unit_test(a_sender_waits_for_releases),
        cmocka_unit_test(messages_go_on_while_their_sender_computes),
        cmocka_unit_test(mistakes_in_channels_are_told),
        cmocka_unit_test(failures_end_the_waits_of_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
