// LayerNorm, softmax and cross-entropy: ref against formulas of this file and finite differences, cpu against ref.
#include "compute_check.h"

#include <string.h>

static const int64_t widths[] = {1, 3, 17, 64, 128, 768, 1000};
static const int64_t row_counts[] = {0, 1, 5, 70};

typedef struct norm_case {
    zr_norm norm;
    float *x, *residual, *gamma, *beta, *dy, *dx;
} norm_case;

static norm_case norm_new(int64_t rows, int64_t width, float size)
{
    norm_case c = {.norm = {.rows = rows, .width = width, .epsilon = 1e-5f}};
    c.x = floats_random(rows * width, 1, size);
    c.residual = floats_random(rows * width, 2, size);
    c.gamma = floats_random(width, 3, 2);
    c.beta = floats_random(width, 4, 1);
    c.dy = floats_random(rows * width, 5, 1);
    c.dx = floats_random(rows * width, 6, 1);
    return c;
}

static void norm_free(norm_case *c)
{
    float *all[] = {c->x, c->residual, c->gamma, c->beta, c->dy, c->dx};
    for (int i = 0; i < ZR_COUNT(all); i++)
        floats_free(all[i]);
}

typedef struct norm_result {
    float *sum, *y, *mean, *rstd, *dx, *dgamma, *dbeta;
} norm_result;

static norm_result norm_run(zr_queue *queue, const norm_case *c, bool add)
{
    const zr_row_ops *ops = queue->backend->rows;
    int64_t rows = c->norm.rows, width = c->norm.width;
    norm_result r = {.sum = floats_new(rows * width),
                     .y = floats_new(rows * width),
                     .mean = floats_new(rows),
                     .rstd = floats_new(rows)};
    r.dx = add ? floats_copy(c->dx, rows * width) : floats_new(rows * width);
    r.dgamma = add ? floats_copy(c->gamma, width) : floats_new(width);
    r.dbeta = add ? floats_copy(c->beta, width) : floats_new(width);
    float *scratch = floats_new((int64_t)ops->norm_scratch(queue, &c->norm) / 4);
    ops->residual_norm_forward(queue, &c->norm, c->x, c->residual, r.sum, c->gamma, c->beta, r.y, r.mean, r.rstd);
    ops->norm_backward(queue, &c->norm, c->dy, r.sum, c->gamma, r.mean, r.rstd, r.dx, add, r.dgamma, r.dbeta, add,
                       scratch);
    floats_free(scratch);
    return r;
}

static void norm_result_free(norm_result *r)
{
    float *all[] = {r->sum, r->y, r->mean, r->rstd, r->dx, r->dgamma, r->dbeta};
    for (int i = 0; i < ZR_COUNT(all); i++)
        floats_free(all[i]);
}

static void norm_check(const norm_result *got, const norm_result *want, const zr_norm *norm, double tolerance)
{
    int64_t n = norm->rows * norm->width;
    check_close("sum", got->sum, want->sum, n, 0, 0);
    check_close("mean", got->mean, want->mean, norm->rows, tolerance, tolerance);
    check_close("rstd", got->rstd, want->rstd, norm->rows, tolerance, 0);
    check_close("y", got->y, want->y, n, tolerance, 3 * tolerance);
    check_close("dx", got->dx, want->dx, n, tolerance, 3 * tolerance * (norm->rows ? 1 + want->rstd[0] : 1));
    check_close("dgamma", got->dgamma, want->dgamma, norm->width, tolerance, tolerance * (double)(4 + norm->rows));
    check_close("dbeta", got->dbeta, want->dbeta, norm->width, tolerance, tolerance * (double)(4 + norm->rows));
}

static void norm_same_bits(const norm_result *a, const norm_result *b, const zr_norm *norm)
{
    int64_t n = norm->rows * norm->width * 4;
    check_same_bits("y", a->y, b->y, n);
    check_same_bits("mean", a->mean, b->mean, norm->rows * 4);
    check_same_bits("rstd", a->rstd, b->rstd, norm->rows * 4);
    check_same_bits("dx", a->dx, b->dx, n);
    check_same_bits("dgamma", a->dgamma, b->dgamma, norm->width * 4);
    check_same_bits("dbeta", a->dbeta, b->dbeta, norm->width * 4);
}

