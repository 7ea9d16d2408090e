#include "engine/far_memory.h"

#include "base/dtype.h"
#include "engine/engine_internal.h"
#include "plan/far_spaces.h"

#include <string.h>

static char *space_at(const zero_engine *engine, zr_space_id id) { return engine->spaces[id].at; }

// A failure may have come to the comm thread that tells the other pipeline stages of it.
zero_status zr_far_await(zero_engine *engine, zr_mark mark, zero_error *error)
{
    ZERO_TRY(zr_comm_finish(engine->grid.world, mark, "waiting for the device", NULL, error));
    return engine->channels.comm ? zr_comm_check(engine->channels.comm, error) : ZERO_OK;
}

// Waits until the engine's queue has done all that it was given.
static zero_status finish(zero_engine *engine, zero_error *error)
{
    return zr_far_await(engine, zr_queue_mark(engine->queue), error);
}

zero_status zr_far_settle(zero_engine *engine, zero_error *error)
{
    return engine->far.is ? finish(engine, error) : ZERO_OK;
}

static void copy(zero_engine *engine, const void *from, void *to, int64_t bytes)
{
    if (bytes > 0)
        zr_engine_run_aside(engine, zr_op_copy(&(zr_bytes){bytes}, from, to));
}

zero_status zr_far_begin(zero_engine *engine, zero_error *error)
{
    const zr_backend *backend = engine->queue->backend;
    engine->far.is = zr_device_is_far(engine->queue->device);
    engine->norms = (zr_norm_sums){&engine->sums.norm, engine->update.squares};
    if (!engine->far.is)
        return ZERO_OK;
    engine->norms.step = (zr_exact *)(void *)space_at(engine, ZR_SPACE_NORMS);
    engine->norms.tensors = engine->norms.step + 1;
    return zr_queue_open(backend->name, backend->path(), 1, &engine->far.saver, error);
}

void zr_far_end(zero_engine *engine) { zr_queue_close(engine->far.saver); }

zero_status zr_far_clear_stores(zero_engine *engine, zero_error *error)
{
    if (!engine->far.is)
        return ZERO_OK;
    for (int s = 0; s < ZR_STORE_COUNT; s++) {
        char *at = zr_store_at(&engine->stores[s], 0);
        if (at && engine->plan->stores[s].tier == ZERO_TIER_device)
            zr_engine_run_aside(engine, zr_op_fill(&(zr_bytes){engine->plan->stores[s].bytes}, at));
    }
    return finish(engine, error);
}

// ---- a micro-batch ----

static zero_status refuse_batch(const zero_tensors *batch, int index, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                   "a micro-batch of %d tensors, tensor %d of %zu bytes: a device takes tokens and "
                   "targets, int32 and of the engine's shape",
                   batch->count, index, zr_tensor_bytes(&batch->at[index]));
}

static bool reads_ids(const zero_engine *engine)
{
    return zr_far_chunk_reads(engine->plan, &engine->plan->chunks[engine->now.chunk]);
}

void zr_far_place_batch(zero_engine *engine, double *loss)
{
    zr_far *far = &engine->far;
    zero_context *context = &engine->view.context;
    int64_t room = zr_far_ids_bytes(engine->plan);
    context->loss = loss;
    if (!far->is)
        return;
    far->wanted = loss;
    context->loss = (double *)(void *)space_at(engine, ZR_SPACE_LANDING);
    context->device_batch = reads_ids(engine) ? &far->batch : NULL;
    if (!context->device_batch)
        return;
    char *device = space_at(engine, ZR_SPACE_IDS) + engine->now.set * ZR_FAR_TENSORS * room;
    far->batch = engine->view.batch;
    for (int i = 0; i < ZR_MIN(far->batch.count, ZR_FAR_TENSORS); i++, device += room)
        far->batch.at[i].data = device;
}

