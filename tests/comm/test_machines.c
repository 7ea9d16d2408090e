// Several machines under MPI, simulated on one: ranks have host names of their own (UTS
// namespaces). Gathered bits are those of one machine, the ranks of a machine map one region, and a
// shard crosses the network once for each machine.
#define _GNU_SOURCE
#include "exercise.h"
#include "comm_grid.h"
#include "mpirun.h"

#include "base/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#define SLOTS 2
#define SHARD 2048 // elements
#define ROUNDS 20

// ---- a rank ----

// "block": 0 1 | 2 3 | ...; "turn": even and odd ranks; "uneven": 0 | 1 2 | 3 4 ...; "large": 0 to
// 3, and each other its own;
// "alone": each its own
static int machine_of(const char *layout, int rank)
{
    if (!strcmp(layout, "turn"))
        return rank % 2;
    if (!strcmp(layout, "large"))
        return ZR_MAX(0, rank - 3);
    if (!strcmp(layout, "uneven"))
        return (rank + 1) / 2;
    return !strcmp(layout, "alone") ? rank : rank / 2;
}

static bool enter_machine(const char *layout)
{
    char name[32];
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    snprintf(name, sizeof name, "machine-%d", machine_of(layout, rank ? atoi(rank) : 0));
    return unshare(CLONE_NEWUTS) == 0 && sethostname(name, strlen(name)) == 0;
}

// A value of a shard that tells rank, slot, round and element apart.
static float value_of(int rank, int slot, int round, int64_t i)
{
    return (float)(rank * 1000 + slot * 100 + round) + (float)i / SHARD;
}

static zero_status check_region(const zr_window *window, int64_t offset, int slot, int round,
                                zero_error *error)
{
    const float *region = (const float *)(window->mine + offset);
    if (window->comm->rank == 1)
        zr_sleep_seconds(0.001); // the others run ahead, as far as they may
    for (int r = 0; r < window->comm->size; r++)
        for (int64_t i = 0; i < SHARD; i++)
            if (region[r * SHARD + i] != value_of(r, slot, round, i))
                return zr_fail(error, ZERO_ERR_DATA,
                               "rank %d, slot %d, round %d: shard %d has %g at %lld, not %g",
                               window->comm->rank, slot, round, r, (double)region[r * SHARD + i],
                               (long long)i, (double)value_of(r, slot, round, i));
    return ZERO_OK;
}

// As stage 3 does it: slots in turn, one ahead, each place overwritten as soon as this rank no
// longer reads it.
static zero_status gather_in_turn(zr_window *window, zero_error *error)
{
    zero_comm *comm = window->comm;
    static float own[SLOTS][SHARD];
    zr_handle handles[SLOTS];
    int64_t bytes = comm->size * SHARD * (int64_t)sizeof(float);
    for (int round = 0; round < ROUNDS; round++)
        for (int slot = 0; slot < SLOTS; slot++) {
            for (int64_t i = 0; i < SHARD; i++)
                own[slot][i] = value_of(comm->rank, slot, round, i);
            ZERO_TRY(zr_comm_start_gather(window, slot, slot * bytes, SHARD, ZERO_F32, 0, own[slot],
                                          &handles[slot], error));
            if (slot + round == 0)
                continue;
            int before = (slot + SLOTS - 1) % SLOTS;
            ZERO_TRY(zr_comm_wait(&handles[before], error));
            ZERO_TRY(check_region(window, before * bytes, before, slot ? round : round - 1, error));
        }
    return zr_comm_wait(&handles[SLOTS - 1], error);
}

static zero_status gather_in(zero_comm *comm, zr_window_kind kind, zero_error *error)
{
    zr_window window;
    ZERO_TRY(zr_window_create(comm, kind, SLOTS * comm->size * SHARD * (int64_t)sizeof(float),
                              SLOTS, NULL, &window, error));
    zero_traffic before = comm->traffic;
    zero_status status = gather_in_turn(&window, error);
    const int64_t shards = ROUNDS * SLOTS * SHARD * (int64_t)sizeof(float);
    if (status == ZERO_OK)
        printf("[rank %d kind %d fetched %lld, from afar %lld]\n", comm->rank, (int)kind,
               (long long)((comm->traffic.bytes[ZERO_COMM_all_gather] -
                            before.bytes[ZERO_COMM_all_gather]) /
                           shards),
               (long long)((comm->traffic.network[ZERO_COMM_all_gather] -
                            before.network[ZERO_COMM_all_gather]) /
                           shards));
    if (status == ZERO_OK)
        status = zr_comm_barrier(comm, error);
    zr_window_destroy(&window);
    return status;
}

