// Softmax and cross-entropy: ref compared with formulas in this file and finite differences, 16-bit
// ref with fp32 ref on the stored values, and cpu with ref. Ids and sums of rows.
#include "compute/compute.h"
#include "compute_check.h"

static const int64_t widths[] = {1, 3, 17, 64, 128, 768, 1000};
static const int64_t row_counts[] = {0, 1, 5, 70};

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
    const float factor = 0.5f;
    zr_loss loss = {.rows = 1, .vocab = 13, .gradient = true};
    loss_function f = {.x = floats_random(13, 3, 4), .width = 13, .target = 5};
    float *got = floats_copy(f.x, 13), *probability = floats_copy(f.x, 13), row;
    zr_run(ref, zr_op_loss(&loss, &f.target, &factor, NULL, got, &row));
    zr_run(ref,
           zr_op_softmax(&(zr_matrix){.dtype = ZERO_F32, .rows = 1, .width = 13}, probability));
    float want = (float)loss_plainly(&f), total = 0;
    check_close("loss", &row, &want, 1, 1e-6, 0);
    for (int64_t j = 0; j < 13; j++) {
        float slope = (float)(check_slope(loss_plainly, &f, f.x + j, 1.0f / 512) * factor);
        check_close("gradient", got + j, &slope, 1, 1e-4, 1e-6);
        float expected = probability[j] * factor - (j == f.target ? factor : 0);
        check_close("softmax", got + j, &expected, 1, 1e-6, 1e-7);
        total += probability[j];
    }
    assert_float_equal(total, 1, 1e-6);
    floats_free(got);
    floats_free(probability);
    floats_free(f.x);
    check_queue_close(ref);
}

typedef struct loss_run {
    void *logits;
    float *row;
} loss_run;

static loss_run loss_of(zr_queue *queue, const zr_loss *of, float factor, const float *logits,
                        const int32_t *target, bool gradient)
{
    zr_loss loss = *of;
    loss.gradient = gradient;
    loss_run r = {.logits = array_of(loss.dtype, logits, loss.rows * loss.vocab),
                  .row = floats_new(loss.rows)};
    zr_run(queue, zr_op_loss(&loss, target, gradient ? &factor : NULL, NULL, r.logits, r.row));
    return r;
}

static void loss_run_free(loss_run *r)
{
    array_free(r->logits);
    floats_free(r->row);
}

// logits: values that the type holds exactly.
static void loss_compare(zr_queue *queue, zr_queue *single, zr_queue *ref, const zr_loss *loss,
                         float factor, const float *logits, const int32_t *target)
{
    int64_t n = loss->rows * loss->vocab;
    zr_loss wide = *loss;
    wide.dtype = ZERO_F32;
    loss_run got = loss_of(queue, loss, factor, logits, target, true),
             only = loss_of(queue, loss, factor, logits, target, false);
    loss_run one = loss_of(single, loss, factor, logits, target, true),
             want = loss_of(ref, loss, factor, logits, target, true);
    loss_run plain = loss_of(ref, &wide, factor, logits, target, true);
    float *kept = array_floats(loss->dtype, only.logits, n);
    check_same_bits("logits without gradient", kept, logits, n * 4);
    check_same_bits("loss without gradient", only.row, got.row, loss->rows * 4);
    check_same_bits("loss at one thread", got.row, one.row, loss->rows * 4);
    check_same_array("gradient at one thread", loss->dtype, got.logits, one.logits, n);
    check_close("loss", got.row, want.row, loss->rows, 1e-6, 3e-7);
    check_close_as("gradient", loss->dtype, got.logits, want.logits, n, 2e-6, 2e-7 * factor);
    void *stored = array_of(loss->dtype, plain.logits, n);
    check_close("loss of ref, from fp32", want.row, plain.row, loss->rows, 0, 0);
    check_same_array("gradient of ref, from fp32", loss->dtype, want.logits, stored, n);
    loss_run *all[] = {&got, &only, &one, &want, &plain};
    for (int i = 0; i < ZR_COUNT(all); i++)
        loss_run_free(all[i]);
    array_free(stored);
    floats_free(kept);
}

static float *logits_random(zero_dtype dtype, int64_t count, uint64_t seed, float size)
{
    void *stored = array_random(dtype, count, seed, size);
    float *logits = array_floats(dtype, stored, count);
    array_free(stored);
    return logits;
}

