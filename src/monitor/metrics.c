// Writes metrics.jsonl. Each line is written at once when its step ends, so that a reader never
// sees half of one and a run that is killed keeps its lines. Called by train/train on rank 0.
#include "monitor/metrics.h"

#include "base/json.h"
#include "base/json_writer.h"
#include "base/traffic.h"
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

void zr_metrics_sum_steps(const char *text, size_t length, int64_t *steps, double *milliseconds)
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

static void put_traffic(zr_json_writer *w, const char *name, const zero_traffic *traffic)
{
    zr_json_begin_object(w, name);
    for (int op = 0; op < ZERO_COMM_OP_COUNT; op++) {
        if (!traffic->calls[op])
            continue;
        zr_json_begin_object(w, zr_op_name((zero_comm_op)op));
        zr_json_integer(w, "calls", traffic->calls[op]);
        zr_json_integer(w, "bytes", traffic->bytes[op]);
        if (traffic->network[op])
            zr_json_integer(w, "network", traffic->network[op]);
        zr_json_end(w);
    }
    zr_json_end(w);
}

// Writes the parts of the traffic: of data ranks, of tensor ranks, of the ranks of a pipeline where
// there is one, of all ranks of the job.
static void put_groups(zr_json_writer *w, const zr_metrics_step *step)
{
    if (!step->groups)
        return;
    zr_json_begin_object(w, "groups");
    const zero_axis axes[] = {ZERO_AXIS_data, ZERO_AXIS_tensor, ZERO_AXIS_pipeline};
    for (int i = 0; i < ZR_COUNT(axes) - !step->pipelined; i++)
        put_traffic(w, zr_axis_name(axes[i]), &step->groups[axes[i]]);
    put_traffic(w, "job", &step->job);
    zr_json_end(w);
}

// Writes memory, device and host together, and also by tier if more than the device is used.
static void put_memory(zr_json_writer *w, const zero_memory *memory)
{
    const int64_t(*planned)[ZERO_MEM_COUNT] = memory->planned,
          (*held)[ZERO_MEM_COUNT] = memory->held;
    int64_t tiers[ZERO_TIER_COUNT] = {0};
    zr_json_begin_object(w, "mem");
    for (int c = 0; c < ZERO_MEM_COUNT; c++) {
        zr_json_begin_object(w, categories[c]);
        zr_json_integer(w, "planned", planned[ZERO_TIER_device][c] + planned[ZERO_TIER_host][c]);
        zr_json_integer(w, "held", held[ZERO_TIER_device][c] + held[ZERO_TIER_host][c]);
        zr_json_end(w);
    }
    zr_json_end(w);
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        for (int c = 0; c < ZERO_MEM_COUNT; c++)
            tiers[t] += held[t][c];
    if (!tiers[ZERO_TIER_host] && !tiers[ZERO_TIER_nvme])
        return;
    zr_json_begin_object(w, "tiers");
    zr_json_integer(w, "device", tiers[ZERO_TIER_device]);
    zr_json_integer(w, "host", tiers[ZERO_TIER_host]);
    zr_json_integer(w, "nvme", tiers[ZERO_TIER_nvme]);
    zr_json_end(w);
}

static void put_pair(zr_json_writer *w, const char *key, const char *one, int64_t first,
                     const char *other, int64_t second)
{
    zr_json_begin_object(w, key);
    zr_json_integer(w, one, first);
    zr_json_integer(w, other, second);
    zr_json_end(w);
}

static void put_io(zr_json_writer *w, const zero_io *io)
{
    if (!io->to_host && !io->to_device && !io->nvme_read && !io->nvme_written)
        return;
    zr_json_begin_object(w, "io");
    put_pair(w, "host", "down", io->to_host, "up", io->to_device);
    if (io->nvme_read || io->nvme_written)
        put_pair(w, "nvme", "read", io->nvme_read, "written", io->nvme_written);
    zr_json_end(w);
}

static zero_status end_metrics_line(zr_metrics *metrics, zr_json_writer *w, zero_error *error)
{
    zr_json_finish(w);
    zero_status status = zr_append_file_write(&metrics->file, &metrics->line, error);
    metrics->lines += status == ZERO_OK;
    return status;
}

int64_t zr_metrics_lines(const zr_metrics *metrics) { return metrics ? metrics->lines : 0; }

static zr_json_writer begin_metrics_line(zr_metrics *metrics, int64_t step)
{
    zr_json_writer w = zr_json_writer_on(&metrics->line, ZR_JSON_COMPACT);
    metrics->line.length = 0;
    zr_json_begin_object(&w, NULL);
    zr_json_integer(&w, "step", step);
    return w;
}

zero_status zr_metrics_step_write(zr_metrics *metrics, const zr_metrics_step *step,
                                  zero_error *error)
{
    zr_json_writer w = begin_metrics_line(metrics, step->step);
    zr_json_real(&w, "loss", step->loss);
    zr_json_real(&w, "lr", step->lr);
    zr_json_real(&w, "grad_norm", step->skipped ? NAN : step->grad_norm);
    if (step->loss_scale > 0)
        zr_json_real(&w, "loss_scale", step->loss_scale);
    if (step->skipped)
        zr_json_flag(&w, "skipped", true);
    zr_json_integer(&w, "tokens", step->tokens);
    zr_json_real(&w, "ms", step->milliseconds);
    zr_json_real(&w, "tok_s", step->tokens_per_second);
    put_traffic(&w, "comm", &step->traffic);
    put_groups(&w, step);
    put_memory(&w, &step->memory);
    put_io(&w, &step->io);
    return end_metrics_line(metrics, &w, error);
}

zero_status zr_metrics_eval_write(zr_metrics *metrics, const zr_metrics_eval *eval,
                                  zero_error *error)
{
    zr_json_writer w = begin_metrics_line(metrics, eval->step);
    zr_json_real(&w, "val_loss", eval->loss);
    if (eval->pairs) {
        zr_json_real(&w, "val_accuracy", eval->accuracy);
        if (!eval->labels)
            zr_json_real(&w, "val_margin", eval->margin);
    }
    return end_metrics_line(metrics, &w, error);
}

void zr_metrics_close(zr_metrics *metrics)
{
    if (!metrics)
        return;
    zr_append_file_close(&metrics->file);
    zr_buffer_free(&metrics->line);
    zr_free(metrics);
}
