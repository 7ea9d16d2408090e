// Bytes by category (contract 5), and whether they fit.
#include "plan/internal.h"

#include <stdio.h>

static const int64_t WORD = sizeof(float);

static int64_t product_scratch(const zr_plan *plan, const zr_machine *machine)
{
    int64_t bytes = 0;
    for (int u = 0; u < plan->unit_count && machine->product_scratch; u++) {
        const zero_unit_sizes *sizes = &plan->units[u].sizes;
        for (int i = 0; i < sizes->product_count; i++)
            bytes = ZR_MAX(bytes, (int64_t)machine->product_scratch(machine->user, plan->settings.precision.activations, &sizes->products[i]));
    }
    return ZR_ROUND_UP(bytes, ZR_ACTIVATION_ALIGN);
}

void zr_plan_footprint(zr_plan *plan, const zr_machine *machine)
{
    const zr_settings *settings = &plan->settings;
    bool whole = zr_plan_whole_gradients(plan);
    int vectors = settings->state_vectors + (settings->per_tensor_norms ? 1 : 0) + (zr_precision_has_master(&settings->precision) ? 1 : 0);
    plan->product_scratch_bytes = product_scratch(plan, machine);
    plan->bytes[ZERO_MEM_parameters] = settings->stage == 3 ? plan->shard_bytes : plan->full_bytes;
    plan->bytes[ZERO_MEM_gradients] = plan->accumulator_bytes + plan->whole_bytes + (whole ? plan->grad_bytes : 0);
    plan->bytes[ZERO_MEM_optimizer] = settings->inference ? 0 : vectors * plan->state_elems * WORD;
    plan->bytes[ZERO_MEM_activations] = plan->activation_bytes;
    plan->bytes[ZERO_MEM_workspace] = ZR_ROUND_UP(plan->workspace_bytes, ZR_ACTIVATION_ALIGN) + plan->product_scratch_bytes;
    plan->bytes[ZERO_MEM_communication] = (whole ? 0 : plan->grad_bytes) + plan->open_bytes + plan->gather_share + machine->staging_bytes;
}

int64_t zr_plan_total_bytes(const zr_plan *plan)
{
    int64_t total = 0;
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        total += plan->bytes[c];
    return total;
}

// The first change, least intrusive first, under which the plan fits: a higher stage, then a smaller micro-batch.
static void suggest(const zr_plan *plan, const zr_machine *machine, char *out, size_t size)
{
    snprintf(out, size, "no stage and no micro-batch of this model fits; a smaller model or more ranks would");
    for (int64_t batch = plan->shape.batch; batch >= 1; batch /= 2) {
        for (int stage = plan->settings.stage; stage <= 3; stage++) {
            zr_settings settings = plan->settings;
            zero_shape shape = plan->shape;
            zr_plan *other = NULL;
            settings.stage = stage;
            shape.batch = batch;
            bool fits = zr_plan_create(plan->model, &shape, &settings, machine, &other, NULL) == ZERO_OK &&
                        zr_plan_total_bytes(other) <= machine->memory_limit;
            if (fits)
                snprintf(out, size, "stage %d with micro-batch %lld would fit (%.2f GB)", stage, (long long)batch, (double)zr_plan_total_bytes(other) / 1e9);
            zr_plan_destroy(other);
            if (fits)
                return;
        }
    }
}

zero_status zr_plan_check_memory(const zr_plan *plan, const zr_machine *machine, zero_error *error)
{
    int64_t total = zr_plan_total_bytes(plan);
    if (machine->memory_limit <= 0 || total <= machine->memory_limit)
        return ZERO_OK;
    char advice[160];
    suggest(plan, machine, advice, sizeof advice);
    return zr_fail(error, ZERO_ERR_LIMIT,
                   "planning %s, stage %d, %d rank%s, micro-batch %lld x %lld: %.2f GB a rank are needed, %.2f GB are there (%s); %s", plan->model->name,
                   plan->settings.stage, plan->ranks, plan->ranks == 1 ? "" : "s", (long long)plan->shape.batch, (long long)plan->shape.seq,
                   (double)total / 1e9, (double)machine->memory_limit / 1e9, machine->memory_reason, advice);
}
