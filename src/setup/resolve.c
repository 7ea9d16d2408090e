#include "setup/resolve.h"

#include "base/file.h"
#include "config/config_ranks.h"
#include "compute/compute.h"
#include "setup/defaults.h"
#include "setup/machine_facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

zero_status zr_resolve_text(const char *path, char **text, size_t *length, zero_error *error)
{
    *text = NULL;
    *length = 0;
    if (!path)
        return ZERO_OK;
    zero_status status = zr_file_read_stream(path, ZR_CONFIG_MAX_BYTES, text, length, error);
    if (status == ZERO_OK || status == ZERO_ERR_MEMORY || !zr_path_exists(path))
        return status;
    if (error) // a directory, or too large; base/ gives such files another status
        error->status = ZERO_ERR_CONFIG;
    return ZERO_ERR_CONFIG;
}

zero_status zr_flag_list_make(const zero_override *given, int count, const zero_parallel *parallel,
                              int64_t seed, double lr, zr_flag_list *out, zero_error *error)
{
    *out = (zr_flag_list){0};
    zr_parallel_flags_fill(parallel, &out->parallel);
    count = ZR_MAX(count, 0);
    out->at = zr_alloc((size_t)(count + out->parallel.count + 2) * sizeof *out->at, error);
    if (!out->at)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < count; i++)
        out->at[out->count++] = given[i];
    for (int i = 0; i < out->parallel.count; i++)
        out->at[out->count++] = out->parallel.at[i];
    snprintf(out->seed, sizeof out->seed, "%" PRId64, seed);
    snprintf(out->lr, sizeof out->lr, "%.17g", lr);
    if (seed >= 0)
        out->at[out->count++] = (zero_override){"libzero.seed", out->seed, "--seed"};
    if (lr > 0)
        out->at[out->count++] = (zero_override){"optimizer.params.lr", out->lr, "--lr"};
    return ZERO_OK;
}

void zr_flag_list_free(zr_flag_list *list)
{
    zr_free(list->at);
    *list = (zr_flag_list){0};
}

zr_config_facts zr_resolve_facts(int world, int64_t parameters, int64_t total_steps)
{
    return (zr_config_facts){
        .world = world,
        .total_steps = total_steps,
        .warmup_steps = total_steps ? zr_default_warmup(total_steps) : 0,
        .lr = zr_default_lr(parameters),
        .auto_dtype = zr_default_dtype(),
    };
}

static zero_status put_flags(zr_resolution *how, zr_config *config, zero_error *error)
{
    for (int i = 0; i < how->flag_count; i++) {
        const zero_override *flag = &how->flags[i];
        ZERO_TRY(zr_config_override(config, flag->key, flag->value, flag->flag, how->strict,
                                    how->logger, error));
    }
    ZERO_TRY(zr_config_refuse_unknown(config, how->logger, error));
    ZERO_TRY(zr_config_find_ranks(config, &how->facts, error));
    return how->amend ? how->amend(how, config, error) : ZERO_OK;
}

zero_status zr_resolve_read(zr_resolution *how, zr_config **out, zero_error *error)
{
    zr_config *config = NULL;
    const char *name = how->name ? how->name : "defaults";
    *out = NULL;
    ZERO_TRY(zr_config_parse(how->text, how->length, name, &config, error));
    zero_status status = ZERO_OK;
    if (how->for_inference)
        status = zr_config_keep_inference(config, error);
    if (status == ZERO_OK)
        status = put_flags(how, config, error);
    if (status == ZERO_OK) {
        *out = config;
        return ZERO_OK;
    }
    zr_config_destroy(config);
    return status;
}

zero_status zr_resolve_finish(const zr_resolution *how, zr_config *config, zero_error *error)
{
    const zero_logger *choices = how->quiet ? NULL : how->logger;
    if (!how->for_inference)
        ZERO_TRY(zr_config_defaults_apply(config, &how->facts, choices, error));
    return zr_config_resolve(config, &how->facts, how->logger, error);
}

zero_status zr_resolve(zr_resolution *how, zr_config **out, zero_error *error)
{
    ZERO_TRY(zr_resolve_read(how, out, error));
    zero_status status = zr_resolve_finish(how, *out, error);
    if (status == ZERO_OK)
        return ZERO_OK;
    zr_config_destroy(*out);
    *out = NULL;
    return status;
}

