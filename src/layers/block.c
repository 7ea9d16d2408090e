// Lays out a block: what it saves, its scratch, and what it exchanges with other tensor ranks. The
// outputs of norms are never saved, because backward recomputes them.
#include "layers/block.h"

#include <math.h>

bool zr_block_is_cut(const zr_block *block) { return block->division.slices->count > 1; }

zr_linear zr_block_linear(const zr_block *block, const zr_lm_unit *hyper, int slice, int64_t in,
                          int64_t out, int weight, int bias)
{
    return (zr_linear){
        .dtype = block->dtype,
        .outputs_first = block->layers->outputs_first,
        .rows = block->rows,
        .in = in,
        .out = out,
        .weight = zr_lm_tensor(hyper, slice, weight),
        .bias = zr_lm_tensor(hyper, slice, bias),
    };
}

void zr_block_add_input(zr_block_slice *slice, int linear, const void *gradient, unsigned parts)
{
    assert(slice->input_count < ZR_BLOCK_INPUTS);
    slice->inputs[slice->input_count++] =
        (zr_block_input){.linear = &slice->linear[linear], .gradient = gradient, .parts = parts};
}

static zr_attention attention_of_slice(const zr_lm_unit *hyper, const zero_shape *shape,
                                       bool training, int slice)
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
        .dropout = training ? of->attention_dropout : 0,
        .first_head = (zr_slices_first(&hyper->slices) + slice) * heads,
        .all_heads = of->heads,
    };
}

// Removes the bias of a half's last linear from its slices, if the linear is cut: the bias is added
// to their sum instead.
static void take_out_bias(zr_block *block, enum zr_block_half half)
{
    static const zr_tensor_handle none = {.flat_param = -1};
    int out = block->layers->halves[half].out;
    block->out_bias[half] = block->slices[0].linear[out].bias;
    for (int i = 0; i < block->slice_count && zr_block_is_cut(block); i++)
        block->slices[i].linear[out].bias = &none;
}

// whole: every rank has all rows of the stream, even under sequence parallelism.
static void layers_set(const zero_unit *unit, const zero_shape *shape, bool training, bool whole,
                       zr_block *block)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    const zr_lm_shape *of = &hyper->shape;
    int64_t rows = shape->batch * shape->seq;
    *block = (zr_block){
        .layers = zr_block_layers_of(unit),
        .dtype = shape->dtype,
        .stream = zr_stream_dtype(shape->dtype),
        .rows = rows,
        .width = of->width,
        .inner = of->inner / hyper->slices.count,
        .division = zr_division_of(hyper, rows, whole),
        .slice_count = zr_slices_here(&hyper->slices),
        .kv_replicas = zr_slices_kv_replicas(&hyper->slices, of),
    };
    for (int i = 0; i < block->slice_count; i++) {
        block->slices[i].number = i;
        block->slices[i].attention = attention_of_slice(hyper, shape, training, i);
    }
    block->layers->set(hyper, shape, training, block);
    for (int half = 0; half < ZR_BLOCK_HALVES; half++)
        take_out_bias(block, (enum zr_block_half)half);
}

static size_t carve_saved(zr_block *block, void *base)
{
    zr_carver carver = {.base = base};
    int64_t rows = block->rows, own = block->division.own;
    if (!block->norm1.norm.rms) {
        block->statistics1.mean = zr_carve_floats(&carver, own);
        block->statistics2.mean = zr_carve_floats(&carver, own);
    }
    block->statistics1.rstd = zr_carve_floats(&carver, own);
    block->statistics2.rstd = zr_carve_floats(&carver, own);
    for (int i = 0; i < block->slice_count; i++) {
        zr_block_slice *slice = &block->slices[i];
        const zr_attention *attention = &slice->attention;
        slice->attended =
            zr_carve_as(&carver, block->dtype, rows * attention->heads * attention->head_dim);
        slice->lse = zr_carve_floats(&carver, rows * attention->heads);
    }
    block->middle = zr_carve_as(&carver, block->stream, own * block->width);
    block->layers->save(block, &carver);
    return carver.used;
}

static size_t scratch_bytes(const zr_block *block, int threads)
{
    const zr_block_slice *slice = &block->slices[0]; // all are of one size
    size_t most = ZR_MAX(block->scratch_bytes, zr_scratch_norm(threads, &block->norm1.norm));
    most = ZR_MAX(most, zr_scratch_attention(threads, &slice->attention));
    for (int i = 0; i < block->linear_count; i++)
        most = ZR_MAX(most, zr_linear_scratch(&slice->linear[i], threads));
    return most;
}

