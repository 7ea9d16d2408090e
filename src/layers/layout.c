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

// Walks over the backends that this processor offers, from number *next on: sets a queue for the
// next one, or returns false if there is none left.
static bool next_backend(int threads, int *next, zr_queue *queue)
{
    const zr_backend *const *all = zr_backends();
    while (all[*next] && !zr_backend_offered(all[*next]))
        ++*next;
    if (!all[*next])
        return false;
    *queue = (zr_queue){.backend = all[(*next)++], .threads = ZR_MAX(threads, 1)};
    return true;
}

size_t zr_scratch_norm(int threads, const zr_norm *norm)
{
    size_t most = 0;
    zr_queue queue;
    for (int i = 0; next_backend(threads, &i, &queue);)
        most = ZR_MAX(most, queue.backend->rows->norm_scratch(&queue, norm));
    return most;
}

size_t zr_scratch_attention(int threads, const zr_attention *attention)
{
    size_t most = 0;
    zr_queue queue;
    for (int i = 0; next_backend(threads, &i, &queue);)
        most = ZR_MAX(most, queue.backend->attention->scratch(&queue, attention));
    return most;
}

size_t zr_scratch_decode(int threads, const zr_attention *attention, int64_t capacity)
{
    size_t most = 0;
    zr_queue queue;
    for (int i = 0; next_backend(threads, &i, &queue);)
        most = ZR_MAX(most, queue.backend->attention->decode_scratch(&queue, attention, capacity));
    return most;
}

size_t zr_scratch_column_sum(int threads, int64_t rows, int64_t width)
{
    size_t most = 0;
    zr_queue queue;
    for (int i = 0; next_backend(threads, &i, &queue);)
        most = ZR_MAX(most, queue.backend->elements->column_sum_scratch(&queue, rows, width));
    return most;
}
