// Causal self-attention on blocks (FlashAttention: Dao et al., 2022; Dao, 2023), one (batch, head) a task.
//
// Each head's q, k and v are first packed so that the register tiles read them in sequence. Forward goes over panels of MR
// queries: scores of up to KEYS keys, an online softmax, the product with v. Backward goes over panels of MR keys, queries
// in the lanes: the probabilities are computed again from lse, so that nothing but lse was kept. In both, blocks above the
// diagonal are never touched.
//
//   forward                keys ->                    backward             queries ->
//            +-------+                                         +-----------------------+
//    queries | panel |-- only to the diagonal            keys  | panel: from the diag. |
//
// Invariant: rows and columns that only fill up a tile hold zeros, and never reach a row or column that counts.
#include "compute/cpu/cpu_attention.h"

#define KEYS 256 // keys a block

typedef struct job {
    const zr_attention *attention;
    const void *qkv;
    void *to;
    float *to_lse;
    float *scratch;
    int64_t worker_floats;
    const float *k_cache, *v_cache; // decode
    int64_t capacity, at;
} job;

// ---- forward ----

typedef struct forward_space {
    float *q;              // panels of MR queries: [seq/MR][head_dim][MR], times scale
    float *k;              // panels of NR keys: [seq/NR][head_dim][NR]
    float *v;              // (seq, wide)
    float *score;          // (MR, KEYS), then the probabilities
    float *factor;         // (KEYS) of dropout
    float *sum;            // (QUERIES, wide)
    float *largest, *norm; // (QUERIES) running maximum of the scores, and sum of the exponentials
} forward_space;

static forward_space forward_carve(const zr_attention *a, space *from)
{
    return (forward_space){
        .q = take(from, ZR_ROUND_UP(a->seq, MR) * a->head_dim),
        .k = take(from, ZR_ROUND_UP(a->seq, NR) * a->head_dim),
        .v = take(from, a->seq * wide(a)),
        .score = take(from, MR * KEYS),
        .factor = take(from, KEYS),
        .sum = take(from, QUERIES * wide(a)),
        .largest = take(from, QUERIES),
        .norm = take(from, QUERIES),
    };
}

// Turns the first `valid` of a row's scores into exponentials and the others up to `count` into zeros; the first `full` <=
// valid, a multiple of LANES, need no mask. Returns what the sums of earlier blocks must be multiplied by.
INLINE float softmax_row(float *score, int64_t full, int64_t valid, int64_t count, float *largest, float *norm)
{
    vf top = vf_all(-INFINITY), sum = {0};
    vi lane = vi_iota() - (int32_t)valid;
    for (int64_t j = 0; j < full; j += LANES)
        top = vf_max(vf_load(score + j), top);
    for (int64_t j = full; j < count; j += LANES) {
        vf masked = vf_select(lane + (int32_t)j < 0, vf_load(score + j), vf_all(-INFINITY));
        vf_store(score + j, masked);
        top = vf_max(masked, top);
    }
    float now = ZR_MAX(*largest, vf_largest(top)), rescale = *norm == 0 ? 0 : expf(*largest - now);
    for (int64_t j = 0; j < count; j += LANES) {
        vf e = vf_exp(vf_load(score + j) - now);
        vf_store(score + j, e);
        sum += e;
    }
    *norm = *norm * rescale + vf_sum(sum);
    *largest = now;
    return rescale;
}

static void multiply_row(float *row, int64_t count, float factor)
{
    for (int64_t j = 0; j < count; j += LANES)
        vf_store(row + j, vf_load(row + j) * factor);
}

// Keys [k0, k0+count) for the panel of queries [i0, i0+MR), which is row `row` of the block.
static void forward_panel(const zr_attention *a, const head *at, const forward_space *s, int64_t i0, int64_t row,
                          int64_t k0, int64_t count)
{
    int64_t width = wide(a), full = ZR_MAX(0, ZR_MIN(count, i0 + 1 - k0)) / LANES * LANES;
    float *sum = s->sum + row * width;
    for (int64_t j = 0; j < count; j += NR)
        tile_product(s->q + i0 * a->head_dim, 1, MR, s->k + (k0 + j) * a->head_dim, NR, a->head_dim, s->score + j, KEYS,
                     0);
    for (int64_t r = 0; r < MR; r++) {
        float *score = s->score + r * KEYS;
        int64_t valid = ZR_MAX(0, ZR_MIN(count, i0 + r + 1 - k0));
        float rescale = softmax_row(score, full, valid, count, s->largest + row + r, s->norm + row + r);
        if (k0 > 0)
            multiply_row(sum + r * width, width, rescale);
        if (a->dropout > 0) {
            dropout_factors(a, at, i0 + r, k0, valid, s->factor);
            for (int64_t j = 0; j < valid; j++)
                score[j] *= s->factor[j];
        }
    }
    for (int64_t c = 0; c < width; c += NR)
        tile_product(s->score, KEYS, 1, s->v + k0 * width + c, width, count, sum + c, width, k0 > 0);
}

static void forward_block(const job *work, const head *at, const forward_space *s, int64_t q0, float *lse)
{
    const zr_attention *a = work->attention;
    int64_t rows = ZR_MIN(QUERIES, a->seq - q0);
    for (int64_t i = 0; i < QUERIES; i++) {
        s->largest[i] = -INFINITY;
        s->norm[i] = 0;
    }
    for (int64_t k0 = 0; k0 < q0 + rows; k0 += KEYS)
        for (int64_t row = 0; row < rows; row += MR) {
            int64_t end = ZR_MIN(q0 + row + MR, a->seq);
            if (k0 < end)
                forward_panel(a, at, s, q0 + row, row, k0, ZR_MIN(KEYS, end - k0));
        }
    for (int64_t i = 0; i < rows; i++) {
        row_write(a, s->sum + i * wide(a), 1 / s->norm[i], work->to, at->first_out + (q0 + i) * at->out_step);
        if (lse)
            lse[q0 + i] = s->largest[i] + logf(s->norm[i]);
    }
}