// Single types that the file names replace those of the policy.
static zr_precision precision_of(const zr_config *config)
{
    zr_precision precision = zr_precision_of(config->dtype, config->accumulation);
    if (config->exact_world)
        precision.gradients = precision.accumulator = ZERO_F32;
    if (config->wire_given)
        precision.gradients = config->wire_dtype;
    if (config->wire_given && config->accumulation == 1)
        precision.accumulator = config->wire_dtype;
    if (config->accumulator_given)
        precision.accumulator = config->accumulator_dtype;
    return precision;
}

// Prefetching from NVMe is as deep as the pipeline of section 6.2 (ZeRO-Infinity): it covers the
// visit after the next one to be gathered, and one more.
static zr_tiering tiering_of(const zr_offload_config *o, bool inference)
{
    zero_tier optimizer = inference ? ZERO_TIER_device : (zero_tier)o->optimizer;
    int64_t ahead;
    if (__builtin_mul_overflow(o->parameter_buffers, o->parameter_buffer_elems, &ahead))
        ahead = INT64_MAX;
    return (zr_tiering){
        .parameters = (zero_tier)o->parameters,
        .optimizer = optimizer,
        .on_device = 1 - o->ratio,
        .on_host = o->in_host,
        .sub_group = o->sub_group ? o->sub_group : ZR_EACH_PARAMETER,
        // One buffer holds the portion that stays in memory between steps.
        .read_ahead = !inference && o->read_ahead && o->optimizer_buffers > 1,
        .write_behind = !inference && o->write_behind && o->optimizer_buffers > 2,
        .visits_ahead = 2,
        .elems_ahead = ahead,
        .block = o->block,
        .persistent = o->persistent,
        .persistent_most = o->persistent_most,
        .live = ZR_MAX(o->live, 1), // in the plan 0 would mean no limit
        .reuse = o->reuse,
    };
}

zr_settings zr_settings_of(const zr_config *config, bool inference)
{
    return (zr_settings){
        .precision = precision_of(config),
        .stage = (int)config->stage,
        .accumulation = config->accumulation,
        .state_vectors = inference ? 0 : zr_optimizer_states(&config->optimizer),
        .delayed = !inference && config->offload.delayed_from > 0,
        .per_tensor_norms =
            !inference && !zr_optimizer_traits_of(config->optimizer.kind)->elementwise,
        .exact_world = config->exact_world && !inference,
        .decay_all = config->optimizer.decay_all,
        .reduce_bucket = config->reduce_bucket,
        .prefetch_bucket = config->prefetch_bucket,
        .kept_by = config->kept_by,
        .tiering = tiering_of(&config->offload, inference),
        .activation_checkpoints = inference ? 0 : config->offload.activation_checkpoints,
        .activation_checkpoint_tier =
            inference ? ZERO_TIER_device : (zero_tier)config->offload.activation_checkpoint_tier,
        .partition_activations = config->partition_activations && !inference,
        .inference = inference,
    };
}

zero_status zr_plan_of(const zero_options *options, const zr_grid *grid, const zr_config *config,
                       zr_queue *queue, const zr_pipeline_part *pipeline, zr_machine *machine,
                       zr_plan **out, zero_error *error)
{
    zr_machine_fill(queue, options->comm, machine);
    if (grid)
        zr_machine_divide(grid, machine);
    machine->pipeline = pipeline;
    zr_machine_limit(machine, &config->offload, zr_local_ranks(options->comm));
    zr_settings settings = zr_settings_of(config, options->inference);
    ZERO_TRY(zr_machine_check(machine, &settings, error));
    zero_shape shape = {.batch = options->inference && options->shape.batch ? options->shape.batch
                                                                            : config->micro_batch,
                        .seq = options->shape.seq,
                        .threads = queue->threads,
                        .dtype = config->dtype};
    return zr_plan_create(options->model, &shape, &settings, machine, out, error);
}

zero_status zr_window_check(int64_t seq, int64_t positions, zero_error *error)
{
    if (seq >= 1 && seq <= positions)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "windows of %lld tokens (--seq): the model has a context of %lld",
                   (long long)seq, (long long)positions);
}
