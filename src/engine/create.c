// Creates and destroys an engine. Every byte that the plan lists is reserved here, and nothing is
// reserved later.
#include "base/alloc.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/random.h"
#include "base/text.h"
#include "comm/agreement.h"
#include "comm/communicator.h"
#include "engine/create.h"
#include "engine/engine_internal.h"
#include "engine/interpret.h"
#include "model/lm_build.h"
#include "model/pipeline_stage_cut.h"

#include <string.h>

static zero_status make_tables(zero_engine *engine, zero_error *error)
{
    size_t count = (size_t)engine->plan->flat_param_count,
           slots = count * (size_t)engine->plan->versions;
    engine->flat_param_names = zr_alloc(slots * sizeof *engine->flat_param_names, error);
    engine->at = zr_alloc(count * sizeof *engine->at, error);
    engine->reducing = zr_alloc(count * sizeof *engine->reducing, error);
    engine->gathering = zr_alloc(count * sizeof *engine->gathering, error);
    engine->collecting = zr_alloc(count * sizeof *engine->collecting, error);
    size_t steps = engine->plan->pipeline ? (size_t)engine->plan->pipeline->pipeline.steps : 1;
    engine->operands.values = zr_alloc(steps * sizeof *engine->operands.values, error);
    engine->published = zr_alloc((size_t)engine->plan->versions * sizeof *engine->published, error);
    engine->squares =
        zr_alloc(2 * (size_t)engine->plan->tensor_count * sizeof *engine->squares, error);
    if (!engine->flat_param_names || !engine->at || !engine->reducing || !engine->gathering ||
        !engine->collecting || !engine->published || !engine->squares || !engine->operands.values)
        return ZERO_ERR_MEMORY;
    engine->context.values = engine->operands.values;
    for (size_t p = 0; p < slots; p++)
        engine->flat_param_names[p] = engine->plan->flat_params[p % count].name;
    return ZERO_OK;
}

static zero_status open_window(zero_engine *engine, zr_window_kind kind, int64_t bytes,
                               zero_memory_category category, int64_t counted, zr_window *out,
                               zero_error *error)
{
    int copies = kind == ZR_WINDOW_SHARED ? engine->plan->versions : 1;
    ZERO_TRY(zr_window_create(engine->grid.data, kind, bytes,
                              copies * engine->plan->flat_param_count, engine->flat_param_names,
                              out, error));
    zr_ledger_hold(&engine->ledger, ZERO_TIER_device, category, counted);
    return ZERO_OK;
}

static zero_status reserve_parameters(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    int64_t all = plan->versions * plan->full_bytes;
    if (plan->holding == ZR_HOLDS_TIED_COPIES)
        return open_window(engine, ZR_WINDOW_SYMMETRIC, all, ZERO_MEM_parameters, all,
                           &engine->params, error);
    if (plan->holding == ZR_HOLDS_A_MAP)
        return open_window(engine, ZR_WINDOW_SHARED, all, ZERO_MEM_parameters,
                           plan->versions * plan->shard_bytes[ZERO_TIER_device], &engine->params,
                           error);
    return open_window(engine, ZR_WINDOW_MACHINE, plan->gather_bytes, ZERO_MEM_communication,
                       plan->gather_share, &engine->gathers, error);
}

static zero_status reserve_training(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    if (plan->settings.inference)
        return ZERO_OK;
    ZERO_TRY(open_window(engine, ZR_WINDOW_SYMMETRIC, plan->grad_bytes, plan->gradient_window_is,
                         plan->grad_bytes, &engine->grads, error));
    if (plan->whole_bytes > 0)
        ZERO_TRY(open_window(engine, ZR_WINDOW_SYMMETRIC, plan->whole_bytes, ZERO_MEM_gradients,
                             plan->whole_bytes, &engine->wholes, error));
    return zr_arena_create(&engine->ledger, ZERO_TIER_device, ZERO_MEM_communication,
                           (size_t)plan->open_bytes, &engine->open, error);
}

// Makes the channels of the plan's links. Their slots count as communication.
static zero_status open_channels(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    if (!plan->pipeline)
        return ZERO_OK;
    size_t steps = (size_t)plan->pipeline->pipeline.steps;
    engine->losses =
        zr_alloc(steps * (size_t)plan->settings.accumulation * sizeof *engine->losses, error);
    engine->of_steps = zr_alloc(steps * sizeof *engine->of_steps, error);
    engine->actions = zr_alloc((size_t)plan->action_count * sizeof *engine->actions, error);
    engine->channel_shapes =
        zr_alloc((size_t)plan->link_count * sizeof *engine->channel_shapes, error);
    if (!engine->losses || !engine->of_steps || !engine->actions || !engine->channel_shapes)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < plan->link_count; i++) {
        const zr_link *link = &plan->links[i];
        engine->channel_shapes[i] = (zr_channel_shape){.from = link->from,
                                                       .to = link->to,
                                                       .slots = link->slots,
                                                       .bytes = link->bytes,
                                                       .first = link->first,
                                                       .name = link->name};
    }
    ZERO_TRY(zr_channels_create(engine->grid.pipeline, engine->channel_shapes, plan->link_count,
                                &engine->channels, error));
    const zero_comm *pipeline = engine->grid.pipeline;
    zr_ledger_hold(&engine->ledger, ZERO_TIER_device, ZERO_MEM_communication,
                   zr_channel_shapes_bytes(engine->channel_shapes, plan->link_count, pipeline->rank,
                                           pipeline->versions != NULL));
    return ZERO_OK;
}

