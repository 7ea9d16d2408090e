// Channels between ranks as threads: order, who may write when, counting, and how waits end.
// test_processes and test_mpi send the same messages between processes.
#include "channel_ring.h"
#include "comm_grid.h"
#include "exercise.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/recorder.h"
#include "base/traffic.h"
#include "comm/communicator.h"

#include "../sanitizers.h"

#include <stdio.h>
#include <string.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static const zr_channel_shape one_way = {
    .from = 0, .to = 1, .slots = 2, .bytes = 256, .name = "h.5 to h.6"};

// ---- messages ----

static zero_status run_ring(zero_comm *comm, void *user, zero_error *error)
{
    for (uint64_t seed = 0; seed < (SANITIZED ? 2 : 6); seed++)
        ZERO_TRY(exchange_in_ring(comm, seed, error));
    return ZERO_OK;
}

static void messages_around_rings_of_2_to_8(void **state)
{
    static const int counts[] = {2, 3, 4, 8};
    for (int i = 0; i < ZR_COUNT(counts); i++) {
        rank_result results[8];
        run_threads(counts[i], 60, run_ring, NULL, results);
        expect_all_ok(results, counts[i]);
    }
}

static zero_status run_rings(zero_comm *job, void *user, zero_error *error)
{
    for (uint64_t seed = 0; seed < (SANITIZED ? 2 : 6); seed++)
        ZERO_TRY(exchange_in_rings(job, *(bool *)user, seed, error));
    return ZERO_OK;
}

static void several_groups_at_once(void **state)
{
    for (int comm_threads = 0; comm_threads < 2; comm_threads++) {
        bool with = comm_threads;
        rank_result results[GRID_RANKS];
        run_threads(GRID_RANKS, 60, run_rings, &with, results);
        expect_all_ok(results, GRID_RANKS);
    }
}

static zero_status run_ahead_of(zr_channels *channels, const _Atomic int *released,
                                zero_error *error)
{
    for (int slot = 0; slot < 2; slot++) {
        ZERO_TRY(zr_channel_take(channels, 0, slot, error));
        ZERO_TRY(zr_channel_send(channels, 0, slot, 8, error));
    }
    int before = *released;
    ZERO_TRY(zr_channel_take(channels, 0, 1, error));
    return before == 0 && *released == 1
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_DATA, "a slot was taken after %d releases", *released);
}

static zero_status be_slow(zr_channels *channels, _Atomic int *released, zero_error *error)
{
    zr_sleep_seconds(0.3);
    for (int slot = 0; slot < 2; slot++)
        ZERO_TRY(zr_channel_receive(channels, 0, slot, 8, error));
    zr_sleep_seconds(0.1);
    *released = 1;
    return zr_channel_release(channels, 0, 1, error);
}

// Rank 0 sends into both slots before rank 1 does anything, and then waits for the second one.
static zero_status run_ahead(zero_comm *comm, void *user, zero_error *error)
{
    zr_channels channels;
    ZERO_TRY(zr_channels_create(comm, &one_way, 1, &channels, error));
    zero_status status =
        comm->rank == 0 ? run_ahead_of(&channels, user, error) : be_slow(&channels, user, error);
    zr_channels_destroy(&channels);
    return status;
}

static void a_sender_waits_for_the_release_alone(void **state)
{
    _Atomic int released = 0;
    rank_result results[2];
    run_threads(2, 60, run_ahead, &released, results);
    expect_all_ok(results, 2);
}

static zero_status compare_places(zero_comm *comm, void *user, zero_error *error)
{
    char **at = user;
    zr_channels channels;
    ZERO_TRY(zr_channels_create(comm, &one_way, 1, &channels, error));
    for (int slot = 0; slot < 2 && comm->rank < 2; slot++)
        at[2 * comm->rank + slot] = zr_channel_at(&channels, 0, slot);
    zero_status status = zr_comm_barrier(comm, error);
    zr_channels_destroy(&channels);
    return status;
}

static void a_slot_lies_once(void **state)
{
    char *at[4];
    rank_result results[3];
    run_threads(3, 60, compare_places, at, results);
    expect_all_ok(results, 3);
    assert_ptr_equal(at[0], at[2]);
    assert_ptr_equal(at[1], at[3]);
    assert_true(at[1] - at[0] >= one_way.bytes);
    assert_int_equal((uintptr_t)at[0] % 64, 0);
}

