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

static void append_tensor_exchange_line(const char *what, const char *how, int64_t calls,
                                        int64_t bytes, zr_buffer *out)
{
    char text[ZR_BYTES_TEXT];
    zr_bytes_text((double)bytes, text);
    zr_buffer_printf(out, "  %-36s  %-14s  %10lld  %10s\n", what, how, (long long)calls, text);
}

// Appends a line for each purpose and kind that a micro-batch has, and their sum.
static void append_purposes(const zr_exchange_table *table, const char *heading, zr_buffer *out)
{
    int64_t calls = 0, bytes = 0;
    zr_buffer_printf(out, "  %-52s  %10s  %10s\n", heading, "calls", "bytes");
    for (int p = 0; p < ZERO_EXCHANGE_PURPOSE_COUNT; p++)
        for (int k = 0; k < ZR_EXCHANGE_KINDS; k++) {
            if (!table->calls[p][k])
                continue;
            append_tensor_exchange_line(purposes[p].words, kinds[k], table->calls[p][k],
                                        table->bytes[p][k], out);
            calls += table->calls[p][k];
            bytes += table->bytes[p][k];
        }
    append_tensor_exchange_line("together", "", calls, bytes, out);
}

static int64_t exchanged_of(const zr_plan_row *row) { return row->exchanged; }

// Rows differ only with their micro-batches; the table is that of the largest one.
void zr_plan_exchanged_text(const zr_plan_row *rows, int count, zr_buffer *out)
{
    char heading[64] = "in a micro-batch";
    if (!count || rows[0].tensor <= 1)
        return;
    zr_plan_range range = zr_plan_range_of(rows, count, exchanged_of);
    zr_buffer_printf(out, "%d tensor ranks: each fetches %s a step from the others%s\n",
                     rows[0].tensor, range.bytes, range.micro_batches);
    if (range.several)
        snprintf(heading, sizeof heading, "in a micro-batch of %lld",
                 (long long)range.largest->micro_batch);
    append_purposes(&range.largest->exchanges, heading, out);
}

static void append_json_purposes(const zr_exchange_table *table, zr_buffer *out)
{
    const char *separator = "";
    zr_buffer_printf(out, ",\"exchanges\":[");
    for (int p = 0; p < ZERO_EXCHANGE_PURPOSE_COUNT; p++)
        for (int k = 0; k < ZR_EXCHANGE_KINDS; k++) {
            if (!table->calls[p][k])
                continue;
            zr_buffer_printf(out, "%s{\"for\":\"%s\",\"as\":\"%s\",\"calls\":%lld,\"bytes\":%lld}",
                             separator, purposes[p].name,
                             zr_op_name(zr_exchange_op((zero_exchange_kind)k)),
                             (long long)table->calls[p][k], (long long)table->bytes[p][k]);
            separator = ",";
        }
    zr_buffer_printf(out, "]");
}

void zr_plan_exchanged_json(const zr_plan_row *row, zr_buffer *out)
{
    if (row->tensor <= 1)
        return;
    zr_buffer_printf(out, ",\"tensor\":%d,\"exchanged\":%lld", row->tensor,
                     (long long)row->exchanged);
    append_json_purposes(&row->exchanges, out);
}
