// What each pipeline stage has in a plan: units, memory, sets and slots, messages; and which ranks
// of the job it is.
#include "base/json.h"
#include "base/traffic.h"
#include "memory/arena.h"
#include "setup/pipeline_stages.h"
#include "report/plan_report.h"

#include <stdio.h>
#include <string.h>

enum { CELL = 64 };

static int64_t stage_total_bytes(const zr_report_pipeline_stage *stage)
{
    return stage->tiers[ZERO_TIER_device] + stage->tiers[ZERO_TIER_host];
}

static int stage_count_of_row(const zr_plan_row *row)
{
    return row->pipeline->part->pipeline.stages;
}

static bool any_stage_uses(const zr_plan_row *row, int category)
{
    for (int s = 0; s < stage_count_of_row(row); s++)
        if (row->pipeline->at[s].bytes[category])
            return true;
    return false;
}

static bool any_stage_sends_in(const zr_plan_row *row, zero_axis axis)
{
    for (int s = 0; s < stage_count_of_row(row); s++)
        if (row->pipeline->at[s].messages[axis].calls)
            return true;
    return false;
}

// Writes "0 to 3": the ranks of a stage are neighbours.
static void write_ranks(const zr_plan_row *row, int stage, char out[CELL])
{
    int count = row->ranks / stage_count_of_row(row), first = stage * count;
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

enum { MOST_COLUMNS = ZERO_MEM_COUNT + ZERO_AXIS_COUNT + 9 };

// Chooses the columns of the stages' table. Returns how many there are.
static int choose_columns(const zr_plan_row *row, zr_heading out[MOST_COLUMNS])
{
    int count = 0;
    out[count++] = (zr_heading){.label = "pipeline stage"};
    out[count++] = (zr_heading){.label = "ranks", .width = 14};
    out[count++] = (zr_heading){.label = "share", .unit = ZR_UNIT_SHARE};
    out[count++] =
        (zr_heading){.label = "elements", .unit = ZR_UNIT_MILLIONS, .decimals = 3, .width = 10};
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        if (any_stage_uses(row, c))
            out[count++] = (zr_heading){.label = zr_memory_category_name((zero_memory_category)c),
                                        .unit = ZR_UNIT_BYTES,
                                        .width = 13};
    out[count++] = (zr_heading){.label = "total", .unit = ZR_UNIT_BYTES, .width = 10};
    out[count++] = (zr_heading){.label = "sets", .width = 7};
    out[count++] = (zr_heading){.label = "slots"};
    if (is_asynchronous(row))
        out[count++] = (zr_heading){.label = "versions"};
    for (int a = 0; a < ZR_COUNT(axes); a++)
        if (any_stage_sends_in(row, axes[a].axis))
            out[count++] =
                (zr_heading){.label = axes[a].heading, .unit = ZR_UNIT_BYTES, .width = 13};
    out[count++] = (zr_heading){.label = "units", .left = true};
    return count;
}

static void put_stage_row(const zr_plan_row *row, int stage, zr_report *r)
{
    char ranks[CELL], sets[CELL];
    zr_buffer units = {0};
    const zr_plan_pipeline *pipeline = row->pipeline;
    const zr_report_pipeline_stage *of = &pipeline->at[stage];
    write_ranks(row, stage, ranks);
    write_sets(row, stage, sets);
    zr_report_row(r);
    zr_report_cell(r, zr_integer(stage));
    zr_report_cell(r, zr_text(ranks));
    zr_report_cell(r, zr_real(zr_pipeline_stages_cost_share(pipeline->part, stage)));
    zr_report_cell(r, zr_integer(of->parameters));
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        if (any_stage_uses(row, c))
            zr_report_cell(r, zr_integer(of->bytes[c]));
    zr_report_cell(r, zr_integer(stage_total_bytes(of)));
    zr_report_cell(r, zr_text(sets));
    zr_report_cell(r, zr_integer(of->slots));
    if (is_asynchronous(row))
        zr_report_cell(r, zr_integer(of->versions));
    for (int a = 0; a < ZR_COUNT(axes); a++)
        if (any_stage_sends_in(row, axes[a].axis))
            zr_report_cell(r, zr_integer(of->messages[axes[a].axis].bytes));
    zr_pipeline_stages_units(pipeline->part, pipeline->model, stage, &units);
    zr_report_cell(r, zr_text(units.length ? units.data : ""));
    zr_buffer_free(&units);
}

static void append_stages(const zr_plan_row *row, int width, zr_buffer *out)
{
    zr_heading columns[MOST_COLUMNS];
    int count = choose_columns(row, columns);
    zr_report *r = zr_report_create(NULL);
    zr_report_table(r, NULL, columns, count);
    for (int s = 0; s < stage_count_of_row(row); s++)
        put_stage_row(row, s, r);
    zr_report_end_table(r);
    zr_report_finish(r, ZR_REPORT_TEXT, width, out);
}

// Says which stage the rank is of that needs most, with its bytes.
static void append_neediest_stage(const zr_plan_row *row, zr_buffer *out)
{
    int most = 0;
    char text[ZR_BYTES_TEXT];
    for (int s = 1; s < stage_count_of_row(row); s++)
        if (stage_total_bytes(&row->pipeline->at[s]) > stage_total_bytes(&row->pipeline->at[most]))
            most = s;
    zr_bytes_text((double)stage_total_bytes(&row->pipeline->at[most]), text);
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

void zr_plan_pipeline_stages_text(const zr_plan_row *row, int width, zr_buffer *out)
{
    if (!row->pipeline)
        return;
    zr_buffer_printf(out, "\npipeline ");
    zr_pipeline_stages_heading(row->pipeline->part, row->pipeline->bubble, out);
    zr_buffer_printf(out,
                     "\nat ZeRO stage %d on %d ranks, micro-batch %lld, the bytes of one rank:\n",
                     row->stage, row->ranks, (long long)row->micro_batch);
    append_stages(row, width, out);
    append_neediest_stage(row, out);
    append_versions(row, out);
}

static void put_versions(const zr_plan_row *row, const zr_report_pipeline_stage *of,
                         zr_json_writer *w)
{
    if (!is_asynchronous(row))
        return;
    zr_json_integer(w, "versions", of->versions);
    zr_json_integer(w, "summed_steps", of->summed_steps);
    zr_plan_messages_json(&of->sums, w, "sums");
}

static void put_units(const zr_plan_pipeline *pipeline, int stage, zr_json_writer *w)
{
    zr_buffer units = {0};
    zr_pipeline_stages_units(pipeline->part, pipeline->model, stage, &units);
    zr_json_text_of(w, "units", units.failed ? "" : units.data, units.failed ? 0 : units.length);
    w->out->failed |= units.failed;
    zr_buffer_free(&units);
}

static void put_pipeline_stage(const zr_plan_row *row, int stage, zr_json_writer *w)
{
    const zr_plan_pipeline *pipeline = row->pipeline;
    const zr_report_pipeline_stage *of = &pipeline->at[stage];
    int ranks = row->ranks / stage_count_of_row(row);
    zr_json_begin_object(w, NULL);
    put_units(pipeline, stage, w);
    zr_json_integer(w, "first_rank", stage * ranks);
    zr_json_integer(w, "ranks", ranks);
    zr_json_fixed(w, "share", 4, zr_pipeline_stages_cost_share(pipeline->part, stage));
    zr_json_integer(w, "parameters", of->parameters);
    zr_plan_bytes_json(of->bytes, stage_total_bytes(of), of->tiers, w);
    zr_json_begin_array(w, "sets");
    for (int c = 0; c < pipeline->part->pipeline.chunks; c++)
        zr_json_integer(w, NULL, of->sets[c]);
    zr_json_end(w);
    zr_json_integer(w, "slots", of->slots);
    zr_json_begin_object(w, "messages");
    for (zero_axis axis = 0; axis < ZERO_AXIS_COUNT; axis++)
        zr_plan_messages_json(&of->messages[axis], w, zr_axis_name(axis));
    zr_json_end(w);
    put_versions(row, of, w);
    zr_json_end(w);
}

void zr_plan_pipeline_stages_json(const zr_plan_row *row, zr_json_writer *w)
{
    const zr_plan_pipeline *pipeline = row->pipeline;
    if (!pipeline)
        return;
    const zr_pipeline *of = &pipeline->part->pipeline;
    zr_json_begin_object(w, "pipeline");
    zr_json_text(w, "schedule", zr_pipeline_kind_name(of->kind));
    zr_json_integer(w, "chunks", of->chunks);
    zr_json_integer(w, "micro_batches", of->micro_batches);
    zr_json_fixed(w, "bubble", 4, pipeline->bubble);
    zr_json_fixed(w, "imbalance", 4, zr_pipeline_stages_imbalance(pipeline->part));
    if (is_asynchronous(row))
        zr_json_integer(w, "flush_every", of->steps);
    zr_json_begin_array(w, "stages");
    for (int s = 0; s < of->stages; s++) {
        zr_json_line(w, 1);
        put_pipeline_stage(row, s, w);
    }
    zr_json_end(w);
    zr_json_end(w);
}
