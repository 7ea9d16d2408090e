// LayerNorm. A row is read from memory once and then comes from the cache. So reading it two or
// three times (the mean, then the squares around it) keeps full precision and costs no bandwidth.
//
// dgamma and dbeta: each block of rows sums its own into scratch, [block][2][width]; the blocks are
// then added in a fixed order. The number of rows alone determines how many a block has.
#include "compute/cpu/cpu_rows.h"

typedef struct norm_job {
    const zr_norm *norm;
    const void *x, *branch, *gamma, *beta, *dy, *past; // branch, past: NULL if nothing is added
    void *sum, *y, *dx;
    float *mean, *rstd;
    bool add_parameters;
    int64_t block_rows, blocks;
    float *partial, *dgamma, *dbeta;
} norm_job;

// ---- LayerNorm forward; `at` is the element at which a row begins in the arrays ----

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

INLINE void row_add(zero_dtype stream, zero_dtype type, const norm_job *job, int64_t at)
{
    for (int64_t j = at, end = at + job->norm->width; j < end; j += LANES) {
        vf x = vf_get_as(stream, job->x, j, end - j);
        vf_put_as(stream, job->sum, j, end - j, x + vf_get_as(type, job->branch, j, end - j));
    }
}

INLINE void row_normalize(zero_dtype stream, zero_dtype type, const norm_job *job, const void *x,
                          int64_t at, float mean, float rstd)
{
    int64_t width = job->norm->width;
    for (int64_t j = 0; j < width; j += LANES) {
        int64_t left = width - j;
        vf normal = (vf_get_as(stream, x, at + j, left) - mean) * rstd;
        vf scaled = normal * vf_get_as(type, job->gamma, j, left);
        vf_put_as(type, job->y, at + j, left, scaled + vf_get_as(type, job->beta, j, left));
    }
}

INLINE void norm_row(zero_dtype stream, zero_dtype type, const norm_job *job, int64_t i)
{
    int64_t width = job->norm->width, at = i * width;
    const void *x = job->branch ? job->sum : job->x;
    if (job->branch)
        row_add(stream, type, job, at);
    float mean = row_mean(stream, x, at, width);
    float rstd = 1 / sqrtf(row_variance(stream, x, at, width, &mean) + job->norm->epsilon);
    row_normalize(stream, type, job, x, at, mean, rstd);
    if (job->mean)
        job->mean[i] = mean;
    if (job->rstd)
        job->rstd[i] = rstd;
}

static void norm_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const norm_job *job = job_;
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(S, job->norm->stream, WITH_TYPE(T, job->norm->dtype, norm_row(S, T, job, i)));
}

static void cpu_norm_forward(zr_queue *queue, const zr_norm *norm, const void *x, const void *gamma,
                             const void *beta, void *y, float *mean, float *rstd)
{
    norm_job job = {
        .norm = norm, .x = x, .gamma = gamma, .beta = beta, .y = y, .mean = mean, .rstd = rstd};
    zr_cpu_for(queue, norm->rows, norm_worth(norm->width), norm_rows, &job);
}

static void cpu_residual_norm_forward(zr_queue *queue, const zr_norm *norm, const void *x,
                                      const void *branch, void *sum, const void *gamma,
                                      const void *beta, void *y, float *mean, float *rstd)
{
    norm_job job = {.norm = norm,
                    .x = x,
                    .branch = branch,
                    .sum = sum,
                    .gamma = gamma,
                    .beta = beta,
                    .y = y,
                    .mean = mean,
                    .rstd = rstd};
    zr_cpu_for(queue, norm->rows, norm_worth(norm->width), norm_rows, &job);
}

// ---- LayerNorm backward ----

