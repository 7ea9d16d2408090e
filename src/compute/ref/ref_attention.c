// Causal self-attention, one query at a time: a row of probabilities exists, a matrix never does.
//
// Backward, with P the probabilities, M the dropout mask over (1-p), O = (P*M) V:
//   dV = (P*M)' dO;  dP = (dO V')*M;  dS = P*(dP - rowsum(dO*O));
//   dQ = scale dS K;  dK = scale dS' Q
#include "compute/backends.h"
#include "compute/ref/ref.h"

#include <math.h>
#include <string.h>

// One (batch, head). Rows of q, k, v lie `stride` elements apart, rows of out and dout
// `out_stride`.
typedef struct head {
    const zr_attention *attention;
    const void *qkv;
    int64_t q, k, v; // first elements in qkv
    int64_t out;     // first element in out and dout
    int64_t stride, out_stride;
    uint64_t first_element, key; // of the dropout mask
    const int32_t *starts;       // (seq), or NULL
} head;

static head head_at(const zr_attention *attention, const void *qkv, int64_t index,
                    const int32_t *starts, const zr_step_values *values)
{
    int64_t b = index / attention->heads, h = index % attention->heads, dim = attention->head_dim;
    int64_t width = attention->heads * dim, row = zr_attention_row(attention),
            begin = b * attention->seq * row;
    int64_t k = begin + width + h / (attention->heads / attention->kv_heads) * dim;
    return (head){
        .attention = attention,
        .qkv = qkv,
        .q = begin + h * dim,
        .k = k,
        .v = k + attention->kv_heads * dim,
        .out = b * attention->seq * width + h * dim,
        .stride = row,
        .out_stride = width,
        .first_element = zr_attention_mask(attention, b, h),
        .key = values ? zr_mask_key(&attention->mask, values) : 0,
        .starts = starts ? starts + b * attention->seq : NULL,
    };
}

static double dot(zero_dtype dtype_a, const void *a, int64_t at_a, zero_dtype dtype_b,
                  const void *b, int64_t at_b, int64_t count)
{
    double sum = 0;
    for (int64_t c = 0; c < count; c++)
        sum += ref_get(dtype_a, a, at_a + c) * ref_get(dtype_b, b, at_b + c);
    return sum;
}

static double dropout_factor(const head *at, int64_t i, int64_t j)
{
    float p = at->attention->dropout;
    if (p <= 0)
        return 1;
    uint64_t element = at->first_element + (uint64_t)(i * at->attention->seq + j);
    return zr_dropout_keep(at->key, element, p) ? zr_dropout_factor(p) : 0;
}

static int64_t first_key(const head *at, int64_t i)
{
    int64_t start = at->starts ? at->starts[i] : 0;
    return ZR_MAX(start, zr_attention_window_start(at->attention, i));
}

// Computes probability[first_key..i] of query i; returns the log-sum-exp of its scores.
static double compute_probabilities(const head *at, int64_t i, double *probability)
{
    zero_dtype type = at->attention->dtype;
    double max = -INFINITY, sum = 0;
    int64_t first = first_key(at, i);
    for (int64_t j = first; j <= i; j++) {
        probability[j] = dot(type, at->qkv, at->q + i * at->stride, type, at->qkv,
                             at->k + j * at->stride, at->attention->head_dim) *
                         at->attention->scale;
        max = probability[j] > max ? probability[j] : max;
    }
    for (int64_t j = first; j <= i; j++)
        sum += probability[j] = exp(probability[j] - max);
    for (int64_t j = first; j <= i; j++)
        probability[j] /= sum;
    return max + log(sum);
}

void zr_ref_attention_forward(zr_queue *queue, const zr_attention *attention, const void *qkv,
                              void *out, float *lse, const int32_t *starts,
                              const zr_step_values *values, void *scratch)
{
    double *probability = scratch;
    for (int64_t bh = 0; bh < attention->batch * attention->heads; bh++) {
        head at = head_at(attention, qkv, bh, starts, values);
        for (int64_t i = 0; i < attention->seq; i++) {
            double row_lse = compute_probabilities(&at, i, probability);
            if (lse)
                lse[bh * attention->seq + i] = (float)row_lse;
            for (int64_t c = 0; c < attention->head_dim; c++) {
                double sum = 0;
                for (int64_t j = first_key(&at, i); j <= i; j++)
                    sum += probability[j] * dropout_factor(&at, i, j) *
                           ref_get(attention->dtype, qkv, at.v + j * at.stride + c);
                ref_put(attention->dtype, out, at.out + i * at.out_stride + c, sum);
            }
        }
    }
}

