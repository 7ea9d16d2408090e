// Cuts buffers, and computes the scratch bytes that suffice for every backend of this processor.
#include "layers/layout.h"
#include "compute/element_ops.h"

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

static zr_queue queue_of(const zr_backend *backend, int threads)
{
    return (zr_queue){.backend = backend, .threads = ZR_MAX(threads, 1)};
}

size_t zr_scratch_norm(int threads, const zr_norm *norm)
{
    size_t most = 0;
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
        if (!zr_backend_offered(*backend))
            continue;
        zr_queue queue = queue_of(*backend, threads);
        most = ZR_MAX(most, (*backend)->rows->norm_scratch(&queue, norm));
    }
    return most;
}

size_t zr_scratch_attention(int threads, const zr_attention *attention)
{
    size_t most = 0;
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
        if (!zr_backend_offered(*backend))
            continue;
        zr_queue queue = queue_of(*backend, threads);
        most = ZR_MAX(most, (*backend)->attention->scratch(&queue, attention));
    }
    return most;
}

size_t zr_scratch_decode(int threads, const zr_attention *attention, int64_t capacity)
{
    size_t most = 0;
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
        if (!zr_backend_offered(*backend))
            continue;
        zr_queue queue = queue_of(*backend, threads);
        most = ZR_MAX(most, (*backend)->attention->decode_scratch(&queue, attention, capacity));
    }
    return most;
}

size_t zr_scratch_column_sum(int threads, int64_t rows, int64_t width)
{
    size_t most = 0;
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
        if (!zr_backend_offered(*backend))
            continue;
        zr_queue queue = queue_of(*backend, threads);
        most = ZR_MAX(most, (*backend)->elements->column_sum_scratch(&queue, rows, width));
    }
    return most;
}
