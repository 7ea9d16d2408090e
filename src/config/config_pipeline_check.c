// Checks what a schedule requires of the batch and of the other settings, once all are known, and
// says which bubble the micro-batches leave. src/plan checks the same numbers again for every list
// that it makes.
#include "config/config_ranks.h"
#include "config/pipeline_keys.h"
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
    zr_pipeline_kind kind = config->pipeline.kind;
    int64_t m = config->accumulation, p = config->pipeline.stages, multiple = ZR_MAX(m - m % p, p);
    char why[160];
    if (kind == ZR_PIPELINE_INTERLEAVED && m % p) {
        snprintf(why, sizeof why,
                 "no multiple of %" PRId64 " pipeline stages; %" PRId64 " or %" PRId64
                 " would do, or 1f1b",
                 p, multiple, multiple + p);
        return refuse_count(config, why, error);
    }
    if (kind == ZR_PIPELINE_2BW && m < p) {
        snprintf(why, sizeof why,
                 "fewer than %" PRId64 " pipeline stages, so two versions of the weights are too "
                 "few; %" PRId64 " would do, or pipedream",
                 p, p);
        return refuse_count(config, why, error);
    }
    return ZERO_OK;
}

static zero_status check_interval(const zr_config *config, zero_error *error)
{
    static const char number[] = "activation_checkpointing.number_checkpoints";
    if (!config->pipeline.checkpoint_interval || !zr_config_number(config, number, 0))
        return ZERO_OK;
    return zr_fail(
        error, ZERO_ERR_CONFIG, "%s and %s both cut the units into segments: keep one of them",
        zr_config_said(config, ZR_PIPELINE_INTERVAL).text, zr_config_said(config, number).text);
}

// An asynchronous schedule is itself a rule of which update a gradient belongs to.
static zero_status check_delayed(const zr_config *config, zero_error *error)
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
static zero_status check_exact(const zr_config *config, zero_error *error)
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

// PipeDream's stages do not wait for each other, so nothing can be used that all of them must know.
static zero_status check_pipedream(const zr_config *config, zero_error *error)
{
    const zr_said who = zr_config_said(config, ZR_PIPELINE_SCHEDULE);
    if (config->stage == 3)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s keeps whole versions of the parameters (%d on the first pipeline "
                       "stage), which zero_optimization.stage 3 divides: expected 0, 1 or 2",
                       who.text, config->pipeline.stages);
    if (config->loss_scale.kind == ZR_SCALE_DYNAMIC)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s updates each pipeline stage by itself, and the dynamic loss scale of "
                       "fp16 waits for all of them: a fixed fp16.loss_scale would do, or bf16",
                       who.text);
    if (config->clipping > 0)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s updates each pipeline stage by itself, and clipping to a norm of %g "
                       "waits for all of them: gradient_clipping: 0 would do",
                       who.text, config->clipping);
    return check_exact(config, error);
}

// Returns the share of the time that a stage waits, with equal times of all units.
static double bubble_of(const zr_pipeline_spec *pipeline, int64_t micro_batches)
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
             100 * bubble_of(&config->pipeline, flying),
             zr_pipeline_kind_name(config->pipeline.kind), would, m,
             100 * bubble_of(&config->pipeline, would * steps));
    return true;
}

// Pipeline stages hold different units, so each would need another placement.
static zero_status check_offload(const zr_config *config, zero_error *error)
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
    ZERO_TRY(check_interval(config, error));
    ZERO_TRY(check_offload(config, error));
    ZERO_TRY(check_micro_batches(config, error));
    if (zr_pipeline_is_asynchronous(config->pipeline.kind))
        ZERO_TRY(check_delayed(config, error));
    if (config->pipeline.kind == ZR_PIPELINE_PIPEDREAM)
        ZERO_TRY(check_pipedream(config, error));
    if (zr_config_pipeline_hint(config, text, sizeof text))
        zr_log(logger, ZERO_LOG_INFO, "%s", text);
    return ZERO_OK;
}
