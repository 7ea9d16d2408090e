#include "comm_grid.h"

#include "exercise.h"

#include "base/clock.h"
#include "base/random.h"

#include <sched.h>
#include <string.h>

zero_status grid_open(zero_comm *job, grid *out, zero_error *error)
{
    *out = (grid){.job = job};
    ZERO_TRY(zr_comm_split(job, job->rank / 2, job->rank, "tensor", &out->tensor, error));
    zero_status status = zr_comm_split(job, job->rank % 2, job->rank, "data", &out->data, error);
    if (status != ZERO_OK)
        grid_close(out);
    return status;
}

void grid_close(grid *grid)
{
    zero_comm_destroy(grid->data);
    zero_comm_destroy(grid->tensor);
    grid->data = grid->tensor = NULL;
}

// ---- every operation over groups ----

typedef struct layout { // by rank of the job
    int colour[GRID_RANKS], key[GRID_RANKS];
    int members[GRID_RANKS][GRID_RANKS]; // of each rank's group, in its order
    int size[GRID_RANKS];
} layout;

static const layout layouts[] = {
    {{0, 0, 1, 1}, {0, 0, 0, 0}, {{0, 1}, {0, 1}, {2, 3}, {2, 3}}, {2, 2, 2, 2}},
    {{7, 5, 7, 5}, {0, 1, 2, 3}, {{0, 2}, {1, 3}, {0, 2}, {1, 3}}, {2, 2, 2, 2}},
    {{0, 0, 1, 0}, {3, -1, 0, 3}, {{1, 0, 3}, {1, 0, 3}, {2}, {1, 0, 3}}, {3, 3, 1, 3}},
    {{0, 0, 0, 0},
     {3, 2, 1, 0},
     {{3, 2, 1, 0}, {3, 2, 1, 0}, {3, 2, 1, 0}, {3, 2, 1, 0}},
     {4, 4, 4, 4}},
    {{3, 2, 1, 0}, {0, 0, 0, 0}, {{0}, {1}, {2}, {3}}, {1, 1, 1, 1}},
};

static zero_status check_members(const zero_comm *job, const zero_comm *group, const layout *want,
                                 zero_error *error)
{
    bool right = group->job == job && !strcmp(group->group, "some") &&
                 group->size == want->size[job->rank] && group->timeout == job->timeout;
    for (int r = 0; right && r < group->size; r++)
        right = zr_comm_job_rank(group, r) == want->members[job->rank][r];
    if (!right || zr_comm_job_rank(group, group->rank) != job->rank)
        return zr_fail(error, ZERO_ERR_DATA, "rank %d is in another group", job->rank);
    return ZERO_OK;
}

static zero_status exercise_group(zero_comm *group, uint64_t *digests, zero_error *error)
{
    uint64_t digest;
    ZERO_TRY(exercise(group, &digest, error));
    if (digests[group->size] && digests[group->size] != digest)
        return zr_fail(error, ZERO_ERR_DATA, "groups of %d have other bits", group->size);
    digests[group->size] = digest;
    return ZERO_OK;
}

zero_status exercise_groups(zero_comm *job, uint64_t *digests, zero_error *error)
{
    memset(digests, 0, sizeof *digests * (GRID_RANKS + 1));
    for (int i = 0; i < ZR_COUNT(layouts); i++) {
        const layout *layout = &layouts[i];
        zero_comm *group;
        ZERO_TRY(zr_comm_split(job, layout->colour[job->rank], layout->key[job->rank], "some",
                               &group, error));
        zero_status status = check_members(job, group, layout, error);
        if (status == ZERO_OK)
            status = exercise_group(group, digests, error);
        zero_comm_destroy(group);
        ZERO_TRY(status);
    }
    // The job has counted none of this.
    return job->message_count == 0 && job->traffic.calls[ZERO_COMM_reduce_scatter] == 0
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_DATA, "the job counts what its groups do");
}

