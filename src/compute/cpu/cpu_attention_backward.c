// Backward of causal attention; one task is all queries of one (batch, head of keys). It goes over
// panels of MR keys, with the queries in the lanes (cpu_attention.c has the picture), and computes
// the probabilities again from lse, so nothing but lse is kept.
//
// Where several query heads share the keys, dk and dv of the whole sequence are held until the last
// of these heads has added to them.
//
//   dv = (P*M)' dout;  dP = (dout v')*M;  dS = P*(dP - rowsum(dout*out));
//   dq = scale dS k;   dk = dS' (scale q)
#include "compute/cpu/cpu_attention.h"

#define SPAN 96 // queries per block; a multiple of MR and of every NR

typedef struct job {
    const zr_attention *attention;
    const void *qkv, *out, *dout;
    const float *lse;
    void *dqkv;
    float *d_shared; // NULL: the gradients of keys and values go to dqkv
    const int32_t *starts;
    float *scratch;
    int64_t worker_floats;
    uint64_t key; // of dropout
} job;

typedef struct backward_space { // arrays of floats, or those of words of pairs
    float scale;                // of scores: 1 where q has it already
    float *q, *dout;            // panels of NR queries: [seq/NR][words of head_dim][NR]
    float *q_rows, *dout_rows;  // (words of seq rounded up to NR, wide)
    float *k, *v;               // panels of MR keys: [seq/MR][words of head_dim][MR]
    float *k_rows;              // (words of seq, wide)
    // Floats: (seq rounded up to NR); infinity and 0 where there is no query.
    float *lse, *delta;
    const int32_t *starts;   // (queries) as in head
    int64_t queries, window; // window: the queries, if attention has none
    float *dq;               // floats (seq and one panel more, wide)
    // Floats (QUERIES, wide); with shared keys (seq rounded up to QUERIES, wide).
    float *dk, *dv;
    float *p;  // floats (MR, SPAN)
    float *ds; // floats: (QUERIES, SPAN), or of pairs (MR, SPAN)
    // Pairs only: p and ds in pairs of queries, (MR, SPAN / 2), and ds in pairs of keys,
    // (QUERIES / 2, SPAN).
    float *p_halves, *ds_halves, *ds_pairs;
    float *factor; // (QUERIES, SPAN) factors of dropout
} backward_space;

static int64_t heads_per_kv_head(const zr_attention *a) // query heads per head of keys
{
    return a->heads / a->kv_heads;
}

static backward_space backward_carve(const zr_attention *a, space *from)
{
    int64_t padded = ZR_ROUND_UP(a->seq, NR), width = wide(a),
            held = heads_per_kv_head(a) > 1 ? ZR_ROUND_UP(a->seq, QUERIES) : QUERIES;
    const bool pairs = heads_in_pairs(a);
    int64_t dim = words_of(pairs, a->head_dim);
    return (backward_space){
        .scale = pairs ? a->scale : 1,
        .q = take(from, padded * dim),
        .dout = take(from, padded * dim),
        .q_rows = take(from, words_of(pairs, padded) * width),
        .dout_rows = take(from, words_of(pairs, padded) * width),
        .k = take(from, ZR_ROUND_UP(a->seq, MR) * dim),
        .v = take(from, ZR_ROUND_UP(a->seq, MR) * dim),
        .k_rows = take(from, words_of(pairs, a->seq) * width),
        .lse = take(from, padded),
        .delta = take(from, padded),
        .dq = take(from, (a->seq + MR) * width),
        .dk = take(from, held * width),
        .dv = take(from, held * width),
        .p = take(from, MR * SPAN),
        .ds = take(from, (pairs ? MR : QUERIES) * SPAN),
        .p_halves = take(from, pairs ? MR * SPAN / 2 : 0),
        .ds_halves = take(from, pairs ? MR * SPAN / 2 : 0),
        .ds_pairs = take(from, pairs ? QUERIES / 2 * SPAN : 0),
        .factor = take(from, a->dropout > 0 ? QUERIES * SPAN : 0),
    };
}

INLINE void delta_rows(zero_dtype type, const zr_attention *a, const head *at, const void *out,
                       const void *dout, float *delta)
{
    for (int64_t i = 0; i < a->seq; i++) {
        vf sum = {0};
        for (int64_t c = 0; c < a->head_dim; c += LANES) {
            int64_t element = at->first_out + i * at->out_step + c, left = a->head_dim - c;
            sum += vf_get_as(type, out, element, left) * vf_get_as(type, dout, element, left);
        }
        delta[i] = vf_sum(sum);
    }
}

