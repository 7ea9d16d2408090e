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
#include "compute/cpu/cpu.h"
#include "compute/cpu/cpu_math.h"
#include "compute/cpu/cpu_tile.h"

#define QUERIES 48 // a block of queries in forward, of keys in backward: 8 panels
#define KEYS 256   // keys a block in forward
#define SPAN 96    // queries a block in backward; a multiple of MR and of every NR

typedef struct head { // where one (batch, head) lies
    const float *q, *k, *v;
    int64_t step;     // between positions of q, k, v
    int64_t first_in; // of q in qkv
    int64_t first_out;
    uint64_t element; // first one of the dropout mask
} head;

typedef struct job {
    const zr_attention *attention;
    const float *qkv, *out, *lse, *dout;
    float *to, *to_lse, *dqkv;
    float *scratch;
    int64_t worker_floats;
    const float *k_cache, *v_cache; // decode
    int64_t capacity, at;
} job;

static head head_at(const zr_attention *a, const float *qkv, int64_t index)
{
    int64_t b = index / a->heads, h = index % a->heads, width = a->heads * a->head_dim;
    int64_t first = b * a->seq * 3 * width + h * a->head_dim;
    return (head){
        .q = qkv + first,
        .k = qkv + first + width,
        .v = qkv + first + 2 * width,
        .step = 3 * width,
        .first_in = first,
        .first_out = b * a->seq * width + h * a->head_dim,
        .element = (uint64_t)index * (uint64_t)a->seq * (uint64_t)a->seq,
    };
}

static int64_t wide(const zr_attention *a) // head_dim, up to whole tiles
{
    return ZR_ROUND_UP(a->head_dim, NR);
}

typedef struct space { // a worker's scratch as it is handed out; base NULL: only counted
    float *base;
    int64_t used;
} space;

static float *take(space *from, int64_t count)
{
    float *taken = from->base ? from->base + from->used : NULL;
    from->used += ZR_ROUND_UP(count, 16);
    return taken;
}

// factors[c] = what dropout multiplies probability (i, first + c) by.
static void dropout_factors(const zr_attention *a, const head *at, int64_t i, int64_t first, int64_t count,
                            float *factors)
{
    uint64_t threshold = zr_dropout_threshold(a->dropout), element = at->element + (uint64_t)(i * a->seq + first);
    float kept = zr_dropout_factor(a->dropout);
    uint32_t words[PHILOX_ROOM];
    int64_t done = 0, skipped = (int64_t)(element % 4);
    for (uint64_t counter = element / 4; done < count; counter += PHILOX_WORDS / 4, skipped = 0) {
        philox_words(a->dropout_key, counter, words);
        int64_t end = ZR_MIN(count, done + PHILOX_WORDS - skipped), start = done;
        for (; done < end; done += LANES)
            vf_put(factors + done, end - done,
                   (vf)((vi)vf_all(kept) & words_kept(words + skipped + done - start, threshold)));
        done = end;
    }
}

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

static void forward_block(const zr_attention *a, const head *at, const forward_space *s, int64_t q0, float *out,
                          float *lse)
{
    int64_t rows = ZR_MIN(QUERIES, a->seq - q0), step = a->heads * a->head_dim;
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
        float *to = out + (q0 + i) * step, factor = 1 / s->norm[i];
        for (int64_t c = 0; c < a->head_dim; c += LANES)
            vf_put(to + c, a->head_dim - c, vf_load(s->sum + i * wide(a) + c) * factor);
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
        pack_columns(at.q, at.step, a->seq, a->head_dim, MR, a->scale, s.q);
        pack_columns(at.k, at.step, a->seq, a->head_dim, NR, 1, s.k);
        pack_rows(at.v, at.step, a->seq, a->seq, a->head_dim, wide(a), s.v);
        for (int64_t q0 = 0; q0 < a->seq; q0 += QUERIES)
            forward_block(a, &at, &s, q0, work->to + at.first_out, work->to_lse ? work->to_lse + index * a->seq : NULL);
    }
}

// ---- backward ----
// dv = (P*M)' dout;  dP = (dout v')*M;  dS = P*(dP - rowsum(dout*out));  dq = scale dS k;  dk = dS' (scale q)

