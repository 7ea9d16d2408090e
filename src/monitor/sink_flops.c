// flops_profiler: the table of one step, in the log or in a file of its own.
#include "base/file.h"
#include "checkpoint/ownership.h"
#include "monitor/breakdown.h"
#include "monitor/sinks.h"

static bool sink_flops_is_asked(const zr_config *config) { return config->flops_profiler.enabled; }

static zr_wanted sink_flops_wants(const zr_config *config, int64_t step)
{
    return config->flops_profiler.step == step ? ZR_WANTS_RECORDS : ZR_WANTS_NOTHING;
}

// Refuses, before the first step, a file that cannot be written or is something else.
static zero_status check_output(const zr_observed *seen, void **own, zero_error *error)
{
    const char *path = seen->config->flops_profiler.output_file;
    zr_durable file;
    if (!path)
        return ZERO_OK;
    ZERO_TRY(zr_ownership_check_file(path, "table of flops_profiler", zr_breakdown_flops_is_one,
                                     NULL, error));
    ZERO_TRY(zr_durable_open(path, &file, error));
    zr_durable_discard(&file);
    return ZERO_OK;
}

static int64_t owned_parameters(const zr_plan *plan, int unit)
{
    int64_t parameters = 0;
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        for (int t = 0; t < flat_param->tensor_count && flat_param->ref.unit == unit; t++)
            parameters += zr_plan_tensor_parameters(flat_param, &flat_param->tensors[t]);
    }
    return parameters;
}

static zero_status make_table(const zr_observed *seen, zr_buffer *text, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(seen->engine);
    const zr_flops_profiler *profiler = &seen->config->flops_profiler;
    zr_unit_facts *units = zr_alloc((size_t)plan->unit_count * sizeof *units, error);
    if (!units)
        return ZERO_ERR_MEMORY;
    for (int u = 0; u < plan->unit_count; u++)
        units[u] = (zr_unit_facts){
            .name = seen->units[u],
            .parameters = owned_parameters(plan, u),
            .fused = plan->units[u].fused,
        };
    const zr_flops_facts facts = {
        .step = seen->steps.first,
        .last_step = seen->steps.last,
        .of = seen->of,
        .units = units,
        .unit_count = plan->unit_count,
        .ranks = plan->world,
        .parameters = plan->parameters,
        .detailed = profiler->detailed,
        .recompute_factor = profiler->recompute_factor,
    };
    zero_status status = zr_breakdown_flops(&facts, seen->recorder, seen->begun, text, error);
    zr_free(units);
    return status;
}

static zero_status sink_flops_step_done(void *own, const zr_observed *seen,
                                        const zero_step_info *info, zero_error *error)
{
    const char *path = seen->config->flops_profiler.output_file;
    zr_buffer text = {0};
    zero_status status = make_table(seen, &text, error);
    if (status != ZERO_OK) {
        zr_buffer_free(&text);
        return status;
    }
    return path ? zr_file_write_text(path, &text, error)
                : zr_observed_log(seen, "flops", &text, error);
}

const zr_observe_sink zr_observe_flops = {
    .is_asked = sink_flops_is_asked,
    .reads_records = true,
    .wants = sink_flops_wants,
    .open = check_output,
    .step = sink_flops_step_done,
};
