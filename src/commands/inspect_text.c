// The report in words. Each line states what there is; what a checkpoint does not keep is left out.
#include "commands/inspect_report.h"

#include "base/text.h"
#include "checkpoint/run_record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const json_t *member_of_member(const json_t *object, const char *a, const char *b)
{
    return json_object_get(json_object_get(object, a), b);
}

static int64_t integer(const json_t *value) { return json_integer_value(value); }

static const char *bytes_text(const json_t *value, char out[static ZR_BYTES_TEXT])
{
    zr_bytes_text((double)integer(value), out);
    return out;
}

// Says how many ranks held a model together, if it was not one each.
static void say_grid(const json_t *lineage, zr_buffer *out)
{
    int64_t tensor = ZR_MAX(integer(json_object_get(lineage, "tensor")), 1),
            stages = ZR_MAX(integer(json_object_get(lineage, "pipeline")), 1);
    if (tensor * stages > 1)
        zr_buffer_printf(out, ", %lld a model", (long long)(tensor * stages));
    if (stages > 1)
        zr_buffer_printf(out, " in %lld pipeline stages", (long long)stages);
}

static void say_origin(const json_t *state, zr_buffer *out)
{
    const json_t *lineage = json_object_get(state, "lineage");
    zr_run_state run;
    zr_run_state_read(state, &run);
    const char *from = json_string_value(json_object_get(lineage, "imported_from")),
               *version = json_string_value(json_object_get(lineage, "version"));
    const char *program = json_string_value(json_object_get(lineage, "program")),
               *when = json_string_value(json_object_get(lineage, "written"));
    const char *instructions = json_string_value(json_object_get(lineage, "instructions"));
    if (program)
        zr_buffer_printf(out, "written    %s by libzero %s (%s) on %lld rank%s", when ? when : "",
                         program, instructions ? instructions : "",
                         (long long)integer(json_object_get(lineage, "ranks")),
                         integer(json_object_get(lineage, "ranks")) == 1 ? "" : "s");
    else if (from)
        zr_buffer_printf(out, "written    by %s %s, ZeRO stage %lld on %lld ranks", from,
                         version ? version : "",
                         (long long)integer(json_object_get(lineage, "stage")),
                         (long long)integer(json_object_get(lineage, "ranks")));
    else
        return;
    say_grid(lineage, out);
    if (run.resumed_from)
        zr_buffer_printf(out, "; that run went on from step %lld", (long long)run.resumed_from);
    zr_buffer_printf(out, "\n");
}

static void say_state(const json_t *state, zr_buffer *out)
{
    const json_t *scale = json_object_get(state, "loss_scale");
    zr_run_state run;
    bool ours = zr_run_state_read(state, &run);
    const char *optimizer = json_string_value(json_object_get(state, "optimizer"));
    int64_t batch = integer(json_object_get(state, "train_batch_size")),
            step = integer(json_object_get(state, "step"));
    zr_buffer_printf(out,
                     "optimizer  %s after %lld updates of %lld steps; loss scale %g (iteration "
                     "%lld, last overflow %lld, hysteresis %lld)\n",
                     optimizer ? optimizer : "?",
                     (long long)integer(json_object_get(state, "updates")), (long long)step,
                     json_number_value(json_object_get(scale, "scale")),
                     (long long)integer(json_object_get(scale, "iteration")),
                     (long long)integer(json_object_get(scale, "last_overflow")),
                     (long long)integer(json_object_get(scale, "hysteresis")));
    if (batch)
        zr_buffer_printf(out, "data       %lld samples a step, next is sample %lld",
                         (long long)batch, (long long)(batch * step));
    else
        zr_buffer_printf(out, "data       samples a step unknown");
    if (ours)
        zr_buffer_printf(out, ", of %lld tokens; seed %lld", (long long)run.seq,
                         (long long)integer(json_object_get(state, "seed")));
    if (isfinite(run.best))
        zr_buffer_printf(out, "; best val loss %.6f", run.best);
    zr_buffer_printf(out, "\n");
}

static void say_vectors(const json_t *report, zr_buffer *out)
{
    char text[ZR_BYTES_TEXT];
    size_t v;
    json_t *vector;
    zr_buffer_printf(out, "vectors   ");
    json_array_foreach(json_object_get(report, "vectors"), v, vector)
        zr_buffer_printf(out, "%s %s: %zu tensors, %s", v ? ";" : "",
                         json_string_value(json_object_get(vector, "name")),
                         json_array_size(json_object_get(vector, "tensors")),
                         bytes_text(json_object_get(vector, "bytes"), text));
    zr_buffer_printf(out, "\nin all     %s of files, %lld parameters\n",
                     bytes_text(json_object_get(report, "files_bytes"), text),
                     (long long)integer(json_object_get(report, "parameters")));
}

static void say_verdict(const json_t *report, zr_buffer *out)
{
    const json_t *verdict = json_object_get(report, "verify"),
                 *damaged = json_object_get(verdict, "damaged");
    char text[ZR_BYTES_TEXT];
    if (!verdict)
        return;
    if (!json_is_true(json_object_get(verdict, "checksums")))
        zr_buffer_printf(
            out, "verify     the format has no checksums; headers, shapes and sizes agree\n");
    else if (!json_array_size(damaged))
        zr_buffer_printf(out, "verify     intact: %s, every checksum agrees\n",
                         bytes_text(json_object_get(verdict, "bytes"), text));
    for (size_t i = 0; i < json_array_size(damaged); i++)
        zr_buffer_printf(out, "DAMAGED    %s\n", json_string_value(json_array_get(damaged, i)));
}