static void backward_pack(const job *work, const head *at, const float *lse,
                          const backward_space *s)
{
    const zr_attention *a = work->attention;
    const void *dout = element_at(a->dtype, work->dout, at->first_out);
    int64_t padded = ZR_ROUND_UP(a->seq, NR);
    columns_pack(a, at->q, at->step, NR, a->scale, s->q);
    columns_pack(a, dout, at->out_step, NR, 1, s->dout);
    columns_pack(a, at->k, at->step, MR, 1, s->k);
    columns_pack(a, at->v, at->step, MR, 1, s->v);
    rows_pack(a, at->q, at->step, padded, s->q_rows);
    rows_pack(a, dout, at->out_step, padded, s->dout_rows);
    rows_pack(a, at->k, at->step, a->seq, s->k_rows);
    memset(s->dq, 0, sizeof(float) * (size_t)((a->seq + MR) * wide(a)));
    WITH_TYPE(TYPE, a->dtype, delta_rows(TYPE, a, at, work->out, work->dout, s->delta));
    for (int64_t i = 0; i < padded; i++) {
        s->lse[i] = i < a->seq ? lse[i] : INFINITY;
        s->delta[i] = i < a->seq ? s->delta[i] : 0;
    }
}

// A vector of one key: what its probabilities are after dropout, and dS.
typedef struct gradients {
    vf kept, ds;
} gradients;

// Turns scores into probabilities, and dP into dS, for queries i0+u .. i0+u+LANES-1.
INLINE gradients gradients_of(const backward_space *s, int64_t key, int64_t i0, int64_t u,
                              const float *factor, const float *p, const float *dp_at)
{
    vf e = vf_exp(vf_load(p + u) * s->scale - vf_load(s->lse + i0 + u)), dp = vf_load(dp_at + u),
       kept = e;
    if (i0 + u < key)
        e = kept = vf_select(vi_iota() >= (int32_t)ZR_MIN(key - i0 - u, LANES), e, (vf){0});
    if (s->starts) { // queries past the last one have no probability
        const float *starts = (const float *)(const void *)(s->starts + i0 + u);
        vi first = (vi)vf_get(starts, ZR_MAX(s->queries - i0 - u, 0));
        e = kept = vf_select(first <= (int32_t)key, e, (vf){0});
    }
    if (i0 + u + LANES > key + s->window)
        e = kept = vf_select(vi_iota() < (int32_t)ZR_MAX(key + s->window - i0 - u, 0), e, (vf){0});
    if (factor) {
        kept = e * vf_load(factor + u);
        dp *= vf_load(factor + u);
    }
    return (gradients){kept, e * (dp - vf_load(s->delta + i0 + u))};
}

// Handles one key and queries [i0+from, i0+count). Both p and ds are zero before the diagonal.
static void backward_row(const backward_space *s, int64_t key, int64_t i0, int64_t from,
                         int64_t count, const float *factor, float *p, float *ds)
{
    for (int64_t u = 0; u < from; u += LANES)
        vf_store(ds + u, (vf){0});
    for (int64_t u = from; u < count; u += LANES) {
        gradients g = gradients_of(s, key, i0, u, factor, p, ds);
        vf_store(p + u, g.kept);
        vf_store(ds + u, g.ds);
    }
}

// The same for keys `key` and key+1, which are row r of the panel and the next, in pairs.
static void backward_two_rows(const backward_space *s, int64_t key, int64_t r, int64_t i0,
                              int64_t from, int64_t count, const float *factor, float *ds_pairs)
{
    uint16_t *p = (uint16_t *)s->p_halves + r * SPAN, *ds = (uint16_t *)s->ds_halves + r * SPAN;
    for (int64_t u = 0; u < from; u += LANES)
        vf_store(ds_pairs + u, (vf){0});
    for (int64_t u = from; u < count; u += LANES) {
        gradients g = gradients_of(s, key, i0, u, factor, s->p + r * SPAN, s->ds + r * SPAN),
                  h = gradients_of(s, key + 1, i0, u, factor ? factor + SPAN : NULL,
                                   s->p + (r + 1) * SPAN, s->ds + (r + 1) * SPAN);
        vh ds0 = vf_to_factor(g.ds), ds1 = vf_to_factor(h.ds);
        *(vh_loose *)(p + u) = vf_to_factor(g.kept);
        *(vh_loose *)(p + SPAN + u) = vf_to_factor(h.kept);
        *(vh_loose *)(ds + u) = ds0;
        *(vh_loose *)(ds + SPAN + u) = ds1;
        vf_store(ds_pairs + u, (vf)(vw_from_halves(ds0) | vw_from_halves(ds1) << 16));
    }
}

