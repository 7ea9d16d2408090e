// Creates and destroys an engine: compares the plans of all ranks, reserves what the plan lists
// (spaces.c), and draws the first weights.
#include "base/alloc.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/random.h"
#include "base/text.h"
#include "comm/agreement.h"
#include "engine/factored.h"
#include "engine/far_check.h"
#include "engine/far_states.h"
#include "engine/interpret.h"
#include "engine/muon.h"
#include "model/lm_build.h"
#include "model/pipeline_stage_cut.h"

#include <string.h>

static zero_status make_tables(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    size_t count = (size_t)plan->flat_param_count, slots = count * (size_t)plan->versions;
    zr_bound *bound = &engine->bound;
    bound->names = zr_alloc(slots * sizeof *bound->names, error);
    bound->at = zr_alloc(count * sizeof *bound->at, error);
    bound->collecting = zr_alloc(count * sizeof *bound->collecting, error);
    engine->versions.published =
        zr_alloc((size_t)plan->versions * sizeof *engine->versions.published, error);
    engine->update.squares =
        zr_alloc(2 * (size_t)plan->tensor_count * sizeof *engine->update.squares, error);
    engine->update.factor_savers =
        zr_alloc((size_t)plan->tensor_count * sizeof *engine->update.factor_savers, error);
    size_t steps = plan->pipeline ? (size_t)plan->pipeline->pipeline.steps : 1;
    engine->operands.values = zr_alloc(steps * sizeof *engine->operands.values, error);
    if (!bound->names || !bound->at || !bound->collecting || !engine->versions.published ||
        !engine->update.squares || !engine->update.factor_savers || !engine->operands.values)
        return ZERO_ERR_MEMORY;
    engine->view.context.values = engine->operands.values;
    for (size_t p = 0; p < slots; p++)
        bound->names[p] = plan->flat_params[p % count].name;
    return zr_slots_reserve(engine, error);
}

// The slots of channels count as communication.
static void hold_slots(zero_engine *engine)
{
    const zero_comm *pipeline = engine->grid.pipeline;
    for (int i = 0; i < engine->plan->link_count; i++) {
        const zr_channel_shape *shape = &engine->channel_shapes[i];
        bool on_host = engine->far.is && shape->on_host;
        zr_ledger_hold(
            &engine->ledger, on_host ? ZERO_TIER_host : ZERO_TIER_device, ZERO_MEM_communication,
            zr_channel_shapes_bytes(shape, 1, pipeline->rank, pipeline->versions != NULL));
    }
}

// Makes the channels of the plan's links.
static zero_status open_channels(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    zr_steps *steps = &engine->steps;
    if (!plan->pipeline)
        return ZERO_OK;
    size_t count = (size_t)plan->pipeline->pipeline.steps;
    steps->losses =
        zr_alloc(count * (size_t)plan->settings.accumulation * sizeof *steps->losses, error);
    steps->sums = zr_alloc(count * sizeof *steps->sums, error);
    steps->actions = zr_alloc((size_t)plan->action_count * sizeof *steps->actions, error);
    zr_channel_shape *shapes = zr_alloc((size_t)plan->link_count * sizeof *shapes, error);
    engine->channel_shapes = shapes;
    if (!steps->losses || !steps->sums || !steps->actions || !shapes)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < plan->link_count; i++) {
        const zr_link *link = &plan->links[i];
        shapes[i] = (zr_channel_shape){.from = link->from,
                                       .to = link->to,
                                       .slots = link->slots,
                                       .bytes = link->bytes,
                                       .first = link->first,
                                       .name = link->name,
                                       .on_host = link->on_host};
    }
    ZERO_TRY(zr_channels_create(engine->grid.pipeline, shapes, plan->link_count, &engine->channels,
                                error));
    hold_slots(engine);
    return ZERO_OK;
}