static zero_status reserve_scratch(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    ZERO_TRY(zr_arena_create(&engine->ledger, ZERO_TIER_device, ZERO_MEM_activations,
                             (size_t)plan->activation_bytes, &engine->activations, error));
    ZERO_TRY(zr_arena_create(&engine->ledger, ZERO_TIER_device, ZERO_MEM_checkpoints,
                             (size_t)plan->activation_checkpoint_buffer_bytes,
                             &engine->activation_checkpoints, error));
    ZERO_TRY(zr_arena_create(&engine->ledger, ZERO_TIER_device, ZERO_MEM_workspace,
                             (size_t)plan->bytes[ZERO_TIER_device][ZERO_MEM_workspace],
                             &engine->workspace, error));
    engine->context.workspace = zr_arena_take(&engine->workspace, (size_t)plan->workspace_bytes);
    engine->queue->scratch_bytes = (size_t)plan->product_scratch_bytes;
    engine->queue->scratch = zr_arena_take(&engine->workspace, engine->queue->scratch_bytes);
    return ZERO_OK;
}

// Hashes a plan's hash and every number that an update or a random value depends on, because ranks
// that differ in one of them would drift apart.
static zero_status hash_of_run(const zero_engine *engine, uint64_t plan, uint64_t *out,
                               zero_error *error)
{
    zr_buffer text = {0};
    zr_config_write(engine->config, &text);
    bool failed = text.failed;
    *out = failed ? 0 : zr_hash_bytes(text.data, text.length, plan ^ engine->seed);
    zr_buffer_free(&text);
    return failed ? zr_fail(error, ZERO_ERR_MEMORY,
                            "no memory to compare the configurations of the ranks")
                  : ZERO_OK;
}

static zero_status compare_hashes_among(zero_engine *engine, zero_comm *comm, uint64_t plan,
                                        zero_error *error)
{
    uint64_t hash;
    ZERO_TRY(hash_of_run(engine, plan, &hash, error));
    int64_t low = (int64_t)(hash >> 1), high = low;
    ZERO_TRY(zr_comm_all_reduce_small(comm, &low, 1, ZERO_I64, ZR_MIN, error));
    ZERO_TRY(zr_comm_all_reduce_small(comm, &high, 1, ZERO_I64, ZR_MAX, error));
    if (low != high)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "comparing the plans of %d ranks: they differ (rank %d has %016llx); every "
                       "rank needs the same model, configuration, shape, seed, number of threads "
                       "and backend (here %s:%s)",
                       comm->size, engine->grid.world->rank, (unsigned long long)hash,
                       engine->queue->backend->name, engine->queue->backend->path());
    return ZERO_OK;
}

// Tensor ranks hold different parts of the model, so only what does not depend on the part is
// compared among all ranks. If the data ranks of one part differ, all other ranks are told, because
// they would wait for them.
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
#pragma omp parallel for schedule(static) num_threads(d->engine->queue->threads)
    for (int64_t at = 0; at < count; at += ZR_CHUNK) {
        float drawn[ZR_CHUNK];
        int64_t n = ZR_MIN(ZR_CHUNK, count - at);
        zr_tensor_initialise(tensor->desc, d->engine->seed, first - tensor->first + at, n, drawn);
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
        ZERO_TRY(zr_engine_weights_each(engine, p, true, draw_portion, &drawing, error));
        zr_comm_progress(engine->grid.world, 0);
    }
    return zr_engine_parameters_changed(engine, error);
}

// Reserves what other ranks of the machine may reach.
static zero_status reserve_shared(zero_engine *engine, zero_error *error)
{
    ZERO_TRY(reserve_parameters(engine, error));
    ZERO_TRY(reserve_training(engine, error));
    ZERO_TRY(zr_tensor_exchange_create(engine, error));
    return open_channels(engine, error);
}

typedef zero_status (*part_fn)(zero_engine *engine, zero_error *error);

static zero_status run_timed(part_fn part, zero_engine *engine, double *seconds, zero_error *error)
{
    double began = zr_clock_seconds();
    zero_status status = part(engine, error);
    *seconds = zr_clock_seconds() - began;
    return status;
}

// Bytes that take about a second to reserve, and parameters that take one to draw and store.
static const int64_t LONG_TO_RESERVE = 1000 << 20, LONG_TO_DRAW = 200 << 20;

static int64_t planned_bytes_of_tier(const zero_engine *engine, zero_tier tier)
{
    int64_t bytes = 0;
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        bytes += engine->ledger.planned[tier][c];
    return bytes;
}