static void say_tensor(const json_t *tensor, int width, zr_buffer *out)
{
    const json_t *shape = json_object_get(tensor, "shape"), *sums = json_object_get(tensor, "sums");
    char text[ZR_BYTES_TEXT], size[96];
    int used = snprintf(size, sizeof size, json_array_size(shape) ? "" : "scalar");
    for (size_t d = 0; d < json_array_size(shape) && used < (int)sizeof size; d++)
        used += snprintf(size + used, sizeof size - (size_t)used, d ? " x %lld" : "%lld",
                         (long long)integer(json_array_get(shape, d)));
    zr_buffer_printf(out, "  %-*s  %-4s  %-14s %9s", width,
                     json_string_value(json_object_get(tensor, "name")),
                     json_string_value(json_object_get(tensor, "dtype")), size,
                     bytes_text(json_object_get(tensor, "bytes"), text));
    if (json_object_get(sums, "min"))
        zr_buffer_printf(out, "  min %-11.5g max %-11.5g mean %-12.5g rms %-11.5g",
                         json_number_value(json_object_get(sums, "min")),
                         json_number_value(json_object_get(sums, "max")),
                         json_number_value(json_object_get(sums, "mean")),
                         json_number_value(json_object_get(sums, "rms")));
    if (sums)
        zr_buffer_printf(out, "  crc32c %08llx",
                         (long long)integer(json_object_get(sums, "crc32c")));
    if (integer(json_object_get(sums, "nan")) + integer(json_object_get(sums, "infinite")))
        zr_buffer_printf(out, "  %lld NaN, %lld infinite",
                         (long long)integer(json_object_get(sums, "nan")),
                         (long long)integer(json_object_get(sums, "infinite")));
    zr_buffer_printf(out, "\n");
}

// States have the same tensors as the weights, so they are listed only if there is more to say of
// them.
static void say_tensors(const json_t *report, zr_buffer *out)
{
    size_t v, t;
    json_t *vector, *tensor;
    json_array_foreach(json_object_get(report, "vectors"), v, vector)
    {
        const json_t *list = json_object_get(vector, "tensors");
        int width = 0;
        if (v && !json_object_get(json_array_get(list, 0), "sums"))
            continue;
        json_array_foreach(list, t, tensor) width =
            ZR_MAX(width, (int)json_string_length(json_object_get(tensor, "name")));
        zr_buffer_printf(out, "%s\n", json_string_value(json_object_get(vector, "name")));
        json_array_foreach(list, t, tensor) say_tensor(tensor, ZR_MIN(width, 60), out);
    }
}

void zr_inspect_text(const json_t *report, zr_buffer *out)
{
    const json_t *state = json_object_get(report, "state");
    if (!json_object_get(state, "step")) // it has a configuration alone
        state = NULL;
    zr_buffer_printf(out, "%s: %s", json_string_value(json_object_get(report, "path")),
                     json_string_value(json_object_get(report, "kind")));
    if (state)
        zr_buffer_printf(out, ", step %lld", (long long)integer(json_object_get(state, "step")));
    if (json_string_value(json_object_get(report, "model")))
        zr_buffer_printf(out, ", %s", json_string_value(json_object_get(report, "model")));
    zr_buffer_printf(out, "\n");
    if (state) {
        say_origin(state, out);
        say_state(state, out);
    }
    say_vectors(report, out);
    say_verdict(report, out);
    say_tensors(report, out);
}

// Says what the check of a model, or of a checkpoint other than the newest, has found.
static void say_part(const json_t *part, zr_buffer *out)
{
    const json_t *damaged = member_of_member(part, "verify", "damaged");
    const char *name = json_string_value(json_object_get(part, "name"));
    char text[ZR_BYTES_TEXT], step[40];
    snprintf(step, sizeof step, "step %lld", (long long)integer(json_object_get(part, "step")));
    if (damaged && !json_array_size(damaged))
        zr_buffer_printf(out, "verify     %s: %s, every checksum agrees\n", name ? name : step,
                         bytes_text(member_of_member(part, "verify", "bytes"), text));
    for (size_t i = 0; i < json_array_size(damaged); i++)
        zr_buffer_printf(out, "DAMAGED    %s\n", json_string_value(json_array_get(damaged, i)));
}

void zr_inspect_run_text(const json_t *run, zr_buffer *out)
{
    static const char *const numbers[] = {"loss", "val_loss", "lr", "grad_norm"};
    const json_t *list = json_object_get(run, "checkpoints"),
                 *last = json_object_get(run, "last_step");
    size_t i;
    json_t *one;
    zr_buffer_printf(out, "%s: run\n", json_string_value(json_object_get(run, "path")));
    if (last) {
        zr_buffer_printf(out, "last step  %lld", (long long)integer(json_object_get(last, "step")));
        for (int n = 0; n < ZR_COUNT(numbers); n++)
            if (json_is_number(json_object_get(last, numbers[n])))
                zr_buffer_printf(out, ", %s %.6g", numbers[n],
                                 json_number_value(json_object_get(last, numbers[n])));
        zr_buffer_printf(out, "\n");
    }
    zr_buffer_printf(out, "holds     ");
    json_array_foreach(json_object_get(run, "holds"), i, one)
        zr_buffer_printf(out, " %s", json_string_value(one));
    zr_buffer_printf(out, "\ncheckpoints");
    json_array_foreach(list, i, one)
        zr_buffer_printf(out, " %lld%s", (long long)integer(json_object_get(one, "step")),
                         json_is_true(json_object_get(one, "whole")) ? "" : " (not intact)");
    zr_buffer_printf(out, "%s\n", json_array_size(list) ? "" : " none");
    json_array_foreach(list, i, one) say_part(one, out);
    json_array_foreach(json_object_get(run, "models"), i, one) say_part(one, out);
    zr_buffer_printf(out, "\n");
}
