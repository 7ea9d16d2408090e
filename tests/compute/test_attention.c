// Causal attention: ref compared with softmax(q k') v in long double and its finite differences,
// 16-bit ref with fp32 ref on the stored values, and cpu with ref.
#include "compute/compute.h"
#include "compute_check.h"

#include <stdlib.h>
#include <string.h>

static const zr_step_values step = {.seed = 99, .step = 3};

typedef struct attention_case {
    zr_attention a;
    void *qkv, *dout;
} attention_case;

typedef struct attention_shape {
    int64_t batch, seq, heads, dim, kv; // heads of keys and values; 0: as many as of queries
} attention_shape;

static int64_t qkv_elements(const zr_attention *a)
{
    return a->batch * a->seq * zr_attention_row(a);
}

static attention_case case_new(zero_dtype dtype, attention_shape s, float dropout, float size)
{
    attention_case c = {.a = {.dtype = dtype,
                              .batch = s.batch,
                              .seq = s.seq,
                              .heads = s.heads,
                              .kv_heads = s.kv ? s.kv : s.heads,
                              .head_dim = s.dim,
                              .scale = 1 / sqrtf((float)s.dim),
                              .dropout = dropout,
                              .mask = {.micro_batch = 1, .unit = 2, .site = 4}}};
    c.qkv = array_random(dtype, qkv_elements(&c.a), 1, size);
    c.dout = array_random(dtype, zr_attention_out(&c.a), 2, 1);
    return c;
}

static attention_case case_widened(const attention_case *c)
{
    attention_case wide = {.a = c->a,
                           .qkv = array_floats(c->a.dtype, c->qkv, qkv_elements(&c->a)),
                           .dout = array_floats(c->a.dtype, c->dout, zr_attention_out(&c->a))};
    wide.a.dtype = ZERO_F32;
    return wide;
}

static void case_free(attention_case *c)
{
    array_free(c->qkv);
    array_free(c->dout);
}

typedef struct result {
    zero_dtype dtype;
    int64_t n, packed; // of out, of dqkv
    int64_t rows;      // of lse
    void *out, *dqkv;
    float *lse;
} result;

static void *attention_scratch(zr_queue *queue, const zr_attention *a)
{
    return scratch_new(queue, (zr_op){.kind = ZR_OP_attention_backward, .shape.attention = *a});
}

// forward: whose out and lse backward gets, in the case's type; NULL: its own.
static result result_of(zr_queue *queue, const attention_case *c, const result *forward)
{
    const zr_attention *a = &c->a;
    result r = {.dtype = a->dtype,
                .n = zr_attention_out(a),
                .packed = qkv_elements(a),
                .rows = a->batch * a->heads * a->seq};
    r.out = array_new(a->dtype, r.n);
    r.lse = floats_new(r.rows);
    r.dqkv = array_new(a->dtype, r.packed);
    void *scratch = attention_scratch(queue, a);
    forward = forward ? forward : &r;
    zr_run(queue, zr_op_attention_forward(a, c->qkv, r.out, r.lse, NULL, &step, scratch));
    zr_run(queue, zr_op_attention_backward(a, c->qkv, forward->out, forward->lse, c->dout, r.dqkv,
                                           NULL, NULL, &step, scratch));
    array_free(scratch);
    return r;
}

static void result_free(result *r)
{
    array_free(r->out);
    floats_free(r->lse);
    array_free(r->dqkv);
}

static void results_close(const result *got, const result *want, double tolerance)
{
    check_close_as("out", want->dtype, got->out, want->out, want->n, tolerance, tolerance);
    check_close("lse", got->lse, want->lse, want->rows, tolerance, tolerance);
    check_close_as("dqkv", want->dtype, got->dqkv, want->dqkv, want->packed, tolerance,
                   5 * tolerance);
}

// Whether a queue multiplies factors rounded to bf16 in pairs.
static bool in_pairs(const zr_queue *queue, const zr_attention *a)
{
    const char *path = queue->backend->path();
    return a->dtype == ZERO_BF16 && a->head_dim % 2 == 0 &&
           (strcmp(path, "avx512_bf16") == 0 || strcmp(path, "amx") == 0 ||
            strcmp(path, "emulated") == 0);
}

