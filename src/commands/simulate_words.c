// The answer of `zero simulate` in words.
#include "base/text.h"
#include "commands/simulate_report.h"

#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 32 };

// Writes seconds with a fitting unit: "9.43 s", "12.3 ms", "2.1 h".
static const char *time_text(double seconds, char out[NUMBER_BYTES])
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"days", 86400}};
    int unit = 0;
    while (unit + 1 < ZR_COUNT(units) && seconds >= units[unit + 1].seconds)
        unit++;
    snprintf(out, NUMBER_BYTES, "%.3g %s", seconds / units[unit].seconds, units[unit].name);
    return out;
}

// Writes a large number for people: "16,384", "1.78 million", "405.9 billion".
static const char *count_text(double count, char out[NUMBER_BYTES])
{
    if (count >= 1e12)
        snprintf(out, NUMBER_BYTES, "%.4g trillion", count / 1e12);
    else if (count >= 1e9)
        snprintf(out, NUMBER_BYTES, "%.1f billion", count / 1e9);
    else if (count >= 1e6)
        snprintf(out, NUMBER_BYTES, "%.2f million", count / 1e6);
    else if (count >= 1e3)
        snprintf(out, NUMBER_BYTES, "%d,%03d", (int)(count / 1000), (int)count % 1000);
    else
        snprintf(out, NUMBER_BYTES, "%.0f", count);
    return out;
}

static void append_where(const zr_sim_run *run, bool nvme, bool host, const char *what,
                         zr_buffer *out)
{
    if (nvme || host)
        zr_buffer_printf(out, ", %s on %s", what, nvme ? "NVMe" : "the host");
}

static void append_states(const zr_sim_run *run, zr_buffer *out)
{
    static const char *const numbers[ZR_SIM_NUMBERS] = {[ZR_SIM_FP32] = "fp32",
                                                        [ZR_SIM_16_BIT] = "16-bit",
                                                        [ZR_SIM_8_BIT] = "8-bit",
                                                        [ZR_SIM_4_BIT] = "4-bit"};
    static const char *const recomputes[] = {[ZR_SIM_KEEP] = "nothing is computed again",
                                             [ZR_SIM_SELECTIVE] = "attention is computed again",
                                             [ZR_SIM_OPERATORS] = "operators are computed again",
                                             [ZR_SIM_FULL] = "layers are computed again"};
    // Attention without scores in memory computes them again in any case.
    bool flash = run->recompute == ZR_SIM_SELECTIVE && run->attention == ZR_SIM_FLASH;
    zr_buffer_printf(out, "states    ZeRO stage %d, %s products, %s", run->stage,
                     numbers[run->number], recomputes[flash ? ZR_SIM_KEEP : run->recompute]);
    append_where(run, run->optimizer_on_nvme, run->optimizer_on_host, "optimizer", out);
    append_where(run, run->parameters_on_nvme, run->parameters_on_host, "parameters", out);
    zr_buffer_printf(out, "\n");
}

static void append_run(const zr_simulate_answer *answer, zr_buffer *out)
{
    const zr_sim_run *run = &answer->run;
    char parameters[NUMBER_BYTES], devices[NUMBER_BYTES], seq[NUMBER_BYTES], batch[NUMBER_BYTES];
    zr_buffer_printf(out, "model     %s: %s parameters, samples of %s tokens\n", answer->model,
                     count_text(run->parameters, parameters), count_text((double)run->seq, seq));
    zr_buffer_printf(out, "machine   %s: %s %s, %d a node\n", run->machine.name,
                     count_text(run->devices, devices), run->machine.device, run->machine.devices);
    zr_buffer_printf(out, "grid      tensor %d x context %d x data %d x pipeline %d", run->tensor,
                     run->context, run->data, run->pipeline);
    if (run->pipeline > 1)
        zr_buffer_printf(out, " (%s", zr_pipeline_kind_name(run->schedule));
    if (run->pipeline > 1 && run->chunks > 1)
        zr_buffer_printf(out, ":%d", run->chunks);
    zr_buffer_printf(out, "%s, order %s\n", run->pipeline > 1 ? ")" : "", run->order);
    zr_buffer_printf(out, "batch     %s samples: micro-batch %lld x accumulation %lld x data %d\n",
                     count_text((double)run->global_batch, batch), (long long)run->micro_batch,
                     (long long)run->accumulation, run->data);
    append_states(run, out);
}

