// Where every vector of a rank's states lies: in a tier's memory or in scratch space on NVMe. The
// plan says how much is needed, and all of it is reserved once.
#include "base/alloc.h"
#include "engine/engine_internal.h"

static int64_t vector_bytes_of(const zr_plan *plan, zero_tier tier, zr_vector vector)
{
    if (vector == ZR_VECTOR_PARAMETERS)
        return plan->holding == ZR_HOLDS_SHARDS ? plan->versions * plan->shard_bytes[tier] : 0;
    if (plan->settings.inference || !zr_plan_has_vector(plan, vector))
        return 0;
    if (vector == ZR_VECTOR_GRADIENT && tier != ZERO_TIER_nvme)
        return plan->accumulator_bytes[tier];
    return (vector == ZR_VECTOR_GRADIENT ? zr_plan_accumulators(plan) : 1) *
           plan->state_elems[tier] * zr_vector_size(plan, vector);
}

static zero_memory_category memory_category_of_vector(zr_vector vector)
{
    return vector == ZR_VECTOR_PARAMETERS ? ZERO_MEM_parameters
           : vector == ZR_VECTOR_GRADIENT ? ZERO_MEM_gradients
                                          : ZERO_MEM_optimizer;
}

static zero_status reserve_memory(zero_engine *engine, zero_error *error)
{
    for (int t = 0; t < ZERO_TIER_nvme; t++)
        for (int v = 0; v < ZR_VECTOR_COUNT; v++) {
            int64_t bytes = vector_bytes_of(engine->plan, t, v);
            if (bytes > 0)
                ZERO_TRY(zr_store_memory_create(&engine->ledger, t, memory_category_of_vector(v),
                                                (size_t)bytes, &engine->vectors[t][v], error));
        }
    return ZERO_OK;
}

static zero_status reserve_buffers(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    zr_offload *offload = &engine->offload;
    offload->parameters =
        zr_alloc((size_t)plan->program.fetch_count * sizeof *offload->parameters, error);
    offload->gradients =
        zr_alloc((size_t)(plan->flat_param_count * zr_accumulators(&plan->settings)) *
                     sizeof *offload->gradients,
                 error);
    if (!offload->parameters || !offload->gradients)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(zr_arena_create(&engine->ledger, ZERO_TIER_host, ZERO_MEM_parameters,
                             (size_t)plan->staged_parameter_bytes, &offload->staged_parameters,
                             error));
    ZERO_TRY(zr_arena_create(&engine->ledger, ZERO_TIER_host, ZERO_MEM_gradients,
                             (size_t)plan->staged_gradient_bytes, &offload->staged_gradients,
                             error));
    return zr_arena_create(&engine->ledger, ZERO_TIER_host, ZERO_MEM_optimizer,
                           (size_t)(plan->staging_buffer.count * plan->staging_buffer.bytes),
                           &offload->staging_buffers, error);
}

static int64_t state_bytes_on_nvme(const zr_plan *plan)
{
    int64_t bytes = 0;
    for (int v = 0; v < ZR_VECTOR_PARAMETERS; v++)
        bytes += vector_bytes_of(plan, ZERO_TIER_nvme, v);
    return bytes;
}

static int64_t scratch_file_bytes(const zr_plan *plan, zr_scratch_kind kind)
{
    switch (kind) {
    case ZR_SCRATCH_PARAMETERS: return vector_bytes_of(plan, ZERO_TIER_nvme, ZR_VECTOR_PARAMETERS);
    case ZR_SCRATCH_STATES:
        return state_bytes_on_nvme(plan) +
               (plan->settings.tiering.optimizer == ZERO_TIER_nvme ? plan->parked_bytes : 0);
    default:
        return plan->settings.activation_checkpoint_tier == ZERO_TIER_nvme
                   ? plan->activation_checkpoint_bytes
                   : 0;
    }
}

