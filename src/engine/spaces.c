// Reserves the memory of a rank, row by row of the plan's tables: spaces, which are windows and
// arenas; stores, in a tier's memory or in scratch space on NVMe; and slots. All of it is reserved
// once, and nothing is reserved later.
#include "base/alloc.h"
#include "base/clock.h"
#include "engine/engine_internal.h"
#include "plan/exchanges.h"

static const char *const exchange_slots[ZR_EXCHANGE_SLOTS] = {
    [ZERO_EXCHANGE_SUM] = "sums of slices",
    [ZERO_EXCHANGE_SCATTER] = "shares of sums of slices",
    [ZERO_EXCHANGE_GATHER] = "shares of slices",
    [ZR_EXCHANGE_JOIN] = "shares of an activation checkpoint",
};

zero_status zr_exchange_window_create(zero_comm *comm, int64_t bytes, zr_window *out,
                                      zero_error *error)
{
    return zr_window_create(comm, ZR_WINDOW_SYMMETRIC, bytes, ZR_EXCHANGE_SLOTS, exchange_slots,
                            out, error);
}

// Returns where memory of a tier comes from. That of the host is pinned where it is the end of
// copies of a far device.
static zr_place place_of(const zero_engine *engine, zero_tier tier, zero_memory_category category,
                         bool travels)
{
    return (zr_place){.device = engine->queue->device,
                      .memory = tier == ZERO_TIER_device ? ZR_MEMORY_DEVICE
                                : travels                ? ZR_MEMORY_PINNED
                                                         : ZR_MEMORY_HOST,
                      .tier = tier,
                      .category = category};
}

static zero_status reserve_space(zero_engine *engine, zr_space_id id, zero_error *error)
{
    const zr_space_plan *plan = &engine->plan->spaces[id];
    const zr_grid *grid = &engine->grid;
    zr_space *space = &engine->spaces[id];
    double began = zr_clock_seconds();
    if (plan->kind == ZR_SPACE_NONE)
        return ZERO_OK;
    if (plan->kind == ZR_SPACE_ARENA) {
        const zr_place place = place_of(engine, plan->tier, plan->category, true);
        ZERO_TRY(
            zr_arena_create(&engine->ledger, &place, (size_t)plan->bytes, &space->arena, error));
        space->at = space->arena.base;
        return ZERO_OK;
    }
    zr_window_kind kind = plan->kind == ZR_SPACE_SHARED    ? ZR_WINDOW_SHARED
                          : plan->kind == ZR_SPACE_MACHINE ? ZR_WINDOW_MACHINE
                                                           : ZR_WINDOW_SYMMETRIC;
    int copies = kind == ZR_WINDOW_SHARED ? engine->plan->versions : 1;
    if (id == ZR_SPACE_EXCHANGE || id == ZR_SPACE_SHARED_EXCHANGE)
        ZERO_TRY(zr_exchange_window_create(id == ZR_SPACE_EXCHANGE ? grid->tensor : grid->replicas,
                                           plan->bytes, &space->window, error));
    else
        ZERO_TRY(zr_window_create(grid->data, kind, plan->bytes,
                                  copies * engine->plan->flat_param_count, engine->bound.names,
                                  &space->window, error));
    zr_ledger_hold(&engine->ledger, plan->tier, plan->category, plan->counted);
    space->at = space->window.mine;
    engine->making.sharing += zr_clock_seconds() - began;
    return ZERO_OK;
}

zero_status zr_spaces_reserve(zero_engine *engine, zero_error *error)
{
    for (zr_space_id id = 0; id < ZR_SPACE_COUNT; id++)
        ZERO_TRY(reserve_space(engine, id, error));
    return ZERO_OK;
}

static zr_scratch_kind scratch_of_store(int s)
{
    return s == ZR_STORE_ACTIVATION_CHECKPOINTS ? ZR_SCRATCH_ACTIVATION_CHECKPOINTS
           : s == zr_store_of_vector(ZERO_TIER_nvme, ZR_VECTOR_PARAMETERS) ? ZR_SCRATCH_PARAMETERS
                                                                           : ZR_SCRATCH_STATES;
}

