// Softmax and cross-entropy. A row is read from memory once and then comes from the cache, so that
// reading it again (the maximum, then the exponentials) costs no bandwidth. An fp32 row keeps its
// exponentials between its readings. A 16-bit row keeps them in the queue's scratch, because what
// it stores must be rounded once; if that has no room it computes them twice, which gives the same
// bits.
#include "compute/cpu/cpu_tables.h"
#include "compute/backends.h"

// Exponentials that are summed in fp32 before the sum is added to a double.
#define SPAN 1024
#define LINE 16   // fp32 elements in a cache line
#define JOINED 32 // logits that take as long as joining a part to those of the other slices

typedef struct softmax_job {
    zero_dtype dtype;
    int64_t width, step; // step: from a row to the next
    float factor;
    const float *weight; // (rows) of the gradients; NULL: all are 1
    void *x;
    float *row_loss;
    const int32_t *target;
    bool gradient;
    float *rooms; // a row for each worker; NULL if there is no room
    // Of slices: what loss_parts writes; what loss_finish reads, of row i and slice t at
    // given[t*stride + i].
    zr_loss_part *parts;
    const zr_loss_part *given;
    int slices;
    int64_t stride;
} softmax_job;

static void *softmax_row(const softmax_job *job, int64_t i)
{
    return (char *)job->x + i * job->step * (int64_t)zero_dtype_bytes(job->dtype);
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

// Returns the sum of e^(x - largest); the exponentials go to `kept`, which may be x, or NULL.
INLINE double row_exponentials(zero_dtype type, const void *x, int64_t width, float largest,
                               float *kept)
{
    double total = 0;
    for (int64_t start = 0; start < width; start += SPAN) {
        int64_t end = ZR_MIN(start + SPAN, width), j = start;
        vf s0 = {0}, s1 = {0};
        for (; j + 2 * LANES <= end; j += 2 * LANES) {
            vf e0 = vf_exp(vf_get_as(type, x, j, LANES) - largest);
            vf e1 = vf_exp(vf_get_as(type, x, j + LANES, LANES) - largest);
            s0 += e0, s1 += e1;
            if (kept)
                vf_store(kept + j, e0), vf_store(kept + j + LANES, e1);
        }
        for (; j < end; j += LANES) {
            vf e = vf_keep(vf_exp(vf_get_as(type, x, j, end - j) - largest), end - j, 0);
            s0 += e;
            if (kept)
                vf_put(kept + j, end - j, e);
        }
        total += (double)vf_sum(s0 + s1);
    }
    return total;
}

// x = e^(x - largest) * factor; kept: the exponentials, or NULL.
INLINE void row_multiply(zero_dtype type, void *x, int64_t width, float largest, const float *kept,
                         float factor)
{
    for (int64_t j = 0; j < width; j += LANES) {
        int64_t left = width - j;
        vf e = kept ? vf_get(kept + j, left) : vf_exp(vf_get_as(type, x, j, left) - largest);
        vf_put_as(type, x, j, left, e * factor);
    }
}

// Returns a worker's room for a row's exponentials; NULL if there is none.
INLINE float *row_room(zero_dtype type, const softmax_job *job, void *x, int worker)
{
    if (type == ZERO_F32)
        return x;
    return job->rooms ? job->rooms + worker * ZR_ROUND_UP(job->width, LINE) : NULL;
}

// Returns the queue's scratch if it has room for a row of each worker.
static float *row_scratch_of(const zr_queue *queue, int64_t width)
{
    size_t needed = sizeof(float) * (size_t)(queue->threads * ZR_ROUND_UP(width, LINE));
    return queue->scratch && needed <= queue->scratch_bytes ? queue->scratch : NULL;
}

// Sets loss and gradient of a row that does not count to 0.
static void row_leave_out(const softmax_job *job, int64_t i)
{
    job->row_loss[i] = 0;
    if (job->gradient && job->width > 0)
        memset(softmax_row(job, i), 0, zero_dtype_bytes(job->dtype) * (size_t)job->width);
}

static float loss_of_parts(const zr_loss_part *whole)
{
    return (float)(log(whole->sum) + ((double)whole->largest - (double)whole->aimed));
}

// Returns by what the gradient of a row is multiplied.
static float row_factor(const softmax_job *job, int64_t i)
{
    return job->weight ? job->factor * job->weight[i] : job->factor;
}

// Turns logits into gradients. whole: of all slices of the row; kept: as in row_multiply.
INLINE void row_gradient(zero_dtype type, const softmax_job *job, int64_t i,
                         const zr_loss_part *whole, const float *kept)
{
    void *x = softmax_row(job, i);
    int32_t target = job->target[i];
    double sum = whole->sum;
    float factor = row_factor(job, i);
    row_multiply(type, x, job->width, whole->largest, kept, (float)(factor / sum));
    if (target < 0 || target >= job->width)
        return;
    double probability = vf_exp(vf_all(whole->aimed - whole->largest))[0];
    vf_put_as(type, x, target, 1, vf_all((float)((probability - sum) / sum * factor)));
}

INLINE void loss_row(zero_dtype type, const softmax_job *job, int64_t i, int worker)
{
    void *x = softmax_row(job, i);
    int64_t width = job->width;
    int32_t target = job->target[i];
    float *kept = job->gradient ? row_room(type, job, x, worker) : NULL;
    assert(target < width);
    if (target < 0) {
        row_leave_out(job, i);
        return;
    }
    zr_loss_part whole = {.largest = row_largest(type, x, width),
                          .aimed = vf_get_as(type, x, target, 1)[0]};
    whole.sum = row_exponentials(type, x, width, whole.largest, kept);
    job->row_loss[i] = loss_of_parts(&whole);
    if (job->gradient)
        row_gradient(type, job, i, &whole, kept);
}

static void loss_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const softmax_job *job = job_;
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(T, job->dtype, loss_row(T, job, i, worker));
}

