// The block as a unit: lays out what its two halves save and their scratch, and joins them to the
// residual stream. The outputs of norms are never saved, because backward recomputes them.
#include "layers/block.h"
#include "compute/element_ops.h"
#include <math.h>

zr_linear zr_block_linear(const zr_block *block, const zr_lm_unit *hyper, int64_t in, int64_t out,
                          int weight, int bias)
{
    return (zr_linear){
        .dtype = block->dtype,
        .outputs_first = block->layers->outputs_first,
        .rows = block->rows,
        .in = in,
        .out = out,
        .weight = &hyper->tensor[weight],
        .bias = &hyper->tensor[bias],
    };
}

static void layers_set(const zero_unit *unit, const zero_shape *shape, bool training,
                       zr_block *block)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    const zr_lm_shape *of = &hyper->shape;
    *block = (zr_block){
        .layers = zr_block_layers_of(unit),
        .dtype = shape->dtype,
        .stream = zr_stream_dtype(shape->dtype),
        .rows = shape->batch * shape->seq,
        .width = of->width,
        .inner = of->inner,
        .attention =
            {
                .dtype = shape->dtype,
                .batch = shape->batch,
                .seq = shape->seq,
                .heads = of->heads,
                .kv_heads = of->kv_heads,
                .head_dim = of->head_dim,
                .scale = (float)(1 / sqrt((double)of->head_dim)),
                .dropout = training ? of->attention_dropout : 0,
            },
    };
    block->layers->set(hyper, shape, training, block);
}

static size_t saved_set(zr_block *block, void *base)
{
    zr_carver carver = {.base = base};
    const zr_attention *attention = &block->attention;
    int64_t rows = block->rows;
    if (!block->norm1.rms) {
        block->mean1 = zr_carve_floats(&carver, rows);
        block->mean2 = zr_carve_floats(&carver, rows);
    }
    block->rstd1 = zr_carve_floats(&carver, rows);
    block->rstd2 = zr_carve_floats(&carver, rows);
    block->attended =
        zr_carve_as(&carver, block->dtype, rows * attention->heads * attention->head_dim);
    block->lse = zr_carve_floats(&carver, rows * attention->heads);
    block->middle = zr_carve_as(&carver, block->stream, rows * block->width);
    block->layers->save(block, &carver);
    return carver.used;
}

static size_t scratch_bytes(const zr_block *block, int threads)
{
    size_t most = ZR_MAX(block->scratch_bytes, zr_scratch_norm(threads, &block->norm1.norm));
    most = ZR_MAX(most, zr_scratch_attention(threads, &block->attention));
    for (int i = 0; i < block->linear_count; i++)
        most = ZR_MAX(most, zr_linear_scratch(&block->linear[i], threads));
    return most;
}

static size_t work_set(zr_block *block, int threads, void *base)
{
    zr_carver carver = {.base = base};
    block->scratch_bytes = scratch_bytes(block, threads);
    block->normed = zr_carve_as(&carver, block->dtype, block->rows * block->width);
    block->narrow = zr_carve_as(&carver, block->dtype, block->rows * block->width);
    block->scratch = zr_carve(&carver, block->scratch_bytes);
    return block->layers->work(block, carver);
}

// Sets sizes and buffers. Returns the bytes of workspace, and *saved_bytes; if the buffers are NULL
// it only counts.
static size_t lay_out(const zero_unit *unit, const zero_shape *shape, bool training, void *saved,
                      void *workspace, zr_block *block, size_t *saved_bytes)
{
    layers_set(unit, shape, training, block);
    *saved_bytes = saved_set(block, saved);
    return work_set(block, shape->threads, workspace);
}

// Gives buffers to what would be saved when nothing is saved: see zr_block.
static void alias_saved(zr_block *block, void *out)
{
    block->mean1 = block->rstd1 = block->mean2 = block->rstd2 = block->lse = NULL;
    block->middle = out;
    block->layers->alias(block);
}

zero_status zr_block_set(zero_context *context, zr_block *block)
{
    size_t saved_bytes;
    ZERO_TRY(zr_lm_threads_check(context));
    lay_out(context->unit, &context->shape, context->training, context->saved, context->workspace,
            block, &saved_bytes);
    block->context = context;
    block->attention.dropout_key = zr_context_key(context, ZR_SITE_ATTENTION);
    return ZERO_OK;
}

static void list_products(const zr_block *block, bool training, zero_unit_sizes *out)
{
    for (int i = 0; i < block->linear_count; i++)
        zr_linear_products(&block->linear[i], training, out);
}

