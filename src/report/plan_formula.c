// The paper's formulas (arXiv 1910.02054, section 5), for a model with a known number of
// parameters P is known. Mixed-precision Adam has 2P bytes of parameters, 2P of gradients and 12P
// of optimizer states (fp32 weights, momentum, variance):
//
//   stage 0: 16P   stage 1: 4P + 12P/N   stage 2: 2P + 14P/N   stage 3: 16P/N
#include "base/text.h"
#include "report/plan_report.h"

#include <math.h>

enum { MOST_ROWS = 64 };

static zr_plan_row formula_row(double parameters, int stage, int ranks, int64_t memory)
{
    zr_plan_row row = {.stage = stage, .ranks = ranks, .largest = -1};
    row.bytes[ZERO_MEM_parameters] = llround(2 * parameters / (stage >= 3 ? ranks : 1));
    row.bytes[ZERO_MEM_gradients] = llround(2 * parameters / (stage >= 2 ? ranks : 1));
    row.bytes[ZERO_MEM_optimizer] = llround(12 * parameters / (stage >= 1 ? ranks : 1));
    row.tiers[ZERO_TIER_device] = zr_plan_row_total(&row);
    if (memory > 0)
        row.largest = zr_plan_row_total(&row) <= memory;
    return row;
}

static int make_rows(const zero_plan_options *options, zr_plan_row *rows)
{
    static const int usual[] = {1, 4, 16, 64, 256, 1024};
    int count = 0;
    for (int i = 0; i < (options->ranks ? 1 : ZR_COUNT(usual)); i++)
        for (int stage = 0; stage <= 3; stage++)
            rows[count++] =
                formula_row(options->parameters, stage, options->ranks ? options->ranks : usual[i],
                            options->memory);
    return count;
}

// Appends the shape of a GPT-2 with about that many parameters: 12 x layers x width^2 of them, a
// width a hundred times the number of layers, and heads of 64.
static void append_spec(double parameters, zr_buffer *out)
{
    long long heads = llround(cbrt(parameters * 100 / 12) / 64);
    heads = ZR_MAX(heads, 1);
    long long width = 64 * heads,
              layers = llround(parameters / (12.0 * (double)width * (double)width));
    zr_buffer_printf(out, "gpt2:layers=%lld,heads=%lld,width=%lld,context=1024,vocab=50257",
                     ZR_MAX(layers, 1), heads, width);
}

static void append_need(const zero_plan_options *options, zr_buffer *out)
{
    char memory[ZR_BYTES_TEXT];
    zr_bytes_text((double)options->memory, memory);
    zr_buffer_printf(out, "\nFewest ranks whose model states fit into %s each:\n", memory);
    for (int stage = 0; stage <= 3; stage++) {
        double fixed = stage == 0   ? 16
                       : stage == 1 ? 4
                       : stage == 2 ? 2
                                    : 0,
               left = (double)options->memory - fixed * options->parameters;
        double ranks = ceil((16 - fixed) * options->parameters / left);
        if (stage == 0 ? left >= 0 : left > 0)
            zr_buffer_printf(out, "  stage %d: %.0f\n", stage, stage == 0 ? 1 : fmax(ranks, 1));
        else
            zr_buffer_printf(out, "  stage %d: no number of ranks\n", stage);
    }
}

zero_status zr_plan_by_formula(const zero_plan_options *options, zr_buffer *out, zero_error *error)
{
    zr_plan_row rows[MOST_ROWS];
    int count = make_rows(options, rows);
    if (options->json) {
        zr_plan_json(rows, count, "",
                     "mixed-precision Adam by formula: 2 + 2 + 12 bytes a parameter",
                     options->parameters, NULL, NULL, out);
        return ZERO_OK;
    }
    zr_buffer_printf(out,
                     "%.4g parameters; model states of a rank by the paper's formulas for "
                     "mixed-precision Adam (2 + 2 + 12 bytes a parameter);\n"
                     "activations and buffers come on top and need a model (GB = 10^9 bytes)\n\n",
                     options->parameters);
    zr_plan_table(rows, count, options->columns, out);
    if (options->memory > 0 && !options->ranks)
        append_need(options, out);
    if (options->memory <= 0 && !options->ranks)
        zr_buffer_printf(out,
                         "\nA cluster of N ranks, and whether its model states fit into the memory "
                         "of each:\n  zero plan --params %.9g --ranks 8 --memory 24GB\n",
                         options->parameters);
    zr_buffer_printf(
        out, "\nA model of about this size, with its activations (fp32):\n  zero plan --new ");
    append_spec(options->parameters, out);
    zr_buffer_printf(out, "%s\n", options->memory > 0 ? "" : " --ranks 8");
    return ZERO_OK;
}