// Columns [first, first+count) of rows of `width`: what rounding the factors of a sum to bf16 does
// to it. Each moves by 2^-9 of itself at most, as what is stored does, and not all the same way.
static void columns_near(const char *what, const float *got, const float *want, int64_t rows,
                         int64_t width, int64_t first, int64_t count)
{
    double square = 0, error = 0, elements = (double)(rows * count);
    for (int64_t i = 0; i < rows * count; i++) {
        int64_t at = i / count * width + first + i % count;
        square += (double)want[at] * want[at];
        error += ((double)got[at] - want[at]) * ((double)got[at] - want[at]);
    }
    double usual = sqrt(square / elements), usual_error = sqrt(error / elements);
    if (usual_error > 0x1p-8 * usual)
        fail_msg("%s: errors of %g, values of %g", what, usual_error, usual);
    for (int64_t i = 0; i < rows * count; i++) {
        int64_t at = i / count * width + first + i % count;
        if (!(fabs((double)got[at] - want[at]) <= 0x1p-7 * fabs((double)want[at]) + 0x1p-5 * usual))
            fail_msg("%s[%lld]: %g, should be %g, usually %g", what, (long long)at, got[at],
                     want[at], usual);
    }
}

static void results_near(const zr_attention *a, const result *got, const result *want)
{
    float *out[2] = {array_floats(got->dtype, got->out, got->n),
                     array_floats(want->dtype, want->out, want->n)};
    float *dqkv[2] = {array_floats(got->dtype, got->dqkv, got->packed),
                      array_floats(want->dtype, want->dqkv, want->packed)};
    int64_t width = a->heads * a->head_dim, shared = a->kv_heads * a->head_dim,
            row = zr_attention_row(a), rows = a->batch * a->seq;
    check_close("lse", got->lse, want->lse, want->rows, 2e-6, 2e-6);
    columns_near("out", out[0], out[1], rows, width, 0, width);
    columns_near("dq", dqkv[0], dqkv[1], rows, row, 0, width);
    columns_near("dk", dqkv[0], dqkv[1], rows, row, width, shared);
    columns_near("dv", dqkv[0], dqkv[1], rows, row, width + shared, shared);
    for (int i = 0; i < 2; i++) {
        floats_free(out[i]);
        floats_free(dqkv[i]);
    }
}

static void results_same(const result *got, const result *want)
{
    check_same_array("out", want->dtype, got->out, want->out, want->n);
    check_same_bits("lse", got->lse, want->lse, want->rows * 4);
    check_same_array("dqkv", want->dtype, got->dqkv, want->dqkv, want->packed);
}

// ---- the definition ----

typedef struct attention_function {
    attention_case *c;
    float *out, *lse; // where they are wanted
} attention_function;

