// The block as a unit: lays out what its two halves keep and scratch, and joins them to the residual stream.
#include "layers/llama_block.h"
#include "base/dtype.h"
#include "layers/lm_units.h"
#include <math.h>

// Tensors of the unit: by number of the design.
static zr_linear linear_of(const zr_lm_unit *hyper, const zr_llama_block *block, int64_t in,
                           int64_t out, enum zr_llama_block_tensor weight,
                           enum zr_llama_block_tensor bias)
{
    return (zr_linear){.dtype = block->dtype,
                       .outputs_first = true,
                       .rows = block->rows,
                       .in = in,
                       .out = out,
                       .weight = &hyper->tensor[weight],
                       .bias = &hyper->tensor[bias]};
}

// Over each head of `heads` in a row of activations.
static zr_norm norm_of_heads(const zr_lm_unit *hyper, const zr_llama_block *block, int64_t heads)
{
    return (zr_norm){.dtype = ZERO_F32, .stream = block->dtype, .rows = block->rows * heads, .width = hyper->shape.head_dim, .epsilon = hyper->shape.norm_epsilon};
}

static void layers_set(const zr_lm_unit *hyper, const zero_shape *shape, bool training, zr_llama_block *b)
{
    const zero_llama_config *config = &hyper->config.llama;
    const zr_lm_shape *of = &hyper->shape;
    int64_t queries = of->heads * of->head_dim, keys = of->kv_heads * of->head_dim;
    *b = (zr_llama_block){.config = config, .dtype = shape->dtype, .stream = zr_stream_dtype(shape->dtype), .rows = shape->batch * shape->seq,
                          .width = of->width, .inner = config->intermediate_size};
    b->norm1 = zr_lm_norm(hyper, b->dtype, b->rows, &hyper->tensor[ZR_LLAMA_NORM1], NULL);
    b->q = linear_of(hyper, b, b->width, queries, ZR_LLAMA_Q_W, ZR_LLAMA_Q_B);
    b->k = linear_of(hyper, b, b->width, keys, ZR_LLAMA_K_W, ZR_LLAMA_K_B);
    b->v = linear_of(hyper, b, b->width, keys, ZR_LLAMA_V_W, ZR_LLAMA_V_B);
    b->norm_q = norm_of_heads(hyper, b, of->heads);
    b->norm_k = norm_of_heads(hyper, b, of->kv_heads);
    b->gain_q = &hyper->tensor[ZR_LLAMA_Q_NORM];
    b->gain_k = &hyper->tensor[ZR_LLAMA_K_NORM];
    b->attention = (zr_attention){
        .dtype = b->dtype,
        .batch = shape->batch,
        .seq = shape->seq,
        .heads = of->heads,
        .kv_heads = of->kv_heads,
        .head_dim = of->head_dim,
        .scale = (float)(1 / sqrt((double)of->head_dim)),
        .dropout = training ? config->attention_dropout : 0,
    };
    b->o = linear_of(hyper, b, queries, b->width, ZR_LLAMA_O_W, ZR_LLAMA_O_B);
    b->norm2 = zr_lm_norm(hyper, b->dtype, b->rows, &hyper->tensor[ZR_LLAMA_NORM2], NULL);
    b->gate = linear_of(hyper, b, b->width, b->inner, ZR_LLAMA_GATE_W, ZR_LLAMA_GATE_B);
    b->up = linear_of(hyper, b, b->width, b->inner, ZR_LLAMA_UP_W, ZR_LLAMA_UP_B);
    b->down = linear_of(hyper, b, b->inner, b->width, ZR_LLAMA_DOWN_W, ZR_LLAMA_DOWN_B);
}

static size_t saved_set(const zr_llama_block *block, void *base, zr_llama_saved *saved)
{
    zr_carver carver = {.base = base};
    int64_t rows = block->rows;
    saved->rstd1 = zr_carve_floats(&carver, rows);
    saved->q = zr_carve_as(&carver, block->dtype, rows * block->q.out);
    saved->k = zr_carve_as(&carver, block->dtype, rows * block->k.out);
    saved->v = zr_carve_as(&carver, block->dtype, rows * block->v.out);
    saved->attended = zr_carve_as(&carver, block->dtype, rows * block->q.out);
    saved->lse = zr_carve_floats(&carver, rows * block->attention.heads);
    saved->middle = zr_carve_as(&carver, block->stream, rows * block->width);
    saved->rstd2 = zr_carve_floats(&carver, rows);
    saved->gate = zr_carve_as(&carver, block->dtype, rows * block->inner);
    saved->up = zr_carve_as(&carver, block->dtype, rows * block->inner);
    return carver.used;
}