// The last message may come after its sender has left.
static zero_status send_and_leave(zero_comm *comm, void *user, zero_error *error)
{
    zr_channels channels;
    zero_status status = ZERO_OK;
    ZERO_TRY(zr_channels_create(comm, &one_way, 1, &channels, error));
    if (comm->rank == 0) {
        memset(zr_channel_at(&channels, 0, 0), 7, 256);
        status = zr_channel_send(&channels, 0, 0, 256, error);
    } else {
        zr_sleep_seconds(0.2);
        status = zr_channel_receive(&channels, 0, 0, 256, error);
        if (status == ZERO_OK && zr_channel_at(&channels, 0, 0)[255] != 7)
            status = zr_fail(error, ZERO_ERR_DATA, "the message is gone");
    }
    zr_channels_destroy(&channels);
    return status;
}

static void a_sender_may_leave(void **state)
{
    rank_result results[2];
    run_threads(2, 60, send_and_leave, NULL, results);
    expect_all_ok(results, 2);
}

static zero_status send_back_and_forth(zr_channels *channels, int rank, int rounds,
                                       zero_error *error)
{
    for (int i = 0; i < rounds; i++)
        for (int channel = 0; channel < 2; channel++) {
            if (channels->shapes[channel].from == rank) {
                ZERO_TRY(zr_channel_take(channels, channel, i % 2, error));
                ZERO_TRY(zr_channel_send(channels, channel, i % 2, 100 + channel, error));
            } else {
                ZERO_TRY(zr_channel_receive(channels, channel, i % 2, 100 + channel, error));
                ZERO_TRY(zr_channel_release(channels, channel, i % 2, error));
            }
        }
    return ZERO_OK;
}

static const zr_channel_shape both_ways[] = {
    {.from = 0, .to = 1, .slots = 2, .bytes = 256, .name = "h.5 to h.6"},
    {.from = 1, .to = 0, .slots = 2, .bytes = 129, .name = "h.6 to h.5"},
};

// ---- counting ----

enum { ROUNDS = 20 };

static zero_status check_counts(zero_comm *comm, const int64_t *calls, zero_error *error)
{
    uint64_t hash = ZR_MESSAGE_SEED;
    for (int i = 0; i < ROUNDS; i++)
        for (int channel = 0; channel < 2; channel++)
            hash = zr_message_fold(hash, channel == comm->rank ? ZERO_COMM_send : ZERO_COMM_recv,
                                   channel, 100 + channel);
    const zero_traffic *traffic = &comm->traffic;
    bool right = comm->message_count == 2 * ROUNDS && comm->message_hash == hash;
    right = right && traffic->calls[ZERO_COMM_send] == ROUNDS &&
            traffic->calls[ZERO_COMM_recv] == ROUNDS &&
            traffic->bytes[ZERO_COMM_send] == ROUNDS * (100 + comm->rank) &&
            traffic->bytes[ZERO_COMM_recv] == 0; // it was mapped
    for (int op = 0; op < ZERO_COMM_OP_COUNT; op++)
        right = right &&
                (op == ZERO_COMM_send || op == ZERO_COMM_recv || traffic->calls[op] == calls[op]);
    return right ? ZERO_OK : zr_fail(error, ZERO_ERR_DATA, "rank %d counts otherwise", comm->rank);
}

static zero_status count_messages(zero_comm *comm, void *user, zero_error *error)
{
    zr_channels channels;
    ZERO_TRY(zr_channels_create(comm, both_ways, 2, &channels, error));
    zr_comm_hash_reset(comm);
    zero_traffic before = comm->traffic;
    int64_t allocations = zr_alloc_count();
    zero_status status = send_back_and_forth(&channels, comm->rank, ROUNDS, error);
    if (status == ZERO_OK && zr_alloc_count() != allocations)
        status = zr_fail(error, ZERO_ERR_DATA, "messages allocate");
    if (status == ZERO_OK)
        status = check_counts(comm, before.calls, error);
    zr_channels_destroy(&channels);
    return status;
}

static void messages_are_counted_and_allocate_nothing(void **state)
{
    rank_result results[2];
    run_threads(2, 60, count_messages, NULL, results);
    expect_all_ok(results, 2);
}