static zero_status open_scratch(zero_engine *engine, const zr_nvme_options *options,
                                zero_error *error)
{
    static const char *const labels[ZR_SCRATCH_COUNT] = {"zero-parameters", "zero-states",
                                                         "zero-checkpoints"};
    for (int k = 0; k < ZR_SCRATCH_COUNT; k++)
        ZERO_TRY(zr_scratch_create(options->paths[k].at, options->paths[k].count,
                                   scratch_file_bytes(engine->plan, k),
                                   engine->plan->settings.tiering.block, labels[k], options->faults,
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
    const zr_io_buffer buffers[] = {
        {offload->staged_parameters.base, offload->staged_parameters.bytes},
        {offload->staged_gradients.base, offload->staged_gradients.bytes},
        {offload->staging_buffers.base, offload->staging_buffers.bytes},
        {engine->activation_checkpoints.base, engine->activation_checkpoints.bytes},
        {engine->open.base, engine->open.bytes}};
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

// Reserves the store of parked contributions. On NVMe it follows the optimizer states, and each
// flat parameter's part is read and written as a whole.
static zero_status reserve_parked(zero_engine *engine, int64_t *cuts, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    int count = 0;
    if (plan->settings.tiering.optimizer != ZERO_TIER_nvme)
        return zr_store_memory_create(&engine->ledger, plan->settings.tiering.optimizer,
                                      ZERO_MEM_gradients, (size_t)plan->parked_bytes,
                                      &engine->offload.parked, error);
    for (int p = 0; p < plan->flat_param_count; p++)
        if (plan->flat_params[p].parked_first >= 0)
            cuts[count++] = plan->flat_params[p].parked_first;
    const zr_nvme_site place = {.io = engine->offload.io,
                                .scratch = &engine->offload.scratch[ZR_SCRATCH_STATES],
                                .first = state_bytes_on_nvme(plan),
                                .block = plan->settings.tiering.block,
                                .cuts = cuts,
                                .cut_count = count};
    return zr_store_nvme_create(&engine->ledger, ZERO_MEM_gradients, plan->parked_bytes, &place,
                                &engine->offload.parked, error);
}

// Lists the bytes of the store at which an activation checkpoint begins: those of each set of a
// chunk follow each other, the sets of a chunk, and the chunks.
static int list_activation_checkpoints(const zr_plan *plan, int64_t *cuts)
{
    int count = 0;
    for (int c = 0; c < plan->chunk_count; c++) {
        const zr_chunk_plan *chunk = &plan->chunks[c];
        for (int set = 0; set < chunk->buffers.sets; set++) {
            int64_t first = chunk->stored_first + set * chunk->stored_bytes;
            for (int s = chunk->first_segment; s < chunk->first_segment + chunk->segments; s++) {
                cuts[count++] = first;
                first += zr_activation_checkpoint_bytes(plan, s);
            }
        }
    }
    return count;
}

static int64_t count_activation_checkpoints(const zr_plan *plan)
{
    int64_t count = 0;
    for (int c = 0; c < plan->chunk_count; c++)
        count += plan->chunks[c].buffers.sets * plan->chunks[c].segments;
    return count;
}

// Reserves the store of activation checkpoints, each of which is read and written as a whole.
static zero_status reserve_activation_checkpoints(zero_engine *engine, int64_t *cuts,
                                                  zero_error *error)
{
    const zr_plan *plan = engine->plan;
    zero_tier tier = plan->settings.activation_checkpoint_tier;
    if (tier != ZERO_TIER_nvme)
        return zr_store_memory_create(&engine->ledger, tier, ZERO_MEM_checkpoints,
                                      (size_t)plan->activation_checkpoint_bytes,
                                      &engine->offload.activation_checkpoints, error);
    const zr_nvme_site place = {.io = engine->offload.io,
                                .scratch =
                                    &engine->offload.scratch[ZR_SCRATCH_ACTIVATION_CHECKPOINTS],
                                .block = plan->settings.tiering.block,
                                .cuts = cuts,
                                .cut_count = list_activation_checkpoints(plan, cuts)};
    return zr_store_nvme_create(&engine->ledger, ZERO_MEM_checkpoints,
                                plan->activation_checkpoint_bytes, &place,
                                &engine->offload.activation_checkpoints, error);
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
    for (engine->sum_copy = 0; engine->sum_copy < plan->step_sums; engine->sum_copy++) {
        count = list_shard_slices(engine, ZR_VECTOR_GRADIENT, count, cuts);
        for (int slot = 1; slot < zr_accumulators(&plan->settings); slot++)
            for (int p = 0; p < plan->flat_param_count; p++)
                if (plan->flat_params[p].state_first >= 0 &&
                    plan->flat_params[p].state_tier == ZERO_TIER_nvme)
                    cuts[count++] = zr_accumulator_range(engine, p, slot).first;
    }
    engine->sum_copy = 0;
    return count;
}

static zero_status reserve_nvme(zero_engine *engine, int64_t *cuts, zero_error *error)
{
    zr_offload *offload = &engine->offload;
    int64_t first = 0;
    for (int v = 0; v < ZR_VECTOR_COUNT; v++) {
        int64_t bytes = vector_bytes_of(engine->plan, ZERO_TIER_nvme, v);
        bool parameters = v == ZR_VECTOR_PARAMETERS;
        if (!bytes)
            continue;
        const zr_nvme_site place = {
            .io = offload->io,
            .scratch = &offload->scratch[parameters ? ZR_SCRATCH_PARAMETERS : ZR_SCRATCH_STATES],
            .first = parameters ? 0 : first,
            .block = engine->plan->settings.tiering.block,
            .cuts = cuts,
            .cut_count = v == ZR_VECTOR_GRADIENT ? list_accumulators(engine, cuts)
                                                 : list_shard_slices(engine, v, 0, cuts)};
        ZERO_TRY(zr_store_nvme_create(&engine->ledger, memory_category_of_vector(v), bytes, &place,
                                      &engine->vectors[ZERO_TIER_nvme][v], error));
        first += parameters ? 0 : bytes;
    }
    return ZERO_OK;
}

static bool anything_on_nvme(const zr_plan *plan)
{
    return zr_plan_tier_bytes(plan, ZERO_TIER_nvme) > 0;
}

zero_status zr_vectors_reserve(zero_engine *engine, const zr_nvme_options *options,
                               zero_error *error)
{
    const zr_plan *plan = engine->plan;
    engine->offload.overwrite = options->faults && options->faults->overwrite;
    ZERO_TRY(reserve_memory(engine, error));
    if (anything_on_nvme(plan)) {
        ZERO_TRY(reserve_buffers(engine, error));
        ZERO_TRY(open_scratch(engine, options, error));
        ZERO_TRY(open_io(engine, options, error));
    }
    int64_t *cuts = zr_alloc((size_t)(plan->step_sums * plan->shard_slice_count +
                                      zr_plan_accumulators(plan) * plan->flat_param_count +
                                      count_activation_checkpoints(plan)) *
                                 sizeof *cuts,
                             error);
    engine->offload.parking =
        zr_alloc((size_t)plan->flat_param_count * sizeof *engine->offload.parking, error);
    zero_status status = cuts && engine->offload.parking ? ZERO_OK : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = reserve_nvme(engine, cuts, error);
    if (status == ZERO_OK && plan->parked_bytes)
        status = reserve_parked(engine, cuts, error);
    if (status == ZERO_OK && plan->activation_checkpoint_bytes)
        status = reserve_activation_checkpoints(engine, cuts, error);
    zr_free(cuts);
    return status;
}

void zr_vectors_stop(zero_engine *engine)
{
    zr_io_destroy(engine->offload.io);
    engine->offload.io = NULL;
}

void zr_vectors_release(zero_engine *engine)
{
    zr_offload *offload = &engine->offload;
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        for (int v = 0; v < ZR_VECTOR_COUNT; v++)
            zr_store_destroy(&engine->vectors[t][v]);
    zr_store_destroy(&offload->parked);
    zr_store_destroy(&offload->activation_checkpoints);
    for (int k = 0; k < ZR_SCRATCH_COUNT; k++)
        zr_scratch_destroy(&offload->scratch[k]);
    zr_arena_destroy(&offload->staged_parameters);
    zr_arena_destroy(&offload->staged_gradients);
    zr_arena_destroy(&offload->staging_buffers);
    zr_free(offload->parameters);
    zr_free(offload->gradients);
    zr_free(offload->parking);
}

zr_store *zr_vector_store(zero_engine *engine, int flat_param, zr_vector vector)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    return &engine->vectors[vector == ZR_VECTOR_PARAMETERS ? p->parameter_tier : p->state_tier]
                           [vector];
}

// Returns the elements between the first accumulators of two steps, in the vector of the flat
// parameter's tier.
static int64_t between_steps(const zero_engine *engine, int flat_param)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    int64_t elems =
        p->state_tier == ZERO_TIER_nvme ? engine->plan->state_elems[ZERO_TIER_nvme] : p->shard;
    return zr_accumulators(&engine->plan->settings) * elems;
}

zr_range zr_vector_range(const zero_engine *engine, int flat_param, zr_vector vector, int64_t first,
                         int64_t count)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    if (vector == ZR_VECTOR_PARAMETERS) {
        int64_t size = (int64_t)zero_dtype_bytes(p->dtype);
        int64_t copy = engine->copy * engine->plan->shard_bytes[p->parameter_tier];
        return (zr_range){copy + p->shard_first + first * size, count * size};
    }
    int64_t size = vector == ZR_VECTOR_GRADIENT ? (int64_t)zero_dtype_bytes(p->accumulator_dtype)
                                                : (int64_t)sizeof(float);
    if (vector == ZR_VECTOR_GRADIENT)
        first += engine->sum_copy * between_steps(engine, flat_param);
    if (vector == ZR_VECTOR_GRADIENT && p->state_tier != ZERO_TIER_nvme)
        return (zr_range){p->accumulator_first + first * size, count * size};
    return (zr_range){(p->state_first + first) * size, count * size};
}

// In memory, all accumulators of one shard lie together. On NVMe, each accumulator of all shards
// does.
zr_range zr_accumulator_range(const zero_engine *engine, int flat_param, int slot)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    int64_t elems =
        p->state_tier == ZERO_TIER_nvme ? engine->plan->state_elems[ZERO_TIER_nvme] : p->shard;
    return zr_vector_range(engine, flat_param, ZR_VECTOR_GRADIENT, slot * elems, p->shard);
}

void *zr_vector_at(const zero_engine *engine, int flat_param, zr_vector vector, int64_t first)
{
    const zr_store *store = zr_vector_store((zero_engine *)engine, flat_param, vector);
    return zr_store_at(store, zr_vector_range(engine, flat_param, vector, first, 0).first);
}