typedef struct backward_space {
    float *q, *dout;           // panels of NR queries: [seq/NR][head_dim][NR]; q times scale
    float *q_rows, *dout_rows; // (seq up to NR, wide)
    float *k, *v;              // panels of MR keys: [seq/MR][head_dim][MR]
    float *k_rows;             // (seq, wide)
    float *lse, *delta;        // (seq up to NR); infinity and 0 where there is no query
    float *dq;                 // (seq and a panel more, wide)
    float *dk, *dv;            // (QUERIES, wide)
    float *p;                  // (MR, SPAN)
    float *ds;                 // (QUERIES, SPAN)
    float *factor;             // (QUERIES, SPAN) of dropout
} backward_space;

static backward_space backward_carve(const zr_attention *a, space *from)
{
    int64_t padded = ZR_ROUND_UP(a->seq, NR), width = wide(a);
    return (backward_space){
        .q = take(from, padded * a->head_dim),
        .dout = take(from, padded * a->head_dim),
        .q_rows = take(from, padded * width),
        .dout_rows = take(from, padded * width),
        .k = take(from, ZR_ROUND_UP(a->seq, MR) * a->head_dim),
        .v = take(from, ZR_ROUND_UP(a->seq, MR) * a->head_dim),
        .k_rows = take(from, a->seq * width),
        .lse = take(from, padded),
        .delta = take(from, padded),
        .dq = take(from, (a->seq + MR) * width),
        .dk = take(from, QUERIES * width),
        .dv = take(from, QUERIES * width),
        .p = take(from, MR * SPAN),
        .ds = take(from, QUERIES * SPAN),
        .factor = take(from, a->dropout > 0 ? QUERIES * SPAN : 0),
    };
}

static void backward_pack(const zr_attention *a, const head *at, const float *out, const float *dout, const float *lse,
                          const backward_space *s)
{
    int64_t step = a->heads * a->head_dim, padded = ZR_ROUND_UP(a->seq, NR), width = wide(a);
    pack_columns(at->q, at->step, a->seq, a->head_dim, NR, a->scale, s->q);
    pack_columns(dout, step, a->seq, a->head_dim, NR, 1, s->dout);
    pack_columns(at->k, at->step, a->seq, a->head_dim, MR, 1, s->k);
    pack_columns(at->v, at->step, a->seq, a->head_dim, MR, 1, s->v);
    pack_rows(at->q, at->step, a->seq, padded, a->head_dim, width, s->q_rows);
    pack_rows(dout, step, a->seq, padded, a->head_dim, width, s->dout_rows);
    pack_rows(at->k, at->step, a->seq, a->seq, a->head_dim, width, s->k_rows);
    memset(s->dq, 0, sizeof(float) * (size_t)((a->seq + MR) * width));
    for (int64_t i = 0; i < padded; i++) {
        vf sum = {0};
        for (int64_t c = 0; i < a->seq && c < a->head_dim; c += LANES)
            sum += vf_get(out + i * step + c, a->head_dim - c) * vf_get(dout + i * step + c, a->head_dim - c);
        s->delta[i] = vf_sum(sum);
        s->lse[i] = i < a->seq ? lse[i] : INFINITY;
    }
}

// One key against queries [i0+from, i0+count): scores to probabilities, dP to dS, both zero before the diagonal.
static void backward_row(const backward_space *s, int64_t key, int64_t i0, int64_t from, int64_t count,
                         const float *factor, float *p, float *ds)
{
    for (int64_t u = 0; u < from; u += LANES)
        vf_store(ds + u, (vf){0});
    for (int64_t u = from; u < count; u += LANES) {
        vf e = vf_exp(vf_load(p + u) - vf_load(s->lse + i0 + u)), dp = vf_load(ds + u), kept = e;
        if (i0 + u < key)
            e = kept = vf_select(vi_iota() >= (int32_t)ZR_MIN(key - i0 - u, LANES), e, (vf){0});
        if (factor) {
            kept = e * vf_load(factor + u);
            dp *= vf_load(factor + u);
        }
        vf_store(p + u, kept);
        vf_store(ds + u, e * (dp - vf_load(s->delta + i0 + u)));
    }
}