static void bytes_of_shapes(void **state)
{
    static const zr_channel_shape shapes[] = {
        {.from = 0, .to = 1, .slots = 3, .bytes = 640, .name = "a"},
        {.from = 1, .to = 0, .slots = 2, .bytes = 65, .name = "b"},
        {.from = 1, .to = 2, .slots = 1, .bytes = 64, .name = "c"},
    };
    assert_int_equal(zr_channel_shapes_bytes(shapes, 3, 0, true), 3 * 640);
    assert_int_equal(zr_channel_shapes_bytes(shapes, 3, 1, true), 2 * 128 + 64);
    assert_int_equal(zr_channel_shapes_bytes(shapes, 3, 2, true), 0);
    assert_int_equal(zr_channel_shapes_bytes(shapes, 3, 0, false), 3 * 640 + 2 * 128);
    assert_int_equal(zr_channel_shapes_bytes(shapes, 3, 1, false), 3 * 640 + 2 * 128 + 64);
    assert_int_equal(zr_channel_shapes_bytes(shapes, 3, 2, false), 64);
    assert_int_equal(zr_channel_shapes_bytes(shapes, 0, 0, false), 0);
}

typedef struct recorded {
    bool comm_thread;
    int64_t longest[2]; // by rank, nanoseconds
} recorded;

static int64_t longest_wait(const zr_recorder *recorder)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < recorder->count; i++) {
        const zr_record *record = &recorder->records[i];
        if (record->what == ZR_ACTIVITY_wait)
            longest = ZR_MAX(longest, record->end - record->begin);
    }
    return longest;
}

static zero_status wait_and_record(zero_comm *comm, void *user, zero_error *error)
{
    recorded *recorded = user;
    zr_recorder *recorder;
    zr_channels channels;
    ZERO_TRY(zr_recorder_create(100, &recorder, error));
    ZERO_TRY(zr_channels_create(comm, both_ways, 2, &channels, error));
    if (recorded->comm_thread)
        ZERO_TRY(zr_comm_overlap(comm, error));
    ZERO_TRY(zr_comm_attach(comm, 1, error));
    zr_comm_record(comm, recorder);
    if (comm->rank == 0)
        zr_sleep_seconds(0.2);
    zero_status status = send_back_and_forth(&channels, comm->rank, 1, error);
    zr_comm_detach(comm);
    recorded->longest[comm->rank] = longest_wait(recorder);
    zr_channels_destroy(&channels);
    zr_recorder_destroy(recorder);
    return status;
}

static void waits_are_recorded(void **state)
{
    for (int comm_thread = 0; comm_thread < 2; comm_thread++) {
        recorded recorded = {.comm_thread = comm_thread};
        rank_result results[2];
        run_threads(2, 60, wait_and_record, &recorded, results);
        expect_all_ok(results, 2);
        assert_in_range(recorded.longest[1], 100000000, 60000000000);
    }
}

// ---- waits that fail ----

static zero_status sleep_long(zero_comm *comm, zero_error *error)
{
    zr_sleep_seconds(2.2);
    return ZERO_OK;
}

static zero_status give_up(zero_comm *comm, zero_error *error)
{
    zr_sleep_seconds(0.3); // until the others wait
    return zr_fail(error, ZERO_ERR_IO, "disk full");
}

static zero_status run_chain(zero_comm *comm, void *user, zero_error *error)
{
    typedef zero_status (*ending)(zero_comm *, zero_error *);
    return break_chain(comm, *(ending *)user, error);
}

static void expect_chain(zero_status (*end)(zero_comm *comm, zero_error *error), double timeout,
                         zero_status status, const char *words)
{
    char want[256];
    rank_result results[3];
    run_threads(3, timeout, run_chain, &end, results);
    snprintf(want, sizeof want, "rank 0, take of h.0 to h.1, slot 0, step 41: %s", words);
    expect_message(&results[0], status, want);
    snprintf(want, sizeof want, "rank 2, receive of h.1 to h.2, slot 0, step 41: %s", words);
    expect_message(&results[2], status, want);
}

static void an_abort_ends_both_ends_waits(void **state)
{
    expect_chain(give_up, 60, ZERO_ERR_PEER, "rank 1 gave up at step 41: disk full");
}

static void a_timeout_names_the_slot(void **state)
{
    expect_chain(sleep_long, 1.0, ZERO_ERR_TIMEOUT,
                 "rank 1 (alive) made no progress for 1 s; it was last seen at step 41");
}

static zero_status be_in_a_chain(zero_comm *comm, zr_channels *channels, zero_error *error)
{
    if (comm->rank == 0) {
        zr_sleep_seconds(2.2);
        return ZERO_OK;
    }
    ZERO_TRY(zr_channel_receive(channels, comm->rank - 1, 0, 8, error));
    return zr_channel_send(channels, 1, 0, 8, error);
}