static void append_memory(const char *name, double needs, const char *whose, double has,
                          zr_buffer *out)
{
    char needed[ZR_BYTES_TEXT], there[ZR_BYTES_TEXT];
    zr_bytes_text(needs, needed);
    zr_bytes_text(has, there);
    zr_buffer_printf(out, "%-9s %s of a %s's %s: %s\n", name, needed, whose, there,
                     needs <= has ? "it fits" : "it does NOT fit");
}

// Says with what the run would fit: with samples as long as they are, and with shorter ones if that
// is a lesser change.
static void append_remedies(const zr_simulate_answer *answer, zr_buffer *out)
{
    const zr_sim_remedy *remedies[] = {&answer->remedy_of_length, &answer->remedy};
    const char *before = "";
    char bytes[ZR_BYTES_TEXT];
    if (answer->fits)
        return;
    zr_buffer_printf(out, "%-9s ", "fits");
    for (int i = 0; i < ZR_COUNT(remedies); i++) {
        const zr_sim_remedy *remedy = remedies[i];
        if (!remedy->changes[0] || !strcmp(before, remedy->changes))
            continue;
        zr_bytes_text(remedy->memory, bytes);
        zr_buffer_printf(out, "%swith %s (%s a device)", before[0] ? ", or " : "", remedy->changes,
                         bytes);
        before = remedy->changes;
    }
    zr_buffer_printf(out, "%s\n", before[0] ? "" : "not with any change that is tried");
}

static void append_step(const zr_simulate_answer *answer, zr_buffer *out)
{
    const zr_sim_step *step = &answer->step;
    char time[NUMBER_BYTES], low[NUMBER_BYTES], high[NUMBER_BYTES], tokens[NUMBER_BYTES];
    zr_buffer_printf(out, "\nstep      %s (80%%: %s to %s), %s tokens/s\n",
                     time_text(step->seconds, time), time_text(step->low, low),
                     time_text(step->high, high), count_text(step->tokens, tokens));
    zr_buffer_printf(out,
                     "rate      %.4g TFLOP/s a device, MFU %.1f%% (6N + 12LCT, attention counted "
                     "whole); %.4g with what is computed again\n",
                     step->model_flops / 1e12, 100 * step->utilization,
                     step->hardware_flops / 1e12);
    append_memory("memory", step->memory, "device", answer->run.machine.memory, out);
    if (step->host_memory > 0)
        append_memory("host", step->host_memory, "node", answer->run.machine.host_memory, out);
    append_remedies(answer, out);
}

static void append_step_parts(const zr_sim_step *step, zr_buffer *out)
{
    char time[NUMBER_BYTES];
    zr_buffer_printf(out, "\n  %-16s %10s  share\n", "part", "time");
    for (int i = 0; i < ZR_SIM_PARTS; i++)
        if (step->parts[i] > 0)
            zr_buffer_printf(out, "  %-16s %10s  %4.1f%%\n", zr_sim_part_names[i],
                             time_text(step->parts[i], time), 100 * step->parts[i] / step->seconds);
}

static void append_axes(const zr_sim_step *step, zr_buffer *out)
{
    char time[NUMBER_BYTES], bytes[ZR_BYTES_TEXT];
    if (!step->axis_count)
        return;
    zr_buffer_printf(out, "\n  %-10s %6s  %-8s %16s  %10s (hidden or not)\n", "axis", "ranks",
                     "crosses", "a device sends", "time");
    for (int i = 0; i < step->axis_count; i++) {
        const zr_sim_axis_use *axis = &step->axes[i];
        zr_bytes_text(axis->bytes, bytes);
        zr_buffer_printf(out, "  %-10s %6d  %-8s %16s  %10s\n", axis->axis, axis->ranks,
                         zr_sim_reach_names[axis->reach], bytes, time_text(axis->seconds, time));
    }
}