static void norm_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int w = 0; w < ZR_COUNT(widths); w++)
        for (int k = 0; k < ZR_COUNT(row_counts) * 2; k++) {
            norm_case c = norm_new(row_counts[k / 2], widths[w], 3);
            norm_result got = norm_run(queue, &c, k % 2), want = norm_run(ref, &c, k % 2),
                        one = norm_run(single, &c, k % 2);
            norm_check(&got, &want, &c.norm, widths[w] < 4 ? 1e-5 : 1e-6);
            norm_same_bits(&got, &one, &c.norm);
            norm_result_free(&got);
            norm_result_free(&want);
            norm_result_free(&one);
            norm_free(&c);
        }
}

static void cpu_norm_agrees(void **state)
{
    check_each_cpu(norm_body);
}

// Without statistics, in place of the sum, and where the rows are many or their mean is far from zero.
static void norm_variants(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    norm_case c = norm_new(3000, 40, 1);
    for (int64_t i = 0; i < 3000 * 40; i++)
        c.x[i] += 1000;
    norm_result got = norm_run(queue, &c, false), one = norm_run(single, &c, false), want = norm_run(ref, &c, false);
    norm_same_bits(&got, &one, &c.norm);
    check_close("y far from zero", got.y, want.y, 3000 * 40, 0, 3e-4); // the mean itself is rounded to 6e-5
    float *y = floats_new(3000 * 40), *sum = floats_copy(c.x, 3000 * 40);
    queue->backend->rows->residual_norm_forward(queue, &c.norm, sum, c.residual, sum, c.gamma, c.beta, y, NULL, NULL);
    check_same_bits("in place", sum, got.sum, 3000 * 40 * 4);
    check_same_bits("no statistics", y, got.y, 3000 * 40 * 4);
    queue->backend->rows->norm_forward(queue, &c.norm, sum, c.gamma, c.beta, y, NULL, NULL);
    check_same_bits("without residual", y, got.y, 3000 * 40 * 4);
    floats_free(y);
    floats_free(sum);
    norm_result_free(&got);
    norm_result_free(&one);
    norm_result_free(&want);
    norm_free(&c);
}

static void cpu_norm_variants(void **state)
{
    check_each_cpu(norm_variants);
}

static void norm_extremes(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    norm_case c = norm_new(3, 20, 1e-3f);
    memset(c.residual, 0, sizeof(float) * 60);
    for (int64_t j = 0; j < 20; j++)
        c.x[20 + j] = 1e4f; // no variance at all
    c.x[50] = NAN;
    norm_result got = norm_run(queue, &c, false), want = norm_run(ref, &c, false);
    check_close("y", got.y, want.y, 60, 2e-6, 1e-5);
    check_close("dx", got.dx, want.dx, 60, 1e-5, 1e-4 * want.rstd[1]);
    for (int64_t j = 0; j < 20; j++)
        assert_true(isnan(got.y[40 + j]) && isnan(got.dx[40 + j]) && isnan(got.dgamma[j]) && !isnan(got.dbeta[j]));
    norm_result_free(&got);
    norm_result_free(&want);
    norm_free(&c);
}

static void cpu_norm_extremes(void **state)
{
    check_each_cpu(norm_extremes);
}

// ---- ref: the definition in long double, and finite differences of it ----

typedef struct norm_function {
    norm_case *c;
    float *y; // of the formula, where it is wanted
} norm_function;

static double norm_plainly(void *argument) // sum of dy * y
{
    norm_function *f = argument;
    int64_t width = f->c->norm.width;
    long double total = 0;
    for (int64_t i = 0; i < f->c->norm.rows; i++) {
        const float *x = f->c->x + i * width;
        long double mean = 0, variance = 0;
        for (int64_t j = 0; j < width; j++)
            mean += (long double)x[j] / width;
        for (int64_t j = 0; j < width; j++)
            variance += (x[j] - mean) * (x[j] - mean) / width;
        for (int64_t j = 0; j < width; j++) {
            long double y = (x[j] - mean) / sqrtl(variance + f->c->norm.epsilon) * f->c->gamma[j] + f->c->beta[j];
            total += y * f->c->dy[i * width + j];
            if (f->y)
                f->y[i * width + j] = (float)y;
        }
    }
    return (double)total;
}

