// Writes a checkpoint while the next step is computed. States do not change between two updates, so
// a thread of each rank writes them straight from their memory, one flat parameter after another in
// the order of the update, and the update waits for a flat parameter that is not written yet.
//
//   rank's thread   begin    | forward, backward ........... | update: await     | end
//                   (names,  |                               | flat parameter p, | (manifest,
//                   files)   |                               | change it         | name)
//   saving thread              write flat parameter 0, 1, 2, ... fsync
//
// Invariant, under the lock: flat parameters below `written` have been copied, so they may change;
// `ended` is set once all are on the disk, or one has failed. States are not copied: a rank needs
// no memory apart from the blocks of memory/direct.c. Those of a far device come through two pinned
// buffers (engine/far_memory.h).
#define _GNU_SOURCE
#include "comm/agreement.h"
#include "checkpoint/training_checkpoint.h"

#include "base/alloc.h"
#include "base/thread.h"

#include <pthread.h>
#include <time.h>

struct zero_checkpoint {
    zero_engine *engine;
    zr_state_vectors vectors;
    zr_states_saving *saving; // NULL if it is written already
    zr_workers *thread;
    pthread_mutex_t lock;
    pthread_cond_t advanced;
    int written;
    bool ended;
    zero_status status; // valid once `ended`
    zero_error error;
};

static void announce_progress(zero_checkpoint *c, int written, bool ended, zero_status status)
{
    pthread_mutex_lock(&c->lock);
    c->written = written;
    c->ended = ended;
    c->status = status;
    pthread_cond_broadcast(&c->advanced);
    pthread_mutex_unlock(&c->lock);
}

static void write_all_parts(void *argument)
{
    zero_checkpoint *c = argument;
    int parts = c->vectors.of->view.parts;
    zero_status status = ZERO_OK;
    for (int part = 0; part < parts && status == ZERO_OK; part++) {
        status = zr_states_save_part(c->saving, part, &c->error);
        if (status == ZERO_OK)
            announce_progress(c, part + 1, false, ZERO_OK);
    }
    if (status == ZERO_OK)
        status = zr_states_save_sync(c->saving, &c->error);
    announce_progress(c, parts, true, status);
}

// Waits until a flat parameter is written, or until all are on the disk. A disk may be slow, so
// this rank gives the others signs of life.
static void await_saving(zero_checkpoint *c, int flat_param, bool all)
{
    zero_comm *comm = zr_engine_comm(c->engine);
    pthread_mutex_lock(&c->lock);
    for (int64_t before = 0, now; !c->ended && (all || c->written <= flat_param); before = now) {
        struct timespec soon;
        clock_gettime(CLOCK_MONOTONIC, &soon);
        soon.tv_sec++;
        pthread_cond_timedwait(&c->advanced, &c->lock, &soon);
        now = zr_states_save_moved(c->saving);
        if (now != before || all)
            zr_comm_progress(comm, comm->step);
    }
    pthread_mutex_unlock(&c->lock);
}

// Waits for a flat parameter. After a failed save every flat parameter may change, because writing
// has stopped.
static zero_status await_flat_param(void *user, int flat_param, zero_error *error)
{
    zero_checkpoint *c = user;
    zr_recorder *recorder = zr_engine_comm(c->engine)->recorder;
    int64_t begin = zr_recorder_begin(recorder);
    await_saving(c, flat_param, false);
    zr_recorder_add(recorder, ZR_ACTIVITY_checkpoint_wait, begin, 0, 0, -1);
    return ZERO_OK;
}

static void begin_empty_checkpoint(zero_checkpoint *c, zero_engine *engine)
{
    pthread_condattr_t clock;
    *c = (zero_checkpoint){.engine = engine};
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&c->advanced, &clock);
    pthread_condattr_destroy(&clock);
}

