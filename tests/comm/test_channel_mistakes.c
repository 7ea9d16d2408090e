// Channels that cannot be made, and operations that a rank must not make on them.
#include "comm/channel.h"
#include "exercise.h"

#include "base/alloc.h"

#include <string.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static const zr_channel_shape both_ways[] = {
    {.from = 0, .to = 1, .slots = 2, .bytes = 256, .name = "h.5 to h.6"},
    {.from = 1, .to = 0, .slots = 2, .bytes = 193, .first = 64, .name = "h.6 to h.5"},
};

typedef zero_status (*mistake)(zr_channels *channels, zero_error *error);

static zero_status expect_more(zr_channels *channels, zero_error *error)
{
    return channels->comm->rank == 0 ? zr_channel_send(channels, 0, 1, 100, error)
                                     : zr_channel_receive(channels, 0, 1, 104, error);
}

static zero_status expect_less(zr_channels *channels, zero_error *error)
{
    return channels->comm->rank == 0 ? zr_channel_send(channels, 0, 1, 104, error)
                                     : zr_channel_receive(channels, 0, 1, 100, error);
}

static zero_status take_at_the_wrong_end(zr_channels *channels, zero_error *error)
{
    return zr_channel_take(channels, 0, 0, error);
}

static zero_status send_at_the_wrong_end(zr_channels *channels, zero_error *error)
{
    return zr_channel_send(channels, 0, 1, 8, error);
}

static zero_status receive_at_the_wrong_end(zr_channels *channels, zero_error *error)
{
    return zr_channel_receive(channels, 1, 1, 8, error);
}

static zero_status release_at_the_wrong_end(zr_channels *channels, zero_error *error)
{
    return zr_channel_release(channels, 1, 0, error);
}

static zero_status use_no_channel(zr_channels *channels, zero_error *error)
{
    return zr_channel_take(channels, 2, 0, error);
}

static zero_status use_no_slot(zr_channels *channels, zero_error *error)
{
    return zr_channel_send(channels, 1, 2, 8, error);
}

static zero_status send_too_much(zr_channels *channels, zero_error *error)
{
    return zr_channel_send(channels, 1, 0, 130, error);
}

static zero_status receive_too_much(zr_channels *channels, zero_error *error)
{
    return zr_channel_receive(channels, 0, 0, 257, error);
}

typedef struct mistake_case {
    mistake make;
    const char *words; // of rank 1
} mistake_case;

// Rank 1 makes a mistake, while rank 0 waits. Messages of different lengths take both.
static zero_status make_mistake(zero_comm *comm, void *user, zero_error *error)
{
    const mistake_case *c = user;
    zr_channels channels;
    ZERO_TRY(zr_channels_create(comm, both_ways, 2, &channels, error));
    zr_comm_progress(comm, 5);
    zero_status status = ZERO_OK;
    if (comm->rank == 1 || c->make == expect_more || c->make == expect_less)
        status = c->make(&channels, error);
    if (comm->rank == 0 && status == ZERO_OK)
        status = zr_channel_receive(&channels, 1, 1, 8, error);
    zr_channels_destroy(&channels);
    return status;
}