// Handles the panel of keys [key, key+MR), row `row` of the block, and queries [i0, i0+count).
INLINE void backward_panel(bool pairs, const zr_attention *a, const backward_space *s, int64_t key,
                           int64_t row, int64_t i0, int64_t count)
{
    int64_t width = wide(a), dim = words_of(pairs, a->head_dim),
            from = ZR_MAX(0, key - i0) / NR * NR;
    float *ds = pairs ? s->ds : s->ds + row * SPAN, *ds_pairs = s->ds_pairs + row / 2 * SPAN;
    if (from >= count) {
        memset(pairs ? ds_pairs : ds, 0, sizeof(float) * (size_t)words_of(pairs, MR) * SPAN);
        return;
    }
    for (int64_t u = from; u < count; u += NR) {
        tile_product(pairs, s->k + key * dim, 1, MR, s->q + (i0 + u) * dim, NR, dim, s->p + u, SPAN,
                     0);
        tile_product(pairs, s->v + key * dim, 1, MR, s->dout + (i0 + u) * dim, NR, dim, ds + u,
                     SPAN, 0);
    }
    for (int64_t r = 0; r < MR; r += pairs ? 2 : 1) {
        const float *factor = a->dropout > 0 ? s->factor + (row + r) * SPAN : NULL;
        if (pairs)
            backward_two_rows(s, key + r, r, i0, from, count, factor, ds_pairs + r / 2 * SPAN);
        else
            backward_row(s, key + r, i0, from, count, factor, s->p + r * SPAN, ds + r * SPAN);
    }
    const float *p = pairs ? s->p_halves : s->p;
    int64_t first = words_of(pairs, from), words = words_of(pairs, count - from),
            step = words_of(pairs, SPAN), b = words_of(pairs, i0 + from) * width;
    ds = pairs ? s->ds_halves : ds;
    for (int64_t c = 0; c < width; c += NR) {
        tile_product(pairs, p + first, step, 1, s->dout_rows + b + c, width, words,
                     s->dv + row * width + c, width, 1);
        tile_product(pairs, ds + first, step, 1, s->q_rows + b + c, width, words,
                     s->dk + row * width + c, width, 1);
    }
}

// Sets factor[c][u] for keys [k0, k0+QUERIES) and queries [i0, i0+count).
static void set_dropout_factors(const zr_attention *a, const head *at, int64_t k0, int64_t i0,
                                int64_t count, float *factor)
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

// Where rows of head_dim elements go: every `step` elements of `to`, from element `first` on.
typedef struct rows_target {
    zero_dtype dtype;
    void *to;
    int64_t first, step;
} rows_target;

static void rows_write(const zr_attention *a, const float *from, int64_t rows, float factor,
                       const rows_target *at)
{
    for (int64_t i = 0; i < rows; i++)
        row_write(at->dtype, from + i * wide(a), a->head_dim, factor, at->to,
                  at->first + i * at->step);
}

// Returns where position k0 of dk goes, for head `index` of those of all samples; that of dv lies
// kv_heads*head_dim elements further.
static rows_target shared_target(const job *work, const head *at, int64_t index, int64_t k0)
{
    const zr_attention *a = work->attention;
    int64_t b = index / a->heads, kv_head = index % a->heads / heads_per_kv_head(a),
            row = zr_attention_shared_row(a);
    if (!work->d_shared)
        return (rows_target){a->dtype, work->dqkv, at->first_k + k0 * at->step, at->step};
    return (rows_target){
        .dtype = ZERO_F32,
        .to = work->d_shared,
        .first = (b * a->seq + k0) * row + kv_head * a->head_dim,
        .step = row,
    };
}

