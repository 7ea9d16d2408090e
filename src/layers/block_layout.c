// Lays out a block's call: its sizes; the saved and the held buffer; and the workspace, where
// block_memory.c places the values of rows.
#include "layers/block.h"
#include "layers/block_adapters.h"

#include <math.h>

bool zr_block_is_cut(const zr_block *block) { return block->division.slices->count > 1; }

bool zr_row_is_linear(const zero_block_row *row)
{
    return row->kind == ZERO_ROW_LINEAR || row->kind == ZERO_ROW_GELU_LINEAR;
}

bool zr_row_is_input(const zero_block_row *row) { return zr_row_is_linear(row) && row->in[0] == 0; }

bool zr_row_rotates(const zero_block_row *row)
{
    return row->kind == ZERO_ROW_ROTATE || row->kind == ZERO_ROW_ROTATE_HEADS;
}

bool zr_row_is_elementwise(const zero_block_row *row)
{
    return row->kind == ZERO_ROW_SILU_GATE || row->kind == ZERO_ROW_GELU_ERF;
}

int zr_block_inputs(const zr_block *block, int half)
{
    int count = 0;
    for (int r = 1; r <= zr_block_last_row(block, half); r++)
        count += zr_row_is_input(&zr_block_rows(block, half)[r]);
    return count;
}

bool zr_row_exists(const zr_block *block, const zero_block_row *row)
{
    return row->kind != ZERO_ROW_HEAD_NORM || zr_tensor_exists(&block->hyper->tensor[row->weight]);
}

int zr_value_row(const zr_block *block, int half, int row)
{
    const zero_block_row *rows = zr_block_rows(block, half);
    while (!zr_row_exists(block, &rows[row]))
        row = rows[row].in[0];
    return row;
}

int64_t zr_row_elements(const zr_block *block, const zero_block_row *row)
{
    const zr_attention *a = &block->attention;
    const zr_lm_unit *hyper = block->hyper;
    const int64_t widths[] = {
        [ZERO_WIDE_STREAM] = block->width,
        [ZERO_WIDE_QUERIES] = a->heads * a->head_dim,
        [ZERO_WIDE_KEYS] = a->kv_heads * a->head_dim,
        [ZERO_WIDE_PACKED] = zr_attention_row(a),
        [ZERO_WIDE_INNER] = hyper->shape.inner / hyper->slices.count,
    };
    switch (row->kind) {
    case ZERO_ROW_NORM: return block->width;
    case ZERO_ROW_ROTATE:
    case ZERO_ROW_ROTATE_HEADS: return widths[ZERO_WIDE_PACKED];
    case ZERO_ROW_ATTENTION: return widths[ZERO_WIDE_QUERIES];
    case ZERO_ROW_GELU_ERF:
    case ZERO_ROW_SILU_GATE: return widths[ZERO_WIDE_INNER];
    default: return widths[row->width];
    }
}

static size_t scratch_bytes(const zr_block *block, const zr_backend *backend, int threads)
{
    size_t most = ZR_MAX(zr_scratch_norm(backend, threads, &block->norm[0].norm),
                         zr_scratch_attention(backend, threads, &block->attention));
    for (int half = 0; half < ZERO_BLOCK_HALVES; half++)
        for (int r = 1; r <= zr_block_last_row(block, half); r++) {
            const zero_block_row *row = &zr_block_rows(block, half)[r];
            const zr_linear linear = zr_block_linear(block, half, r, 0);
            const zr_norm heads = zr_heads_norm(block, row);
            size_t bytes = zr_row_is_linear(row) ? zr_linear_scratch(&linear, backend, threads)
                           : row->kind == ZERO_ROW_HEAD_NORM
                               ? zr_scratch_norm(backend, threads, &heads)
                               : 0;
            most = ZR_MAX(most, bytes);
        }
    return most;
}

static void carve_statistics(zr_block *block, zr_carver *carver)
{
    for (int half = 0; half < ZERO_BLOCK_HALVES; half++) {
        zr_norm_statistics *of = &block->statistics[half];
        of->mean = block->norm[half].norm.rms ? NULL : zr_carve_floats(carver, block->division.own);
        of->rstd = zr_carve_floats(carver, block->division.own);
    }
}

// Cuts the value of a row that is kept; slices that share keys have that of their lender.
static void carve_value(zr_block *block, int half, int r, int s, zr_carver *carver)
{
    const zero_block_row *row = &zr_block_rows(block, half)[r];
    zr_block_slice *slice = &block->slices[s];
    if (row->width == ZERO_WIDE_KEYS && slice->lender != s) {
        slice->value[half][r].at = block->slices[slice->lender].value[half][r].at;
        return;
    }
    slice->value[half][r].at =
        zr_carve_as(carver, block->dtype, block->rows * zr_row_elements(block, row));
    if (row->kind == ZERO_ROW_ATTENTION)
        slice->lse = zr_carve_floats(carver, block->rows * block->attention.heads);
}

