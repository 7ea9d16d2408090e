// RMSNorm: ref compared with the definition in long double and its finite differences, and cpu with
// ref on every pair of storage types.
#include "compute/compute.h"
#include "compute_check.h"

#include <string.h>

static const int64_t widths[] = {1, 3, 17, 64, 128, 768, 1000};
static const int64_t row_counts[] = {0, 1, 5, 70};

typedef struct rms_case {
    zr_norm norm;
    void *x, *branch, *gamma, *dy, *past;
} rms_case;

typedef struct rms_result {
    void *sum, *y, *dx;
    float *rstd, *dgamma;
} rms_result;

static rms_case case_new(zero_dtype stream, zero_dtype dtype, int64_t rows, int64_t width)
{
    rms_case c = {.norm = {.dtype = dtype,
                           .stream = stream,
                           .rows = rows,
                           .width = width,
                           .epsilon = 1e-5f,
                           .rms = true}};
    c.x = array_random(stream, rows * width, 1, 2);
    c.branch = array_random(dtype, rows * width, 2, 2);
    c.gamma = array_random(dtype, width, 3, 2);
    c.dy = array_random(dtype, rows * width, 5, 1);
    c.past = array_random(stream, rows * width, 6, 1);
    return c;
}

static void case_free(rms_case *c)
{
    void *all[] = {c->x, c->branch, c->gamma, c->dy, c->past};
    for (int i = 0; i < ZR_COUNT(all); i++)
        array_free(all[i]);
}

static void *norm_scratch_new(zr_queue *queue, const zr_norm *norm)
{
    return scratch_new(queue, (zr_op){.kind = ZR_OP_norm_backward, .shape.norm = *norm});
}

// add: to dgamma, and to what arrives past the norm.
static rms_result run(zr_queue *queue, const rms_case *c, bool add)
{
    zr_norm norm = c->norm;
    int64_t rows = c->norm.rows, width = c->norm.width, n = rows * width;
    rms_result r = {.sum = array_new(c->norm.stream, n),
                    .y = array_new(c->norm.dtype, n),
                    .dx = array_new(c->norm.stream, n),
                    .rstd = floats_new(rows),
                    .dgamma = add ? floats_random(width, 7, 2) : floats_new(width)};
    norm.add_parameters = add;
    void *scratch = norm_scratch_new(queue, &norm);
    zr_run(queue,
           zr_op_norm_forward(&norm, c->x, c->branch, r.sum, c->gamma, NULL, r.y, NULL, r.rstd));
    zr_run(queue, zr_op_norm_backward(&norm, c->dy, r.sum, c->gamma, NULL, r.rstd,
                                      add ? c->past : NULL, r.dx, r.dgamma, NULL, scratch));
    array_free(scratch);
    return r;
}

static void result_free(rms_result *r)
{
    void *all[] = {r->sum, r->y, r->dx, r->rstd, r->dgamma};
    for (int i = 0; i < ZR_COUNT(all); i++)
        array_free(all[i]);
}

static void compare(zr_queue *queue, zr_queue *single, zr_queue *ref, zero_dtype stream,
                    zero_dtype dtype, int64_t rows, int64_t width)
{
    rms_case c = case_new(stream, dtype, rows, width);
    for (int add = 0; add < 2; add++) {
        rms_result got = run(queue, &c, add), want = run(ref, &c, add), one = run(single, &c, add);
        check_same_array("sum", stream, got.sum, want.sum, rows * width);
        check_close("rstd", got.rstd, want.rstd, rows, 1e-6, 0);
        check_close_as("y", dtype, got.y, want.y, rows * width, 1e-6, 1e-6);
        check_close_as("dx", stream, got.dx, want.dx, rows * width, 1e-6,
                       3e-6 * (rows ? 1 + want.rstd[0] : 1));
        check_close("dgamma", got.dgamma, want.dgamma, width, 1e-6, 1e-6 * (double)(4 + rows));
        check_same_array("y at any number of threads", dtype, got.y, one.y, rows * width);
        check_same_array("dx at any number of threads", stream, got.dx, one.dx, rows * width);
        check_same_bits("dgamma at any number of threads", got.dgamma, one.dgamma, width * 4);
        result_free(&got);
        result_free(&want);
        result_free(&one);
    }
    case_free(&c);
}

static void body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    // fp32 sees all shapes, every other pair of types a third of them
    for (int s = 0; s < STORAGE_TYPES; s++)
        for (int t = 0; t < STORAGE_TYPES; t++)
            for (int r = 0; r < ZR_COUNT(row_counts); r++)
                for (int w = 0; w < ZR_COUNT(widths); w++)
                    if (s + t == 0 || (r + w + s + t) % 3 == 0)
                        compare(queue, single, ref, storage_types[s], storage_types[t],
                                row_counts[r], widths[w]);
}

static void cpu_agrees(void **state) { check_each_kernels(body); }

// ---- the definition ----

enum { ROWS = 3, WIDTH = 7 };

static double weighted(void *argument) // sum of dy * y
{
    const rms_case *c = argument;
    const float *x = c->x, *gamma = c->gamma, *dy = c->dy;
    long double total = 0;
    for (int64_t i = 0; i < ROWS; i++) {
        long double squares = 0;
        for (int64_t j = 0; j < WIDTH; j++)
            squares += (long double)x[i * WIDTH + j] * x[i * WIDTH + j];
        for (int64_t j = 0; j < WIDTH; j++)
            total += dy[i * WIDTH + j] * gamma[j] * x[i * WIDTH + j] /
                     sqrtl(squares / WIDTH + (long double)c->norm.epsilon);
    }
    return (double)total;
}