// Handles keys [k0, k0+keys) and queries [i0, i0+count).
INLINE void backward_span(bool pairs, const zr_attention *a, const backward_space *s, int64_t k0,
                          int64_t keys, int64_t i0, int64_t count)
{
    int64_t width = wide(a);
    const float *k_rows = s->k_rows + words_of(pairs, k0) * width;
    for (int64_t row = 0; row < keys; row += MR)
        backward_panel(pairs, a, s, k0 + row, row, i0, count);
    for (int64_t u = 0; u < count; u += MR) {
        int64_t reached = ZR_MIN(keys, i0 + u + MR - k0);
        for (int64_t c = 0; c < width && reached > 0; c += NR)
            tile_product(pairs, (pairs ? s->ds_pairs : s->ds) + u, 1, SPAN, k_rows + c, width,
                         words_of(pairs, reached), s->dq + (i0 + u) * width + c, width, 1);
    }
}

// Handles keys [k0, k0+keys) and query head `index` of those of all samples: their own dk
// and dv, which the last of the heads that share them writes, and what they add to dq.
static void backward_block(const job *work, const head *at, const backward_space *s, int64_t k0,
                           int64_t index)
{
    const zr_attention *a = work->attention;
    int64_t keys = ZR_MIN(QUERIES, a->seq - k0), width = wide(a),
            turn = index % heads_per_kv_head(a);
    backward_space own = *s;
    if (heads_per_kv_head(a) > 1)
        own.dk += k0 * width, own.dv += k0 * width;
    if (turn == 0) {
        memset(own.dk, 0, sizeof(float) * (size_t)(QUERIES * width));
        memset(own.dv, 0, sizeof(float) * (size_t)(QUERIES * width));
    }
    for (int64_t i0 = k0 / NR * NR; i0 < a->seq && start_of(at, i0) < k0 + keys; i0 += SPAN) {
        int64_t count = ZR_MIN(SPAN, a->seq - i0);
        if (a->dropout > 0)
            set_dropout_factors(a, at, k0, i0, count, s->factor);
        if (HAS_PAIRS && heads_in_pairs(a))
            backward_span(true, a, &own, k0, keys, i0, count);
        else
            backward_span(false, a, &own, k0, keys, i0, count);
    }
    if (turn + 1 < heads_per_kv_head(a))
        return;
    rows_target to = shared_target(work, at, index, k0);
    rows_write(a, own.dk, keys, a->scale, &to);
    to.first += a->kv_heads * a->head_dim;
    rows_write(a, own.dv, keys, 1, &to);
}

static void backward_heads(const void *job_, int64_t first, int64_t last, int worker)
{
    const job *work = job_;
    const zr_attention *a = work->attention;
    space own = {.base = work->scratch + worker * work->worker_floats};
    backward_space s = backward_carve(a, &own);
    for (int64_t index = first * heads_per_kv_head(a); index < last * heads_per_kv_head(a);
         index++) {
        head at = head_at(a, work->qkv, index, work->starts, work->key);
        s.starts = at.starts;
        s.queries = a->seq;
        s.window = a->window ? ZR_MIN(a->window, a->seq) : a->seq;
        const rows_target queries = {a->dtype, work->dqkv, at.first_in, at.step};
        backward_pack(work, &at, work->lse + index * a->seq, &s);
        for (int64_t k0 = 0; k0 < a->seq; k0 += QUERIES)
            backward_block(work, &at, &s, k0, index);
        rows_write(a, s.dq, a->seq, a->scale, &queries);
    }
}

int64_t ZR_CPU_TABLE(zr_cpu_attention_backward_floats)(const zr_attention *attention)
{
    space counted = {0};
    backward_carve(attention, &counted);
    return counted.used;
}

void ZR_CPU_TABLE(zr_cpu_attention_backward)(zr_queue *queue, const zr_attention *attention,
                                             const void *qkv, const void *out, const float *lse,
                                             const void *dout, void *dqkv, float *d_shared,
                                             const int32_t *starts, const zr_step_values *values,
                                             void *scratch)
{
    job work = {.attention = attention,
                .qkv = qkv,
                .out = out,
                .dout = dout,
                .lse = lse,
                .dqkv = dqkv,
                .d_shared = d_shared,
                .starts = starts,
                .scratch = scratch,
                .key = dropout_key(attention, values),
                .worker_floats = ZR_CPU_TABLE(zr_cpu_attention_backward_floats)(attention)};
    zr_cpu_for(queue, attention->batch * attention->kv_heads, 1, backward_heads, &work);
}