// Adds what query i contributes to dk and dv (seq, head_dim), and writes its dq.
static void backward_row(const head *at, int64_t i, const void *out, const void *dout,
                         double *probability, double *dk, double *dv, void *dqkv)
{
    zero_dtype type = at->attention->dtype;
    int64_t dim = at->attention->head_dim, q = at->q + i * at->stride,
            o = at->out + i * at->out_stride;
    double scale = at->attention->scale, delta = dot(type, out, o, type, dout, o, dim), row[dim];
    compute_probabilities(at, i, probability);
    memset(row, 0, sizeof(row));
    for (int64_t j = first_key(at, i); j <= i; j++) {
        int64_t k = at->k + j * at->stride, v = at->v + j * at->stride;
        double kept = dropout_factor(at, i, j);
        double ds =
            probability[j] * (dot(type, dout, o, type, at->qkv, v, dim) * kept - delta) * scale;
        for (int64_t c = 0; c < dim; c++) {
            dv[j * dim + c] += probability[j] * kept * ref_get(type, dout, o + c);
            dk[j * dim + c] += ds * ref_get(type, at->qkv, q + c);
            row[c] += ds * ref_get(type, at->qkv, k + c);
        }
    }
    for (int64_t c = 0; c < dim; c++)
        ref_put(type, dqkv, q + c, row[c]);
}

// Writes dk and dv (seq, head_dim) of a head of keys: to dqkv, or else unrounded to d_shared.
static void write_shared(const head *at, int64_t b, int64_t kv_head, const double *dk,
                         const double *dv, void *dqkv, float *d_shared)
{
    const zr_attention *a = at->attention;
    int64_t dim = a->head_dim, row = zr_attention_shared_row(a);
    zero_dtype type = d_shared ? ZERO_F32 : a->dtype;
    void *to = d_shared ? d_shared : dqkv;
    int64_t step = d_shared ? row : at->stride;
    int64_t k = d_shared ? b * a->seq * row + kv_head * dim : at->k;
    int64_t v = k + a->kv_heads * dim;
    for (int64_t j = 0; j < a->seq; j++)
        for (int64_t c = 0; c < dim; c++) {
            ref_put(type, to, k + j * step + c, dk[j * dim + c]);
            ref_put(type, to, v + j * step + c, dv[j * dim + c]);
        }
}

void zr_ref_attention_backward(zr_queue *queue, const zr_attention *attention, const void *qkv,
                               const void *out, const float *lse, const void *dout, void *dqkv,
                               float *d_shared, const int32_t *starts, const zr_step_values *values,
                               void *scratch)
{
    int64_t seq = attention->seq, dim = attention->head_dim,
            sharing = attention->heads / attention->kv_heads;
    double *probability = scratch, *dk = probability + seq, *dv = dk + seq * dim;
    for (int64_t bh = 0; bh < attention->batch * attention->heads; bh++) {
        head at = head_at(attention, qkv, bh, starts, values);
        if (bh % sharing == 0)
            memset(dk, 0, sizeof(double) * (size_t)(2 * seq * dim));
        for (int64_t i = 0; i < seq; i++)
            backward_row(&at, i, out, dout, probability, dk, dv, dqkv);
        if ((bh + 1) % sharing == 0)
            write_shared(&at, bh / attention->heads, bh % attention->heads / sharing, dk, dv, dqkv,
                         d_shared);
    }
}

size_t zr_ref_attention_scratch(const zr_attention *attention)
{
    return sizeof(double) * (size_t)(attention->seq * (1 + 2 * attention->head_dim));
}

