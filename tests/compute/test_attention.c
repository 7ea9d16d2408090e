// Causal attention: ref against softmax(q k') v written out in long double and its finite differences, cpu against ref.
#include "compute_check.h"

#include <stdlib.h>
#include <string.h>

typedef struct attention_case {
    zr_attention a;
    float *qkv, *dout;
} attention_case;

static attention_case case_new(int64_t batch, int64_t seq, int64_t heads, int64_t dim, float dropout, float size)
{
    attention_case c = {.a = {.batch = batch,
                              .seq = seq,
                              .heads = heads,
                              .head_dim = dim,
                              .scale = 1 / sqrtf((float)dim),
                              .dropout = dropout,
                              .dropout_key = 99}};
    c.qkv = floats_random(batch * seq * 3 * heads * dim, 1, size);
    c.dout = floats_random(batch * seq * heads * dim, 2, 1);
    return c;
}

static void case_free(attention_case *c)
{
    floats_free(c->qkv);
    floats_free(c->dout);
}

typedef struct result {
    int64_t positions, width; // of out; dqkv is three times as wide
    int64_t rows;             // of lse
    float *out, *lse, *dqkv;
} result;

static result result_of(zr_queue *queue, const attention_case *c)
{
    const zr_attention_ops *ops = queue->backend->attention;
    const zr_attention *a = &c->a;
    result r = {.positions = a->batch * a->seq, .width = a->heads * a->head_dim, .rows = a->batch * a->heads * a->seq};
    r.out = floats_new(r.positions * r.width);
    r.lse = floats_new(r.rows);
    r.dqkv = floats_new(3 * r.positions * r.width);
    float *scratch = floats_new((int64_t)ops->scratch(queue, a) / 4);
    ops->forward(queue, a, c->qkv, r.out, r.lse, scratch);
    ops->backward(queue, a, c->qkv, r.out, r.lse, c->dout, r.dqkv, scratch);
    floats_free(scratch);
    return r;
}

static void result_free(result *r)
{
    floats_free(r->out);
    floats_free(r->lse);
    floats_free(r->dqkv);
}

static void results_close(const result *got, const result *want, double tolerance)
{
    check_close("out", got->out, want->out, want->positions * want->width, tolerance, tolerance);
    check_close("lse", got->lse, want->lse, want->rows, tolerance, tolerance);
    check_close("dqkv", got->dqkv, want->dqkv, 3 * want->positions * want->width, tolerance, 5 * tolerance);
}

static void results_same(const result *got, const result *want)
{
    check_same_bits("out", got->out, want->out, want->positions * want->width * 4);
    check_same_bits("lse", got->lse, want->lse, want->rows * 4);
    check_same_bits("dqkv", got->dqkv, want->dqkv, 3 * want->positions * want->width * 4);
}

// ---- the definition ----

typedef struct attention_function {
    attention_case *c;
    float *out, *lse; // where they are wanted
} attention_function;

static const float *part(const attention_function *f, int which, int64_t b, int64_t i,
                         int64_t h) // q, k or v of a position
{
    int64_t width = f->c->a.heads * f->c->a.head_dim;
    return f->c->qkv + (b * f->c->a.seq + i) * 3 * width + which * width + h * f->c->a.head_dim;
}

static long double query_plainly(const attention_function *f, int64_t b, int64_t h, int64_t i)
{
    const zr_attention *a = &f->c->a;
    long double weight[64], sum = 0, total = 0;
    for (int64_t j = 0; j <= i; j++) {
        long double score = 0;
        for (int64_t c = 0; c < a->head_dim; c++)
            score += (long double)part(f, 0, b, i, h)[c] * part(f, 1, b, j, h)[c];
        weight[j] = expl(score * a->scale);
        sum += weight[j];
    }
    int64_t at = (b * a->seq + i) * a->heads * a->head_dim + h * a->head_dim, row = (b * a->heads + h) * a->seq + i;
    for (int64_t c = 0; c < a->head_dim; c++) {
        long double y = 0;
        for (int64_t j = 0; j <= i; j++) {
            bool kept = a->dropout == 0 || zr_dropout_keep(a->dropout_key, (uint64_t)(row * a->seq + j), a->dropout);
            y += kept ? weight[j] / sum * part(f, 2, b, j, h)[c] / (1 - (long double)a->dropout) : 0;
        }
        total += y * f->c->dout[at + c];
        if (f->out)
            f->out[at + c] = (float)y;
    }
    if (f->lse)
        f->lse[row] = (float)logl(sum);
    return total;
}

static double attention_plainly(void *argument) // sum of dout * out
{
    attention_function *f = argument;
    long double total = 0;
    for (int64_t b = 0; b < f->c->a.batch; b++)
        for (int64_t h = 0; h < f->c->a.heads; h++)
            for (int64_t i = 0; i < f->c->a.seq; i++)
                total += query_plainly(f, b, h, i);
    return (double)total;
}

static void ref_is_right_with(float dropout)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    attention_case c = case_new(2, 7, 3, 5, dropout, 1);
    result r = result_of(ref, &c);
    int64_t n = r.positions * r.width;
    attention_function f = {.c = &c, .out = floats_new(n), .lse = floats_new(r.rows)};
    attention_plainly(&f);
    check_close("out", r.out, f.out, n, 2e-7, 1e-7);
    check_close("lse", r.lse, f.lse, r.rows, 2e-7, 1e-7);
    floats_free(f.out);
    floats_free(f.lse);
    f.out = f.lse = NULL;
    for (int64_t i = 0; i < 3 * n; i++) {
        float slope = (float)check_slope(attention_plainly, &f, c.qkv + i, 1.0f / 512);
        check_close("dqkv", r.dqkv + i, &slope, 1, 1e-5, 1e-5);
    }
    result_free(&r);
    case_free(&c);
    check_queue_close(ref);
}

