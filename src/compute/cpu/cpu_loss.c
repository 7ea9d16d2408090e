// Softmax and cross-entropy. A row is read from memory once and then comes from the cache, so that
// reading it again (the maximum, then the exponentials) costs no bandwidth. An fp32 row keeps its
// exponentials between its readings; a 16-bit row computes them twice, so that what it stores is
// rounded once.
#include "compute/cpu/cpu_loss.h"
#include "compute/cpu/cpu_norm.h"

// Exponentials that are summed in fp32 before the sum is added to a double.
#define SPAN 1024

typedef struct softmax_job {
    zero_dtype dtype;
    int64_t width;
    float factor;
    void *x;
    float *row_loss;
    const int32_t *target;
    bool gradient;
} softmax_job;

static void *softmax_row(const softmax_job *job, int64_t i)
{
    return (char *)job->x + i * job->width * (int64_t)zero_dtype_bytes(job->dtype);
}

INLINE float row_largest(zero_dtype type, const void *x, int64_t width)
{
    vf m0 = vf_all(-INFINITY), m1 = m0;
    int64_t j = 0;
    for (; j + 2 * LANES <= width; j += 2 * LANES) {
        m0 = vf_max(vf_get_as(type, x, j, LANES), m0);
        m1 = vf_max(vf_get_as(type, x, j + LANES, LANES), m1);
    }
    for (; j < width; j += LANES)
        m0 = vf_max(vf_keep(vf_get_as(type, x, j, width - j), width - j, -INFINITY), m0);
    return vf_largest(vf_max(m0, m1));
}

// Returns the sum of e^(x - largest); with `keep`, the exponentials overwrite x.
INLINE double row_exponentials(zero_dtype type, void *x, int64_t width, float largest, bool keep)
{
    double total = 0;
    for (int64_t start = 0; start < width; start += SPAN) {
        int64_t end = ZR_MIN(start + SPAN, width), j = start;
        vf s0 = {0}, s1 = {0};
        for (; j + 2 * LANES <= end; j += 2 * LANES) {
            vf e0 = vf_exp(vf_get_as(type, x, j, LANES) - largest);
            vf e1 = vf_exp(vf_get_as(type, x, j + LANES, LANES) - largest);
            s0 += e0, s1 += e1;
            if (keep)
                vf_put_as(type, x, j, LANES, e0), vf_put_as(type, x, j + LANES, LANES, e1);
        }
        for (; j < end; j += LANES) {
            vf e = vf_keep(vf_exp(vf_get_as(type, x, j, end - j) - largest), end - j, 0);
            s0 += e;
            if (keep)
                vf_put_as(type, x, j, end - j, e);
        }
        total += (double)vf_sum(s0 + s1);
    }
    return total;
}

// x = e^(x - largest) * factor, or x * factor where x holds kept exponentials.
INLINE void row_multiply(zero_dtype type, void *x, int64_t width, float largest, bool kept,
                         float factor)
{
    for (int64_t j = 0; j < width; j += LANES) {
        vf e = vf_get_as(type, x, j, width - j);
        vf_put_as(type, x, j, width - j, (kept ? e : vf_exp(e - largest)) * factor);
    }
}

INLINE void loss_row(zero_dtype type, const softmax_job *job, int64_t i)
{
    void *x = softmax_row(job, i);
    int64_t width = job->width;
    int32_t target = job->target[i];
    assert(target < width);
    if (target < 0) {
        job->row_loss[i] = 0;
        if (job->gradient)
            memset(x, 0, zero_dtype_bytes(type) * (size_t)width);
        return;
    }
    float largest = row_largest(type, x, width), aimed = vf_get_as(type, x, target, 1)[0];
    double sum = row_exponentials(type, x, width, largest, type == ZERO_F32 && job->gradient);
    job->row_loss[i] = (float)(log(sum) + ((double)largest - (double)aimed));
    if (!job->gradient)
        return;
    row_multiply(type, x, width, largest, type == ZERO_F32, (float)(job->factor / sum));
    double probability = vf_exp(vf_all(aimed - largest))[0];
    vf_put_as(type, x, target, 1, vf_all((float)((probability - sum) / sum * job->factor)));
}

static void loss_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const softmax_job *job = job_;
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(T, job->dtype, loss_row(T, job, i));
}

void ZR_CPU_TABLE(zr_cpu_loss)(zr_queue *queue, const zr_loss *loss, void *logits,
                               const int32_t *target, float *row_loss, bool gradient)
{
    softmax_job job = {.dtype = loss->dtype,
                       .width = loss->vocab,
                       .factor = loss->factor,
                       .x = logits,
                       .row_loss = row_loss,
                       .target = target,
                       .gradient = gradient};
    zr_cpu_for(queue, loss->rows, norm_worth(loss->vocab), loss_rows, &job);
}

INLINE void row_softmax(zero_dtype type, void *x, int64_t width)
{
    float largest = row_largest(type, x, width);
    double sum = row_exponentials(type, x, width, largest, type == ZERO_F32);
    row_multiply(type, x, width, largest, type == ZERO_F32, (float)(1 / sum));
}

static void softmax_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const softmax_job *job = job_;
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(T, job->dtype, row_softmax(T, softmax_row(job, i), job->width));
}

void ZR_CPU_TABLE(zr_cpu_softmax)(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width,
                                  void *x)
{
    softmax_job job = {.dtype = dtype, .width = width, .x = x};
    zr_cpu_for(queue, rows, norm_worth(width), softmax_rows, &job);
}
