// The answer of `zero simulate` as JSON. Its keys carry their units.
#include "base/json_writer.h"
#include "commands/simulate_report.h"

#include <string.h>

static void put_run(const zr_simulate_answer *answer, zr_json_writer *w)
{
    const zr_sim_run *run = &answer->run;
    zr_json_text(w, "model", answer->model);
    zr_json_integer(w, "parameters", (int64_t)run->parameters);
    zr_json_text(w, "machine", run->machine.name);
    zr_json_text(w, "device", run->machine.device);
    zr_json_integer(w, "devices", run->devices);
    zr_json_integer(w, "tensor", run->tensor);
    zr_json_integer(w, "context", run->context);
    zr_json_integer(w, "data", run->data);
    zr_json_integer(w, "pipeline", run->pipeline);
    zr_json_text(w, "schedule", zr_pipeline_kind_name(run->schedule));
    zr_json_integer(w, "chunks", run->chunks);
    zr_json_text(w, "order", run->order);
    zr_json_integer(w, "stage", run->stage);
    zr_json_integer(w, "global_batch", run->global_batch);
    zr_json_integer(w, "micro_batch", run->micro_batch);
    zr_json_integer(w, "accumulation", run->accumulation);
    zr_json_integer(w, "seq", run->seq);
}

static void put_step(const zr_simulate_answer *answer, zr_json_writer *w)
{
    const zr_sim_step *step = &answer->step;
    zr_json_real(w, "step_s", step->seconds);
    zr_json_real(w, "low_s", step->low);
    zr_json_real(w, "high_s", step->high);
    zr_json_real(w, "tokens_per_s", step->tokens);
    zr_json_real(w, "model_flops_per_device", step->model_flops);
    zr_json_real(w, "hardware_flops_per_device", step->hardware_flops);
    zr_json_real(w, "mfu", step->utilization);
    zr_json_real(w, "memory_bytes", step->memory);
    zr_json_real(w, "device_bytes", answer->run.machine.memory);
    zr_json_real(w, "host_memory_bytes", step->host_memory);
    zr_json_real(w, "host_bytes", answer->run.machine.host_memory);
    zr_json_flag(w, "fits", answer->fits);
    zr_json_line(w, 0);
    zr_json_begin_object(w, "parts_s");
    for (int i = 0; i < ZR_SIM_PARTS; i++)
        zr_json_real(w, zr_sim_part_names[i], step->parts[i]);
    zr_json_end(w);
    zr_json_line(w, 0);
    zr_json_begin_array(w, "axes");
    for (int i = 0; i < step->axis_count; i++) {
        zr_json_begin_object(w, NULL);
        zr_json_text(w, "axis", step->axes[i].axis);
        zr_json_integer(w, "ranks", step->axes[i].ranks);
        zr_json_text(w, "crosses", zr_sim_reach_names[step->axes[i].reach]);
        zr_json_real(w, "bytes", step->axes[i].bytes);
        zr_json_real(w, "seconds", step->axes[i].seconds);
        zr_json_end(w);
    }
    zr_json_end(w);
    zr_json_line(w, 0);
}

static void put_remedies(const zr_simulate_answer *answer, zr_json_writer *w)
{
    const zr_sim_remedy *remedies[] = {&answer->remedy_of_length, &answer->remedy};
    zr_json_begin_array(w, "would_fit");
    for (int i = 0; i < ZR_COUNT(remedies); i++) {
        bool again = i && !strcmp(remedies[0]->changes, remedies[i]->changes);
        if (!remedies[i]->changes[0] || again)
            continue;
        zr_json_begin_object(w, NULL);
        zr_json_text(w, "with", remedies[i]->changes);
        zr_json_real(w, "memory_bytes", remedies[i]->memory);
        zr_json_end(w);
    }
    zr_json_end(w);
    zr_json_line(w, 0);
}

static void put_saving(const zr_simulate_saving *saving, zr_json_writer *w)
{
    if (!saving->asked)
        return;
    zr_json_begin_object(w, "failures");
    zr_json_integer(w, "nodes", saving->nodes);
    zr_json_real(w, "mtbf_s", saving->failures.mtbf);
    zr_json_real(w, "checkpoint_bytes", saving->bytes);
    zr_json_real(w, "checkpoint_bytes_per_s", saving->rate);
    zr_json_real(w, "blocked_s", saving->failures.blocked);
    zr_json_real(w, "behind_s", saving->failures.behind);
    zr_json_real(w, "restart_s", saving->failures.restart);
    zr_json_real(w, "interval_s", saving->survival.interval);
    zr_json_integer(w, "interval_steps", (int64_t)saving->steps);
    zr_json_real(w, "young_s", saving->survival.young);
    zr_json_real(w, "goodput", saving->survival.goodput);
    zr_json_end(w);
    zr_json_line(w, 0);
}

static void put_length(const zr_simulate_length *length, zr_json_writer *w)
{
    if (!length->asked)
        return;
    zr_json_begin_object(w, "training");
    zr_json_real(w, "tokens", length->tokens);
    zr_json_real(w, "steps", length->steps);
    zr_json_real(w, "seconds", length->seconds);
    zr_json_real(w, "low_s", length->low);
    zr_json_real(w, "high_s", length->high);
    zr_json_real(w, "device_hours", length->device_hours);
    zr_json_end(w);
    zr_json_line(w, 0);
}

static void put_constants(const char *key, const char *name, const char *const *names,
                          const double *values, int count, const char *fit, zr_json_writer *w)
{
    zr_json_begin_object(w, key);
    zr_json_text(w, "name", name);
    for (int i = 0; i < count; i++)
        zr_json_real(w, names[i], values[i]);
    zr_json_text(w, "fit", fit);
    zr_json_end(w);
}

void zr_simulate_json(const zr_simulate_answer *answer, zr_buffer *out)
{
    const zr_sim_run *run = &answer->run;
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_COMPACT);
    zr_json_begin_object(&w, NULL);
    put_run(answer, &w);
    put_step(answer, &w);
    if (!answer->fits)
        put_remedies(answer, &w);
    put_saving(&answer->saving, &w);
    put_length(&answer->length, &w);
    put_constants("machine_constants", run->machine.name, zr_sim_constant_names,
                  run->machine.constants, ZR_SIM_CONSTANTS, run->machine.fit, &w);
    put_constants("framework_constants", run->framework.name, zr_sim_framework_constant_names,
                  run->framework.constants, ZR_SIM_FRAMEWORK_CONSTANTS, run->framework.fit, &w);
    zr_json_finish(&w);
}
