// LayerNorm: ref compared with the formula and its finite differences, 16-bit ref with fp32 ref on
// the stored values, and cpu with ref.
#include "compute/compute.h"
#include "compute_check.h"
#include "base/random.h"

#include <string.h>

static const int64_t widths[] = {1, 3, 17, 64, 128, 768, 1000};
static const int64_t row_counts[] = {0, 1, 5, 70};

typedef struct norm_case {
    zr_norm norm;
    void *x, *branch, *gamma, *beta, *dy, *dx;
} norm_case;

static norm_case norm_new(zero_dtype stream, zero_dtype dtype, int64_t rows, int64_t width,
                          float size)
{
    norm_case c = {
        .norm = {.dtype = dtype, .stream = stream, .rows = rows, .width = width, .epsilon = 1e-5f}};
    c.x = array_random(stream, rows * width, 1, size);
    c.branch = array_random(dtype, rows * width, 2, size);
    c.gamma = array_random(dtype, width, 3, 2);
    c.beta = array_random(dtype, width, 4, 1);
    c.dy = array_random(dtype, rows * width, 5, 1);
    c.dx = array_random(stream, rows * width, 6, 1);
    return c;
}

static void norm_free(norm_case *c)
{
    void *all[] = {c->x, c->branch, c->gamma, c->beta, c->dy, c->dx};
    for (int i = 0; i < ZR_COUNT(all); i++)
        array_free(all[i]);
}

typedef struct norm_result {
    void *sum, *y, *dx;
    float *mean, *rstd, *dgamma, *dbeta;
} norm_result;

// add: to parameters, and to what arrives past the norm, which lies in dx where `in_place`.
static norm_result norm_run(zr_queue *queue, const norm_case *c, bool add, bool in_place)
{
    zr_norm norm = c->norm;
    int64_t rows = c->norm.rows, width = c->norm.width, n = rows * width;
    norm_result r = {.sum = array_new(c->norm.stream, n),
                     .y = array_new(c->norm.dtype, n),
                     .dx = array_new(c->norm.stream, n),
                     .mean = floats_new(rows),
                     .rstd = floats_new(rows),
                     .dgamma = floats_new(width),
                     .dbeta = floats_new(width)};
    if (add) {
        if (in_place)
            memcpy(r.dx, c->dx, (size_t)n * zero_dtype_bytes(c->norm.stream));
        zr_random_uniform(7, 0, width, 2, r.dgamma);
        zr_random_uniform(8, 0, width, 2, r.dbeta);
    }
    norm.add_parameters = add;
    void *scratch = scratch_new(queue, (zr_op){.kind = ZR_OP_norm_backward, .shape.norm = norm});
    zr_run(queue, zr_op_norm_forward(&norm, c->x, c->branch, r.sum, c->gamma, c->beta, r.y, r.mean,
                                     r.rstd));
    zr_run(queue, zr_op_norm_backward(&norm, c->dy, r.sum, c->gamma, r.mean, r.rstd,
                                      !add       ? NULL
                                      : in_place ? r.dx
                                                 : c->dx,
                                      r.dx, r.dgamma, r.dbeta, scratch));
    array_free(scratch);
    return r;
}

static void norm_result_free(norm_result *r)
{
    void *all[] = {r->sum, r->y, r->dx, r->mean, r->rstd, r->dgamma, r->dbeta};
    for (int i = 0; i < ZR_COUNT(all); i++)
        array_free(all[i]);
}

static void norm_check(const norm_result *got, const norm_result *want, const zr_norm *norm,
                       double tolerance)
{
    int64_t n = norm->rows * norm->width;
    double steep = norm->rows ? 1 + want->rstd[0] : 1;
    check_close("mean", got->mean, want->mean, norm->rows, tolerance, tolerance);
    check_close("rstd", got->rstd, want->rstd, norm->rows, tolerance, 0);
    check_same_array("sum", norm->stream, got->sum, want->sum, n);
    check_close_as("y", norm->dtype, got->y, want->y, n, tolerance, 3 * tolerance);
    check_close_as("dx", norm->stream, got->dx, want->dx, n, tolerance, 3 * tolerance * steep);
    check_close("dgamma", got->dgamma, want->dgamma, norm->width, tolerance,
                tolerance * (double)(4 + norm->rows));
    check_close("dbeta", got->dbeta, want->dbeta, norm->width, tolerance,
                tolerance * (double)(4 + norm->rows));
}

