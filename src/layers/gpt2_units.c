// GPT-2's units as the engine sees them: the embedding, and the checks that all share. Blocks and head have files of their own.
// The boundary between units is one tensor, the residual stream (batch, seq, n_embd).
#include "layers/gpt2_units.h"

const zero_gpt2_config *zr_gpt2_config_at(const zero_unit *unit)
{
    return &((const zr_gpt2_unit *)unit->hyper)->config;
}

const zr_gpt2_unit *zr_gpt2_unit_at(const zero_unit *unit)
{
    return unit->hyper;
}

// Every block adds to the stream, so that roundings of it would add up: in fp32 the gradient's error stays below autocast's,
// which keeps it in fp32 too, in 16 bits it would be half as large again.
zero_dtype zr_stream_dtype(zero_dtype dtype)
{
    return ZERO_F32;
}

zero_tensors zr_gpt2_boundary(const zero_gpt2_config *config, const zero_shape *shape)
{
    return (zero_tensors){.count = 1,
                          .at[0] = {.dtype = zr_stream_dtype(shape->dtype),
                                    .dims = 3,
                                    .shape = {shape->batch, shape->seq, config->n_embd}}};
}

zero_status zr_gpt2_shape_check(const zero_gpt2_config *config, const zero_shape *shape, zero_error *error)
{
    if (shape->batch < 1 || shape->seq < 1)
        return zr_fail(error, ZERO_ERR_USAGE, "GPT-2: a micro-batch of %lld x %lld tokens is empty",
                       (long long)shape->batch, (long long)shape->seq);
    if (shape->seq > config->n_positions)
        return zr_fail(error, ZERO_ERR_USAGE, "GPT-2: %lld tokens a sequence, but the model has %lld positions",
                       (long long)shape->seq, (long long)config->n_positions);
    return ZERO_OK;
}

zero_status zr_gpt2_threads_check(const zero_context *context)
{
    int planned = ZR_MAX(context->shape.threads, 1);
    if (context->queue->threads <= planned)
        return ZERO_OK;
    return zr_fail(context->error, ZERO_ERR_INTERNAL,
                   "unit \"%s\": the workspace was sized for %d threads (zero_shape.threads), the queue has %d",
                   context->unit->name, planned, context->queue->threads);
}

static zero_status id_fail(const zero_context *context, int index, int64_t row, int64_t id, int64_t vocab)
{
    return zr_fail(context->error, ZERO_ERR_DATA,
                   "unit \"%s\": %s %lld at sample %lld, position %lld: ids must be 0 to %lld", context->unit->name,
                   index ? "target" : "token", (long long)id, (long long)(row / context->shape.seq),
                   (long long)(row % context->shape.seq), (long long)vocab - 1);
}

zero_status zr_gpt2_ids(const zero_context *context, int index, bool holes, const int32_t **out)
{
    const zero_tensors *batch = context->batch;
    int64_t rows = context->shape.batch * context->shape.seq, vocab = zr_gpt2_config_at(context->unit)->vocab_size;
    if (!batch || batch->count <= index)
        return zr_fail(context->error, ZERO_ERR_USAGE,
                       "unit \"%s\": the micro-batch has no tensor %d (tokens, targets)", context->unit->name, index);
    const zero_tensor *tensor = &batch->at[index];
    if (tensor->dtype != ZERO_I32 || tensor->dims != 2 || tensor->shape[0] != context->shape.batch
        || tensor->shape[1] != context->shape.seq || !tensor->data)
        return zr_fail(context->error, ZERO_ERR_USAGE,
                       "unit \"%s\": tensor %d of the micro-batch is not (%lld, %lld) int32", context->unit->name,
                       index, (long long)context->shape.batch, (long long)context->shape.seq);
    const int32_t *ids = tensor->data;
    for (int64_t row = 0; row < rows; row++)
        if (ids[row] >= vocab || (ids[row] < 0 && !holes))
            return id_fail(context, index, row, ids[row], vocab);
    *out = ids;
    return ZERO_OK;
}

static int32_t *local_ids(const zero_unit *unit, const zero_shape *shape, void *workspace, size_t *bytes)
{
    zr_carver carver = {.base = workspace};
    bool tiled = zr_gpt2_unit_at(unit)->wte.tiles > 1;
    int32_t *ids = zr_carve(&carver, tiled ? sizeof *ids * (size_t)(shape->batch * shape->seq) : 0);
    *bytes = carver.used;
    return ids;
}

const int32_t *zr_gpt2_ids_of_tile(const zr_gpt2_unit *hyper, int tile, int64_t rows, const int32_t *ids, int32_t *local)
{
    int64_t first = tile * hyper->wte.step, end = first + hyper->wte.step;
    if (hyper->wte.tiles <= 1)
        return ids;
    for (int64_t i = 0; i < rows; i++)
        local[i] = ids[i] >= first && ids[i] < end ? (int32_t)(ids[i] - first) : -1;
    return local;
}

zero_status zr_gpt2_tile_begin(zero_context *context, const zr_weight_place *place, int tile)
{
    return place->tiles > 1 ? zero_piece_begin(context, place->piece + tile) : ZERO_OK;
}

