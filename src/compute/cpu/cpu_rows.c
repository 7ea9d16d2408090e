// LayerNorm and RMSNorm. A row is read from memory once and then comes from the cache. So reading
// it two or three times (the mean, then the squares around it) keeps full precision and costs no
// bandwidth.
//
// dgamma and dbeta: each block of rows sums its own into scratch, [block][2][width]; the blocks are
// then added in a fixed order. The number of rows alone determines how many a block has. RMSNorm
// has no mean and no beta, and leaves the second half of a block alone.
//
// `rms` is a constant wherever it is passed, so that each norm has a loop of its own.
#include "compute/cpu/cpu_tables.h"

// Blocks of rows, at most; each sums the gradients of its parameters separately.
#define NORM_BLOCKS 64

typedef struct norm_job {
    const zr_norm *norm;
    const void *x, *branch, *gamma, *beta, *dy, *past; // branch, past: NULL if nothing is added
    void *sum, *y, *dx;
    float *mean, *rstd;
    int64_t block_rows, blocks;
    float *partial, *dgamma, *dbeta;
} norm_job;

// ---- forward; `at` is the element at which a row begins in the arrays ----

INLINE float row_mean(zero_dtype type, const void *x, int64_t at, int64_t width)
{
    vf s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    int64_t j = at, end = at + width;
    for (; j + 4 * LANES <= end; j += 4 * LANES) {
        s0 += vf_get_as(type, x, j, LANES), s1 += vf_get_as(type, x, j + LANES, LANES);
        s2 += vf_get_as(type, x, j + 2 * LANES, LANES),
            s3 += vf_get_as(type, x, j + 3 * LANES, LANES);
    }
    for (; j < end; j += LANES)
        s0 += vf_get_as(type, x, j, end - j);
    return vf_sum((s0 + s1) + (s2 + s3)) / (float)width;
}

// Returns the variance, and corrects *mean by what rounding left in it.
INLINE float row_variance(zero_dtype type, const void *x, int64_t at, int64_t width, float *mean)
{
    vf q0 = {0}, q1 = {0}, s0 = {0}, s1 = {0};
    int64_t j = at, end = at + width;
    for (; j + 2 * LANES <= end; j += 2 * LANES) {
        vf d0 = vf_get_as(type, x, j, LANES) - *mean,
           d1 = vf_get_as(type, x, j + LANES, LANES) - *mean;
        q0 += d0 * d0, q1 += d1 * d1;
        s0 += d0, s1 += d1;
    }
    for (; j < end; j += LANES) {
        vf d = vf_keep(vf_get_as(type, x, j, end - j) - *mean, end - j, 0);
        q0 += d * d;
        s0 += d;
    }
    float left = vf_sum(s0 + s1) / (float)width,
          variance = vf_sum(q0 + q1) / (float)width - left * left;
    *mean += left;
    return variance < 0 ? 0 : variance;
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

INLINE void row_add(zero_dtype stream, zero_dtype type, const norm_job *job, int64_t at)
{
    for (int64_t j = at, end = at + job->norm->width; j < end; j += LANES) {
        vf x = vf_get_as(stream, job->x, j, end - j);
        vf_put_as(stream, job->sum, j, end - j, x + vf_get_as(type, job->branch, j, end - j));
    }
}

INLINE void row_normalize(bool rms, zero_dtype stream, zero_dtype type, const norm_job *job,
                          const void *x, int64_t at, float mean, float rstd)
{
    int64_t width = job->norm->width;
    for (int64_t j = 0; j < width; j += LANES) {
        int64_t left = width - j;
        vf value = vf_get_as(stream, x, at + j, left), gamma = vf_get_as(type, job->gamma, j, left);
        vf y = rms ? value * rstd * gamma
                   : (value - mean) * rstd * gamma + vf_get_as(type, job->beta, j, left);
        vf_put_as(type, job->y, at + j, left, y);
    }
}

INLINE void norm_row(bool rms, zero_dtype stream, zero_dtype type, const norm_job *job, int64_t i)
{
    int64_t width = job->norm->width, at = i * width;
    const void *x = job->branch ? job->sum : job->x;
    if (job->branch)
        row_add(stream, type, job, at);
    float mean = rms ? 0 : row_mean(stream, x, at, width);
    float variance = rms ? row_squares(stream, x, at, width) / (float)width
                         : row_variance(stream, x, at, width, &mean);
    float rstd = 1 / sqrtf(variance + job->norm->epsilon);
    row_normalize(rms, stream, type, job, x, at, mean, rstd);
    if (!rms && job->mean)
        job->mean[i] = mean;
    if (job->rstd)
        job->rstd[i] = rstd;
}

INLINE void norm_rows_of(bool rms, const norm_job *job, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(S, job->norm->stream,
                  WITH_TYPE(T, job->norm->dtype, norm_row(rms, S, T, job, i)));
}

static void norm_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const norm_job *job = job_;
    if (job->norm->rms)
        norm_rows_of(true, job, first, last);
    else
        norm_rows_of(false, job, first, last);
}

void ZR_CPU_TABLE(zr_cpu_norm_forward)(zr_queue *queue, const zr_norm *norm, const void *x,
                                       const void *branch, void *sum, const void *gamma,
                                       const void *beta, void *y, float *mean, float *rstd)
{
    const norm_job job = {.norm = norm,
                          .x = x,
                          .branch = branch,
                          .sum = sum,
                          .gamma = gamma,
                          .beta = beta,
                          .y = y,
                          .mean = mean,
                          .rstd = rstd};
    zr_cpu_for(queue, norm->rows, rows_worth(norm->width), norm_rows, &job);
}

