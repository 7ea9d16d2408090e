// Matrix products: ref against the sum written out in long double, cpu against ref, in every combination of arguments.
#include "compute_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    int64_t m, n, k;
} shape;

static const shape shapes[] = {
    {1, 1, 1},    {1, 7, 3},    {5, 1, 9},     {7, 6, 1},      {6, 16, 8}, {13, 31, 17},
    {2, 33, 300}, {96, 64, 48}, {97, 259, 70}, {64, 192, 257}, {0, 5, 3},  {4, 5, 0},
};

typedef struct operands {
    float *a, *b, *bias, *before, *size; // size: sum of the absolute values of what is added, for tolerances
} operands;

static zr_product product_of(shape s, int combination)
{
    return (zr_product){
        .m = s.m,
        .n = s.n,
        .k = s.k,
        .trans_a = combination & 1,
        .trans_b = combination & 2,
        .add = combination & 4,
        .epilogue = combination & 8 ? ZR_EPILOGUE_BIAS : ZR_EPILOGUE_NONE,
    };
}

static operands operands_new(const zr_product *p)
{
    return (operands){
        .a = floats_random(p->m * p->k, 1, 1),
        .b = floats_random(p->k * p->n, 2, 1),
        .bias = floats_random(p->n, 3, 1),
        .before = floats_random(p->m * p->n, 4, 1),
        .size = floats_new(p->m * p->n),
    };
}

static void operands_free(operands *o)
{
    floats_free(o->a);
    floats_free(o->b);
    floats_free(o->bias);
    floats_free(o->before);
    floats_free(o->size);
}

static float *multiply(zr_queue *queue, const zr_product *p, const operands *o)
{
    zero_error error = {0};
    float *d = p->add ? floats_copy(o->before, p->m * p->n) : floats_new(p->m * p->n);
    assert_true(queue->backend->product->scratch(queue, p) <= queue->scratch_bytes);
    zero_status status = queue->backend->product->run(queue, p, o->a, o->b, o->bias, d, &error);
    if (status != ZERO_OK)
        fail_msg("%s", error.message);
    return d;
}

static float *multiply_plainly(const zr_product *p, operands *o)
{
    float *d = floats_new(p->m * p->n);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            long double sum = p->add ? o->before[i * p->n + j] : 0;
            sum += p->epilogue == ZR_EPILOGUE_BIAS ? o->bias[j] : 0;
            long double size = fabsl(sum);
            for (int64_t t = 0; t < p->k; t++) {
                long double term = (long double)o->a[p->trans_a ? t * p->m + i : i * p->k + t]
                                   * o->b[p->trans_b ? j * p->k + t : t * p->n + j];
                sum += term;
                size += fabsl(term);
            }
            d[i * p->n + j] = (float)sum;
            o->size[i * p->n + j] = (float)size;
        }
    return d;
}

static void ref_agrees_with_long_double(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    for (int s = 0; s < ZR_COUNT(shapes); s++)
        for (int combination = 0; combination < 16; combination++) {
            zr_product p = product_of(shapes[s], combination);
            operands o = operands_new(&p);
            float *got = multiply(ref, &p, &o), *want = multiply_plainly(&p, &o);
            check_close("product", got, want, p.m * p.n, 1.2e-7, 1e-12);
            floats_free(got);
            floats_free(want);
            operands_free(&o);
        }
    check_queue_close(ref);
}

static void cpu_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    if (queue->threads > 2) // waking more threads than cores for each of these products takes seconds
        return;
    for (int s = 0; s < ZR_COUNT(shapes); s++)
        for (int combination = 0; combination < 16; combination++) {
            zr_product p = product_of(shapes[s], combination);
            operands o = operands_new(&p);
            float *want = multiply_plainly(&p, &o);
            float *got = multiply(queue, &p, &o), *again = multiply(queue, &p, &o);
            for (int64_t i = 0; i < p.m * p.n; i++)
                check_close("product", got + i, want + i, 1, 0, 1e-6 * o.size[i]);
            check_same_bits("product again, elsewhere", again, got, p.m * p.n * 4);
            floats_free(got);
            floats_free(again);
            floats_free(want);
            operands_free(&o);
        }
}

static void cpu_agrees(void **state)
{
    check_each_cpu(cpu_body);
}

static void not_a_number_spreads(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    zr_product p = {.m = 9, .n = 21, .k = 12};
    operands o = operands_new(&p);
    o.a[4 * 12 + 3] = NAN;
    float *d = multiply(queue, &p, &o);
    for (int64_t i = 0; i < p.m * p.n; i++)
        assert_int_equal(isnan(d[i]), i / p.n == 4);
    floats_free(d);
    operands_free(&o);
}

static void cpu_spreads_not_a_number(void **state)
{
    check_each_cpu(not_a_number_spreads);
}

static void refusals(zr_queue *queue)
{
    zero_error error = {0};
    zr_product p = {.dtype = ZERO_BF16, .m = 2, .n = 2, .k = 2};
    float zeros[64] = {0};
    assert_int_equal(queue->backend->product->run(queue, &p, zeros, zeros, NULL, zeros, &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "fp32"));
}

static void scratch_too_small(zr_queue *queue)
{
    zero_error error = {0};
    zr_product p = {.m = 300, .n = 400, .k = 500, .trans_b = true, .epilogue = ZR_EPILOGUE_BIAS};
    size_t needed = queue->backend->product->scratch(queue, &p), kept = queue->scratch_bytes;
    if (needed == 0)
        return;
    operands o = operands_new(&p);
    float *d = floats_new(p.m * p.n);
    queue->scratch_bytes = needed - 1;
    assert_int_equal(queue->backend->product->run(queue, &p, o.a, o.b, o.bias, d, &error), ZERO_ERR_INTERNAL);
    assert_non_null(strstr(error.message, "m 300, n 400, k 500"));
    queue->scratch_bytes = kept;
    floats_free(d);
    operands_free(&o);
}

static void refuses_what_it_cannot(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1), *cpu = check_queue("cpu", NULL, 2);
    refusals(ref);
    refusals(cpu);
    scratch_too_small(cpu);
    check_queue_close(ref);
    check_queue_close(cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_agrees_with_long_double),
        cmocka_unit_test(cpu_agrees),
        cmocka_unit_test(cpu_spreads_not_a_number),
        cmocka_unit_test(refuses_what_it_cannot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