// What was in the pinned place has gone up. Without a pipeline the loss of each micro-batch is
// waited for. In one, the set's last micro-batch has come back from other stages, which had its
// message first; or its loss was waited for.
zero_status zr_far_send_batch(zero_engine *engine, zero_error *error)
{
    zr_far *far = &engine->far;
    const zero_tensors *batch = &engine->view.batch;
    int64_t room = zr_far_ids_bytes(engine->plan);
    if (!far->is || !reads_ids(engine))
        return ZERO_OK;
    int64_t set = engine->plan->pipeline ? engine->now.set : far->batches++ % ZR_FAR_SENT;
    char *pinned = space_at(engine, ZR_SPACE_SENT_IDS) + set * ZR_FAR_TENSORS * room;
    for (int i = 0; i < batch->count; i++, pinned += room) {
        int64_t bytes = (int64_t)zr_tensor_bytes(&batch->at[i]);
        if (i >= ZR_FAR_TENSORS || batch->at[i].dtype != ZERO_I32 || bytes > room)
            return refuse_batch(batch, i, error);
        memcpy(pinned, batch->at[i].data, (size_t)bytes);
        copy(engine, pinned, far->batch.at[i].data, bytes);
    }
    return ZERO_OK;
}

zero_status zr_far_bring_loss(zero_engine *engine, zero_error *error)
{
    if (!engine->far.is)
        return ZERO_OK;
    ZERO_TRY(finish(engine, error));
    *engine->far.wanted = *engine->view.context.loss;
    return ZERO_OK;
}

// ---- norms ----

static void clear_sums(zero_engine *engine, zr_exact *sums, int64_t count)
{
    zr_engine_run_aside(engine, zr_op_fill(&(zr_bytes){count * (int64_t)sizeof *sums}, sums));
}

void zr_norms_begin_step(zero_engine *engine)
{
    if (engine->far.is)
        clear_sums(engine, engine->norms.step, 1);
}

void zr_norms_begin_update(zero_engine *engine)
{
    int64_t count = 2 * engine->plan->tensor_count;
    clear_sums(engine, engine->norms.tensors, count);
    if (engine->far.is)
        memset(engine->update.squares, 0, (size_t)count * sizeof *engine->update.squares);
}

// Adds sums of the device to those of the host.
static zero_status bring(zero_engine *engine, const zr_exact *sums, int64_t count, zr_exact *to,
                         zero_error *error)
{
    const int64_t *landing =
        (const int64_t *)(const void *)(space_at(engine, ZR_SPACE_LANDING) + ZR_FAR_PAGE);
    if (!engine->far.is)
        return ZERO_OK;
    copy(engine, sums, (void *)landing, count * (int64_t)sizeof *sums);
    ZERO_TRY(finish(engine, error));
    for (int64_t i = 0; i < count * ZR_EXACT_WORDS; i++)
        ((int64_t *)to)[i] += landing[i];
    return ZERO_OK;
}

zero_status zr_norms_bring_step(zero_engine *engine, zero_error *error)
{
    return bring(engine, engine->norms.step, 1, &engine->sums.norm, error);
}

zero_status zr_norms_bring_tensors(zero_engine *engine, zero_error *error)
{
    return bring(engine, engine->norms.tensors, 2 * engine->plan->tensor_count,
                 engine->update.squares, error);
}

// ---- portions ----

// Buffers by which portions travel, one strip after another, and the queue that copies them.
typedef struct lane {
    zr_queue *queue;
    char *at;
    int64_t bytes; // of a buffer
    int buffers;
    double timeout;
} lane;

static lane lane_of(const zero_engine *engine, bool saves)
{
    const zr_space_id space = saves ? ZR_SPACE_SAVED : ZR_SPACE_STRIP;
    const int buffers = saves ? ZR_FAR_SAVED : 1;
    return (lane){.queue = saves ? engine->far.saver : engine->queue,
                  .at = space_at(engine, space),
                  .bytes = engine->plan->spaces[space].bytes / buffers,
                  .buffers = buffers,
                  .timeout = engine->grid.world->timeout};
}

static int64_t strips_of(const lane *lane, const zr_portion *whole)
{
    int64_t most = lane->bytes / (int64_t)zero_dtype_bytes(whole->dtype);
    return (whole->span.count + most - 1) / most;
}

static zr_portion nth_strip(const lane *lane, const zr_portion *whole, int64_t n)
{
    int64_t most = lane->bytes / (int64_t)zero_dtype_bytes(whole->dtype), first = n * most;
    return (zr_portion){
        .span = {whole->span.first + first, ZR_MIN(most, whole->span.count - first)},
        .dtype = whole->dtype,
        .data = lane->at + n % lane->buffers * lane->bytes};
}

