// A comparison in words: four tables of Markdown, and what is missing from them.
#include "tune/comparison.h"

#include "base/cpu.h"
#include "base/report.h"
#include "base/text.h"
#include "base/traffic.h"
#include "tune/compare_ways.h"

#include <stdio.h>

static zr_value bytes_value(int64_t bytes) { return bytes ? zr_integer(bytes) : zr_none(); }

// Writes a time and the interval around it.
static void put_step(zr_report *r, double seconds, double low, double high)
{
    char middle[ZR_SECONDS_TEXT], least[ZR_SECONDS_TEXT], most[ZR_SECONDS_TEXT];
    zr_seconds_text(seconds, middle);
    zr_seconds_text(low, least);
    zr_seconds_text(high, most);
    if (seconds > 0)
        zr_report_cell_text(r, "%s (%s to %s)", middle, least, most);
    else
        zr_report_cell(r, zr_none());
}

// ---- memory and speed

static void put_speed(const zr_comparison *c, const zr_compare_row *row, zr_report *r)
{
    const zr_way *way = &row->way;
    const zr_trial_answer *measured = &row->measured;
    zr_report_row(r);
    zr_report_cell(r, zr_text(way->name));
    if (way->needs[0])
        zr_report_cell(r, zr_none());
    else
        zr_report_cell_text(r, "%d x %d x %d", way->data, way->tensor, way->stages);
    if (row->config)
        zr_report_cell_text(r, "%lld x %lld", (long long)c->batch.micro_batch,
                            (long long)row->config->accumulation);
    else
        zr_report_cell(r, zr_none());
    zr_report_cell(r, bytes_value(row->needed));
    zr_report_cell(r, bytes_value(measured->memory));
    put_step(r, row->step.seconds, row->step.low, row->step.high);
    put_step(r, measured->seconds, measured->low, measured->high);
    if (measured->count)
        zr_report_cell_text(r, "%.0f", measured->token_rate);
    else
        zr_report_cell(r, zr_none());
}

static void say_crowded(const zr_comparison *c, zr_report *r)
{
    char threads[32] = "";
    if (c->threads > 1)
        snprintf(threads, sizeof threads, " of %d threads", c->threads);
    zr_report_words(r,
                    "\n**%d ranks%s share %d core%s**: the times are those of cores that ranks "
                    "take turns on, which say nothing of %lld cores; they are not predicted.\n",
                    c->ranks, threads, c->cores, c->cores == 1 ? "" : "s",
                    (long long)c->ranks * c->threads);
}

static void write_speed(const zr_comparison *c, zr_report *r)
{
    static const zr_heading columns[] = {
        {.label = "way"},
        {.label = "data x tensor x pipeline"},
        {.label = "micro-batch x accumulation"},
        {.label = "memory a rank", .unit = ZR_UNIT_BYTES},
        {.label = "held by rank 0", .unit = ZR_UNIT_BYTES},
        {.label = "step, predicted"},
        {.label = "step, measured"},
        {.label = "tokens/s"},
    };
    zr_report_words(r, "\n### Memory and speed\n\n");
    zr_report_table(r, NULL, columns, ZR_COUNT(columns));
    for (int i = 0; i < c->count; i++)
        put_speed(c, &c->rows[i], r);
    zr_report_end_table(r);
    zr_report_words(
        r, "\nMemory a rank is the plan's, of the rank that needs most; what rank 0 held was "
           "counted while it trained. Predicted: 80%% of runs are expected in the interval. "
           "Measured: the median of a step, and its quartiles.\n");
    if (c->crowded)
        say_crowded(c, r);
}

// ---- communication

// Writes "data 1.2 MB, tensor 3.0 MB".
static void put_exchanged(zr_report *r, const int64_t exchanged[ZERO_AXIS_COUNT])
{
    const zero_axis axes[] = {ZERO_AXIS_data, ZERO_AXIS_tensor, ZERO_AXIS_pipeline};
    char line[4 * ZR_BYTES_TEXT] = "", bytes[ZR_BYTES_TEXT];
    int length = 0;
    for (int i = 0; i < ZR_COUNT(axes); i++) {
        if (!exchanged[axes[i]])
            continue;
        zr_bytes_text((double)exchanged[axes[i]], bytes);
        length += snprintf(line + length, sizeof line - (size_t)length, "%s%s %s",
                           length ? ", " : "", zr_axis_name(axes[i]), bytes);
    }
    zr_report_cell(r, zr_text(length ? line : "nothing"));
}

static void put_messages(const zr_compare_row *row, zr_report *r)
{
    const int64_t *network = row->network;
    zr_report_row(r);
    zr_report_cell(r, zr_text(row->way.name));
    if (row->needed)
        put_exchanged(r, row->exchanged);
    else
        zr_report_cell(r, zr_none());
    if (row->measured.count)
        put_exchanged(r, row->measured.exchanged);
    else
        zr_report_cell(r, zr_none());
    zr_report_cell(r, bytes_value(network[ZR_NETWORK_DATA]));
    zr_report_cell(r, bytes_value(network[ZR_NETWORK_TENSOR]));
    zr_report_cell(r, bytes_value(network[ZR_NETWORK_LINKS] + network[ZR_NETWORK_TIED_WEIGHTS]));
}