static void mistakes_are_told(void **state)
{
    mistake_case cases[] = {
        {expect_more, "rank 1, receive of h.5 to h.6, slot 1, step 5: rank 0 sent 100 bytes, where "
                      "104 are expected"},
        {expect_less, "rank 1, receive of h.5 to h.6, slot 1, step 5: rank 0 sent 104 bytes, where "
                      "100 are expected"},
        {take_at_the_wrong_end, "take of h.5 to h.6, slot 0, step 5: rank 0 sends there"},
        {send_at_the_wrong_end, "send of h.5 to h.6, slot 1, step 5: rank 0 sends there"},
        {receive_at_the_wrong_end, "receive of h.6 to h.5, slot 1, step 5: rank 0 receives there"},
        {release_at_the_wrong_end, "release of h.6 to h.5, slot 0, step 5: rank 0 receives there"},
        {use_no_channel, "take of channel 2, step 5: there is no such channel"},
        {use_no_slot, "send of channel 1, step 5: h.6 to h.5 has 2 slots, and no slot 2"},
        {send_too_much, "send of h.6 to h.5, slot 0, step 5: 130 bytes do not fit into its 129"},
        {receive_too_much, "h.5 to h.6, slot 0, step 5: 257 bytes do not fit into its 256"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        rank_result results[2];
        run_threads(2, 60, make_mistake, &cases[i], results);
        expect_message(&results[1], ZERO_ERR_INTERNAL, cases[i].words);
        expect_message(&results[0], ZERO_ERR_PEER, "rank 1 gave up at step 5: ");
    }
}

static zero_status ask_for(zero_comm *comm, void *user, zero_error *error)
{
    zr_channels channels;
    zero_status status = zr_channels_create(comm, user, 1, &channels, error);
    assert(channels.comm == NULL);
    zr_channels_destroy(&channels);
    return status;
}

static void impossible_channels_are_refused(void **state)
{
    zr_channel_shape cases[] = {
        {.from = 0, .to = 0, .slots = 1, .bytes = 8, .name = "a"},
        {.from = -1, .to = 1, .slots = 1, .bytes = 8, .name = "a"},
        {.from = 0, .to = 3, .slots = 1, .bytes = 8, .name = "a"},
        {.from = 0, .to = 1, .slots = 0, .bytes = 8, .name = "a"},
        {.from = 0, .to = 1, .slots = 1, .bytes = 0, .name = "a"},
        {.from = 0, .to = 1, .slots = 4, .bytes = INT64_MAX / 2, .name = "a"},
        {.from = 0, .to = 1, .slots = 1, .bytes = 8},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        rank_result results[3];
        run_threads(3, 60, ask_for, &cases[i], results);
        int refused = 0; // the others may hear of it first
        for (int r = 0; r < 3; r++)
            refused += results[r].status == ZERO_ERR_INTERNAL &&
                       strstr(results[r].error.message, "creation of channel 0");
        assert_true(refused >= 1);
    }
}

static zero_status ask_differently(zero_comm *comm, void *user, zero_error *error)
{
    zr_channel_shape shape = both_ways[0];
    zr_channels channels;
    if (comm->rank == 2) {
        shape.slots += *(const int *)user == 0;
        shape.bytes += *(const int *)user == 1;
        shape.first += *(const int *)user == 2;
    }
    return zr_channels_create(comm, &shape, 1, &channels, error);
}

static zero_status ask_for_fewer(zero_comm *comm, void *user, zero_error *error)
{
    zr_channels channels;
    return zr_channels_create(comm, both_ways, comm->rank, &channels, error);
}

static void different_channels_are_told(void **state)
{
    rank_result results[3];
    for (int field = 0; field < 3; field++) {
        run_threads(3, 60, ask_differently, &field, results);
        for (int r = 0; r < 3; r++)
            expect_message(&results[r], ZERO_ERR_INTERNAL, "the ranks ask for different channels");
    }
    run_threads(3, 60, ask_for_fewer, NULL, results);
    for (int r = 0; r < 3; r++)
        expect_message(&results[r], ZERO_ERR_INTERNAL, "channels: 0 to 2 of them");
}

static zero_status lack_memory(zero_comm *comm, void *user, zero_error *error)
{
    zr_channels channels;
    if (comm->rank == 2)
        zr_alloc_fail_at(*(int *)user);
    zero_status status = zr_channels_create(comm, both_ways, 1, &channels, error);
    zr_alloc_fail_at(0);
    return status;
}

// Its list of places, its part of the window.
static void channels_for_which_one_rank_has_no_memory_fail_on_all(void **state)
{
    for (int nth = 1; nth <= 2; nth++) {
        rank_result results[3];
        run_threads(3, 60, lack_memory, &nth, results);
        assert_int_equal(results[2].status, ZERO_ERR_MEMORY);
        for (int r = 0; r < 2; r++)
            expect_message(&results[r], ZERO_ERR_MEMORY, "rank 2: no memory for");
    }
}

static zero_status ask_for_too_much(zero_comm *comm, void *user, zero_error *error)
{
    zr_channel_shape shape = both_ways[0];
    zr_channels channels;
    shape.bytes = (int64_t)1 << 45;
    return zr_channels_create(comm, &shape, 1, &channels, error);
}

static void channels_that_cannot_be_reserved_fail_on_all_ranks(void **state)
{
    rank_result results[3];
    run_threads(3, 60, ask_for_too_much, NULL, results);
    for (int r = 0; r < 3; r++)
        expect_message(&results[r], ZERO_ERR_MEMORY, "rank 0: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(impossible_channels_are_refused),
        cmocka_unit_test(different_channels_are_told),
        cmocka_unit_test(channels_for_which_one_rank_has_no_memory_fail_on_all),
        cmocka_unit_test(channels_that_cannot_be_reserved_fail_on_all_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