static size_t carve_saved(zr_block *block, void *base)
{
    zr_carver carver = {.base = base};
    carve_statistics(block, &carver);
    for (int half = 0; half < ZERO_BLOCK_HALVES; half++)
        for (int r = 1; r <= zr_block_last_row(block, half); r++)
            for (int s = 0; s < block->slice_count && zr_block_rows(block, half)[r].kept; s++)
                carve_value(block, half, r, s, &carver);
    zr_block_carve_squares(block, &carver);
    if (!block->table->parallel)
        block->middle = zr_carve_as(&carver, block->stream, block->division.own * block->width);
    return carver.used;
}

static bool is_split(const zr_block *block) { return block->parts != ZR_BACKWARD_WHOLE; }

// Puts the gradients of the outputs of linears that train in the held buffer, for the weight part
// of a split backward. Those of shared keys and values belong to the slice that lends them.
static void hold_gradients(zr_block *block, zr_carver *held)
{
    for (int half = 0; half < ZERO_BLOCK_HALVES; half++) {
        int last = zr_block_last_row(block, half);
        const zr_linear branch = zr_block_branch_linear(block, half);
        void *d = zr_linear_hold(&branch, held, block->slices[0].value[half][last].d);
        for (int s = 0; s < block->slice_count; s++) {
            zr_block_value *values = block->slices[s].value[half];
            values[last].d = d;
            for (int r = 1; r < last; r++) {
                const zero_block_row *row = &zr_block_rows(block, half)[r];
                const zr_linear linear = zr_block_linear(block, half, r, s);
                if (zr_row_is_linear(row) && !linear.is_lent)
                    values[r].d = zr_linear_hold(&linear, held, values[r].d);
            }
        }
    }
}

// The gradients of heads' gains have a part for each slice, one after another, to be summed.
static void carve_head_gains(zr_block *block, zr_carver *work, zr_carver *sums)
{
    int64_t dim = block->attention.head_dim, step = zr_spare_floats(dim);
    const zero_block_row *rows = zr_block_rows(block, ZERO_ATTENTION_HALF);
    for (int r = 1; r < zr_block_last_row(block, ZERO_ATTENTION_HALF); r++) {
        bool cut = zr_block_is_cut(block);
        if (rows[r].kind != ZERO_ROW_HEAD_NORM || !zr_row_exists(block, &rows[r]))
            continue;
        float *parts = cut ? zr_carve_floats(work, block->slice_count * step) : NULL;
        for (int s = 0; s < block->slice_count; s++)
            block->slices[s].d_gain[r] = parts ? parts + s * step : NULL;
        zr_gains_carve(&block->gains, sums, &block->hyper->tensor[rows[r].weight], dim, cut);
    }
}

// sums: the buffer for sums of gains, which is not scratch if backward is split.
static void carve_gains(zr_block *block, zr_carver *work, zr_carver *sums)
{
    const zr_division *division = &block->division;
    block->partials = zr_carve_floats(work, zr_norm_partials(&block->norm[0], division));
    carve_head_gains(block, work, sums);
    zr_block_carve_adapters(block, work);
    if (!is_split(block) && !zr_gains_by_rows(division->slices))
        return;
    for (int half = 0; half < ZERO_BLOCK_HALVES; half++)
        zr_norm_gains_carve(&block->norm[half], division, &block->gains, sums);
}

size_t zr_block_place_bytes(const zr_block *block)
{
    size_t of_shared =
        sizeof(float) * (size_t)(block->shared.elements * ZR_MAX(block->shared.replicas, 1));
    size_t most = ZR_MAX(zr_division_place_bytes(&block->division), of_shared);
    most = ZR_MAX(most, zr_block_squares_place_bytes(block));
    return ZR_MAX(most, zr_gains_place_bytes(block->division.slices, &block->gains));
}

