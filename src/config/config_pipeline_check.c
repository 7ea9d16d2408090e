// Checks what a schedule requires of the batch and of the other settings, once all are known, and
// says which bubble the micro-batches leave. src/plan checks the same numbers again for every list
// that it makes.
#include "config/config_ranks.h"
#include "config/settings.h"

#include <inttypes.h>
#include <stdio.h>

#define FEW 4 // micro-batches in flight for each pipeline stage, below which a hint is given

// Refuses the number of micro-batches that the batch has left for a step.
static zero_status refuse_count(const zr_config *config, const char *why, zero_error *error)
{
    int64_t m = config->accumulation;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: a step has %" PRId64 " micro-batch%s (gradient_accumulation_steps; a batch "
                   "of %" PRId64 " = %" PRId64 " x %" PRId64 " x %s), %s",
                   zr_config_said(config, ZR_PIPELINE_SCHEDULE).text, m, m == 1 ? "" : "es",
                   config->train_batch, config->micro_batch, m,
                   zr_ranks_in_words(zr_config_grid(config)).text, why);
}

static zero_status check_micro_batches(const zr_config *config, zero_error *error)
{
    char why[ZR_PIPELINE_WHY];
    return zr_pipeline_refuses_count(config->pipeline.kind, config->pipeline.stages,
                                     config->accumulation, why)
               ? refuse_count(config, why, error)
               : ZERO_OK;
}

static zero_status check_checkpoint_interval(const zr_config *config, zero_error *error)
{
    static const char number[] = "activation_checkpointing.number_checkpoints";
    if (!config->pipeline.checkpoint_interval || !zr_config_number(config, number, 0))
        return ZERO_OK;
    return zr_fail(
        error, ZERO_ERR_CONFIG, "%s and %s both cut the units into segments: keep one of them",
        zr_config_said(config, ZR_PIPELINE_INTERVAL).text, zr_config_said(config, number).text);
}

// An asynchronous schedule decides by itself to which update a gradient belongs.
static zero_status check_no_delayed_update(const zr_config *config, zero_error *error)
{
    if (!config->offload.delayed_from)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s and %s both say with how old parameters a step computes (2bw: one update "
                   "old, as a delayed update): keep one of them",
                   zr_config_said(config, ZR_PIPELINE_SCHEDULE).text,
                   zr_config_said(config, "libzero.delayed_update.start_step").text);
}

// Which update a micro-batch sees depends on its place among those of its data rank, and on other
// numbers of data ranks that place is another.
static zero_status check_no_exact_world(const zr_config *config, zero_error *error)
{
    if (!config->exact_world)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: libzero.exact_world cannot hold with %s: how old the parameters of a "
                   "micro-batch are depends on how many its data rank has; 2bw can, and the "
                   "synchronous schedules",
                   zr_setting_where(config, zr_config_at(config, "libzero.exact_world")).text,
                   zr_config_said(config, ZR_PIPELINE_SCHEDULE).text);
}

static zero_status refuse_scale(const zr_config *config, const char *why, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_CONFIG, "%s %s: a fixed fp16.loss_scale would do, or bf16",
                   zr_config_said(config, ZR_PIPELINE_SCHEDULE).text, why);
}

// PipeDream's stages do not wait for each other, so nothing can be used that all of them must know.
static zero_status check_pipedream(const zr_config *config, zero_error *error)
{
    const zr_said who = zr_config_said(config, ZR_PIPELINE_SCHEDULE);
    char why[ZR_PIPELINE_WHY];
    if (zr_pipeline_refuses_zero(config->pipeline.kind, config->pipeline.stages, (int)config->stage,
                                 why))
        return zr_fail(error, ZERO_ERR_CONFIG, "%s %s", who.text, why);
    if (config->loss_scale.kind == ZR_SCALE_DYNAMIC)
        return refuse_scale(config,
                            "updates each pipeline stage by itself, and the dynamic loss scale of "
                            "fp16 waits for all of them",
                            error);
    if (config->clipping > 0)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s updates each pipeline stage by itself, and clipping to a norm of %g "
                       "waits for all of them: gradient_clipping: 0 would do",
                       who.text, config->clipping);
    return check_no_exact_world(config, error);
}

// A step of 2BW is under way before the norm of the one before it is known.
static zero_status check_2bw(const zr_config *config, zero_error *error)
{
    if (config->loss_scale.kind != ZR_SCALE_DYNAMIC)
        return ZERO_OK;
    return refuse_scale(config,
                        "begins a step before the norm of the step before it is known, from which "
                        "the dynamic loss scale of fp16 follows",
                        error);
}

