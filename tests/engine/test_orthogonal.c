// Muon's iteration: compared with its formulas in double, with PyTorch's and DeepSpeed's results,
// and with what it is for, singular values of about 1.
#include "orthogonal_golden.h"
#include "base/alloc.h"
#include "base/dtype.h"
#include "base/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// cmocka needs the headers above.
#include <cmocka.h>

enum { GUARD = 64 };
static const char *const method_names[] = {"standard", "gram"};

typedef struct shape {
    int64_t rows, cols;
} shape;
static const shape shapes[] = {{1, 1},   {1, 37},  {37, 1},  {8, 8},   {12, 40},
                               {40, 12}, {31, 31}, {33, 50}, {50, 33}, {64, 200}};

static zr_orthogonal orthogonal_of(zr_orthogonal_method method, shape of)
{
    zr_orthogonal orthogonal = zr_orthogonal_standard(of.rows, of.cols);
    orthogonal.method = method;
    return orthogonal;
}

// ---- running it ----

static void *memory_new(int64_t bytes)
{
    char *memory = aligned_alloc(64, (size_t)ZR_ROUND_UP(bytes + GUARD, 64));
    assert_non_null(memory);
    memset(memory, 0xa5, (size_t)ZR_ROUND_UP(bytes + GUARD, 64));
    return memory;
}

static void memory_free(void *memory, int64_t bytes)
{
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(((unsigned char *)memory)[bytes + i], 0xa5);
    free(memory);
}

// Runs it on `matrix`, twice: the second time allocates nothing, and has the same bits. Every
// operand has to lie in the matrix or the workspace, and nothing is written beyond them.
static void run_twice(zr_queue *queue, const zr_orthogonal *of, const uint16_t *from,
                      uint16_t *matrix, void *workspace)
{
    const size_t bytes = (size_t)(of->rows * of->cols) * sizeof *matrix;
    uint16_t *first = malloc(bytes);
    zero_error error = {0};
    int64_t allocations = 0;
    assert_non_null(first);
    for (int time = 0; time < 2; time++) {
        memcpy(first, matrix, bytes);
        memcpy(matrix, from, bytes);
        allocations = zr_alloc_count();
        zr_orthogonal_run(queue, of, matrix, workspace);
        if (zr_queue_check(queue, &error) != ZERO_OK)
            fail_msg("%s", error.message);
    }
    assert_int_equal(zr_alloc_count(), allocations);
    assert_memory_equal(matrix, first, bytes);
    free(first);
}

static void run(const char *backend, int threads, const zr_orthogonal *of, uint16_t *matrix)
{
    zero_error error = {0};
    zr_queue *queue = NULL;
    zr_wrapper *wrapper = NULL;
    assert_int_equal(zr_queue_open(backend, NULL, threads, &queue, &error), ZERO_OK);
    int64_t bytes = zr_orthogonal_workspace(of), elements = of->rows * of->cols;
    size_t scratch_bytes = zr_orthogonal_scratch(queue, of);
    char *workspace = memory_new(bytes);
    uint16_t *copy = memory_new(2 * elements);
    queue->scratch = memory_new((int64_t)scratch_bytes);
    queue->scratch_bytes = scratch_bytes;
    const zr_bounds bounds = {.unit = "orthogonal",
                              .count = 2,
                              .reserved = {{"matrix", copy, (size_t)elements * 2},
                                           {"workspace", workspace, (size_t)bytes}}};
    assert_int_equal(zr_queue_bound(queue, &bounds, &wrapper, &error), ZERO_OK);
    run_twice(queue, of, matrix, copy, workspace);
    zr_queue_unwrap(queue, wrapper);
    memcpy(matrix, copy, (size_t)elements * 2);
    memory_free(copy, 2 * elements);
    memory_free(workspace, bytes);
    memory_free(queue->scratch, (int64_t)scratch_bytes);
    zr_queue_close(queue);
}

static uint16_t *matrix_new(shape of, float size)
{
    int64_t count = of.rows * of.cols;
    float *values = malloc((size_t)count * sizeof *values);
    uint16_t *matrix = malloc((size_t)count * sizeof *matrix);
    assert_true(values && matrix);
    zr_random_normal((uint64_t)(of.rows * 1000 + of.cols), 0, count, size, values);
    zr_narrow(ZERO_BF16, values, count, matrix);
    free(values);
    return matrix;
}

// ---- the formulas in double ----

static double *doubles_new(int64_t count)
{
    double *out = calloc((size_t)count, sizeof *out);
    assert_non_null(out);
    return out;
}

// out(m,n) = by (op(a) op(b)) + plus * add; out may be add, but neither a nor b.
static void multiply(const double *a, const double *b, int64_t m, int64_t n, int64_t k,
                     bool trans_b, double by, double plus, const double *add, double *out)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t t = 0; t < k; t++)
                sum += a[i * k + t] * b[trans_b ? j * k + t : t * n + j];
            out[i * n + j] = by * sum + (add ? plus * add[i * n + j] : 0);
        }
}

