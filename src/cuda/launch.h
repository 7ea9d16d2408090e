// zr_cuda_KIND: submits each kind of operation. launch_*.c and products.c have them; refused.c
// those that a card does not compute.
#ifndef ZR_CUDA_LAUNCH_H
#define ZR_CUDA_LAUNCH_H

#include "compute/backends.h"
#include "cuda/queue.h"

static_assert((int)ZR_TYPE_F32 == ZERO_F32 && (int)ZR_TYPE_BF16 == ZERO_BF16 &&
                  (int)ZR_TYPE_F16 == ZERO_F16 && (int)ZR_TYPE_U8 == ZERO_U8,
              "kernels number types as the library does");

#define ZR_CUDA_LAUNCHER(kind, shape, ...) ZR_KERNEL(zr_cuda_##kind, kind, shape);
ZR_OPS(ZR_CUDA_LAUNCHER)

// Scratch, as zr_backend.scratch: pure functions of the shape.
size_t zr_cuda_norm_scratch(const zr_norm *s);
size_t zr_cuda_column_sum_scratch(const zr_matrix *s);
size_t zr_cuda_attention_scratch(const zr_attention *s, zr_op_kind kind);
size_t zr_cuda_product_scratch(const zr_product *s);

// Threads of a block that takes a row, or a stretch of its columns, eight elements a thread: whole
// warps, at most 256. A row has zr_cuda_stretches.
static inline int zr_cuda_row_threads(int64_t width)
{
    return (int)ZR_MAX(ZR_MIN(ZR_ROUND_UP((width + 7) / 8, 32), 256), 32);
}

static inline int64_t zr_cuda_stretches(int64_t width)
{
    const int64_t each = 8 * (int64_t)zr_cuda_row_threads(width);
    return (width + each - 1) / each;
}

#endif