static zero_status open_scratch(zero_engine *engine, const zr_nvme_options *options,
                                zero_error *error)
{
    static const char *const labels[ZR_SCRATCH_COUNT] = {"zero-parameters", "zero-states",
                                                         "zero-checkpoints"};
    const zr_plan *plan = engine->plan;
    int64_t bytes[ZR_SCRATCH_COUNT] = {0};
    for (int s = 0; s < ZR_STORE_COUNT; s++)
        if (plan->stores[s].tier == ZERO_TIER_nvme)
            bytes[scratch_of_store(s)] += plan->stores[s].bytes;
    for (int k = 0; k < ZR_SCRATCH_COUNT; k++)
        ZERO_TRY(zr_scratch_create(options->paths[k].at, options->paths[k].count, bytes[k],
                                   plan->settings.tiering.block, labels[k], options->faults,
                                   &engine->offload.scratch[k], error));
    return ZERO_OK;
}

static zero_status open_io(zero_engine *engine, const zr_nvme_options *options, zero_error *error)
{
    zr_offload *offload = &engine->offload;
    const zr_scratch *scratches[ZR_SCRATCH_COUNT];
    int count = 0;
    for (int k = 0; k < ZR_SCRATCH_COUNT; k++)
        if (offload->scratch[k].bytes)
            scratches[count++] = &offload->scratch[k];
    bool far = engine->plan->far;
    const zr_space_id travelling[] = {
        ZR_SPACE_STAGED_PARAMETERS, ZR_SPACE_STAGED_SUMS, ZR_SPACE_STAGING_BUFFERS,
        far ? ZR_SPACE_SENT_CHECKPOINTS : ZR_SPACE_ACTIVATION_CHECKPOINTS,
        far ? ZR_SPACE_SENT_OPEN_SUMS : ZR_SPACE_OPEN_SUMS};
    zr_io_buffer buffers[ZR_COUNT(travelling)];
    for (int i = 0; i < ZR_COUNT(travelling); i++) {
        const zr_arena *arena = &engine->spaces[travelling[i]].arena;
        buffers[i] = (zr_io_buffer){arena->base, arena->bytes};
    }
    const zr_io_options io = {.block = engine->plan->settings.tiering.block,
                              .queue_depth = options->queue_depth,
                              .lanes = options->lanes,
                              .single_submit = options->single_submit,
                              .overlap_events = options->overlap_events,
                              .timeout = engine->grid.world->timeout,
                              .scratches = scratches,
                              .scratch_count = count,
                              .buffers = buffers,
                              .buffer_count = ZR_COUNT(buffers),
                              .faults = options->faults};
    return zr_io_create(&io, &offload->io, error);
}

// Lists the bytes of the store at which an activation checkpoint begins: those of each set of a
// chunk follow each other, the sets of a chunk, and the chunks. cuts NULL: only counts them.
static int list_activation_checkpoints(const zr_plan *plan, int64_t *cuts)
{
    int count = 0;
    for (int c = 0; c < plan->chunk_count; c++) {
        const zr_chunk_plan *chunk = &plan->chunks[c];
        for (int set = 0; set < chunk->buffers.sets; set++) {
            int64_t first = chunk->stored_first + set * chunk->stored_bytes;
            for (int s = chunk->first_segment; s < chunk->first_segment + chunk->segments; s++) {
                if (cuts)
                    cuts[count] = first;
                count++;
                first += zr_activation_checkpoint_bytes(plan, s);
            }
        }
    }
    return count;
}

// Lists the bytes of a vector at which its portions, the shard slices, begin.
static int list_shard_slices(const zero_engine *engine, zr_vector vector, int count, int64_t *cuts)
{
    const zr_plan *plan = engine->plan;
    for (int s = 0; s < plan->shard_slice_count; s++) {
        const zr_shard_slice *shard_slice = &plan->shard_slices[s];
        const zr_flat_param *flat_param = &plan->flat_params[shard_slice->flat_param];
        bool here = vector == ZR_VECTOR_PARAMETERS
                        ? flat_param->parameter_tier == ZERO_TIER_nvme
                        : shard_slice->group >= 0 && flat_param->state_tier == ZERO_TIER_nvme;
        if (here)
            cuts[count++] = zr_vector_range(engine, shard_slice->flat_param, vector,
                                            shard_slice->first, shard_slice->count)
                                .first;
    }
    return count;
}

