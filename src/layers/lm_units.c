// Code that the units of all language models share: their boundary, and the checks of their inputs.
// Embedding, blocks and head have files of their own. The boundary between units is one tensor, the
// residual stream (batch, seq, width), or this rank's rows of it.
#include "layers/lm_units.h"

const zr_lm_unit *zr_lm_unit_at(const zero_unit *unit) { return unit->hyper; }

// The stream is fp32, because every block adds to it and its roundings would add up. In fp32 the
// gradient's error stays below that of autocast, which keeps the stream in fp32 too; in 16 bits the
// error would be half as large again.
zero_dtype zr_stream_dtype(zero_dtype dtype) { return ZERO_F32; }

zero_tensors zr_lm_boundary(const zr_lm_unit *of, const zero_shape *shape, bool whole)
{
    const zr_division stream = zr_division_of(of, shape->batch * shape->seq, whole);
    zero_tensors out = {.count = 1,
                        .at[0] = {.dtype = zr_stream_dtype(shape->dtype),
                                  .dims = 3,
                                  .shape = {shape->batch, shape->seq, of->shape.width}}};
    if (stream.by_rows)
        out.at[0] = (zero_tensor){.dtype = zr_stream_dtype(shape->dtype),
                                  .dims = 2,
                                  .shape = {stream.own, of->shape.width}};
    return out;
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

zr_mask zr_lm_mask(const zero_context *context, enum zr_lm_site site)
{
    return (zr_mask){
        .micro_batch = context->micro_batch, .unit = (uint64_t)context->unit_index, .site = site};
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

zero_status zr_lm_batch_rows(const zero_context *context, int index, zero_dtype dtype, void **out)
{
    static const char *const names[] = {"tokens", "targets", "positions", "roles", "reference"};
    const zero_tensors *batch = context->batch;
    if (!batch || batch->count <= index)
        return zr_fail(context->error, ZERO_ERR_USAGE,
                       "unit \"%s\": the micro-batch has no tensor %d (tokens, targets%s%s)",
                       context->unit->name, index, index > 1 ? ", positions" : "",
                       index > 2 ? ", roles, reference" : "");
    const zero_tensor *tensor = &batch->at[index];
    if (tensor->dtype != dtype || tensor->dims != 2 || tensor->shape[0] != context->shape.batch ||
        tensor->shape[1] != context->shape.seq || !tensor->data)
        return zr_fail(context->error, ZERO_ERR_USAGE,
                       "unit \"%s\": tensor %d of the micro-batch%s%s is not (%lld, %lld) %s",
                       context->unit->name, index, index > 2 ? ", " : "",
                       index > 2 && index < ZR_COUNT(names) ? names[index] : "",
                       (long long)context->shape.batch, (long long)context->shape.seq,
                       dtype == ZERO_I32 ? "int32" : "fp32");
    *out = tensor->data;
    return ZERO_OK;
}

zero_status zr_lm_ids(const zero_context *context, int index, bool holes, zr_batch_ids *out)
{
    const zr_lm_shape *shape = &zr_lm_unit_at(context->unit)->shape;
    const zero_tensors *device = context->device_batch;
    int64_t rows = context->shape.batch * context->shape.seq,
            vocab = index ? shape->outputs : shape->vocab;
    void *tensor;
    ZERO_TRY(zr_lm_batch_rows(context, index, ZERO_I32, &tensor));
    out->host = tensor;
    out->ids = device ? device->at[index].data : tensor;
    for (int64_t row = 0; row < rows; row++)
        if (out->host[row] >= vocab || (out->host[row] < 0 && !holes))
            return id_fail(context, index, row, out->host[row], vocab);
    return ZERO_OK;
}

zr_documents zr_documents_carve(zr_carver *carver, const zr_lm_unit *of, int64_t rows)
{
    zr_documents out = {0};
    if (!of->config.documents)
        return out;
    out.runs = zr_carve(carver, sizeof *out.runs * (size_t)rows);
    out.starts = zr_carve(carver, sizeof *out.starts * (size_t)rows);
    return out;
}

static zero_status position_fail(const zero_context *context, int64_t row, int32_t position)
{
    return zr_fail(
        context->error, ZERO_ERR_DATA,
        "unit \"%s\": position %d at sample %lld, token %lld: it must be 0, or follow the "
        "position before",
        context->unit->name, position, (long long)(row / context->shape.seq),
        (long long)(row % context->shape.seq));
}

zero_status zr_documents_read(const zero_context *context, int64_t first, int64_t count,
                              zr_documents *out)
{
    void *tensor;
    int64_t seq = context->shape.seq, rows = context->shape.batch * seq;
    if (!out->runs)
        return ZERO_OK;
    out->count = 0;
    ZERO_TRY(zr_lm_batch_rows(context, 2, ZERO_I32, &tensor));
    const int32_t *positions = tensor;
    for (int64_t i = 0; i < rows; i++) {
        int64_t in_window = i % seq;
        if (positions[i] && (!in_window || positions[i] != positions[i - 1] + 1))
            return position_fail(context, i, positions[i]);
        out->starts[i] = (int32_t)(in_window - positions[i]);
        if (i < first || i >= first + count)
            continue;
        if (i == first || !positions[i])
            out->runs[out->count++] = (zr_attention_run){.first = positions[i]};
        out->runs[out->count - 1].rows++;
    }
    return ZERO_OK;
}

const zr_tensor_handle *zr_lm_table(const zr_lm_unit *hyper) { return &hyper->tensor[ZR_LM_TABLE]; }

const int32_t *zr_lm_ids_of_tile(const zero_context *context, int tile, int64_t rows,
                                 const int32_t *ids, int32_t *local)
{
    const zr_tensor_handle *table = zr_lm_table(zr_lm_unit_at(context->unit));
    const zr_id_range range = {rows, tile * table->step, table->step};
    if (table->tiles <= 1)
        return ids;
    zr_run(context->queue, zr_op_local_ids(&range, ids, local));
    return local;
}

int64_t zr_lm_ids_of_slice(const zero_context *context, int slice, int64_t rows, const int32_t *ids,
                           int32_t *local)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    const zr_slice_tokens tokens = zr_tokens_of_slice(&hyper->slices, hyper->shape.vocab,
                                                      zr_slices_first(&hyper->slices) + slice);
    const zr_id_range range = {rows, tokens.first, tokens.count};
    zr_run(context->queue, zr_op_local_ids(&range, ids, local));
    return tokens.count;
}

int64_t zr_lm_tile_tokens(const zr_lm_unit *hyper, int tile)
{
    int64_t step = zr_lm_table(hyper)->step;
    if (zr_lm_table(hyper)->tiles <= 1)
        return step;
    return ZR_MIN(step, hyper->shape.vocab - tile * step);
}