static void append_saving(const zr_simulate_answer *answer, zr_buffer *out)
{
    const zr_simulate_saving *saving = &answer->saving;
    const zr_sim_failures *f = &saving->failures;
    const zr_sim_survival *best = &saving->survival;
    char mtbf[NUMBER_BYTES], time[NUMBER_BYTES], behind[NUMBER_BYTES], bytes[ZR_BYTES_TEXT];
    if (!saving->asked)
        return;
    zr_bytes_text(saving->bytes, bytes);
    zr_buffer_printf(out, "\nfailures  one of %s nodes every %s, and a restart takes %s\n",
                     count_text(saving->nodes, time), time_text(f->mtbf, mtbf),
                     time_text(f->restart, behind));
    zr_buffer_printf(out, "saving    %s (12 bytes a parameter) blocks training for %s", bytes,
                     time_text(f->blocked, time));
    if (f->behind > 0)
        zr_buffer_printf(out, " and is written in %s beside it", time_text(f->behind, behind));
    zr_buffer_printf(out, "\nbest      a checkpoint every %.0f step%s (%s)", saving->steps,
                     saving->steps == 1 ? "" : "s", time_text(best->interval, time));
    if (!f->behind)
        zr_buffer_printf(out, "; Young's formula: %s", time_text(best->young, time));
    zr_buffer_printf(out, "\ngoodput   %.1f%%: with failures and saving a step takes %s\n",
                     100 * best->goodput, time_text(answer->step.seconds / best->goodput, time));
}

static void append_length(const zr_simulate_answer *answer, zr_buffer *out)
{
    const zr_simulate_length *length = &answer->length;
    char tokens[NUMBER_BYTES], steps[NUMBER_BYTES], time[NUMBER_BYTES], low[NUMBER_BYTES],
        high[NUMBER_BYTES], hours[NUMBER_BYTES];
    if (!length->asked)
        return;
    zr_buffer_printf(out,
                     "training  %s tokens in %s steps: %s (80%%: %s to %s), %s device hours%s\n",
                     count_text(length->tokens, tokens), count_text(length->steps, steps),
                     time_text(length->seconds, time), time_text(length->low, low),
                     time_text(length->high, high), count_text(length->device_hours, hours),
                     answer->saving.asked ? ", with failures and saving" : "");
}

static void append_constants(const char *title, const char *name, const char *const *names,
                             const double *values, int count, const char *fit, zr_buffer *out)
{
    zr_buffer_printf(out, "%-9s %s:", title, name);
    for (int i = 0; i < count; i++)
        zr_buffer_printf(out, "%s %s %.4g", i ? "," : "", names[i], values[i]);
    zr_buffer_printf(out, " (%s)\n", fit[0] ? fit : "estimates, not fitted");
}

void zr_simulate_text(const zr_simulate_answer *answer, zr_buffer *out)
{
    const zr_sim_run *run = &answer->run;
    append_run(answer, out);
    append_step(answer, out);
    append_length(answer, out);
    append_step_parts(&answer->step, out);
    append_axes(&answer->step, out);
    append_saving(answer, out);
    zr_buffer_printf(out, "\n");
    append_constants("constants", run->machine.name, zr_sim_constant_names, run->machine.constants,
                     ZR_SIM_CONSTANTS, run->machine.fit, out);
    append_constants("", run->framework.name[0] ? run->framework.name : "a well-made framework",
                     zr_sim_framework_constant_names, run->framework.constants,
                     ZR_SIM_FRAMEWORK_CONSTANTS, run->framework.fit, out);
}