static void forward_heads(const void *job_, int64_t first, int64_t last, int worker)
{
    const job *work = job_;
    const zr_attention *a = work->attention;
    space own = {.base = work->scratch + worker * work->worker_floats};
    forward_space s = forward_carve(a, &own);
    for (int64_t index = first; index < last; index++) {
        head at = head_at(a, work->qkv, index);
        columns_pack(a, at.q, at.step, MR, a->scale, s.q);
        columns_pack(a, at.k, at.step, NR, 1, s.k);
        rows_pack(a, at.v, at.step, a->seq, s.v);
        for (int64_t q0 = 0; q0 < a->seq; q0 += QUERIES)
            forward_block(work, &at, &s, q0, work->to_lse ? work->to_lse + index * a->seq : NULL);
    }
}

static int64_t forward_floats(const zr_attention *a)
{
    space counted = {0};
    forward_carve(a, &counted);
    return counted.used;
}

static void forward(zr_queue *queue, const zr_attention *attention, const void *qkv, void *out, float *lse,
                    void *scratch)
{
    job work = {.attention = attention,
                .qkv = qkv,
                .to = out,
                .to_lse = lse,
                .scratch = scratch,
                .worker_floats = forward_floats(attention)};
    zr_cpu_for(queue, attention->batch * attention->heads, 1, forward_heads, &work);
}

// ---- decode ----

static float dot(const float *a, const float *b, int64_t count)
{
    vf sum = {0};
    for (int64_t c = 0; c < count; c += LANES)
        sum += vf_get(a + c, count - c) * vf_get(b + c, count - c);
    return vf_sum(sum);
}

// first: of q in qkv, and of the head in out.
static void decode_head(const job *work, int64_t first, const float *k, const float *v)
{
    const zr_attention *a = work->attention;
    int64_t dim = a->head_dim, keys = work->at + 1;
    float q[dim], sum[wide(a)], score[KEYS], largest = -INFINITY, norm = 0;
    zr_widen(a->dtype, element_at(a->dtype, work->qkv, first), dim, q);
    for (int64_t k0 = 0; k0 < keys; k0 += KEYS) {
        int64_t count = ZR_MIN(KEYS, keys - k0);
        for (int64_t j = 0; j < count; j++)
            score[j] = dot(q, k + (k0 + j) * dim, dim) * a->scale;
        float rescale = softmax_row(score, count / LANES * LANES, count, count, &largest, &norm);
        for (int64_t c = 0; c < dim; c += LANES) {
            vf row = k0 > 0 ? vf_load(sum + c) * rescale : (vf){0};
            for (int64_t j = 0; j < count; j++)
                row += vf_get(v + (k0 + j) * dim + c, dim - c) * score[j];
            vf_store(sum + c, row);
        }
    }
    for (int64_t c = 0; c < dim; c++)
        sum[c] /= norm;
    row_write(a, sum, 1, work->to, first);
}

static void decode_heads(const void *job_, int64_t first, int64_t last, int worker)
{
    const job *work = job_;
    int64_t dim = work->attention->head_dim;
    for (int64_t h = first; h < last; h++) {
        int64_t cache = h / (work->attention->heads / work->attention->kv_heads) * work->capacity * dim;
        decode_head(work, h * dim, work->k_cache + cache, work->v_cache + cache);
    }
}

static void decode(zr_queue *queue, const zr_attention *attention, const void *qkv, float *k_cache, float *v_cache,
                   int64_t capacity, int64_t at, void *out)
{
    assert(at < capacity);
    zero_dtype type = attention->dtype;
    int64_t dim = attention->head_dim, width = attention->heads * dim, keys = attention->kv_heads * dim;
    job work = {.attention = attention,
                .qkv = qkv,
                .k_cache = k_cache,
                .v_cache = v_cache,
                .capacity = capacity,
                .at = at,
                .to = out};
    for (int64_t h = 0; h < attention->kv_heads; h++) {
        zr_widen(type, element_at(type, qkv, width + h * dim), dim, k_cache + (h * capacity + at) * dim);
        zr_widen(type, element_at(type, qkv, width + keys + h * dim), dim, v_cache + (h * capacity + at) * dim);
    }
    zr_cpu_for(queue, attention->heads, at * dim > 8192 ? 1 : attention->heads, decode_heads, &work);
}

// ---- the table ----

static size_t scratch(const zr_queue *queue, const zr_attention *attention)
{
    int64_t backward = ZR_CPU_TABLE(zr_cpu_attention_backward_floats)(attention);
    return sizeof(float) * (size_t)(ZR_MAX(forward_floats(attention), backward) * queue->threads);
}

const zr_attention_ops ZR_CPU_TABLE(zr_cpu_attention_ops) = {
    .scratch = scratch,
    .forward = forward,
    .backward = ZR_CPU_TABLE(zr_cpu_attention_backward),
    .decode = decode,
    .rotary_table = ZR_CPU_TABLE(zr_cpu_rotary_table),
    .rotate = ZR_CPU_TABLE(zr_cpu_rotate),
};