static void destroy_saving(zero_checkpoint *c)
{
    zr_engine_guard(c->engine, NULL);
    zr_workers_destroy(c->thread);
    zr_state_vectors_free(&c->vectors);
    pthread_cond_destroy(&c->advanced);
    pthread_mutex_destroy(&c->lock);
    zr_free(c);
}

static zero_status begin_saving(zero_checkpoint *c, const char *directory, json_t *more,
                                zero_error *error)
{
    json_t *state;
    zero_comm *comm = zr_engine_comm(c->engine);
    zero_status status = zr_checkpoint_describe(c->engine, ZR_VIEW_SAVES, directory, more,
                                                &c->vectors, &state, error);
    if (status == ZERO_OK)
        status = zr_states_save_begin(comm, directory, c->vectors.of, c->vectors.count, state,
                                      &c->saving, error);
    json_decref(state);
    ZERO_TRY(status);
    for (int v = 0; v < ZR_COUNT(c->vectors.views); v++)
        c->vectors.views[v].beside = true;
    zr_engine_guard(c->engine, &(zr_guard){await_flat_param, c});
    // zero_end_checkpoint reports a failure
    status = zr_workers_create(1, 1, &c->thread, &c->error);
    if (status == ZERO_OK)
        status = zr_workers_submit(c->thread, write_all_parts, c, &c->error);
    // The save fails in zero_end_checkpoint, together with the other ranks.
    if (status != ZERO_OK)
        announce_progress(c, 0, true, status);
    return ZERO_OK;
}

static zero_status await_nothing(void *user, int flat_param, zero_error *error) { return ZERO_OK; }

// Writes everything now. Until zero_end_checkpoint, the engine refuses the same calls as during a
// save in the background.
static zero_status save_at_once(zero_checkpoint *c, const char *directory, json_t *more,
                                zero_error *error)
{
    ZERO_TRY(zr_checkpoint_save(c->engine, directory, more, error));
    zr_engine_guard(c->engine, &(zr_guard){await_nothing, NULL});
    return ZERO_OK;
}

zero_status zr_checkpoint_begin(zero_engine *engine, const char *directory, json_t *more,
                                zero_checkpoint **out, zero_error *error)
{
    *out = NULL;
    // Only one checkpoint may be written at a time.
    zero_status status = zr_engine_may_change(engine, "zero_begin_checkpoint", error);
    if (status != ZERO_OK) {
        json_decref(more);
        return status;
    }
    zero_checkpoint *c = zr_alloc(sizeof *c, error);
    status = zr_comm_agree(zr_engine_comm(engine), c ? ZERO_OK : ZERO_ERR_MEMORY, error);
    if (status != ZERO_OK) {
        json_decref(more);
        zr_free(c);
        return status;
    }
    begin_empty_checkpoint(c, engine);
    status = zr_engine_can_guard(engine) ? begin_saving(c, directory, more, error)
                                         : save_at_once(c, directory, more, error);
    if (status == ZERO_OK)
        *out = c;
    else
        destroy_saving(c);
    return status;
}

zero_status zero_begin_checkpoint(zero_engine *engine, const char *directory, zero_checkpoint **out,
                                  zero_error *error)
{
    ZR_NEED(error, out);
    *out = NULL;
    ZR_NEED(error, engine);
    ZR_NEED(error, directory);
    return zr_checkpoint_begin(engine, directory, NULL, out, error);
}

zero_status zero_end_checkpoint(zero_checkpoint *c, zero_error *error)
{
    zero_status status = ZERO_OK;
    if (!c)
        return ZERO_OK;
    if (c->saving) {
        await_saving(c, 0, true);
        status = zr_states_save_end(c->saving, c->status, &c->error);
    }
    if (error)
        *error = c->error;
    destroy_saving(c);
    return status;
}

void zr_checkpoint_abandon(zero_checkpoint *c)
{
    if (!c)
        return;
    if (c->saving) {
        zr_states_save_cancel(c->saving);
        await_saving(c, 0, true);
        zr_states_save_abandon(c->saving);
    }
    destroy_saving(c);
}
