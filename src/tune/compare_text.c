// A comparison in words: four tables of Markdown, and what is missing from them.
#include "tune/comparison.h"

#include "base/cpu.h"
#include "base/text.h"
#include "tune/compare_ways.h"

#include <stdio.h>

#define NOTHING "-"

static void put_bytes(zr_table *table, int64_t bytes)
{
    char text[ZR_BYTES_TEXT];
    zr_bytes_text((double)bytes, text);
    zr_table_cell(table, "%s", bytes ? text : NOTHING);
}

static void put_headings(zr_table *table, const char *const *headings, int count)
{
    zr_table_row(table);
    for (int i = 0; i < count; i++)
        zr_table_cell(table, "%s", headings[i]);
}

// Writes a time and the interval around it.
static void put_step(zr_table *table, double seconds, double low, double high)
{
    char middle[ZR_SECONDS_TEXT], least[ZR_SECONDS_TEXT], most[ZR_SECONDS_TEXT];
    zr_seconds_text(seconds, middle);
    zr_seconds_text(low, least);
    zr_seconds_text(high, most);
    if (seconds > 0)
        zr_table_cell(table, "%s (%s to %s)", middle, least, most);
    else
        zr_table_cell(table, NOTHING);
}

// ---- memory and speed

static void put_speed(const zr_comparison *c, const zr_compare_row *row, zr_table *table)
{
    const zr_way *way = &row->way;
    const zr_trial_answer *measured = &row->measured;
    zr_table_row(table);
    zr_table_cell(table, "%s", way->name);
    if (way->needs[0])
        zr_table_cell(table, NOTHING);
    else
        zr_table_cell(table, "%d x %d x %d", way->data, way->tensor, way->stages);
    if (row->config)
        zr_table_cell(table, "%lld x %lld", (long long)c->batch.micro_batch,
                      (long long)row->config->accumulation);
    else
        zr_table_cell(table, NOTHING);
    put_bytes(table, row->needed);
    put_bytes(table, measured->memory);
    put_step(table, row->step.seconds, row->step.low, row->step.high);
    put_step(table, measured->seconds, measured->low, measured->high);
    if (measured->count)
        zr_table_cell(table, "%.0f", measured->token_rate);
    else
        zr_table_cell(table, NOTHING);
}

static void say_crowded(const zr_comparison *c, zr_buffer *out)
{
    char threads[32] = "";
    if (c->threads > 1)
        snprintf(threads, sizeof threads, " of %d threads", c->threads);
    zr_buffer_printf(out,
                     "\n**%d ranks%s share %d core%s**: the times are those of cores that ranks "
                     "take turns on, which say nothing of %lld cores; they are not predicted.\n",
                     c->ranks, threads, c->cores, c->cores == 1 ? "" : "s",
                     (long long)c->ranks * c->threads);
}

static void write_speed(const zr_comparison *c, zr_table *table, zr_buffer *out)
{
    static const char *const headings[] = {"way",
                                           "data x tensor x pipeline",
                                           "micro-batch x accumulation",
                                           "memory a rank",
                                           "held by rank 0",
                                           "step, predicted",
                                           "step, measured",
                                           "tokens/s"};
    *table = (zr_table){0};
    put_headings(table, headings, ZR_COUNT(headings));
    for (int i = 0; i < c->count; i++)
        put_speed(c, &c->rows[i], table);
    zr_buffer_printf(out, "\n### Memory and speed\n\n");
    zr_table_write(table, out);
    zr_buffer_printf(
        out, "\nMemory a rank is the plan's, of the rank that needs most; what rank 0 held was "
             "counted while it trained. Predicted: 80%% of runs are expected in the interval. "
             "Measured: the median of a step, and its quartiles.\n");
    if (c->crowded)
        say_crowded(c, out);
}

// ---- communication

// Writes "data 1.2 MB, tensor 3.0 MB".
static void put_exchanged(zr_table *table, const int64_t exchanged[ZERO_AXIS_COUNT])
{
    static const struct {
        zero_axis axis;
        const char *name;
    } axes[] = {
        {ZERO_AXIS_data, "data"}, {ZERO_AXIS_tensor, "tensor"}, {ZERO_AXIS_pipeline, "pipeline"}};
    char line[ZR_TABLE_CELL] = "", bytes[ZR_BYTES_TEXT];
    int length = 0;
    for (int i = 0; i < ZR_COUNT(axes); i++) {
        if (!exchanged[axes[i].axis])
            continue;
        zr_bytes_text((double)exchanged[axes[i].axis], bytes);
        length += snprintf(line + length, sizeof line - (size_t)length, "%s%s %s",
                           length ? ", " : "", axes[i].name, bytes);
    }
    zr_table_cell(table, "%s", length ? line : "nothing");
}

static void put_messages(const zr_compare_row *row, zr_table *table)
{
    const int64_t *network = row->network;
    zr_table_row(table);
    zr_table_cell(table, "%s", row->way.name);
    if (row->needed)
        put_exchanged(table, row->exchanged);
    else
        zr_table_cell(table, NOTHING);
    if (row->measured.count)
        put_exchanged(table, row->measured.exchanged);
    else
        zr_table_cell(table, NOTHING);
    put_bytes(table, network[ZR_NETWORK_DATA]);
    put_bytes(table, network[ZR_NETWORK_TENSOR]);
    put_bytes(table, network[ZR_NETWORK_LINKS] + network[ZR_NETWORK_TIED_WEIGHTS]);
}

