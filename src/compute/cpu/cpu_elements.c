// Elementwise operations, column sums, copies. All are bound by memory. An element's result does
// not depend on its place in a vector, because the last lanes of a range go through the same vector
// code.
#include "compute/cpu/cpu_tables.h"
#include "compute/tree_sum.h"

#define UNIT 64   // elements per task
#define BLOCKS 64 // blocks of rows in a column sum, at most

typedef struct element_job {
    int64_t n;
    const void *a, *b, *d;
    void *out, *out2;
    zero_dtype of_a, of_b, of_out;
    float p;      // of dropout; the factor of scale
    float factor; // of b in a weighted sum; that of a is p
    uint64_t key;
    int64_t first; // of the mask of dropout
} element_job;

static void run_over_elements(const zr_queue *queue, const element_job *job, zr_cpu_body *body)
{
    zr_cpu_for(queue, (job->n + UNIT - 1) / UNIT, WORTH / UNIT, body, job);
}

static int64_t range_end(const element_job *job, int64_t last)
{
    return ZR_MIN(last * UNIT, job->n);
}

// An operation of one type, vector by vector: GET reads an operand's elements, PUT writes them.
#define GET(operand) vf_get_as(T, job->operand, i, end - i)
#define PUT(operand, value) vf_put_as(T, job->operand, i, end - i, value)
#define VECTORS(kind, ...)                                                                         \
    INLINE void kind##_as(zero_dtype T, const element_job *job, int64_t i, int64_t end)            \
    {                                                                                              \
        for (; i < end; i += LANES) {                                                              \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    }                                                                                              \
    static void kind##_range(const void *job_, int64_t first, int64_t last, int worker)            \
    {                                                                                              \
        const element_job *job = job_;                                                             \
        WITH_TYPE(TYPE, job->of_a, kind##_as(TYPE, job, first *UNIT, range_end(job, last)));       \
    }

// clang-format off
VECTORS(gelu_forward, PUT(out, vf_gelu(GET(a))))
VECTORS(gelu_backward, PUT(out, GET(out) * vf_gelu_slope(GET(a))))
VECTORS(gelu_erf_forward, PUT(out, vf_gelu_erf(GET(a))))
VECTORS(gelu_erf_backward, PUT(out, GET(d) * vf_gelu_erf_slope(GET(a))))
VECTORS(silu_gate_forward, PUT(out, vf_silu(GET(a)) * GET(b)))
VECTORS(silu_gate_backward, vf gate = GET(a), up = GET(b), d = GET(d), s = vf_logistic(gate);
        PUT(out, d * up * s * (1.0f + gate * (1.0f - s))); PUT(out2, d * gate * s))
// clang-format on

void ZR_CPU_TABLE(zr_cpu_gelu_forward)(zr_queue *queue, const zr_elements *of, const void *pre,
                                       void *out)
{
    element_job job = {.n = of->n, .a = pre, .out = out, .of_a = of->dtype};
    run_over_elements(queue, &job, gelu_forward_range);
}

void ZR_CPU_TABLE(zr_cpu_gelu_backward)(zr_queue *queue, const zr_elements *of, const void *pre,
                                        void *d)
{
    element_job job = {.n = of->n, .a = pre, .out = d, .of_a = of->dtype};
    run_over_elements(queue, &job, gelu_backward_range);
}

void ZR_CPU_TABLE(zr_cpu_gelu_erf_forward)(zr_queue *queue, const zr_elements *of, const void *pre,
                                           void *out)
{
    element_job job = {.n = of->n, .a = pre, .out = out, .of_a = of->dtype};
    run_over_elements(queue, &job, gelu_erf_forward_range);
}

void ZR_CPU_TABLE(zr_cpu_gelu_erf_backward)(zr_queue *queue, const zr_elements *of, const void *pre,
                                            const void *d, void *d_pre)
{
    element_job job = {.n = of->n, .a = pre, .d = d, .out = d_pre, .of_a = of->dtype};
    run_over_elements(queue, &job, gelu_erf_backward_range);
}

void ZR_CPU_TABLE(zr_cpu_silu_gate_forward)(zr_queue *queue, const zr_elements *of,
                                            const void *gate, const void *up, void *out)
{
    element_job job = {.n = of->n, .a = gate, .b = up, .out = out, .of_a = of->dtype};
    run_over_elements(queue, &job, silu_gate_forward_range);
}

void ZR_CPU_TABLE(zr_cpu_silu_gate_backward)(zr_queue *queue, const zr_elements *of,
                                             const void *gate, const void *up, const void *d,
                                             void *d_gate, void *d_up)
{
    element_job job = {
        .n = of->n, .a = gate, .b = up, .d = d, .out = d_gate, .out2 = d_up, .of_a = of->dtype};
    run_over_elements(queue, &job, silu_gate_backward_range);
}

INLINE void add_as(zero_dtype stream, zero_dtype type, const element_job *job, int64_t i,
                   int64_t end)
{
    for (; i < end; i += LANES) {
        int64_t left = end - i;
        vf_put_as(stream, job->out, i, left,
                  vf_get_as(stream, job->a, i, left) + vf_get_as(type, job->b, i, left));
    }
}

static void add_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const element_job *job = job_;
    int64_t begin = first * UNIT, end = range_end(job, last);
    WITH_TYPE(S, job->of_a, WITH_TYPE(T, job->of_b, add_as(S, T, job, begin, end)));
}

void ZR_CPU_TABLE(zr_cpu_add)(zr_queue *queue, const zr_sum *of, const void *x, const void *branch,
                              void *out)
{
    element_job job = {
        .n = of->n, .a = x, .b = branch, .out = out, .of_a = of->stream, .of_b = of->dtype};
    run_over_elements(queue, &job, add_range);
}

// The words of each batch are numbered from the batch's first element. A counter gives four words,
// so the elements before the first whole counter, three at most, go one at a time.
INLINE void dropout_as(zero_dtype from, zero_dtype to, const element_job *job, int64_t begin,
                       int64_t end)
{
    uint64_t threshold = zr_dropout_threshold(job->p), first = (uint64_t)job->first;
    float factor = zr_dropout_factor(job->p);
    uint32_t words[PHILOX_ROOM];
    for (; begin < end && (first + (uint64_t)begin) % 4; begin++) {
        bool keep = zr_dropout_keep(job->key, first + (uint64_t)begin, job->p);
        vf scaled = vf_get_as(from, job->a, begin, 1) * factor;
        vf_put_as(to, job->out, begin, 1, keep ? scaled : (vf){0});
    }
    for (int64_t start = begin; start < end; start += PHILOX_WORDS) {
        philox_words(job->key, (first + (uint64_t)start) / 4, words);
        for (int64_t i = start; i < ZR_MIN(start + PHILOX_WORDS, end); i += LANES) {
            vi kept = words_kept(words + (i - start), threshold);
            vf scaled = vf_get_as(from, job->a, i, end - i) * factor;
            vf_put_as(to, job->out, i, end - i, (vf)((vi)scaled & kept));
        }
    }
}

static void dropout_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const element_job *job = job_;
    int64_t begin = first * UNIT, end = range_end(job, last);
    WITH_TYPE(F, job->of_a, WITH_TYPE(T, job->of_out, dropout_as(F, T, job, begin, end)));
}

