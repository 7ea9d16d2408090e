// Elementwise operations, column sums, embedding. All are bound by memory; each element's result is the same wherever it
// lies in its vector, because the last lanes of a range go through the same vector code.
//
// gelu_new: 0.5 x (1 + tanh(u)) = x / (1 + e^(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3).
#include "compute/cpu/cpu.h"
#include "compute/cpu/cpu_math.h"

#define UNIT 64         // elements a task
#define WORTH (1 << 14) // elements that are worth a thread
#define BLOCKS 64       // of rows, at most, in a column sum

#define GELU_SLOPE 1.5957691216057308f // 2 sqrt(2/pi)
#define GELU_CUBIC 0.044715f

typedef struct element_job {
    int64_t n;
    const float *a, *b;
    float *out;
    float p;
    uint64_t key;
} element_job;

static void elements_for(const zr_queue *queue, const element_job *job, zr_cpu_body *body)
{
    zr_cpu_for(queue, (job->n + UNIT - 1) / UNIT, WORTH / UNIT, body, job);
}

static void gelu_forward_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const element_job *job = job_;
    int64_t end = ZR_MIN(last * UNIT, job->n);
    for (int64_t i = first * UNIT; i < end; i += LANES) {
        vf x = vf_get(job->a + i, end - i);
        vf u = GELU_SLOPE * (x + GELU_CUBIC * (x * x * x));
        vf_put(job->out + i, end - i, x * vf_logistic(u));
    }
}

static void gelu_forward(zr_queue *queue, zero_dtype dtype, int64_t n, const void *pre, void *out)
{
    assert(dtype == ZERO_F32);
    element_job job = {.n = n, .a = pre, .out = out};
    elements_for(queue, &job, gelu_forward_range);
}

// The slope is 0 or 1 long before |x| = 10, up to which nothing here overflows.
static void gelu_backward_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const element_job *job = job_;
    int64_t end = ZR_MIN(last * UNIT, job->n);
    for (int64_t i = first * UNIT; i < end; i += LANES) {
        vf x = vf_min(vf_all(10), vf_max(vf_all(-10), vf_get(job->a + i, end - i)));
        vf e = vf_exp(-GELU_SLOPE * (x + GELU_CUBIC * (x * x * x)));
        vf s = 1.0f / (1.0f + e);
        vf slope = s + x * (e * s * s) * (GELU_SLOPE * (1.0f + 3 * GELU_CUBIC * (x * x)));
        vf_put(job->out + i, end - i, vf_get(job->out + i, end - i) * slope);
    }
}

static void gelu_backward(zr_queue *queue, zero_dtype dtype, int64_t n, const void *pre, void *d)
{
    assert(dtype == ZERO_F32);
    element_job job = {.n = n, .a = pre, .out = d};
    elements_for(queue, &job, gelu_backward_range);
}

static void add_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const element_job *job = job_;
    int64_t end = ZR_MIN(last * UNIT, job->n);
    for (int64_t i = first * UNIT; i < end; i += LANES)
        vf_put(job->out + i, end - i, vf_get(job->a + i, end - i) + vf_get(job->b + i, end - i));
}

static void add(zr_queue *queue, zero_dtype dtype, int64_t n, const void *a, const void *b, void *out)
{
    assert(dtype == ZERO_F32);
    element_job job = {.n = n, .a = a, .b = b, .out = out};
    elements_for(queue, &job, add_range);
}

static void dropout_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const element_job *job = job_;
    uint64_t threshold = zr_dropout_threshold(job->p);
    float factor = zr_dropout_factor(job->p);
    uint32_t words[PHILOX_ROOM];
    int64_t end = ZR_MIN(last * UNIT, job->n);
    for (int64_t start = first * UNIT; start < end; start += PHILOX_WORDS) {
        philox_words(job->key, (uint64_t)start / 4, words);
        for (int64_t i = start; i < ZR_MIN(start + PHILOX_WORDS, end); i += LANES) {
            vf scaled = vf_get(job->a + i, end - i) * factor;
            vf_put(job->out + i, end - i, (vf)((vi)scaled & words_kept(words + (i - start), threshold)));
        }
    }
}