// Ranks of a group of the job {3, 2, 1}: its rank 2 waits for rank 1, which waits for rank 0.
static zero_status wait_in_a_chain(zero_comm *job, void *user, zero_error *error)
{
    static const zr_channel_shape shapes[] = {
        {.from = 0, .to = 1, .slots = 1, .bytes = 8, .name = "h.0 to h.1"},
        {.from = 1, .to = 2, .slots = 1, .bytes = 8, .name = "h.1 to h.2"},
    };
    zero_comm *group;
    zr_channels channels = {0};
    ZERO_TRY(zr_comm_split(job, job->rank > 0, -job->rank, "pipeline", &group, error));
    zr_comm_progress(job, 3);
    zero_status status = zr_channels_create(group, shapes, job->rank ? 2 : 0, &channels, error);
    if (status == ZERO_OK && job->rank > 0)
        status = be_in_a_chain(group, &channels, error);
    if (status == ZERO_OK)
        status = zr_comm_barrier(job, error);
    zr_channels_destroy(&channels);
    zero_comm_destroy(group);
    return status;
}

static void a_timeout_names_the_end_of_the_chain(void **state)
{
    rank_result results[4];
    run_threads(4, 1.0, wait_in_a_chain, NULL, results);
    for (int r = 1; r < 3; r++) {
        char want[200];
        snprintf(want, sizeof want,
                 "rank %d, receive of h.%d to h.%d, slot 0 (pipeline group of 3), step 3: rank 3 "
                 "(alive) made no progress for 1 s",
                 r, 2 - r, 3 - r);
        expect_message(&results[r], ZERO_ERR_TIMEOUT, want);
    }
}

static zero_status leave_the_group(zero_comm *job, void *user, zero_error *error)
{
    zero_comm *group;
    zr_channels channels;
    ZERO_TRY(zr_comm_split(job, 0, 0, "pipeline", &group, error));
    ZERO_TRY(zr_channels_create(group, &one_way, 1, &channels, error));
    zero_status status = ZERO_OK;
    if (job->rank == 1)
        status = zr_channel_receive(&channels, 0, 0, 8, error);
    zr_channels_destroy(&channels);
    zero_comm_destroy(group);
    return status ? status : zr_comm_barrier(job, error); // rank 0 is alive
}

static void a_rank_that_left_is_not_waited_for(void **state)
{
    rank_result results[2];
    run_threads(2, 60, leave_the_group, NULL, results);
    expect_message(&results[1], ZERO_ERR_PEER,
                   "rank 0 has destroyed its communicator of the pipeline group and will not come");
}

static zero_status make_many(zero_comm *comm, void *user, zero_error *error)
{
    for (int i = 0; i < 150; i++) {
        zr_channels channels;
        ZERO_TRY(zr_channels_create(comm, both_ways, i % 3, &channels, error));
        zero_status status = ZERO_OK;
        if (i % 3 == 2)
            status = send_back_and_forth(&channels, comm->rank, 3, error);
        zr_channels_destroy(&channels);
        ZERO_TRY(status);
    }
    return ZERO_OK;
}

static void channels_come_and_go(void **state)
{
    rank_result results[2];
    run_threads(2, 60, make_many, NULL, results);
    expect_all_ok(results, 2);
}

static void one_rank_has_no_channels(void **state)
{
    zero_comm *self;
    zero_error error;
    zr_channels channels;
    assert_int_equal(zero_comm_self(&self, &error), ZERO_OK);
    assert_int_equal(zr_channels_create(self, both_ways, 2, &channels, &error), ZERO_OK);
    assert_int_equal(channels.count, 0);
    assert_null(channels.comm);
    zr_channels_destroy(&channels);
    zero_comm_destroy(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_around_rings_of_2_to_8),
        cmocka_unit_test(several_groups_at_once),
        cmocka_unit_test(a_sender_waits_for_the_release_alone),
        cmocka_unit_test(a_slot_lies_once),
        cmocka_unit_test(a_sender_may_leave),
        cmocka_unit_test(messages_are_counted_and_allocate_nothing),
        cmocka_unit_test(bytes_of_shapes),
        cmocka_unit_test(waits_are_recorded),
        cmocka_unit_test(an_abort_ends_both_ends_waits),
        cmocka_unit_test(a_timeout_names_the_slot),
        cmocka_unit_test(a_timeout_names_the_end_of_the_chain),
        cmocka_unit_test(a_rank_that_left_is_not_waited_for),
        cmocka_unit_test(channels_come_and_go),
        cmocka_unit_test(one_rank_has_no_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