// ---- backward ----

// Computes dx of one row, and adds the row's part of dgamma and dbeta to scale and shift.
INLINE void norm_backward_row(bool rms, zero_dtype stream, zero_dtype type, const norm_job *job,
                              int64_t i, float *scale, float *shift)
{
    int64_t width = job->norm->width, at = i * width;
    float mean = rms ? 0 : job->mean[i], rstd = job->rstd[i];
    vf sum = {0}, dot = {0};
    for (int64_t j = 0; j < width; j += LANES) {
        int64_t left = width - j;
        vf g = vf_get_as(type, job->dy, at + j, left) * vf_get_as(type, job->gamma, j, left);
        vf x = vf_get_as(stream, job->x, at + j, left), normal = (rms ? x : x - mean) * rstd;
        if (!rms)
            sum += g;
        dot += g * normal;
    }
    float mean_sum = rms ? 0 : vf_sum(sum) / (float)width, mean_dot = vf_sum(dot) / (float)width;
    for (int64_t j = 0; j < width; j += LANES) {
        int64_t left = width - j;
        vf dy = vf_get_as(type, job->dy, at + j, left),
           g = dy * vf_get_as(type, job->gamma, j, left);
        vf x = vf_get_as(stream, job->x, at + j, left), normal = (rms ? x : x - mean) * rstd;
        vf dx = ((rms ? g : g - mean_sum) - normal * mean_dot) * rstd;
        vf_put(scale + j, left, vf_get(scale + j, left) + dy * normal);
        if (!rms)
            vf_put(shift + j, left, vf_get(shift + j, left) + dy);
        if (job->past)
            dx += vf_get_as(stream, job->past, at + j, left);
        vf_put_as(stream, job->dx, at + j, left, dx);
    }
}

INLINE void norm_backward_block(bool rms, const norm_job *job, int64_t block)
{
    int64_t width = job->norm->width, end = ZR_MIN((block + 1) * job->block_rows, job->norm->rows);
    float *partial = job->partial + block * 2 * width;
    memset(partial, 0, sizeof(float) * (size_t)((rms ? 1 : 2) * width));
    for (int64_t i = block * job->block_rows; i < end; i++)
        WITH_TYPE(S, job->norm->stream,
                  WITH_TYPE(T, job->norm->dtype,
                            norm_backward_row(rms, S, T, job, i, partial, partial + width)));
}

static void norm_backward_blocks(const void *job_, int64_t first, int64_t last, int worker)
{
    const norm_job *job = job_;
    for (int64_t block = first; block < last; block++) {
        if (job->norm->rms)
            norm_backward_block(true, job, block);
        else
            norm_backward_block(false, job, block);
    }
}

// Sums the blocks for columns [first, last) * 16 of dgamma and dbeta, as four chains and a tree.
static void sum_norm_blocks(const void *job_, int64_t first, int64_t last, int worker)
{
    const norm_job *job = job_;
    int64_t width = job->norm->width;
    for (int64_t which = 0; which < 2; which++) {
        const float *from = job->partial + which * width;
        float *to = which ? job->dbeta : job->dgamma;
        for (int64_t j = first * 16; to && j < ZR_MIN(last * 16, width); j += LANES) {
            vf sum[4] = {{0}};
            for (int64_t block = 0; block < job->blocks; block++)
                sum[block % 4] += vf_get(from + block * 2 * width + j, width - j);
            vf total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
            vf_put(to + j, width - j,
                   job->norm->add_parameters ? vf_get(to + j, width - j) + total : total);
        }
    }
}

static int64_t norm_block_rows(int64_t rows)
{
    int64_t even = (rows + NORM_BLOCKS - 1) / NORM_BLOCKS;
    return ZR_MAX(32, even);
}

void ZR_CPU_TABLE(zr_cpu_norm_backward)(zr_queue *queue, const zr_norm *norm, const void *dy,
                                        const void *x, const void *gamma, const float *mean,
                                        const float *rstd, const void *past, void *dx,
                                        float *dgamma, float *dbeta, void *scratch)
{
    int64_t block_rows = norm_block_rows(norm->rows);
    const norm_job job = {.norm = norm,
                          .dy = dy,
                          .x = x,
                          .gamma = gamma,
                          .mean = (float *)mean,
                          .rstd = (float *)rstd,
                          .dx = dx,
                          .past = past,
                          .dgamma = dgamma,
                          .dbeta = dbeta,
                          .partial = scratch,
                          .block_rows = block_rows,
                          .blocks = (norm->rows + block_rows - 1) / block_rows};
    int64_t least = 1 + rows_worth(norm->width) / block_rows;
    zr_cpu_for(queue, job.blocks, least, norm_backward_blocks, &job);
    if (dgamma || dbeta)
        zr_cpu_for(queue, (norm->width + 15) / 16, 16, sum_norm_blocks, &job);
}

size_t ZR_CPU_TABLE(zr_cpu_norm_scratch)(const zr_norm *norm)
{
    int64_t rows = norm_block_rows(norm->rows);
    return sizeof(float) * (size_t)((norm->rows + rows - 1) / rows * 2 * norm->width);
}
