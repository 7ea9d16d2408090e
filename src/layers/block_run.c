// Runs a block: joins its two halves to the residual stream, forward, backward and in steps of
// generation.
#include "layers/block.h"

#include "compute/compute.h"

void zr_block_attend(zr_block *block, zr_block_slice *slice, const void *packed)
{
    zr_queue *queue = block->context->queue;
    if (!block->caches) {
        zr_run(queue, zr_op_attention_forward(&slice->attention, packed, slice->attended,
                                              slice->lse, block->context->values, block->scratch));
        return;
    }
    const zr_attention_cache *cache = &block->caches[slice->number];
    zr_attention decoded = slice->attention;
    decoded.sequences = cache->sequences;
    decoded.capacity = cache->capacity;
    decoded.run_count = block->step->run_count;
    zr_run(queue, zr_op_attention_decode(&decoded, block->step->runs, cache->k, cache->v, packed,
                                         slice->attended, block->decode_scratch));
}

// Returns the address to which a norm writes this rank's rows: among those of all ranks, if rows
// are divided.
static void *own_normed(const zr_block *block)
{
    return block->division.by_rows ? zr_division_own(&block->division, block->dtype, block->place)
                                   : block->normed;
}

// Gathers the rows of a norm's output from all ranks, if rows are divided.
static zero_status gather_normed(zr_block *block)
{
    block->input = block->division.by_rows ? block->place : block->normed;
    return zr_division_gather(block->context, &block->division, block->dtype);
}

// The same for backward, where the rows must outlive the next exchange.
static zero_status gather_into(zr_block *block, void *rows)
{
    zr_queue *queue = block->context->queue;
    int64_t bytes = block->rows * block->width * (int64_t)zero_dtype_bytes(block->dtype);
    ZERO_TRY(zr_division_gather(block->context, &block->division, block->dtype));
    if (block->division.by_rows)
        zr_run(queue, zr_op_copy(&(zr_bytes){bytes}, block->place, rows));
    return ZERO_OK;
}

// Returns the element of the whole stream at which this rank's rows begin.
static int64_t first_stream_element(const zr_block *block)
{
    return block->division.first * block->width;
}

static void apply_dropout(zr_block *block, enum zr_lm_site site, void *branch)
{
    zr_queue *queue = block->context->queue;
    float p = block->dropout;
    if (p > 0)
        zr_run(queue, zr_op_dropout(&(zr_dropout){.from = block->dtype,
                                                  .to = block->dtype,
                                                  .n = block->division.own * block->width,
                                                  .p = p,
                                                  .mask = zr_lm_mask(block->context, site),
                                                  .first = first_stream_element(block)},
                                    block->context->values, branch, branch));
}

typedef struct joining { // of a half's slices in forward
    zr_block *block;
    int out;
    const void *inner[ZR_MOST_LOCAL_SLICES];
} joining;

static zero_status join_slice(void *user, int slice, float *out)
{
    const joining *j = user;
    return zr_linear_forward_sum(j->block->context, &j->block->slices[slice].linear[j->out],
                                 j->inner[slice], out);
}

// Sums the products of all slices' last linears, adds the bias and rounds once.
static zero_status sum_branch_slices(joining *j, const zr_tensor_handle *bias, void *branch)
{
    zr_block *block = j->block;
    zero_context *context = block->context;
    zr_queue *queue = context->queue;
    const zr_division *division = &block->division;
    float *sum;
    ZERO_TRY(zr_slices_add(context, division->slices, block->rows * block->width, join_slice, j,
                           block->place, block->spare));
    ZERO_TRY(zr_division_reduce(context, division, block->place, &sum));
    zr_run(queue,
           zr_op_add_bias(
               &(zr_matrix){.dtype = block->dtype, .rows = division->own, .width = block->width},
               sum, zr_tensor_values(context, bias, 0), branch));
    return ZERO_OK;
}