// Compares a plan's hash and every number that an update or a random value depends on, because
// ranks that differ in one of them would drift apart.
static zero_status compare_hashes_among(zero_engine *engine, zero_comm *comm, uint64_t plan,
                                        zero_error *error)
{
    zr_buffer text = {0};
    zr_config_write(engine->config, &text);
    bool failed = text.failed;
    uint64_t hash = failed ? 0 : zr_hash_bytes(text.data, text.length, plan ^ engine->parts.seed);
    zr_buffer_free(&text);
    if (failed)
        return zr_fail(error, ZERO_ERR_MEMORY,
                       "no memory to compare the configurations of the ranks");
    int64_t low = (int64_t)(hash >> 1), high = low;
    ZERO_TRY(zr_comm_all_reduce_small(comm, &low, 1, ZERO_I64, ZR_MIN, error));
    ZERO_TRY(zr_comm_all_reduce_small(comm, &high, 1, ZERO_I64, ZR_MAX, error));
    if (low == high)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "comparing the plans of %d ranks: they differ (rank %d has %016llx); every "
                   "rank needs the same model, configuration, shape, seed, number of threads "
                   "and backend (here %s:%s)",
                   comm->size, engine->grid.world->rank, (unsigned long long)hash,
                   engine->queue->backend->name, engine->queue->backend->path());
}

// Tensor ranks hold different parts of the model, so only what does not depend on the part is
// compared among all ranks. If the data ranks of one part differ, all other ranks hear of it,
// because they would wait for them.
static zero_status compare_plans(zero_engine *engine, zero_error *error)
{
    const zr_grid *grid = &engine->grid;
    if (grid->data == grid->world)
        return compare_hashes_among(engine, grid->world, engine->plan->hash, error);
    ZERO_TRY(compare_hashes_among(engine, grid->world, engine->plan->job_hash, error));
    zero_status status = compare_hashes_among(engine, grid->data, engine->plan->hash, error);
    return zr_comm_agree(grid->world, status, error);
}

typedef struct drawing {
    const zero_engine *engine;
    const zr_flat_param *flat_param;
    const zr_portion *portion;
} drawing;

static void draw_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    const drawing *d = user;
    if (d->flat_param->kind == ZERO_CODES) {
        memset(zr_portion_at(d->portion, first), 0, (size_t)count);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(d->engine->queue->threads)
    for (int64_t at = 0; at < count; at += ZR_CHUNK) {
        float drawn[ZR_CHUNK];
        int64_t n = ZR_MIN(ZR_CHUNK, count - at);
        zr_tensor_initialise(tensor->desc, d->engine->parts.seed, first - tensor->first + at, n,
                             drawn);
        zr_narrow(d->portion->dtype, drawn, n, zr_portion_at(d->portion, first + at));
    }
}

static zero_status draw_portion(void *user, const zr_portion *portion, zero_error *error)
{
    drawing *d = user;
    d->portion = portion;
    zr_for_parts(d->flat_param, portion->span, draw_part, d);
    return ZERO_OK;
}

// Draws this rank's own shards; the values depend only on the seed and the tensor's name.
static zero_status draw_weights(zero_engine *engine, zero_error *error)
{
    for (int p = 0; p < engine->plan->flat_param_count; p++) {
        drawing drawing = {.engine = engine, .flat_param = &engine->plan->flat_params[p]};
        ZERO_TRY(zr_engine_vector_each(engine, p, ZR_VECTOR_MASTER, ZR_PORTIONS_CHANGED,
                                       draw_portion, &drawing, error));
        zr_comm_progress(engine->grid.world, 0);
    }
    return zr_engine_parameters_changed(engine, error);
}

// Bytes that take about a second to reserve, and parameters that take one to draw and store.
static const int64_t LONG_TO_RESERVE = 1000 << 20, LONG_TO_DRAW = 200 << 20;