static void ref_norm_is_right(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    norm_case c = norm_new(4, 9, 1);
    memset(c.residual, 0, sizeof(float) * 36);
    norm_result r = norm_run(ref, &c, false), added = norm_run(ref, &c, true);
    norm_function f = {.c = &c, .y = floats_new(36)};
    norm_plainly(&f);
    check_close("y", r.y, f.y, 36, 3e-7, 3e-7);
    floats_free(f.y);
    f.y = NULL;
    for (int64_t i = 0; i < 36; i++) {
        float slope = (float)check_slope(norm_plainly, &f, c.x + i, 1.0f / 1024);
        check_close("dx", r.dx + i, &slope, 1, 1e-4, 1e-4);
        float with = c.dx[i] + r.dx[i];
        check_close("dx added", added.dx + i, &with, 1, 1e-6, 1e-6);
    }
    for (int64_t j = 0; j < 9; j++) {
        float scale = (float)check_slope(norm_plainly, &f, c.gamma + j, 0.25f),
              shift = (float)check_slope(norm_plainly, &f, c.beta + j, 0.25f);
        check_close("dgamma", r.dgamma + j, &scale, 1, 1e-5, 1e-5);
        check_close("dbeta", r.dbeta + j, &shift, 1, 1e-5, 1e-5);
        float with = c.gamma[j] + r.dgamma[j];
        check_close("dgamma added", added.dgamma + j, &with, 1, 1e-6, 1e-6);
    }
    norm_result_free(&r);
    norm_result_free(&added);
    norm_free(&c);
    check_queue_close(ref);
}

// ---- cross-entropy ----

typedef struct loss_function {
    float *x;
    int64_t width;
    int32_t target;
} loss_function;

static double loss_plainly(void *argument)
{
    loss_function *f = argument;
    long double sum = 0;
    for (int64_t j = 0; j < f->width; j++)
        sum += expl((long double)f->x[j]);
    return (double)(logl(sum) - f->x[f->target]);
}

static void ref_loss_is_right(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    zr_loss loss = {.rows = 1, .vocab = 13, .factor = 0.5f};
    loss_function f = {.x = floats_random(13, 3, 4), .width = 13, .target = 5};
    float *got = floats_copy(f.x, 13), *probability = floats_copy(f.x, 13), row;
    ref->backend->rows->loss(ref, &loss, got, &f.target, &row, true);
    ref->backend->rows->softmax(ref, ZERO_F32, 1, 13, probability);
    float want = (float)loss_plainly(&f), total = 0;
    check_close("loss", &row, &want, 1, 1e-6, 0);
    for (int64_t j = 0; j < 13; j++) {
        float slope = (float)(check_slope(loss_plainly, &f, f.x + j, 1.0f / 512) * loss.factor);
        check_close("gradient", got + j, &slope, 1, 1e-4, 1e-6);
        float expected = probability[j] * loss.factor - (j == f.target ? loss.factor : 0);
        check_close("softmax", got + j, &expected, 1, 1e-6, 1e-7);
        total += probability[j];
    }
    assert_float_equal(total, 1, 1e-6);
    floats_free(got);
    floats_free(probability);
    floats_free(f.x);
    check_queue_close(ref);
}