zero_status zr_block_half_forward(zr_block *block, enum zr_block_half which)
{
    const zr_half_layers *half = &block->layers->halves[which];
    void *branch = block->branch[which];
    joining joining = {.block = block, .out = half->out};
    ZERO_TRY(gather_normed(block));
    for (int i = 0; i < block->slice_count; i++)
        ZERO_TRY(half->forward(block, &block->slices[i], &joining.inner[i]));
    if (zr_block_is_cut(block))
        ZERO_TRY(sum_branch_slices(&joining, block->out_bias[which], branch));
    else
        ZERO_TRY(zr_linear_forward(block->context, &block->slices[0].linear[half->out],
                                   joining.inner[0], branch, block->scratch));
    apply_dropout(block, half->site, branch);
    return ZERO_OK;
}

static zero_status run_forward(zr_block *block, const void *x, void *y)
{
    zero_context *context = block->context;
    zr_norm_forward(context, &block->norm1, x, own_normed(block), block->statistics1);
    ZERO_TRY(zr_block_half_forward(block, ZR_ATTENTION_HALF));
    zr_norm_residual_forward(context, &block->norm2, x, block->branch[ZR_ATTENTION_HALF],
                             block->middle, own_normed(block), block->statistics2);
    ZERO_TRY(zr_block_half_forward(block, ZR_MLP_HALF));
    zr_run(context->queue, zr_op_add(&(zr_sum){.stream = block->stream,
                                               .dtype = block->dtype,
                                               .n = block->division.own * block->width},
                                     block->middle, block->branch[ZR_MLP_HALF], y));
    return ZERO_OK;
}

static zero_status block_forward(zero_context *context, const zero_tensors *in,
                                 const zero_tensors *out)
{
    zr_block block;
    ZERO_TRY(zr_block_set(context, ZR_BACKWARD_WHOLE, &block));
    if (!context->training)
        zr_block_alias(&block, out->at[0].data);
    return run_forward(&block, in->at[0].data, out->at[0].data);
}

// Returns the gradient of a branch before its dropout, of type T, given that of the stream: d
// itself, or d converted and with the mask applied. It is held for the weight part of a split
// backward, because d is overwritten by then.
static zero_status dropout_backward(zr_block *block, enum zr_block_half which, const void *d,
                                    const void **out)
{
    zr_queue *queue = block->context->queue;
    const zr_division *division = &block->division;
    int64_t count = division->own * block->width;
    float p = block->dropout;
    void *branch = block->d_branch[which];
    bool held = branch != block->narrow;
    void *into = division->by_rows ? zr_division_own(division, block->dtype, block->place) : branch;
    *out = branch;
    if (!(block->parts & ZR_BACKWARD_INPUT))
        return ZERO_OK;
    if (!(p > 0) && block->stream == block->dtype && !division->by_rows && !held) {
        *out = d;
        return ZERO_OK;
    }
    if (!(p > 0) && block->stream != block->dtype)
        zr_run(queue, zr_op_convert(
                          &(zr_conversion){.from = block->stream, .to = block->dtype, .n = count},
                          d, into));
    else
        zr_run(queue,
               zr_op_dropout(&(zr_dropout){.from = block->stream,
                                           .to = block->dtype,
                                           .n = count,
                                           .p = p,
                                           .mask = zr_lm_mask(block->context,
                                                              block->layers->halves[which].site),
                                           .first = first_stream_element(block)},
                             block->context->values, d, into));
    return gather_into(block, branch);
}

static zero_status half_inner_backward(zr_block *block, enum zr_block_half which, const void *d)
{
    const zr_half_layers *half = &block->layers->halves[which];
    const void *d_branch;
    ZERO_TRY(dropout_backward(block, which, d, &d_branch));
    const zr_linear out = zr_block_out(block, which);
    bool weight = block->parts & ZR_BACKWARD_WEIGHT;
    if (weight && zr_block_is_cut(block) && zr_tensor_exists(out.bias))
        zr_linear_backward_bias(block->context, &out, d_branch, block->scratch);
    for (int i = 0; i < block->slice_count; i++) {
        block->slices[i].input_count = 0;
        ZERO_TRY(half->backward(block, &block->slices[i], d_branch));
    }
    return half->finish ? half->finish(block) : ZERO_OK;
}

