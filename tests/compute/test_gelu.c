// Both kinds of GELU: ref compared with formulas in this file, and cpu with ref.
#include "compute/compute.h"
#include "compute_check.h"

static const int64_t counts[] = {0, 1, 3, 17, 64, 128, 768, 1000, 40001};

// ---- by the hyperbolic tangent ----

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static void ref_gelu_is_right(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    for (float x = -8; x < 8; x += 0.37f) {
        float y, d = 2, want = (float)gelu(x),
                 slope = (float)(2 * (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5);
        zr_run(ref, zr_op_gelu_forward(&(zr_elements){ZERO_F32, 1}, &x, &y));
        zr_run(ref, zr_op_gelu_backward(&(zr_elements){ZERO_F32, 1}, &x, &d));
        check_close("gelu", &y, &want, 1, 2e-7, 1e-14);
        check_close("gelu'", &d, &slope, 1, 1e-6, 1e-8);
    }
    check_queue_close(ref);
}

static void *gelu_inputs(zero_dtype dtype, int64_t n)
{
    static const float special[] = {0,     -0.0f, 1e-30f, -1e-30f, 1e-6f, -1e-6f, 1e30f,
                                    -1e4f, NAN,   100,    -100,    10,    -10};
    float *x = floats_random(n, 8, 12);
    for (int64_t i = 0; n > 100 && i < ZR_COUNT(special); i++)
        x[i * 3] = special[i];
    void *stored = array_of(dtype, x, n);
    floats_free(x);
    return stored;
}

// shift: elements by which everything is off its alignment.
static void gelu_one(zr_queue *const queues[3], zero_dtype dtype, int64_t n, int64_t shift)
{
    void *x = gelu_inputs(dtype, n + shift), *y[3], *d[3], *pre = array_at(dtype, x, shift);
    for (int q = 0; q < 3; q++) {
        y[q] = array_new(dtype, n + shift);
        d[q] = array_random(dtype, n + shift, 5, 1);
        zr_run(queues[q],
               zr_op_gelu_forward(&(zr_elements){dtype, n}, pre, array_at(dtype, y[q], shift)));
        zr_run(queues[q],
               zr_op_gelu_backward(&(zr_elements){dtype, n}, pre, array_at(dtype, d[q], shift)));
    }
    int64_t all = n + shift;
    check_close_as("gelu", dtype, y[0], y[2], all, 1.5e-5,
                   1e-35); // relative, into the tail, where e^-87 carries the error of its exponent
    check_close_as("gelu near zero and above", dtype, y[0], y[2], all, 5e-7, 1e-7);
    check_close_as("gelu'", dtype, d[0], d[2], all, 1e-6, 3e-7);
    check_same_array("gelu at one thread", dtype, y[0], y[1], all);
    check_same_array("gelu' at one thread", dtype, d[0], d[1], all);
    zr_run(queues[0], zr_op_gelu_forward(&(zr_elements){dtype, n}, pre, pre));
    check_same_array("gelu in place", dtype, pre, array_at(dtype, y[0], shift), n);
    for (int q = 0; q < 3; q++) {
        array_free(y[q]);
        array_free(d[q]);
    }
    array_free(x);
}

static void gelu_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    zr_queue *queues[] = {queue, single, ref};
    for (int k = 0; k < ZR_COUNT(counts); k++)
        for (int t = 0; t < STORAGE_TYPES; t++)
            gelu_one(queues, storage_types[t], counts[k], k % 2);
}

static void cpu_gelu_agrees(void **state) { check_each_kernels(gelu_body); }