zero_status zr_gpt2_tile_end(zero_context *context, const zr_weight_place *place, int tile)
{
    return place->tiles > 1 ? zero_piece_end(context, place->piece + tile) : ZERO_OK;
}

int64_t zr_gpt2_tile_tokens(const zr_gpt2_unit *hyper, int tile)
{
    return ZR_MIN(hyper->wte.step, hyper->config.vocab_size - tile * hyper->wte.step);
}

static zero_status embedding_sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                                   zero_unit_sizes *out)
{
    const zero_gpt2_config *config = zr_gpt2_config_at(unit);
    ZERO_TRY(zr_gpt2_shape_check(config, shape, NULL));
    *out = (zero_unit_sizes){.out = zr_gpt2_boundary(config, shape)}; // backward reads ids only
    local_ids(unit, shape, NULL, &out->workspace_bytes);
    return ZERO_OK;
}

static zero_status embedding_forward(zero_context *context, const zero_tensors *in, const zero_tensors *out)
{
    const zr_gpt2_unit *hyper = zr_gpt2_unit_at(context->unit);
    const zero_gpt2_config *config = &hyper->config;
    zr_queue *queue = context->queue;
    const zr_element_ops *elements = queue->backend->elements;
    int64_t rows = context->shape.batch * context->shape.seq;
    const int32_t *ids = NULL;
    size_t unused;
    void *x = out->at[0].data;
    zero_dtype dtype = context->shape.dtype, stream = zr_stream_dtype(dtype);
    ZERO_TRY(zr_gpt2_shape_check(config, &context->shape, context->error));
    ZERO_TRY(zr_gpt2_ids(context, 0, false, &ids));
    int32_t *local = local_ids(context->unit, &context->shape, context->workspace, &unused);
    const void *wpe = zero_parameter(context, hyper->wpe_piece, 0);
    for (int t = 0; t < hyper->wte.tiles; t++) {
        ZERO_TRY(zr_gpt2_tile_begin(context, &hyper->wte, t));
        elements->embedding_forward(queue, dtype, stream, rows, context->shape.seq, config->n_embd, zr_gpt2_ids_of_tile(hyper, t, rows, ids, local),
                                    zero_parameter(context, hyper->wte.piece + t, 0), wpe, x);
        ZERO_TRY(zr_gpt2_tile_end(context, &hyper->wte, t));
    }
    if (context->training && config->embd_pdrop > 0)
        elements->dropout(queue, stream, stream, rows * config->n_embd, config->embd_pdrop,
                          zr_context_key(context, ZR_SITE_EMBEDDING), x, x);
    return ZERO_OK;
}

static zero_status embedding_backward(zero_context *context, const zero_tensors *in, const zero_tensors *d_out,
                                      const zero_tensors *d_in)
{
    const zr_gpt2_unit *hyper = zr_gpt2_unit_at(context->unit);
    const zero_gpt2_config *config = &hyper->config;
    zr_queue *queue = context->queue;
    const zr_element_ops *elements = queue->backend->elements;
    int64_t rows = context->shape.batch * context->shape.seq, seq = context->shape.seq, width = config->n_embd;
    const int32_t *ids = NULL;
    size_t unused;
    void *d = d_out->at[0].data;
    zero_dtype stream = zr_stream_dtype(context->shape.dtype);
    int add_wte = 0, add_wpe = 0;
    ZERO_TRY(zr_gpt2_ids(context, 0, false, &ids));
    int32_t *local = local_ids(context->unit, &context->shape, context->workspace, &unused);
    if (config->embd_pdrop > 0)
        elements->dropout(queue, stream, stream, rows * width, config->embd_pdrop,
                          zr_context_key(context, ZR_SITE_EMBEDDING), d, d);
    float *d_wpe = zero_gradient(context, hyper->wpe_piece, 0, &add_wpe);
    for (int t = hyper->wte.tiles - 1; t >= 0; t--) {
        bool first = t == hyper->wte.tiles - 1; // d_wpe: once
        ZERO_TRY(zr_gpt2_tile_begin(context, &hyper->wte, t));
        float *d_wte = zero_gradient(context, hyper->wte.piece + t, 0, &add_wte);
        elements->embedding_backward(queue, stream, rows, seq, width, zr_gpt2_ids_of_tile(hyper, t, rows, ids, local), d, zr_gpt2_tile_tokens(hyper, t),
                                     d_wte, add_wte, config->n_positions, first ? d_wpe : NULL, add_wpe);
        ZERO_TRY(zr_gpt2_tile_end(context, &hyper->wte, t));
    }
    return ZERO_OK;
}

const zero_unit_ops zr_gpt2_embedding_ops = {
    .kind = "embedding",
    .dtypes = ZR_LAYER_DTYPES,
    .sizes = embedding_sizes,
    .forward = embedding_forward,
    .backward = embedding_backward,
};

const zr_gpt2_ops zr_gpt2_unit_ops = {
    .embedding = &zr_gpt2_embedding_ops,
    .block = &zr_gpt2_block_ops,
    .head = &zr_gpt2_head_ops,
};