static void norm_same_bits(const norm_result *a, const norm_result *b, const zr_norm *norm)
{
    int64_t n = norm->rows * norm->width;
    check_same_array("y", norm->dtype, a->y, b->y, n);
    check_same_bits("mean", a->mean, b->mean, norm->rows * 4);
    check_same_bits("rstd", a->rstd, b->rstd, norm->rows * 4);
    check_same_array("dx", norm->stream, a->dx, b->dx, n);
    check_same_bits("dgamma", a->dgamma, b->dgamma, norm->width * 4);
    check_same_bits("dbeta", a->dbeta, b->dbeta, norm->width * 4);
}

static void norm_compare(zr_queue *queue, zr_queue *single, zr_queue *ref, const norm_case *c,
                         bool add)
{
    norm_result got = norm_run(queue, c, add, true), want = norm_run(ref, c, add, false),
                one = norm_run(single, c, add, false);
    norm_check(&got, &want, &c->norm, c->norm.width < 4 ? 1e-5 : 1e-6);
    norm_same_bits(&got, &one, &c->norm);
    norm_result_free(&got);
    norm_result_free(&want);
    norm_result_free(&one);
}

// Calls test for every stream and type.
typedef void typed_body(zr_queue *queue, zr_queue *single, zr_queue *ref, zero_dtype stream,
                        zero_dtype dtype);

static void each_pair(zr_queue *queue, zr_queue *single, zr_queue *ref, typed_body *test)
{
    for (int s = 0; s < STORAGE_TYPES; s++)
        for (int t = 0; t < STORAGE_TYPES; t++)
            test(queue, single, ref, storage_types[s], storage_types[t]);
}

// fp32 sees all shapes, every other pair of types a third of them.
static void norm_shapes(zr_queue *queue, zr_queue *single, zr_queue *ref, zero_dtype stream,
                        zero_dtype dtype)
{
    int pair = (int)stream * STORAGE_TYPES + (int)dtype;
    for (int w = 0; w < ZR_COUNT(widths); w++)
        for (int k = 0; k < ZR_COUNT(row_counts) * 2; k++) {
            if (pair > 0 && (w + k + pair) % 3 > 0)
                continue;
            norm_case c = norm_new(stream, dtype, row_counts[k / 2], widths[w], 3);
            norm_compare(queue, single, ref, &c, k % 2);
            norm_free(&c);
        }
}

static void norm_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    each_pair(queue, single, ref, norm_shapes);
}

static void cpu_norm_agrees(void **state) { check_each_kernels(norm_body); }

// Without statistics, in place of what is added, and where the rows are many.
static void norm_variants(zr_queue *queue, zr_queue *single, zr_queue *ref, zero_dtype stream,
                          zero_dtype dtype)
{
    enum { ROWS = 300, WIDTH = 41, N = ROWS * WIDTH };
    norm_case c = norm_new(stream, dtype, ROWS, WIDTH, 1);
    norm_result r = norm_run(queue, &c, false, true);
    void *y = array_new(dtype, N);
    zr_run(queue, zr_op_norm_forward(&c.norm, r.sum, NULL, NULL, c.gamma, c.beta, y, NULL, NULL));
    check_same_array("without residual", dtype, y, r.y, N);
    if (stream == dtype) {
        void *sum = array_random(stream, N, 2, 1);
        zr_run(queue, zr_op_norm_forward(&c.norm, c.x, sum, sum, c.gamma, c.beta, y, NULL, NULL));
        check_same_array("in the branch's place", stream, sum, r.sum, N);
        check_same_array("its norm", dtype, y, r.y, N);
        array_free(sum);
    }
    zr_run(queue, zr_op_norm_forward(&c.norm, c.x, c.branch, c.x, c.gamma, c.beta, y, NULL, NULL));
    check_same_array("in place", stream, c.x, r.sum, N);
    check_same_array("no statistics", dtype, y, r.y, N);
    array_free(y);
    norm_result_free(&r);
    norm_free(&c);
}