// Sums the gradient of the norm's output over the linears of a slice. dx is unused in the weight
// part of a split backward.
static zero_status input_backward(zr_block *block, const zr_block_slice *slice, float *dx)
{
    bool adds = false;
    for (int i = 0; i < slice->input_count; i++) {
        const zr_block_input *input = &slice->inputs[i];
        ZERO_TRY(zr_linear_backward_sum(block->context, input->linear, block->parts & input->parts,
                                        block->normed, input->gradient, dx, adds, block->scratch));
        adds = adds || input->parts & ZR_BACKWARD_INPUT;
    }
    return ZERO_OK;
}

static zero_status input_slice(void *block, int slice, float *out)
{
    return input_backward(block, &((zr_block *)block)->slices[slice], out);
}

// Returns (own, C) fp32 as type T: `wide` itself, or converted into block->narrow.
static const void *narrow_gradient(const zr_block *block, const float *wide)
{
    zr_queue *queue = block->context->queue;
    if (block->dtype == ZERO_F32)
        return wide;
    zr_run(queue, zr_op_convert(&(zr_conversion){.from = ZERO_F32,
                                                 .to = block->dtype,
                                                 .n = block->division.own * block->width},
                                wide, block->narrow));
    return block->narrow;
}

static zero_status cut_input_backward(zr_block *block, const void **dy)
{
    float *sum;
    if (!(block->parts & ZR_BACKWARD_INPUT)) {
        for (int i = 0; i < block->slice_count; i++)
            ZERO_TRY(input_backward(block, &block->slices[i], NULL));
        return ZERO_OK;
    }
    ZERO_TRY(zr_slices_add(block->context, block->division.slices, block->rows * block->width,
                           input_slice, block, block->place, block->spare));
    ZERO_TRY(zr_division_reduce(block->context, &block->division, block->place, &sum));
    *dy = narrow_gradient(block, sum);
    return ZERO_OK;
}

// Computes the gradient (own, C) T of the norm's output, and those of the weights that read it. A
// single product rounds it itself.
static zero_status half_input_backward(zr_block *block, const void **dy)
{
    const zr_block_slice *slice = &block->slices[0];
    if (zr_block_is_cut(block))
        return cut_input_backward(block, dy);
    if (slice->input_count > 1) {
        ZERO_TRY(input_backward(block, slice, block->sum));
        if (block->parts & ZR_BACKWARD_INPUT)
            *dy = narrow_gradient(block, block->sum);
        return ZERO_OK;
    }
    *dy = block->narrow;
    return zr_linear_backward(block->context, slice->inputs[0].linear, block->parts, block->normed,
                              slice->inputs[0].gradient, block->narrow, block->scratch);
}

zero_status zr_block_half_gradients(zr_block *block, enum zr_block_half which,
                                    const zr_block_norm *norm, const void *d, const void **dy)
{
    ZERO_TRY(half_inner_backward(block, which, d));
    if (block->parts & ZR_BACKWARD_WEIGHT) { // inputs of the products of weights
        zr_norm_forward(block->context, norm->layer, norm->x, own_normed(block),
                        (zr_norm_statistics){0});
        ZERO_TRY(gather_into(block, block->normed));
    }
    return half_input_backward(block, dy);
}

// d (own, C) S: the gradient of the stream after the branch has joined it; dx becomes that of the
// stream before.
static zero_status half_backward(zr_block *block, enum zr_block_half which,
                                 const zr_block_norm *norm, const void *d, void *dx)
{
    const void *dy = NULL;
    ZERO_TRY(zr_block_half_gradients(block, which, norm, d, &dy));
    if (!(block->parts & ZR_BACKWARD_INPUT))
        return ZERO_OK;
    const zr_norm_gradient gradient = {
        .dy = dy, .x = norm->x, .statistics = norm->statistics, .past = d, .dx = dx};
    zr_norm_backward_sliced(block->context, norm->layer, &block->division, &gradient, &block->gains,
                            block->partials, block->scratch);
    return ZERO_OK;
}

