#include "setup/run_setup.h"

#include "setup/machine_facts.h"
#include "setup/pipeline_stages.h"

zero_shape zr_run_shape(const zr_config *config, int64_t batch, int64_t seq, int threads)
{
    return (zero_shape){.batch = batch ? batch : config->micro_batch,
                        .seq = seq,
                        .threads = threads,
                        .dtype = config->dtype};
}

// Single types that the file names replace those of the policy.
static zr_precision precision_of_config(const zr_config *config, bool inference)
{
    zr_precision precision = zr_precision_of(config->dtype, config->accumulation);
    if (!inference)
        precision.moments = config->states_dtype;
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
static zr_tiering tiering_of_config(const zr_offload_config *o, bool inference)
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

enum { WEIGHT_BITS = 8 }; // of a code

// Sets what a training exchanges as codes.
static void set_codes(const zr_config *config, zr_settings *settings)
{
    settings->weight_bits = config->quantised_weights ? WEIGHT_BITS : 0;
    settings->frozen_bits = config->quantised_frozen ? WEIGHT_BITS : 0;
    settings->gradient_bits = config->quantised_gradients ? (int)config->gradient_bits : 0;
    settings->carries = config->carry_reset > 0;
}

zr_settings zr_settings_of(const zr_config *config, bool inference)
{
    bool muon = !inference && config->optimizer.kind == ZR_OPTIMIZER_MUON;
    zr_settings settings = {
        .precision = precision_of_config(config, inference),
        .stage = (int)config->stage,
        .accumulation = config->accumulation,
        .state_vectors = inference ? 0 : zr_optimizer_states(&config->optimizer),
        .delayed = !inference && config->offload.delayed_from > 0,
        .per_tensor_norms = !inference && config->optimizer.kind == ZR_OPTIMIZER_LAMB,
        .orthogonal = muon,
        .gram = muon && config->optimizer.ns_method == 1,
        .factored = !inference && config->optimizer.kind == ZR_OPTIMIZER_ADAFACTOR,
        .average = !inference && config->optimizer.ema_decay > 0,
        .exact_world = config->exact_world && !inference,
        .decay_all = config->optimizer.decay_all,
        .reduce_bucket = config->reduce_bucket,
        .prefetch_bucket = config->prefetch_bucket,
        .kept_by = config->kept_by,
        .tiering = tiering_of_config(&config->offload, inference),
        .activation_checkpoints = inference ? 0 : config->offload.activation_checkpoints,
        .activation_checkpoint_tier =
            inference ? ZERO_TIER_device : (zero_tier)config->offload.activation_checkpoint_tier,
        .partition_activations = config->partition_activations && !inference,
        .inference = inference,
    };
    if (!inference)
        set_codes(config, &settings);
    return settings;
}

zero_status zr_run_setup_part(zr_run_setup *run, int tensor_rank, zero_error *error)
{
    return zr_model_part_make(run->model, run->name, run->config, tensor_rank, &run->part, error);
}

zero_status zr_run_setup_divide(zr_run_setup *run, int64_t memory_limit, zero_error *error)
{
    const zero_model *model = run->part.model;
    const zr_pipeline_question question = {.whole = model->whole ? model->whole : model,
                                           .config = run->config,
                                           .shape = run->shape,
                                           .memory_limit = memory_limit};
    return run->config->pipeline.stages > 1
               ? zr_pipeline_stages_divide(&question, &run->division, error)
               : ZERO_OK;
}

void zr_run_setup_free(zr_run_setup *run)
{
    zr_pipeline_stages_free(run->division);
    zr_model_part_free(&run->part);
    run->division = NULL;
}

// Cuts the model of the rank's pipeline stage.
static zero_status cut_stage(const zr_run_setup *run, const zr_rank_question *q,
                             const zero_model *part, zr_rank_plan *out, zero_error *error)
{
    bool exact = run->config->pipeline.exact;
    if (run->division) {
        ZERO_TRY(zr_pipeline_stages_copy(run->division, &out->pipeline, error));
        zr_pipeline_stages_place(out->pipeline, run->config, part, q->stage, q->mapped);
        out->machine.pipeline = out->pipeline;
    }
    return out->pipeline || exact
               ? zr_pipeline_stages_cut(part, out->pipeline, q->stage, exact, &out->model, error)
               : ZERO_OK;
}

zero_status zr_run_setup_plan(const zr_run_setup *run, const zr_rank_question *question,
                              zr_rank_plan *out, zero_error *error)
{
    const zero_model *part = question->part ? question->part->model : run->part.model;
    const zr_settings settings = zr_settings_of(run->config, run->inference);
    *out = (zr_rank_plan){.machine = question->machine};
    ZERO_TRY(zr_machine_check(&out->machine, &settings, error));
    ZERO_TRY(cut_stage(run, question, part, out, error));
    return zr_plan_create(out->model ? out->model : part, &run->shape, &settings, &out->machine,
                          &out->plan, error);
}

void zr_rank_plan_free(zr_rank_plan *plan)
{
    zr_plan_destroy(plan->plan);
    zr_pipeline_stage_free(plan->model);
    zr_pipeline_stages_free(plan->pipeline);
    *plan = (zr_rank_plan){0};
}