// x (n, m), n <= m, of norm 1. The gram method has the same result where nothing is rounded.
static void iterate(const zr_orthogonal *of, double *x, int64_t n, int64_t m)
{
    double *a = doubles_new(n * n), *b = doubles_new(n * n), *next = doubles_new(n * m);
    for (int step = 0; step < of->steps; step++) {
        multiply(x, x, n, n, m, true, 1, 0, NULL, a);
        multiply(a, a, n, n, n, false, of->c, of->b, a, b);
        multiply(b, x, n, m, n, false, 1, of->a, x, next);
        memcpy(x, next, (size_t)(n * m) * sizeof *x);
    }
    free(a);
    free(b);
    free(next);
}

// Returns the matrix as X (n, m), n <= m.
static double *as_wide(const uint16_t *matrix, shape of)
{
    double *x = doubles_new(of.rows * of.cols);
    for (int64_t i = 0; i < of.rows; i++)
        for (int64_t j = 0; j < of.cols; j++)
            x[of.rows > of.cols ? j * of.rows + i : i * of.cols + j] =
                (double)zr_bf16_to_f32(matrix[i * of.cols + j]);
    return x;
}

static double norm_of(const double *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

// Returns |run's result - the formulas'| / |the formulas'|.
static double distance_to_formulas(const char *backend, const zr_orthogonal *of, uint16_t *matrix)
{
    const shape size = {of->rows, of->cols};
    int64_t n = ZR_MIN(size.rows, size.cols), m = ZR_MAX(size.rows, size.cols), count = n * m;
    double *want = as_wide(matrix, size), norm = norm_of(want, count);
    norm = of->method == ZR_ORTHOGONAL_GRAM ? norm + of->eps : fmax(norm, of->eps);
    for (int64_t i = 0; i < count; i++)
        want[i] /= norm;
    iterate(of, want, n, m);
    run(backend, 1, of, matrix);
    double *got = as_wide(matrix, size), all = norm_of(want, count);
    for (int64_t i = 0; i < count; i++)
        got[i] -= want[i];
    double distance = norm_of(got, count) / all;
    free(want);
    free(got);
    return distance;
}

static const double tolerance[] = {[ZR_ORTHOGONAL_STANDARD] = 0.03, [ZR_ORTHOGONAL_GRAM] = 0.008};

static void formulas_are_followed(void **state)
{
    for (int s = 0; s < ZR_COUNT(shapes); s++)
        for (int backend = 0; backend < 2; backend++)
            for (int method = 0; method < 2; method++) {
                uint16_t *matrix = matrix_new(shapes[s], 0.01f);
                const zr_orthogonal of = orthogonal_of((zr_orthogonal_method)method, shapes[s]);
                double distance = distance_to_formulas(backend ? "ref" : "cpu", &of, matrix);
                if (!(distance < tolerance[method]))
                    fail_msg("%s, %lld x %lld: %g from the formulas", method_names[method],
                             (long long)of.rows, (long long)of.cols, distance);
                free(matrix);
            }
}

// Coefficients, steps and eps are those that are asked for: in gram, before, at and after its new
// beginning.
static void settings_are_used(void **state)
{
    static const zr_orthogonal settings[] = {
        {.steps = 0, .a = 2, .b = -1, .c = 0.25, .eps = 0},
        {.steps = 1, .a = 1.5, .b = -0.5, .c = 0, .eps = 0},
        {.steps = 2, .a = 2, .b = -1.5, .c = 0.5, .eps = 0.1},
        {.steps = 3, .a = 2, .b = -1.5, .c = 0.5, .eps = 1},
        {.steps = 4, .a = 1.875, .b = -1.25, .c = 0.375, .eps = 0.5},
        {.steps = 6, .a = 1.875, .b = -1.25, .c = 0.375, .eps = 0}};
    for (int i = 0; i < ZR_COUNT(settings); i++)
        for (int at = 0; at < 3; at++)
            for (int method = 0; method < 2; method++) {
                const shape size = (const shape[]){{12, 40}, {40, 12}, {16, 16}}[at];
                uint16_t *matrix = matrix_new(size, 0.01f);
                zr_orthogonal of = settings[i];
                of.rows = size.rows, of.cols = size.cols;
                of.method = (zr_orthogonal_method)method;
                double distance = distance_to_formulas("cpu", &of, matrix);
                if (!(distance < tolerance[method]))
                    fail_msg("%s, settings %d: %g from the formulas", method_names[method], i,
                             distance);
                free(matrix);
            }
}

// ---- singular values ----

// Returns the largest eigenvalue of shift I + by X X^T, from below.
static double largest_eigenvalue(const double *x, int64_t n, int64_t m, double by, double shift)
{
    double *g = doubles_new(n * n), *v = doubles_new(n), *next = doubles_new(n), norm = 0;
    multiply(x, x, n, n, m, true, by, 0, NULL, g);
    for (int64_t i = 0; i < n; i++) {
        g[i * n + i] += shift;
        v[i] = 1 + (double)(i % 7);
    }
    for (int round = 0; round < 500; round++) {
        multiply(g, v, n, 1, n, false, 1, 0, NULL, next);
        norm = norm_of(next, n);
        for (int64_t i = 0; i < n; i++)
            v[i] = next[i] / norm;
    }
    free(g);
    free(v);
    free(next);
    return norm;
}

static void singular_values_are_about_1(void **state)
{
    static const shape sizes[] = {{1, 37}, {37, 1}, {12, 40}, {40, 12}, {50, 33}, {64, 200}};
    for (int s = 0; s < ZR_COUNT(sizes); s++)
        for (int method = 0; method < 2; method++) {
            int64_t n = ZR_MIN(sizes[s].rows, sizes[s].cols),
                    m = ZR_MAX(sizes[s].rows, sizes[s].cols);
            uint16_t *matrix = matrix_new(sizes[s], 3);
            const zr_orthogonal of = orthogonal_of((zr_orthogonal_method)method, sizes[s]);
            run("cpu", 2, &of, matrix);
            double *x = as_wide(matrix, sizes[s]);
            double most = sqrt(largest_eigenvalue(x, n, m, 1, 0)),
                   least = sqrt(4 - largest_eigenvalue(x, n, m, -1, 4));
            if (!(least > 0.6 && most < 1.3))
                fail_msg("%s, %lld x %lld: singular values from %g to %g", method_names[method],
                         (long long)sizes[s].rows, (long long)sizes[s].cols, least, most);
            free(x);
            free(matrix);
        }
}

// ---- PyTorch's and DeepSpeed's results ----

static double golden_distance(const char *backend, const orthogonal_golden *golden)
{
    const zr_orthogonal of = orthogonal_of(golden->method, (shape){golden->rows, golden->cols});
    uint16_t matrix[ZR_COUNT(golden->result)];
    double worst = 0;
    for (int64_t i = 0; i < of.rows * of.cols; i++)
        matrix[i] = zr_f32_to_bf16((float)((37 * i * i + 11 * i) % 101 - 50) / 1024);
    run(backend, 1, &of, matrix);
    for (int64_t i = 0; i < of.rows * of.cols; i++) {
        double apart = fabs((double)zr_bf16_to_f32(matrix[i]) - (double)golden->result[i]);
        if (!(apart <= worst)) // also where it is no number
            return apart;
    }
    return worst;
}

// ref has PyTorch's bits, because it rounds where PyTorch does. DeepSpeed rounds more often, and
// others may round a sum of another order to a neighbour: 0.01 is two steps of bf16 at 1/2 to 1.
static void oracles_agree(void **state)
{
    for (int g = 0; g < ORTHOGONAL_GOLDENS; g++) {
        const orthogonal_golden *golden = &orthogonal_goldens[g];
        double ref = golden_distance("ref", golden), cpu = golden_distance("cpu", golden);
        bool exact = golden->method == ZR_ORTHOGONAL_STANDARD;
        if (!(ref <= (exact ? 0 : 0.01) && cpu < 0.01))
            fail_msg("%s, %lld x %lld: ref %g from the oracle, cpu %g",
                     method_names[golden->method], (long long)golden->rows, (long long)golden->cols,
                     ref, cpu);
    }
}

// ---- bits, and values at the ends ----

static void threads_change_no_bit(void **state)
{
    static const shape sizes[] = {{96, 400}, {400, 96}, {130, 130}};
    for (const zr_backend *const *b = zr_backends(); *b; b++) {
        char name[32];
        // oneDNN's products promise bits for a number of threads alone; ref has one thread.
        if (strcmp((*b)->name, "ref") == 0 || strcmp((*b)->path(), "amx") == 0 ||
            !zr_backend_offered(*b))
            continue;
        snprintf(name, sizeof name, "cpu:%s", (*b)->path());
        for (int s = 0; s < ZR_COUNT(sizes); s++)
            for (int method = 0; method < 2; method++) {
                const zr_orthogonal of = orthogonal_of((zr_orthogonal_method)method, sizes[s]);
                uint16_t *one = matrix_new(sizes[s], 1);
                run(name, 1, &of, one);
                for (int threads = 2; threads <= 4; threads++) {
                    uint16_t *more = matrix_new(sizes[s], 1);
                    run(name, threads, &of, more);
                    assert_memory_equal(one, more, (size_t)(of.rows * of.cols) * 2);
                    free(more);
                }
                free(one);
            }
    }
}

static void zeros_remain_zeros(void **state)
{
    for (int s = 0; s < ZR_COUNT(shapes); s++)
        for (int method = 0; method < 2; method++) {
            const zr_orthogonal of = orthogonal_of((zr_orthogonal_method)method, shapes[s]);
            uint16_t *matrix = matrix_new(shapes[s], 0);
            run("cpu", 1, &of, matrix);
            for (int64_t i = 0; i < of.rows * of.cols; i++)
                assert_true(zr_bf16_to_f32(matrix[i]) == 0);
            free(matrix);
        }
}

// Below eps and above it, where fp16 has few digits or none.
static void sizes_of_u_are_divided_out(void **state)
{
    static const float sizes[] = {1e-12f, 1e-9f, 1e-8f, 1e-5f, 1, 1e6f, 1e30f};
    for (int s = 0; s < ZR_COUNT(sizes); s++)
        for (int method = 0; method < 2; method++) {
            const shape size = {16, 40};
            const zr_orthogonal of = orthogonal_of((zr_orthogonal_method)method, size);
            uint16_t *matrix = matrix_new(size, sizes[s]);
            double distance = distance_to_formulas("cpu", &of, matrix);
            if (!(distance < tolerance[method]))
                fail_msg("%s of numbers of %g: %g from the formulas", method_names[method],
                         (double)sizes[s], distance);
            free(matrix);
        }
}

static void no_number_gives_no_number(void **state)
{
    for (int s = 0; s < ZR_COUNT(shapes); s++)
        for (int i = 0; i < 4; i++) {
            const float value = (const float[]){NAN, INFINITY}[i / 2];
            const zr_orthogonal of = orthogonal_of((zr_orthogonal_method)(i % 2), shapes[s]);
            uint16_t *matrix = matrix_new(shapes[s], 1);
            matrix[of.rows * of.cols / 2] = zr_f32_to_bf16(value);
            run("cpu", 1, &of, matrix);
            for (int64_t e = 0; e < of.rows * of.cols; e++)
                assert_false(isfinite(zr_bf16_to_f32(matrix[e])));
            free(matrix);
        }
}

// What is counted is what a queue counts; of five steps it is as many products as there have to be:
// gram makes R from X twice and X twice; and of squares Z five times, Q three and R six times.
static void add_flops(void *user, zr_queue *queue, const zr_op *op)
{
    *(double *)user += (double)zr_op_flops(op);
    queue->backend->run(queue, op);
}

static void flops_are_counted(void **state)
{
    zr_orthogonal wide = zr_orthogonal_standard(8, 24);
    assert_true(zr_orthogonal_flops(&wide) == 2.0 * 8 * 8 * (10 * 24 + 5 * 8));
    wide.method = ZR_ORTHOGONAL_GRAM;
    assert_true(zr_orthogonal_flops(&wide) == 2.0 * 8 * 8 * (4 * 24 + 14 * 8));
    for (int i = 0; i < 2 * 3 * 7; i++) {
        zero_error error = {0};
        zr_queue *queue = NULL;
        zr_wrapper *nothing = NULL, *wrapper = NULL;
        zr_orthogonal of = orthogonal_of((zr_orthogonal_method)(i % 2),
                                         (const shape[]){{8, 24}, {24, 8}, {8, 8}}[i / 2 % 3]);
        double flops = 0;
        of.steps = i / 6;
        void *workspace = memory_new(zr_orthogonal_workspace(&of));
        uint16_t *matrix = memory_new(2 * of.rows * of.cols);
        memset(workspace, 0, (size_t)zr_orthogonal_workspace(&of));
        assert_int_equal(zr_queue_open("cpu", NULL, 1, &queue, &error), ZERO_OK);
        assert_int_equal(zr_queue_count(queue, &nothing, &error), ZERO_OK);
        assert_int_equal(zr_queue_wrap(queue, add_flops, &flops, &wrapper, &error), ZERO_OK);
        zr_orthogonal_run(queue, &of, matrix, workspace);
        assert_true(flops == zr_orthogonal_flops(&of));
        zr_queue_unwrap(queue, wrapper);
        zr_queue_unwrap(queue, nothing);
        zr_queue_close(queue);
        memory_free(matrix, 2 * of.rows * of.cols);
        memory_free(workspace, zr_orthogonal_workspace(&of));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas_are_followed),       cmocka_unit_test(settings_are_used),
        cmocka_unit_test(singular_values_are_about_1), cmocka_unit_test(oracles_agree),
        cmocka_unit_test(threads_change_no_bit),       cmocka_unit_test(zeros_remain_zeros),
        cmocka_unit_test(sizes_of_u_are_divided_out),  cmocka_unit_test(no_number_gives_no_number),
        cmocka_unit_test(flops_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
