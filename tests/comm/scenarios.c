#define _GNU_SOURCE
#include "scenarios.h"

#include "base/clock.h"
#include "exercise.h"
#include "channel_ring.h"
#include "comm_grid.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static zero_status run_exercise(zero_comm *comm, zero_error *error)
{
    uint64_t digest;
    ZERO_TRY(exercise(comm, &digest, error));
    printf("digest %016llx as %s", (unsigned long long)digest, zero_comm_name(comm));
    return ZERO_OK;
}

static zero_status step_for_ever(zero_comm *comm, zero_error *error)
{
    for (int64_t step = 1; step < 1000000; step++) {
        zr_comm_progress(comm, step);
        if (step == 41 && comm->rank == 1)
            return ZERO_OK;
        ZERO_TRY(zr_comm_barrier(comm, error));
    }
    return ZERO_OK;
}

static zero_status be_killed(zero_comm *comm, zero_error *error)
{
    ZERO_TRY(step_for_ever(comm, error));
    raise(SIGKILL);
    return ZERO_OK;
}

static zero_status be_stopped(zero_comm *comm, zero_error *error)
{
    ZERO_TRY(step_for_ever(comm, error));
    raise(SIGSTOP);
    return ZERO_OK;
}

static zero_status just_exit(zero_comm *comm, zero_error *error)
{
    ZERO_TRY(step_for_ever(comm, error));
    _exit(3);
}

static zero_status leave_early(zero_comm *comm, zero_error *error)
{
    return step_for_ever(comm, error);
}

static zero_status give_up(zero_comm *comm, zero_error *error)
{
    ZERO_TRY(step_for_ever(comm, error));
    return zr_fail(error, ZERO_ERR_DATA, "token file is truncated");
}

// Rank 1 works without a sign of life for less than the timeout while the whole job is stopped for
// longer.
static zero_status be_paused(zero_comm *comm, zero_error *error)
{
    printf("ready ");
    fflush(stdout);
    if (comm->rank == 1)
        zr_sleep_seconds(0.3);
    ZERO_TRY(zr_comm_barrier(comm, error));
    char byte;
    if (comm->rank == 0 && read(STDIN_FILENO, &byte, 1) == 1) // until the parent has continued all
        zr_comm_progress(comm, 1);
    return zr_comm_barrier(comm, error);
}

