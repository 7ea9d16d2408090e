// Writes metrics.jsonl. Each line is written at once when its step ends, so that a reader never
// sees half of one and a run that is killed keeps its lines. Called by train/train on rank 0.
#include "monitor/metrics.h"

#include "base/json.h"
#include "base/op_names.h"
#include "monitor/append_file.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>

struct zr_metrics {
    zr_append_file file;
    int64_t lines;
    zr_buffer line;
};

static const char *const categories[ZERO_MEM_COUNT] = {
#define CATEGORY(name) [ZERO_MEM_##name] = #name,
    ZERO_MEMORY_CATEGORIES(CATEGORY)
#undef CATEGORY
};

zero_status zr_metrics_open(const char *path, int64_t lines, zr_metrics **out, zero_error *error)
{
    *out = NULL;
    zr_metrics *metrics = zr_alloc(sizeof *metrics, error);
    if (!metrics)
        return ZERO_ERR_MEMORY;
    metrics->lines = lines;
    zero_status status =
        zr_append_file_open(path, O_CREAT | (lines ? 0 : O_TRUNC), &metrics->file, error);
    if (status == ZERO_OK)
        *out = metrics;
    else
        zr_free(metrics);
    return status;
}

void zr_metrics_sum(const char *text, size_t length, int64_t *steps, double *milliseconds)
{
    const char *end = text + length;
    *steps = 0;
    *milliseconds = 0;
    for (const char *next; text < end && (next = memchr(text, '\n', (size_t)(end - text)));
         text = next + 1) {
        json_t *object = json_loadb(text, (size_t)(next - text), 0, NULL),
               *ms = json_object_get(object, "ms");
        *steps += ms != NULL;
        *milliseconds += json_number_value(ms);
        json_decref(object);
    }
}

static void append_double(zr_buffer *line, const char *key, double value)
{
    zr_buffer_printf(line, ",\"%s\":", key);
    zr_json_append_double(line, value);
}

static void append_traffic(zr_buffer *line, const char *name, const zero_traffic *traffic)
{
    const char *separator = "";
    zr_buffer_printf(line, "\"%s\":{", name);
    for (int op = 0; op < ZERO_COMM_OP_COUNT; op++) {
        if (!traffic->calls[op])
            continue;
        zr_buffer_printf(line, "%s\"%s\":{\"calls\":%lld,\"bytes\":%lld", separator,
                         zr_op_name((zero_comm_op)op), (long long)traffic->calls[op],
                         (long long)traffic->bytes[op]);
        if (traffic->network[op])
            zr_buffer_printf(line, ",\"network\":%lld", (long long)traffic->network[op]);
        zr_buffer_printf(line, "}");
        separator = ",";
    }
    zr_buffer_printf(line, "}");
}

// Writes the parts of the traffic: of data ranks, of tensor ranks, of the ranks of a pipeline where
// there is one, of all ranks of the job.
static void append_groups(zr_buffer *line, const zr_metrics_step *step)
{
    if (!step->groups)
        return;
    zr_buffer_printf(line, ",\"groups\":{");
    append_traffic(line, "data", &step->groups[ZERO_AXIS_data]);
    zr_buffer_printf(line, ",");
    append_traffic(line, "tensor", &step->groups[ZERO_AXIS_tensor]);
    zr_buffer_printf(line, ",");
    if (step->pipelined) {
        append_traffic(line, "pipeline", &step->groups[ZERO_AXIS_pipeline]);
        zr_buffer_printf(line, ",");
    }
    append_traffic(line, "job", &step->job);
    zr_buffer_printf(line, "}");
}

// Writes memory, device and host together, and also by tier if more than the device is used.
static void append_memory(zr_buffer *line, const zero_memory *memory)
{
    int64_t tiers[ZERO_TIER_COUNT] = {0};
    zr_buffer_printf(line, ",\"mem\":{");
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        zr_buffer_printf(
            line, "%s\"%s\":{\"planned\":%lld,\"held\":%lld}", c ? "," : "", categories[c],
            (long long)(memory->planned[ZERO_TIER_device][c] + memory->planned[ZERO_TIER_host][c]),
            (long long)(memory->held[ZERO_TIER_device][c] + memory->held[ZERO_TIER_host][c]));
    zr_buffer_printf(line, "}");
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        for (int c = 0; c < ZERO_MEM_COUNT; c++)
            tiers[t] += memory->held[t][c];
    if (tiers[ZERO_TIER_host] || tiers[ZERO_TIER_nvme])
        zr_buffer_printf(line, ",\"tiers\":{\"device\":%lld,\"host\":%lld,\"nvme\":%lld}",
                         (long long)tiers[ZERO_TIER_device], (long long)tiers[ZERO_TIER_host],
                         (long long)tiers[ZERO_TIER_nvme]);
}

static void append_io(zr_buffer *line, const zero_io *io)
{
    if (!io->to_host && !io->to_device && !io->nvme_read && !io->nvme_written)
        return;
    zr_buffer_printf(line, ",\"io\":{\"host\":{\"down\":%lld,\"up\":%lld}", (long long)io->to_host,
                     (long long)io->to_device);
    if (io->nvme_read || io->nvme_written)
        zr_buffer_printf(line, ",\"nvme\":{\"read\":%lld,\"written\":%lld}",
                         (long long)io->nvme_read, (long long)io->nvme_written);
    zr_buffer_printf(line, "}");
}

static zero_status write_metrics_line(zr_metrics *metrics, zero_error *error)
{
    zr_buffer_printf(&metrics->line, "}\n");
    zero_status status = zr_append_file_append(&metrics->file, &metrics->line, error);
    metrics->lines += status == ZERO_OK;
    return status;
}

int64_t zr_metrics_lines(const zr_metrics *metrics) { return metrics ? metrics->lines : 0; }

static void begin_line(zr_metrics *metrics, int64_t step)
{
    metrics->line.length = 0;
    zr_buffer_printf(&metrics->line, "{\"step\":%lld", (long long)step);
}

zero_status zr_metrics_step_write(zr_metrics *metrics, const zr_metrics_step *step,
                                  zero_error *error)
{
    zr_buffer *line = &metrics->line;
    begin_line(metrics, step->step);
    append_double(line, "loss", step->loss);
    append_double(line, "lr", step->lr);
    append_double(line, "grad_norm", step->skipped ? NAN : step->grad_norm);
    if (step->loss_scale > 0)
        append_double(line, "loss_scale", step->loss_scale);
    if (step->skipped)
        zr_buffer_printf(line, ",\"skipped\":true");
    zr_buffer_printf(line, ",\"tokens\":%lld", (long long)step->tokens);
    append_double(line, "ms", step->milliseconds);
    append_double(line, "tok_s", step->tokens_per_second);
    zr_buffer_printf(line, ",");
    append_traffic(line, "comm", &step->traffic);
    append_groups(line, step);
    append_memory(line, &step->memory);
    append_io(line, &step->io);
    return write_metrics_line(metrics, error);
}

zero_status zr_metrics_eval_write(zr_metrics *metrics, int64_t step, double val_loss,
                                  zero_error *error)
{
    begin_line(metrics, step);
    append_double(&metrics->line, "val_loss", val_loss);
    return write_metrics_line(metrics, error);
}

void zr_metrics_close(zr_metrics *metrics)
{
    if (!metrics)
        return;
    zr_append_file_close(&metrics->file);
    zr_buffer_free(&metrics->line);
    zr_free(metrics);
}
