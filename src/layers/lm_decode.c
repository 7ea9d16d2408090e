// Generation: one token of one sequence through one unit, with a cache of keys and values.
// The same layers as the forward pass, at one row; only attention differs. Called by whoever acquires the units in turn.
#include "layers/lm_units.h"

size_t zr_lm_decode_cache_bytes(const zr_lm_config *config, int64_t capacity)
{
    zr_lm_shape shape = zr_lm_shape_of(config);
    return sizeof(float) * (size_t)(shape.layers * shape.kv_heads * shape.head_dim * capacity);
}

static size_t head_work(const zr_lm_unit *hyper, zero_dtype dtype, void *workspace, void **normed)
{
    zr_carver carver = {.base = workspace};
    *normed = zr_carve_as(&carver, dtype, hyper->shape.width);
    return carver.used;
}

// Sampling looks at logits in fp32, whatever the model computes in.
static zr_product logits_product(const zr_lm_unit *hyper, zero_dtype dtype, int64_t tokens)
{
    zr_product product = zr_head_product(hyper, dtype, 1, tokens);
    product.out = ZERO_F32;
    return product;
}

static void head_sizes(const zr_lm_unit *hyper, zero_dtype dtype, zero_unit_sizes *out)
{
    void *normed;
    const zr_product logits = logits_product(hyper, dtype, zr_lm_tile_tokens(hyper, 0));
    const zr_product last = logits_product(hyper, dtype, zr_lm_tile_tokens(hyper, hyper->table.tiles - 1));
    out->workspace_bytes = head_work(hyper, dtype, NULL, &normed);
    zr_product_append(out, &logits, hyper->table.tiles);
    if (last.n != logits.n)
        zr_product_append(out, &last, 1);
}

zero_status zr_lm_decode_sizes(const zero_unit *unit, zero_dtype dtype, int threads, zero_unit_sizes *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    const zero_shape shape = {.batch = 1, .seq = 1, .threads = threads, .dtype = dtype};
    *out = (zero_unit_sizes){.out = zr_lm_boundary(hyper, &shape)};
    if (hyper->layer >= 0)
        zr_block_layers_of(unit)->decode_sizes(unit, &shape, out);
    else if (zr_lm_is_head(unit))
        head_sizes(hyper, dtype, out);
    return ZERO_OK;
}

static zero_status decode_embedding(zero_context *context, const zr_decode_cache *cache, int32_t token, void *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    const zr_lm_shape *shape = &hyper->shape;
    zr_queue *queue = context->queue;
    zero_dtype dtype = context->shape.dtype;
    if (cache->length >= ZR_MIN(cache->capacity, shape->positions))
        return zr_fail(context->error, ZERO_ERR_USAGE,
                       "generating token %lld: the model has %lld positions, the cache %lld", (long long)cache->length,
                       (long long)shape->positions, (long long)cache->capacity);
    if (token < 0 || token >= shape->vocab)
        return zr_fail(context->error, ZERO_ERR_DATA, "generating: token %d is outside the vocabulary of %lld", token,
                       (long long)shape->vocab);
    const char *positions = hyper->positions_piece < 0 ? NULL : zero_parameter(context, hyper->positions_piece, 0);
    int64_t position = cache->length * shape->width * (int64_t)zero_dtype_bytes(dtype);
    for (int t = 0; t < hyper->table.tiles; t++) {
        int32_t local;
        ZERO_TRY(zr_lm_tile_begin(context, &hyper->table, t));
        queue->backend->elements->embedding_forward(queue, dtype, zr_stream_dtype(dtype), 1, 1, shape->width, zr_lm_ids_of_tile(hyper, t, 1, &token, &local),
                                                    zero_parameter(context, hyper->table.piece + t, 0), positions ? positions + position : NULL, out);
        ZERO_TRY(zr_lm_tile_end(context, &hyper->table, t));
    }
    return ZERO_OK;
}

// The order in which pieces come is the same whether they are needed or not.
static zero_status skip_tiles(zero_context *context, const zr_lm_unit *hyper)
{
    for (int t = 0; t < hyper->table.tiles; t++) {
        ZERO_TRY(zr_lm_tile_begin(context, &hyper->table, t));
        ZERO_TRY(zr_lm_tile_end(context, &hyper->table, t));
    }
    return ZERO_OK;
}

static zero_status decode_head(zero_context *context, zr_decode_cache *cache, const void *in, float *logits)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    zr_queue *queue = context->queue;
    void *normed;
    zero_dtype dtype = context->shape.dtype;
    cache->length++;
    if (!logits)
        return skip_tiles(context, hyper);
    head_work(hyper, dtype, context->workspace, &normed);
    const zr_norm_layer norm = zr_head_norm(hyper, dtype, 1);
    zr_norm_forward(context, &norm, in, normed, NULL, NULL);
    for (int t = 0; t < hyper->table.tiles; t++) {
        const zr_product product = logits_product(hyper, dtype, zr_lm_tile_tokens(hyper, t));
        ZERO_TRY(zr_lm_tile_begin(context, &hyper->table, t));
        ZERO_TRY(queue->backend->product->run(queue, &product, normed, zero_parameter(context, hyper->table.piece + t, 0), NULL, logits + t * hyper->table.step,
                                              context->error));
        ZERO_TRY(zr_lm_tile_end(context, &hyper->table, t));
    }
    return ZERO_OK;
}

zero_status zr_lm_decode(zero_context *context, zr_decode_cache *cache, int32_t token, const void *in, void *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    if (hyper->layer >= 0)
        return zr_block_layers_of(context->unit)->decode(context, cache, in, out);
    if (zr_lm_is_head(context->unit))
        return decode_head(context, cache, in, out);
    return decode_embedding(context, cache, token, out);
}