// Computes dx of one row, and adds the row's part of dgamma and dbeta to scale and shift.
INLINE void norm_backward_row(zero_dtype stream, zero_dtype type, const norm_job *job, int64_t i,
                              float *scale, float *shift)
{
    int64_t width = job->norm->width, at = i * width;
    float mean = job->mean[i], rstd = job->rstd[i];
    vf sum = {0}, dot = {0};
    for (int64_t j = 0; j < width; j += LANES) {
        int64_t left = width - j;
        vf g = vf_get_as(type, job->dy, at + j, left) * vf_get_as(type, job->gamma, j, left);
        vf normal = (vf_get_as(stream, job->x, at + j, left) - mean) * rstd;
        sum += g;
        dot += g * normal;
    }
    float mean_sum = vf_sum(sum) / (float)width, mean_dot = vf_sum(dot) / (float)width;
    for (int64_t j = 0; j < width; j += LANES) {
        int64_t left = width - j;
        vf dy = vf_get_as(type, job->dy, at + j, left),
           g = dy * vf_get_as(type, job->gamma, j, left);
        vf normal = (vf_get_as(stream, job->x, at + j, left) - mean) * rstd;
        vf dx = (g - mean_sum - normal * mean_dot) * rstd;
        vf_put(scale + j, left, vf_get(scale + j, left) + dy * normal);
        vf_put(shift + j, left, vf_get(shift + j, left) + dy);
        if (job->past)
            dx += vf_get_as(stream, job->past, at + j, left);
        vf_put_as(stream, job->dx, at + j, left, dx);
    }
}

static void norm_backward_blocks(const void *job_, int64_t first, int64_t last, int worker)
{
    const norm_job *job = job_;
    int64_t width = job->norm->width;
    for (int64_t block = first; block < last; block++) {
        float *partial = job->partial + block * 2 * width;
        int64_t end = ZR_MIN((block + 1) * job->block_rows, job->norm->rows);
        memset(partial, 0, sizeof(float) * (size_t)(2 * width));
        for (int64_t i = block * job->block_rows; i < end; i++)
            WITH_TYPE(S, job->norm->stream,
                      WITH_TYPE(T, job->norm->dtype,
                                norm_backward_row(S, T, job, i, partial, partial + width)));
    }
}

// Sums the blocks for columns [first, last) * 16 of dgamma and dbeta, as four chains and a tree.
static void norm_collect(const void *job_, int64_t first, int64_t last, int worker)
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
                   job->add_parameters ? vf_get(to + j, width - j) + total : total);
        }
    }
}

static void cpu_norm_backward(zr_queue *queue, const zr_norm *norm, const void *dy, const void *x,
                              const void *gamma, const float *mean, const float *rstd,
                              const void *past, void *dx, float *dgamma, float *dbeta,
                              bool add_parameters, void *scratch)
{
    int64_t rows = norm_block_rows(norm->rows);
    norm_job job = {
        .norm = norm,
        .dy = dy,
        .x = x,
        .gamma = gamma,
        .mean = (float *)mean,
        .rstd = (float *)rstd,
        .dx = dx,
        .past = past,
        .dgamma = dgamma,
        .dbeta = dbeta,
        .add_parameters = add_parameters,
        .partial = scratch,
        .block_rows = rows,
        .blocks = (norm->rows + rows - 1) / rows,
    };
    zr_cpu_for(queue, job.blocks, 1 + norm_worth(norm->width) / rows, norm_backward_blocks, &job);
    zr_cpu_for(queue, (norm->width + 15) / 16, 16, norm_collect, &job);
}

static size_t cpu_norm_scratch(const zr_queue *queue, const zr_norm *norm)
{
    int64_t rows = norm_block_rows(norm->rows);
    return sizeof(float) * (size_t)((norm->rows + rows - 1) / rows * 2 * norm->width);
}

const zr_row_ops ZR_CPU_TABLE(zr_cpu_row_ops) = {
    .norm_forward = cpu_norm_forward,
    .residual_norm_forward = cpu_residual_norm_forward,
    .norm_backward = cpu_norm_backward,
    .norm_scratch = cpu_norm_scratch,
    .rms_forward = ZR_CPU_TABLE(zr_cpu_rms_forward),
    .residual_rms_forward = ZR_CPU_TABLE(zr_cpu_residual_rms_forward),
    .rms_backward = ZR_CPU_TABLE(zr_cpu_rms_backward),
    .loss = ZR_CPU_TABLE(zr_cpu_loss),
    .loss_parts = ZR_CPU_TABLE(zr_cpu_loss_parts),
    .loss_finish = ZR_CPU_TABLE(zr_cpu_loss_finish),
    .softmax = ZR_CPU_TABLE(zr_cpu_softmax),
};
