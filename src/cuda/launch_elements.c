// Elementwise work: kernels of elements.cu, copies and fills.
#include "cuda/launch.h"

// The grid of a kernel whose threads take eight elements each.
static int64_t blocks_of(zr_queue *queue, int64_t n)
{
    return zr_cuda_blocks(queue, (n + 7) / 8, 256);
}

// ---- activation functions ----

enum { BY_TANH, BY_ERF };

static void submit_gelu(zr_queue *queue, const zr_elements *shape, int by, const void *pre,
                        void *out)
{
    ZR_LAUNCH(queue, gelu, 256, blocks_of(queue, shape->n), 1, .pre = pre, .out = out,
              .n = shape->n, .type = (int)shape->dtype, .by = by);
}

static void submit_gelu_slope(zr_queue *queue, const zr_elements *shape, int by, const void *pre,
                              const void *d, void *d_pre)
{
    ZR_LAUNCH(queue, gelu_slope, 256, blocks_of(queue, shape->n), 1, .pre = pre, .d = d,
              .d_pre = d_pre, .n = shape->n, .type = (int)shape->dtype, .by = by);
}

ZR_KERNEL(zr_cuda_gelu_forward, gelu_forward, elements)
{
    submit_gelu(queue, shape, BY_TANH, pre, out);
}

ZR_KERNEL(zr_cuda_gelu_backward, gelu_backward, elements)
{
    submit_gelu_slope(queue, shape, BY_TANH, pre, d, d);
}

ZR_KERNEL(zr_cuda_gelu_erf_forward, gelu_erf_forward, elements)
{
    submit_gelu(queue, shape, BY_ERF, pre, out);
}

ZR_KERNEL(zr_cuda_gelu_erf_backward, gelu_erf_backward, elements)
{
    submit_gelu_slope(queue, shape, BY_ERF, pre, d, d_pre);
}

ZR_KERNEL(zr_cuda_silu_gate_forward, silu_gate_forward, elements)
{
    ZR_LAUNCH(queue, silu_gate, 256, blocks_of(queue, shape->n), 1, .gate = gate, .up = up,
              .out = out, .n = shape->n, .type = (int)shape->dtype);
}

ZR_KERNEL(zr_cuda_silu_gate_backward, silu_gate_backward, elements)
{
    ZR_LAUNCH(queue, silu_gate_slopes, 256, blocks_of(queue, shape->n), 1, .gate = gate, .up = up,
              .d = d, .d_gate = d_gate, .d_up = d_up, .n = shape->n, .type = (int)shape->dtype);
}

// ---- sums, conversions, dropout ----

ZR_KERNEL(zr_cuda_add, add, sum)
{
    ZR_LAUNCH(queue, add, 256, blocks_of(queue, shape->n), 1, .x = x, .branch = branch, .out = out,
              .n = shape->n, .stream_type = (int)shape->stream, .branch_type = (int)shape->dtype);
}

static void submit_conversion(zr_queue *queue, zero_dtype from, zero_dtype to, int64_t n,
                              const void *x, void *out)
{
    ZR_LAUNCH(queue, convert, 256, blocks_of(queue, n), 1, .x = x, .out = out, .n = n,
              .x_type = (int)from, .out_type = (int)to);
}

ZR_KERNEL(zr_cuda_convert, convert, conversion)
{
    submit_conversion(queue, shape->from, shape->to, shape->n, x, out);
}

ZR_KERNEL(zr_cuda_scale, scale, scaling)
{
    ZR_LAUNCH(queue, scale, 256, blocks_of(queue, shape->n), 1, .x = x, .out = out, .n = shape->n,
              .by = shape->by, .out_type = (int)shape->to);
}

ZR_KERNEL(zr_cuda_dropout, dropout, dropout)
{
    if (shape->p <= 0) {
        submit_conversion(queue, shape->from, shape->to, shape->n, x, out);
        return;
    }
    ZR_LAUNCH(queue, dropout, 256, blocks_of(queue, shape->n), 1, .x = x, .out = out, .n = shape->n,
              .first = shape->first, .key = zr_mask_key(&shape->mask, values),
              .threshold = zr_dropout_threshold(shape->p), .factor = zr_dropout_factor(shape->p),
              .x_type = (int)shape->from, .out_type = (int)shape->to);
}

ZR_KERNEL(zr_cuda_add_bias, add_bias, matrix)
{
    ZR_LAUNCH(queue, add_bias, zr_cuda_row_threads(shape->width), shape->rows, 1, .sum = sum,
              .bias = bias, .out = out, .width = shape->width, .type = (int)shape->dtype);
}

// ---- the embedding ----

ZR_KERNEL(zr_cuda_embedding_forward, embedding_forward, embedding)
{
    ZR_LAUNCH(queue, embedding_rows, zr_cuda_row_threads(shape->width), shape->rows, 1, .ids = ids,
              .tokens = tokens, .positions = positions, .out = out, .width = shape->width,
              .seq = shape->seq, .type = (int)shape->dtype, .stream_type = (int)shape->stream);
}

ZR_KERNEL(zr_cuda_add_positions, add_positions, embedding)
{
    ZR_LAUNCH(queue, add_positions, zr_cuda_row_threads(shape->width), shape->rows, 1,
              .positions = positions, .x = x, .width = shape->width, .seq = shape->seq,
              .first = shape->first, .type = (int)shape->dtype);
}

ZR_KERNEL(zr_cuda_embedding_backward, embedding_backward, embedding)
{
    const int64_t row_bytes = shape->width * (int64_t)sizeof(float),
                  stretches = zr_cuda_stretches(shape->width);
    const int threads = zr_cuda_row_threads(shape->width);
    assert(!d_positions || shape->seq <= shape->positions);
    if (d_tokens && !shape->add_tokens)
        zr_cuda_fill_bytes(queue, d_tokens, 0, shape->vocab * row_bytes);
    if (d_positions && !shape->add_positions)
        zr_cuda_fill_bytes(queue, d_positions, 0, shape->positions * row_bytes);
    if (d_tokens)
        ZR_LAUNCH(queue, token_sums, threads, shape->rows, stretches, .ids = ids, .d = d,
                  .d_tokens = d_tokens, .rows = shape->rows, .width = shape->width,
                  .type = (int)shape->stream);
    if (d_positions)
        ZR_LAUNCH(queue, position_sums, threads, ZR_MIN(shape->seq, shape->rows), stretches, .d = d,
                  .d_positions = d_positions, .rows = shape->rows, .width = shape->width,
                  .seq = shape->seq, .type = (int)shape->stream);
}

// ---- copies and fills ----

ZR_KERNEL(zr_cuda_copy, copy, bytes) { zr_cuda_copy_bytes(queue, from, to, shape->bytes); }

ZR_KERNEL(zr_cuda_copy_rows, copy_rows, strided)
{
    const uint64_t all = (uintptr_t)from | (uintptr_t)to | (uint64_t)shape->bytes |
                         (uint64_t)shape->from_stride | (uint64_t)shape->to_stride;
    const int unit = all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 1;
    const int64_t units = shape->bytes / unit;
    ZR_LAUNCH(queue, copy_rows, 256, zr_cuda_blocks(queue, shape->rows * units, 256), 1,
              .from = from, .to = to, .rows = shape->rows, .units = units,
              .from_stride = shape->from_stride, .to_stride = shape->to_stride, .unit_bytes = unit);
}

ZR_KERNEL(zr_cuda_fill, fill, bytes) { zr_cuda_fill_bytes(queue, to, shape->value, shape->bytes); }