static void loss_compare(zr_queue *queue, zr_queue *single, zr_queue *ref, const zr_loss *loss, const float *logits,
                         const int32_t *target)
{
    int64_t n = loss->rows * loss->vocab;
    zr_queue *queues[3] = {queue, single, ref};
    float *gradient[3], *row[3], *kept = floats_copy(logits, n), *only = floats_new(loss->rows);
    for (int i = 0; i < 3; i++) {
        gradient[i] = floats_copy(logits, n);
        row[i] = floats_new(loss->rows);
        queues[i]->backend->rows->loss(queues[i], loss, gradient[i], target, row[i], true);
    }
    queue->backend->rows->loss(queue, loss, kept, target, only, false);
    check_same_bits("logits without gradient", kept, logits, n * 4);
    check_same_bits("loss without gradient", only, row[0], loss->rows * 4);
    check_same_bits("loss at one thread", row[0], row[1], loss->rows * 4);
    check_same_bits("gradient at one thread", gradient[0], gradient[1], n * 4);
    check_close("loss", row[0], row[2], loss->rows, 1e-6, 3e-7);
    check_close("gradient", gradient[0], gradient[2], n, 2e-6, 2e-7 * loss->factor);
    for (int i = 0; i < 3; i++) {
        floats_free(gradient[i]);
        floats_free(row[i]);
    }
    floats_free(kept);
    floats_free(only);
}

static void loss_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const float sizes[] = {0, 5, 80, 1e4f};
    int32_t target[70];
    for (int w = 0; w < ZR_COUNT(widths); w++)
        for (int k = 0; k < ZR_COUNT(row_counts); k++) {
            zr_loss loss = {.rows = row_counts[k], .vocab = widths[w], .factor = 0.25f};
            for (int64_t i = 0; i < loss.rows; i++)
                target[i] = i % 4 == 3 ? -1 - (int32_t)i : (int32_t)(i * 7 % loss.vocab);
            float *logits = floats_random(loss.rows * loss.vocab, 9, sizes[(w + k) % 4]);
            loss_compare(queue, single, ref, &loss, logits, target);
            floats_free(logits);
        }
}

static void cpu_loss_agrees(void **state)
{
    check_each_cpu(loss_body);
}

static void loss_extremes(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    enum { ROWS = 6, WIDTH = 37 };
    zr_loss loss = {.rows = ROWS, .vocab = WIDTH, .factor = 1};
    int32_t target[ROWS] = {0, 1, 2, 3, 4, 36};
    float *logits = floats_random(ROWS * WIDTH, 5, 1);
    for (int64_t j = 0; j < WIDTH; j++) {
        logits[j] = -INFINITY;
        logits[WIDTH + j] = 1e30f;
        logits[2 * WIDTH + j] = -1e30f;
    }
    logits[9] = 3; // row 0: one class is left, and it is not the target
    logits[3 * WIDTH + 30] = NAN;
    logits[4 * WIDTH + 36] = INFINITY;
    logits[5 * WIDTH + 0] = -INFINITY;
    loss_compare(queue, single, ref, &loss, logits, target);
    floats_free(logits);
}

static void cpu_loss_extremes(void **state)
{
    check_each_cpu(loss_extremes);
}

static void softmax_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int w = 0; w < ZR_COUNT(widths); w++)
        for (int k = 0; k < ZR_COUNT(row_counts); k++) {
            int64_t rows = row_counts[k], n = rows * widths[w];
            float *got = floats_random(n, 11, 30), *want = floats_copy(got, n), *one = floats_copy(got, n);
            queue->backend->rows->softmax(queue, ZERO_F32, rows, widths[w], got);
            single->backend->rows->softmax(single, ZERO_F32, rows, widths[w], one);
            ref->backend->rows->softmax(ref, ZERO_F32, rows, widths[w], want);
            check_close("softmax", got, want, n, 4e-6, 1e-37); // x - largest, up to 60, is rounded to 2e-6
            check_same_bits("softmax at one thread", got, one, n * 4);
            floats_free(got);
            floats_free(want);
            floats_free(one);
        }
}

static void cpu_softmax_agrees(void **state)
{
    check_each_cpu(softmax_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_norm_is_right), cmocka_unit_test(cpu_norm_agrees),    cmocka_unit_test(cpu_norm_variants),
        cmocka_unit_test(cpu_norm_extremes), cmocka_unit_test(ref_loss_is_right),  cmocka_unit_test(cpu_loss_agrees),
        cmocka_unit_test(cpu_loss_extremes), cmocka_unit_test(cpu_softmax_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
