// Who is on which machine: what --machines says, and the places of each machine's ranks.
#include "report/plan_machines.h"

#include "base/traffic.h"
#include "model/unit.h"
#include "plan/exchanges.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORM "a number of machines, or the ranks of each, as 4,2,2"

static zero_status refuse_text(const char *text, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_USAGE, "--machines %s: expected " FORM, text);
}

static zero_status refuse_equal(int machines, int ranks, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_USAGE,
                   "--machines %d: %d rank%s cannot be divided equally among %d machines; a list "
                   "says how many each has, as 4,2,2",
                   machines, ranks, ranks == 1 ? "" : "s", machines);
}

// Reads the next number of a list, and moves on to what follows its comma; *text NULL: it was the
// last one. Returns 0 for what is no number of ranks.
static int next_number(const char **text)
{
    char *end;
    errno = 0;
    long value = **text >= '0' && **text <= '9' ? strtol(*text, &end, 10) : 0;
    if (value < 1 || value > INT_MAX || errno || (*end && *end != ','))
        return 0;
    *text = *end ? end + 1 : NULL;
    return (int)value;
}

// Counts the numbers of a list, and adds them up. Returns 0 for what is no list.
static int count_numbers(const char *text, int64_t *sum)
{
    int count = 0;
    *sum = 0;
    while (text) {
        int number = next_number(&text);
        if (!number)
            return 0;
        *sum += number;
        count++;
    }
    return count;
}

static zero_status check_text(const char *text, int ranks, int *count, zero_error *error)
{
    int64_t sum;
    *count = count_numbers(text, &sum);
    if (*count == 0)
        return refuse_text(text, error);
    if (*count > 1 && sum != ranks)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "--machines %s has %lld ranks on %d machines, where the job has %d", text,
                       (long long)sum, *count, ranks);
    if (*count == 1 && ranks % sum)
        return refuse_equal((int)sum, ranks, error);
    if (*count == 1)
        *count = (int)sum;
    return ZERO_OK;
}

static void fill_ranks(const char *text, int ranks, int *first, int *of, zr_plan_machines *out)
{
    int count = out->job.count, equal = strchr(text, ',') ? 0 : ranks / count, at = 0;
    for (int m = 0; m < count; m++) {
        int here = equal ? equal : next_number(&text);
        first[m] = at;
        for (int r = at; r < at + here; r++)
            of[r] = m;
        at += here;
        out->largest = ZR_MAX(out->largest, here);
    }
    first[count] = at;
}

zero_status zr_plan_machines_read(const char *text, int ranks, zr_plan_machines **out,
                                  zero_error *error)
{
    int count;
    *out = NULL;
    ZERO_TRY(check_text(text, ranks, &count, error));
    size_t numbers = (size_t)count + 1 + (size_t)ranks;
    zr_plan_machines *made = zr_alloc(sizeof *made + numbers * sizeof(int), error);
    if (!made)
        return ZERO_ERR_MEMORY;
    int *first = (int *)(void *)(made + 1), *of = first + count + 1;
    made->job = (zr_job_machines){.count = count, .first = first, .of = of};
    fill_ranks(text, ranks, first, of, made);
    *out = made;
    return ZERO_OK;
}

static bool has_equal_flat_params(const zero_model *a, const zero_model *b)
{
    for (int u = 0; u < a->unit_count; u++)
        for (int p = 0; p < a->units[u].flat_param_count; p++)
            if (zr_flat_param_desc_elements(&a->units[u].flat_params[p]) !=
                zr_flat_param_desc_elements(&b->units[u].flat_params[p]))
                return false;
    return true;
}

static void add_part(zr_plan_machines *machines, int tensor, zr_model_part *part)
{
    int like = 0;
    while (like < machines->part_count &&
           !has_equal_flat_params(machines->parts[like].model, part->model))
        like++;
    machines->part_of[tensor] = like;
    if (like < machines->part_count)
        zr_model_part_free(part);
    else
        machines->parts[machines->part_count++] = *part;
}

zero_status zr_plan_machines_cut(zr_plan_machines *machines, const zero_model *model,
                                 const char *name, const zr_config *config, zero_error *error)
{
    size_t ranks = (size_t)config->tensor;
    machines->parts = zr_alloc(ranks * sizeof *machines->parts, error);
    machines->part_of = zr_alloc(ranks * sizeof *machines->part_of, error);
    if (!machines->parts || !machines->part_of)
        return ZERO_ERR_MEMORY;
    for (int t = 0; t < config->tensor; t++) {
        zr_model_part part;
        ZERO_TRY(zr_model_part_make(model, name, config, t, &part, error));
        add_part(machines, t, &part);
    }
    return zr_model_replicas(machines->parts[0].model, config->tensor, &machines->replicas, error);
}

void zr_plan_machines_free(zr_plan_machines *machines)
{
    if (!machines)
        return;
    for (int i = 0; i < machines->part_count; i++)
        zr_model_part_free(&machines->parts[i]);
    zr_free(machines->parts);
    zr_free(machines->part_of);
    zr_free(machines);
}

