// The block as a unit: lays out what its two halves keep and scratch, and joins them to the residual stream.
// Saved a row: ln_1 and ln_2 statistics, qkv, attention's output and log-sum-exp, the stream between the halves, and the
// MLP's pre-activation. Recomputed in backward: both norms' outputs, gelu's output, attention's probabilities, dropout masks.
#include "base/dtype.h"
#include "layers/gpt2_block.h"
#include "layers/lm_units.h"
#include <math.h>

static zr_linear linear_of(const zr_lm_unit *hyper, zero_dtype dtype, int64_t rows, int64_t in,
                           int64_t out, enum zr_gpt2_block_tensor weight,
                           enum zr_gpt2_block_tensor bias)
{
    return (zr_linear){.dtype = dtype,
                       .rows = rows,
                       .in = in,
                       .out = out,
                       .weight = &hyper->tensor[weight],
                       .bias = &hyper->tensor[bias]};
}

static void layers_set(const zr_lm_unit *hyper, const zero_shape *shape, bool training, zr_block *block)
{
    const zero_gpt2_config *config = &hyper->config.gpt2;
    int64_t rows = shape->batch * shape->seq, width = config->n_embd, inner = zr_gpt2_inner(config);
    int64_t head_dim = width / config->n_head;
    zero_dtype dtype = shape->dtype;
    *block = (zr_block){
        .dtype = dtype,
        .stream = zr_stream_dtype(dtype),
        .rows = rows,
        .width = width,
        .inner = inner,
        .dropout = training ? config->resid_pdrop : 0,
        .ln1 = zr_lm_norm(hyper, dtype, rows, &hyper->tensor[ZR_LN1_W], &hyper->tensor[ZR_LN1_B]),
        .qkv = linear_of(hyper, dtype, rows, width, 3 * width, ZR_ATTN_W, ZR_ATTN_B),
        .attention_proj = linear_of(hyper, dtype, rows, width, width, ZR_ATTN_PROJ_W,
                                    ZR_ATTN_PROJ_B),
        .ln2 = zr_lm_norm(hyper, dtype, rows, &hyper->tensor[ZR_LN2_W], &hyper->tensor[ZR_LN2_B]),
        .fc = linear_of(hyper, dtype, rows, width, inner, ZR_FC_W, ZR_FC_B),
        .mlp_proj = linear_of(hyper, dtype, rows, inner, width, ZR_MLP_PROJ_W, ZR_MLP_PROJ_B),
        .attention = {
            .dtype = dtype,
            .batch = shape->batch,
            .seq = shape->seq,
            .heads = config->n_head,
            .kv_heads = config->n_head,
            .head_dim = head_dim,
            .scale = (float)(1 / sqrt((double)head_dim)),
            .dropout = training ? config->attn_pdrop : 0,
        },
    };
    block->mlp_proj.gelu = true;
}

static size_t saved_set(const zr_block *block, void *base, zr_block_saved *saved)
{
    zr_carver carver = {.base = base};
    int64_t rows = block->rows;
    saved->ln1_mean = zr_carve_floats(&carver, rows);
    saved->ln1_rstd = zr_carve_floats(&carver, rows);
    saved->qkv = zr_carve_as(&carver, block->dtype, rows * 3 * block->width);
    saved->attended = zr_carve_as(&carver, block->dtype, rows * block->width);
    saved->lse = zr_carve_floats(&carver, rows * block->attention.heads);
    saved->middle = zr_carve_as(&carver, block->stream, rows * block->width);
    saved->ln2_mean = zr_carve_floats(&carver, rows);
    saved->ln2_rstd = zr_carve_floats(&carver, rows);
    saved->fc = zr_carve_as(&carver, block->dtype, rows * block->inner);
    return carver.used;
}

static size_t scratch_bytes(const zr_block *block, int threads)
{
    const zr_linear *const linears[] = {&block->qkv, &block->attention_proj, &block->fc, &block->mlp_proj};
    size_t most = zr_scratch_norm(threads, &block->ln1.norm);
    most = ZR_MAX(most, zr_scratch_attention(threads, &block->attention));
    for (int i = 0; i < ZR_COUNT(linears); i++)
        most = ZR_MAX(most, zr_linear_scratch(linears[i], threads));
    return most;
}

static size_t work_set(const zr_block *block, int threads, void *base, zr_block_work *work)
{
    zr_carver carver = {.base = base};
    work->wide = zr_carve_as(&carver, block->dtype, block->rows * ZR_MAX(block->inner, 3 * block->width));
    work->normed = zr_carve_as(&carver, block->dtype, block->rows * block->width);
    work->narrow = zr_carve_as(&carver, block->dtype, block->rows * block->width);
    work->scratch = zr_carve(&carver, scratch_bytes(block, threads));
    return carver.used;
}

size_t zr_block_lay_out(const zero_unit *unit, const zero_shape *shape, bool training, void *saved, void *workspace, zr_block *block, size_t *saved_bytes)
{
    layers_set(zr_lm_unit_at(unit), shape, training, block);
    *saved_bytes = saved_set(block, saved, &block->saved);
    return work_set(block, shape->threads, workspace, &block->work);
}

// In evaluation and decoding nothing is saved: what has to be held for a moment lies in the workspace and in `out`.
static void alias_saved(zr_block *block, void *out)
{
    block->saved = (zr_block_saved){
        .qkv = block->work.wide, .attended = block->work.narrow, .middle = out, .fc = block->work.wide};
}

