// How layers cut their saved activations and their workspace out of the two buffers of a context.
// One function both lays out a struct and, with base NULL, counts its bytes, so that sizes and use
// cannot disagree.
#ifndef ZR_LAYERS_LAYOUT_H
#define ZR_LAYERS_LAYOUT_H

#include "compute/compute.h"

typedef struct zr_carver {
    char *base; // NULL to count only
    size_t used;
} zr_carver;

// Returns the next `bytes`, 64-byte aligned; NULL while only counting.
void *zr_carve(zr_carver *carver, size_t bytes);
float *zr_carve_floats(zr_carver *carver, int64_t elements);
void *zr_carve_as(zr_carver *carver, zero_dtype dtype, int64_t elements);

// Copies `bytes` of each row, between rows that lie from_row and to_row bytes apart: columns of a
// matrix, and a dense one.
void zr_columns_copy(zr_queue *queue, int64_t rows, int64_t bytes, const void *from,
                     int64_t from_row, void *to, int64_t to_row);

// Return scratch bytes for a rank of `threads` (0: 1): of a device's backend, or, for one of the
// host (or NULL), bytes that suffice on every one that this processor offers, so that a plan does
// not depend on which of them computes. Tiles of attention are wider if vectors are, so another
// processor may plan other bytes.
size_t zr_scratch_norm(const zr_backend *backend, int threads, const zr_norm *norm);
size_t zr_scratch_attention(const zr_backend *backend, int threads, const zr_attention *attention);
size_t zr_scratch_decode(const zr_backend *backend, int threads, const zr_attention *attention,
                         int64_t capacity);
size_t zr_scratch_column_sum(const zr_backend *backend, int threads, int64_t rows, int64_t width);

#endif