void ZR_CPU_TABLE(zr_cpu_loss)(zr_queue *queue, const zr_loss *loss, const int32_t *target,
                               const float *factor, const float *weight, void *logits,
                               float *row_loss)
{
    softmax_job job = {.dtype = loss->dtype,
                       .width = loss->vocab,
                       .step = ZR_LOGIT_STEP(loss),
                       .factor = loss->gradient && factor ? *factor : 0,
                       .weight = weight,
                       .x = logits,
                       .row_loss = row_loss,
                       .target = target,
                       .gradient = loss->gradient,
                       .rooms = row_scratch_of(queue, loss->vocab)};
    zr_cpu_for(queue, loss->rows, rows_worth(loss->vocab), loss_rows, &job);
}

// ---- the loss over slices of the vocabulary ----

INLINE void part_row(zero_dtype type, const softmax_job *job, int64_t i)
{
    const void *x = softmax_row(job, i);
    int32_t target = job->target[i];
    zr_loss_part part = {.largest = -INFINITY, .aimed = -INFINITY};
    if (target != ZR_TARGET_NONE) {
        part.largest = row_largest(type, x, job->width);
        // Where all logits are -infinity, they have no distance from the largest.
        float shift = part.largest == -INFINITY ? 0 : part.largest;
        part.sum = row_exponentials(type, x, job->width, shift, NULL);
        if (target >= 0 && target < job->width)
            part.aimed = vf_get_as(type, x, target, 1)[0];
    }
    job->parts[i] = part;
}

static void loss_part_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const softmax_job *job = job_;
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(T, job->dtype, part_row(T, job, i));
}

