// What the units of all language models share: the embedding, and the checks of what arrives.
// Blocks and head have files of their own.
// The boundary between units is one tensor, the residual stream (batch, seq, width).
#include "layers/lm_units.h"
#include "compute/element_ops.h"

const zr_lm_unit *zr_lm_unit_at(const zero_unit *unit) { return unit->hyper; }

// The stream is fp32, because every block adds to it and its roundings would add up. In fp32 the
// gradient's error stays below that of autocast, which keeps the stream in fp32 too; in 16 bits it
// would be half as large again.
zero_dtype zr_stream_dtype(zero_dtype dtype) { return ZERO_F32; }

zero_tensors zr_lm_boundary(const zr_lm_unit *of, const zero_shape *shape)
{
    return (zero_tensors){.count = 1,
                          .at[0] = {.dtype = zr_stream_dtype(shape->dtype),
                                    .dims = 3,
                                    .shape = {shape->batch, shape->seq, of->shape.width}}};
}

zero_status zr_lm_shape_check(const zr_lm_unit *of, const zero_shape *shape, zero_error *error)
{
    if (shape->batch < 1 || shape->seq < 1)
        return zr_fail(error, ZERO_ERR_USAGE, "%s: a micro-batch of %lld x %lld tokens is empty",
                       of->shape.title, (long long)shape->batch, (long long)shape->seq);
    if (shape->seq > of->shape.positions)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s: %lld tokens a sequence, but the model has %lld positions",
                       of->shape.title, (long long)shape->seq, (long long)of->shape.positions);
    return ZERO_OK;
}

zero_status zr_lm_threads_check(const zero_context *context)
{
    int planned = ZR_MAX(context->shape.threads, 1);
    if (context->queue->threads <= planned)
        return ZERO_OK;
    return zr_fail(context->error, ZERO_ERR_INTERNAL,
                   "unit \"%s\": the workspace was sized for %d threads (zero_shape.threads), the "
                   "queue has %d",
                   context->unit->name, planned, context->queue->threads);
}

static zero_status id_fail(const zero_context *context, int index, int64_t row, int64_t id,
                           int64_t vocab)
{
    return zr_fail(context->error, ZERO_ERR_DATA,
                   "unit \"%s\": %s %lld at sample %lld, position %lld: ids must be 0 to %lld",
                   context->unit->name, index ? "target" : "token", (long long)id,
                   (long long)(row / context->shape.seq), (long long)(row % context->shape.seq),
                   (long long)vocab - 1);
}

zero_status zr_lm_ids(const zero_context *context, int index, bool holes, const int32_t **out)
{
    const zero_tensors *batch = context->batch;
    int64_t rows = context->shape.batch * context->shape.seq,
            vocab = zr_lm_unit_at(context->unit)->shape.vocab;
    if (!batch || batch->count <= index)
        return zr_fail(context->error, ZERO_ERR_USAGE,
                       "unit \"%s\": the micro-batch has no tensor %d (tokens, targets)",
                       context->unit->name, index);
    const zero_tensor *tensor = &batch->at[index];
    if (tensor->dtype != ZERO_I32 || tensor->dims != 2 ||
        tensor->shape[0] != context->shape.batch || tensor->shape[1] != context->shape.seq ||
        !tensor->data)
        return zr_fail(context->error, ZERO_ERR_USAGE,
                       "unit \"%s\": tensor %d of the micro-batch is not (%lld, %lld) int32",
                       context->unit->name, index, (long long)context->shape.batch,
                       (long long)context->shape.seq);
    const int32_t *ids = tensor->data;
    for (int64_t row = 0; row < rows; row++)
        if (ids[row] >= vocab || (ids[row] < 0 && !holes))
            return id_fail(context, index, row, ids[row], vocab);
    *out = ids;
    return ZERO_OK;
}

const zr_tensor_handle *zr_lm_table(const zr_lm_unit *hyper) { return &hyper->tensor[ZR_LM_TABLE]; }

static int32_t *local_ids(const zero_unit *unit, const zero_shape *shape, void *workspace,
                          size_t *bytes)
{
    zr_carver carver = {.base = workspace};
    bool tiled = zr_lm_table(zr_lm_unit_at(unit))->tiles > 1;
    int32_t *ids = zr_carve(&carver, tiled ? sizeof *ids * (size_t)(shape->batch * shape->seq) : 0);
    *bytes = carver.used;
    return ids;
}

const int32_t *zr_lm_ids_of_tile(const zr_lm_unit *hyper, int tile, int64_t rows,
                                 const int32_t *ids, int32_t *local)
{
    const zr_tensor_handle *table = zr_lm_table(hyper);
    int64_t first = tile * table->step, end = first + table->step;
    if (table->tiles <= 1)
        return ids;
    for (int64_t i = 0; i < rows; i++)
        local[i] = ids[i] >= first && ids[i] < end ? (int32_t)(ids[i] - first) : -1;
    return local;
}