static void write_messages(const zr_comparison *c, zr_report *r)
{
    static const zr_heading columns[] = {
        {.label = "way"},
        {.label = "here, planned"},
        {.label = "here, measured"},
        {.label = "over a network: data", .unit = ZR_UNIT_BYTES},
        {.label = "tensor", .unit = ZR_UNIT_BYTES},
        {.label = "pipeline", .unit = ZR_UNIT_BYTES},
    };
    zr_report_words(r, "\n### Bytes of a step\n\n");
    zr_report_table(r, NULL, columns, ZR_COUNT(columns));
    for (int i = 0; i < c->count; i++)
        put_messages(&c->rows[i], r);
    zr_report_end_table(r);
    zr_report_words(
        r, "\nHere: what rank 0 fetches from other ranks, and of a pipeline what it sends. Ranks "
           "of one machine map each other's memory, so stage 3 fetches no parameters. Over a "
           "network: what the rank to which most comes would receive by its plan, if every rank "
           "were a machine of its own.\n");
}

// ---- the largest model

static void put_largest(const zr_comparison *c, const zr_compare_row *row, zr_report *r)
{
    const zr_compare_row *data = &c->rows[0];
    zr_report_row(r);
    zr_report_cell(r, zr_text(row->way.name));
    if (!row->layers) {
        zr_report_cell(r, row->config ? zr_text("none fits") : zr_none());
        zr_report_cell(r, zr_none());
        zr_report_cell(r, zr_none());
        return;
    }
    const char *least = row->larger ? "at least " : "";
    zr_report_cell_text(r, "%s%lld", least, (long long)row->layers);
    zr_report_cell_text(r, "%s%.4g million", least, (double)row->parameters * 1e-6);
    if (data->parameters)
        zr_report_cell_text(r, "%s%.2f", least, (double)row->parameters / (double)data->parameters);
    else
        zr_report_cell(r, zr_none());
}

static void write_largest(const zr_comparison *c, zr_report *r)
{
    static const zr_heading columns[] = {
        {.label = "way"},
        {.label = "layers"},
        {.label = "parameters"},
        {.label = "times data parallelism's"},
    };
    char memory[ZR_BYTES_TEXT];
    zr_lm_shape family = zr_lm_shape_of(&c->family);
    zr_report_words(r, "\n### The largest model\n\n");
    zr_report_table(r, NULL, columns, ZR_COUNT(columns));
    for (int i = 0; i < c->count; i++)
        put_largest(c, &c->rows[i], r);
    zr_bytes_text((double)c->memory, memory);
    zr_report_end_table(r);
    zr_report_words(r,
                    "\nBy plan, with %s a rank and the same batch: layers of width %lld (%lld "
                    "times the model's) and %lld heads, as many as fit. On a processor the host "
                    "is the same memory as the device, so without a budget of the device "
                    "(--device-memory) states there make no room.\n",
                    memory, (long long)family.width, (long long)c->widened,
                    (long long)family.heads);
}

// ---- effort

static void write_effort(const zr_comparison *c, zr_report *r)
{
    static const zr_heading columns[] = {
        {.label = "way"},
        {.label = "what a user writes"},
        {.label = "what a model's code has to say"},
    };
    zr_report_words(r, "\n### Effort\n\n");
    zr_report_table(r, NULL, columns, ZR_COUNT(columns));
    for (int i = 0; i < c->count; i++) {
        zr_report_row(r);
        zr_report_cell(r, zr_text(c->rows[i].way.name));
        zr_report_cell(r, zr_text(c->rows[i].way.effort));
        zr_report_cell(r, zr_text(c->rows[i].way.code));
    }
    zr_report_end_table(r);
    zr_report_words(r, "\nThe library's own models say all of it already.\n");
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

static void write_missing(const zr_comparison *c, zr_report *r)
{
    bool any = false;
    for (int i = 0; i < c->count; i++) {
        if (!c->rows[i].why[0])
            continue;
        zr_report_words(r, "%s- %s: %s\n", any ? "" : "\n### What is missing\n\n",
                        c->rows[i].way.name, c->rows[i].why);
        any = true;
    }
}

void zr_compare_text(const zr_comparison *c, zr_buffer *out)
{
    int64_t steps = c->options->steps ? c->options->steps : ZR_COMPARE_STEPS;
    zr_report *r = zr_report_create(NULL);
    zr_compare_title(c, out);
    zr_report_words(r, " %d rounds of %lld steps%s%s.\n", ZR_COMPARE_ROUNDS, (long long)steps,
                    c->options->data_count ? "" : ", on a text of made-up words",
                    c->stopped ? "; stopped before their end" : "");
    write_speed(c, r);
    write_messages(c, r);
    write_largest(c, r);
    write_effort(c, r);
    write_missing(c, r);
    zr_report_finish(r, ZR_REPORT_MARKDOWN, 0, out);
}