// The versions of the parameters lie on the device, and take turns there.
static zero_status check_parameter_placement(const zr_config *config, zero_error *error)
{
    static const char device[] = "zero_optimization.offload_param.device",
                      kept[] = "zero_optimization.zero_hpz_partition_size";
    const zr_said who = zr_config_said(config, ZR_PIPELINE_SCHEDULE);
    if (config->offload.parameters != ZERO_TIER_device)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s keeps several versions of the parameters, all of them on the device, "
                       "and %s would keep them elsewhere: expected none; offload_optimizer would "
                       "do, or a synchronous schedule (1f1b)",
                       who.text, zr_config_said(config, device).text);
    if (config->stage == 3 && config->kept_by > 1)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s reads versions of the parameters in turn, and %s keeps on each machine "
                       "what was gathered of one: expected 1, or a synchronous schedule (1f1b)",
                       who.text, zr_config_said(config, kept).text);
    return ZERO_OK;
}

static zero_status check_asynchronous(const zr_config *config, zero_error *error)
{
    ZERO_TRY(check_no_delayed_update(config, error));
    ZERO_TRY(check_parameter_placement(config, error));
    return config->pipeline.kind == ZR_PIPELINE_PIPEDREAM ? check_pipedream(config, error)
                                                          : check_2bw(config, error);
}

// Returns the share of the time that a stage waits, with equal times of all units.
static double bubble_fraction(const zr_pipeline_spec *pipeline, int64_t micro_batches)
{
    double idle = pipeline->stages - 1;
    if (pipeline->kind == ZR_PIPELINE_INTERLEAVED)
        idle /= pipeline->chunks;
    if (pipeline->kind == ZR_PIPELINE_ZB_H1) // weight gradients, a third of the work, fill the rest
        idle /= 3;
    return idle / ((double)micro_batches + idle);
}

bool zr_config_pipeline_hint(const zr_config *config, char *out, size_t size)
{
    int64_t steps = 1, wanted = FEW * (int64_t)config->pipeline.stages;
    if (zr_pipeline_is_asynchronous(config->pipeline.kind))
        steps = config->pipeline.flush_every;
    int64_t m = config->accumulation, flying = ZR_MIN(m, wanted) * steps,
            would = (wanted + steps - 1) / steps;
    if (config->pipeline.stages == 1 || flying >= wanted)
        return false;
    snprintf(out, size,
             "pipeline: %" PRId64 " micro-batch%s in flight on %d pipeline stages cost%s a bubble "
             "of %.0f%% of the time (%s); gradient_accumulation_steps %" PRId64
             " instead of %" PRId64 " would leave %.0f%%",
             flying, flying == 1 ? "" : "es", config->pipeline.stages, flying == 1 ? "s" : "",
             100 * bubble_fraction(&config->pipeline, flying),
             zr_pipeline_kind_name(config->pipeline.kind), would, m,
             100 * bubble_fraction(&config->pipeline, would * steps));
    return true;
}

// Pipeline stages hold different units, so each would need another placement.
static zero_status check_no_automatic_offload(const zr_config *config, zero_error *error)
{
    if (!config->offload.automatic)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s chooses one place for the states of a whole model, and with %s its parts "
                   "need different ones: offload_optimizer and offload_param say one for all "
                   "pipeline stages (zero plan shows what each needs)",
                   zr_config_said(config, "libzero.offload").text,
                   zr_config_said(config, ZR_PIPELINE_STAGES).text);
}

zero_status zr_config_fill_pipeline(zr_config *config, const zero_logger *logger, zero_error *error)
{
    ZERO_TRY(zr_config_fill_partition(config, error));
    char text[256];
    if (config->pipeline.stages == 1)
        return ZERO_OK;
    ZERO_TRY(check_checkpoint_interval(config, error));
    ZERO_TRY(check_no_automatic_offload(config, error));
    ZERO_TRY(check_micro_batches(config, error));
    if (zr_pipeline_is_asynchronous(config->pipeline.kind))
        ZERO_TRY(check_asynchronous(config, error));
    if (zr_config_pipeline_hint(config, text, sizeof text))
        zr_log(logger, ZERO_LOG_DEBUG, "%s", text);
    return ZERO_OK;
}

zero_status zr_config_check_drain(const zr_config *config, const char *flag, int64_t every,
                                  zero_error *error)
{
    const zr_pipeline_spec *pipeline = &config->pipeline;
    int64_t window = pipeline->flush_every, below = every - every % window;
    char would[64];
    if (pipeline->stages == 1 || !zr_pipeline_is_asynchronous(pipeline->kind))
        return ZERO_OK;
    if (every <= 0 || every % window == 0)
        return ZERO_OK;
    snprintf(would, sizeof would, "%" PRId64 "%s%" PRId64, below ? below : window,
             below ? " or " : ", or " ZR_PIPELINE_FLUSH " ", below ? below + window : every);
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s %" PRId64 ": with %s steps overlap, and only every %" PRId64
                   " steps (" ZR_PIPELINE_FLUSH ") the pipeline drains: %s would do",
                   flag, every, zr_config_said(config, ZR_PIPELINE_SCHEDULE).text, window, would);
}