static void ref_is_right(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    rms_case c = case_new(ZERO_F32, ZERO_F32, ROWS, WIDTH);
    float y[ROWS * WIDTH], rstd[ROWS], dx[ROWS * WIDTH], dgamma[WIDTH];
    double sum = 0;
    zr_run(ref, zr_op_norm_forward(&c.norm, c.x, NULL, NULL, c.gamma, NULL, y, NULL, rstd));
    for (int i = 0; i < ROWS * WIDTH; i++)
        sum += (double)y[i] * ((float *)c.dy)[i];
    assert_true(fabs(sum - weighted(&c)) < 1e-6);
    zr_run(ref, zr_op_norm_backward(&c.norm, c.dy, c.x, c.gamma, NULL, rstd, NULL, dx, dgamma, NULL,
                                    NULL));
    for (int i = 0; i < ROWS * WIDTH; i++) {
        float slope = (float)check_slope(weighted, &c, (float *)c.x + i, 1.0f / 1024);
        check_close("dx", dx + i, &slope, 1, 1e-4, 1e-5);
    }
    for (int j = 0; j < WIDTH; j++) {
        float slope = (float)check_slope(weighted, &c, (float *)c.gamma + j, 1.0f / 1024);
        check_close("dgamma", dgamma + j, &slope, 1, 1e-4, 1e-5);
    }
    case_free(&c);
    check_queue_close(ref);
}

// The gradient may replace what it came from.
static void in_place(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < STORAGE_TYPES; t++) {
        zero_dtype dtype = storage_types[t];
        rms_case c = case_new(dtype, dtype, 40, 48);
        void *scratch = norm_scratch_new(queue, &c.norm);
        float dgamma[2][48];
        rms_result apart = run(queue, &c, false);
        zr_run(queue, zr_op_norm_backward(&c.norm, c.dy, apart.sum, c.gamma, NULL, apart.rstd, NULL,
                                          apart.dx, dgamma[0], NULL, scratch));
        zr_run(queue, zr_op_norm_backward(&c.norm, c.dy, apart.sum, c.gamma, NULL, apart.rstd, NULL,
                                          c.dy, dgamma[1], NULL, scratch));
        check_same_array("dx over dy", dtype, c.dy, apart.dx, 40 * 48);
        check_same_bits("dgamma", dgamma[1], dgamma[0], sizeof dgamma[0]);
        array_free(scratch);
        result_free(&apart);
        case_free(&c);
    }
}

static void dx_may_be_dy(void **state) { check_each_kernels(in_place); }

// Without rows, the gradient of the gain is zero, or stays as it is where it is added to.
static void no_rows(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    enum { WIDTH = 37 };
    zr_queue *queues[] = {queue, ref};
    for (int k = 0; k < ZR_COUNT(queues) * STORAGE_TYPES; k++) {
        zr_queue *q = queues[k / STORAGE_TYPES];
        rms_case c = case_new(ZERO_F32, storage_types[k % STORAGE_TYPES], 0, WIDTH);
        float *added = floats_random(WIDTH, 7, 2), *kept = floats_copy(added, WIDTH),
              *set = floats_new(WIDTH), *scratch = floats_new(0);
        void *nothing = floats_new(0);
        zr_norm adds = c.norm;
        adds.add_parameters = true;
        zr_run(q, zr_op_norm_forward(&c.norm, NULL, NULL, NULL, c.gamma, NULL, NULL, NULL, NULL));
        zr_run(q, zr_op_norm_forward(&c.norm, nothing, nothing, nothing, c.gamma, NULL, nothing,
                                     NULL, NULL));
        zr_run(q, zr_op_norm_backward(&adds, NULL, NULL, c.gamma, NULL, NULL, NULL, NULL, added,
                                      NULL, scratch));
        zr_run(q, zr_op_norm_backward(&c.norm, NULL, NULL, c.gamma, NULL, NULL, NULL, NULL, set,
                                      NULL, scratch));
        check_same_bits("dgamma, nothing added", added, kept, WIDTH * 4);
        for (int j = 0; j < WIDTH; j++)
            assert_true(set[j] == 0);
        float *all[] = {added, kept, set, scratch, nothing};
        for (int i = 0; i < ZR_COUNT(all); i++)
            floats_free(all[i]);
        case_free(&c);
    }
}

// What is added to a gradient is the sum that would have been set, with its bits.
static void adds_what_it_sets(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    enum { MANY = 70, WIDE = 37 };
    zr_queue *queues[] = {queue, ref};
    for (int k = 0; k < ZR_COUNT(queues) * STORAGE_TYPES; k++) {
        zr_queue *q = queues[k / STORAGE_TYPES];
        rms_case c = case_new(ZERO_F32, storage_types[k % STORAGE_TYPES], MANY, WIDE);
        rms_result set = run(q, &c, false), added = run(q, &c, true);
        float *before = floats_random(WIDE, 7, 2);
        check_added("dgamma", added.dgamma, before, set.dgamma, WIDE);
        floats_free(before);
        result_free(&set);
        result_free(&added);
        case_free(&c);
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
        cmocka_unit_test(ref_is_right),
        cmocka_unit_test(cpu_agrees),
        cmocka_unit_test(dx_may_be_dy),
        cmocka_unit_test(what_is_added_is_what_would_be_set),
        cmocka_unit_test(no_rows_change_no_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