static bool is_split(const zr_block *block) { return block->parts != ZR_BACKWARD_WHOLE; }

// sums: the buffer for sums of gains, which is not scratch if backward is split.
static void gains_carve(zr_block *block, zr_carver *work, zr_carver *sums)
{
    const zr_division *division = &block->division;
    block->partials = zr_carve_floats(work, zr_norm_partials(&block->norm1, division));
    if (block->layers->gains)
        block->layers->gains(block, work, sums);
    if (!is_split(block) && !zr_gains_by_rows(division->slices))
        return;
    zr_norm_gains_carve(&block->norm1, division, &block->gains, sums);
    zr_norm_gains_carve(&block->norm2, division, &block->gains, sums);
}

static size_t place_bytes(const zr_block *block)
{
    size_t of_shared =
        sizeof(float) * (size_t)(block->shared.elements * ZR_MAX(block->shared.replicas, 1));
    size_t most = ZR_MAX(zr_division_place_bytes(&block->division), of_shared);
    return ZR_MAX(most, zr_gains_place_bytes(block->division.slices, &block->gains));
}

static size_t carve_workspace(const zr_lm_unit *hyper, zr_block *block, int threads, void *base,
                              zr_carver *held)
{
    zr_carver carver = {.base = base};
    int64_t elements = block->rows * block->width;
    block->scratch_bytes = scratch_bytes(block, threads);
    block->normed = zr_carve_as(&carver, block->dtype, elements);
    block->narrow = zr_carve_as(&carver, block->dtype, elements);
    block->scratch = zr_carve(&carver, block->scratch_bytes);
    block->branch[ZR_ATTENTION_HALF] = block->branch[ZR_MLP_HALF] = block->narrow;
    block->d_branch[ZR_ATTENTION_HALF] = block->d_branch[ZR_MLP_HALF] = block->narrow;
    if (zr_block_is_cut(block))
        block->spare = zr_carve_floats(&carver, zr_slices_spare(block->division.slices) *
                                                    zr_spare_floats(elements));
    if (zr_block_is_cut(block) || is_split(block))
        gains_carve(block, &carver, is_split(block) ? held : &carver);
    if (zr_block_is_cut(block))
        block->place = zr_carve_place(&carver, hyper, place_bytes(block));
    return block->layers->work(block, carver);
}

zr_linear zr_block_out(const zr_block *block, enum zr_block_half which)
{
    zr_linear out = block->slices[0].linear[block->layers->halves[which].out];
    out.bias = block->out_bias[which];
    return out;
}

// Puts the inputs of a split backward's weight part into the held buffer. Gradients of linears that
// do not train stay in the workspace.
static void place_held_gradients(zr_block *block, zr_carver *held)
{
    for (int half = 0; half < ZR_BLOCK_HALVES; half++) {
        const zr_linear out = zr_block_out(block, (enum zr_block_half)half);
        block->d_branch[half] = zr_linear_hold(&out, held, block->narrow);
    }
    block->layers->hold(block, held);
}

typedef struct layout {                              // of the buffers of a call
    bool training, whole;                            // whole: every rank has all rows of the stream
    unsigned parts;                                  // as in zr_block
    void *saved, *workspace, *held;                  // NULL while only counting
    size_t saved_bytes, workspace_bytes, held_bytes; // found
} layout;

// Sets sizes and buffers.
static void lay_out_block(const zero_unit *unit, const zero_shape *shape, layout *l,
                          zr_block *block)
{
    zr_carver held = {.base = l->held};
    layers_set(unit, shape, l->training, l->whole, block);
    block->parts = l->parts;
    l->saved_bytes = carve_saved(block, l->saved);
    l->workspace_bytes =
        carve_workspace(zr_lm_unit_at(unit), block, shape->threads, l->workspace, &held);
    if (is_split(block))
        place_held_gradients(block, &held);
    l->held_bytes = held.used;
}

void zr_block_alias(zr_block *block, void *out)
{
    block->statistics1 = block->statistics2 = (zr_norm_statistics){0};
    for (int i = 0; i < block->slice_count; i++)
        block->slices[i].lse = NULL;
    block->middle = out;
    block->layers->alias(block);
}