static void dropout(zr_queue *queue, zero_dtype dtype, int64_t n, float p, uint64_t key, const void *x, void *out)
{
    assert(dtype == ZERO_F32);
    element_job job = {.n = n, .a = x, .out = out, .p = p, .key = key};
    elements_for(queue, &job, dropout_range);
}

// ---- column sums: blocks of rows into scratch, [block][width], then the blocks in a fixed order ----

typedef struct column_job {
    const float *x;
    float *partial, *out;
    int64_t rows, width, block_rows, blocks;
    bool add;
} column_job;

static int64_t column_block_rows(int64_t rows)
{
    int64_t even = (rows + BLOCKS - 1) / BLOCKS;
    return ZR_MAX(32, ZR_ROUND_UP(even, 4));
}

static void column_blocks(const void *job_, int64_t first, int64_t last, int worker)
{
    const column_job *job = job_;
    int64_t width = job->width;
    for (int64_t block = first; block < last; block++) {
        float *sum = job->partial + block * width;
        int64_t i = block * job->block_rows, end = ZR_MIN(i + job->block_rows, job->rows);
        memset(sum, 0, sizeof(float) * (size_t)width);
        for (; i + 4 <= end; i += 4)
            for (int64_t j = 0; j < width; j += LANES) {
                const float *x = job->x + i * width + j;
                int64_t left = width - j;
                vf four = (vf_get(x, left) + vf_get(x + width, left))
                          + (vf_get(x + 2 * width, left) + vf_get(x + 3 * width, left));
                vf_put(sum + j, left, vf_get(sum + j, left) + four);
            }
        for (; i < end; i++)
            for (int64_t j = 0; j < width; j += LANES)
                vf_put(sum + j, width - j, vf_get(sum + j, width - j) + vf_get(job->x + i * width + j, width - j));
    }
}

static void column_collect(const void *job_, int64_t first, int64_t last, int worker)
{
    const column_job *job = job_;
    int64_t width = job->width;
    for (int64_t j = first * 16; j < ZR_MIN(last * 16, width); j += LANES) {
        vf sum[4] = {{0}};
        for (int64_t block = 0; block < job->blocks; block++)
            sum[block % 4] += vf_get(job->partial + block * width + j, width - j);
        vf total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        vf_put(job->out + j, width - j, job->add ? vf_get(job->out + j, width - j) + total : total);
    }
}

static void column_sum(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width, const void *x, float *out,
                       bool add, void *scratch)
{
    assert(dtype == ZERO_F32);
    int64_t of_block = column_block_rows(rows);
    column_job job = {.x = x,
                      .partial = scratch,
                      .out = out,
                      .rows = rows,
                      .width = width,
                      .block_rows = of_block,
                      .blocks = (rows + of_block - 1) / of_block,
                      .add = add};
    zr_cpu_for(queue, job.blocks, 1 + WORTH / ZR_MAX(1, of_block * width), column_blocks, &job);
    zr_cpu_for(queue, (width + 15) / 16, 16, column_collect, &job);
}

static size_t column_sum_scratch(const zr_queue *queue, int64_t rows, int64_t width)
{
    int64_t of_block = column_block_rows(rows);
    return sizeof(float) * (size_t)((rows + of_block - 1) / of_block * width);
}

// ---- embedding: forward by rows; backward by columns, each thread taking all rows in their order ----

typedef struct embedding_job {
    int64_t rows, seq, width;
    const int32_t *ids;
    const float *tokens, *positions, *d;
    float *out, *d_tokens, *d_positions;
} embedding_job;

static void embedding_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const embedding_job *job = job_;
    int64_t width = job->width;
    for (int64_t i = first; i < last; i++) {
        const float *token = job->tokens + job->ids[i] * width, *position = job->positions + i % job->seq * width;
        float *out = job->out + i * width;
        if (!job->positions)
            memcpy(out, token, sizeof(float) * (size_t)width);
        for (int64_t j = 0; job->positions && j < width; j += LANES)
            vf_put(out + j, width - j, vf_get(token + j, width - j) + vf_get(position + j, width - j));
    }
}

