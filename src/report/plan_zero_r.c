// Which ZeRO-R techniques (arXiv 1910.02054, section 6: residual states) a plan uses:
//
//   P_a  activation checkpoints are divided among them
//   C_B  buffers have a constant size: none grows with the number of layers
//   M_D  no memory is fragmented, because all of it is reserved before the first step
//
// The first is the configuration's choice. The last two are properties of the design, which tests
// hold: nothing is measured here, and the bytes are those that are planned.
#include "base/text.h"
#include "report/plan_report.h"

#include <string.h>

static int64_t row_joined_bytes(const zr_plan_row *row) { return row->joined; }
static int64_t row_window_bytes(const zr_plan_row *row) { return row->windows; }

// Says with the bytes of both, if dividing the checkpoints of few segments does not save memory.
static void append_worth_of_dividing(const zr_plan_range *range, zr_buffer *out)
{
    char divided[ZR_BYTES_TEXT], whole[ZR_BYTES_TEXT];
    const zr_plan_row *row = range->largest;
    bool divides = row->keeps == ZR_KEEP_SHARE;
    int64_t kept = divides ? row->kept : row->kept_otherwise,
            otherwise = divides ? row->kept_otherwise : row->kept;
    if (kept < otherwise || !kept)
        return;
    zr_bytes_text((double)kept, divided);
    zr_bytes_text((double)otherwise, whole);
    bool same = strcmp(divided, whole) == 0;
    zr_buffer_printf(out, "; with so few segments %s %s: checkpoints take %s divided, %s whole",
                     divides ? "that" : "dividing",
                     same      ? divides ? "saves nothing" : "would save nothing"
                     : divides ? "costs memory"
                               : "would cost memory",
                     divided, whole);
    if (range->several)
        zr_buffer_printf(out, " (micro-batch %lld)", (long long)row->micro_batch);
}

static void append_kept(const zr_plan_range *range, zr_buffer *out)
{
    const zr_plan_row *row = range->largest;
    switch (row->keeps) {
    case ZR_KEEP_NONE:
        zr_buffer_printf(out, "there are no activation checkpoints to divide "
                              "(activation_checkpointing.number_checkpoints)");
        break;
    case ZR_KEEP_WHOLE:
        zr_buffer_printf(out, "each keeps whole activation checkpoints "
                              "(activation_checkpointing.partition_activations divides them)");
        append_worth_of_dividing(range, out);
        break;
    case ZR_KEEP_SHARE:
        zr_buffer_printf(out,
                         "each keeps 1/%d of an activation checkpoint, and fetches %s a step in "
                         "%lld gather%s of the rest%s",
                         row->tensor, range->bytes, (long long)row->joins,
                         row->joins == 1 ? "" : "s", range->micro_batches);
        append_worth_of_dividing(range, out);
        break;
    case ZR_KEEP_ROWS:
        zr_buffer_printf(out, "an activation checkpoint is each rank's own rows already "
                              "(sequence parallelism)");
        break;
    }
}

// Rows differ only in bytes, with their micro-batches.
void zr_plan_residual_text(const zr_plan_row *rows, int count, zr_buffer *out)
{
    if (!count || rows[0].tensor <= 1)
        return;
    zr_plan_range joined = zr_plan_range_of(rows, count, row_joined_bytes),
                  windows = zr_plan_range_of(rows, count, row_window_bytes);
    zr_buffer_printf(out, "ZeRO-R on %d tensor ranks:\n  P_a  ", rows[0].tensor);
    append_kept(&joined, out);
    zr_buffer_printf(out,
                     "\n  C_B  by design: exchanges of all layers go through the same %s, as "
                     "large as the largest one needs%s\n",
                     windows.bytes, windows.micro_batches);
    zr_buffer_printf(out, "  M_D  by design: the totals above are reserved before the first step, "
                          "and a step allocates nothing\n");
}

void zr_plan_residual_json(const zr_plan_row *row, zr_json_writer *w)
{
    static const char *const kept[] = {[ZR_KEEP_NONE] = "none",
                                       [ZR_KEEP_WHOLE] = "whole",
                                       [ZR_KEEP_SHARE] = "share",
                                       [ZR_KEEP_ROWS] = "rows"};
    if (row->tensor <= 1)
        return;
    zr_json_begin_object(w, "zero_r");
    zr_json_text(w, "checkpoints_kept", kept[row->keeps]);
    zr_json_integer(w, "gathers", row->joins);
    zr_json_integer(w, "gathered", row->joined);
    zr_json_integer(w, "windows", row->windows);
    zr_json_end(w);
}
