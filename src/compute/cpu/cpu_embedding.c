// The embedding: forward goes by rows; backward by columns, so that each thread takes all rows in
// order.
#include "compute/cpu/cpu_tables.h"

typedef struct embedding_job {
    const zr_embedding *of;
    const int32_t *ids;
    const void *tokens, *positions, *d;
    void *out;
    float *d_tokens, *d_positions;
} embedding_job;

INLINE void embedding_row(zero_dtype type, zero_dtype stream, const embedding_job *job, int64_t i)
{
    int64_t width = job->of->width, token = job->ids[i] * width,
            position = i % job->of->seq * width;
    for (int64_t j = 0; j < width; j += LANES) {
        vf x = vf_get_as(type, job->tokens, token + j, width - j);
        if (job->positions)
            x += vf_get_as(type, job->positions, position + j, width - j);
        vf_put_as(stream, job->out, i * width + j, width - j, x);
    }
}

static void embedding_forward_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const embedding_job *job = job_;
    for (int64_t i = first; i < last; i++)
        if (job->ids[i] >= 0)
            WITH_TYPE(S, job->of->stream,
                      WITH_TYPE(T, job->of->dtype, embedding_row(T, S, job, i)));
}

void ZR_CPU_TABLE(zr_cpu_embedding_forward)(zr_queue *queue, const zr_embedding *of,
                                            const int32_t *ids, const void *tokens,
                                            const void *positions, void *out)
{
    const embedding_job job = {
        .of = of, .ids = ids, .tokens = tokens, .positions = positions, .out = out};
    zr_cpu_for(queue, of->rows, 1 + WORTH / ZR_MAX(1, of->width), embedding_forward_rows, &job);
}

INLINE void positions_row(zero_dtype type, const embedding_job *job, int64_t i)
{
    int64_t width = job->of->width, position = (job->of->first + i) % job->of->seq * width;
    float *row = (float *)job->out + i * width;
    for (int64_t j = 0; j < width; j += LANES) {
        vf x = vf_get(row + j, width - j) + 0.0f;
        if (job->positions)
            x += vf_get_as(type, job->positions, position + j, width - j);
        vf_put(row + j, width - j, x);
    }
}

static void positions_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const embedding_job *job = job_;
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(T, job->of->dtype, positions_row(T, job, i));
}

void ZR_CPU_TABLE(zr_cpu_add_positions)(zr_queue *queue, const zr_embedding *of,
                                        const void *positions, float *x)
{
    const embedding_job job = {.of = of, .positions = positions, .out = x};
    zr_cpu_for(queue, of->rows, 1 + WORTH / ZR_MAX(1, of->width), positions_rows, &job);
}

// Adds from[at + j] to to[j], for columns j in [first, end).
INLINE void row_add_range(zero_dtype type, float *to, const void *from, int64_t at, int64_t first,
                          int64_t end)
{
    for (int64_t j = first; j < end; j += LANES)
        vf_put(to + j, end - j, vf_get(to + j, end - j) + vf_get_as(type, from, at + j, end - j));
}

INLINE void embedding_columns_as(zero_dtype type, const embedding_job *job, int64_t begin,
                                 int64_t end)
{
    int64_t width = job->of->width;
    for (int64_t i = 0; i < job->of->rows; i++) {
        if (job->d_tokens && job->ids[i] >= 0)
            row_add_range(type, job->d_tokens + job->ids[i] * width, job->d, i * width, begin, end);
        if (job->d_positions)
            row_add_range(type, job->d_positions + i % job->of->seq * width, job->d, i * width,
                          begin, end);
    }
}

static void embedding_backward_columns(const void *job_, int64_t first, int64_t last, int worker)
{
    const embedding_job *job = job_;
    int64_t end = ZR_MIN(last * 16, job->of->width);
    WITH_TYPE(S, job->of->stream, embedding_columns_as(S, job, first * 16, end));
}

void ZR_CPU_TABLE(zr_cpu_embedding_backward)(zr_queue *queue, const zr_embedding *of,
                                             const int32_t *ids, const void *d, float *d_tokens,
                                             float *d_positions)
{
    assert(!d_positions || of->seq <= of->positions);
    const embedding_job job = {
        .of = of, .ids = ids, .d = d, .d_tokens = d_tokens, .d_positions = d_positions};
    const int64_t row = of->width * (int64_t)sizeof(float);
    for (int64_t i = 0; i < of->rows; i++)
        assert(ids[i] < of->vocab);
    if (d_tokens && !of->add_tokens)
        zr_run(queue, zr_op_fill(&(zr_bytes){of->vocab * row}, d_tokens));
    if (d_positions && !of->add_positions)
        zr_run(queue, zr_op_fill(&(zr_bytes){of->positions * row}, d_positions));
    zr_cpu_for(queue, (of->width + 15) / 16, 1 + WORTH / (16 * ZR_MAX(1, of->rows)),
               embedding_backward_columns, &job);
}