static const float *part(const attention_function *f, int which, int64_t b, int64_t i,
                         int64_t h) // q, k or v of a position
{
    const zr_attention *a = &f->c->a;
    int64_t head =
        which == 0 ? h : a->heads + (which - 1) * a->kv_heads + h / (a->heads / a->kv_heads);
    return (const float *)f->c->qkv + (b * a->seq + i) * zr_attention_row(a) + head * a->head_dim;
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
    int64_t at = (b * a->seq + i) * a->heads * a->head_dim + h * a->head_dim,
            row = (b * a->heads + h) * a->seq + i;
    for (int64_t c = 0; c < a->head_dim; c++) {
        long double y = 0;
        for (int64_t j = 0; j <= i; j++) {
            bool kept =
                a->dropout == 0 || zr_dropout_keep(zr_mask_key(&a->mask, &step),
                                                   (uint64_t)(row * a->seq + j), a->dropout);
            y +=
                kept ? weight[j] / sum * part(f, 2, b, j, h)[c] / (1 - (long double)a->dropout) : 0;
        }
        total += y * ((const float *)f->c->dout)[at + c];
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

static void ref_is_right_with(attention_shape shape, float dropout)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    attention_case c = case_new(ZERO_F32, shape, dropout, 1);
    result r = result_of(ref, &c, NULL);
    int64_t n = r.n;
    attention_function f = {.c = &c, .out = floats_new(n), .lse = floats_new(r.rows)};
    attention_plainly(&f);
    check_close("out", r.out, f.out, n, 2e-7, 1e-7);
    check_close("lse", r.lse, f.lse, r.rows, 2e-7, 1e-7);
    floats_free(f.out);
    floats_free(f.lse);
    f.out = f.lse = NULL;
    for (int64_t i = 0; i < r.packed; i++) {
        float slope = (float)check_slope(attention_plainly, &f, (float *)c.qkv + i, 1.0f / 512);
        check_close("dqkv", (float *)r.dqkv + i, &slope, 1, 1e-5, 1e-5);
    }
    result_free(&r);
    case_free(&c);
    check_queue_close(ref);
}

static void ref_is_right(void **state)
{
    ref_is_right_with((attention_shape){2, 7, 3, 5}, 0);
    ref_is_right_with((attention_shape){2, 5, 6, 3, 2}, 0);
    ref_is_right_with((attention_shape){1, 6, 3, 4, 1}, 0);
}

static void ref_is_right_with_dropout(void **state)
{
    ref_is_right_with((attention_shape){2, 7, 3, 5}, 0.3f);
    ref_is_right_with((attention_shape){2, 5, 4, 3, 2}, 0.3f);
}

// ---- every storage type ----

static const attention_shape shapes[] = {
    // one position, under and over a block of queries, of keys; odd and large head sizes
    {1, 1, 1, 1},
    {2, 3, 2, 5},
    {0, 4, 1, 8},
    {1, 17, 3, 33},
    {2, 64, 4, 32},
    {1, 47, 2, 64},
    {1, 49, 2, 64},
    {1, 95, 1, 80},
    {1, 97, 2, 16},
    {1, 260, 1, 24},
    {1, 300, 2, 100},
    {1, 30, 1, 129},
    // shared keys
    {2, 9, 6, 8, 2},
    {1, 50, 4, 16, 1},
    {2, 130, 6, 20, 3},
};

// Whatever it is stored in, all is computed as from fp32 of the same values, and rounded where it
// is stored; pairs, whose factors are rounded, too, come near it.
static void types_store(zr_queue *queue, const attention_case *c)
{
    attention_case wide = case_widened(c);
    result got = result_of(queue, c, NULL);
    result forward = {.out = array_floats(got.dtype, got.out, got.n), .lse = got.lse};
    result want = result_of(queue, &wide, &forward);
    if (in_pairs(queue, &c->a)) {
        results_near(&c->a, &got, &want);
    } else {
        check_stored("out", got.dtype, got.out, want.out, want.n);
        check_same_bits("lse", got.lse, want.lse, want.rows * 4);
        check_stored("dqkv", got.dtype, got.dqkv, want.dqkv, want.packed);
    }
    floats_free(forward.out);
    result_free(&got);
    result_free(&want);
    case_free(&wide);
}

static void ref_stores_every_type(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    for (int t = 1; t < STORAGE_TYPES; t++)
        for (int s = 0; s < 5; s++) {
            attention_case c = case_new(storage_types[t], shapes[s], 0.4f, 2);
            types_store(ref, &c);
            case_free(&c);
        }
    check_queue_close(ref);
}

static void types_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 1; t < STORAGE_TYPES; t++)
        for (int s = 0; s < ZR_COUNT(shapes); s++)
            for (int k = 0; k < 3; k++) { // the last: what fp16 holds with few bits
                attention_case c =
                    case_new(storage_types[t], shapes[s], k == 1 ? 0.4f : 0, k == 2 ? 1e-6f : 2);
                types_store(queue, &c);
                case_free(&c);
            }
}

static void cpu_stores_every_type(void **state) { check_each_kernels(types_body); }

// ---- cpu against ref ----

static result wanted[ZR_COUNT(shapes)][STORAGE_TYPES][2]; // ref's, which is slow: computed once

static void body_of(int type, int shape, zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int k = 0; k < 2; k++) {
        attention_case c = case_new(storage_types[type], shapes[shape], k ? 0.4f : 0, 2);
        result *want = &wanted[shape][type][k];
        if (!want->out)
            *want = result_of(ref, &c, NULL);
        result got = result_of(queue, &c, want), one = result_of(single, &c, want),
               again = result_of(queue, &c, want);
        if (in_pairs(queue, &c.a))
            results_near(&c.a, &got, want);
        else
            results_close(&got, want, 2e-6);
        results_same(&got, &one);
        results_same(&got, &again);
        result_free(&got);
        result_free(&one);
        result_free(&again);
        case_free(&c);
    }
}

static void body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    // the larger in fp32 alone: ref is slow, and types_store holds the others to it
    for (int s = 0; s < ZR_COUNT(shapes); s++)
        for (int t = 0; t < STORAGE_TYPES; t++)
            if (t == 0 || s < 5 || shapes[s].kv > 0)
                body_of(t, s, queue, single, ref);
}

static void cpu_agrees(void **state)
{
    check_each_kernels(body);
    for (int s = 0; s < ZR_COUNT(shapes); s++)
        for (int i = 0; i < 2 * STORAGE_TYPES; i++)
            if (wanted[s][i / 2][i % 2].out)
                result_free(&wanted[s][i / 2][i % 2]);
}

