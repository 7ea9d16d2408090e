// LayerNorm, softmax and cross-entropy. A row is read from memory once and then comes from the cache, so two and three
// passes over it (mean, then squares around it; maximum, then exponentials) cost no bandwidth, and keep full precision.
//
// dgamma and dbeta: each block of rows sums its own into scratch, [block][2][width]; the blocks are then added in a fixed
// order. How many rows a block has follows from their number alone.
#include "compute/cpu/cpu.h"
#include "compute/cpu/cpu_math.h"

#define SPAN 1024 // exponentials summed in fp32 before they go to a double
#define BLOCKS 64 // at most

typedef struct norm_job {
    const zr_norm *norm;
    const float *a, *b, *gamma, *beta, *dy; // a: x where b is NULL
    float *sum, *y, *mean, *rstd, *dx;
    bool add_dx, add_parameters;
    int64_t block_rows, blocks;
    float *partial, *dgamma, *dbeta;
} norm_job;

static int64_t worth(int64_t width) // rows that are worth a thread
{
    return ZR_MAX(1, 8192 / ZR_MAX(1, width));
}

// ---- LayerNorm forward ----

static float row_mean(const float *x, int64_t width)
{
    vf s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    int64_t j = 0;
    for (; j + 4 * LANES <= width; j += 4 * LANES) {
        s0 += vf_load(x + j), s1 += vf_load(x + j + LANES);
        s2 += vf_load(x + j + 2 * LANES), s3 += vf_load(x + j + 3 * LANES);
    }
    for (; j < width; j += LANES)
        s0 += vf_get(x + j, width - j);
    return vf_sum((s0 + s1) + (s2 + s3)) / (float)width;
}

// Squares around *mean, which is then corrected by what rounding left in it.
static float row_variance(const float *x, int64_t width, float *mean)
{
    vf q0 = {0}, q1 = {0}, s0 = {0}, s1 = {0};
    int64_t j = 0;
    for (; j + 2 * LANES <= width; j += 2 * LANES) {
        vf d0 = vf_load(x + j) - *mean, d1 = vf_load(x + j + LANES) - *mean;
        q0 += d0 * d0, q1 += d1 * d1;
        s0 += d0, s1 += d1;
    }
    for (; j < width; j += LANES) {
        vf d = vf_keep(vf_get(x + j, width - j) - *mean, width - j, 0);
        q0 += d * d;
        s0 += d;
    }
    float left = vf_sum(s0 + s1) / (float)width, variance = vf_sum(q0 + q1) / (float)width - left * left;
    *mean += left;
    return variance < 0 ? 0 : variance;
}

static void row_add(const float *a, const float *b, float *sum, int64_t width)
{
    for (int64_t j = 0; j < width; j += LANES)
        vf_put(sum + j, width - j, vf_get(a + j, width - j) + vf_get(b + j, width - j));
}

static void norm_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const norm_job *job = job_;
    int64_t width = job->norm->width;
    for (int64_t i = first; i < last; i++) {
        const float *x = job->a + i * width;
        float *y = job->y + i * width;
        if (job->b) {
            row_add(x, job->b + i * width, job->sum + i * width, width);
            x = job->sum + i * width;
        }
        float mean = row_mean(x, width), rstd = 1 / sqrtf(row_variance(x, width, &mean) + job->norm->epsilon);
        for (int64_t j = 0; j < width; j += LANES) {
            int64_t left = width - j;
            vf normal = (vf_get(x + j, left) - mean) * rstd;
            vf_put(y + j, left, normal * vf_get(job->gamma + j, left) + vf_get(job->beta + j, left));
        }
        if (job->mean)
            job->mean[i] = mean;
        if (job->rstd)
            job->rstd[i] = rstd;
    }
}

static void norm_forward(zr_queue *queue, const zr_norm *norm, const void *x, const float *gamma, const float *beta,
                         void *y, float *mean, float *rstd)
{
    assert(norm->dtype == ZERO_F32);
    norm_job job = {.norm = norm, .a = x, .gamma = gamma, .beta = beta, .y = y, .mean = mean, .rstd = rstd};
    zr_cpu_for(queue, norm->rows, worth(norm->width), norm_rows, &job);
}