// Computes the row of position `at` of one sequence: q and out begin at elements `first` and `to`,
// keys and values at k and v.
static void decode_head(const zr_attention *attention, const void *qkv, int64_t first,
                        const float *k, const float *v, int64_t at, void *out, int64_t to)
{
    int64_t dim = attention->head_dim, start = zr_attention_window_start(attention, at);
    double max = -INFINITY, sum = 0, row[dim];
    for (int64_t j = start; j <= at; j++)
        max = fmax(max,
                   dot(attention->dtype, qkv, first, ZERO_F32, k, j * dim, dim) * attention->scale);
    memset(row, 0, sizeof(row));
    for (int64_t j = start; j <= at; j++) {
        double weight = exp(
            dot(attention->dtype, qkv, first, ZERO_F32, k, j * dim, dim) * attention->scale - max);
        sum += weight;
        for (int64_t c = 0; c < dim; c++)
            row[c] += weight * v[j * dim + c];
    }
    for (int64_t c = 0; c < dim; c++)
        ref_put(attention->dtype, out, to + c, row[c] / sum);
}

// Decodes row `row` of qkv, which is position `at` of the sequence: its keys and values enter the
// cache before its queries look there.
static void decode_row(const zr_attention *attention, float *cached_k, float *cached_v,
                       int64_t sequence, int64_t at, const void *qkv, int64_t row, void *out)
{
    int64_t dim = attention->head_dim, width = attention->heads * dim,
            keys = attention->kv_heads * dim, from = row * zr_attention_row(attention);
    int64_t room = attention->capacity * dim, first = sequence * attention->kv_heads * room;
    assert(at < attention->capacity);
    for (int64_t h = 0; h < attention->kv_heads; h++)
        for (int64_t c = 0; c < dim; c++) {
            cached_k[first + h * room + at * dim + c] =
                (float)ref_get(attention->dtype, qkv, from + width + h * dim + c);
            cached_v[first + h * room + at * dim + c] =
                (float)ref_get(attention->dtype, qkv, from + width + keys + h * dim + c);
        }
    for (int64_t h = 0; h < attention->heads; h++) {
        int64_t head = first + h / (attention->heads / attention->kv_heads) * room;
        decode_head(attention, qkv, from + h * dim, cached_k + head, cached_v + head, at, out,
                    row * width + h * dim);
    }
}

void zr_ref_attention_decode(zr_queue *queue, const zr_attention *attention,
                             const zr_attention_run *runs, float *k, float *v, const void *qkv,
                             void *out, void *scratch)
{
    int64_t row = 0;
    for (int r = 0; r < attention->run_count; r++)
        for (int64_t i = 0; i < runs[r].rows; i++)
            decode_row(attention, k, v, runs[r].sequence, runs[r].first + i, qkv, row++, out);
}

// Rotary embedding, pair by pair. Angles are products rounded to fp32, as in torch; the rest is in
// double.

void zr_ref_rotary_table(zr_queue *queue, const zr_rotary *rotary, const float *frequency,
                         float *table)
{
    int64_t half = rotary->rotated / 2;
    for (int64_t i = 0; i < rotary->seq; i++)
        for (int64_t j = 0; j < half; j++) {
            float angle = (float)(rotary->first + i) * frequency[j];
            table[i * 2 * half + j] = (float)cos(angle) * rotary->factor;
            table[i * 2 * half + half + j] = (float)sin(angle) * rotary->factor;
        }
}

static void rotate_head(const zr_rotary *rotary, const float *angles, const void *x, int64_t from,
                        void *y, int64_t to)
{
    int64_t half = rotary->rotated / 2;
    for (int64_t j = 0; j < half; j++) {
        double c = angles[j], s = rotary->back ? -angles[half + j] : angles[half + j];
        double x1 = ref_get(rotary->from, x, from + j),
               x2 = ref_get(rotary->from, x, from + half + j);
        ref_put(rotary->to, y, to + j, x1 * c - x2 * s);
        ref_put(rotary->to, y, to + half + j, x2 * c + x1 * s);
    }
    for (int64_t j = 2 * half; j < 2 * half + rotary->rest; j++)
        ref_put(rotary->to, y, to + j, ref_get(rotary->from, x, from + j));
}

void zr_ref_rotate(zr_queue *queue, const zr_rotary *rotary, const float *table, const void *x,
                   void *y)
{
    for (int64_t row = 0; row < rotary->batch * rotary->seq; row++)
        for (int64_t h = 0; h < rotary->heads; h++)
            rotate_head(rotary,
                        rotary->rotated ? table + row % rotary->seq * rotary->rotated : NULL, x,
                        row * rotary->x_step + h * rotary->x_head, y,
                        row * rotary->y_step + h * rotary->y_head);
}