// The panel of keys [key, key+MR), row `row` of the block, against queries [i0, i0+count).
static void backward_panel(const zr_attention *a, const backward_space *s, int64_t key, int64_t row, int64_t i0,
                           int64_t count)
{
    int64_t width = wide(a), dim = a->head_dim, from = ZR_MAX(0, key - i0) / NR * NR;
    if (from >= count) {
        memset(s->ds + row * SPAN, 0, sizeof(float) * MR * SPAN);
        return;
    }
    for (int64_t u = from; u < count; u += NR) {
        tile_product(s->k + key * dim, 1, MR, s->q + (i0 + u) * dim, NR, dim, s->p + u, SPAN, 0);
        tile_product(s->v + key * dim, 1, MR, s->dout + (i0 + u) * dim, NR, dim, s->ds + row * SPAN + u, SPAN, 0);
    }
    for (int64_t r = 0; r < MR; r++) {
        const float *factor = a->dropout > 0 ? s->factor + (row + r) * SPAN : NULL;
        backward_row(s, key + r, i0, from, count, factor, s->p + r * SPAN, s->ds + (row + r) * SPAN);
    }
    for (int64_t c = 0; c < width; c += NR) {
        int64_t b = (i0 + from) * width + c;
        tile_product(s->p + from, SPAN, 1, s->dout_rows + b, width, count - from, s->dv + row * width + c, width, 1);
        tile_product(s->ds + row * SPAN + from, SPAN, 1, s->q_rows + b, width, count - from, s->dk + row * width + c,
                     width, 1);
    }
}

// factor[c][u] of keys [k0, k0+QUERIES) and queries [i0, i0+count)
static void backward_factors(const zr_attention *a, const head *at, int64_t k0, int64_t i0, int64_t count,
                             float *factor)
{
    float row[QUERIES];
    int64_t keys = ZR_MIN(QUERIES, a->seq - k0);
    memset(factor, 0, sizeof(float) * QUERIES * SPAN);
    for (int64_t u = 0; u < count; u++) {
        dropout_factors(a, at, i0 + u, k0, keys, row);
        for (int64_t c = 0; c < keys; c++)
            factor[c * SPAN + u] = row[c];
    }
}

static void write_rows(const float *from, int64_t rows, int64_t width, int64_t dim, float factor, float *to,
                       int64_t step)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < dim; c += LANES)
            vf_put(to + i * step + c, dim - c, vf_load(from + i * width + c) * factor);
}

// All that keys [k0, k0+keys) take part in: their own dk and dv, and what they add to dq.
static void backward_block(const zr_attention *a, const head *at, const backward_space *s, int64_t k0, float *dq_out)
{
    int64_t keys = ZR_MIN(QUERIES, a->seq - k0), width = wide(a), model = a->heads * a->head_dim;
    memset(s->dk, 0, sizeof(float) * (size_t)(QUERIES * width));
    memset(s->dv, 0, sizeof(float) * (size_t)(QUERIES * width));
    for (int64_t i0 = k0 / NR * NR; i0 < a->seq; i0 += SPAN) {
        int64_t count = ZR_MIN(SPAN, a->seq - i0);
        if (a->dropout > 0)
            backward_factors(a, at, k0, i0, count, s->factor);
        for (int64_t row = 0; row < keys; row += MR)
            backward_panel(a, s, k0 + row, row, i0, count);
        for (int64_t u = 0; u < count; u += MR) {
            int64_t reached = ZR_MIN(keys, i0 + u + MR - k0);
            for (int64_t c = 0; c < width && reached > 0; c += NR)
                tile_product(s->ds + u, 1, SPAN, s->k_rows + k0 * width + c, width, reached,
                             s->dq + (i0 + u) * width + c, width, 1);
        }
    }
    write_rows(s->dk, keys, width, a->head_dim, a->scale, dq_out + k0 * at->step + model, at->step);
    write_rows(s->dv, keys, width, a->head_dim, 1, dq_out + k0 * at->step + 2 * model, at->step);
}

static void backward_heads(const void *job_, int64_t first, int64_t last, int worker)
{
    const job *work = job_;
    const zr_attention *a = work->attention;
    space own = {.base = work->scratch + worker * work->worker_floats};
    backward_space s = backward_carve(a, &own);
    for (int64_t index = first; index < last; index++) {
        head at = head_at(a, work->qkv, index);
        float *dq = work->dqkv + at.first_in;
        backward_pack(a, &at, work->out + at.first_out, work->dout + at.first_out, work->lse + index * a->seq, &s);
        for (int64_t k0 = 0; k0 < a->seq; k0 += QUERIES)
            backward_block(a, &at, &s, k0, dq);
        write_rows(s.dq, a->seq, wide(a), a->head_dim, a->scale, dq, at.step);
    }
}

