// Rows of weights and columns of their products. A row, or a stretch of columns, is a task, whose
// sums run in one order.
#include "compute/cpu/cpu_tables.h"

#include <math.h>

enum { COLUMNS = 64, DECODED = 512 }; // of a task; elements of a row at a time

static int64_t stretches(int64_t width) { return (width + COLUMNS - 1) / COLUMNS; }

static int64_t worth(int64_t elements) { return 1 + WORTH / ZR_MAX(1, elements); }

// ---- sums of squares ----

typedef struct squares_job {
    const zr_weight_rows *of;
    const void *weight;
    const float *scales;
    float *squares;
} squares_job;

INLINE vf add_squares(zero_dtype type, const void *x, int64_t first, int64_t count, vf sum)
{
    for (int64_t j = 0; j < count; j += LANES) {
        vf value = vf_get_as(type, x, first + j, count - j);
        sum += value * value;
    }
    return sum;
}

static void square_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const squares_job *job = job_;
    int64_t in = job->of->in;
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(T, job->of->dtype,
                  job->squares[i] = vf_sum(add_squares(T, job->weight, i * in, in, (vf){0})));
}

static void square_codes(const void *job_, int64_t first, int64_t last, int worker)
{
    const squares_job *job = job_;
    int64_t in = job->of->in, bytes = zr_weight_code_bytes(job->of->format, in),
            scales = zr_weight_row_scales(job->of->format, in);
    float wide[DECODED];
    for (int64_t i = first; i < last; i++) {
        vf sum = {0};
        for (int64_t j = 0, n; j < in; j += n) {
            n = ZR_MIN((int64_t)DECODED, in - j);
            zr_weight_decode(job->of->format, (const char *)job->weight + i * bytes,
                             job->scales + i * scales, j, n, wide);
            sum = add_squares(ZERO_F32, wide, 0, n, sum);
        }
        job->squares[i] = vf_sum(sum);
    }
}

INLINE void square_columns_as(zero_dtype type, const squares_job *job, int64_t j)
{
    int64_t out = job->of->out;
    vf sum = {0};
    for (int64_t i = 0; i < job->of->in; i++) {
        vf value = vf_get_as(type, job->weight, i * out + j, out - j);
        sum += value * value;
    }
    vf_put(job->squares + j, out - j, sum);
}

static void square_columns(const void *job_, int64_t first, int64_t last, int worker)
{
    const squares_job *job = job_;
    for (int64_t j = first * COLUMNS; j < ZR_MIN(last * COLUMNS, job->of->out); j += LANES)
        WITH_TYPE(T, job->of->dtype, square_columns_as(T, job, j));
}

void ZR_CPU_TABLE(zr_cpu_weight_squares)(zr_queue *queue, const zr_weight_rows *of,
                                         const void *weight, const float *scales, float *squares)
{
    const squares_job job = {.of = of, .weight = weight, .scales = scales, .squares = squares};
    if (of->outputs_first)
        zr_cpu_for(queue, of->out, worth(of->in), of->format ? square_codes : square_rows, &job);
    else
        zr_cpu_for(queue, stretches(of->out), worth(of->in * COLUMNS), square_columns, &job);
}

// ---- factors ----

INLINE float element(zero_dtype type, const void *array, int64_t i)
{
    return vf_get_as(type, array, i, 1)[0];
}

typedef struct adapted_job {
    const zr_magnitude *of;
    const float *across, *gram;
    const void *b;
    float *squares;
} adapted_job;

INLINE void adapt_square(zero_dtype type, const adapted_job *job, int64_t i)
{
    int64_t rank = job->of->rank;
    float s = job->of->scale, sum = 0;
    for (int64_t k = 0; k < rank; k++) {
        vf of_gram = {0};
        for (int64_t l = 0; l < rank; l += LANES)
            of_gram += vf_get(job->gram + k * rank + l, rank - l) *
                       vf_get_as(type, job->b, i * rank + l, rank - l);
        sum += element(type, job->b, i * rank + k) *
               (2 * job->across[k * job->of->out + i] + s * vf_sum(of_gram));
    }
    job->squares[i] = job->squares[i] + s * sum;
}