// Lays out the workspace. While only counting, returns the bytes that suffice for every use.
static size_t carve_workspace(zr_block *block, const zr_block_layout *l, int threads,
                              zr_carver *held)
{
    zr_carver carver = {.base = l->workspace};
    const zr_attention *attention = &block->attention;
    if (zr_block_is_cut(block))
        block->spare = zr_carve_floats(&carver, zr_slices_spare(block->division.slices) *
                                                    zr_spare_floats(block->rows * block->width));
    if (zr_block_is_cut(block) || is_split(block))
        carve_gains(block, &carver, is_split(block) ? held : &carver);
    if (zr_block_is_cut(block))
        block->place = zr_carve_place(&carver, block->hyper, zr_block_place_bytes(block));
    if (l->use == ZR_BLOCK_EVALUATES || !l->workspace)
        zr_block_carve_squares(block, &carver);
    if (l->use != ZR_BLOCK_EVALUATES || !l->whole) // not in a step of generation
        block->documents = zr_documents_carve(&carver, block->hyper, block->rows);
    int64_t rotated = block->hyper->shape.rotated;
    if (rotated) {
        int64_t rows = block->hyper->config.documents ? block->rows : attention->seq;
        // Frequencies lay here once: plans keep their bytes.
        zr_carve_floats(&carver, rotated / 2);
        block->angles = zr_carve_floats(&carver, rows * rotated);
    }
    char *base = l->workspace ? (char *)l->workspace + carver.used : NULL;
    if (base) {
        block->scratch = base + zr_block_place_values(block, l->use, base);
        return 0;
    }
    bool one = l->use == ZR_BLOCK_EVALUATES;
    int first = one ? (int)l->use : ZR_BLOCK_TRAINS, last = one ? (int)l->use : ZR_BLOCK_GOES_BACK;
    int64_t end = 0;
    for (int use = first; use <= last; use++) {
        int64_t bytes = zr_block_place_values(block, (zr_block_use)use, NULL);
        end = ZR_MAX(end, bytes);
    }
    return carver.used + (size_t)end + scratch_bytes(block, l->backend, threads);
}

static zr_attention attention_of(const zr_lm_unit *hyper, const zero_shape *shape, bool training)
{
    const zr_lm_shape *of = &hyper->shape;
    int64_t count = hyper->slices.count, heads = of->heads / count;
    return (zr_attention){
        .dtype = shape->dtype,
        .batch = shape->batch,
        .seq = shape->seq,
        .heads = heads,
        .kv_heads = ZR_MAX(of->kv_heads / count, 1),
        .head_dim = of->head_dim,
        .scale = (float)(1 / sqrt((double)of->head_dim)),
        .window = hyper->window < shape->seq ? hyper->window : 0,
        .dropout = training ? of->attention_dropout : 0,
        .first_head = zr_slices_first(&hyper->slices) * heads,
        .all_heads = of->heads,
    };
}

// If ranks share keys and values, each holds one head of them.
static zero_exchange shared_exchange(const zr_block *block)
{
    const zr_lm_unit *hyper = block->hyper;
    int ranks = zr_slices_sharing_ranks(&hyper->slices, &hyper->shape);
    int64_t elements = block->rows * zr_attention_shared_row(&block->attention);
    if (ranks == 1)
        return (zero_exchange){0};
    return (zero_exchange){.kind = ZERO_EXCHANGE_SUM,
                           .backward = 1,
                           .replicas = ranks,
                           .elements = zr_sum_share(elements, ranks),
                           .dtype = ZERO_F32,
                           .calls = 1,
                           .purpose = ZERO_EXCHANGE_FOR_shared};
}

static void set_sizes(const zero_unit *unit, const zero_shape *shape, const zr_block_layout *l,
                      zr_block *block)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    const zr_lm_shape *of = &hyper->shape;
    int64_t rows = shape->batch * shape->seq;
    bool training = l->use != ZR_BLOCK_EVALUATES;
    *block = (zr_block){
        .table = zr_architecture_of(&hyper->config)->block,
        .hyper = hyper,
        .parts = l->parts,
        .dtype = shape->dtype,
        .stream = zr_stream_dtype(shape->dtype),
        .rows = rows,
        .width = of->width,
        .division = zr_division_of(hyper, rows, l->whole),
        .attention = attention_of(hyper, shape, training),
        .dropout = training ? of->residual_dropout : 0,
        .low_rank_dropout = training ? hyper->config.lora.dropout : 0,
        .slice_count = zr_slices_here(&hyper->slices),
        .kv_replicas = zr_slices_kv_replicas(&hyper->slices, of),
    };
    for (int s = 0; s < block->slice_count; s++) {
        int here = zr_slices_first(&hyper->slices), number = here + s;
        int first = number / block->kv_replicas * block->kv_replicas;
        block->slices[s].lender = ZR_MAX(first - here, 0);
        block->slices[s].first = first == number;
    }
    for (int half = 0; half < ZERO_BLOCK_HALVES; half++) {
        const zero_block_row *norm = zr_block_rows(block, half);
        block->norm[half] = zr_lm_norm(hyper, block->dtype, block->division.own,
                                       &hyper->tensor[norm->weight], &hyper->tensor[norm->bias]);
    }
    block->shared = shared_exchange(block);
}

