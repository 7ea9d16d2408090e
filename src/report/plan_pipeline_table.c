// What each pipeline stage has in a plan: units, memory, sets and slots, messages; and which ranks
// of the job it is.
#include "base/json.h"
#include "memory/arena.h"
#include "report/plan_report.h"
#include "setup/pipeline_stages.h"

#include <stdio.h>
#include <string.h>

enum { CELL = 64 };

static int64_t total_of(const zr_report_pipeline_stage *stage)
{
    return stage->tiers[ZERO_TIER_device] + stage->tiers[ZERO_TIER_host];
}

static int pipeline_table_stages_of(const zr_plan_row *row)
{
    return row->pipeline->part->pipeline.stages;
}

static bool uses(const zr_plan_row *row, int category)
{
    for (int s = 0; s < pipeline_table_stages_of(row); s++)
        if (row->pipeline->at[s].bytes[category])
            return true;
    return false;
}

static bool sends_in(const zr_plan_row *row, zero_axis axis)
{
    for (int s = 0; s < pipeline_table_stages_of(row); s++)
        if (row->pipeline->at[s].messages[axis].calls)
            return true;
    return false;
}

// Writes "0 to 3": the ranks of a stage are neighbours.
static void write_ranks(const zr_plan_row *row, int stage, char out[CELL])
{
    int count = row->ranks / pipeline_table_stages_of(row), first = stage * count;
    if (count == 1)
        snprintf(out, CELL, "%d", first);
    else
        snprintf(out, CELL, "%d to %d", first, first + count - 1);
}

// Writes "3", or "5+3" of two chunks.
static void write_sets(const zr_plan_row *row, int stage, char out[CELL])
{
    size_t used = 0;
    for (int c = 0; c < row->pipeline->part->pipeline.chunks && used < CELL; c++)
        used += (size_t)snprintf(out + used, CELL - used, c ? "+%d" : "%d",
                                 row->pipeline->at[stage].sets[c]);
}

static void append_bytes(int64_t bytes, int width, zr_buffer *out)
{
    char text[ZR_BYTES_TEXT];
    zr_bytes_text((double)bytes, text);
    zr_buffer_printf(out, "  %*s", width, text);
}

static const struct {
    zero_axis axis;
    const char *heading;
} axes[] = {
    {ZERO_AXIS_data, "data ranks"},
    {ZERO_AXIS_tensor, "tensor ranks"},
    {ZERO_AXIS_pipeline, "to neighbours"},
};

static bool is_asynchronous(const zr_plan_row *row)
{
    return zr_pipeline_is_asynchronous(row->pipeline->part->pipeline.kind);
}

static void append_heading(const zr_plan_row *row, zr_buffer *out)
{
    zr_buffer_printf(out, "%14s  %14s  %5s  %10s", "pipeline stage", "ranks", "share", "elements");
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        if (uses(row, c))
            zr_buffer_printf(out, "  %13s", zr_memory_category_name((zero_memory_category)c));
    zr_buffer_printf(out, "  %10s  %7s  %5s", "total", "sets", "slots");
    if (is_asynchronous(row))
        zr_buffer_printf(out, "  %8s", "versions");
    for (int a = 0; a < ZR_COUNT(axes); a++)
        if (sends_in(row, axes[a].axis))
            zr_buffer_printf(out, "  %13s", axes[a].heading);
    zr_buffer_printf(out, "  units\n");
}

static void append_stage(const zr_plan_row *row, int stage, zr_buffer *out)
{
    char ranks[CELL], sets[CELL];
    const zr_plan_pipeline *pipeline = row->pipeline;
    const zr_report_pipeline_stage *of = &pipeline->at[stage];
    write_ranks(row, stage, ranks);
    write_sets(row, stage, sets);
    zr_buffer_printf(out, "%14d  %14s  %4.0f%%  %8.3f M", stage, ranks,
                     100 * zr_pipeline_stages_share(pipeline->part, stage),
                     (double)of->parameters / 1e6);
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        if (uses(row, c))
            append_bytes(of->bytes[c], 13, out);
    append_bytes(total_of(of), 10, out);
    zr_buffer_printf(out, "  %7s  %5d", sets, of->slots);
    if (is_asynchronous(row))
        zr_buffer_printf(out, "  %8d", of->versions);
    for (int a = 0; a < ZR_COUNT(axes); a++)
        if (sends_in(row, axes[a].axis))
            append_bytes(of->messages[axes[a].axis].bytes, 13, out);
    zr_buffer_printf(out, "  ");
    zr_pipeline_stages_units(pipeline->part, pipeline->model, stage, out);
    zr_buffer_printf(out, "\n");
}

// Says which stage the rank is of that needs most, with its bytes.
static void append_most(const zr_plan_row *row, zr_buffer *out)
{
    int most = 0;
    char text[ZR_BYTES_TEXT];
    for (int s = 1; s < pipeline_table_stages_of(row); s++)
        if (total_of(&row->pipeline->at[s]) > total_of(&row->pipeline->at[most]))
            most = s;
    zr_bytes_text((double)total_of(&row->pipeline->at[most]), text);
    zr_buffer_printf(out,
                     "most of all: a rank of pipeline stage %d, %s. Sets are those of activations "
                     "that live at one time, slots those through which a rank receives; the last "
                     "columns are what a rank fetches in a step from others, and sends to "
                     "neighbouring pipeline stages.\n",
                     most, text);
}

