// What tensor ranks exchange in a plan: the bytes of a step, and what a micro-batch needs them for.
#include "base/text.h"
#include "base/traffic.h"
#include "plan/exchanges.h"
#include "report/plan_report.h"

#include <stdio.h>

static const struct {
    const char *name, *words;
} purposes[ZERO_EXCHANGE_PURPOSE_COUNT] = {
#define PURPOSE(name, words) [ZERO_EXCHANGE_FOR_##name] = {#name, words},
    ZERO_EXCHANGE_PURPOSES(PURPOSE)
#undef PURPOSE
};

static const char *const kinds[ZR_EXCHANGE_KINDS] = {
    [ZERO_EXCHANGE_SUM] = "all-reduce",
    [ZERO_EXCHANGE_SCATTER] = "reduce-scatter",
    [ZERO_EXCHANGE_GATHER] = "all-gather",
};

static void put_exchange_row(const char *what, const char *how, int64_t calls, int64_t bytes,
                             zr_report *r)
{
    zr_report_row(r);
    zr_report_cell(r, zr_text(what));
    zr_report_cell(r, zr_text(how));
    zr_report_cell(r, zr_integer(calls));
    zr_report_cell(r, zr_integer(bytes));
}

// Appends a line for each purpose and kind that a micro-batch has, and their sum.
static void append_purposes(const zr_exchange_table *table, const char *heading, int width,
                            zr_buffer *out)
{
    const zr_heading columns[] = {
        {.label = heading, .width = 36, .left = true},
        {.label = "", .width = 14, .left = true},
        {.label = "calls", .width = 10},
        {.label = "bytes", .unit = ZR_UNIT_BYTES, .width = 10},
    };
    int64_t calls = 0, bytes = 0;
    zr_report *r = zr_report_create(NULL);
    zr_report_indent(r, 2);
    zr_report_table(r, NULL, columns, ZR_COUNT(columns));
    for (int p = 0; p < ZERO_EXCHANGE_PURPOSE_COUNT; p++)
        for (int k = 0; k < ZR_EXCHANGE_KINDS; k++) {
            if (!table->calls[p][k])
                continue;
            put_exchange_row(purposes[p].words, kinds[k], table->calls[p][k], table->bytes[p][k],
                             r);
            calls += table->calls[p][k];
            bytes += table->bytes[p][k];
        }
    put_exchange_row("together", "", calls, bytes, r);
    zr_report_end_table(r);
    zr_report_finish(r, ZR_REPORT_TEXT, width, out);
}

static int64_t row_exchanged_bytes(const zr_plan_row *row) { return row->exchanged; }

// Rows differ only with their micro-batches; the table is that of the largest one.
void zr_plan_exchanged_text(const zr_plan_row *rows, int count, int width, zr_buffer *out)
{
    char heading[64] = "in a micro-batch";
    if (!count || rows[0].tensor <= 1)
        return;
    zr_plan_range range = zr_plan_range_of(rows, count, row_exchanged_bytes);
    zr_buffer_printf(out, "%d tensor ranks: each fetches %s a step from the others%s\n",
                     rows[0].tensor, range.bytes, range.micro_batches);
    if (range.several)
        snprintf(heading, sizeof heading, "in a micro-batch of %lld",
                 (long long)range.largest->micro_batch);
    append_purposes(&range.largest->exchanges, heading, width, out);
}

static void put_purposes(const zr_exchange_table *table, zr_json_writer *w)
{
    zr_json_begin_array(w, "exchanges");
    for (int p = 0; p < ZERO_EXCHANGE_PURPOSE_COUNT; p++)
        for (int k = 0; k < ZR_EXCHANGE_KINDS; k++) {
            if (!table->calls[p][k])
                continue;
            zr_json_begin_object(w, NULL);
            zr_json_text(w, "for", purposes[p].name);
            zr_json_text(w, "as", zr_op_name(zr_exchange_op((zero_exchange_kind)k)));
            zr_json_integer(w, "calls", table->calls[p][k]);
            zr_json_integer(w, "bytes", table->bytes[p][k]);
            zr_json_end(w);
        }
    zr_json_end(w);
}

void zr_plan_exchanged_json(const zr_plan_row *row, zr_json_writer *w)
{
    if (row->tensor <= 1)
        return;
    zr_json_integer(w, "tensor", row->tensor);
    zr_json_integer(w, "exchanged", row->exchanged);
    put_purposes(&row->exchanges, w);
}
