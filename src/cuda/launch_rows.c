// Norms, softmax, losses: kernels of rows.cu. Sums of columns, adapters with magnitudes: those of
// columns.cu.
#include "cuda/launch.h"

#include <stddef.h>

static_assert(sizeof(zr_kernel_loss_part) == sizeof(zr_loss_part) &&
                  offsetof(zr_kernel_loss_part, largest) == offsetof(zr_loss_part, largest) &&
                  offsetof(zr_kernel_loss_part, aimed) == offsetof(zr_loss_part, aimed) &&
                  offsetof(zr_kernel_loss_part, sum) == offsetof(zr_loss_part, sum),
              "kernels lay a part of a loss out as the library does");

// ---- sums of columns ----

enum {
    MOST_PARTS = 256,     // of rows, whose sums are joined
    LEAST_PART_ROWS = 32, // that are worth a part
    COLUMNS = 32,         // of a block
    PART_THREADS = 256,   // of a block that has a part's rows, and of one that joins
    ALL_THREADS = 1024    // of a block that has all rows
};

static int64_t part_rows_of(int64_t rows)
{
    return ZR_MAX((rows + MOST_PARTS - 1) / MOST_PARTS, LEAST_PART_ROWS);
}

static int64_t parts_of(int64_t rows)
{
    return (rows + part_rows_of(rows) - 1) / part_rows_of(rows);
}

static int64_t column_blocks(int64_t width) { return (width + COLUMNS - 1) / COLUMNS; }

size_t zr_cuda_norm_scratch(const zr_norm *s)
{
    return sizeof(float) * (size_t)(parts_of(s->rows) * 2 * s->width);
}

size_t zr_cuda_column_sum_scratch(const zr_matrix *s)
{
    return sizeof(float) * (size_t)(parts_of(s->rows) * s->width);
}

static void join_parts(zr_queue *queue, const float *parts, int64_t count, int64_t stride,
                       int64_t width, bool add, float *out)
{
    ZR_LAUNCH(queue, join_parts, PART_THREADS, column_blocks(width), 1, .parts = parts, .out = out,
              .count = count, .stride = stride, .width = width, .add = add);
}

ZR_KERNEL(zr_cuda_column_sum, column_sum, matrix)
{
    ZR_LAUNCH(queue, column_parts, PART_THREADS, column_blocks(shape->width), parts_of(shape->rows),
              .x = x, .parts = scratch, .rows = shape->rows, .width = shape->width,
              .part_rows = part_rows_of(shape->rows), .type = (int)shape->dtype);
    join_parts(queue, scratch, parts_of(shape->rows), shape->width, shape->width, shape->add, out);
}

// ---- norms ----

ZR_KERNEL(zr_cuda_norm_forward, norm_forward, norm)
{
    ZR_LAUNCH(queue, norm_forward, zr_cuda_row_threads(shape->width), shape->rows, 1, .x = x,
              .branch = branch, .sum = sum, .gamma = gamma, .beta = shape->rms ? NULL : beta,
              .y = y, .mean = mean, .rstd = rstd, .width = shape->width, .epsilon = shape->epsilon,
              .rms = shape->rms, .type = (int)shape->dtype, .stream_type = (int)shape->stream);
}

// The gradients of gamma and beta come first: dx may be written over dy.
ZR_KERNEL(zr_cuda_norm_backward, norm_backward, norm)
{
    const int64_t parts = parts_of(shape->rows), width = shape->width;
    const float *sums = scratch;
    if (dgamma || dbeta)
        ZR_LAUNCH(queue, norm_parts, PART_THREADS, column_blocks(width), parts, .dy = dy, .x = x,
                  .mean = shape->rms ? NULL : mean, .rstd = rstd, .parts = scratch,
                  .rows = shape->rows, .width = width, .part_rows = part_rows_of(shape->rows),
                  .type = (int)shape->dtype, .stream_type = (int)shape->stream);
    if (dgamma)
        join_parts(queue, sums, parts, 2 * width, width, shape->add_parameters, dgamma);
    if (dbeta && !shape->rms)
        join_parts(queue, parts ? sums + width : sums, parts, 2 * width, width,
                   shape->add_parameters, dbeta);
    ZR_LAUNCH(queue, norm_backward, zr_cuda_row_threads(width), shape->rows, 1, .dy = dy, .x = x,
              .gamma = gamma, .mean = shape->rms ? NULL : mean, .rstd = rstd, .past = past,
              .dx = dx, .width = width, .type = (int)shape->dtype,
              .stream_type = (int)shape->stream, .rms = shape->rms);
}

// ---- softmax and the loss ----

// Threads of a block that takes a row of logits: more than for a norm, as rows are longer.
static int logit_threads(int64_t vocab)
{
    return (int)ZR_MAX(ZR_MIN(ZR_ROUND_UP((vocab + 7) / 8, 32), 512), 32);
}