// As replicas of what is frozen are made: own shards are written where they lie in the machine's
// copy, while no rank reads there.
static zero_status gather_in_place(zero_comm *comm, zero_error *error)
{
    zr_window window;
    zero_status status = ZERO_OK;
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_MACHINE, comm->size * SHARD * (int64_t)sizeof(float),
                              1, NULL, &window, error));
    float *own = (float *)window.mine + comm->rank * SHARD;
    for (int round = 0; round < ROUNDS && status == ZERO_OK; round++) {
        zr_handle handle;
        for (int64_t i = 0; i < SHARD; i++)
            own[i] = value_of(comm->rank, 0, round, i);
        status = zr_comm_start_gather(&window, 0, 0, SHARD, ZERO_F32, 0, own, &handle, error);
        status = status == ZERO_OK ? zr_comm_wait(&handle, error) : status;
        status = status == ZERO_OK ? check_region(&window, 0, 0, round, error) : status;
        status = status == ZERO_OK ? zr_comm_barrier(comm, error) : status;
    }
    zr_window_destroy(&window);
    return status;
}

static zero_status refuse_in_place(zero_comm *comm, zero_error *error)
{
    zr_window window;
    zr_handle handle;
    zero_error refused;
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_MACHINE, SHARD * (int64_t)sizeof(float) * comm->size,
                              1, NULL, &window, error));
    zero_status status = zr_comm_start(&window, ZERO_COMM_all_gather, 0, 0, SHARD, ZERO_F32, NULL,
                                       &handle, &refused);
    printf("[in place: %s: %s]\n", zero_status_name(status), refused.message);
    zr_window_destroy(&window);
    return ZERO_OK;
}

static zero_status run_all(zero_comm *comm, const char *layout, zero_error *error)
{
    uint64_t digest;
    int locals = 0;
    for (int r = 0; r < comm->size; r++)
        locals += machine_of(layout, r) == machine_of(layout, comm->rank);
    if (comm->strangers != comm->size - locals)
        return zr_fail(error, ZERO_ERR_DATA, "%d ranks on other machines, not %d", comm->strangers,
                       comm->size - locals);
    ZERO_TRY(exercise(comm, &digest, error));
    printf("[rank %d digest %016llx, %d share]\n", comm->rank, (unsigned long long)digest,
           comm->machine_ranks);
    ZERO_TRY(gather_in(comm, ZR_WINDOW_SYMMETRIC, error));
    ZERO_TRY(gather_in(comm, ZR_WINDOW_MACHINE, error));
    ZERO_TRY(gather_in_place(comm, error));
    ZERO_TRY(zr_comm_overlap(comm, error));
    ZERO_TRY(gather_in_place(comm, error));
    return gather_in(comm, ZR_WINDOW_MACHINE, error);
}

static zero_status gather_in_group(zero_comm *group, int strangers, int share, zero_error *error)
{
    if (group->strangers != strangers || group->machine_ranks != share)
        return zr_fail(error, ZERO_ERR_DATA, "a %s group has %d strangers, %d share", group->group,
                       group->strangers, group->machine_ranks);
    printf("[%s]", group->group);
    ZERO_TRY(gather_in(group, ZR_WINDOW_SYMMETRIC, error));
    printf("[%s]", group->group);
    return gather_in(group, ZR_WINDOW_MACHINE, error);
}

// Two machines of two ranks: a tensor group is one of them, a data group lies on both.
static zero_status run_groups(zero_comm *comm, zero_error *error)
{
    grid grid;
    ZERO_TRY(grid_open(comm, &grid, error));
    zero_status status = gather_in_group(grid.data, 1, 1, error);
    if (status == ZERO_OK)
        status = gather_in_group(grid.tensor, 0, 2, error);
    grid_close(&grid);
    return status;
}

static zero_status run_layout(zero_comm *comm, const char *layout, zero_error *error)
{
    if (!strcmp(layout, "groups"))
        return run_groups(comm, error);
    return strcmp(layout, "refused") ? run_all(comm, layout, error) : refuse_in_place(comm, error);
}

static int run_rank(const char *layout, const char *timeout)
{
    zero_error error = {0};
    zero_comm *comm = NULL;
    zero_comm_options options = {
        .struct_size = sizeof options, .timeout_seconds = atof(timeout), .kind = "mpi"};
    if (!enter_machine(layout))
        return 1;
    zero_status status = zero_comm_open(&options, &comm, &error);
    if (status == ZERO_OK)
        status = run_layout(comm, layout, &error);
    if (status != ZERO_OK)
        printf("[%s: %s]\n", zero_status_name(status), error.message);
    fflush(stdout);
    zero_comm_destroy(comm);
    return status != ZERO_OK;
}