INLINE void convert_as(zero_dtype from, zero_dtype to, const element_job *job, int64_t i,
                       int64_t end)
{
    for (; i < end; i += LANES)
        vf_put_as(to, job->out, i, end - i, vf_get_as(from, job->a, i, end - i));
}

static void convert_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const element_job *job = job_;
    int64_t begin = first * UNIT, end = range_end(job, last);
    WITH_TYPE(F, job->of_a, WITH_TYPE(T, job->of_out, convert_as(F, T, job, begin, end)));
}

void ZR_CPU_TABLE(zr_cpu_convert)(zr_queue *queue, const zr_conversion *of, const void *x,
                                  void *out)
{
    element_job job = {.n = of->n, .a = x, .out = out, .of_a = of->from, .of_out = of->to};
    run_over_elements(queue, &job, convert_range);
}

INLINE void scale_as(zero_dtype to, const element_job *job, int64_t i, int64_t end)
{
    for (; i < end; i += LANES)
        vf_put_as(to, job->out, i, end - i, vf_get_as(ZERO_F32, job->a, i, end - i) * job->p);
}

static void scale_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const element_job *job = job_;
    int64_t begin = first * UNIT, end = range_end(job, last);
    WITH_TYPE(T, job->of_out, scale_as(T, job, begin, end));
}

void ZR_CPU_TABLE(zr_cpu_scale)(zr_queue *queue, const zr_scaling *of, const float *x, void *out)
{
    element_job job = {.n = of->n, .a = x, .out = out, .of_out = of->to, .p = of->by};
    run_over_elements(queue, &job, scale_range);
}