// Computes parts of backward. d: the gradient of the output, which becomes that of `middle`; d and
// dx are NULL if only the weight part is computed.
static zero_status run_backward(zero_context *context, unsigned parts, const void *x, void *d,
                                void *dx)
{
    zr_block block;
    ZERO_TRY(zr_block_set(context, parts, &block));
    const zr_block_norm norm1 = {&block.norm1, x, block.statistics1},
                        norm2 = {&block.norm2, block.middle, block.statistics2};
    ZERO_TRY(half_backward(&block, ZR_MLP_HALF, &norm2, d, d));
    ZERO_TRY(half_backward(&block, ZR_ATTENTION_HALF, &norm1, d, dx));
    if (!(parts & ZR_BACKWARD_WEIGHT))
        return ZERO_OK;
    return zr_gains_finish(context, block.division.slices, &block.gains, block.place);
}

static zero_status block_backward(zero_context *context, const zero_tensors *in,
                                  const zero_tensors *d_out, const zero_tensors *d_in)
{
    return run_backward(context, ZR_BACKWARD_WHOLE, in->at[0].data, d_out->at[0].data,
                        d_in->at[0].data);
}

static zero_status block_backward_input(zero_context *context, const zero_tensors *in,
                                        const zero_tensors *d_out, const zero_tensors *d_in)
{
    return run_backward(context, ZR_BACKWARD_INPUT, in->at[0].data, d_out->at[0].data,
                        d_in->at[0].data);
}

static zero_status block_backward_weight(zero_context *context, const zero_tensors *in)
{
    return run_backward(context, ZR_BACKWARD_WEIGHT, in->at[0].data, NULL, NULL);
}

// Fills in the parts of a cache that belong to the slices of the unit's layer.
static void caches_of_layer(const zr_decode_cache *cache, const zr_lm_unit *hyper,
                            const zr_block *block, zr_attention_cache *out)
{
    const zr_attention *attention = &block->slices[0].attention;
    int64_t width = attention->kv_heads * attention->head_dim,
            each = cache->sequences * width * cache->capacity;
    for (int i = 0; i < block->slice_count; i++) {
        int64_t first = (hyper->layer * block->slice_count + i) * each;
        out[i] = (zr_attention_cache){.k = cache->k + first,
                                      .v = cache->v + first,
                                      .sequences = cache->sequences,
                                      .capacity = cache->capacity};
    }
}

zero_status zr_block_decode(zero_context *context, const zr_decode_cache *cache,
                            const zr_decode_step *step, const void *in, void *out)
{
    const zr_decode_limits limits = {
        .dtype = context->shape.dtype,
        .threads = context->shape.threads,
        .rows = step->rows,
        .capacity = cache->capacity,
    };
    zr_attention_cache caches[ZR_MOST_LOCAL_SLICES];
    zr_block block;
    ZERO_TRY(zr_lm_threads_check(context));
    zr_block_decode_lay_out(context->unit, &limits, context->workspace, &block);
    caches_of_layer(cache, zr_lm_unit_at(context->unit), &block, caches);
    zr_block_alias(&block, out);
    block.context = context;
    block.place = zr_exchange_place(context, block.place);
    block.step = step;
    block.caches = caches;
    return run_forward(&block, in, out);
}

const zero_unit_ops zr_lm_block_ops = {
    .kind = "block",
    .dtypes = ZR_LAYER_DTYPES,
    .sizes = zr_block_sizes,
    .forward = block_forward,
    .backward = block_backward,
    .backward_input = block_backward_input,
    .backward_weight = block_backward_weight,
};