// Says what an asynchronous schedule has several of.
static void append_versions(const zr_plan_row *row, zr_buffer *out)
{
    char text[ZR_BYTES_TEXT];
    const zr_report_pipeline_stage *first = &row->pipeline->at[0];
    if (!is_asynchronous(row))
        return;
    zr_buffer_printf(out, "Versions are copies of the parameters, which micro-batches under way "
                          "have read");
    if (first->summed_steps > 1)
        zr_buffer_printf(out,
                         "; gradients are those of %d steps, one that is added up and one "
                         "whose update is still to come",
                         first->summed_steps);
    zr_buffer_printf(out, ".");
    zr_bytes_text((double)first->sums.bytes, text);
    if (first->sums.calls)
        zr_buffer_printf(out,
                         " What goes to neighbours includes loss and norm of a step, which "
                         "pipeline stage 0 adds up and sends to all others: %lld message%s of its "
                         "own, %s.",
                         (long long)first->sums.calls, first->sums.calls == 1 ? "" : "s", text);
    zr_buffer_printf(out, "\n");
}

void zr_plan_pipeline_stages_text(const zr_plan_row *row, zr_buffer *out)
{
    if (!row->pipeline)
        return;
    zr_buffer_printf(out, "\npipeline ");
    zr_pipeline_stages_heading(row->pipeline->part, row->pipeline->bubble, out);
    zr_buffer_printf(out,
                     "\nat ZeRO stage %d on %d ranks, micro-batch %lld, the bytes of one rank:\n",
                     row->stage, row->ranks, (long long)row->micro_batch);
    append_heading(row, out);
    for (int s = 0; s < pipeline_table_stages_of(row); s++)
        append_stage(row, s, out);
    append_most(row, out);
    append_versions(row, out);
}

static const char *const axis_names[ZERO_AXIS_COUNT] = {
    [ZERO_AXIS_tensor] = "tensor", [ZERO_AXIS_data] = "data", [ZERO_AXIS_pipeline] = "pipeline"};

static void append_json_versions(const zr_plan_row *row, const zr_report_pipeline_stage *of,
                                 zr_buffer *out)
{
    if (!is_asynchronous(row))
        return;
    zr_buffer_printf(
        out, ",\"versions\":%d,\"summed_steps\":%d,\"sums\":{\"calls\":%lld,\"bytes\":%lld}",
        of->versions, of->summed_steps, (long long)of->sums.calls, (long long)of->sums.bytes);
}

static void append_json_stage(const zr_plan_row *row, int stage, zr_buffer *out)
{
    zr_buffer units = {0};
    const zr_plan_pipeline *pipeline = row->pipeline;
    const zr_report_pipeline_stage *of = &pipeline->at[stage];
    int ranks = row->ranks / pipeline_table_stages_of(row);
    zr_pipeline_stages_units(pipeline->part, pipeline->model, stage, &units);
    zr_buffer_printf(out, "{\"units\":");
    zr_json_append_string(out, units.failed ? "" : units.data, units.failed ? 0 : units.length);
    out->failed |= units.failed;
    zr_buffer_free(&units);
    zr_buffer_printf(out, ",\"first_rank\":%d,\"ranks\":%d,\"share\":%.4f,\"parameters\":%lld",
                     stage * ranks, ranks, zr_pipeline_stages_share(pipeline->part, stage),
                     (long long)of->parameters);
    zr_buffer_printf(out, ",\"bytes\":{");
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        zr_buffer_printf(out, "%s\"%s\":%lld", c ? "," : "",
                         zr_memory_category_name((zero_memory_category)c), (long long)of->bytes[c]);
    zr_buffer_printf(out, "},\"total\":%lld,\"tiers\":{", (long long)total_of(of));
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        zr_buffer_printf(out, "%s\"%s\":%lld", t ? "," : "", zr_tier_name((zero_tier)t),
                         (long long)of->tiers[t]);
    zr_buffer_printf(out, "},\"sets\":[");
    for (int c = 0; c < pipeline->part->pipeline.chunks; c++)
        zr_buffer_printf(out, c ? ",%d" : "%d", of->sets[c]);
    zr_buffer_printf(out, "],\"slots\":%d,\"messages\":{", of->slots);
    for (zero_axis axis = 0; axis < ZERO_AXIS_COUNT; axis++)
        zr_buffer_printf(out, "%s\"%s\":{\"calls\":%lld,\"bytes\":%lld}", axis ? "," : "",
                         axis_names[axis], (long long)of->messages[axis].calls,
                         (long long)of->messages[axis].bytes);
    zr_buffer_printf(out, "}");
    append_json_versions(row, of, out);
    zr_buffer_printf(out, "}");
}

void zr_plan_pipeline_stages_json(const zr_plan_row *row, zr_buffer *out)
{
    const zr_plan_pipeline *pipeline = row->pipeline;
    if (!pipeline)
        return;
    const zr_pipeline *of = &pipeline->part->pipeline;
    zr_buffer_printf(out,
                     ",\"pipeline\":{\"schedule\":\"%s\",\"chunks\":%d,\"micro_batches\":%d,"
                     "\"bubble\":%.4f,\"imbalance\":%.4f,",
                     zr_pipeline_kind_name(of->kind), of->chunks, of->micro_batches,
                     pipeline->bubble, zr_pipeline_stages_imbalance(pipeline->part));
    if (is_asynchronous(row))
        zr_buffer_printf(out, "\"flush_every\":%d,", of->steps);
    zr_buffer_printf(out, "\"stages\":[");
    for (int s = 0; s < of->stages; s++) {
        zr_buffer_printf(out, s ? ",\n " : "\n ");
        append_json_stage(row, s, out);
    }
    zr_buffer_printf(out, "]}");
}