static void residual_norm_forward(zr_queue *queue, const zr_norm *norm, const void *a, const void *b, void *sum,
                                  const float *gamma, const float *beta, void *y, float *mean, float *rstd)
{
    assert(norm->dtype == ZERO_F32);
    norm_job job = {
        .norm = norm, .a = a, .b = b, .sum = sum, .gamma = gamma, .beta = beta, .y = y, .mean = mean, .rstd = rstd};
    zr_cpu_for(queue, norm->rows, worth(norm->width), norm_rows, &job);
}

// ---- LayerNorm backward ----

static int64_t block_rows(int64_t rows)
{
    int64_t even = (rows + BLOCKS - 1) / BLOCKS;
    return ZR_MAX(32, even);
}

// dx of one row, and its part of dgamma and dbeta added to scale and shift.
static void norm_backward_row(const norm_job *job, int64_t i, float *scale, float *shift)
{
    int64_t width = job->norm->width, at = i * width;
    float mean = job->mean[i], rstd = job->rstd[i];
    vf sum = {0}, dot = {0};
    for (int64_t j = 0; j < width; j += LANES) {
        int64_t left = width - j;
        vf dy = vf_get(job->dy + at + j, left), g = dy * vf_get(job->gamma + j, left);
        vf normal = (vf_get(job->a + at + j, left) - mean) * rstd;
        sum += g;
        dot += g * normal;
    }
    float mean_sum = vf_sum(sum) / (float)width, mean_dot = vf_sum(dot) / (float)width;
    for (int64_t j = 0; j < width; j += LANES) {
        int64_t left = width - j;
        vf dy = vf_get(job->dy + at + j, left), g = dy * vf_get(job->gamma + j, left);
        vf normal = (vf_get(job->a + at + j, left) - mean) * rstd;
        vf dx = (g - mean_sum - normal * mean_dot) * rstd;
        vf_put(scale + j, left, vf_get(scale + j, left) + dy * normal);
        vf_put(shift + j, left, vf_get(shift + j, left) + dy);
        vf_put(job->dx + at + j, left, job->add_dx ? vf_get(job->dx + at + j, left) + dx : dx);
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
            norm_backward_row(job, i, partial, partial + width);
    }
}

// Columns [first, last) * 16 of dgamma and dbeta: the blocks' sums, four chains and a tree.
static void norm_collect(const void *job_, int64_t first, int64_t last, int worker)
{
    const norm_job *job = job_;
    int64_t width = job->norm->width;
    for (int64_t which = 0; which < 2; which++) {
        const float *from = job->partial + which * width;
        float *to = which ? job->dbeta : job->dgamma;
        for (int64_t j = first * 16; j < ZR_MIN(last * 16, width); j += LANES) {
            vf sum[4] = {{0}};
            for (int64_t block = 0; block < job->blocks; block++)
                sum[block % 4] += vf_get(from + block * 2 * width + j, width - j);
            vf total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
            vf_put(to + j, width - j, job->add_parameters ? vf_get(to + j, width - j) + total : total);
        }
    }
}

static void norm_backward(zr_queue *queue, const zr_norm *norm, const void *dy, const void *x, const float *gamma,
                          const float *mean, const float *rstd, void *dx, bool add_dx, float *dgamma, float *dbeta,
                          bool add_parameters, void *scratch)
{
    assert(norm->dtype == ZERO_F32);
    int64_t rows = block_rows(norm->rows);
    norm_job job = {
        .norm = norm,
        .dy = dy,
        .a = x,
        .gamma = gamma,
        .mean = (float *)mean,
        .rstd = (float *)rstd,
        .dx = dx,
        .add_dx = add_dx,
        .dgamma = dgamma,
        .dbeta = dbeta,
        .add_parameters = add_parameters,
        .partial = scratch,
        .block_rows = rows,
        .blocks = (norm->rows + rows - 1) / rows,
    };
    zr_cpu_for(queue, job.blocks, 1 + worth(norm->width) / rows, norm_backward_blocks, &job);
    zr_cpu_for(queue, (norm->width + 15) / 16, 16, norm_collect, &job);
}

static size_t norm_scratch(const zr_queue *queue, const zr_norm *norm)
{
    int64_t rows = block_rows(norm->rows);
    return sizeof(float) * (size_t)((norm->rows + rows - 1) / rows * 2 * norm->width);
}