static void norm_variants_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    each_pair(queue, single, ref, norm_variants);
}

static void cpu_norm_variants(void **state) { check_each_kernels(norm_variants_body); }

static void norm_far_from_zero(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    norm_case c = norm_new(ZERO_F32, ZERO_F32, 3000, 40, 1);
    for (int64_t i = 0; i < 3000 * 40; i++)
        ((float *)c.x)[i] += 1000;
    norm_result got = norm_run(queue, &c, false, true), one = norm_run(single, &c, false, true),
                want = norm_run(ref, &c, false, true);
    norm_same_bits(&got, &one, &c.norm);
    // the mean itself is rounded to 6e-5
    check_close("y far from zero", got.y, want.y, 3000 * 40, 0, 3e-4);
    norm_result_free(&got);
    norm_result_free(&one);
    norm_result_free(&want);
    norm_free(&c);
}

static void cpu_norm_far_from_zero(void **state) { check_each_kernels(norm_far_from_zero); }

// Rows: subnormal in fp16; without any variance; with a NaN; beyond fp16 once added.
static void norm_extremes(zr_queue *queue, zr_queue *single, zr_queue *ref, zero_dtype stream,
                          zero_dtype dtype)
{
    norm_case c = norm_new(stream, dtype, 4, 20, 1e-6f);
    float x[80], *tiny = array_floats(stream, c.x, 80), branch[80] = {0};
    for (int64_t j = 0; j < 20; j++) {
        x[j] = tiny[j];
        x[20 + j] = 1e4f;
        x[40 + j] = j == 10 ? NAN : 1;
        x[60 + j] = branch[60 + j] = j % 2 ? 6e4f : -6e4f;
    }
    array_free(c.x);
    array_free(c.branch);
    c.x = array_of(stream, x, 80);
    c.branch = array_of(dtype, branch, 80);
    norm_result got = norm_run(queue, &c, false, true), want = norm_run(ref, &c, false, true);
    check_close_as("y", dtype, got.y, want.y, 80, 2e-6, 1e-5);
    check_close_as("dx", stream, got.dx, want.dx, 80, 1e-5, 1e-4 * want.rstd[1]);
    float *y = array_floats(dtype, got.y, 80), *dx = array_floats(stream, got.dx, 80);
    for (int64_t j = 0; j < 20; j++) {
        assert_true(isnan(y[40 + j]) && isnan(dx[40 + j]) && isnan(got.dgamma[j]) &&
                    !isnan(got.dbeta[j]));
        assert_true(!isnan(y[20 + j]) && isnan(y[60 + j]) == (stream == ZERO_F16));
    }
    float *all[] = {tiny, y, dx};
    for (int i = 0; i < ZR_COUNT(all); i++)
        floats_free(all[i]);
    norm_result_free(&got);
    norm_result_free(&want);
    norm_free(&c);
}

static void norm_extremes_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    each_pair(queue, single, ref, norm_extremes);
}

static void cpu_norm_extremes(void **state) { check_each_kernels(norm_extremes_body); }

// ---- ref: the definition in long double, and finite differences of it ----

typedef struct norm_function {
    const zr_norm *norm;
    float *x, *gamma, *beta, *dy;
    float *y; // of the formula, where it is wanted
} norm_function;