static size_t scratch_bytes(const zr_llama_block *block, int threads)
{
    const zr_linear *const linears[] = {&block->q, &block->k, &block->v, &block->o, &block->gate, &block->up, &block->down};
    const zr_norm *const norms[] = {&block->norm1.norm, &block->norm_q, &block->norm_k};
    size_t most = zr_scratch_attention(threads, &block->attention);
    for (int i = 0; i < ZR_COUNT(norms); i++)
        most = ZR_MAX(most, zr_scratch_norm(threads, norms[i]));
    for (int i = 0; i < ZR_COUNT(linears); i++)
        most = ZR_MAX(most, zr_linear_scratch(linears[i], threads));
    return most;
}

static size_t attention_work_set(const zr_llama_block *block, zr_carver carver, zr_llama_work *work)
{
    const zr_attention *attention = &block->attention;
    int64_t rows = block->rows, row = zr_attention_row(attention);
    work->packed = zr_carve_as(&carver, block->dtype, rows * row);
    work->d_packed = zr_carve(&carver, zero_dtype_bytes(block->dtype) * (size_t)(rows * row) + 2 * 64); // or q, k and v, each aligned
    work->q = zr_carve_as(&carver, block->dtype, rows * block->q.out);
    work->k = zr_carve_as(&carver, block->dtype, rows * block->k.out);
    work->v = zr_carve_as(&carver, block->dtype, rows * block->v.out);
    if (block->config->qk_norm) {
        work->heads_q = zr_carve_floats(&carver, rows * block->q.out);
        work->heads_k = zr_carve_floats(&carver, rows * block->k.out);
        work->rstd_q = zr_carve_floats(&carver, rows * attention->heads);
        work->rstd_k = zr_carve_floats(&carver, rows * attention->kv_heads);
        work->gain = zr_carve_floats(&carver, attention->head_dim);
    }
    return carver.used;
}

static size_t mlp_work_set(const zr_llama_block *block, zr_carver carver, zr_llama_work *work)
{
    work->inner = zr_carve_as(&carver, block->dtype, block->rows * block->inner);
    work->d_inner = zr_carve_as(&carver, block->dtype, block->rows * block->inner);
    return carver.used;
}

static size_t work_set(const zr_llama_block *block, int threads, void *base, zr_llama_work *work)
{
    zr_carver carver = {.base = base};
    work->normed = zr_carve_as(&carver, block->dtype, block->rows * block->width);
    work->narrow = zr_carve_as(&carver, block->dtype, block->rows * block->width);
    work->sum = zr_carve_floats(&carver, block->rows * block->width);
    work->frequency = zr_carve_floats(&carver, block->attention.head_dim / 2);
    work->table = zr_carve_floats(&carver, block->attention.seq * block->attention.head_dim);
    work->scratch = zr_carve(&carver, scratch_bytes(block, threads));
    size_t first = attention_work_set(block, carver, work), second = mlp_work_set(block, carver, work);
    return ZR_MAX(first, second);
}

// Returns the bytes of workspace (and *saved_bytes). Buffers NULL: only counts.
static size_t lay_out(const zero_unit *unit, const zero_shape *shape, bool training, void *saved, void *workspace, zr_llama_block *block, size_t *saved_bytes)
{
    layers_set(zr_lm_unit_at(unit), shape, training, block);
    *saved_bytes = saved_set(block, saved, &block->saved);
    return work_set(block, shape->threads, workspace, &block->work);
}

// In evaluation and decoding nothing is saved: q, k and v lie where backward has the gradient of what is packed, attention's output where it
// has theirs, and the gate is overwritten by its product.
static void alias_saved(zr_llama_block *block, void *out)
{
    const zr_llama_work *work = &block->work;
    zr_carver carver = {.base = work->d_packed};
    block->saved = (zr_llama_saved){.attended = work->q, .middle = out, .gate = work->inner, .up = work->d_inner};
    block->saved.q = zr_carve_as(&carver, block->dtype, block->rows * block->q.out);
    block->saved.k = zr_carve_as(&carver, block->dtype, block->rows * block->k.out);
    block->saved.v = zr_carve_as(&carver, block->dtype, block->rows * block->v.out);
}

const void *zr_llama_narrow(const zr_llama_block *block, const float *wide)
{
    zr_queue *queue = block->context->queue;
    if (block->dtype == ZERO_F32)
        return wide;
    queue->backend->elements->convert(queue, ZERO_F32, block->dtype, block->rows * block->width, wide, block->work.narrow);
    return block->work.narrow;
}

static void list_products(const zr_llama_block *block, bool training, zero_unit_sizes *out)
{
    const zr_linear *const linears[] = {&block->q, &block->k, &block->v, &block->o, &block->gate, &block->up, &block->down};
    for (int i = 0; i < ZR_COUNT(linears); i++)
        zr_linear_products(linears[i], training, out);
}

// Beside the weights of products.
static void read_in_backward(const zr_llama_block *block, zero_unit_sizes *sizes)
{
    zr_norm_read_in_backward(&block->norm1, sizes);
    zr_norm_read_in_backward(&block->norm2, sizes);
    if (block->config->qk_norm) {
        zr_tensor_read_in_backward(block->gain_q, sizes);
        zr_tensor_read_in_backward(block->gain_k, sizes);
    }
}

