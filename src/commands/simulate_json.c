// The answer of `zero simulate` as JSON. Its keys carry their units.
#include "base/json.h"
#include "commands/simulate_report.h"

#include <string.h>

static void append_simulate_json_text(const char *key, const char *text, zr_buffer *out)
{
    zr_buffer_printf(out, "\"%s\":", key);
    zr_json_append_string(out, text, strlen(text));
    zr_buffer_printf(out, ",");
}

static void append_number(const char *key, double value, zr_buffer *out)
{
    zr_buffer_printf(out, "\"%s\":", key);
    zr_json_append_double(out, value);
    zr_buffer_printf(out, ",");
}

static void append_count(const char *key, int64_t count, zr_buffer *out)
{
    zr_buffer_printf(out, "\"%s\":%lld,", key, (long long)count);
}

// Takes the last comma back, and closes an object or a list.
static void close_with(const char *mark, zr_buffer *out)
{
    if (!out->failed && out->data[out->length - 1] == ',')
        out->data[--out->length] = 0;
    zr_buffer_printf(out, "%s", mark);
}

static void append_simulate_json_run(const zr_simulate_answer *answer, zr_buffer *out)
{
    const zr_sim_run *run = &answer->run;
    append_simulate_json_text("model", answer->model, out);
    append_count("parameters", (int64_t)run->parameters, out);
    append_simulate_json_text("machine", run->machine.name, out);
    append_simulate_json_text("device", run->machine.device, out);
    append_count("devices", run->devices, out);
    append_count("tensor", run->tensor, out);
    append_count("context", run->context, out);
    append_count("data", run->data, out);
    append_count("pipeline", run->pipeline, out);
    append_simulate_json_text("schedule", zr_pipeline_kind_name(run->schedule), out);
    append_count("chunks", run->chunks, out);
    append_simulate_json_text("order", run->order, out);
    append_count("stage", run->stage, out);
    append_count("global_batch", run->global_batch, out);
    append_count("micro_batch", run->micro_batch, out);
    append_count("accumulation", run->accumulation, out);
    append_count("seq", run->seq, out);
}

static void append_simulate_json_step(const zr_simulate_answer *answer, zr_buffer *out)
{
    const zr_sim_step *step = &answer->step;
    append_number("step_s", step->seconds, out);
    append_number("low_s", step->low, out);
    append_number("high_s", step->high, out);
    append_number("tokens_per_s", step->tokens, out);
    append_number("model_flops_per_device", step->model_flops, out);
    append_number("hardware_flops_per_device", step->hardware_flops, out);
    append_number("mfu", step->utilization, out);
    append_number("memory_bytes", step->memory, out);
    append_number("device_bytes", answer->run.machine.memory, out);
    append_number("host_memory_bytes", step->host_memory, out);
    append_number("host_bytes", answer->run.machine.host_memory, out);
    zr_buffer_printf(out, "\"fits\":%s,\n\"parts_s\":{", answer->fits ? "true" : "false");
    for (int i = 0; i < ZR_SIM_PARTS; i++)
        append_number(zr_sim_part_names[i], step->parts[i], out);
    close_with("},\n\"axes\":[", out);
    for (int i = 0; i < step->axis_count; i++) {
        zr_buffer_printf(out, "{");
        append_simulate_json_text("axis", step->axes[i].axis, out);
        append_count("ranks", step->axes[i].ranks, out);
        append_simulate_json_text("crosses", zr_sim_reach_names[step->axes[i].reach], out);
        append_number("bytes", step->axes[i].bytes, out);
        append_number("seconds", step->axes[i].seconds, out);
        close_with("},", out);
    }
    close_with("],\n", out);
}

static void append_remedies(const zr_simulate_answer *answer, zr_buffer *out)
{
    const zr_sim_remedy *remedies[] = {&answer->remedy_of_length, &answer->remedy};
    zr_buffer_printf(out, "\"would_fit\":[");
    for (int i = 0; i < ZR_COUNT(remedies); i++) {
        bool again = i && !strcmp(remedies[0]->changes, remedies[i]->changes);
        if (!remedies[i]->changes[0] || again)
            continue;
        zr_buffer_printf(out, "{");
        append_simulate_json_text("with", remedies[i]->changes, out);
        append_number("memory_bytes", remedies[i]->memory, out);
        close_with("},", out);
    }
    close_with("],\n", out);
}

static void append_saving(const zr_simulate_saving *saving, zr_buffer *out)
{
    if (!saving->asked)
        return;
    zr_buffer_printf(out, "\"failures\":{");
    append_count("nodes", saving->nodes, out);
    append_number("mtbf_s", saving->failures.mtbf, out);
    append_number("checkpoint_bytes", saving->bytes, out);
    append_number("checkpoint_bytes_per_s", saving->rate, out);
    append_number("blocked_s", saving->failures.blocked, out);
    append_number("behind_s", saving->failures.behind, out);
    append_number("restart_s", saving->failures.restart, out);
    append_number("interval_s", saving->survival.interval, out);
    append_count("interval_steps", (int64_t)saving->steps, out);
    append_number("young_s", saving->survival.young, out);
    append_number("goodput", saving->survival.goodput, out);
    close_with("},\n", out);
}

static void append_length(const zr_simulate_length *length, zr_buffer *out)
{
    if (!length->asked)
        return;
    zr_buffer_printf(out, "\"training\":{");
    append_number("tokens", length->tokens, out);
    append_number("steps", length->steps, out);
    append_number("seconds", length->seconds, out);
    append_number("low_s", length->low, out);
    append_number("high_s", length->high, out);
    append_number("device_hours", length->device_hours, out);
    close_with("},\n", out);
}

static void append_constants(const char *key, const char *name, const char *const *names,
                             const double *values, int count, const char *fit, zr_buffer *out)
{
    zr_buffer_printf(out, "\"%s\":{", key);
    append_simulate_json_text("name", name, out);
    for (int i = 0; i < count; i++)
        append_number(names[i], values[i], out);
    append_simulate_json_text("fit", fit, out);
    close_with("},", out);
}

void zr_simulate_json(const zr_simulate_answer *answer, zr_buffer *out)
{
    const zr_sim_run *run = &answer->run;
    zr_buffer_printf(out, "{");
    append_simulate_json_run(answer, out);
    append_simulate_json_step(answer, out);
    if (!answer->fits)
        append_remedies(answer, out);
    append_saving(&answer->saving, out);
    append_length(&answer->length, out);
    append_constants("machine_constants", run->machine.name, zr_sim_constant_names,
                     run->machine.constants, ZR_SIM_CONSTANTS, run->machine.fit, out);
    append_constants("framework_constants", run->framework.name, zr_sim_framework_constant_names,
                     run->framework.constants, ZR_SIM_FRAMEWORK_CONSTANTS, run->framework.fit, out);
    close_with("}\n", out);
}