static void ref_gelu_rounds_once(void **state)
{
    enum { N = 1000 };
    zr_queue *ref = check_queue("ref", NULL, 1);
    for (int t = 0; t < STORAGE_TYPES; t++) {
        zero_dtype dtype = storage_types[t];
        void *x = gelu_inputs(dtype, N), *d = array_random(dtype, N, 5, 1);
        float *wide_x = array_floats(dtype, x, N), *wide_d = array_floats(dtype, d, N);
        zr_run(ref, zr_op_gelu_backward(&(zr_elements){dtype, N}, x, d));
        zr_run(ref, zr_op_gelu_backward(&(zr_elements){ZERO_F32, N}, wide_x, wide_d));
        check_stored("gelu' from fp32", dtype, d, wide_d, N);
        zr_run(ref, zr_op_gelu_forward(&(zr_elements){dtype, N}, x, x));
        zr_run(ref, zr_op_gelu_forward(&(zr_elements){ZERO_F32, N}, wide_x, wide_x));
        check_stored("gelu from fp32", dtype, x, wide_x, N);
        array_free(x);
        array_free(d);
        floats_free(wide_x);
        floats_free(wide_d);
    }
    check_queue_close(ref);
}

// ---- by the error function ----

static double gelu_erf(double x) { return x / 2 * erfc(-x / sqrt(2)); }

static void ref_gelu_erf_is_right(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    const zr_elements one = {ZERO_F32, 1};
    for (float x = -8; x < 8; x += 0.37f) {
        float y, d = 2, want = (float)gelu_erf(x),
                 slope = (float)(2 * (gelu_erf(x + 1e-5) - gelu_erf(x - 1e-5)) / 2e-5);
        zr_run(ref, zr_op_gelu_erf_forward(&one, &x, &y));
        zr_run(ref, zr_op_gelu_erf_backward(&one, &x, &d, &d));
        check_close("gelu", &y, &want, 1, 2e-7, 1e-14);
        check_close("gelu'", &d, &slope, 1, 1e-6, 1e-8);
    }
    check_queue_close(ref);
}

// shift: elements by which everything is off its alignment.
static void gelu_erf_one(zr_queue *const queues[3], zero_dtype dtype, int64_t n, int64_t shift)
{
    void *x = gelu_inputs(dtype, n + shift), *pre = array_at(dtype, x, shift), *y[3], *d[3],
         *in = array_random(dtype, n + shift, 5, 1);
    const zr_elements all = {dtype, n};
    for (int q = 0; q < 3; q++) {
        y[q] = array_new(dtype, n + shift);
        d[q] = array_new(dtype, n + shift);
        zr_run(queues[q], zr_op_gelu_erf_forward(&all, pre, array_at(dtype, y[q], shift)));
        zr_run(queues[q], zr_op_gelu_erf_backward(&all, pre, array_at(dtype, in, shift),
                                                  array_at(dtype, d[q], shift)));
    }
    check_close_as("gelu into the tail", dtype, y[0], y[2], n + shift, 1.5e-5, 1e-35);
    check_close_as("gelu", dtype, y[0], y[2], n + shift, 5e-7, 1e-7);
    check_close_as("gelu'", dtype, d[0], d[2], n + shift, 1e-6, 3e-7);
    check_same_array("gelu at one thread", dtype, y[0], y[1], n + shift);
    check_same_array("gelu' at one thread", dtype, d[0], d[1], n + shift);
    zr_run(queues[0], zr_op_gelu_erf_backward(&all, pre, array_at(dtype, in, shift),
                                              array_at(dtype, in, shift)));
    check_same_array("gelu' over d", dtype, array_at(dtype, in, shift),
                     array_at(dtype, d[0], shift), n);
    zr_run(queues[0], zr_op_gelu_erf_forward(&all, pre, pre));
    check_same_array("gelu in place", dtype, pre, array_at(dtype, y[0], shift), n);
    for (int q = 0; q < 3; q++) {
        array_free(y[q]);
        array_free(d[q]);
    }
    array_free(x), array_free(in);
}

static void gelu_erf_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    zr_queue *queues[] = {queue, single, ref};
    for (int k = 0; k < ZR_COUNT(counts); k++)
        for (int t = 0; t < STORAGE_TYPES; t++)
            gelu_erf_one(queues, storage_types[t], counts[k], k % 2);
}

static void cpu_gelu_erf_agrees(void **state) { check_each_kernels(gelu_erf_body); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_gelu_is_right),    cmocka_unit_test(cpu_gelu_agrees),
        cmocka_unit_test(ref_gelu_rounds_once), cmocka_unit_test(ref_gelu_erf_is_right),
        cmocka_unit_test(cpu_gelu_erf_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
