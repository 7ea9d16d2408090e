// What of ZeRO-R (arXiv 1910.02054, section 6: residual states) holds in a plan with tensor ranks:
//
//   P_a  activation checkpoints are divided among them
//   C_B  buffers have a constant size: none grows with the number of layers
//   M_D  no memory is fragmented, because all of it is reserved before the first step
//
// The first is the configuration's choice. The last two are properties of the design, which tests
// hold: nothing is measured here, and the bytes are those that are planned.
#include "base/bytes_text.h"
#include "tools/plan_report.h"

static void append_share(const zr_plan_row *row, zr_buffer *out)
{
    char text[ZR_BYTES_TEXT];
    zr_bytes_text((double)row->joined, text);
    zr_buffer_printf(out,
                     "each keeps 1/%d of an activation checkpoint, and fetches %s a step in %lld "
                     "gathers of the rest",
                     row->tensor, text, (long long)row->joins);
}

static void append_kept(const zr_plan_row *row, zr_buffer *out)
{
    switch (row->keeps) {
    case ZR_KEEP_NONE:
        zr_buffer_printf(out, "there are no activation checkpoints to divide "
                              "(activation_checkpointing.number_checkpoints)");
        break;
    case ZR_KEEP_WHOLE:
        zr_buffer_printf(out, "each keeps whole activation checkpoints "
                              "(activation_checkpointing.partition_activations divides them)");
        break;
    case ZR_KEEP_SHARE: append_share(row, out); break;
    case ZR_KEEP_ROWS:
        zr_buffer_printf(out, "an activation checkpoint is each rank's own rows already "
                              "(sequence parallelism)");
        break;
    }
}

// Rows differ only with their micro-batches.
static void append_windows(const zr_plan_row *rows, int count, zr_buffer *out)
{
    char text[ZR_BYTES_TEXT];
    for (int i = 0; i < count; i++) {
        if (i > 0 && rows[i].windows == rows[i - 1].windows)
            continue;
        zr_bytes_text((double)rows[i].windows, text);
        zr_buffer_printf(out,
                         "  C_B  by design: exchanges of all layers go through the same %s, as "
                         "large as the largest one needs",
                         text);
        if (rows[i].micro_batch)
            zr_buffer_printf(out, " (micro-batch %lld)", (long long)rows[i].micro_batch);
        zr_buffer_printf(out, "\n");
    }
}

// Rows differ only in the bytes of gathers, with their micro-batches.
void zr_plan_residual_text(const zr_plan_row *rows, int count, zr_buffer *out)
{
    if (!count || rows[0].tensor <= 1)
        return;
    zr_buffer_printf(out, "ZeRO-R on %d tensor ranks:\n", rows[0].tensor);
    for (int i = 0; i < count; i++) {
        const zr_plan_row *row = &rows[i];
        if (i > 0 && row->joined == rows[i - 1].joined)
            continue;
        zr_buffer_printf(out, "  P_a  ");
        append_kept(row, out);
        if (row->keeps == ZR_KEEP_SHARE && row->micro_batch)
            zr_buffer_printf(out, " (micro-batch %lld)", (long long)row->micro_batch);
        zr_buffer_printf(out, "\n");
    }
    append_windows(rows, count, out);
    zr_buffer_printf(out, "  M_D  by design: the totals above are reserved before the first step, "
                          "and a step allocates nothing\n");
}

void zr_plan_residual_json(const zr_plan_row *row, zr_buffer *out)
{
    static const char *const kept[] = {[ZR_KEEP_NONE] = "none",
                                       [ZR_KEEP_WHOLE] = "whole",
                                       [ZR_KEEP_SHARE] = "share",
                                       [ZR_KEEP_ROWS] = "rows"};
    if (row->tensor <= 1)
        return;
    zr_buffer_printf(out,
                     ",\"zero_r\":{\"checkpoints_kept\":\"%s\",\"gathers\":%lld,"
                     "\"gathered\":%lld,\"windows\":%lld}",
                     kept[row->keeps], (long long)row->joins, (long long)row->joined,
                     (long long)row->windows);
}
