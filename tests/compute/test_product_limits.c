// Matrix products at their limits: numbers that overflow, vanish or are none; products that are refused; scratch.
#include "compute_check.h"

#include <stdio.h>
#include <string.h>

// D as fp32 of A (m,k) and B (k,n) that hold one value everywhere, but for A's element `at`.
static float *filled_product(zr_queue *queue, const zr_product *p, float fill, int64_t at, float value)
{
    float *a = floats_new(p->m * p->k), *b = floats_new(p->k * p->n);
    for (int64_t i = 0; i < p->m * p->k; i++)
        a[i] = i == at ? value : fill;
    for (int64_t i = 0; i < p->k * p->n; i++)
        b[i] = fill;
    void *a_typed = array_of(p->dtype, a, p->m * p->k), *b_typed = array_of(p->dtype, b, p->k * p->n);
    void *d = array_new(p->out, p->m * p->n);
    assert_int_equal(queue->backend->product->run(queue, p, a_typed, b_typed, NULL, d, NULL), ZERO_OK);
    float *values = array_floats(p->out, d, p->m * p->n);
    array_free(d);
    array_free(a_typed);
    array_free(b_typed);
    floats_free(a);
    floats_free(b);
    return values;
}

static void extremes(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int64_t m = 2; m <= 14; m += 12) {
            zr_product p = {.dtype = storage_types[t], .out = storage_types[t], .m = m, .n = 21, .k = 12};
            float *d = filled_product(queue, &p, 200, 12 + 3, NAN); // 12 * 40000: infinite in fp16
            for (int64_t i = 0; i < m * p.n; i++)
                assert_true(i / p.n == 1 ? isnan(d[i]) : p.out == ZERO_F16 ? isinf(d[i]) : fabsf(d[i] - 480000) < 2000);
            floats_free(d);
            p.out = ZERO_F32;
            d = filled_product(queue, &p, 0x1p-24f, -1, 0); // fp16: denormal
            for (int64_t i = 0; i < m * p.n; i++)
                assert_true(d[i] == 12 * 0x1p-48f);
            floats_free(d);
        }
}

static void extremes_stay(void **state)
{
    check_each_cpu(extremes);
}

static void refusals(zr_queue *queue)
{
    static const zr_product wrong[] = {
        {.dtype = ZERO_F32, .out = ZERO_BF16},
        {.dtype = ZERO_BF16, .out = ZERO_F16},
        {.dtype = (zero_dtype)99, .out = (zero_dtype)99},
        {.dtype = ZERO_BF16, .out = ZERO_BF16, .add = true},
        {.dtype = ZERO_F32, .out = ZERO_F32, .add = true, .epilogue = ZR_EPILOGUE_BIAS},
    };
    float zeros[64] = {0};
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zero_error error = {0};
        zr_product p = wrong[i];
        p.m = p.n = p.k = 2;
        assert_int_equal(queue->backend->product->run(queue, &p, zeros, zeros, zeros, zeros, &error), ZERO_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, "matrix product"));
    }
}

static void scratch_too_small(zr_queue *queue, int64_t m)
{
    zero_error error = {0};
    zr_product p = {.m = m, .n = 400, .k = 500, .trans_b = true, .gelu_a = true, .epilogue = ZR_EPILOGUE_BIAS};
    size_t needed = queue->backend->product->scratch(queue, &p), kept = queue->scratch_bytes;
    char expected[64];
    snprintf(expected, sizeof expected, "m %d, n 400, k 500", (int)m);
    assert_true(needed > 0);
    float *a = floats_random(p.m * p.k, 1, 1), *b = floats_random(p.k * p.n, 2, 1), *bias = floats_random(p.n, 3, 1);
    float *d = floats_new(p.m * p.n);
    queue->scratch_bytes = needed - 1;
    assert_int_equal(queue->backend->product->run(queue, &p, a, b, bias, d, &error), ZERO_ERR_INTERNAL);
    assert_non_null(strstr(error.message, expected));
    queue->scratch_bytes = kept;
    floats_free(a);
    floats_free(b);
    floats_free(bias);
    floats_free(d);
}

// What is reserved for a micro-batch is enough for the smaller ones that evaluation and decoding come with.
static void scratch_grows_with_rows(zr_queue *queue, zero_dtype out)
{
    zr_product p = {.dtype = ZERO_BF16, .out = out, .n = 1000, .k = 700};
    size_t before = 0;
    for (p.m = 1; p.m < 1500; p.m += 1 + p.m / 8) {
        size_t needed = queue->backend->product->scratch(queue, &p);
        assert_true(needed >= before);
        before = needed;
    }
}

static void limits(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    refusals(queue);
    scratch_too_small(queue, 1);
    scratch_too_small(queue, 300);
    scratch_grows_with_rows(queue, ZERO_BF16);
    scratch_grows_with_rows(queue, ZERO_F32);
}

static void refuses_what_it_cannot(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    refusals(ref);
    check_queue_close(ref);
    check_each_cpu(limits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extremes_stay),
        cmocka_unit_test(refuses_what_it_cannot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