static void loss_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    // fp16: fits, underflows, overflows
    static const float sizes[] = {0, 5, 80, 1e4f}, factors[] = {0.25f, 3e-7f, 4e5f};
    int32_t target[70];
    for (int w = 0; w < ZR_COUNT(widths); w++)
        for (int k = 0; k < ZR_COUNT(row_counts) * STORAGE_TYPES; k++) {
            zr_loss loss = {.dtype = storage_types[k % STORAGE_TYPES],
                            .rows = row_counts[k / STORAGE_TYPES],
                            .vocab = widths[w]};
            for (int64_t i = 0; i < loss.rows; i++)
                target[i] = i % 4 == 3 ? -1 - (int32_t)i : (int32_t)(i * 7 % loss.vocab);
            float *logits =
                logits_random(loss.dtype, loss.rows * loss.vocab, 9, sizes[(w + k / 3) % 4]);
            loss_compare(queue, single, ref, &loss, factors[(w + k) % 3], logits, target);
            floats_free(logits);
        }
}

static void cpu_loss_agrees(void **state) { check_each_kernels(loss_body); }

static void loss_extremes(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    enum { ROWS = 6, WIDTH = 37 };
    static const int32_t target[ROWS] = {0, 1, 2, 3, 4, 36};
    for (int t = 0; t < STORAGE_TYPES; t++) {
        zr_loss loss = {.dtype = storage_types[t], .rows = ROWS, .vocab = WIDTH};
        float large = loss.dtype == ZERO_F16 ? 65504 : 0x1p100f;
        float *logits = logits_random(loss.dtype, ROWS * WIDTH, 5, 1);
        for (int64_t j = 0; j < WIDTH; j++) {
            logits[j] = -INFINITY;
            logits[WIDTH + j] = large;
            logits[2 * WIDTH + j] = -large;
        }
        logits[9] = 3; // row 0: one class is left, and it is not the target
        logits[3 * WIDTH + 30] = INFINITY - INFINITY;
        logits[4 * WIDTH + 36] = INFINITY;
        logits[5 * WIDTH + 0] = -INFINITY;
        loss_compare(queue, single, ref, &loss, 1, logits, target);
        floats_free(logits);
    }
}

static void cpu_loss_extremes(void **state) { check_each_kernels(loss_extremes); }

// A row's weight multiplies its gradient and nothing else; the weight 1 changes no bit.
static void loss_weights(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    enum { MOST = 5, WIDTH = 130 };
    static const int32_t target[MOST] = {3, -1, 129, 0, 64};
    static const float weights[][MOST] = {{1, 1, 1, 1, 1}, {-2, 3, 0, 0.5f, 4}};
    const float factor = 0.25f;
    zr_queue *queues[] = {queue, ref};
    for (int t = 0; t < 2 * 2 * STORAGE_TYPES; t++) {
        zr_loss loss = {
            .dtype = storage_types[t / 4], .rows = MOST, .vocab = WIDTH, .gradient = true};
        const float *weight = weights[t / 2 % 2];
        float *logits = logits_random(loss.dtype, MOST * WIDTH, 5, 3), *row = floats_new(MOST);
        void *got = array_of(loss.dtype, logits, MOST * WIDTH);
        loss_run plain = loss_of(queues[t % 2], &loss, factor, logits, target, true);
        zr_run(queues[t % 2], zr_op_loss(&loss, target, &factor, weight, got, row));
        check_same_bits("loss with weights", row, plain.row, MOST * 4);
        float *want = array_floats(loss.dtype, plain.logits, MOST * WIDTH);
        for (int64_t i = 0; i < MOST * WIDTH; i++)
            want[i] *= weight[i / WIDTH];
        void *stored = array_of(loss.dtype, want, MOST * WIDTH);
        if (t / 2 % 2 == 0)
            check_same_array("gradient with weight 1", loss.dtype, got, plain.logits, MOST * WIDTH);
        check_close_as("gradient with weights", loss.dtype, got, stored, MOST * WIDTH, 1e-6, 1e-37);
        array_free(stored);
        array_free(got);
        floats_free(want);
        floats_free(row);
        floats_free(logits);
        loss_run_free(&plain);
    }
}