// Logs on rank 0 what is about to take long.
static void say_reserve(const zero_engine *engine)
{
    int64_t nvme = zr_plan_tier_bytes(engine->plan, ZERO_TIER_nvme),
            memory = zr_plan_total_bytes(engine->plan);
    char text[ZR_BYTES_TEXT], on_disk[ZR_BYTES_TEXT];
    if (engine->grid.world->rank > 0 || memory + nvme < LONG_TO_RESERVE)
        return;
    zr_bytes_text((double)memory, text);
    zr_bytes_text((double)nvme, on_disk);
    zr_log(&engine->parts.logger, ZERO_LOG_INFO, "start    a rank reserves %s%s%s", text,
           nvme ? ", and on NVMe " : "", nvme ? on_disk : "");
}

static void say_draw(const zero_engine *engine)
{
    int64_t bytes = 0, nvme = engine->ledger.planned[ZERO_TIER_nvme][ZERO_MEM_parameters];
    for (zero_tier tier = 0; tier < ZERO_TIER_COUNT; tier++)
        bytes += engine->ledger.planned[tier][ZERO_MEM_parameters];
    char text[ZR_BYTES_TEXT];
    if (engine->grid.world->rank > 0 || bytes < LONG_TO_DRAW)
        return;
    zr_bytes_text((double)bytes, text);
    zr_log(&engine->parts.logger, ZERO_LOG_INFO, "start    a rank draws its first weights, %s%s",
           text, nvme ? ", and writes them to NVMe" : "");
}

// Makes the windows of all groups lie on the queue's device.
static zero_status use_queue_of_device(zero_engine *engine, zero_error *error)
{
    const zr_grid *grid = &engine->grid;
    zero_comm *const groups[] = {grid->data, grid->tensor, grid->replicas, grid->pipeline};
    ZERO_TRY(zr_far_check(engine->queue->device->ops->name, engine->plan, error));
    ZERO_TRY(zr_far_states_open(engine, error));
    for (int i = 0; i < ZR_COUNT(groups); i++)
        if (groups[i])
            ZERO_TRY(zr_comm_use_queue(groups[i], engine->queue, error));
    return ZERO_OK;
}

static zero_status prepare_engine(zero_engine *engine, zero_error *error)
{
    zr_arena *workspace = &engine->spaces[ZR_SPACE_WORKSPACE].arena;
    zr_queue *queue = engine->queue;
    ZERO_TRY(compare_plans(engine, error));
    ZERO_TRY(zr_parts_check(&engine->grid, engine->plan, error));
    ZERO_TRY(make_tables(engine, error));
    if (zr_device_is_far(queue->device))
        ZERO_TRY(use_queue_of_device(engine, error));
    say_reserve(engine);
    ZERO_TRY(zr_spaces_reserve(engine, error));
    ZERO_TRY(zr_far_begin(engine, error));
    if (engine->plan->factor_elems)
        ZERO_TRY(zr_factored_create(engine, error));
    zr_tensor_exchange_begin(engine);
    engine->view.context.workspace =
        zr_arena_take(workspace, (size_t)engine->plan->workspace_bytes);
    queue->scratch_bytes = (size_t)engine->plan->product_scratch_bytes;
    queue->scratch = zr_arena_take(workspace, queue->scratch_bytes);
    double began = zr_clock_seconds();
    ZERO_TRY(open_channels(engine, error));
    engine->making.sharing += zr_clock_seconds() - began;
    ZERO_TRY(zr_stores_reserve(engine, error));
    zr_ledger_hold(&engine->ledger, ZERO_TIER_device, ZERO_MEM_communication,
                   zr_grid_staging_bytes(&engine->grid));
    zr_ledger_hold(&engine->ledger, ZERO_TIER_device, ZERO_MEM_workspace,
                   engine->plan->runtime_bytes);
    ZERO_TRY(zr_far_clear_stores(engine, error));
    if (engine->plan->settings.delayed)
        ZERO_TRY(zr_delayed_create(engine, error));
    ZERO_TRY(zr_muon_create(engine, error));
    ZERO_TRY(zr_ledger_check(&engine->ledger, error));
    ZERO_TRY(zr_operands_bound(engine, error));
    say_draw(engine);
    began = zr_clock_seconds();
    ZERO_TRY(draw_weights(engine, error));
    engine->making.drawing = zr_clock_seconds() - began;
    return ZERO_OK;
}