void ZR_CPU_TABLE(zr_cpu_loss_parts)(zr_queue *queue, const zr_loss *loss, const int32_t *target,
                                     const void *logits, zr_loss_part *parts)
{
    softmax_job job = {.dtype = loss->dtype,
                       .width = loss->vocab,
                       .step = ZR_LOGIT_STEP(loss),
                       .x = (void *)logits,
                       .target = target,
                       .parts = parts};
    zr_cpu_for(queue, loss->rows, rows_worth(loss->vocab), loss_part_rows, &job);
}

INLINE void finish_row(zero_dtype type, const softmax_job *job, int64_t i)
{
    if (job->target[i] == ZR_TARGET_NONE) {
        row_leave_out(job, i);
        return;
    }
    const zr_loss_part whole = zr_loss_parts_join(job->given + i, job->slices, job->stride);
    job->row_loss[i] = loss_of_parts(&whole);
    if (job->gradient)
        row_gradient(type, job, i, &whole, NULL);
}

static void finish_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const softmax_job *job = job_;
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(T, job->dtype, finish_row(T, job, i));
}

void ZR_CPU_TABLE(zr_cpu_loss_finish)(zr_queue *queue, const zr_loss *loss,
                                      const zr_loss_part *parts, const int32_t *target,
                                      const float *factor, const float *weight, void *logits,
                                      float *row_loss)
{
    softmax_job job = {.dtype = loss->dtype,
                       .width = loss->vocab,
                       .step = ZR_LOGIT_STEP(loss),
                       .factor = loss->gradient && factor ? *factor : 0,
                       .weight = weight,
                       .x = logits,
                       .row_loss = row_loss,
                       .target = target,
                       .gradient = loss->gradient,
                       .given = parts,
                       .slices = loss->slices,
                       .stride = loss->stride};
    int64_t work = loss->slices * JOINED + (loss->gradient ? loss->vocab : 0);
    zr_cpu_for(queue, loss->rows, rows_worth(work), finish_rows, &job);
}

// ---- softmax ----

INLINE void row_softmax(zero_dtype type, void *x, int64_t width)
{
    float largest = row_largest(type, x, width), *kept = type == ZERO_F32 ? x : NULL;
    double sum = row_exponentials(type, x, width, largest, kept);
    row_multiply(type, x, width, largest, kept, (float)(1 / sum));
}

static void softmax_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const softmax_job *job = job_;
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(T, job->dtype, row_softmax(T, softmax_row(job, i), job->width));
}

void ZR_CPU_TABLE(zr_cpu_softmax)(zr_queue *queue, const zr_matrix *matrix, void *x)
{
    softmax_job job = {
        .dtype = matrix->dtype, .width = matrix->width, .step = matrix->width, .x = x};
    zr_cpu_for(queue, matrix->rows, rows_worth(matrix->width), softmax_rows, &job);
}

typedef struct ids_job {
    int64_t first, count;
    const int32_t *ids;
    int32_t *out;
} ids_job;

static void local_ids_of_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const ids_job *job = job_;
    for (int64_t i = first; i < last; i++) {
        int64_t id = job->ids[i] - job->first;
        bool here = id >= 0 && id < job->count;
        job->out[i] = job->ids[i] < 0 ? ZR_TARGET_NONE : here ? (int32_t)id : -1;
    }
}

void ZR_CPU_TABLE(zr_cpu_local_ids)(zr_queue *queue, const zr_id_range *range, const int32_t *ids,
                                    int32_t *out)
{
    const ids_job job = {.first = range->first, .count = range->count, .ids = ids, .out = out};
    zr_cpu_for(queue, range->n, 1 << 16, local_ids_of_rows, &job);
}

// The order of additions is promised, so the rows of one micro-batch are added one by one.
void ZR_CPU_TABLE(zr_cpu_sum_rows)(zr_queue *queue, const zr_row_sum *of, const double *divisor,
                                   const float *x, double *out)
{
    double sum = 0;
    for (int64_t i = 0; i < of->n; i++)
        sum += x[i];
    *out = *divisor != 0 ? sum / *divisor : 0;
}