static zero_status block_sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in, zero_unit_sizes *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    zr_llama_block block;
    ZERO_TRY(zr_lm_shape_check(hyper, shape, NULL));
    *out = (zero_unit_sizes){.out = zr_lm_boundary(hyper, shape)};
    out->workspace_bytes = lay_out(unit, shape, true, NULL, NULL, &block, &out->saved_bytes);
    read_in_backward(&block, out);
    list_products(&block, true, out);
    return ZERO_OK;
}

static zero_status block_set(zero_context *context, zr_llama_block *block)
{
    size_t saved_bytes;
    ZERO_TRY(zr_lm_threads_check(context));
    lay_out(context->unit, &context->shape, context->training, context->saved, context->workspace, block, &saved_bytes);
    block->context = context;
    return ZERO_OK;
}

static zero_status block_forward(zero_context *context, const zero_tensors *in, const zero_tensors *out)
{
    const void *x = in->at[0].data;
    void *y = out->at[0].data;
    zr_llama_block block;
    ZERO_TRY(block_set(context, &block));
    if (!context->training)
        alias_saved(&block, y);
    block.attention.dropout_key = zr_context_key(context, ZR_SITE_ATTENTION);
    const zr_llama_saved *saved = &block.saved;
    const zr_llama_work *work = &block.work;

    zr_norm_forward(context, &block.norm1, x, work->normed, NULL, saved->rstd1);
    ZERO_TRY(zr_llama_attention_forward(&block));
    zr_norm_residual_forward(context, &block.norm2, x, work->narrow, saved->middle, work->normed, NULL, saved->rstd2);
    ZERO_TRY(zr_llama_mlp_forward(&block));
    context->queue->backend->elements->add(context->queue, block.stream, block.dtype, block.rows * block.width, saved->middle, work->narrow, y);
    return ZERO_OK;
}

static zero_status block_backward(zero_context *context, const zero_tensors *in, const zero_tensors *d_out, const zero_tensors *d_in)
{
    const void *x = in->at[0].data, *dy;
    void *d = d_out->at[0].data, *dx = d_in->at[0].data; // d becomes the gradient of `middle`
    zr_llama_block block;
    ZERO_TRY(block_set(context, &block));
    block.attention.dropout_key = zr_context_key(context, ZR_SITE_ATTENTION);
    const zr_llama_saved *saved = &block.saved;
    void *scratch = block.work.scratch;

    ZERO_TRY(zr_llama_mlp_backward(&block, d, &dy));
    zr_norm_backward(context, &block.norm2, dy, saved->middle, NULL, saved->rstd2, d, d, scratch);
    ZERO_TRY(zr_llama_attention_backward(&block, x, d, &dy));
    zr_norm_backward(context, &block.norm1, dy, x, NULL, saved->rstd1, d, dx, scratch);
    return ZERO_OK;
}

// The block at as many rows as a step has; behind its workspace lies what attention packs of the cache.
static size_t decode_lay_out(const zero_unit *unit, const zr_decode_limits *limits, void *workspace, zr_llama_block *block, void **scratch)
{
    const zero_shape shape = {.batch = 1, .seq = limits->rows, .threads = limits->threads, .dtype = limits->dtype};
    size_t unsaved;
    zr_carver carver = {.base = workspace};
    carver.used = lay_out(unit, &shape, false, NULL, workspace, block, &unsaved);
    *scratch = zr_carve(&carver, zr_scratch_decode(limits->threads, &block->attention, limits->capacity));
    return carver.used;
}

static void decode_sizes(const zero_unit *unit, const zr_decode_limits *limits, zero_unit_sizes *out)
{
    void *scratch;
    zr_llama_block block;
    out->workspace_bytes = decode_lay_out(unit, limits, NULL, &block, &scratch);
    list_products(&block, false, out);
}

static zero_status decode(zero_context *context, const zr_decode_cache *cache, const zr_decode_step *step, const void *in, void *out)
{
    const zr_decode_limits limits = {.dtype = context->shape.dtype, .threads = context->shape.threads, .rows = step->rows, .capacity = cache->capacity};
    void *scratch;
    zr_llama_block block;
    ZERO_TRY(zr_lm_threads_check(context));
    decode_lay_out(context->unit, &limits, context->workspace, &block, &scratch);
    alias_saved(&block, out);
    block.context = context;
    block.step = step;
    const zr_llama_work *work = &block.work;
    const zr_attention_cache layer = zr_decode_layer(cache, zr_lm_unit_at(context->unit)->layer, block.k.out);

    zr_norm_forward(context, &block.norm1, in, work->normed, NULL, NULL);
    ZERO_TRY(zr_llama_attention_decode(&block, &layer, scratch));
    zr_norm_residual_forward(context, &block.norm2, in, work->narrow, out, work->normed, NULL, NULL);
    ZERO_TRY(zr_llama_mlp_forward(&block));
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

const zr_block_layers zr_llama_block_layers = {
    .ops = &block_ops,
    .decode_sizes = decode_sizes,
    .decode = decode,
};
