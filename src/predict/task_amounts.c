#include "predict/run_tasks.h"
#include "base/dtype.h"
#include "layers/layers.h"
#include "model/unit.h"

// States are those of what trains; where a model has adapters, so are the weights.
int64_t zr_checkpoint_bytes(const zr_plan *plan)
{
    const zero_model *model = plan->model->whole ? plan->model->whole : plan->model;
    const zr_lm_config *config = zr_lm_config_of(model);
    int64_t trained = zr_model_trained(model);
    int64_t weights = config && config->lora.rank ? trained : plan->parameters;
    int64_t lag = zr_plan_parameters_lag(plan)
                      ? weights * (int64_t)zero_dtype_bytes(plan->settings.precision.parameters)
                      : 0;
    return (weights + trained * plan->settings.state_vectors) * (int64_t)sizeof(float) + lag;
}

static int64_t parameter_window_bytes(const zr_plan *plan)
{
    switch (plan->holding) {
    case ZR_HOLDS_TIED_COPIES: return plan->versions * plan->full_bytes;
    case ZR_HOLDS_A_MAP: return plan->versions * plan->shard_bytes[ZERO_TIER_device];
    default: return plan->gather_share;
    }
}

// Counts the bytes that other ranks may reach, which have pages of their own kind.
static int64_t shared_bytes(const zr_plan *plan)
{
    return parameter_window_bytes(plan) + plan->spaces[ZR_SPACE_FROZEN].counted + plan->grad_bytes +
           plan->whole_bytes + plan->open_bytes + plan->exchange_bytes +
           plan->shared_exchange_bytes;
}

static int64_t all_bytes(const zr_plan *plan)
{
    return zr_plan_total_bytes(plan) + zr_plan_tier_bytes(plan, ZERO_TIER_nvme);
}

static int64_t amount_of_task(zr_task task, const zr_task_subject *subject)
{
    const zr_plan *plan = subject->plan;
    switch (task) {
    case ZR_TASK_READ: return subject->text;
    case ZR_TASK_RESERVE: return ZR_MAX(all_bytes(plan) - shared_bytes(plan), 0);
    case ZR_TASK_SHARE: return shared_bytes(plan);
    case ZR_TASK_DRAW: return plan->elems / plan->ranks;
    case ZR_TASK_FORECAST: return plan->unit_count;
    case ZR_TASK_BEGIN:
    case ZR_TASK_LOAD:
    case ZR_TASK_MODEL: return plan->parameters;
    case ZR_TASK_ARRANGE: return plan->shape.batch * plan->shape.seq * plan->settings.accumulation;
    case ZR_TASK_RESUME:
    case ZR_TASK_CHECKPOINT:
    case ZR_TASK_OVERLAPPED: return zr_checkpoint_bytes(plan);
    default: return 0;
    }
}

// Says whether a task converts numbers, or readies the kernels of their type.
static bool depends_on_type(zr_task task)
{
    return task == ZR_TASK_BEGIN || task == ZR_TASK_RESERVE || task == ZR_TASK_LOAD ||
           task == ZR_TASK_MODEL;
}

zr_task_sample zr_task_sample_of(zr_task task, const zr_task_subject *subject)
{
    zero_dtype dtype = subject->plan->settings.precision.parameters;
    return (zr_task_sample){.together = subject->together,
                            .amount = amount_of_task(task, subject),
                            .element = depends_on_type(task) ? (int)zero_dtype_bytes(dtype) : 0,
                            .seen = 1};
}

double zr_task_expected(const zr_task_rates *rates, zr_task task, const zr_task_subject *subject,
                        const zr_task_facts *facts)
{
    const zr_task_sample of = zr_task_sample_of(task, subject);
    return zr_task_rates_seconds(rates, task, &of, facts);
}
