// Causal self-attention on blocks (FlashAttention: Dao et al., 2022; Dao, 2023); one task is one
// (batch, head).
//
// Each head's q, k and v are packed first, so that the register tiles read them in sequence.
// Forward goes over panels of MR queries: scores of up to KEYS keys, an online softmax, the product
// with v. Backward goes over panels of MR keys, with the queries in the lanes; it computes the
// probabilities again from lse, so nothing but lse is kept. Neither ever touches blocks above the
// diagonal.
//
//   forward                keys ->                    backward             queries ->
//            +-------+                                         +-----------------------+
//    queries | panel |-- only to the diagonal            keys  | panel: from the diag. |
//
// Nor do they touch blocks of keys before every query's start, so that a window costs what it sees.
//
// Invariant: rows and columns that only fill up a tile hold zeros, and never contribute to a row or
// column that counts.
#include "compute/cpu/cpu_attention.h"

#define KEYS 256 // keys per block

typedef struct job {
    const zr_attention *attention;
    const void *qkv;
    void *to;
    float *to_lse;
    float *scratch;
    int64_t worker_floats;
    const int32_t *starts;
    uint64_t key; // of dropout
    // For decode only: the cache, the runs, and the row of qkv at which each begins.
    float *cached_k, *cached_v;
    const zr_attention_run *runs;
    const int64_t *rows;
} job;

// The queries are the positions from `first` on; the keys are all positions up to the last query.
typedef struct span {
    int64_t first, queries;
    int64_t aligned; // blocks of keys begin at multiples of this
} span;

// ---- forward ----

typedef struct forward_space { // arrays of floats, or those of words of pairs
    bool pairs;
    float scale;   // of scores: 1 where q has it already
    float *q;      // panels of MR queries: [queries/MR][words of head_dim][MR]
    float *k;      // panels of NR keys: [keys/NR][words of head_dim][NR]
    float *v;      // (words of keys, wide)
    float *score;  // floats (MR, KEYS), then the probabilities
    float *halves; // (MR, KEYS / 2) the probabilities in pairs
    float *factor; // (KEYS) factors of dropout
    float *sum;    // (QUERIES, wide)
    // (QUERIES) The running maximum of the scores, and the sum of the exponentials.
    float *largest, *norm;
} forward_space;

static forward_space forward_carve(const zr_attention *a, bool pairs, int64_t queries, int64_t keys,
                                   space *from)
{
    int64_t dim = words_of(pairs, a->head_dim);
    return (forward_space){
        .pairs = pairs,
        .scale = pairs ? a->scale : 1,
        .q = take(from, ZR_ROUND_UP(queries, MR) * dim),
        .k = take(from, ZR_ROUND_UP(keys, NR) * dim),
        .v = take(from, words_of(pairs, keys) * wide(a)),
        .score = take(from, MR * KEYS),
        .halves = take(from, pairs ? MR * KEYS / 2 : 0),
        .factor = take(from, KEYS),
        .sum = take(from, QUERIES * wide(a)),
        .largest = take(from, QUERIES),
        .norm = take(from, QUERIES),
    };
}

// Sets the first scores, which are of keys before the query's start.
static void hide_keys(float *score, int64_t count)
{
    for (int64_t j = 0; j < count; j++)
        score[j] = -INFINITY;
}