void zr_block_lay_out(const zero_unit *unit, const zero_shape *shape, zr_block_layout *l,
                      zr_block *block)
{
    zr_carver held = {.base = l->held};
    set_sizes(unit, shape, l, block);
    if (l->use != ZR_BLOCK_EVALUATES)
        l->saved_bytes = carve_saved(block, l->saved);
    l->workspace_bytes = carve_workspace(block, l, shape->threads, &held);
    if (is_split(block))
        hold_gradients(block, &held);
    l->held_bytes = held.used;
    for (int s = 0; s < block->slice_count; s++)
        for (int half = 0; half < ZERO_BLOCK_HALVES; half++)
            for (int r = 1; r <= zr_block_last_row(block, half); r++)
                block->slices[s].value[half][r] =
                    block->slices[s].value[half][zr_value_row(block, half, r)];
}

static zr_low_rank low_rank_of(const zr_block *block, int half, int r, int s)
{
    const zr_lm_unit *hyper = block->hyper;
    int weight = zr_block_rows(block, half)[r].weight, first = zr_slices_first(&hyper->slices);
    const zr_tensor_handle *a = zr_lm_tensor(hyper, s, weight + ZR_LM_LORA_A);
    if (!hyper->config.lora.rank || !zr_tensor_exists(a))
        return (zr_low_rank){0};
    zr_low_rank of = {.a = a,
                      .b = zr_lm_tensor(hyper, s, weight + ZR_LM_LORA_B),
                      .magnitude = zr_lm_tensor(hyper, s, weight + ZR_LM_MAGNITUDE)};
    float *part = block->slices[s].d_low_rank[half][r];
    bool of_a = zr_tensor_exists(&hyper->tensor[weight + ZR_LM_LORA_A]);
    of.rank = hyper->config.lora.rank;
    of.scale = zr_lora_scale(&hyper->config.lora);
    of.dropout = block->low_rank_dropout;
    of.part_a = of_a ? part : NULL;
    of.part_b = of_a ? NULL : part;
    of.of_columns = zr_block_is_cut(block) && r == zr_block_last_row(block, half);
    of.part_magnitude = of.of_columns ? block->slices[s].d_magnitude[half] : NULL;
    of.squares = of.of_columns ? block->squares[half] : NULL;
    if (of.dropout > 0 && block->context)
        of.mask = zr_lm_mask(block->context, ZR_SITE_LOW_RANK);
    // All slices of a weight that is cut by its outputs read the same; others read different
    // columns.
    int reader = of_a ? 0 : first + s;
    of.mask.site += (uint32_t)((reader * ZERO_BLOCK_HALVES + half) * ZERO_MOST_ROWS + r);
    return of;
}

static zr_quantised_weight quantised_of(const zr_block *block, int weight, int s)
{
    const zr_lm_unit *hyper = block->hyper;
    return (zr_quantised_weight){.format = hyper->config.base,
                                 .scales = zr_lm_tensor(hyper, s, weight + ZR_LM_SCALES),
                                 .shared = zr_lm_tensor(hyper, s, weight + ZR_LM_SHARED)};
}

zr_linear zr_block_linear(const zr_block *block, int half, int r, int s)
{
    static const zr_tensor_handle none = {.flat_param = -1};
    const zero_block_row *rows = zr_block_rows(block, half), *row = &rows[r];
    const zr_block_slice *slice = &block->slices[s];
    bool summed = r == zr_block_last_row(block, half) && zr_block_is_cut(block);
    return (zr_linear){
        .dtype = block->dtype,
        .gelu = row->kind == ZERO_ROW_GELU_LINEAR,
        .outputs_first = block->hyper->shape.outputs_first,
        .rows = block->rows,
        .in = zr_row_elements(block, &rows[row->in[0]]),
        .out = zr_row_elements(block, row),
        .weight = zr_lm_tensor(block->hyper, s, row->weight),
        .quantised = quantised_of(block, row->weight, s),
        .bias = summed ? &none : zr_lm_tensor(block->hyper, s, row->bias),
        .is_lent = row->width == ZERO_WIDE_KEYS && slice->lender != s,
        .flows_elsewhere = row->width == ZERO_WIDE_KEYS && !slice->first,
        .low_rank = low_rank_of(block, half, r, s),
    };
}

zr_linear zr_block_branch_linear(const zr_block *block, int half)
{
    int last = zr_block_last_row(block, half);
    zr_linear branch = zr_block_linear(block, half, last, 0);
    branch.bias = zr_lm_tensor(block->hyper, 0, zr_block_rows(block, half)[last].bias);
    return branch;
}