static double norm_plainly(void *argument) // sum of dy * y
{
    norm_function *f = argument;
    int64_t width = f->norm->width;
    long double total = 0;
    for (int64_t i = 0; i < f->norm->rows; i++) {
        const float *x = f->x + i * width;
        long double mean = 0, variance = 0;
        for (int64_t j = 0; j < width; j++)
            mean += (long double)x[j] / width;
        for (int64_t j = 0; j < width; j++)
            variance += (x[j] - mean) * (x[j] - mean) / width;
        for (int64_t j = 0; j < width; j++) {
            long double y =
                (x[j] - mean) / sqrtl(variance + f->norm->epsilon) * f->gamma[j] + f->beta[j];
            total += y * f->dy[i * width + j];
            if (f->y)
                f->y[i * width + j] = (float)y;
        }
    }
    return (double)total;
}

static void ref_norm_is_right(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    norm_case c = norm_new(ZERO_F32, ZERO_F32, 4, 9, 1);
    norm_result r = norm_run(ref, &c, false, true), added = norm_run(ref, &c, true, true);
    norm_function f = {.norm = &c.norm,
                       .x = r.sum,
                       .gamma = c.gamma,
                       .beta = c.beta,
                       .dy = c.dy,
                       .y = floats_new(36)};
    float *before = floats_random(9, 7, 2), *got_dx = r.dx, *added_dx = added.dx;
    norm_plainly(&f);
    check_close("y", r.y, f.y, 36, 3e-7, 3e-7);
    floats_free(f.y);
    f.y = NULL;
    for (int64_t i = 0; i < 36; i++) {
        float slope = (float)check_slope(norm_plainly, &f, f.x + i, 1.0f / 1024);
        check_close("dx", got_dx + i, &slope, 1, 1e-4, 1e-4);
        float with = ((float *)c.dx)[i] + got_dx[i];
        check_close("dx added", added_dx + i, &with, 1, 1e-6, 1e-6);
    }
    for (int64_t j = 0; j < 9; j++) {
        float scale = (float)check_slope(norm_plainly, &f, f.gamma + j, 0.25f),
              shift = (float)check_slope(norm_plainly, &f, f.beta + j, 0.25f);
        check_close("dgamma", r.dgamma + j, &scale, 1, 1e-5, 1e-5);
        check_close("dbeta", r.dbeta + j, &shift, 1, 1e-5, 1e-5);
        float with = before[j] + r.dgamma[j];
        check_close("dgamma added", added.dgamma + j, &with, 1, 1e-6, 1e-6);
    }
    floats_free(before);
    norm_result_free(&r);
    norm_result_free(&added);
    norm_free(&c);
    check_queue_close(ref);
}

// Of what is stored, ref in any types is ref in fp32, rounded where it is stored; and the norm is
// that of the rounded sum.
static void norm_stored(zr_queue *ref, zero_dtype stream, zero_dtype dtype, bool add)
{
    norm_case c = norm_new(stream, dtype, 5, 33, 2), wide = c;
    norm_result r = norm_run(ref, &c, add, true);
    float *x = array_floats(stream, c.x, 165), *branch = array_floats(dtype, c.branch, 165);
    for (int64_t i = 0; i < 165; i++)
        x[i] += branch[i];
    check_stored("sum", stream, r.sum, x, 165);
    wide.norm.dtype = wide.norm.stream = ZERO_F32;
    wide.x = array_floats(stream, r.sum, 165);
    wide.branch = memset(branch, 0, sizeof(float) * 165);
    wide.gamma = array_floats(dtype, c.gamma, 33);
    wide.beta = array_floats(dtype, c.beta, 33);
    wide.dy = array_floats(dtype, c.dy, 165);
    wide.dx = array_floats(stream, c.dx, 165);
    norm_result want = norm_run(ref, &wide, add, true);
    check_stored("y", dtype, r.y, want.y, 165);
    check_stored("dx", stream, r.dx, want.dx, 165);
    float *both[] = {r.mean,   want.mean,   r.rstd,  want.rstd,
                     r.dgamma, want.dgamma, r.dbeta, want.dbeta};
    for (int i = 0; i < ZR_COUNT(both); i += 2)
        check_same_bits("statistics and parameters", both[i], both[i + 1], (i < 4 ? 5 : 33) * 4);
    norm_function f = {
        .norm = &wide.norm, .x = wide.x, .gamma = wide.gamma, .beta = wide.beta, .dy = wide.dy};
    f.y = x;
    norm_plainly(&f);
    void *plain = array_of(dtype, f.y, 165);
    check_close_as("y of the formula", dtype, r.y, plain, 165, 3e-7, 3e-7);
    array_free(plain);
    floats_free(x);
    norm_result_free(&r);
    norm_result_free(&want);
    norm_free(&wide);
    norm_free(&c);
}