// ---- the test ----

static zero_status digest_of_thread(zero_comm *comm, void *user, zero_error *error)
{
    return exercise(comm, &((uint64_t *)user)[comm->rank], error);
}

// fetches[r]: shards that rank r brings to its machine; share: ranks that share a machine window,
// 1 if there are none.
static void assert_machines(const char *layout, int ranks, int share, const int *fetches)
{
    static char text[65536];
    char want[96];
    uint64_t digests[8];
    rank_result results[8];
    run_threads(ranks, 30, digest_of_thread, digests, results);
    if (mpirun_self(ranks, "mpi", layout, "30", text, sizeof text))
        fail_msg("%s", text);
    for (int r = 0; r < ranks; r++) {
        snprintf(want, sizeof want, "[rank %d digest %016llx, %d share]", r,
                 (unsigned long long)digests[0], share);
        expect_words(text, want);
        snprintf(want, sizeof want, "[rank %d kind %d fetched %d, from afar %d]", r,
                 ZR_WINDOW_SYMMETRIC, ranks - 1, fetches[r]);
        expect_words(text, want);
        snprintf(want, sizeof want, "[rank %d kind %d fetched %d, from afar %d]", r,
                 ZR_WINDOW_MACHINE, share > 1 ? fetches[r] : ranks - 1, fetches[r]);
        expect_words(text, want);
    }
    assert_null(strstr(text, "ERR_"));
}

static void two_machines(void **state)
{
    assert_machines("block", 4, 2, (const int[]){1, 1, 1, 1});
    assert_machines("turn", 6, 3, (const int[]){1, 1, 1, 1, 1, 1});
}

static void machines_of_unequal_size(void **state)
{
    assert_machines("turn", 5, 2, (const int[]){1, 2, 1, 1, 0});
    assert_machines("uneven", 5, 1, (const int[]){4, 2, 1, 2, 1});
    assert_machines("large", 8, 1, (const int[]){1, 1, 1, 1, 7, 7, 7, 7});
}

static void every_rank_a_machine(void **state)
{
    assert_machines("alone", 3, 1, (const int[]){2, 2, 2});
}

static void an_own_shard_lies_outside(void **state)
{
    char text[16384];
    mpirun_self(1, "mpi", "refused", "30", text, sizeof text);
    expect_words(text, "[in place: ERR_INTERNAL: all_gather on slot 0 (?) of a window of 8192 "
                       "bytes: the own shard of a machine window lies outside it]");
}

static void groups_have_machines_of_their_own(void **state)
{
    char text[16384];
    if (mpirun_self(GRID_RANKS, "mpi", "groups", "30", text, sizeof text))
        fail_msg("%s", text);
    for (int r = 0; r < 2; r++) {
        static const struct {
            const char *group;
            zr_window_kind kind;
            int fetched, afar;
        } want[] = {{"data", ZR_WINDOW_SYMMETRIC, 1, 1},
                    {"data", ZR_WINDOW_MACHINE, 1, 1},
                    {"tensor", ZR_WINDOW_SYMMETRIC, 1, 0},
                    {"tensor", ZR_WINDOW_MACHINE, 0, 0}};
        for (int i = 0; i < ZR_COUNT(want); i++) {
            char words[96];
            snprintf(words, sizeof words, "[%s][rank %d kind %d fetched %d, from afar %d]",
                     want[i].group, r, want[i].kind, want[i].fetched, want[i].afar);
            expect_words(text, words);
        }
    }
}

static const char *find_reason_to_skip(void)
{
    const char *reason = mpirun_reason_to_skip();
    return reason || !system("unshare --uts true 2>/dev/null")
               ? reason
               : "no namespaces can be made here (root can)";
}

int main(int count, char **arguments)
{
    if (count == 5 && !strcmp(arguments[1], "rank"))
        return run_rank(arguments[3], arguments[4]);
    mpirun_program = arguments[0];
    const char *reason = find_reason_to_skip();
    if (reason) {
        fprintf(stderr, "SKIPPED: several machines are not tested: %s\n", reason);
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_machines),
        cmocka_unit_test(machines_of_unequal_size),
        cmocka_unit_test(every_rank_a_machine),
        cmocka_unit_test(an_own_shard_lies_outside),
        cmocka_unit_test(groups_have_machines_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