static void cpu_loss_weights(void **state) { check_each_kernels(loss_weights); }

// Half precision overflows where the scaled gradient does, and nowhere else.
static void loss_overflows(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    float logits[3] = {4, 0, -4}, *gradient;
    int32_t target = 2;
    zr_loss loss = {.dtype = ZERO_F16, .rows = 1, .vocab = 3};
    loss_run r = loss_of(queue, &loss, 0x1p17f, logits, &target, true);
    gradient = array_floats(ZERO_F16, r.logits, 3);
    assert_true(gradient[0] == INFINITY && gradient[2] == -INFINITY && gradient[1] > 2000 &&
                gradient[1] < 3000);
    floats_free(gradient);
    loss_run_free(&r);
}

static void cpu_loss_overflows(void **state) { check_each_kernels(loss_overflows); }

static void softmax_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    zr_queue *queues[] = {queue, single, ref, ref};
    for (int w = 0; w < ZR_COUNT(widths); w++)
        for (int k = 0; k < ZR_COUNT(row_counts) * STORAGE_TYPES; k++) {
            zero_dtype dtype = storage_types[k % STORAGE_TYPES];
            int64_t rows = row_counts[k / STORAGE_TYPES], n = rows * widths[w];
            float *x = logits_random(dtype, n, 11, 30);
            void *y[4];
            for (int q = 0; q < 4; q++) {
                y[q] = array_of(q < 3 ? dtype : ZERO_F32, x, n);
                zr_run(queues[q], zr_op_softmax(&(zr_matrix){.dtype = q < 3 ? dtype : ZERO_F32,
                                                             .rows = rows,
                                                             .width = widths[w]},
                                                y[q]));
            }
            // x - largest, up to 60, is rounded to 2e-6
            check_close_as("softmax", dtype, y[0], y[2], n, 4e-6, 1e-37);
            check_same_array("softmax at one thread", dtype, y[0], y[1], n);
            check_stored("softmax of ref, from fp32", dtype, y[2], y[3], n);
            for (int q = 0; q < 4; q++)
                array_free(y[q]);
            floats_free(x);
        }
}

static void cpu_softmax_agrees(void **state) { check_each_kernels(softmax_body); }

static void ids_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    const int32_t ids[] = {0, 9, 10, 19, 20, INT32_MAX, -1, INT32_MIN},
                  want[] = {-1, -1, 0, 9, -1, -1, ZR_TARGET_NONE, ZR_TARGET_NONE};
    int32_t got[ZR_COUNT(ids)];
    zr_run(queue, zr_op_local_ids(&(zr_id_range){ZR_COUNT(ids), 10, 10}, ids, got));
    check_same_bits("local ids", got, want, sizeof want);
    zr_run(queue, zr_op_local_ids(&(zr_id_range){ZR_COUNT(ids), 10, 0}, ids, got)); // empty
    for (int i = 0; i < ZR_COUNT(ids); i++)
        assert_int_equal(got[i], ids[i] < 0 ? ZR_TARGET_NONE : -1);
}

// The rows are added one after another in double: no other order gives these bits.
static void sums_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    enum { N = 1000 };
    float *x = floats_random(N, 7, 3);
    x[0] = 1e30f;
    x[N - 1] = -1e30f;
    double want = 0, got = NAN;
    for (int i = 0; i < N; i++)
        want += x[i];
    zr_run(queue, zr_op_sum_rows(&(zr_row_sum){N}, &(double){3}, x, &got));
    assert_true(got == want / 3);
    zr_run(queue, zr_op_sum_rows(&(zr_row_sum){N}, &(double){0}, x, &got));
    assert_true(got == 0);
    floats_free(x);
}

static void ids_agree(void **state) { check_each_kernels(ids_body); }

static void sums_of_rows_agree(void **state) { check_each_kernels(sums_body); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_loss_is_right),  cmocka_unit_test(ids_agree),
        cmocka_unit_test(sums_of_rows_agree), cmocka_unit_test(cpu_loss_agrees),
        cmocka_unit_test(cpu_loss_extremes),  cmocka_unit_test(cpu_loss_overflows),
        cmocka_unit_test(cpu_softmax_agrees), cmocka_unit_test(cpu_loss_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