static void ref_is_right(void **state)
{
    ref_is_right_with(0);
}

static void ref_is_right_with_dropout(void **state)
{
    ref_is_right_with(0.3f);
}

// ---- cpu ----

typedef struct attention_shape {
    int64_t batch, seq, heads, dim;
} attention_shape;

static const attention_shape shapes[] = {
    // one position, under and over a block of queries, of keys; odd and large head sizes
    {1, 1, 1, 1},   {2, 3, 2, 5},   {0, 4, 1, 8},   {1, 17, 3, 33},  {2, 64, 4, 32},   {1, 47, 2, 64},
    {1, 49, 2, 64}, {1, 95, 1, 80}, {1, 97, 2, 16}, {1, 260, 1, 24}, {1, 300, 2, 100}, {1, 30, 1, 129},
};

static void body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int s = 0; s < ZR_COUNT(shapes); s++)
        for (int k = 0; k < 2; k++) {
            attention_case c = case_new(shapes[s].batch, shapes[s].seq, shapes[s].heads, shapes[s].dim, k ? 0.4f : 0,
                                        2);
            result got = result_of(queue, &c), want = result_of(ref, &c), one = result_of(single, &c),
                   again = result_of(queue, &c);
            results_close(&got, &want, 2e-6);
            results_same(&got, &one);
            results_same(&got, &again);
            result_free(&got);
            result_free(&want);
            result_free(&one);
            result_free(&again);
            case_free(&c);
        }
}

static void cpu_agrees(void **state)
{
    check_each_cpu(body);
}

// Scores of +-1000 and more: the exponentials must be taken of differences, across blocks of keys too.
static void large_scores(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    attention_case c = case_new(1, 600, 1, 16, 0, 40);
    result got = result_of(queue, &c), want = result_of(ref, &c);
    check_close("out", got.out, want.out, 600 * 16, 1e-3,
                1e-2); // scores of 1000 carry errors of 1e-4 into the exponent
    check_close("lse", got.lse, want.lse, 600, 1e-6, 0);
    result_free(&got);
    result_free(&want);
    case_free(&c);
}

static void cpu_bears_large_scores(void **state)
{
    check_each_cpu(large_scores);
}

// What comes later than a query's whole panel never reaches it; what comes before does, if it is not a number.
static void later_positions(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    attention_case c = case_new(1, 120, 2, 32, 0, 1);
    result clean = result_of(queue, &c);
    for (int64_t i = 60 * 192; i < 120 * 192; i++)
        c.qkv[i] *= -3;
    result changed = result_of(queue, &c);
    check_same_bits("earlier positions", changed.out, clean.out, 60 * 64 * 4);
    c.qkv[60 * 192 + 64] = NAN; // a key of head 0
    result spoiled = result_of(queue, &c);
    check_same_bits("earlier panels", spoiled.out, clean.out, 60 * 64 * 4);
    for (int64_t i = 66; i < 120; i++)
        assert_true(isnan(spoiled.out[i * 64]) && !isnan(spoiled.out[i * 64 + 32]));
    result_free(&clean);
    result_free(&changed);
    result_free(&spoiled);
    case_free(&c);
}

static void cpu_is_causal(void **state)
{
    check_each_cpu(later_positions);
}

static void evaluation(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    attention_case c = case_new(2, 70, 2, 40, 0, 1);
    result r = result_of(queue, &c);
    float *out = floats_new(2 * 70 * 80),
          *scratch = floats_new((int64_t)queue->backend->attention->scratch(queue, &c.a) / 4);
    queue->backend->attention->forward(queue, &c.a, c.qkv, out, NULL, scratch);
    check_same_bits("without lse", out, r.out, 2 * 70 * 80 * 4);
    floats_free(out);
    floats_free(scratch);
    result_free(&r);
    case_free(&c);
}

static void cpu_evaluates(void **state)
{
    check_each_cpu(evaluation);
}

// Position after position from the cache gives what forward gives for all.
static void decode_all(zr_queue *queue, const zr_queue *expected, int64_t seq, int64_t heads, int64_t dim)
{
    attention_case c = case_new(1, seq, heads, dim, 0, 2);
    int64_t capacity = seq + 3, width = heads * dim;
    float *k = floats_new(capacity * width), *v = floats_new(capacity * width), *out = floats_new(seq * width),
          *want = floats_new(seq * width);
    float *scratch = floats_new((int64_t)expected->backend->attention->scratch(expected, &c.a) / 4);
    expected->backend->attention->forward((zr_queue *)expected, &c.a, c.qkv, want, NULL, scratch);
    for (int64_t at = 0; at < seq; at++)
        queue->backend->attention->decode(queue, &c.a, c.qkv + at * 3 * width, k, v, capacity, at, out + at * width);
    check_close("decode", out, want, seq * width, 2e-6, 2e-6);
    floats_free(k);
    floats_free(v);
    floats_free(out);
    floats_free(want);
    floats_free(scratch);
    case_free(&c);
}

static void decode_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    decode_all(queue, ref, 20, 3, 7);
    decode_all(queue, ref, 300, 2, 64);
    decode_all(ref, ref, 20, 3, 7);
}

static void decode_agrees(void **state)
{
    check_each_cpu(decode_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_is_right),  cmocka_unit_test(ref_is_right_with_dropout),
        cmocka_unit_test(cpu_agrees),    cmocka_unit_test(cpu_bears_large_scores),
        cmocka_unit_test(cpu_is_causal), cmocka_unit_test(cpu_evaluates),
        cmocka_unit_test(decode_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