// ---- decode ----

static float dot(const float *a, const float *b, int64_t count)
{
    vf sum = {0};
    for (int64_t c = 0; c < count; c += LANES)
        sum += vf_get(a + c, count - c) * vf_get(b + c, count - c);
    return vf_sum(sum);
}

static void decode_head(const zr_attention *a, const float *q, const float *k, const float *v, int64_t keys, float *out)
{
    float score[KEYS], largest = -INFINITY, norm = 0;
    int64_t dim = a->head_dim;
    memset(out, 0, sizeof(float) * (size_t)dim);
    for (int64_t k0 = 0; k0 < keys; k0 += KEYS) {
        int64_t count = ZR_MIN(KEYS, keys - k0);
        for (int64_t j = 0; j < count; j++)
            score[j] = dot(q, k + (k0 + j) * dim, dim) * a->scale;
        float rescale = softmax_row(score, count / LANES * LANES, count, count, &largest, &norm);
        for (int64_t c = 0; c < dim; c += LANES) {
            vf sum = k0 > 0 ? vf_get(out + c, dim - c) * rescale : (vf){0};
            for (int64_t j = 0; j < count; j++)
                sum += vf_get(v + (k0 + j) * dim + c, dim - c) * score[j];
            vf_put(out + c, dim - c, sum);
        }
    }
    for (int64_t c = 0; c < dim; c++)
        out[c] /= norm;
}

static void decode_heads(const void *job_, int64_t first, int64_t last, int worker)
{
    const job *work = job_;
    const zr_attention *a = work->attention;
    for (int64_t h = first; h < last; h++) {
        int64_t cache = h * work->capacity * a->head_dim;
        decode_head(a, work->qkv + h * a->head_dim, work->k_cache + cache, work->v_cache + cache, work->at + 1,
                    work->to + h * a->head_dim);
    }
}

static void decode(zr_queue *queue, const zr_attention *attention, const void *qkv, float *k_cache, float *v_cache,
                   int64_t capacity, int64_t at, void *out)
{
    assert(attention->dtype == ZERO_F32 && at < capacity);
    int64_t dim = attention->head_dim, width = attention->heads * dim;
    job work = {.attention = attention,
                .qkv = qkv,
                .k_cache = k_cache,
                .v_cache = v_cache,
                .capacity = capacity,
                .at = at,
                .to = out};
    for (int64_t h = 0; h < attention->heads; h++) {
        memcpy(k_cache + (h * capacity + at) * dim, work.qkv + width + h * dim, sizeof(float) * (size_t)dim);
        memcpy(v_cache + (h * capacity + at) * dim, work.qkv + 2 * width + h * dim, sizeof(float) * (size_t)dim);
    }
    zr_cpu_for(queue, attention->heads, at * dim > 8192 ? 1 : attention->heads, decode_heads, &work);
}

// ---- the table ----

static int64_t worker_floats(const zr_attention *a)
{
    space forward = {0}, backward = {0};
    forward_carve(a, &forward);
    backward_carve(a, &backward);
    return ZR_MAX(forward.used, backward.used);
}

static size_t scratch(const zr_queue *queue, const zr_attention *attention)
{
    return sizeof(float) * (size_t)(worker_floats(attention) * queue->threads);
}

static void forward(zr_queue *queue, const zr_attention *attention, const void *qkv, void *out, float *lse,
                    void *scratch)
{
    assert(attention->dtype == ZERO_F32);
    job work = {.attention = attention,
                .qkv = qkv,
                .to = out,
                .to_lse = lse,
                .scratch = scratch,
                .worker_floats = worker_floats(attention)};
    zr_cpu_for(queue, attention->batch * attention->heads, 1, forward_heads, &work);
}

static void backward(zr_queue *queue, const zr_attention *attention, const void *qkv, const void *out, const float *lse,
                     const void *dout, void *dqkv, void *scratch)
{
    assert(attention->dtype == ZERO_F32);
    job work = {.attention = attention,
                .qkv = qkv,
                .out = out,
                .lse = lse,
                .dout = dout,
                .dqkv = dqkv,
                .scratch = scratch,
                .worker_floats = worker_floats(attention)};
    zr_cpu_for(queue, attention->batch * attention->heads, 1, backward_heads, &work);
}

const zr_attention_ops ZR_CPU_TABLE(zr_cpu_attention_ops) = {
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
    .decode = decode,
};