zero_status zr_block_set(zero_context *context, unsigned parts, zr_block *block)
{
    layout l = {.training = context->training,
                .parts = parts,
                .saved = context->saved,
                .workspace = context->workspace,
                .held = context->held};
    ZERO_TRY(zr_lm_threads_check(context));
    if (parts != ZR_BACKWARD_WHOLE && !context->held)
        return zr_fail(context->error, ZERO_ERR_INTERNAL,
                       "unit \"%s\": its backward is in two parts, but its held_bytes are 0",
                       context->unit->name);
    lay_out_block(context->unit, &context->shape, &l, block);
    block->context = context;
    block->place = zr_exchange_place(context, block->place);
    for (int i = 0; i < block->slice_count; i++)
        block->slices[i].attention.mask = zr_lm_mask(context, ZR_SITE_ATTENTION);
    return ZERO_OK;
}

static void list_products(const zr_block *block, bool training, zero_unit_sizes *out)
{
    for (int s = 0; s < block->slice_count; s++)
        for (int i = 0; i < block->linear_count; i++)
            zr_linear_products(&block->slices[s].linear[i], training, s > 0, out);
}

static void list_half_backward(const zr_block *block, enum zr_block_half half, zero_unit_sizes *out)
{
    const zr_division *division = &block->division;
    zr_list_gather(out, division, true, block->dtype); // the branch's gradient
    if (half == ZR_ATTENTION_HALF && block->shared.elements)
        zr_list_exchange(out, division->slices, &block->shared);
    zr_list_gather_in_weight(out, division, block->dtype); // the norm's output
    zr_list_reduce(out, division, true);
}

static void list_block_exchanges(const zr_block *block, zero_unit_sizes *out)
{
    const zr_division *division = &block->division;
    if (!zr_block_is_cut(block))
        return;
    for (int half = 0; half < ZR_BLOCK_HALVES; half++) {
        zr_list_gather(out, division, false, block->dtype);
        zr_list_reduce(out, division, false);
    }
    list_half_backward(block, ZR_MLP_HALF, out);
    list_half_backward(block, ZR_ATTENTION_HALF, out);
    zr_list_gains(out, division->slices, &block->gains);
    out->exchange_bytes = division->slices->ranks > 1 ? place_bytes(block) : 0;
}

// Streamed flat parameters come once in a backward, so a block with tiles does not split it.
static size_t held_bytes(const zero_unit *unit, const zero_shape *shape)
{
    layout l = {.training = true, .parts = ZR_BACKWARD_INPUT};
    zr_block block;
    lay_out_block(unit, shape, &l, &block);
    for (int i = 0; i < block.linear_count; i++)
        if (zr_linear_is_tiled(&block.slices[0].linear[i]))
            return 0;
    return l.held_bytes;
}

zero_status zr_block_sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                           zero_unit_sizes *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    layout l = {.training = true, .parts = ZR_BACKWARD_WHOLE};
    zr_block block;
    ZERO_TRY(zr_lm_shape_check(hyper, shape, NULL));
    *out = (zero_unit_sizes){.out = zr_lm_boundary(hyper, shape, false)};
    lay_out_block(unit, shape, &l, &block);
    out->saved_bytes = l.saved_bytes;
    out->workspace_bytes = l.workspace_bytes; // enough for each part of a split backward
    out->held_bytes = held_bytes(unit, shape);
    zr_norm_read_in_backward(&block.norm1, out);
    zr_norm_read_in_backward(&block.norm2, out);
    out->weight_reads = out->held_bytes ? out->backward_reads : 0; // it recomputes these norms
    list_products(&block, true, out);
    list_block_exchanges(&block, out);
    if (block.layers->read_in_backward)
        block.layers->read_in_backward(&block, out);
    return ZERO_OK;
}

// The workspace of the block is followed by that for the keys and values which attention packs from
// the cache.
size_t zr_block_decode_lay_out(const zero_unit *unit, const zr_decode_limits *limits,
                               void *workspace, zr_block *block)
{
    const zero_shape shape = {
        .batch = 1, .seq = limits->rows, .threads = limits->threads, .dtype = limits->dtype};
    layout l = {.whole = true, .parts = ZR_BACKWARD_WHOLE, .workspace = workspace};
    lay_out_block(unit, &shape, &l, block);
    zr_carver carver = {.base = workspace, .used = l.workspace_bytes};
    const zr_attention *attention = &block->slices[0].attention;
    block->decode_scratch =
        zr_carve(&carver, zr_scratch_decode(limits->threads, attention, limits->capacity));
    return carver.used;
}

void zr_block_decode_sizes(const zero_unit *unit, const zr_decode_limits *limits,
                           zero_unit_sizes *out)
{
    zr_block block;
    out->workspace_bytes = zr_block_decode_lay_out(unit, limits, NULL, &block);
    list_products(&block, false, out);
    out->exchange_bytes = block.division.slices->ranks > 1 ? place_bytes(&block) : 0;
}