static zero_status block_sizes(const zero_unit *unit, const zero_shape *shape,
                               const zero_tensors *in, zero_unit_sizes *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    zr_block block;
    ZERO_TRY(zr_lm_shape_check(hyper, shape, NULL));
    *out = (zero_unit_sizes){.out = zr_lm_boundary(hyper, shape)};
    out->workspace_bytes = lay_out(unit, shape, true, NULL, NULL, &block, &out->saved_bytes);
    list_products(&block, true, out);
    zr_norm_read_in_backward(&block.norm1, out);
    zr_norm_read_in_backward(&block.norm2, out);
    if (block.layers->read_in_backward)
        block.layers->read_in_backward(&block, out);
    return ZERO_OK;
}

void zr_block_attend(zr_block *block, const void *packed)
{
    zr_queue *queue = block->context->queue;
    const zr_attention_ops *ops = queue->backend->attention;
    if (!block->cache)
        ops->forward(queue, &block->attention, packed, block->attended, block->lse, block->scratch);
    else
        ops->decode(queue, &block->attention, block->cache, block->step->runs,
                    block->step->run_count, packed, block->attended, block->decode_scratch);
}

static zero_status run(zr_block *block, const void *x, void *y)
{
    zero_context *context = block->context;
    const zr_block_layers *layers = block->layers;
    const void *branch = NULL;
    zr_norm_forward(context, &block->norm1, x, block->normed, block->mean1, block->rstd1);
    ZERO_TRY(layers->attention_forward(block, &branch));
    zr_norm_residual_forward(context, &block->norm2, x, branch, block->middle, block->normed,
                             block->mean2, block->rstd2);
    ZERO_TRY(layers->mlp_forward(block, &branch));
    context->queue->backend->elements->add(context->queue, block->stream, block->dtype,
                                           block->rows * block->width, block->middle, branch, y);
    return ZERO_OK;
}

static zero_status block_forward(zero_context *context, const zero_tensors *in,
                                 const zero_tensors *out)
{
    zr_block block;
    ZERO_TRY(zr_block_set(context, &block));
    if (!context->training)
        alias_saved(&block, out->at[0].data);
    return run(&block, in->at[0].data, out->at[0].data);
}

static zero_status block_backward(zero_context *context, const zero_tensors *in,
                                  const zero_tensors *d_out, const zero_tensors *d_in)
{
    const void *x = in->at[0].data, *dy = NULL;
    void *d = d_out->at[0].data, *dx = d_in->at[0].data; // d becomes the gradient of `middle`
    zr_block block;
    ZERO_TRY(zr_block_set(context, &block));
    ZERO_TRY(block.layers->mlp_backward(&block, d, &dy));
    zr_norm_backward(context, &block.norm2, dy, block.middle, block.mean2, block.rstd2, d, d,
                     block.scratch);
    ZERO_TRY(block.layers->attention_backward(&block, x, d, &dy));
    zr_norm_backward(context, &block.norm1, dy, x, block.mean1, block.rstd1, d, dx, block.scratch);
    return ZERO_OK;
}

// Lays out the block for as many rows as a generation step has. After its workspace comes that of
// what attention packs from the cache.
static size_t decode_lay_out(const zero_unit *unit, const zr_decode_limits *limits, void *workspace,
                             zr_block *block)
{
    const zero_shape shape = {
        .batch = 1, .seq = limits->rows, .threads = limits->threads, .dtype = limits->dtype};
    size_t unsaved;
    zr_carver carver = {.base = workspace};
    carver.used = lay_out(unit, &shape, false, NULL, workspace, block, &unsaved);
    block->decode_scratch =
        zr_carve(&carver, zr_scratch_decode(limits->threads, &block->attention, limits->capacity));
    return carver.used;
}

void zr_block_decode_sizes(const zero_unit *unit, const zr_decode_limits *limits,
                           zero_unit_sizes *out)
{
    zr_block block;
    out->workspace_bytes = decode_lay_out(unit, limits, NULL, &block);
    list_products(&block, false, out);
}

// Returns the part of a cache that belongs to the unit's layer.
static zr_attention_cache cache_of_layer(const zr_decode_cache *cache, const zr_lm_unit *hyper)
{
    int64_t width = hyper->shape.kv_heads * hyper->shape.head_dim;
    int64_t first = hyper->layer * cache->sequences * width * cache->capacity;
    return (zr_attention_cache){
        .k = cache->k + first, .v = cache->v + first, .capacity = cache->capacity};
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
    const zr_attention_cache layer = cache_of_layer(cache, zr_lm_unit_at(context->unit));
    zr_block block;
    ZERO_TRY(zr_lm_threads_check(context));
    decode_lay_out(context->unit, &limits, context->workspace, &block);
    alias_saved(&block, out);
    block.context = context;
    block.step = step;
    block.cache = &layer;
    return run(&block, in, out);
}

const zero_unit_ops zr_lm_block_ops = {
    .kind = "block",
    .dtypes = ZR_LAYER_DTYPES,
    .sizes = block_sizes,
    .forward = block_forward,
    .backward = block_backward,
};