static void write_messages(const zr_comparison *c, zr_table *table, zr_buffer *out)
{
    static const char *const headings[] = {
        "way", "here, planned", "here, measured", "over a network: data", "tensor", "pipeline"};
    *table = (zr_table){0};
    put_headings(table, headings, ZR_COUNT(headings));
    for (int i = 0; i < c->count; i++)
        put_messages(&c->rows[i], table);
    zr_buffer_printf(out, "\n### Bytes of a step\n\n");
    zr_table_write(table, out);
    zr_buffer_printf(
        out, "\nHere: what rank 0 fetches from other ranks, and of a pipeline what it sends. Ranks "
             "of one machine map each other's memory, so stage 3 fetches no parameters. Over a "
             "network: what the rank to which most comes would receive by its plan, if every rank "
             "were a machine of its own.\n");
}

// ---- the largest model

static void put_largest(const zr_comparison *c, const zr_compare_row *row, zr_table *table)
{
    const zr_compare_row *data = &c->rows[0];
    zr_table_row(table);
    zr_table_cell(table, "%s", row->way.name);
    if (!row->layers) {
        zr_table_cell(table, row->config ? "none fits" : NOTHING);
        zr_table_cell(table, NOTHING);
        zr_table_cell(table, NOTHING);
        return;
    }
    const char *least = row->larger ? "at least " : "";
    zr_table_cell(table, "%s%lld", least, (long long)row->layers);
    zr_table_cell(table, "%s%.4g million", least, (double)row->parameters * 1e-6);
    if (data->parameters)
        zr_table_cell(table, "%s%.2f", least, (double)row->parameters / (double)data->parameters);
    else
        zr_table_cell(table, NOTHING);
}

static void write_largest(const zr_comparison *c, zr_table *table, zr_buffer *out)
{
    static const char *const headings[] = {"way", "layers", "parameters",
                                           "times data parallelism's"};
    char memory[ZR_BYTES_TEXT];
    zr_lm_shape family = zr_lm_shape_of(&c->family);
    *table = (zr_table){0};
    put_headings(table, headings, ZR_COUNT(headings));
    for (int i = 0; i < c->count; i++)
        put_largest(c, &c->rows[i], table);
    zr_bytes_text((double)c->memory, memory);
    zr_buffer_printf(out, "\n### The largest model\n\n");
    zr_table_write(table, out);
    zr_buffer_printf(out,
                     "\nBy plan, with %s a rank and the same batch: layers of width %lld (%lld "
                     "times the model's) and %lld heads, as many as fit. On a processor the host "
                     "is the same memory as the device, so without a budget of the device "
                     "(--device-memory) states there make no room.\n",
                     memory, (long long)family.width, (long long)c->widened,
                     (long long)family.heads);
}

// ---- effort

static void write_effort(const zr_comparison *c, zr_table *table, zr_buffer *out)
{
    static const char *const headings[] = {"way", "what a user writes",
                                           "what a model's code has to say"};
    *table = (zr_table){0};
    put_headings(table, headings, ZR_COUNT(headings));
    for (int i = 0; i < c->count; i++) {
        zr_table_row(table);
        zr_table_cell(table, "%s", c->rows[i].way.name);
        zr_table_cell(table, "%s", c->rows[i].way.effort);
        zr_table_cell(table, "%s", c->rows[i].way.code);
    }
    zr_buffer_printf(out, "\n### Effort\n\n");
    zr_table_write(table, out);
    zr_buffer_printf(out, "\nThe library's own models say all of it already.\n");
}

// ---- all of it

void zr_compare_title(const zr_comparison *c, zr_buffer *out)
{
    char processor[128];
    zr_cpu_model(processor, sizeof processor);
    zr_buffer_printf(out,
                     "%s: %.4g million parameters, %s, windows of %lld tokens, %lld samples a step "
                     "in every way. %d ranks of %d thread%s on %d core%s of %s.",
                     c->subject.name, (double)c->subject.parameters * 1e-6, c->dtype,
                     (long long)c->subject.seq, (long long)c->batch.samples, c->ranks, c->threads,
                     c->threads == 1 ? "" : "s", c->cores, c->cores == 1 ? "" : "s", processor);
}

static void write_missing(const zr_comparison *c, zr_buffer *out)
{
    bool any = false;
    for (int i = 0; i < c->count; i++) {
        if (!c->rows[i].why[0])
            continue;
        zr_buffer_printf(out, "%s- %s: %s\n", any ? "" : "\n### What is missing\n\n",
                         c->rows[i].way.name, c->rows[i].why);
        any = true;
    }
}

void zr_compare_text(const zr_comparison *c, zr_buffer *out)
{
    int64_t steps = c->options->steps ? c->options->steps : ZR_COMPARE_STEPS;
    zr_table *table = zr_alloc(sizeof *table, NULL);
    out->failed |= !table;
    if (!table)
        return;
    zr_compare_title(c, out);
    zr_buffer_printf(out, " %d rounds of %lld steps%s%s.\n", ZR_COMPARE_ROUNDS, (long long)steps,
                     c->options->data_count ? "" : ", on a text of made-up words",
                     c->stopped ? "; stopped before their end" : "");
    write_speed(c, table, out);
    write_messages(c, table, out);
    write_largest(c, table, out);
    write_effort(c, table, out);
    write_missing(c, out);
    zr_free(table);
}