// Turns the first `valid` of a row's scores, times scale > 0, into exponentials, and the others up
// to `count` into zeros. The first `full` <= valid, a multiple of LANES, need no mask. Returns the
// factor by which the sums of earlier blocks must be multiplied.
INLINE float softmax_row(float *score, float scale, int64_t full, int64_t valid, int64_t count,
                         float *largest, float *norm)
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
    float now = ZR_MAX(*largest, vf_largest(top) * scale),
          rescale = *norm == 0 ? 0 : expf(*largest - now);
    for (int64_t j = 0; j < count; j += LANES) {
        vf e = vf_exp(vf_load(score + j) * scale - now);
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

// Writes `count` probabilities as pairs of keys; whole vectors of them are read.
static void halves_write(const float *from, int64_t count, void *to)
{
    for (int64_t j = 0; j < count; j += LANES)
        *(vh_loose *)((uint16_t *)to + j) = vf_to_factor(vf_load(from + j));
}

// The panel's scores, and what its probabilities add to the sums.
INLINE void panel_scores(bool pairs, const forward_space *s, int64_t dim, int64_t q0, int64_t k0,
                         int64_t count)
{
    for (int64_t j = 0; j < count; j += NR)
        tile_product(pairs, s->q + q0 * dim, 1, MR, s->k + (k0 + j) * dim, NR, dim, s->score + j,
                     KEYS, 0);
}

INLINE void panel_sums(bool pairs, const forward_space *s, int64_t width, int64_t k0, int64_t count,
                       bool adds, float *sum)
{
    int64_t words = words_of(pairs, count), first = words_of(pairs, k0);
    for (int64_t c = 0; c < width; c += NR)
        tile_product(pairs, pairs ? s->halves : s->score, words_of(pairs, KEYS), 1,
                     s->v + first * width + c, width, words, sum + c, width, adds);
}

// The exponentials of a row whose keys of the block are all before its start.
static float no_exponentials(float *score, int64_t count, float norm)
{
    memset(score, 0, sizeof *score * (size_t)count);
    return norm == 0 ? 0 : 1;
}

// Adds keys [k0, k0+count) to the panel of queries [q0, q0+MR), which is row `row` of the block.
// adds: earlier keys have been added.
static void forward_panel(const zr_attention *a, const head *at, const forward_space *s,
                          const span *of, int64_t q0, int64_t row, int64_t k0, int64_t count,
                          bool adds)
{
    int64_t i0 = of->first + q0, width = wide(a),
            full = ZR_MAX(0, ZR_MIN(count, i0 + 1 - k0)) / LANES * LANES;
    int64_t dim = words_of(s->pairs, a->head_dim);
    float *sum = s->sum + row * width;
    if (HAS_PAIRS && s->pairs)
        panel_scores(true, s, dim, q0, k0, count);
    else
        panel_scores(false, s, dim, q0, k0, count);
    for (int64_t r = 0; r < MR; r++) {
        float *score = s->score + r * KEYS, *norm = s->norm + row + r;
        int64_t valid = ZR_MAX(0, ZR_MIN(count, i0 + r + 1 - k0));
        int64_t hidden = start_of(at, i0 + r) - k0;
        hide_keys(score, ZR_MIN(hidden, valid));
        float rescale =
            hidden > 0 && hidden >= valid
                ? no_exponentials(score, count, *norm)
                : softmax_row(score, s->scale, full, valid, count, s->largest + row + r, norm);
        if (adds)
            multiply_row(sum + r * width, width, rescale);
        if (a->dropout > 0) {
            dropout_factors(a, at, i0 + r, k0, valid, s->factor);
            for (int64_t j = 0; j < valid; j++)
                score[j] *= s->factor[j];
        }
        if (s->pairs)
            halves_write(score, count, s->halves + r * KEYS / 2);
    }
    if (HAS_PAIRS && s->pairs)
        panel_sums(true, s, width, k0, count, adds, sum);
    else
        panel_sums(false, s, width, k0, count, adds, sum);
}

static void forward_block(const job *work, const head *at, const forward_space *s, const span *of,
                          int64_t q0, float *lse)
{
    const zr_attention *a = work->attention;
    int64_t rows = ZR_MIN(QUERIES, of->queries - q0);
    for (int64_t i = 0; i < QUERIES; i++) {
        s->largest[i] = -INFINITY;
        s->norm[i] = 0;
    }
    int64_t begin = start_of(at, of->first + q0) / of->aligned * of->aligned;
    for (int64_t k0 = begin; k0 < of->first + q0 + rows; k0 += KEYS)
        for (int64_t row = 0; row < rows; row += MR) {
            int64_t end = of->first + ZR_MIN(q0 + row + MR, of->queries),
                    start = start_of(at, of->first + q0 + row);
            if (k0 < end && start < k0 + KEYS)
                forward_panel(a, at, s, of, q0 + row, row, k0, ZR_MIN(KEYS, end - k0),
                              k0 > begin + (start - begin) / KEYS * KEYS);
        }
    for (int64_t i = 0; i < rows; i++) {
        row_write(a->dtype, s->sum + i * wide(a), a->head_dim, 1 / s->norm[i], work->to,
                  at->first_out + (q0 + i) * at->out_step);
        if (lse)
            lse[q0 + i] = s->largest[i] + logf(s->norm[i]);
    }
}

static void forward_heads(const void *job_, int64_t first, int64_t last, int worker)
{
    const job *work = job_;
    const zr_attention *a = work->attention;
    const span all = {.queries = a->seq, .aligned = NR};
    space own = {.base = work->scratch + worker * work->worker_floats};
    forward_space s = forward_carve(a, heads_in_pairs(a), a->seq, a->seq, &own);
    for (int64_t index = first; index < last; index++) {
        head at = head_at(a, work->qkv, index, work->starts, work->key);
        columns_pack(a, at.q, at.step, MR, a->scale, s.q);
        columns_pack(a, at.k, at.step, NR, 1, s.k);
        rows_pack(a, at.v, at.step, a->seq, s.v);
        for (int64_t q0 = 0; q0 < a->seq; q0 += QUERIES)
            forward_block(work, &at, &s, &all, q0,
                          work->to_lse ? work->to_lse + index * a->seq : NULL);
    }
}

static int64_t forward_floats(const zr_attention *a, bool pairs, int64_t queries, int64_t keys)
{
    space counted = {0};
    forward_carve(a, pairs, queries, keys, &counted);
    return counted.used;
}

void ZR_CPU_TABLE(zr_cpu_attention_forward)(zr_queue *queue, const zr_attention *attention,
                                            const void *qkv, void *out, float *lse,
                                            const int32_t *starts, const zr_step_values *values,
                                            void *scratch)
{
    job work = {.attention = attention,
                .qkv = qkv,
                .to = out,
                .to_lse = lse,
                .starts = starts,
                .scratch = scratch,
                .key = dropout_key(attention, values),
                .worker_floats = forward_floats(attention, heads_in_pairs(attention),
                                                attention->seq, attention->seq)};
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

// Returns the element of k and v at which the head's positions begin.
static int64_t first_cached_element(const job *work, const zr_attention_run *run, int64_t kv_head)
{
    const zr_attention *a = work->attention;
    return (run->sequence * a->kv_heads + kv_head) * work->attention->capacity * a->head_dim;
}

// Decodes a run of one row, reading the cache as it lies. first: of q in qkv; to: of the head in
// out.
static void decode_row(const job *work, const zr_attention_run *run, int64_t first, int64_t to,
                       int64_t cached)
{
    const zr_attention *a = work->attention;
    const float *k = work->cached_k + cached, *v = work->cached_v + cached;
    int64_t dim = a->head_dim, keys = run->first + 1,
            start = zr_attention_window_start(a, run->first);
    float q[dim], sum[wide(a)], score[KEYS], largest = -INFINITY, norm = 0;
    zr_widen(a->dtype, element_at(a->dtype, work->qkv, first), dim, q);
    for (int64_t k0 = start; k0 < keys; k0 += KEYS) {
        int64_t count = ZR_MIN(KEYS, keys - k0);
        for (int64_t j = 0; j < count; j++)
            score[j] = dot(q, k + (k0 + j) * dim, dim) * a->scale;
        float rescale = softmax_row(score, 1, count / LANES * LANES, count, count, &largest, &norm);
        for (int64_t c = 0; c < dim; c += LANES) {
            vf row = k0 > start ? vf_load(sum + c) * rescale : (vf){0};
            for (int64_t j = 0; j < count; j++)
                row += vf_get(v + (k0 + j) * dim + c, dim - c) * score[j];
            vf_store(sum + c, row);
        }
    }
    for (int64_t c = 0; c < dim; c++)
        sum[c] /= norm;
    row_write(a->dtype, sum, dim, 1, work->to, to);
}

// Decodes a run of several rows in fp32, as forward does without pairs, with the cache's keys
// before those of the run. Whole blocks that no row's window has are left out, and positions are
// counted from there: blocks begin at the same positions, however a sequence is cut into runs.
static void decode_rows(const job *work, const zr_attention_run *run, int64_t first, int64_t to,
                        int64_t cached, float *scratch)
{
    const zr_attention *a = work->attention;
    int64_t dim = a->head_dim, row = zr_attention_row(a),
            left_out = zr_attention_window_start(a, run->first) / KEYS * KEYS,
            keys = run->first + run->rows - left_out;
    const span of = {.first = run->first - left_out, .queries = run->rows, .aligned = KEYS};
    const head at = {.out_step = a->heads * dim, .first_out = to, .attention = a};
    space own = {.base = scratch};
    forward_space s = forward_carve(a, false, run->rows, keys, &own);
    WITH_TYPE(TYPE, a->dtype,
              pack_columns(TYPE, element_at(a->dtype, work->qkv, first), row, run->rows, dim, MR,
                           a->scale, s.q));
    cached += left_out * dim;
    pack_columns(ZERO_F32, work->cached_k + cached, dim, keys, dim, NR, 1, s.k);
    pack_rows(ZERO_F32, false, work->cached_v + cached, dim, keys, keys, dim, wide(a), s.v);
    for (int64_t q0 = 0; q0 < run->rows; q0 += QUERIES)
        forward_block(work, &at, &s, &of, q0, NULL);
}

static void decode_heads(const void *job_, int64_t first, int64_t last, int worker)
{
    const job *work = job_;
    const zr_attention *a = work->attention;
    for (int64_t index = first; index < last; index++) {
        int64_t r = index % a->run_count, h = index / a->run_count, row = work->rows[r];
        const zr_attention_run *run = &work->runs[r];
        int64_t from = row * zr_attention_row(a) + h * a->head_dim,
                to = (row * a->heads + h) * a->head_dim;
        int64_t cached = first_cached_element(work, run, h / (a->heads / a->kv_heads));
        if (run->rows == 1)
            decode_row(work, run, from, to, cached);
        else
            decode_rows(work, run, from, to, cached, work->scratch + worker * work->worker_floats);
    }
}

static void extend_cache(const void *job_, int64_t first, int64_t last, int worker)
{
    const job *work = job_;
    const zr_attention *a = work->attention;
    int64_t dim = a->head_dim, width = a->heads * dim, keys = a->kv_heads * dim;
    for (int64_t index = first; index < last; index++) {
        int64_t r = index % a->run_count, h = index / a->run_count;
        const zr_attention_run *run = &work->runs[r];
        int64_t to = first_cached_element(work, run, h) + run->first * dim,
                from = work->rows[r] * zr_attention_row(a) + width + h * dim;
        assert(run->first + run->rows <= work->attention->capacity);
        for (int64_t i = 0; i < run->rows; i++, to += dim, from += zr_attention_row(a)) {
            zr_widen(a->dtype, element_at(a->dtype, work->qkv, from), dim, work->cached_k + to);
            zr_widen(a->dtype, element_at(a->dtype, work->qkv, from + keys), dim,
                     work->cached_v + to);
        }
    }
}

void ZR_CPU_TABLE(zr_cpu_attention_decode)(zr_queue *queue, const zr_attention *attention,
                                           const zr_attention_run *runs, float *k, float *v,
                                           const void *qkv, void *out, void *scratch)
{
    int run_count = attention->run_count;
    int64_t rows[ZR_MAX(run_count, 1)], begin = 0, scores = 0, most = 0, dim = attention->head_dim;
    for (int r = 0; r < run_count; r++) {
        rows[r] = begin;
        begin += runs[r].rows;
        most = ZR_MAX(most, runs[r].rows);
        scores += runs[r].rows * (runs[r].first + runs[r].rows);
    }
    job work = {.attention = attention,
                .qkv = qkv,
                .to = out,
                .scratch = scratch,
                .worker_floats =
                    most > 1 ? forward_floats(attention, false, attention->seq, attention->capacity)
                             : 0,
                .cached_k = k,
                .cached_v = v,
                .runs = runs,
                .rows = rows};
    int64_t heads = attention->heads * run_count, kv_heads = attention->kv_heads * run_count;
    zr_cpu_for(queue, kv_heads, begin * dim * attention->kv_heads > 8192 ? 1 : ZR_MAX(kv_heads, 1),
               extend_cache, &work);
    zr_cpu_for(queue, heads, scores * dim > 8192 ? 1 : ZR_MAX(heads, 1), decode_heads, &work);
}

size_t ZR_CPU_TABLE(zr_cpu_decode_scratch)(const zr_queue *queue, const zr_attention *attention)
{
    return attention->seq > 1
               ? sizeof(float) * (size_t)(forward_floats(attention, false, attention->seq,
                                                         attention->capacity) *
                                          queue->threads)
               : 0;
}

size_t ZR_CPU_TABLE(zr_cpu_attention_scratch)(const zr_queue *queue, const zr_attention *attention)
{
    int64_t backward = ZR_CPU_TABLE(zr_cpu_attention_backward_floats)(attention);
    return sizeof(float) * (size_t)(ZR_MAX(forward_floats(attention, heads_in_pairs(attention),
                                                          attention->seq, attention->seq),
                                           backward) *
                                    queue->threads);
}