int64_t zr_lm_tile_tokens(const zr_lm_unit *hyper, int tile)
{
    int64_t step = zr_lm_table(hyper)->step;
    return ZR_MIN(step, hyper->shape.vocab - tile * step);
}

static zero_status embedding_sizes(const zero_unit *unit, const zero_shape *shape,
                                   const zero_tensors *in, zero_unit_sizes *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    ZERO_TRY(zr_lm_shape_check(hyper, shape, NULL));
    *out = (zero_unit_sizes){.out = zr_lm_boundary(hyper, shape)}; // backward reads only ids
    local_ids(unit, shape, NULL, &out->workspace_bytes);
    return ZERO_OK;
}

static zero_status embedding_forward(zero_context *context, const zero_tensors *in,
                                     const zero_tensors *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    const zr_tensor_handle *table = zr_lm_table(hyper);
    zr_queue *queue = context->queue;
    const zr_element_ops *elements = queue->backend->elements;
    int64_t rows = context->shape.batch * context->shape.seq, width = hyper->shape.width;
    float dropout = hyper->shape.embedding_dropout;
    const int32_t *ids = NULL;
    size_t unused;
    void *x = out->at[0].data;
    zero_dtype dtype = context->shape.dtype, stream = zr_stream_dtype(dtype);
    ZERO_TRY(zr_lm_shape_check(hyper, &context->shape, context->error));
    ZERO_TRY(zr_lm_ids(context, 0, false, &ids));
    int32_t *local = local_ids(context->unit, &context->shape, context->workspace, &unused);
    const void *positions = zr_tensor_values(context, &hyper->tensor[ZR_LM_POSITIONS], 0);
    for (int t = 0; t < table->tiles; t++) {
        ZERO_TRY(zr_tensor_begin(context, table, t));
        elements->embedding_forward(queue, dtype, stream, rows, context->shape.seq, width,
                                    zr_lm_ids_of_tile(hyper, t, rows, ids, local),
                                    zr_tensor_values(context, table, t), positions, x);
        ZERO_TRY(zr_tensor_end(context, table, t));
    }
    if (context->training && dropout > 0)
        elements->dropout(queue, stream, stream, rows * width, dropout,
                          zr_context_key(context, ZR_SITE_EMBEDDING), 0, x, x);
    return ZERO_OK;
}

// d: the gradient of what the tables gave. d_positions: passed with the first tile, otherwise NULL.
static void tile_backward(zero_context *context, int tile, const int32_t *ids, const void *d,
                          float *d_positions, int add_positions)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    int add = 0;
    float *d_table = zr_tensor_gradient(context, zr_lm_table(hyper), tile, &add);
    if (!d_table && !d_positions)
        return;
    int64_t rows = context->shape.batch * context->shape.seq;
    zr_queue *queue = context->queue;
    queue->backend->elements->embedding_backward(
        queue, zr_stream_dtype(context->shape.dtype), rows, context->shape.seq, hyper->shape.width,
        ids, d, zr_lm_tile_tokens(hyper, tile), d_table, add, hyper->shape.positions, d_positions,
        add_positions);
}

static zero_status embedding_backward(zero_context *context, const zero_tensors *in,
                                      const zero_tensors *d_out, const zero_tensors *d_in)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    const zr_tensor_handle *table = zr_lm_table(hyper);
    zr_queue *queue = context->queue;
    int64_t rows = context->shape.batch * context->shape.seq;
    float dropout = hyper->shape.embedding_dropout;
    const int32_t *ids = NULL;
    size_t unused;
    void *d = d_out->at[0].data;
    zero_dtype stream = zr_stream_dtype(context->shape.dtype);
    int add = 0;
    ZERO_TRY(zr_lm_ids(context, 0, false, &ids));
    int32_t *local = local_ids(context->unit, &context->shape, context->workspace, &unused);
    if (dropout > 0)
        queue->backend->elements->dropout(queue, stream, stream, rows * hyper->shape.width, dropout,
                                          zr_context_key(context, ZR_SITE_EMBEDDING), 0, d, d);
    float *d_positions = zr_tensor_gradient(context, &hyper->tensor[ZR_LM_POSITIONS], 0, &add);
    for (int t = table->tiles - 1; t >= 0; t--) {
        bool first = t == table->tiles - 1;
        ZERO_TRY(zr_tensor_begin(context, table, t));
        tile_backward(context, t, zr_lm_ids_of_tile(hyper, t, rows, ids, local), d,
                      first ? d_positions : NULL, add);
        ZERO_TRY(zr_tensor_end(context, table, t));
    }
    return ZERO_OK;
}

const zero_unit_ops zr_lm_embedding_ops = {
    .kind = "embedding",
    .dtypes = ZR_LAYER_DTYPES,
    .sizes = embedding_sizes,
    .forward = embedding_forward,
    .backward = embedding_backward,
};
