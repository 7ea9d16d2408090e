// The embedding: forward goes by rows; backward by columns, so that each thread takes all rows in
// order.
#include "compute/cpu/cpu_tables.h"

typedef struct embedding_job {
    int64_t rows, seq, width;
    const int32_t *ids;
    zero_dtype dtype, stream;
    const void *tokens, *positions, *d;
    void *out;
    float *d_tokens, *d_positions;
} embedding_job;

INLINE void embedding_row(zero_dtype type, zero_dtype stream, const embedding_job *job, int64_t i)
{
    int64_t width = job->width, token = job->ids[i] * width, position = i % job->seq * width;
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
            WITH_TYPE(S, job->stream, WITH_TYPE(T, job->dtype, embedding_row(T, S, job, i)));
}

void ZR_CPU_TABLE(zr_cpu_embedding_forward)(zr_queue *queue, zero_dtype dtype, zero_dtype stream,
                                            int64_t rows, int64_t seq, int64_t width,
                                            const int32_t *ids, const void *tokens,
                                            const void *positions, void *out)
{
    embedding_job job = {.rows = rows,
                         .seq = seq,
                         .width = width,
                         .ids = ids,
                         .dtype = dtype,
                         .stream = stream,
                         .tokens = tokens,
                         .positions = positions,
                         .out = out};
    zr_cpu_for(queue, rows, 1 + WORTH / ZR_MAX(1, width), embedding_forward_rows, &job);
}

typedef struct positions_job {
    int64_t seq, first, width;
    zero_dtype dtype;
    const void *positions; // NULL if there are none
    float *x;
} positions_job;

INLINE void positions_row(zero_dtype type, const positions_job *job, int64_t i)
{
    int64_t width = job->width, position = (job->first + i) % job->seq * width;
    float *row = job->x + i * width;
    for (int64_t j = 0; j < width; j += LANES) {
        vf x = vf_get(row + j, width - j) + 0.0f;
        if (job->positions)
            x += vf_get_as(type, job->positions, position + j, width - j);
        vf_put(row + j, width - j, x);
    }
}

static void positions_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const positions_job *job = job_;
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(T, job->dtype, positions_row(T, job, i));
}

void ZR_CPU_TABLE(zr_cpu_add_positions)(zr_queue *queue, zero_dtype dtype, int64_t rows,
                                        int64_t seq, int64_t first, int64_t width,
                                        const void *positions, float *x)
{
    positions_job job = {
        .seq = seq, .first = first, .width = width, .dtype = dtype, .positions = positions, .x = x};
    zr_cpu_for(queue, rows, 1 + WORTH / ZR_MAX(1, width), positions_rows, &job);
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
    int64_t width = job->width;
    for (int64_t i = 0; i < job->rows; i++) {
        if (job->d_tokens && job->ids[i] >= 0)
            row_add_range(type, job->d_tokens + job->ids[i] * width, job->d, i * width, begin, end);
        if (job->d_positions)
            row_add_range(type, job->d_positions + i % job->seq * width, job->d, i * width, begin,
                          end);
    }
}

static void embedding_backward_columns(const void *job_, int64_t first, int64_t last, int worker)
{
    const embedding_job *job = job_;
    int64_t end = ZR_MIN(last * 16, job->width);
    WITH_TYPE(S, job->stream, embedding_columns_as(S, job, first * 16, end));
}

void ZR_CPU_TABLE(zr_cpu_embedding_backward)(zr_queue *queue, zero_dtype stream, int64_t rows,
                                             int64_t seq, int64_t width, const int32_t *ids,
                                             const void *d, int64_t vocab, float *d_tokens,
                                             bool add_tokens, int64_t max_seq, float *d_positions,
                                             bool add_positions)
{
    assert(!d_positions || seq <= max_seq);
    embedding_job job = {.rows = rows,
                         .seq = seq,
                         .width = width,
                         .ids = ids,
                         .stream = stream,
                         .d = d,
                         .d_tokens = d_tokens,
                         .d_positions = d_positions};
    for (int64_t i = 0; i < rows; i++)
        assert(ids[i] < vocab);
    if (d_tokens && !add_tokens)
        queue->backend->elements->zero(queue, vocab * width * (int64_t)sizeof(float), d_tokens);
    if (d_positions && !add_positions)
        queue->backend->elements->zero(queue, max_seq * width * (int64_t)sizeof(float),
                                       d_positions);
    zr_cpu_for(queue, (width + 15) / 16, 1 + WORTH / (16 * ZR_MAX(1, rows)),
               embedding_backward_columns, &job);
}
