// The delayed update and its thread. Invariant, under the lock: groups from `at` on are done;
// `ended` is set once all of them are, or once the update has failed. The fields that the walk
// reads change only while no update is under way.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "engine/engine_internal.h"

#include <pthread.h>
#include <time.h>

struct zr_delayed {
    zero_engine *engine;
    zr_workers *thread;
    zr_queue *queue;
    zr_update_walk walk;
    zr_update_values values; // of the walk
    // Used by the rank's thread only. first: the update reads moments that have never been written.
    bool first;
    pthread_mutex_t lock;
    pthread_cond_t advanced;
    int at;
    bool ended;
    int64_t group_begun; // nanoseconds
    zero_status status;
    zero_error error;
};

zero_status zr_delayed_create(zero_engine *engine, zero_error *error)
{
    const zr_backend *backend = engine->host_queue->backend;
    zr_delayed *delayed = zr_alloc(sizeof *delayed, error);
    engine->delayed = delayed;
    if (!delayed)
        return ZERO_ERR_MEMORY;
    delayed->engine = engine;
    pthread_mutex_init(&delayed->lock, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&delayed->advanced, &clock);
    pthread_condattr_destroy(&clock);
    ZERO_TRY(zr_queue_open(backend->name, backend->path(), engine->queue->threads, &delayed->queue,
                           error));
    return zr_workers_create(1, 1, &delayed->thread, error);
}

void zr_delayed_destroy(zr_delayed *delayed)
{
    if (!delayed)
        return;
    zr_workers_destroy(delayed->thread);
    zr_queue_close(delayed->queue);
    pthread_cond_destroy(&delayed->advanced);
    pthread_mutex_destroy(&delayed->lock);
    zr_free(delayed);
}

// Called by the thread that updates: waits until the transfer has ended, and records it.
static zero_status await_transfer(zero_engine *engine, zr_transfer *transfer, zero_error *error)
{
    zr_delayed *delayed = engine->delayed;
    if (!transfer->store)
        return ZERO_OK;
    zero_status status = zr_transfer_wait(transfer, error);
    pthread_mutex_lock(&delayed->lock);
    zr_offload_record(engine->recorder, &transfer->request);
    pthread_mutex_unlock(&delayed->lock);
    return status;
}

// Called by the thread that updates when it is done with a group.
static void end_group(zero_engine *engine, int group)
{
    zr_delayed *delayed = engine->delayed;
    int64_t now = zr_clock_nanoseconds(),
            bytes = engine->plan->groups[group].count * (int64_t)sizeof(float);
    pthread_mutex_lock(&delayed->lock);
    zr_recorder_add_overlapped(engine->recorder, ZR_ACTIVITY_delayed_update, delayed->group_begun,
                               now, bytes);
    delayed->at = group;
    delayed->group_begun = now;
    pthread_cond_broadcast(&delayed->advanced);
    pthread_mutex_unlock(&delayed->lock);
}

static const zr_overlapped_walk on_update_thread = {.await = await_transfer,
                                                    .group_done = end_group};

static void run_delayed_update(void *argument)
{
    zr_delayed *delayed = argument;
    zr_walk_vectors walks[ZR_MOST_WALKS];
    zr_plan_walks(delayed->engine->plan, walks);
    const zr_walk walk = {.vectors = walks[0],
                          .take = zr_update_shard_slice,
                          .user = &delayed->walk,
                          .overlapped = &on_update_thread};
    zero_status status = zr_groups_walk(delayed->engine, &walk, &delayed->error);
    pthread_mutex_lock(&delayed->lock);
    delayed->status = status;
    delayed->ended = true;
    pthread_cond_broadcast(&delayed->advanced);
    pthread_mutex_unlock(&delayed->lock);
}

zero_status zr_delayed_begin(zero_engine *engine, zero_error *error)
{
    zr_delayed *delayed = engine->delayed;
    zr_tier_traffic_begin(engine);
    delayed->walk = zr_update_describe(engine, delayed->queue, &delayed->values);
    delayed->first = !engine->update.states_written;
    engine->update.states_written = true;
    delayed->at = engine->plan->group_count;
    delayed->ended = false;
    delayed->group_begun = zr_clock_nanoseconds();
    engine->update.overlaps = true;
    return zr_workers_submit(delayed->thread, run_delayed_update, delayed, error);
}

// Waits until the thread is done with `group` or has ended. No wait lasts forever: the thread moves
// on, or one of its transfers runs out of time and the update fails.
static zero_status await_updated_group(zero_engine *engine, int group, zero_error *error)
{
    zr_delayed *delayed = engine->delayed;
    int64_t begin = zr_recorder_begin(engine->recorder);
    pthread_mutex_lock(&delayed->lock);
    for (int before = delayed->at; delayed->at > group && !delayed->ended;) {
        struct timespec soon;
        clock_gettime(CLOCK_MONOTONIC, &soon);
        soon.tv_sec++;
        pthread_cond_timedwait(&delayed->advanced, &delayed->lock, &soon);
        if (delayed->at != before)
            zr_comm_progress(engine->grid.world, engine->progress.step);
        before = delayed->at;
    }
    zero_status status = delayed->ended ? delayed->status : ZERO_OK;
    pthread_mutex_unlock(&delayed->lock);
    zr_recorder_add(engine->recorder, ZR_ACTIVITY_delayed_wait, begin, 0, 0, -1);
    return status == ZERO_OK ? ZERO_OK : zr_fail(error, status, "%s", delayed->error.message);
}

zero_status zr_delayed_await_group(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    int group = i->slot.index;
    if (group < 0)
        return zr_delayed_join(engine, error);
    return engine->update.overlaps ? await_updated_group(engine, group, error) : ZERO_OK;
}

// Within a step the bytes of the update are compared at the boundary; between two steps, here.
zero_status zr_delayed_join(zero_engine *engine, zero_error *error)
{
    zr_delayed *delayed = engine->delayed;
    if (!engine->update.overlaps)
        return ZERO_OK;
    ZERO_TRY(await_updated_group(engine, -1, error));
    engine->update.overlaps = false;
    engine->versions.lag = true;
    zr_tier_traffic_expect_update(engine, 0, delayed->first);
    return engine->phase == ZR_READY && engine->now.micro_batch == 0
               ? zr_tier_traffic_check(engine, error)
               : ZERO_OK;
}

void zr_delayed_record(zero_engine *engine, zr_recorder *recorder)
{
    if (engine->delayed)
        pthread_mutex_lock(&engine->delayed->lock);
    engine->recorder = recorder;
    zr_grid_record(&engine->grid, recorder);
    if (engine->delayed)
        pthread_mutex_unlock(&engine->delayed->lock);
}