static int kv_replicas_of(const zr_plan_machines *machines, const zr_mesh *mesh, int pipeline,
                          int tensor)
{
    zr_mesh at = *mesh;
    at.place[ZERO_AXIS_pipeline] = pipeline;
    at.place[ZERO_AXIS_data] = 0;
    at.place[ZERO_AXIS_tensor] = tensor;
    return zr_job_kv_replicas(&machines->job, &at, ZERO_AXIS_data);
}

int zr_plan_machines_alike(const zr_plan_machines *machines, const zr_mesh *mesh, int pipeline,
                           int tensor)
{
    int kv_replicas = kv_replicas_of(machines, mesh, pipeline, tensor), like = 0;
    while (machines->part_of[like] != machines->part_of[tensor] ||
           kv_replicas_of(machines, mesh, pipeline, like) != kv_replicas)
        like++;
    return like;
}

typedef struct box {            // ranks that follow each other, which are all of these places
    int first, end;             // ranks of the job
    int from[ZERO_AXIS_COUNT];  // places
    int until[ZERO_AXIS_COUNT]; // included
} box;

// Returns the longest such ranks from `first` on, up to `end`: whole pipeline stages, or whole data
// ranks of one, or tensor ranks of one of these.
static box longest_box_from(const zr_mesh *mesh, int first, int end)
{
    box out = {.first = first};
    int axis = 0, stride = 1, left = first;
    for (int a = 0; a < ZERO_AXIS_COUNT; a++) {
        out.from[a] = out.until[a] = left % mesh->size[a];
        left /= mesh->size[a];
    }
    while (axis < ZERO_AXIS_COUNT - 1 && out.from[axis] == 0 &&
           end - first >= stride * mesh->size[axis]) {
        out.until[axis] = mesh->size[axis] - 1;
        stride *= mesh->size[axis++];
    }
    int count = ZR_MIN((end - first) / stride, mesh->size[axis] - out.from[axis]);
    out.until[axis] += count - 1;
    out.end = first + count * stride;
    return out;
}

enum { CELL = 32, MOST_LINES = 256 };

static const char *range_text(int from, int until, char out[CELL])
{
    snprintf(out, CELL, from == until ? "%d" : "%d to %d", from, until);
    return out;
}

static void append_box(int machine, const box *b, zr_buffer *out)
{
    char ranks[CELL], pipeline[CELL], data[CELL], tensor[CELL];
    zr_buffer_printf(
        out, "%7d  %14s  %14s  %12s  %12s\n", machine, range_text(b->first, b->end - 1, ranks),
        range_text(b->from[ZERO_AXIS_pipeline], b->until[ZERO_AXIS_pipeline], pipeline),
        range_text(b->from[ZERO_AXIS_data], b->until[ZERO_AXIS_data], data),
        range_text(b->from[ZERO_AXIS_tensor], b->until[ZERO_AXIS_tensor], tensor));
}

void zr_plan_machines_text(const zr_plan_machines *machines, const zr_mesh *mesh, zr_buffer *out)
{
    const zr_job_machines *job = &machines->job;
    int lines = 0, m = 0;
    zr_buffer_printf(out, "%7s  %14s  %14s  %12s  %12s\n", "machine", "ranks", "pipeline stage",
                     "data rank", "tensor rank");
    for (; m < job->count && lines < MOST_LINES; m++)
        for (int r = job->first[m]; r < job->first[m + 1]; lines++) {
            box b = longest_box_from(mesh, r, job->first[m + 1]);
            append_box(m, &b, out);
            r = b.end;
        }
    if (m < job->count)
        zr_buffer_printf(out, "and so on, on %d more machines\n", job->count - m);
}

static void put_range(zr_json_writer *w, const char *key, int from, int until)
{
    zr_json_begin_array(w, key);
    zr_json_integer(w, NULL, from);
    zr_json_integer(w, NULL, until);
    zr_json_end(w);
}

static void put_box(const box *b, zr_json_writer *w)
{
    zr_json_begin_object(w, NULL);
    put_range(w, "ranks", b->first, b->end - 1);
    for (int axis = ZERO_AXIS_COUNT - 1; axis >= 0; axis--)
        put_range(w, zr_axis_name((zero_axis)axis), b->from[axis], b->until[axis]);
    zr_json_end(w);
}

void zr_plan_machines_json(const zr_plan_machines *machines, const zr_mesh *mesh, zr_json_writer *w,
                           const char *key)
{
    const zr_job_machines *job = &machines->job;
    zr_json_begin_array(w, key);
    for (int m = 0; m < job->count; m++) {
        zr_json_line(w, 2);
        zr_json_begin_array(w, NULL);
        for (int r = job->first[m]; r < job->first[m + 1];) {
            box b = longest_box_from(mesh, r, job->first[m + 1]);
            put_box(&b, w);
            r = b.end;
        }
        zr_json_end(w);
    }
    zr_json_end(w);
}