// Logs on rank 0 what is about to take long.
static void say_reserve(const zero_engine *engine)
{
    int64_t nvme = planned_bytes_of_tier(engine, ZERO_TIER_nvme),
            memory = planned_bytes_of_tier(engine, ZERO_TIER_device) +
                     planned_bytes_of_tier(engine, ZERO_TIER_host);
    char text[ZR_BYTES_TEXT], on_disk[ZR_BYTES_TEXT];
    if (engine->grid.world->rank > 0 || memory + nvme < LONG_TO_RESERVE)
        return;
    zr_bytes_text((double)memory, text);
    zr_bytes_text((double)nvme, on_disk);
    zr_log(&engine->logger, ZERO_LOG_INFO, "start    a rank reserves %s%s%s", text,
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
    zr_log(&engine->logger, ZERO_LOG_INFO, "start    a rank draws its first weights, %s%s", text,
           nvme ? ", and writes them to NVMe" : "");
}

static zero_status prepare_engine(zero_engine *engine, const zr_nvme_options *nvme,
                                  zero_error *error)
{
    ZERO_TRY(compare_plans(engine, error));
    ZERO_TRY(zr_parts_check(&engine->grid, engine->plan, error));
    ZERO_TRY(make_tables(engine, error));
    say_reserve(engine);
    ZERO_TRY(run_timed(reserve_shared, engine, &engine->making.sharing, error));
    ZERO_TRY(reserve_scratch(engine, error));
    ZERO_TRY(zr_vectors_reserve(engine, nvme, error));
    zr_ledger_hold(&engine->ledger, ZERO_TIER_device, ZERO_MEM_communication,
                   zr_grid_staging_bytes(&engine->grid));
    if (engine->plan->settings.delayed)
        ZERO_TRY(zr_delayed_create(engine, error));
    ZERO_TRY(zr_ledger_check(&engine->ledger, error));
    say_draw(engine);
    return run_timed(draw_weights, engine, &engine->making.drawing, error);
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

zero_status zr_engine_create(const zr_engine_parts *parts, zero_engine **out, zero_error *error)
{
    zero_comm *world = parts->grid.world;
    zero_engine *engine = zr_alloc(sizeof *engine, error);
    if (!engine) {
        release_parts(parts);
        return end_waits_of_others(world, ZERO_ERR_MEMORY, error);
    }
    engine->plan = parts->plan;
    engine->part = parts->part;
    engine->stage = parts->stage;
    engine->pipeline = parts->pipeline;
    engine->config = parts->config;
    engine->queue = parts->queue;
    engine->grid = parts->grid;
    engine->logger = parts->logger;
    engine->changes = parts->changes;
    engine->seed = parts->seed;
    engine->gradient_scale = 1;
    engine->scale = zr_loss_scale_begin(&parts->config->loss_scale);
    engine->traffic_before = world->traffic;
    engine->accessor = zr_engine_accessor();
    engine->sink = zr_engine_sink();
    memcpy(engine->ledger.planned, parts->plan->bytes, sizeof engine->ledger.planned);
    engine->context = (zero_context){
        .struct_size = sizeof engine->context,
        .shape = parts->plan->shape,
        .threads = parts->queue->threads,
        .seed = parts->seed,
        .batch = &engine->batch,
        .queue = engine->queue,
        .accessor = &engine->accessor,
        .sink = &engine->sink,
        .weight = &engine->weight,
    };
    zero_status status = prepare_engine(engine, &parts->nvme, error);
    if (status != ZERO_OK) {
        zero_destroy(engine);
        return end_waits_of_others(world, status, error);
    }
    *out = engine;
    return ZERO_OK;
}

// Ends what other threads do with the engine's memory, which may still be under way after a step
// has failed: an overlapped update, transfers to and from NVMe, and exchanges, for which destroying
// a window waits. Afterwards only the caller touches the engine.
static void stop_threads(zero_engine *engine)
{
    zr_delayed_destroy(engine->delayed);
    zr_vectors_stop(engine);
    zr_tensor_exchange_close(&engine->exchange);
    zr_window_destroy(&engine->params);
    zr_window_destroy(&engine->gathers);
    zr_window_destroy(&engine->grads);
    zr_window_destroy(&engine->wholes);
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
    stop_threads(engine);
    zr_queue_unwrap(engine->queue, engine->recording);
    zr_channels_destroy(&engine->channels);
    zr_free(engine->channel_shapes);
    zr_free(engine->losses);
    zr_free(engine->of_steps);
    zr_free(engine->actions);
    zr_arena_destroy(&engine->open);
    zr_arena_destroy(&engine->activations);
    zr_arena_destroy(&engine->activation_checkpoints);
    zr_arena_destroy(&engine->workspace);
    zr_vectors_release(engine);
    zr_free(engine->flat_param_names);
    zr_free(engine->at);
    zr_free(engine->reducing);
    zr_free(engine->gathering);
    zr_free(engine->collecting);
    zr_free(engine->published);
    zr_free(engine->squares);
    zr_free(engine->operands.values);
    release_parts(&(zr_engine_parts){.plan = engine->plan,
                                     .part = engine->part,
                                     .stage = engine->stage,
                                     .pipeline = engine->pipeline,
                                     .config = engine->config,
                                     .queue = engine->queue,
                                     .grid = engine->grid});
    zr_free(engine);
}