// Lists those of the accumulators of every step: the first is read by shard slices, too, and the
// others are read and written shard by shard.
static int list_accumulators(zero_engine *engine, int64_t *cuts)
{
    const zr_plan *plan = engine->plan;
    int count = 0;
    for (engine->versions.sum_copy = 0; engine->versions.sum_copy < plan->step_sums;
         engine->versions.sum_copy++) {
        count = list_shard_slices(engine, ZR_VECTOR_GRADIENT, count, cuts);
        for (int slot = 1; slot < zr_accumulators(&plan->settings); slot++)
            for (int p = 0; p < plan->flat_param_count; p++)
                if (plan->flat_params[p].state_first >= 0 &&
                    plan->flat_params[p].state_tier == ZERO_TIER_nvme)
                    cuts[count++] = zr_accumulator_range(engine, p, slot).first;
    }
    engine->versions.sum_copy = 0;
    return count;
}

static int list_parked(const zr_plan *plan, int64_t *cuts)
{
    int count = 0;
    for (int p = 0; p < plan->flat_param_count; p++)
        if (plan->flat_params[p].parked_first >= 0)
            cuts[count++] = plan->flat_params[p].parked_first;
    return count;
}

// Lists the bytes of a store on NVMe at which what is read or written as a whole begins: parked
// contributions, activation checkpoints, accumulators or shard slices.
static int list_cuts(zero_engine *engine, int s, int64_t *cuts)
{
    if (s == ZR_STORE_PARKED)
        return list_parked(engine->plan, cuts);
    if (s == ZR_STORE_ACTIVATION_CHECKPOINTS)
        return list_activation_checkpoints(engine->plan, cuts);
    if (s == zr_store_of_vector(ZERO_TIER_nvme, ZR_VECTOR_GRADIENT))
        return list_accumulators(engine, cuts);
    return list_shard_slices(engine, s - zr_store_of_vector(ZERO_TIER_nvme, 0), 0, cuts);
}

// Says whether the device's queues read and write what a store keeps, on whatever tier of memory.
static bool device_reads(int s)
{
    int vector = s % ZR_VECTOR_COUNT;
    return s >= ZR_STORE_PARKED || vector == ZR_VECTOR_GRADIENT || vector == ZR_VECTOR_PARAMETERS;
}

static zero_status reserve_store(zero_engine *engine, int s, int64_t *cuts, zero_error *error)
{
    const zr_store_plan *plan = &engine->plan->stores[s];
    if (!plan->bytes)
        return ZERO_OK;
    if (plan->tier != ZERO_TIER_nvme) {
        const zr_place place = place_of(engine, plan->tier, plan->category, device_reads(s));
        return zr_store_memory_create(&engine->ledger, &place, (size_t)plan->bytes,
                                      &engine->stores[s], error);
    }
    const zr_nvme_site place = {.io = engine->offload.io,
                                .scratch = &engine->offload.scratch[scratch_of_store(s)],
                                .first = plan->first,
                                .block = engine->plan->settings.tiering.block,
                                .cuts = cuts,
                                .cut_count = list_cuts(engine, s, cuts)};
    return zr_store_nvme_create(&engine->ledger, plan->category, plan->bytes, &place,
                                &engine->stores[s], error);
}

zero_status zr_stores_reserve(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    const zr_nvme_options *options = &engine->parts.nvme;
    engine->offload.overwrite = options->faults && options->faults->overwrite;
    if (zr_plan_tier_bytes(plan, ZERO_TIER_nvme) > 0) {
        ZERO_TRY(open_scratch(engine, options, error));
        ZERO_TRY(open_io(engine, options, error));
    }
    int64_t *cuts = zr_alloc((size_t)(plan->step_sums * plan->shard_slice_count +
                                      zr_plan_accumulators(plan) * plan->flat_param_count +
                                      list_activation_checkpoints(plan, NULL)) *
                                 sizeof *cuts,
                             error);
    zero_status status = cuts ? ZERO_OK : ZERO_ERR_MEMORY;
    for (int s = 0; s < ZR_STORE_COUNT && status == ZERO_OK; s++)
        status = reserve_store(engine, s, cuts, error);
    zr_free(cuts);
    return status;
}

void zr_memory_release(zero_engine *engine)
{
    zr_io_destroy(engine->offload.io);
    for (zr_space_id id = 0; id < ZR_SPACE_COUNT; id++) {
        zr_window_destroy(&engine->spaces[id].window);
        zr_arena_destroy(&engine->spaces[id].arena);
    }
    for (int s = 0; s < ZR_STORE_COUNT; s++)
        zr_store_destroy(&engine->stores[s]);
    for (int k = 0; k < ZR_SCRATCH_COUNT; k++)
        zr_scratch_destroy(&engine->offload.scratch[k]);
}
