// Computes the values of a half again that backward reads and forward has not kept.
#include "layers/block.h"

static uint32_t inputs_of(const zero_block_row *row)
{
    return 1u << row->in[0] | 1u << row->in[1] | 1u << row->in[2];
}

// Returns whether a part of backward reads the values that a row reads: a linear for the gradients
// of its tensors, if it has any that trains, and any other row but SILU_GATE's product for that of
// its input.
static uint32_t values_read(const zr_block *block, int half, int r, unsigned parts)
{
    const zero_block_row *row = &zr_block_rows(block, half)[r];
    unsigned of_tensors = 0;
    if (zr_row_is_linear(row)) {
        const zr_linear linear = zr_block_linear(block, half, r, 0);
        of_tensors = zr_linear_trains(&linear) ? ZR_BACKWARD_WEIGHT : 0;
    }
    bool reads = parts & (row->kind == ZERO_ROW_LINEAR        ? of_tensors
                          : row->kind == ZERO_ROW_GELU_LINEAR ? of_tensors | ZR_BACKWARD_INPUT
                                                              : ZR_BACKWARD_INPUT);
    return reads ? inputs_of(row) : 0;
}

zero_status zr_block_recompute(zr_block *block, int half)
{
    const zero_block_row *rows = zr_block_rows(block, half);
    int last = zr_block_last_row(block, half);
    uint32_t wanted = 0;
    for (int r = last; r > 0; r--) {
        bool again = !rows[r].kept && wanted >> r & 1;
        wanted |= again ? inputs_of(&rows[r]) : 0;
        wanted |= values_read(block, half, r, block->parts);
    }
    for (int r = 1; r < last; r++)
        if (!rows[r].kept && wanted >> r & 1)
            ZERO_TRY(zr_row_forward(block, half, r));
    return ZERO_OK;
}