static void release_parts(const zr_engine_parts *parts)
{
    zr_grid grid = parts->grid;
    zero_comm *world = grid.world;
    zr_grid_destroy(&grid);
    zr_comm_detach(world);
    zr_queue_close(parts->queue);
    zr_config_destroy(parts->config);
    zr_plan_destroy(parts->plan);
    zr_free(parts->pipeline);
    zr_pipeline_stage_free(parts->stage);
    zr_lm_free(parts->part);
}

// Ends the waits of the other ranks after a failure of only this rank, such as lack of memory: they
// wait for it in prepare_engine. All ranks find at once that plans differ (ZERO_ERR_USAGE), so no
// rank waits then.
static zero_status end_waits_of_others(zero_comm *comm, zero_status status, const zero_error *error)
{
    if (status != ZERO_ERR_USAGE)
        zero_comm_abort(comm,
                        error && error->message[0] ? error->message : zero_status_text(status));
    return status;
}

static void fill_engine(zero_engine *engine, const zr_engine_parts *parts)
{
    engine->plan = parts->plan;
    engine->config = parts->config;
    engine->queue = engine->host_queue = parts->queue;
    engine->grid = parts->grid;
    engine->parts = *parts;
    engine->traffic_before = parts->grid.world->traffic;
    engine->progress.gradient_scale = 1;
    engine->steps.together = 1;
    engine->progress.scale = zr_loss_scale_begin(&parts->config->loss_scale);
    memcpy(engine->ledger.planned, parts->plan->bytes, sizeof engine->ledger.planned);
    zr_view *view = &engine->view;
    zr_program_serve_units(view);
    view->context = (zero_context){
        .struct_size = sizeof view->context,
        .shape = parts->plan->shape,
        .threads = parts->queue->threads,
        .seed = parts->seed,
        .batch = &view->batch,
        .queue = engine->queue,
        .accessor = &view->accessor,
        .sink = &view->sink,
        .weight = &view->weight,
    };
}

zero_status zr_engine_create(const zr_engine_parts *parts, zero_engine **out, zero_error *error)
{
    zero_comm *world = parts->grid.world;
    zero_engine *engine = zr_alloc(sizeof *engine, error);
    if (!engine) {
        release_parts(parts);
        return end_waits_of_others(world, ZERO_ERR_MEMORY, error);
    }
    fill_engine(engine, parts);
    zero_status status = prepare_engine(engine, error);
    if (status != ZERO_OK) {
        zero_destroy(engine);
        return end_waits_of_others(world, status, error);
    }
    *out = engine;
    return ZERO_OK;
}

// First ends what other threads do with the engine's memory, which may still be under way after a
// step has failed: an overlapped update, transfers to and from NVMe, and exchanges; with the first
// window also what queues of a far device do.
static void release_memory(zero_engine *engine)
{
    zr_delayed_destroy(engine->delayed);
    zr_muon_destroy(engine->muon);
    zr_far_end(engine);
    zr_memory_release(engine);
    zr_queues_record(engine, NULL, NULL);
    zr_far_states_close(engine);
    zr_operands_unbound(engine);
    zr_channels_destroy(&engine->channels);
    void *const tables[] = {engine->channel_shapes,
                            engine->steps.losses,
                            engine->steps.sums,
                            engine->steps.actions,
                            engine->pending,
                            engine->bound.names,
                            engine->bound.at,
                            engine->bound.collecting,
                            engine->versions.published,
                            engine->update.squares,
                            engine->update.factor_savers,
                            engine->operands.values};
    for (int i = 0; i < ZR_COUNT(tables); i++)
        zr_free(tables[i]);
}

void zero_destroy(zero_engine *engine)
{
    if (!engine)
        return;
    while (engine->observer_count > 0) {
        const zr_observer *last = &engine->observers[--engine->observer_count];
        if (last->destroy)
            last->destroy(last->user, engine);
    }
    release_memory(engine);
    release_parts(&engine->parts);
    zr_free(engine);
}