static zero_status block_set(zero_context *context, zr_block *block)
{
    size_t saved_bytes;
    ZERO_TRY(zr_lm_threads_check(context));
    zr_block_lay_out(context->unit, &context->shape, context->training, context->saved, context->workspace, block, &saved_bytes);
    block->context = context;
    block->attention.dropout_key = zr_context_key(context, ZR_SITE_ATTENTION);
    block->attention_key = zr_context_key(context, ZR_SITE_ATTENTION_RESIDUAL);
    block->mlp_key = zr_context_key(context, ZR_SITE_MLP_RESIDUAL);
    return ZERO_OK;
}

static void list_products(const zr_block *block, bool training, zero_unit_sizes *out)
{
    zr_linear_products(&block->qkv, training, out);
    zr_linear_products(&block->attention_proj, training, out);
    zr_linear_products(&block->fc, training, out);
    zr_linear_products(&block->mlp_proj, training, out);
}

static zero_status block_sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                               zero_unit_sizes *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    zr_block block;
    ZERO_TRY(zr_lm_shape_check(hyper, shape, NULL));
    *out = (zero_unit_sizes){.out = zr_lm_boundary(hyper, shape)};
    out->workspace_bytes = zr_block_lay_out(unit, shape, true, NULL, NULL, &block, &out->saved_bytes);
    zr_norm_read_in_backward(&block.ln1, out);
    zr_norm_read_in_backward(&block.ln2, out);
    list_products(&block, true, out);
    return ZERO_OK;
}

static zero_status block_forward(zero_context *context, const zero_tensors *in, const zero_tensors *out)
{
    const void *x = in->at[0].data;
    void *y = out->at[0].data;
    zr_block block;
    ZERO_TRY(block_set(context, &block));
    if (!context->training)
        alias_saved(&block, y);
    const zr_block_saved *saved = &block.saved;
    const zr_block_work *work = &block.work;

    zr_norm_forward(context, &block.ln1, x, work->normed, saved->ln1_mean, saved->ln1_rstd);
    ZERO_TRY(zr_attention_layer_forward(&block));
    zr_norm_residual_forward(context, &block.ln2, x, work->wide, saved->middle, work->normed, saved->ln2_mean,
                                   saved->ln2_rstd);
    ZERO_TRY(zr_mlp_forward(&block));
    context->queue->backend->elements->add(context->queue, block.stream, block.dtype, block.rows * block.width,
                                           saved->middle, work->narrow, y);
    return ZERO_OK;
}

static zero_status block_backward(zero_context *context, const zero_tensors *in, const zero_tensors *d_out,
                                  const zero_tensors *d_in)
{
    const void *x = in->at[0].data;
    void *d = d_out->at[0].data, *dx = d_in->at[0].data; // d becomes the gradient of `middle`
    zr_block block;
    ZERO_TRY(block_set(context, &block));
    const zr_block_saved *saved = &block.saved;
    const zr_block_work *work = &block.work;

    ZERO_TRY(zr_mlp_backward(&block, d));
    zr_norm_backward(context, &block.ln2, work->narrow, saved->middle, saved->ln2_mean, saved->ln2_rstd, d, d,
                           work->scratch);
    ZERO_TRY(zr_attention_layer_backward(&block, x, d));
    zr_norm_backward(context, &block.ln1, work->narrow, x, saved->ln1_mean, saved->ln1_rstd, d, dx, work->scratch);
    return ZERO_OK;
}

// The block at as many rows as a step has; behind its workspace lies what attention packs of the cache.
static size_t decode_lay_out(const zero_unit *unit, const zr_decode_limits *limits, void *workspace, zr_block *block, void **scratch)
{
    const zero_shape shape = {.batch = 1, .seq = limits->rows, .threads = limits->threads, .dtype = limits->dtype};
    size_t unsaved;
    zr_carver carver = {.base = workspace};
    carver.used = zr_block_lay_out(unit, &shape, false, NULL, workspace, block, &unsaved);
    *scratch = zr_carve(&carver, zr_scratch_decode(limits->threads, &block->attention, limits->capacity));
    return carver.used;
}

static void decode_sizes(const zero_unit *unit, const zr_decode_limits *limits, zero_unit_sizes *out)
{
    void *scratch;
    zr_block block;
    out->workspace_bytes = decode_lay_out(unit, limits, NULL, &block, &scratch);
    list_products(&block, false, out);
}

static zero_status decode(zero_context *context, const zr_decode_cache *cache, const zr_decode_step *step, const void *in, void *out)
{
    const zr_decode_limits limits = {.dtype = context->shape.dtype, .threads = context->shape.threads, .rows = step->rows, .capacity = cache->capacity};
    void *scratch;
    zr_block block;
    ZERO_TRY(zr_lm_threads_check(context));
    decode_lay_out(context->unit, &limits, context->workspace, &block, &scratch);
    alias_saved(&block, out);
    block.context = context;
    const zr_block_work *work = &block.work;
    const zr_attention_cache layer = zr_decode_layer(cache, zr_lm_unit_at(context->unit)->layer, block.width);

    zr_norm_forward(context, &block.ln1, in, work->normed, NULL, NULL);
    ZERO_TRY(zr_attention_layer_decode(&block, &layer, step, scratch));
    zr_norm_residual_forward(context, &block.ln2, in, work->wide, out, work->normed, NULL, NULL);
    ZERO_TRY(zr_mlp_forward(&block));
    context->queue->backend->elements->add(context->queue, block.stream, block.dtype, block.rows * block.width, out, work->narrow, out);
    return ZERO_OK;
}

static const zero_unit_ops block_ops = {
    .kind = "block",
    .dtypes = ZR_LAYER_DTYPES,
    .sizes = block_sizes,
    .forward = block_forward,
    .backward = block_backward,
};

const zr_block_layers zr_gpt2_block_layers = {
    .ops = &block_ops,
    .decode_sizes = decode_sizes,
    .decode = decode,
};