static void embedding_forward(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t seq, int64_t width,
                              const int32_t *ids, const void *tokens, const void *positions, void *out)
{
    assert(dtype == ZERO_F32);
    embedding_job job = {
        .rows = rows, .seq = seq, .width = width, .ids = ids, .tokens = tokens, .positions = positions, .out = out};
    zr_cpu_for(queue, rows, 1 + WORTH / ZR_MAX(1, width), embedding_rows, &job);
}

static void row_add_range(float *to, const float *from, int64_t first, int64_t end)
{
    for (int64_t j = first; j < end; j += LANES)
        vf_put(to + j, end - j, vf_get(to + j, end - j) + vf_get(from + j, end - j));
}

static void embedding_columns(const void *job_, int64_t first, int64_t last, int worker)
{
    const embedding_job *job = job_;
    int64_t width = job->width, begin = first * 16, end = ZR_MIN(last * 16, width);
    for (int64_t i = 0; i < job->rows; i++) {
        const float *d = job->d + i * width;
        row_add_range(job->d_tokens + job->ids[i] * width, d, begin, end);
        if (job->d_positions)
            row_add_range(job->d_positions + i % job->seq * width, d, begin, end);
    }
}

static void zero(zr_queue *queue, int64_t bytes, void *to);

static void embedding_backward(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t seq, int64_t width,
                               const int32_t *ids, const void *d, int64_t vocab, float *d_tokens, bool add_tokens,
                               int64_t max_seq, float *d_positions, bool add_positions)
{
    assert(dtype == ZERO_F32 && (!d_positions || seq <= max_seq));
    embedding_job job = {
        .rows = rows, .seq = seq, .width = width, .ids = ids, .d = d, .d_tokens = d_tokens, .d_positions = d_positions};
    for (int64_t i = 0; i < rows; i++)
        assert(ids[i] >= 0 && ids[i] < vocab);
    if (!add_tokens)
        zero(queue, vocab * width * (int64_t)sizeof(float), d_tokens);
    if (d_positions && !add_positions)
        zero(queue, max_seq * width * (int64_t)sizeof(float), d_positions);
    zr_cpu_for(queue, (width + 15) / 16, 1 + WORTH / (16 * ZR_MAX(1, rows)), embedding_columns, &job);
}

// ---- bytes ----

typedef struct byte_job {
    int64_t bytes;
    const char *from;
    char *to;
} byte_job;

#define PAGE 4096 // bytes a task

static void copy_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const byte_job *job = job_;
    memcpy(job->to + first * PAGE, job->from + first * PAGE, (size_t)(ZR_MIN(last * PAGE, job->bytes) - first * PAGE));
}

static void copy(zr_queue *queue, int64_t bytes, const void *from, void *to)
{
    byte_job job = {.bytes = bytes, .from = from, .to = to};
    zr_cpu_for(queue, (bytes + PAGE - 1) / PAGE, 32, copy_range, &job);
}

static void zero_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const byte_job *job = job_;
    memset(job->to + first * PAGE, 0, (size_t)(ZR_MIN(last * PAGE, job->bytes) - first * PAGE));
}

static void zero(zr_queue *queue, int64_t bytes, void *to)
{
    byte_job job = {.bytes = bytes, .to = to};
    zr_cpu_for(queue, (bytes + PAGE - 1) / PAGE, 32, zero_range, &job);
}

const zr_element_ops ZR_CPU_TABLE(zr_cpu_element_ops) = {
    .gelu_forward = gelu_forward,
    .gelu_backward = gelu_backward,
    .add = add,
    .dropout = dropout,
    .column_sum = column_sum,
    .column_sum_scratch = column_sum_scratch,
    .embedding_forward = embedding_forward,
    .embedding_backward = embedding_backward,
    .copy = copy,
    .zero = zero,
};