// ---- several groups at once ----

enum { LANES = 3, SLOTS = 2, ELEMS = 96, STEPS = 400 };

typedef struct lane { // of one communicator
    zero_comm *comm;
    zr_window window; // (SLOTS, size, ELEMS)
    zr_handle handle[SLOTS];
    float sum[SLOTS][ELEMS];
    int step[SLOTS]; // at which the operation was started
} lane;

static float value_at(int rank, int step, int64_t i)
{
    return (float)((rank + 1) * (step % 50 + 1) + i % 7);
}

static float sum_at(const zero_comm *comm, int step, int64_t i)
{
    float sum = 0; // of whole numbers: exact
    for (int r = 0; r < comm->size; r++)
        sum += value_at(zr_comm_job_rank(comm, r), step, i);
    return sum;
}

static int64_t offset_of(const lane *lane, int slot)
{
    return slot * (int64_t)sizeof(float) * ELEMS * lane->comm->size;
}

static float *region_of(const lane *lane, int slot)
{
    return (float *)(lane->window.mine + offset_of(lane, slot));
}

static zero_status wrong(const lane *lane, const char *what, int slot, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "rank %d, step %d: wrong %s in a group of %d",
                   lane->comm->job->rank, lane->step[slot], what, lane->comm->size);
}

static zero_status check_sum(const lane *lane, int slot, zero_error *error)
{
    for (int i = 0; i < ELEMS; i++)
        if (lane->sum[slot][i] !=
            sum_at(lane->comm, lane->step[slot], lane->comm->rank * ELEMS + i))
            return wrong(lane, "sum", slot, error);
    return ZERO_OK;
}

static zero_status check_gathered(const lane *lane, int slot, zero_error *error)
{
    const float *region = region_of(lane, slot);
    for (int i = 0; i < ELEMS * lane->comm->size; i++)
        if (region[i] !=
            value_at(zr_comm_job_rank(lane->comm, i / ELEMS), lane->step[slot], i % ELEMS))
            return wrong(lane, "shard", slot, error);
    return ZERO_OK;
}

// Waits for what is under way in a slot, if anything is.
static zero_status finish(lane *lane, int slot, zero_error *error)
{
    zr_handle *handle = &lane->handle[slot];
    if (!handle->pending)
        return ZERO_OK;
    ZERO_TRY(zr_comm_wait(handle, error));
    ZERO_TRY(
        (handle->op == ZERO_COMM_reduce_scatter ? check_sum : check_gathered)(lane, slot, error));
    return zr_comm_quiesce(&lane->window, slot, error);
}

static void fill(lane *lane, int slot, int step)
{
    lane->step[slot] = step;
    for (int i = 0; i < ELEMS * lane->comm->size; i++)
        region_of(lane, slot)[i] = value_at(lane->comm->job->rank, step, i);
}

static zero_status begin_sum(lane *lane, int slot, int step, zero_error *error)
{
    const zr_sum_target to = {.data = lane->sum[slot], .dtype = ZERO_F32};
    fill(lane, slot, step);
    return zr_comm_start(&lane->window, ZERO_COMM_reduce_scatter, slot, offset_of(lane, slot),
                         ELEMS, ZERO_F32, &to, &lane->handle[slot], error);
}

static zero_status begin_gather(lane *lane, int slot, int step, zero_error *error)
{
    float *region = region_of(lane, slot);
    lane->step[slot] = step;
    for (int i = 0; i < ELEMS; i++)
        region[lane->comm->rank * ELEMS + i] = value_at(lane->comm->job->rank, step, i);
    return zr_comm_start(&lane->window, ZERO_COMM_all_gather, slot, offset_of(lane, slot), ELEMS,
                         ZERO_F32, NULL, &lane->handle[slot], error);
}