static void adapt_squares(const void *job_, int64_t first, int64_t last, int worker)
{
    const adapted_job *job = job_;
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(T, job->of->dtype, adapt_square(T, job, i));
}

void ZR_CPU_TABLE(zr_cpu_adapted_squares)(zr_queue *queue, const zr_magnitude *of,
                                          const float *across, const float *gram, const void *b,
                                          float *squares)
{
    const adapted_job job = {of, across, gram, b, squares};
    zr_cpu_for(queue, of->out, worth(of->rank * of->rank), adapt_squares, &job);
}

typedef struct factors_job {
    const zr_magnitude *of;
    const float *squares;
    const void *magnitude;
    float *factors, *inverse;
} factors_job;

static void find_factors(const void *job_, int64_t first, int64_t last, int worker)
{
    const factors_job *job = job_;
    for (int64_t i = first; i < last; i++) {
        float square = job->squares[i], by = square > 0 ? 1 / sqrtf(square) : 0;
        job->inverse[i] = by;
        WITH_TYPE(T, job->of->dtype, job->factors[i] = by * element(T, job->magnitude, i));
    }
}

void ZR_CPU_TABLE(zr_cpu_magnitude_factors)(zr_queue *queue, const zr_magnitude *of,
                                            const float *squares, const void *magnitude,
                                            float *factors, float *inverse)
{
    const factors_job job = {of, squares, magnitude, factors, inverse};
    zr_cpu_for(queue, of->out, worth(1), find_factors, &job);
}

// ---- columns ----

typedef struct columns_job {
    const zr_column_scaling *of;
    const float *factors, *past;
    const void *x, *bias;
    void *out;
} columns_job;

INLINE void scale_row(zero_dtype from, const columns_job *job, int64_t i)
{
    const zr_column_scaling *of = job->of;
    for (int64_t j = 0; j < of->width; j += LANES) {
        int64_t at = i * of->width + j, left = of->width - j;
        vf y = (vf_get(job->factors + j, left) - of->less) * vf_get_as(from, job->x, at, left);
        if (job->past)
            y += vf_get(job->past + at, left);
        if (job->bias)
            WITH_TYPE(T, of->to, y += vf_get_as(T, job->bias, j, left));
        WITH_TYPE(T, of->to, vf_put_as(T, job->out, at, left, y));
    }
}

static void scale_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const columns_job *job = job_;
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(T, job->of->from, scale_row(T, job, i));
}

void ZR_CPU_TABLE(zr_cpu_scale_columns)(zr_queue *queue, const zr_column_scaling *of,
                                        const float *factors, const void *x, const float *past,
                                        const void *bias, void *out)
{
    const columns_job job = {
        .of = of, .factors = factors, .past = past, .x = x, .bias = bias, .out = out};
    zr_cpu_for(queue, of->rows, worth(of->width), scale_rows, &job);
}

typedef struct products_job {
    const zr_matrix *of;
    const float *factors, *b;
    const void *a;
    float *out;
} products_job;

INLINE void multiply_columns(zero_dtype type, const products_job *job, int64_t j)
{
    int64_t width = job->of->width, left = width - j;
    vf sum = {0};
    for (int64_t i = 0; i < job->of->rows; i++)
        sum += vf_get_as(type, job->a, i * width + j, left) * vf_get(job->b + i * width + j, left);
    sum *= vf_get(job->factors + j, left);
    if (job->of->add)
        sum += vf_get(job->out + j, left);
    vf_put(job->out + j, left, sum);
}

static void multiply_stretches(const void *job_, int64_t first, int64_t last, int worker)
{
    const products_job *job = job_;
    for (int64_t j = first * COLUMNS; j < ZR_MIN(last * COLUMNS, job->of->width); j += LANES)
        WITH_TYPE(T, job->of->dtype, multiply_columns(T, job, j));
}

void ZR_CPU_TABLE(zr_cpu_column_products)(zr_queue *queue, const zr_matrix *of,
                                          const float *factors, const void *a, const float *b,
                                          float *out)
{
    const products_job job = {.of = of, .factors = factors, .a = a, .b = b, .out = out};
    zr_cpu_for(queue, stretches(of->width), worth(of->rows * COLUMNS), multiply_stretches, &job);
}
