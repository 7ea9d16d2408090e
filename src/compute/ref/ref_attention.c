// Causal self-attention one query at a time: a row of probabilities exists, a matrix never does.
//
// Backward, with P the probabilities, M the dropout mask over (1-p), O = (P*M) V:
//   dV = (P*M)' dO;  dP = (dO V')*M;  dS = P*(dP - rowsum(dO*O));  dQ = scale dS K;  dK = scale dS' Q
#include "compute/backends.h"
#include "compute/ref/ref.h"

#include <math.h>
#include <string.h>

typedef struct head { // one (batch, head); rows of q, k, v lie `stride` apart, rows of out and dout `out_stride`
    const zr_attention *attention;
    const float *q, *k, *v;
    int64_t stride, out_stride;
    uint64_t first_element; // of the dropout mask
} head;

static head head_at(const zr_attention *attention, const float *qkv, int64_t b, int64_t h)
{
    int64_t width = attention->heads * attention->head_dim;
    const float *q = qkv + b * attention->seq * 3 * width + h * attention->head_dim;
    return (head){
        .attention = attention,
        .q = q,
        .k = q + width,
        .v = q + 2 * width,
        .stride = 3 * width,
        .out_stride = width,
        .first_element = (uint64_t)((b * attention->heads + h) * attention->seq * attention->seq),
    };
}

static double dot(const float *a, const float *b, int64_t count)
{
    double sum = 0;
    for (int64_t c = 0; c < count; c++)
        sum += (double)a[c] * b[c];
    return sum;
}

static double mask(const head *at, int64_t i, int64_t j)
{
    float p = at->attention->dropout;
    if (p <= 0)
        return 1;
    uint64_t element = at->first_element + (uint64_t)(i * at->attention->seq + j);
    return zr_dropout_keep(at->attention->dropout_key, element, p) ? zr_dropout_factor(p) : 0;
}

// probability[0..i] of query i; returns the log-sum-exp of its scores.
static double probabilities(const head *at, int64_t i, double *probability)
{
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j <= i; j++) {
        probability[j] = dot(at->q + i * at->stride, at->k + j * at->stride, at->attention->head_dim)
                         * at->attention->scale;
        max = probability[j] > max ? probability[j] : max;
    }
    for (int64_t j = 0; j <= i; j++)
        sum += probability[j] = exp(probability[j] - max);
    for (int64_t j = 0; j <= i; j++)
        probability[j] /= sum;
    return max + log(sum);
}

static void forward(zr_queue *queue, const zr_attention *attention, const void *qkv, void *out_, float *lse,
                    void *scratch)
{
    assert(attention->dtype == ZERO_F32);
    double *probability = scratch;
    for (int64_t bh = 0; bh < attention->batch * attention->heads; bh++) {
        int64_t b = bh / attention->heads, h = bh % attention->heads;
        head at = head_at(attention, qkv, b, h);
        float *out = (float *)out_ + b * attention->seq * at.out_stride + h * attention->head_dim;
        for (int64_t i = 0; i < attention->seq; i++) {
            double row_lse = probabilities(&at, i, probability);
            if (lse)
                lse[bh * attention->seq + i] = (float)row_lse;
            for (int64_t c = 0; c < attention->head_dim; c++) {
                double sum = 0;
                for (int64_t j = 0; j <= i; j++)
                    sum += probability[j] * mask(&at, i, j) * at.v[j * at.stride + c];
                out[i * at.out_stride + c] = (float)sum;
            }
        }
    }
}

// Adds what query i gives to dk and dv (seq, head_dim), and writes its dq.
static void backward_row(const head *at, int64_t i, const float *out, const float *dout, double *probability,
                         double *dk, double *dv, float *dq)
{
    int64_t dim = at->attention->head_dim;
    double scale = at->attention->scale, delta = dot(out, dout, dim), row[dim];
    probabilities(at, i, probability);
    memset(row, 0, sizeof(row));
    for (int64_t j = 0; j <= i; j++) {
        double kept = mask(at, i, j);
        double ds = probability[j] * (dot(dout, at->v + j * at->stride, dim) * kept - delta) * scale;
        for (int64_t c = 0; c < dim; c++) {
            dv[j * dim + c] += probability[j] * kept * dout[c];
            dk[j * dim + c] += ds * at->q[i * at->stride + c];
            row[c] += ds * at->k[j * at->stride + c];
        }
    }
    for (int64_t c = 0; c < dim; c++)
        dq[c] = (float)row[c];
}

static void backward(zr_queue *queue, const zr_attention *attention, const void *qkv, const void *out_,
                     const float *lse, const void *dout_, void *dqkv_, void *scratch)
{
    assert(attention->dtype == ZERO_F32);
    int64_t seq = attention->seq, dim = attention->head_dim, width = attention->heads * dim;
    double *probability = scratch, *dk = probability + seq, *dv = dk + seq * dim;
    for (int64_t bh = 0; bh < attention->batch * attention->heads; bh++) {
        int64_t b = bh / attention->heads, h = bh % attention->heads;
        head at = head_at(attention, qkv, b, h);
        float *dq = (float *)dqkv_ + (at.q - (const float *)qkv);
        int64_t first = b * seq * width + h * dim;
        memset(dk, 0, sizeof(double) * (size_t)(2 * seq * dim));
        for (int64_t i = 0; i < seq; i++) {
            const float *out = (const float *)out_ + first + i * width,
                        *dout = (const float *)dout_ + first + i * width;
            backward_row(&at, i, out, dout, probability, dk, dv, dq + i * at.stride);
        }
        for (int64_t j = 0; j < seq; j++)
            for (int64_t c = 0; c < dim; c++) {
                dq[j * at.stride + width + c] = (float)dk[j * dim + c];
                dq[j * at.stride + 2 * width + c] = (float)dv[j * dim + c];
            }
    }
}

static size_t scratch(const zr_queue *queue, const zr_attention *attention)
{
    return sizeof(double) * (size_t)(attention->seq * (1 + 2 * attention->head_dim));
}

static void decode(zr_queue *queue, const zr_attention *attention, const void *qkv_, float *k_cache, float *v_cache,
                   int64_t capacity, int64_t at, void *out_)
{
    assert(attention->dtype == ZERO_F32 && at < capacity);
    int64_t dim = attention->head_dim, width = attention->heads * dim;
    for (int64_t h = 0; h < attention->heads; h++) {
        const float *q = (const float *)qkv_ + h * dim;
        float *k = k_cache + h * capacity * dim, *v = v_cache + h * capacity * dim, *out = (float *)out_ + h * dim;
        memcpy(k + at * dim, q + width, sizeof(float) * (size_t)dim);
        memcpy(v + at * dim, q + 2 * width, sizeof(float) * (size_t)dim);
        double max = -INFINITY, sum = 0, row[dim];
        for (int64_t j = 0; j <= at; j++)
            max = fmax(max, dot(q, k + j * dim, dim) * attention->scale);
        memset(row, 0, sizeof(row));
        for (int64_t j = 0; j <= at; j++) {
            double weight = exp(dot(q, k + j * dim, dim) * attention->scale - max);
            sum += weight;
            for (int64_t c = 0; c < dim; c++)
                row[c] += weight * v[j * dim + c];
        }
        for (int64_t c = 0; c < dim; c++)
            out[c] = (float)(row[c] / sum);
    }
}

const zr_attention_ops zr_ref_attention_ops = {
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
    .decode = decode,
};