static zero_status all_reduce(lane *lane, int slot, int step, zero_error *error)
{
    fill(lane, slot, step);
    ZERO_TRY(zr_comm_all_reduce(&lane->window, slot, offset_of(lane, slot), ELEMS, error));
    for (int i = 0; i < ELEMS * lane->comm->size; i++)
        if (region_of(lane, slot)[i] != sum_at(lane->comm, step, i))
            return wrong(lane, "all-reduce", slot, error);
    return ZERO_OK;
}

static zero_status sum_small(lane *lane, int slot, int step, zero_error *error)
{
    float sum = value_at(lane->comm->job->rank, step, slot);
    lane->step[slot] = step;
    ZERO_TRY(zr_comm_all_reduce_small(lane->comm, &sum, 1, ZERO_F32, ZR_SUM, error));
    return sum == sum_at(lane->comm, step, slot) ? ZERO_OK : wrong(lane, "small sum", slot, error);
}

static zero_status meet(lane *lane, int slot, int step, zero_error *error)
{
    return zr_comm_barrier(lane->comm, error);
}

static zero_status (*const operations[])(lane *, int, int, zero_error *) = {
    begin_sum, begin_gather, begin_sum, begin_gather, all_reduce, sum_small, meet};

// Lets a rank be late now and then, and, where a comm thread exchanges, wait when it likes.
static zero_status dawdle(lane *lanes, const zr_philox *own, zero_error *error)
{
    lane *lane = &lanes[own->v[0] % LANES];
    if (own->v[1] % 8 == 0)
        zr_sleep_seconds(0.0002);
    else if (own->v[1] % 2)
        sched_yield();
    return lane->comm->comm_thread && own->v[2] % 4 == 0
               ? finish(lane, own->v[2] / 4 % SLOTS, error)
               : ZERO_OK;
}

static zero_status run_steps(lane *lanes, uint64_t seed, zero_error *error)
{
    for (int step = 0; step < STEPS; step++) {
        zr_philox all = zr_philox4x32(seed, 0, (uint64_t)step),
                  own = zr_philox4x32(seed, 1 + (uint64_t)lanes[0].comm->rank, (uint64_t)step);
        lane *lane = &lanes[all.v[0] % LANES];
        int slot = (int)(all.v[1] % SLOTS);
        zr_comm_progress(lane->comm, step);
        ZERO_TRY(finish(lane, slot, error));
        ZERO_TRY(operations[all.v[2] % ZR_COUNT(operations)](lane, slot, step, error));
        ZERO_TRY(dawdle(lanes, &own, error));
    }
    for (int i = 0; i < LANES * SLOTS; i++)
        ZERO_TRY(finish(&lanes[i / SLOTS], i % SLOTS, error));
    return ZERO_OK;
}

static zero_status open_lane(zero_comm *comm, bool comm_thread, lane *out, zero_error *error)
{
    static const char *const names[SLOTS] = {"one", "other"};
    *out = (lane){.comm = comm};
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SYMMETRIC,
                              SLOTS * (int64_t)sizeof(float) * ELEMS * comm->size, SLOTS, names,
                              &out->window, error));
    return comm_thread ? zr_comm_overlap(comm, error) : ZERO_OK;
}

zero_status interleave_groups(zero_comm *job, comm_thread_case comm_threads, uint64_t seed,
                              zero_error *error)
{
    lane lanes[LANES] = {0};
    grid grid;
    ZERO_TRY(grid_open(job, &grid, error));
    zero_status status = open_lane(grid.data, comm_threads >= DATA_COMM_THREAD, &lanes[0], error);
    if (status == ZERO_OK)
        status = open_lane(grid.tensor, comm_threads == ALL_COMM_THREADS, &lanes[1], error);
    if (status == ZERO_OK)
        status = open_lane(job, comm_threads == ALL_COMM_THREADS, &lanes[2], error);
    if (status == ZERO_OK)
        status = run_steps(lanes, seed, error);
    for (int i = 0; i < LANES; i++)
        zr_window_destroy(&lanes[i].window);
    grid_close(&grid);
    return status;
}