static zero_status meet_a_limit(zero_comm *comm, zero_error *error)
{
    zr_window window;
    if (comm->rank == 1) {
        struct rlimit limit = {.rlim_cur = 16 << 20, .rlim_max = 16 << 20};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    zero_status status =
        zr_window_create(comm, ZR_WINDOW_SHARED, 64 << 20, 1, NULL, &window, error);
    zr_window_destroy(&window);
    return status;
}

static zero_status open_twice(zero_comm *comm, zero_error *error)
{
    zero_comm *again;
    return zero_comm_open(NULL, &again, error);
}

static zero_status make_windows(zero_comm *comm, zero_error *error)
{
    for (int i = 0; i < 80; i++) {
        zr_window window;
        ZERO_TRY(zr_window_create(comm, i % 2 ? ZR_WINDOW_SHARED : ZR_WINDOW_SYMMETRIC, 3 << 20, 2,
                                  NULL, &window, error));
        memset(window.mine, 1, 3 << 20);
        ZERO_TRY(zr_comm_barrier(comm, error));
        zr_window_destroy(&window);
    }
    return ZERO_OK;
}

static zero_status run_groups(zero_comm *comm, zero_error *error)
{
    uint64_t digests[GRID_RANKS + 1];
    ZERO_TRY(exercise_groups(comm, digests, error));
    for (int ranks = 1; ranks <= GRID_RANKS; ranks++)
        if (digests[ranks])
            printf("%d: %016llx ", ranks, (unsigned long long)digests[ranks]);
    return ZERO_OK;
}

static zero_status run_interleaved(zero_comm *comm, zero_error *error)
{
    for (comm_thread_case comm_threads = NO_COMM_THREAD; comm_threads < COMM_THREAD_CASES;
         comm_threads++)
        ZERO_TRY(interleave_groups(comm, comm_threads, comm_threads, error));
    return ZERO_OK;
}

static zero_status step_over(grid *grid, zero_error *error)
{
    for (int64_t step = 1; step < 1000000; step++) {
        zr_comm_progress(grid->data, step);
        if (step == 41 && grid->job->rank == 3) {
            zr_sleep_seconds(0.05); // until the others wait, for this one or for one that does
            raise(SIGKILL);
        }
        ZERO_TRY(zr_comm_barrier(grid->data, error));
        ZERO_TRY(zr_comm_barrier(grid->tensor, error));
    }
    return ZERO_OK;
}

static zero_status be_killed_in_groups(zero_comm *comm, zero_error *error)
{
    grid grid;
    ZERO_TRY(grid_open(comm, &grid, error));
    zero_status status = step_over(&grid, error);
    grid_close(&grid);
    return status;
}

static zero_status make_groups(zero_comm *comm, zero_error *error)
{
    for (int i = 0; i < 80; i++) {
        grid grid;
        ZERO_TRY(grid_open(comm, &grid, error));
        zero_status status = zr_comm_barrier(grid.data, error);
        grid_close(&grid);
        ZERO_TRY(status);
    }
    return ZERO_OK;
}

static zero_status run_channels(zero_comm *comm, zero_error *error)
{
    for (int comm_threads = 0; comm_threads < 2; comm_threads++) {
        ZERO_TRY(exchange_in_ring(comm, (uint64_t)comm_threads, error));
        ZERO_TRY(exchange_in_rings(comm, comm_threads, (uint64_t)comm_threads, error));
    }
    return ZERO_OK;
}

static zero_status kill_itself(zero_comm *comm, zero_error *error)
{
    raise(SIGKILL);
    return ZERO_OK;
}

static zero_status be_killed_in_a_chain(zero_comm *comm, zero_error *error)
{
    return break_chain(comm, kill_itself, error);
}

// As long as the test lets it.
static zero_status linger(zero_comm *comm, zero_error *error)
{
    char byte;
    return comm->rank == 0 ? zr_comm_recv(comm, &byte, 1, 1, error)
                           : (zr_sleep_seconds(30), ZERO_OK);
}

static const struct {
    const char *name;
    zero_status (*run)(zero_comm *comm, zero_error *error);
} scenarios[] = {
    {.name = "exercise", .run = run_exercise},
    {.name = "killed", .run = be_killed},
    {.name = "stopped", .run = be_stopped},
    {.name = "exit", .run = just_exit},
    {.name = "leave", .run = leave_early},
    {.name = "give up", .run = give_up},
    {.name = "paused", .run = be_paused},
    {.name = "limit", .run = meet_a_limit},
    {.name = "twice", .run = open_twice},
    {.name = "windows", .run = make_windows},
    {.name = "linger", .run = linger},
    {.name = "refuse", .run = run_exercise},
    {.name = "groups", .run = run_groups},
    {.name = "killed in groups", .run = be_killed_in_groups},
    {.name = "interleaved", .run = run_interleaved},
    {.name = "groups in turn", .run = make_groups},
    {.name = "channels", .run = run_channels},
    {.name = "killed in a chain", .run = be_killed_in_a_chain},
};

int run_scenario(const char *scenario, const char *timeout)
{
    zero_error error = {0};
    zero_comm *comm;
    zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = atof(timeout)};
    if (!strcmp(scenario, "refuse") && !strcmp(getenv("RANK"), "1"))
        return 78; // before it has opened anything
    zero_status status = zero_comm_open(&options, &comm, &error);
    if (status != ZERO_OK) {
        printf("%s opening: %s", zero_status_name(status), error.message);
        return 1;
    }
    for (int i = 0; i < ZR_COUNT(scenarios); i++)
        if (!strcmp(scenarios[i].name, scenario))
            status = scenarios[i].run(comm, &error);
    printf("%s%s%s", zero_status_name(status), status ? ": " : "", status ? error.message : "");
    if (status != ZERO_OK)
        zero_comm_abort(comm, error.message);
    zero_comm_destroy(comm);
    return status ? 65 : 0;
}