// ---- softmax and cross-entropy ----

typedef struct softmax_job {
    int64_t width;
    float factor;
    float *x, *row_loss;
    const int32_t *target;
    bool gradient;
} softmax_job;

static float row_largest(const float *x, int64_t width)
{
    vf m0 = vf_all(-INFINITY), m1 = m0;
    int64_t j = 0;
    for (; j + 2 * LANES <= width; j += 2 * LANES) {
        m0 = vf_max(vf_load(x + j), m0);
        m1 = vf_max(vf_load(x + j + LANES), m1);
    }
    for (; j < width; j += LANES)
        m0 = vf_max(vf_keep(vf_get(x + j, width - j), width - j, -INFINITY), m0);
    return vf_largest(vf_max(m0, m1));
}

// Sum of e^(x - largest), which is written over x where `keep`.
static double row_exponentials(float *x, int64_t width, float largest, bool keep)
{
    double total = 0;
    for (int64_t start = 0; start < width; start += SPAN) {
        int64_t end = ZR_MIN(start + SPAN, width), j = start;
        vf s0 = {0}, s1 = {0};
        for (; j + 2 * LANES <= end; j += 2 * LANES) {
            vf e0 = vf_exp(vf_load(x + j) - largest), e1 = vf_exp(vf_load(x + j + LANES) - largest);
            s0 += e0, s1 += e1;
            if (keep)
                vf_store(x + j, e0), vf_store(x + j + LANES, e1);
        }
        for (; j < end; j += LANES) {
            vf e = vf_keep(vf_exp(vf_get(x + j, end - j) - largest), end - j, 0);
            s0 += e;
            if (keep)
                vf_put(x + j, end - j, e);
        }
        total += (double)vf_sum(s0 + s1);
    }
    return total;
}

static void row_multiply(float *x, int64_t width, float factor)
{
    for (int64_t j = 0; j < width; j += LANES)
        vf_put(x + j, width - j, vf_get(x + j, width - j) * factor);
}

static void loss_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const softmax_job *job = job_;
    for (int64_t i = first; i < last; i++) {
        float *x = job->x + i * job->width;
        int32_t target = job->target[i];
        assert(target < job->width);
        if (target < 0) {
            job->row_loss[i] = 0;
            if (job->gradient)
                memset(x, 0, sizeof(float) * (size_t)job->width);
            continue;
        }
        float largest = row_largest(x, job->width), aimed = x[target];
        double sum = row_exponentials(x, job->width, largest, job->gradient);
        job->row_loss[i] = (float)(log(sum) + ((double)largest - (double)aimed));
        if (!job->gradient)
            continue;
        float probability = x[target];
        row_multiply(x, job->width, (float)(job->factor / sum));
        x[target] = (float)((probability - sum) / sum * job->factor);
    }
}

static void loss(zr_queue *queue, const zr_loss *loss, void *logits, const int32_t *target, float *row_loss,
                 bool gradient)
{
    assert(loss->dtype == ZERO_F32);
    softmax_job job = {.width = loss->vocab,
                       .factor = loss->factor,
                       .x = logits,
                       .row_loss = row_loss,
                       .target = target,
                       .gradient = gradient};
    zr_cpu_for(queue, loss->rows, worth(loss->vocab), loss_rows, &job);
}

static void softmax_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const softmax_job *job = job_;
    for (int64_t i = first; i < last; i++) {
        float *x = job->x + i * job->width;
        double sum = row_exponentials(x, job->width, row_largest(x, job->width), true);
        row_multiply(x, job->width, (float)(1 / sum));
    }
}

static void softmax(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width, void *x)
{
    assert(dtype == ZERO_F32);
    softmax_job job = {.width = width, .x = x};
    zr_cpu_for(queue, rows, worth(width), softmax_rows, &job);
}

const zr_row_ops ZR_CPU_TABLE(zr_cpu_row_ops) = {
    .norm_forward = norm_forward,
    .residual_norm_forward = residual_norm_forward,
    .norm_backward = norm_backward,
    .norm_scratch = norm_scratch,
    .loss = loss,
    .softmax = softmax,
};