static void ref_norm_rounds_once(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    for (int s = 0; s < STORAGE_TYPES; s++)
        for (int t = 0; t < STORAGE_TYPES * 2; t++)
            norm_stored(ref, storage_types[s], storage_types[t / 2], t % 2);
    check_queue_close(ref);
}

// Without rows, gradients of parameters are zero, or stay as they are where they are added to.
static void no_rows(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    enum { WIDTH = 37 };
    zr_queue *queues[] = {queue, ref};
    for (int q = 0; q < ZR_COUNT(queues); q++)
        for (int pair = 0; pair < STORAGE_TYPES * STORAGE_TYPES; pair++) {
            norm_case c = norm_new(storage_types[pair / STORAGE_TYPES],
                                   storage_types[pair % STORAGE_TYPES], 0, WIDTH, 3);
            float *zeros = floats_new(WIDTH), *scale = floats_random(WIDTH, 7, 2),
                  *shift = floats_random(WIDTH, 8, 2);
            memset(zeros, 0, sizeof(float) * WIDTH);
            norm_result set = norm_run(queues[q], &c, false, false),
                        added = norm_run(queues[q], &c, true, false);
            check_same_bits("dgamma of no rows", set.dgamma, zeros, WIDTH * 4);
            check_same_bits("dbeta of no rows", set.dbeta, zeros, WIDTH * 4);
            check_same_bits("dgamma, nothing added", added.dgamma, scale, WIDTH * 4);
            check_same_bits("dbeta, nothing added", added.dbeta, shift, WIDTH * 4);
            norm_result_free(&set);
            norm_result_free(&added);
            norm_free(&c);
            float *all[] = {zeros, scale, shift};
            for (int i = 0; i < ZR_COUNT(all); i++)
                floats_free(all[i]);
        }
}

// What is added to a gradient is the sum that would have been set, with its bits.
static void adds_what_it_sets(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    enum { ROWS = 70, WIDTH = 37 };
    zr_queue *queues[] = {queue, ref};
    for (int k = 0; k < ZR_COUNT(queues) * STORAGE_TYPES; k++) {
        zr_queue *q = queues[k / STORAGE_TYPES];
        norm_case c = norm_new(ZERO_F32, storage_types[k % STORAGE_TYPES], ROWS, WIDTH, 2);
        norm_result set = norm_run(q, &c, false, false), added = norm_run(q, &c, true, false);
        float *gain = floats_random(WIDTH, 7, 2), *bias = floats_random(WIDTH, 8, 2);
        check_added("dgamma", added.dgamma, gain, set.dgamma, WIDTH);
        check_added("dbeta", added.dbeta, bias, set.dbeta, WIDTH);
        floats_free(gain);
        floats_free(bias);
        norm_result_free(&set);
        norm_result_free(&added);
        norm_free(&c);
    }
}

static void what_is_added_is_what_would_be_set(void **state)
{
    check_each_kernels(adds_what_it_sets);
}

static void no_rows_change_no_parameter(void **state) { check_each_kernels(no_rows); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_norm_is_right),
        cmocka_unit_test(ref_norm_rounds_once),
        cmocka_unit_test(cpu_norm_agrees),
        cmocka_unit_test(cpu_norm_variants),
        cmocka_unit_test(cpu_norm_extremes),
        cmocka_unit_test(cpu_norm_far_from_zero),
        cmocka_unit_test(what_is_added_is_what_would_be_set),
        cmocka_unit_test(no_rows_change_no_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