INLINE void weighted_sum_as(zero_dtype type, const element_job *job, int64_t i, int64_t end)
{
    for (; i < end; i += LANES) {
        vf sum = vf_get_as(ZERO_F32, job->a, i, end - i), x = vf_get_as(type, job->b, i, end - i);
        vf_put_as(type, job->out, i, end - i, sum * job->p + x * job->factor);
    }
}

static void weighted_sum_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const element_job *job = job_;
    int64_t begin = first * UNIT, end = range_end(job, last);
    WITH_TYPE(T, job->of_b, weighted_sum_as(T, job, begin, end));
}

void ZR_CPU_TABLE(zr_cpu_weighted_sum)(zr_queue *queue, const zr_weighted *of, const float *sum,
                                       const void *x, void *out)
{
    element_job job = {.n = of->n,
                       .a = sum,
                       .b = x,
                       .out = out,
                       .of_b = of->dtype,
                       .p = of->of_sum,
                       .factor = of->of_x};
    run_over_elements(queue, &job, weighted_sum_range);
}

void ZR_CPU_TABLE(zr_cpu_dropout)(zr_queue *queue, const zr_dropout *of,
                                  const zr_step_values *values, const void *x, void *out)
{
    element_job job = {.n = of->n,
                       .a = x,
                       .out = out,
                       .of_a = of->from,
                       .of_out = of->to,
                       .p = of->p,
                       .first = of->first,
                       .key = of->p > 0 ? zr_mask_key(&of->mask, values) : 0};
    run_over_elements(queue, &job, of->p > 0 ? dropout_range : convert_range);
}

typedef struct bias_job {
    int64_t width;
    const float *sum;
    zero_dtype dtype; // of bias and out
    const void *bias; // NULL if there is none
    void *out;
} bias_job;

INLINE void bias_row(zero_dtype type, const bias_job *job, int64_t i)
{
    int64_t width = job->width;
    for (int64_t j = 0; j < width; j += LANES) {
        int64_t left = width - j;
        vf x = vf_get(job->sum + i * width + j, left);
        if (job->bias)
            x += vf_get_as(type, job->bias, j, left);
        vf_put_as(type, job->out, i * width + j, left, x);
    }
}

static void bias_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const bias_job *job = job_;
    for (int64_t i = first; i < last; i++)
        WITH_TYPE(T, job->dtype, bias_row(T, job, i));
}

void ZR_CPU_TABLE(zr_cpu_add_bias)(zr_queue *queue, const zr_matrix *of, const float *sum,
                                   const void *bias, void *out)
{
    bias_job job = {.width = of->width, .sum = sum, .dtype = of->dtype, .bias = bias, .out = out};
    zr_cpu_for(queue, of->rows, 1 + WORTH / ZR_MAX(1, of->width), bias_rows, &job);
}

// ---- column sums: blocks of rows go to scratch, [block][width]; the blocks are then added in a
// fixed order ----

typedef struct column_job {
    const void *x;
    zero_dtype dtype;
    float *partial, *out;
    int64_t rows, width, block_rows, blocks;
    bool add;
} column_job;

static int64_t column_block_rows(int64_t rows)
{
    int64_t even = (rows + BLOCKS - 1) / BLOCKS;
    return ZR_MAX(32, ZR_ROUND_UP(even, 4));
}

INLINE void column_block(zero_dtype type, const column_job *job, int64_t block)
{
    int64_t width = job->width, i = block * job->block_rows,
            end = ZR_MIN(i + job->block_rows, job->rows);
    float *sum = job->partial + block * width;
    memset(sum, 0, sizeof(float) * (size_t)width);
    for (; i + 4 <= end; i += 4)
        for (int64_t j = 0; j < width; j += LANES) {
            int64_t at = i * width + j, left = width - j;
            vf two = vf_get_as(type, job->x, at, left) + vf_get_as(type, job->x, at + width, left);
            vf more = vf_get_as(type, job->x, at + 2 * width, left) +
                      vf_get_as(type, job->x, at + 3 * width, left);
            vf_put(sum + j, left, vf_get(sum + j, left) + (two + more));
        }
    for (; i < end; i++)
        for (int64_t j = 0; j < width; j += LANES)
            vf_put(sum + j, width - j,
                   vf_get(sum + j, width - j) + vf_get_as(type, job->x, i * width + j, width - j));
}

static void column_blocks(const void *job_, int64_t first, int64_t last, int worker)
{
    const column_job *job = job_;
    for (int64_t block = first; block < last; block++)
        WITH_TYPE(T, job->dtype, column_block(T, job, block));
}

static void sum_column_blocks(const void *job_, int64_t first, int64_t last, int worker)
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

