// Cuts buffers, and computes the scratch bytes that suffice for every backend of this processor.
#include "layers/layout.h"

void *zr_carve(zr_carver *carver, size_t bytes)
{
    void *at = carver->base ? carver->base + carver->used : NULL;
    carver->used += ZR_ROUND_UP(bytes, (size_t)64);
    return at;
}

float *zr_carve_floats(zr_carver *carver, int64_t elements)
{
    return zr_carve(carver, sizeof(float) * (size_t)elements);
}

void *zr_carve_as(zr_carver *carver, zero_dtype dtype, int64_t elements)
{
    return zr_carve(carver, zero_dtype_bytes(dtype) * (size_t)elements);
}

void zr_columns_copy(zr_queue *queue, int64_t rows, int64_t bytes, const void *from,
                     int64_t from_row, void *to, int64_t to_row)
{
    const zr_strided columns = {rows, bytes, from_row, to_row};
    zr_run(queue, zr_op_copy_rows(&columns, from, to));
}

// Returns the scratch that an operation of this kind and shape needs: on a device's backend, or the
// most on those that this processor offers.
static size_t scratch_on(const zr_backend *backend, int threads, zr_op op)
{
    size_t most = 0;
    zr_queue far = {.backend = backend, .threads = ZR_MAX(threads, 1)};
    if (zr_backend_is_far(backend))
        return zr_op_scratch(&far, op);
    for (const zr_backend *const *all = zr_backends(); *all; all++) {
        zr_queue queue = {.backend = *all, .threads = ZR_MAX(threads, 1)};
        if (zr_backend_offered(*all))
            most = ZR_MAX(most, zr_op_scratch(&queue, op));
    }
    return most;
}

size_t zr_scratch_norm(const zr_backend *backend, int threads, const zr_norm *norm)
{
    return scratch_on(backend, threads, (zr_op){.kind = ZR_OP_norm_backward, .shape.norm = *norm});
}

size_t zr_scratch_attention(const zr_backend *backend, int threads, const zr_attention *attention)
{
    return scratch_on(backend, threads,
                      (zr_op){.kind = ZR_OP_attention_backward, .shape.attention = *attention});
}

size_t zr_scratch_decode(const zr_backend *backend, int threads, const zr_attention *attention,
                         int64_t capacity)
{
    zr_op op = {.kind = ZR_OP_attention_decode, .shape.attention = *attention};
    op.shape.attention.capacity = capacity;
    return scratch_on(backend, threads, op);
}

size_t zr_scratch_column_sum(const zr_backend *backend, int threads, int64_t rows, int64_t width)
{
    return scratch_on(
        backend, threads,
        (zr_op){.kind = ZR_OP_column_sum, .shape.matrix = {.rows = rows, .width = width}});
}
