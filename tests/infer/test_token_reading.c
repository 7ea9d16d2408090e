// Which rank makes the tokens of its machine, and how the others of the machine hear of it.
#include "infer/token_reading.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { RANKS = 5 };

typedef struct rank {
    zero_comm *comm;
    zero_status mine, status;
    zero_error error;
    int64_t words[ZR_SHARED_WORDS];
} rank;

static void *tell(void *argument)
{
    rank *r = argument;
    const zr_reading reading = zr_token_reader_options(r->comm, 1, NULL, 256, 8);
    if (r->mine != ZERO_OK)
        zr_fail(&r->error, r->mine, "it does not work");
    r->status = reading.sharing.tell(reading.sharing.user, r->mine, r->words, &r->error);
    return NULL;
}

// Every rank tells its own number in each word. machines (RANKS): NULL: there is one machine.
static void tell_all(rank ranks[RANKS], const int *machines, int fails)
{
    zero_comm *comms[RANKS];
    pthread_t threads[RANKS];
    zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = 30};
    assert_int_equal(zero_comm_threads(RANKS, &options, comms, NULL), ZERO_OK);
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = (rank){.comm = comms[r], .mine = r == fails ? ZERO_ERR_IO : ZERO_OK};
        comms[r]->machines = machines;
        for (int i = 0; i < ZR_SHARED_WORDS; i++)
            ranks[r].words[i] = r * 100 + i - 2; // negative ones too
    }
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, tell, &ranks[r]), 0);
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
}

static void close_all(rank ranks[RANKS])
{
    for (int r = 0; r < RANKS; r++) {
        ranks[r].comm->machines = NULL;
        zero_comm_destroy(ranks[r].comm);
    }
}

static void expect_leaders(const int *machines, const int leaders[RANKS])
{
    rank ranks[RANKS];
    tell_all(ranks, machines, -1);
    for (int r = 0; r < RANKS; r++) {
        const zr_reading reading = zr_token_reader_options(ranks[r].comm, 1, NULL, 256, 8);
        assert_int_equal(ranks[r].status, ZERO_OK);
        assert_true(reading.sharing.leads == (leaders[r] == r));
        assert_true(zr_reading_follows(ranks[r].comm) == (leaders[r] != r));
        for (int i = 0; i < ZR_SHARED_WORDS; i++)
            assert_int_equal(ranks[r].words[i], leaders[r] * 100 + i - 2);
    }
    close_all(ranks);
}

static void the_first_rank_of_a_machine_tells(void **state)
{
    expect_leaders(NULL, (const int[]){0, 0, 0, 0, 0});
    expect_leaders((const int[]){0, 1, 0, 1, 2}, (const int[]){0, 1, 0, 1, 4});
    expect_leaders((const int[]){0, 1, 2, 3, 4}, (const int[]){0, 1, 2, 3, 4});
}

static void a_rank_that_failed_ends_all(void **state)
{
    rank ranks[RANKS];
    tell_all(ranks, NULL, 3);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(ranks[r].status, ZERO_ERR_IO);
        assert_string_equal(ranks[r].error.message,
                            r == 3 ? "it does not work" : "rank 3: it does not work");
    }
    close_all(ranks);
}

static void a_rank_alone_tells_nobody(void **state)
{
    assert_null(zr_token_reader_options(NULL, 1, NULL, 256, 8).sharing.tell);
    zero_comm *comm;
    assert_int_equal(zero_comm_threads(1, NULL, &comm, NULL), ZERO_OK);
    assert_null(zr_token_reader_options(comm, 1, NULL, 256, 8).sharing.tell);
    assert_false(zr_reading_follows(comm));
    zero_comm_destroy(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_rank_of_a_machine_tells),
        cmocka_unit_test(a_rank_that_failed_ends_all),
        cmocka_unit_test(a_rank_alone_tells_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
