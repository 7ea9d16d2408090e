// Generation: one token of one sequence through one unit, with a cache of keys and values.
// The same layers as the forward pass, at one row; only attention differs. Called by whoever acquires the units in turn.
#include "layers/gpt2_units.h"

size_t zr_gpt2_decode_cache_bytes(const zero_gpt2_config *config, int64_t capacity)
{
    return sizeof(float) * (size_t)(config->n_layer * config->n_embd * capacity);
}

static size_t head_work(const zero_gpt2_config *config, zero_dtype dtype, void *workspace, void **normed)
{
    zr_carver carver = {.base = workspace};
    *normed = zr_carve_as(&carver, dtype, config->n_embd);
    return carver.used;
}

// Sampling looks at logits in fp32, whatever the model computes in.
static zr_product logits_product(const zero_gpt2_config *config, zero_dtype dtype, int64_t tokens)
{
    zr_product product = zr_head_product(config, dtype, 1, tokens);
    product.out = ZERO_F32;
    return product;
}

zero_status zr_gpt2_decode_sizes(const zero_unit *unit, zero_dtype dtype, int threads, zero_unit_sizes *out)
{
    const zero_gpt2_config *config = zr_gpt2_config_at(unit);
    const zero_shape shape = {.batch = 1, .seq = 1, .threads = threads, .dtype = dtype};
    *out = (zero_unit_sizes){.out = zr_gpt2_boundary(config, &shape)};
    if (unit->ops == &zr_gpt2_block_ops) {
        size_t unsaved;
        zr_block block;
        out->workspace_bytes = zr_block_lay_out(unit, &shape, false, NULL, NULL, &block, &unsaved);
        zr_linear_products(&block.qkv, false, out);
        zr_linear_products(&block.attention_proj, false, out);
        zr_linear_products(&block.fc, false, out);
        zr_linear_products(&block.mlp_proj, false, out);
    } else if (unit->ops == &zr_gpt2_head_ops) {
        void *normed;
        const zr_gpt2_unit *hyper = zr_gpt2_unit_at(unit);
        const zr_product logits = logits_product(config, dtype, zr_gpt2_tile_tokens(hyper, 0));
        const zr_product last = logits_product(config, dtype, zr_gpt2_tile_tokens(hyper, hyper->wte.tiles - 1));
        out->workspace_bytes = head_work(config, dtype, NULL, &normed);
        zr_product_append(out, &logits, hyper->wte.tiles);
        if (last.n != logits.n)
            zr_product_append(out, &last, 1);
    }
    return ZERO_OK;
}

static zero_status decode_embedding(zero_context *context, const zr_decode_cache *cache, int32_t token, void *out)
{
    const zero_gpt2_config *config = zr_gpt2_config_at(context->unit);
    zr_queue *queue = context->queue;
    zero_dtype dtype = context->shape.dtype;
    if (cache->length >= ZR_MIN(cache->capacity, config->n_positions))
        return zr_fail(context->error, ZERO_ERR_USAGE,
                       "generating token %lld: the model has %lld positions, the cache %lld", (long long)cache->length,
                       (long long)config->n_positions, (long long)cache->capacity);
    if (token < 0 || token >= config->vocab_size)
        return zr_fail(context->error, ZERO_ERR_DATA, "generating: token %d is outside the vocabulary of %lld", token,
                       (long long)config->vocab_size);
    const zr_gpt2_unit *hyper = zr_gpt2_unit_at(context->unit);
    const char *wpe = zero_parameter(context, hyper->wpe_piece, 0);
    int64_t position = cache->length * config->n_embd * (int64_t)zero_dtype_bytes(dtype);
    for (int t = 0; t < hyper->wte.tiles; t++) {
        int32_t local;
        ZERO_TRY(zr_gpt2_tile_begin(context, &hyper->wte, t));
        queue->backend->elements->embedding_forward(queue, dtype, zr_stream_dtype(dtype), 1, 1, config->n_embd, zr_gpt2_ids_of_tile(hyper, t, 1, &token, &local),
                                                    zero_parameter(context, hyper->wte.piece + t, 0), wpe + position, out);
        ZERO_TRY(zr_gpt2_tile_end(context, &hyper->wte, t));
    }
    return ZERO_OK;
}

static zero_status decode_block(zero_context *context, zr_decode_cache *cache, const void *in, void *out)
{
    const zero_shape shape = {.batch = 1, .seq = 1, .threads = context->shape.threads, .dtype = context->shape.dtype};
    const zr_gpt2_unit *hyper = context->unit->hyper;
    size_t unsaved;
    zr_block block;
    ZERO_TRY(zr_gpt2_threads_check(context));
    zr_block_lay_out(context->unit, &shape, false, NULL, context->workspace, &block, &unsaved);
    zr_block_alias(&block, out);
    block.context = context;
    const zr_block_work *work = &block.work;

    zr_layer_norm_forward(context, &block.ln1, in, work->normed, NULL, NULL);
    ZERO_TRY(zr_attention_layer_decode(&block, cache, hyper->layer));
    zr_layer_norm_residual_forward(context, &block.ln2, in, work->wide, out, work->normed, NULL, NULL);
    ZERO_TRY(zr_mlp_forward(&block));
    context->queue->backend->elements->add(context->queue, block.stream, block.dtype, block.width, out, work->narrow, out);
    return ZERO_OK;
}

// The order in which pieces come is the same whether they are needed or not.
static zero_status skip_tiles(zero_context *context, const zr_gpt2_unit *hyper)
{
    for (int t = 0; t < hyper->wte.tiles; t++) {
        ZERO_TRY(zr_gpt2_tile_begin(context, &hyper->wte, t));
        ZERO_TRY(zr_gpt2_tile_end(context, &hyper->wte, t));
    }
    return ZERO_OK;
}

static zero_status decode_head(zero_context *context, zr_decode_cache *cache, const void *in, float *logits)
{
    const zr_gpt2_unit *hyper = zr_gpt2_unit_at(context->unit);
    const zero_gpt2_config *config = &hyper->config;
    zr_queue *queue = context->queue;
    void *normed;
    zero_dtype dtype = context->shape.dtype;
    cache->length++;
    if (!logits)
        return skip_tiles(context, hyper);
    head_work(config, dtype, context->workspace, &normed);
    const zr_layer_norm norm = zr_head_norm(config, dtype, 1);
    zr_layer_norm_forward(context, &norm, in, normed, NULL, NULL);
    for (int t = 0; t < hyper->wte.tiles; t++) {
        const zr_product product = logits_product(config, dtype, zr_gpt2_tile_tokens(hyper, t));
        ZERO_TRY(zr_gpt2_tile_begin(context, &hyper->wte, t));
        ZERO_TRY(queue->backend->product->run(queue, &product, normed, zero_parameter(context, hyper->wte.piece + t, 0), NULL, logits + t * hyper->wte.step,
                                              context->error));
        ZERO_TRY(zr_gpt2_tile_end(context, &hyper->wte, t));
    }
    return ZERO_OK;
}

zero_status zr_gpt2_decode(zero_context *context, zr_decode_cache *cache, int32_t token, const void *in, void *out)
{
    if (context->unit->ops == &zr_gpt2_embedding_ops)
        return decode_embedding(context, cache, token, out);
    if (context->unit->ops == &zr_gpt2_head_ops)
        return decode_head(context, cache, in, out);
    return decode_block(context, cache, in, out);
}