// Copies a strip to its buffer, or back from there. Returns the copy's mark.
static zr_mark copy_strip(const lane *lane, const zr_portion *whole, int64_t n, bool back)
{
    const zr_portion strip = nth_strip(lane, whole, n);
    zr_queue queue = zr_queue_inside(lane->queue);
    char *place = zr_portion_at(whole, strip.span.first);
    zr_run(&queue,
           zr_op_copy(&(zr_bytes){strip.span.count * (int64_t)zero_dtype_bytes(strip.dtype)},
                      back ? strip.data : place, back ? place : strip.data));
    return zr_queue_mark(lane->queue);
}

// A save that fails is no failure of its step, which goes on.
static zero_status await_copy(zero_engine *engine, const lane *lane, zr_mark copied,
                              zero_error *error)
{
    return lane->queue == engine->far.saver ? zr_mark_finish(copied, lane->timeout, error)
                                            : zr_far_await(engine, copied, error);
}

static zero_status take_strips(zero_engine *engine, const lane *lane, const zr_portion *whole,
                               zr_portion_use use, const zr_portion_taker *taker, zero_error *error)
{
    int64_t strips = strips_of(lane, whole), begun = 0;
    zr_mark copied[ZR_FAR_SAVED];
    for (int64_t n = 0; n < strips; n++) {
        for (; begun < ZR_MIN(n + lane->buffers, strips); begun++)
            copied[begun % lane->buffers] = copy_strip(lane, whole, begun, false);
        const zr_portion strip = nth_strip(lane, whole, n);
        ZERO_TRY(await_copy(engine, lane, copied[n % lane->buffers], error));
        ZERO_TRY(taker->take(taker->user, &strip, error));
        if (use == ZR_PORTIONS_CHANGED) {
            copy_strip(lane, whole, n, true);
            ZERO_TRY(finish(engine, error)); // the strip may be written by the host again
        }
        if (use != ZR_PORTIONS_SAVED)
            zr_comm_progress(engine->grid.world, engine->progress.step);
    }
    return ZERO_OK;
}

// What the saver reads comes after what the engine's queue had been given when the guard was set.
static void follow_guard(zero_engine *engine)
{
    zr_queue_after(engine->far.saver, engine->far.guarded);
    engine->far.guarded = (zr_mark){0};
}

zero_status zr_far_saver_settle(zero_engine *engine, zero_error *error)
{
    if (!engine->far.is)
        return ZERO_OK;
    follow_guard(engine);
    return zr_mark_finish(zr_queue_mark(engine->far.saver), engine->grid.world->timeout, error);
}

zero_status zr_strips_each(zero_engine *engine, const zr_portion *whole, zr_portion_use use,
                           zr_portion_fn take, void *user, zero_error *error)
{
    const lane lane = lane_of(engine, use == ZR_PORTIONS_SAVED);
    if (use == ZR_PORTIONS_SAVED)
        follow_guard(engine);
    zero_status status =
        take_strips(engine, &lane, whole, use, &(zr_portion_taker){take, user}, error);
    // A save that has failed reads nothing any more.
    if (status != ZERO_OK && use == ZR_PORTIONS_SAVED)
        zr_mark_finish(zr_queue_mark(lane.queue), lane.timeout, NULL);
    return status;
}

zero_status zr_vector_broadcast(zero_engine *engine, int flat_param, zr_vector vector, int root,
                                zero_error *error)
{
    zero_comm *data = engine->grid.data;
    int64_t shard = engine->plan->flat_params[flat_param].shard,
            bytes = zr_vector_bytes(&engine->plan->settings, vector, shard);
    char *strip = space_at(engine, ZR_SPACE_STRIP),
         *place = zr_vector_at(engine, flat_param, vector, root * shard);
    if (!engine->far.is || zr_vector_tier_of(engine, flat_param, vector) != ZERO_TIER_device)
        return zr_comm_broadcast(data, place, bytes, root, error);
    for (int64_t done = 0, n; done < bytes; done += n) {
        n = ZR_MIN(engine->plan->spaces[ZR_SPACE_STRIP].bytes, bytes - done);
        if (data->rank == root) {
            copy(engine, place + done, strip, n);
            ZERO_TRY(finish(engine, error));
        }
        ZERO_TRY(zr_comm_broadcast(data, strip, n, root, error));
        if (data->rank != root) {
            copy(engine, strip, place + done, n);
            ZERO_TRY(finish(engine, error));
        }
    }
    return ZERO_OK;
}
