// RMSNorm, done like LayerNorm in cpu_rows.c: a row comes from memory once, and dgamma is summed by
// blocks of rows in a fixed order.
#include "compute/cpu/cpu_rows.h"

typedef struct rms_job {
    const zr_norm *norm;
    const void *x, *branch, *gamma, *dy, *past; // branch, past: NULL if nothing is added
    void *sum, *y, *dx;
    float *rstd;
    bool add_parameters;
    int64_t block_rows, blocks;
    float *partial, *dgamma;
} rms_job;

INLINE void row_add(zero_dtype stream, zero_dtype type, const rms_job *job, int64_t at)
{
    for (int64_t j = at, end = at + job->norm->width; j < end; j += LANES) {
        vf x = vf_get_as(stream, job->x, j, end - j);
        vf_put_as(stream, job->sum, j, end - j, x + vf_get_as(type, job->branch, j, end - j));
    }
}

INLINE float row_squares(zero_dtype stream, const void *x, int64_t at, int64_t width)
{
    vf q0 = {0}, q1 = {0}, q2 = {0}, q3 = {0};
    int64_t j = at, end = at + width;
    for (; j + 4 * LANES <= end; j += 4 * LANES) {
        vf x0 = vf_get_as(stream, x, j, LANES), x1 = vf_get_as(stream, x, j + LANES, LANES);
        vf x2 = vf_get_as(stream, x, j + 2 * LANES, LANES),
           x3 = vf_get_as(stream, x, j + 3 * LANES, LANES);
        q0 += x0 * x0, q1 += x1 * x1, q2 += x2 * x2, q3 += x3 * x3;
    }
    for (; j < end; j += LANES) {
        vf some = vf_get_as(stream, x, j, end - j);
        q0 += some * some;
    }
    return vf_sum((q0 + q1) + (q2 + q3));
}

INLINE void rms_row(zero_dtype stream, zero_dtype type, const rms_job *job, int64_t i)
{
    int64_t width = job->norm->width, at = i * width;
    const void *x = job->branch ? job->sum : job->x;
    if (job->branch)
        row_add(stream, type, job, at);
    float rstd = 1 / sqrtf(row_squares(stream, x, at, width) / (float)width + job->norm->epsilon);
    for (int64_t j = 0; j < width; j += LANES) {
        int64_t left = width - j;
        vf normal = vf_get_as(stream, x, at + j, left) * rstd;
        vf_put_as(type, job->y, at + j, left, normal * vf_get_as(type, job->gamma, j, left));
    }
    if (job->rstd)
        job->rstd[i] = rstd;
}

static void rms_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const rms_job *job = job_;
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(S, job->norm->stream, WITH_TYPE(T, job->norm->dtype, rms_row(S, T, job, i)));
}

void ZR_CPU_TABLE(zr_cpu_rms_forward)(zr_queue *queue, const zr_norm *norm, const void *x,
                                      const void *gamma, void *y, float *rstd)
{
    rms_job job = {.norm = norm, .x = x, .gamma = gamma, .y = y, .rstd = rstd};
    zr_cpu_for(queue, norm->rows, norm_worth(norm->width), rms_rows, &job);
}

void ZR_CPU_TABLE(zr_cpu_residual_rms_forward)(zr_queue *queue, const zr_norm *norm, const void *x,
                                               const void *branch, void *sum, const void *gamma,
                                               void *y, float *rstd)
{
    rms_job job = {
        .norm = norm, .x = x, .branch = branch, .sum = sum, .gamma = gamma, .y = y, .rstd = rstd};
    zr_cpu_for(queue, norm->rows, norm_worth(norm->width), rms_rows, &job);
}

// Computes dx of one row, and adds the row's part of dgamma to scale.
INLINE void backward_row(zero_dtype stream, zero_dtype type, const rms_job *job, int64_t i,
                         float *scale)
{
    int64_t width = job->norm->width, at = i * width;
    float rstd = job->rstd[i];
    vf dot = {0};
    for (int64_t j = 0; j < width; j += LANES) {
        int64_t left = width - j;
        vf g = vf_get_as(type, job->dy, at + j, left) * vf_get_as(type, job->gamma, j, left);
        dot += g * (vf_get_as(stream, job->x, at + j, left) * rstd);
    }
    float mean_dot = vf_sum(dot) / (float)width;
    for (int64_t j = 0; j < width; j += LANES) {
        int64_t left = width - j;
        vf dy = vf_get_as(type, job->dy, at + j, left),
           g = dy * vf_get_as(type, job->gamma, j, left);
        vf normal = vf_get_as(stream, job->x, at + j, left) * rstd;
        vf dx = (g - normal * mean_dot) * rstd;
        vf_put(scale + j, left, vf_get(scale + j, left) + dy * normal);
        if (job->past)
            dx += vf_get_as(stream, job->past, at + j, left);
        vf_put_as(stream, job->dx, at + j, left, dx);
    }
}

static void backward_blocks(const void *job_, int64_t first, int64_t last, int worker)
{
    const rms_job *job = job_;
    int64_t width = job->norm->width;
    for (int64_t block = first; block < last; block++) {
        float *partial = job->partial + block * width;
        int64_t end = ZR_MIN((block + 1) * job->block_rows, job->norm->rows);
        memset(partial, 0, sizeof(float) * (size_t)width);
        for (int64_t i = block * job->block_rows; i < end; i++)
            WITH_TYPE(S, job->norm->stream,
                      WITH_TYPE(T, job->norm->dtype, backward_row(S, T, job, i, partial)));
    }
}

// Sums the blocks for columns [first, last) * 16 of dgamma, as four chains and a tree.
static void cpu_collect(const void *job_, int64_t first, int64_t last, int worker)
{
    const rms_job *job = job_;
    int64_t width = job->norm->width;
    for (int64_t j = first * 16; j < ZR_MIN(last * 16, width); j += LANES) {
        vf sum[4] = {{0}};
        for (int64_t block = 0; block < job->blocks; block++)
            sum[block % 4] += vf_get(job->partial + block * width + j, width - j);
        vf total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        vf_put(job->dgamma + j, width - j,
               job->add_parameters ? vf_get(job->dgamma + j, width - j) + total : total);
    }
}

void ZR_CPU_TABLE(zr_cpu_rms_backward)(zr_queue *queue, const zr_norm *norm, const void *dy,
                                       const void *x, const void *gamma, const float *rstd,
                                       const void *past, void *dx, float *dgamma,
                                       bool add_parameters, void *scratch)
{
    int64_t rows = norm_block_rows(norm->rows);
    rms_job job = {
        .norm = norm,
        .dy = dy,
        .x = x,
        .gamma = gamma,
        .rstd = (float *)rstd,
        .dx = dx,
        .past = past,
        .dgamma = dgamma,
        .add_parameters = add_parameters,
        .partial = scratch,
        .block_rows = rows,
        .blocks = (norm->rows + rows - 1) / rows,
    };
    zr_cpu_for(queue, job.blocks, 1 + norm_worth(norm->width) / rows, backward_blocks, &job);
    if (dgamma)
        zr_cpu_for(queue, (norm->width + 15) / 16, 16, cpu_collect, &job);
}