ZR_KERNEL(zr_cuda_loss, loss, loss)
{
    ZR_LAUNCH(queue, loss, logit_threads(shape->vocab), shape->rows, 1, .target = target,
              .weight = weight, .logits = logits, .row_loss = row_loss, .vocab = shape->vocab,
              .step = ZR_LOGIT_STEP(shape), .factor = shape->gradient && factor ? *factor : 0,
              .gradient = shape->gradient, .type = (int)shape->dtype);
}

ZR_KERNEL(zr_cuda_loss_parts, loss_parts, loss)
{
    ZR_LAUNCH(queue, loss_parts, logit_threads(shape->vocab), shape->rows, 1, .target = target,
              .logits = shape->vocab ? logits : NULL, .parts = (zr_kernel_loss_part *)parts,
              .vocab = shape->vocab, .step = ZR_LOGIT_STEP(shape), .type = (int)shape->dtype,
              .none = ZR_TARGET_NONE);
}

ZR_KERNEL(zr_cuda_loss_finish, loss_finish, loss)
{
    ZR_LAUNCH(queue, loss_finish, logit_threads(shape->vocab), shape->rows, 1,
              .parts = (const zr_kernel_loss_part *)parts, .target = target, .weight = weight,
              .logits = shape->gradient ? logits : NULL, .row_loss = row_loss,
              .vocab = shape->vocab, .step = ZR_LOGIT_STEP(shape), .stride = shape->stride,
              .factor = shape->gradient && factor ? *factor : 0, .slices = shape->slices,
              .gradient = shape->gradient, .type = (int)shape->dtype, .none = ZR_TARGET_NONE);
}

ZR_KERNEL(zr_cuda_softmax, softmax, matrix)
{
    ZR_LAUNCH(queue, softmax, logit_threads(shape->width), shape->rows, 1, .x = x,
              .width = shape->width, .type = (int)shape->dtype);
}

ZR_KERNEL(zr_cuda_local_ids, local_ids, id_range)
{
    ZR_LAUNCH(queue, local_ids, 256, zr_cuda_blocks(queue, shape->n, 256), 1, .ids = ids,
              .out = out, .n = shape->n, .first = shape->first, .count = shape->count,
              .none = ZR_TARGET_NONE);
}

ZR_KERNEL(zr_cuda_sum_rows, sum_rows, row_sum)
{
    ZR_LAUNCH(queue, sum_rows, 256, 1, 1, .x = shape->n ? x : NULL, .out = out, .n = shape->n,
              .divisor = *divisor);
}

// ---- adapters with magnitudes ----

ZR_KERNEL(zr_cuda_weight_squares, weight_squares, weight_rows)
{
    if (shape->format)
        zr_cuda_queue_refuse(queue, "of a weight in codes");
    else if (shape->outputs_first)
        ZR_LAUNCH(queue, row_squares, zr_cuda_row_threads(shape->in), shape->out, 1,
                  .weight = weight, .squares = squares, .width = shape->in,
                  .type = (int)shape->dtype);
    else
        ZR_LAUNCH(queue, column_squares, ALL_THREADS, column_blocks(shape->out), 1,
                  .weight = weight, .squares = squares, .rows = shape->in, .width = shape->out,
                  .type = (int)shape->dtype);
}

ZR_KERNEL(zr_cuda_adapted_squares, adapted_squares, magnitude)
{
    ZR_LAUNCH(queue, adapted_squares, 256, zr_cuda_blocks(queue, shape->out, 256), 1,
              .across = across, .gram = gram, .b = b, .squares = squares, .out = shape->out,
              .rank = shape->rank, .scale = shape->scale, .type = (int)shape->dtype);
}

ZR_KERNEL(zr_cuda_magnitude_factors, magnitude_factors, magnitude)
{
    ZR_LAUNCH(queue, magnitude_factors, 256, zr_cuda_blocks(queue, shape->out, 256), 1,
              .squares = squares, .magnitude = magnitude, .factors = factors, .inverse = inverse,
              .out = shape->out, .type = (int)shape->dtype);
}

ZR_KERNEL(zr_cuda_scale_columns, scale_columns, column_scaling)
{
    ZR_LAUNCH(queue, scale_columns, zr_cuda_row_threads(shape->width), shape->rows, 1,
              .factors = factors, .x = x, .past = past, .bias = bias, .out = out,
              .width = shape->width, .x_type = (int)shape->from, .out_type = (int)shape->to,
              .less = shape->less);
}

ZR_KERNEL(zr_cuda_column_products, column_products, matrix)
{
    ZR_LAUNCH(queue, column_products, ALL_THREADS, column_blocks(shape->width), 1,
              .factors = factors, .a = a, .b = b, .out = out, .rows = shape->rows,
              .width = shape->width, .type = (int)shape->dtype, .add = shape->add);
}