void ZR_CPU_TABLE(zr_cpu_column_sum)(zr_queue *queue, const zr_matrix *of, const void *x,
                                     float *out, void *scratch)
{
    int64_t rows = of->rows, width = of->width, of_block = column_block_rows(rows);
    column_job job = {.x = x,
                      .dtype = of->dtype,
                      .partial = scratch,
                      .out = out,
                      .rows = rows,
                      .width = width,
                      .block_rows = of_block,
                      .blocks = (rows + of_block - 1) / of_block,
                      .add = of->add};
    zr_cpu_for(queue, job.blocks, 1 + WORTH / ZR_MAX(1, of_block * width), column_blocks, &job);
    zr_cpu_for(queue, (width + 15) / 16, 16, sum_column_blocks, &job);
}

size_t ZR_CPU_TABLE(zr_cpu_column_sum_scratch)(const zr_matrix *of)
{
    int64_t of_block = column_block_rows(of->rows);
    return sizeof(float) * (size_t)((of->rows + of_block - 1) / of_block * of->width);
}

// ---- bytes ----

typedef struct byte_job {
    int64_t bytes;
    const char *from;
    char *to;
    uint8_t value;
} byte_job;

#define PAGE 4096 // bytes per task

static void copy_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const byte_job *job = job_;
    memcpy(job->to + first * PAGE, job->from + first * PAGE,
           (size_t)(ZR_MIN(last * PAGE, job->bytes) - first * PAGE));
}

void ZR_CPU_TABLE(zr_cpu_copy)(zr_queue *queue, const zr_bytes *of, const void *from, void *to)
{
    byte_job job = {.bytes = of->bytes, .from = from, .to = to};
    if (of->streams) {
        zr_stream_copy(to, from, of->bytes, queue->threads);
        return;
    }
    zr_cpu_for(queue, (of->bytes + PAGE - 1) / PAGE, 32, copy_range, &job);
}

typedef struct rows_job {
    const zr_strided *of;
    const char *from;
    char *to;
} rows_job;

static void copy_rows_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const rows_job *job = job_;
    for (int64_t i = first; i < last; i++)
        memcpy(job->to + i * job->of->to_stride, job->from + i * job->of->from_stride,
               (size_t)job->of->bytes);
}

void ZR_CPU_TABLE(zr_cpu_copy_rows)(zr_queue *queue, const zr_strided *of, const void *from,
                                    void *to)
{
    const rows_job job = {.of = of, .from = from, .to = to};
    if (of->bytes > 0)
        zr_cpu_for(queue, of->rows, 1 + 32 * PAGE / of->bytes, copy_rows_range, &job);
}

static void fill_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const byte_job *job = job_;
    memset(job->to + first * PAGE, job->value,
           (size_t)(ZR_MIN(last * PAGE, job->bytes) - first * PAGE));
}

void ZR_CPU_TABLE(zr_cpu_fill)(zr_queue *queue, const zr_bytes *of, void *to)
{
    byte_job job = {.bytes = of->bytes, .to = to, .value = of->value};
    zr_cpu_for(queue, (of->bytes + PAGE - 1) / PAGE, 32, fill_range, &job);
}

typedef struct scales_job {
    const zr_scale_codes *of;
    const uint8_t *codes;
    const float *shared;
    float *scales;
} scales_job;

static void decode_scale_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const scales_job *job = job_;
    int64_t blocks = job->of->blocks;
    for (int64_t row = first; row < last; row++)
        zr_nf4_decode_scales(job->codes + row * blocks, job->shared,
                             zr_scale_codes_first(job->of, row), blocks,
                             job->scales + row * blocks);
}

void ZR_CPU_TABLE(zr_cpu_decode_scales)(zr_queue *queue, const zr_scale_codes *of,
                                        const uint8_t *codes, const float *shared, float *scales)
{
    const scales_job job = {.of = of, .codes = codes, .shared = shared, .scales = scales};
    zr_cpu_for(queue, of->rows, rows_worth(of->blocks), decode_scale_rows, &job);
}

// The order of additions is the same on every path, and so is the code.
void ZR_CPU_TABLE(zr_cpu_tree_sum)(zr_queue *queue, const zr_tree *of, const void *const *sources,
                                   void *out)
{
    zr_sum_target to = of->to;
    to.data = out;
    if (of->source_bits)
        zr_tree_sum_blocks(&to, of->source_bits, sources, of->ranks, of->count, queue->threads);
    else
        zr_tree_sum(&to, of->dtype, sources, of->ranks, of->count, queue->threads);
}
