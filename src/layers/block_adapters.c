#include "layers/block_adapters.h"

#include "layers/magnitude.h"

// ---- gradients of tensors that slices have whole ----

// Returns the tensor of a linear's adapter whose gradient is a sum over slices, and its elements:
// of A where the weight is cut by its outputs, otherwise of B; NULL if the linear has no adapter.
static const zr_tensor_handle *summed_tensor(const zr_block *block, int half, int r,
                                             int64_t *elements)
{
    const zero_block_row *row = &zr_block_rows(block, half)[r];
    const zr_linear linear = zr_block_linear(block, half, r, 0);
    const zr_tensor_handle *a = &block->hyper->tensor[row->weight + ZR_LM_LORA_A];
    bool of_a = zr_tensor_exists(a);
    *elements = linear.low_rank.rank * (of_a ? linear.in : linear.out);
    return !zr_row_is_linear(row) || !linear.low_rank.rank ? NULL
           : of_a                                          ? a
                                                           : a + (ZR_LM_LORA_B - ZR_LM_LORA_A);
}

// Returns whether slices have some columns of a half's branch, and its magnitudes whole.
static bool has_whole_magnitude(const zr_block *block, int half)
{
    const zr_linear branch = zr_block_linear(block, half, zr_block_last_row(block, half), 0);
    return zr_block_is_cut(block) && zr_linear_has_magnitude(&branch);
}

static const zr_tensor_handle *magnitude_of(const zr_block *block, int half)
{
    const zero_block_row *last = &zr_block_rows(block, half)[zr_block_last_row(block, half)];
    return &block->hyper->tensor[last->weight + ZR_LM_MAGNITUDE];
}

// Cuts out a part for each slice, one after another, and their sum. Returns the parts.
static float *carve_parts(zr_block *block, const zr_tensor_handle *tensor, int64_t elements,
                          zr_carver *work)
{
    float *parts = zr_carve_floats(work, block->slice_count * zr_spare_floats(elements));
    zr_gains_carve(&block->gains, work, tensor, elements, true);
    return parts;
}

static float *part_of(float *parts, int64_t elements, int s)
{
    return parts ? parts + s * zr_spare_floats(elements) : NULL;
}

void zr_block_carve_adapters(zr_block *block, zr_carver *work)
{
    for (int half = 0; half < ZERO_BLOCK_HALVES && zr_block_is_cut(block); half++) {
        for (int r = 1; r <= zr_block_last_row(block, half); r++) {
            int64_t elements;
            const zr_tensor_handle *summed = summed_tensor(block, half, r, &elements);
            float *parts = summed ? carve_parts(block, summed, elements, work) : NULL;
            for (int s = 0; s < block->slice_count; s++)
                block->slices[s].d_low_rank[half][r] = part_of(parts, elements, s);
        }
        if (!has_whole_magnitude(block, half))
            continue;
        float *parts = carve_parts(block, magnitude_of(block, half), block->width, work);
        for (int s = 0; s < block->slice_count; s++)
            block->slices[s].d_magnitude[half] = part_of(parts, block->width, s);
    }
}

static void sum_parts(zr_block *block, const zr_tensor_handle *tensor, int64_t elements,
                      float *parts)
{
    zr_queue *queue = block->context->queue;
    zr_rows_add(queue, block->slice_count, zr_spare_floats(elements), parts);
    zr_run(queue, zr_op_copy(&(zr_bytes){elements * (int64_t)sizeof(float)}, parts,
                             zr_gains_sum(&block->gains, tensor)));
}

// Of slices that share keys and values, the first has the part of all.
static void clear_shared_parts(zr_block *block, int half, int r, int64_t elements)
{
    const zr_bytes all = {elements * (int64_t)sizeof(float)};
    for (int s = 0; s < block->slice_count; s++)
        if (zr_block_rows(block, half)[r].width == ZERO_WIDE_KEYS && !block->slices[s].first)
            zr_run(block->context->queue, zr_op_fill(&all, block->slices[s].d_low_rank[half][r]));
}

void zr_block_sum_adapters(zr_block *block, int half)
{
    const zr_block_slice *first = &block->slices[0];
    for (int r = 1; r <= zr_block_last_row(block, half) && zr_block_is_cut(block); r++) {
        int64_t elements;
        const zr_tensor_handle *summed = summed_tensor(block, half, r, &elements);
        if (!summed)
            continue;
        clear_shared_parts(block, half, r, elements);
        sum_parts(block, summed, elements, first->d_low_rank[half][r]);
    }
    if (has_whole_magnitude(block, half))
        sum_parts(block, magnitude_of(block, half), block->width, first->d_magnitude[half]);
}

// ---- squares of norms ----

static zero_exchange squares_exchange(const zr_block *block)
{
    return (zero_exchange){.kind = ZERO_EXCHANGE_SUM,
                           .elements = zr_sum_share(block->width, block->division.slices->ranks),
                           .dtype = ZERO_F32,
                           .calls = 1,
                           .purpose = ZERO_EXCHANGE_FOR_sums};
}

void zr_block_carve_squares(zr_block *block, zr_carver *carver)
{
    for (int half = 0; half < ZERO_BLOCK_HALVES; half++)
        if (has_whole_magnitude(block, half))
            block->squares[half] = zr_carve_floats(carver, block->width);
}

size_t zr_block_squares_place_bytes(const zr_block *block)
{
    bool any = has_whole_magnitude(block, ZERO_ATTENTION_HALF) ||
               has_whole_magnitude(block, ZERO_MLP_HALF);
    int64_t floats = block->division.slices->ranks * squares_exchange(block).elements;
    return any ? sizeof(float) * (size_t)floats : 0;
}

void zr_block_list_squares(const zr_block *block, int half, zero_unit_sizes *sizes)
{
    const zero_exchange exchange = squares_exchange(block);
    if (has_whole_magnitude(block, half))
        zr_list_exchange(sizes, block->division.slices, &exchange);
}

typedef struct squared_half {
    zr_block *block;
    int half;
} squared_half;

static zero_status square_slice(void *user, int s, float *out)
{
    const squared_half *of = user;
    const zr_linear linear =
        zr_block_linear(of->block, of->half, zr_block_last_row(of->block, of->half), s);
    zr_magnitude_squares(of->block->context, &linear, out, of->block->scratch);
    return ZERO_OK;
}

zero_status zr_block_sum_squares(zr_block *block, int half)
{
    const zero_exchange exchange = squares_exchange(block);
    const zr_bytes all = {block->width * (int64_t)sizeof(float)};
    squared_half of = {block, half};
    if (!has_whole_magnitude(block, half))
        return ZERO_OK;
    ZERO_TRY(zr_slices_add(block->context, block->division.slices, block->width, square_slice, &of,
                           (float *)(void *)block->place, block->spare));
    ZERO_TRY(zr_exchange(block->context, &exchange, 0));
    zr_run(block->context->queue, zr_op_copy(&all, block->place, block->squares[half]));
    return ZERO_OK;
}