// Scores of +-1000 and more: the exponentials must be taken of differences, across blocks of keys
// too.
static void large_scores(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < STORAGE_TYPES; t++) {
        attention_case c = case_new(storage_types[t], (attention_shape){1, 300, 1, 16}, 0, 40);
        result got = result_of(queue, &c, NULL), want = result_of(ref, &c, NULL);
        check_close_as("out", c.a.dtype, got.out, want.out, want.n, 1e-3,
                       1e-2); // scores of 1000 carry errors of 1e-4 into the exponent
        check_close("lse", got.lse, want.lse, want.rows, 1e-6, 0);
        result_free(&got);
        result_free(&want);
        case_free(&c);
    }
}

static void cpu_bears_large_scores(void **state) { check_each_kernels(large_scores); }

// Gradients beyond what fp16 holds become infinite, and no others.
static void overflow(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    attention_case c = case_new(ZERO_F16, (attention_shape){1, 60, 2, 16}, 0, 4);
    float *dout = array_floats(ZERO_F16, c.dout, 60 * 32);
    for (int64_t i = 0; i < 60 * 32; i++)
        dout[i] *= 6e4f;
    array_free(c.dout);
    c.dout = array_of(ZERO_F16, dout, 60 * 32);
    result want = result_of(ref, &c, NULL), got = result_of(queue, &c, &want);
    check_close_as("dqkv", ZERO_F16, got.dqkv, want.dqkv, want.packed, 1e-4, 50);
    float *gradient = array_floats(ZERO_F16, got.dqkv, 3 * got.n);
    int64_t infinite = 0;
    for (int64_t i = 0; i < 3 * got.n; i++) {
        assert_false(isnan(gradient[i]));
        infinite += isinf(gradient[i]) != 0;
    }
    assert_true(infinite > 100 && infinite < 3 * got.n - 100);
    floats_free(gradient);
    floats_free(dout);
    result_free(&got);
    result_free(&want);
    case_free(&c);
}

static void cpu_overflows_in_fp16(void **state) { check_each_kernels(overflow); }

static void case_qkv_set(attention_case *c, const float *qkv)
{
    array_free(c->qkv);
    c->qkv = array_of(c->a.dtype, qkv, qkv_elements(&c->a));
}

// What comes later than a query's whole panel never reaches it; what comes before does, if it is
// not a number.
static void later_positions_of(zero_dtype dtype, zr_queue *queue)
{
    attention_case c = case_new(dtype, (attention_shape){1, 120, 2, 32}, 0, 1);
    float *qkv = array_floats(dtype, c.qkv, 120 * 192);
    result clean = result_of(queue, &c, NULL);
    for (int64_t i = 60 * 192; i < 120 * 192; i++)
        qkv[i] *= -3;
    case_qkv_set(&c, qkv);
    result changed = result_of(queue, &c, NULL);
    check_same_array("earlier positions", dtype, changed.out, clean.out, 60 * 64);
    qkv[60 * 192 + 64] = NAN; // a key of head 0
    case_qkv_set(&c, qkv);
    result spoiled = result_of(queue, &c, NULL);
    check_same_array("earlier panels", dtype, spoiled.out, clean.out, 60 * 64);
    float *out = array_floats(dtype, spoiled.out, 120 * 64);
    for (int64_t i = 66; i < 120; i++)
        assert_true(isnan(out[i * 64]) && !isnan(out[i * 64 + 32]));
    floats_free(out);
    floats_free(qkv);
    result_free(&clean);
    result_free(&changed);
    result_free(&spoiled);
    case_free(&c);
}

static void later_positions(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        later_positions_of(storage_types[t], queue);
}

static void cpu_is_causal(void **state) { check_each_kernels(later_positions); }

static void evaluation(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < STORAGE_TYPES; t++) {
        attention_case c = case_new(storage_types[t], (attention_shape){2, 70, 2, 40}, 0, 1);
        result r = result_of(queue, &c, NULL);
        void *scratch = attention_scratch(queue, &c.a);
        void *out = array_new(c.a.dtype, r.n);
        zr_run(queue, zr_op_attention_forward(&c.a, c.qkv, out, NULL, NULL, NULL, scratch));
        check_same_array("without lse", c.a.dtype, out, r.out, r.n);
        array_free(out);
        array_free(scratch);
        result_free(&r);
        case_free(&c);
    }
}

static void cpu_evaluates(void **state) { check_each_kernels(evaluation); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_is_right),
        cmocka_unit_test(ref_is_right_with_dropout),
        cmocka_unit_test(ref_stores_every_type),
        cmocka_unit_test(cpu_stores_every_type),
        cmocka_unit_test(cpu_agrees),
        cmocka_unit_test(cpu_bears_large_scores),
        cmocka_unit_test(cpu_overflows_in_fp16),
        cmocka_unit_test(cpu_is_causal),
        cmocka_unit_test(cpu_evaluates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
