// Matrix products at their limits: numbers that overflow, underflow or are not finite; products
// that are refused; scratch.
#include "compute/compute.h"
#include "compute_check.h"

#include <stdio.h>
#include <string.h>

// D as fp32 of A (m,k) and B (k,n) that hold one value everywhere, but for A's element `at`.
static float *filled_product(zr_queue *queue, const zr_product *p, float fill, int64_t at,
                             float value)
{
    float *a = floats_new(p->m * p->k), *b = floats_new(p->k * p->n);
    for (int64_t i = 0; i < p->m * p->k; i++)
        a[i] = i == at ? value : fill;
    for (int64_t i = 0; i < p->k * p->n; i++)
        b[i] = fill;
    void *a_typed = array_of(p->dtype, a, p->m * p->k),
         *b_typed = array_of(p->dtype, b, p->k * p->n);
    void *d = array_new(p->out, p->m * p->n);
    assert_int_equal(check_run(queue, zr_op_product(p, a_typed, b_typed, NULL, d), NULL), ZERO_OK);
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
            zr_product p = {
                .dtype = storage_types[t], .out = storage_types[t], .m = m, .n = 21, .k = 12};
            float *d = filled_product(queue, &p, 200, 12 + 3, NAN); // 12 * 40000: infinite in fp16
            for (int64_t i = 0; i < m * p.n; i++)
                assert_true(i / p.n == 1        ? isnan(d[i])
                            : p.out == ZERO_F16 ? isinf(d[i])
                                                : fabsf(d[i] - 480000) < 2000);
            floats_free(d);
            p.out = ZERO_F32;
            d = filled_product(queue, &p, 0x1p-24f, -1, 0); // fp16: denormal
            for (int64_t i = 0; i < m * p.n; i++)
                assert_true(d[i] == 12 * 0x1p-48f);
            floats_free(d);
        }
}

static void extremes_stay(void **state) { check_each_cpu(extremes); }

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
        assert_int_equal(check_run(queue, zr_op_product(&p, zeros, zeros, zeros, zeros), &error),
                         ZERO_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, "matrix product"));
    }
}

static size_t product_scratch(zr_queue *queue, const zr_product *p)
{
    return zr_op_scratch(queue, zr_op_product(p, NULL, NULL, NULL, NULL));
}

static void scratch_too_small(zr_queue *queue, int64_t m)
{
    zero_error error = {0};
    zr_product p = {
        .m = m, .n = 400, .k = 500, .trans_b = true, .gelu_a = true, .epilogue = ZR_EPILOGUE_BIAS};
    size_t needed = product_scratch(queue, &p), kept = queue->scratch_bytes;
    char expected[64];
    snprintf(expected, sizeof expected, "m %d, n 400, k 500", (int)m);
    assert_true(needed > 0);
    float *a = floats_random(p.m * p.k, 1, 1), *b = floats_random(p.k * p.n, 2, 1),
          *bias = floats_random(p.n, 3, 1);
    float *d = floats_new(p.m * p.n);
    queue->scratch_bytes = needed - 1;
    assert_int_equal(check_run(queue, zr_op_product(&p, a, b, bias, d), &error), ZERO_ERR_INTERNAL);
    assert_non_null(strstr(error.message, expected));
    queue->scratch_bytes = kept;
    floats_free(a);
    floats_free(b);
    floats_free(bias);
    floats_free(d);
}

// The first `rows` of the p->m rows of A, stored as a product of `rows` rows has them.
static void *first_rows(const zr_product *p, const float *a, int64_t rows)
{
    float *values = floats_new(rows * p->k);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t t = 0; t < p->k; t++)
            values[p->trans_a ? t * rows + i : i * p->k + t] = a[i * p->k + t];
    void *stored = array_of(p->dtype, values, rows * p->k);
    floats_free(values);
    return stored;
}

// A product of the first `rows` rows within `bytes` of scratch, behind which a guard stands; its
// values are those of all rows. Of 0 bytes, where these are too few: answers how many it says it
// needs.
static size_t fewer_rows(zr_queue *queue, size_t bytes, const zr_product *all, int64_t rows,
                         const float *a, const void *b, const void *operand, const void *want)
{
    zero_error error = {0};
    zr_product p = *all;
    zr_queue exact = *queue;
    p.m = rows;
    exact.scratch = array_new(ZERO_BF16, (int64_t)bytes / 2);
    exact.scratch_bytes = bytes;
    void *stored = first_rows(all, a, rows), *d = array_new(p.out, rows * p.n);
    if (p.add)
        memset(d, 0, sizeof(float) * (size_t)(rows * p.n));
    size_t needed = 0;
    if (check_run(&exact, zr_op_product(&p, stored, b, operand, d), &error) == ZERO_OK)
        check_close_as("product of fewer rows", p.out, d, want, rows * p.n, 1e-5,
                       1e-3 + (p.gelu_a ? 0x1p-5 : 0));
    else if (bytes ||
             sscanf(error.message, "product %*[^:]: needs %zu bytes of scratch", &needed) != 1)
        fail_msg("%lld of %lld rows, %zu bytes: %s", (long long)rows, (long long)all->m, bytes,
                 error.message);
    array_free(stored);
    array_free(d);
    array_free(exact.scratch);
    return needed;
}

// Earlier queries of a queue make no difference to what a product needs.
static size_t reserved(zr_queue *queue, const zr_product *all)
{
    zr_product one = *all;
    one.m = 1;
    zr_queue *fresh = check_queue("cpu", queue->backend->path(), queue->threads);
    product_scratch(queue, &one);
    size_t bytes = product_scratch(queue, all);
    assert_int_equal(bytes, product_scratch(fresh, all));
    check_queue_close(fresh);
    return bytes;
}

// What is reserved for a micro-batch is enough for each smaller one that evaluation and decoding
// may come with, and what a refusal says is needed is enough too: for parts, where these need less.
// In each of these shapes oneDNN 2.6 wants more for some m than for the largest, or for all rows
// than for parts, with AVX-512, with its bf16 or with tiles.
static const struct {
    zr_product all;
    int64_t least;
} of_fewer_rows[] = {
    {{.dtype = ZERO_BF16, .out = ZERO_BF16, .m = 220, .n = 192, .k = 144, .trans_b = true}, 195},
    {{.dtype = ZERO_BF16,
      .out = ZERO_BF16,
      .m = 80,
      .n = 100,
      .k = 70,
      .gelu_a = true,
      .epilogue = ZR_EPILOGUE_GELU_BACKWARD},
     1},
    {{.dtype = ZERO_BF16,
      .out = ZERO_F32,
      .m = 70,
      .n = 80,
      .k = 16,
      .trans_a = true,
      .trans_b = true,
      .add = true},
     1},
    {{.dtype = ZERO_BF16,
      .out = ZERO_BF16,
      .m = 140,
      .n = 30,
      .k = 48,
      .trans_a = true,
      .trans_b = true},
     126},
    {{.dtype = ZERO_F32,
      .out = ZERO_F32,
      .m = 70,
      .n = 66,
      .k = 49,
      .trans_a = true,
      .gelu_a = true,
      .epilogue = ZR_EPILOGUE_BIAS},
     1},
    {{.dtype = ZERO_F32,
      .out = ZERO_F32,
      .m = 70,
      .n = 30,
      .k = 49,
      .trans_a = true,
      .epilogue = ZR_EPILOGUE_GELU_BACKWARD},
     60},
    {{.dtype = ZERO_F32, .out = ZERO_F32, .m = 260, .n = 100, .k = 600, .add = true}, 255},
    {{.dtype = ZERO_BF16,
      .out = ZERO_BF16,
      .m = 79,
      .n = 16,
      .k = 600,
      .trans_b = true,
      .epilogue = ZR_EPILOGUE_BIAS},
     78},
    {{.dtype = ZERO_BF16,
      .out = ZERO_BF16,
      .m = 79,
      .n = 16,
      .k = 600,
      .epilogue = ZR_EPILOGUE_GELU_BACKWARD},
     78},
};

// Tries of_fewer_rows[s]: what is reserved for all rows, and what each number of rows needs.
static void try_fewer_rows(zr_queue *queue, zr_queue *ref, int s)
{
    const zr_product *all = &of_fewer_rows[s].all;
    float *a = floats_random(all->m * all->k, 1, 1);
    void *b = array_random(all->dtype, all->k * all->n, 2, 1),
         *operand = array_random(all->dtype, all->m * all->n, 3, 1);
    void *stored = first_rows(all, a, all->m), *want = array_new(all->out, all->m * all->n);
    if (all->add)
        memset(want, 0, sizeof(float) * (size_t)(all->m * all->n));
    assert_int_equal(check_run(ref, zr_op_product(all, stored, b, operand, want), NULL), ZERO_OK);
    size_t enough = reserved(queue, all);
    for (int64_t rows = all->m; rows >= of_fewer_rows[s].least; rows--) {
        fewer_rows(queue, enough, all, rows, a, b, operand, want);
        size_t needed = fewer_rows(queue, 0, all, rows, a, b, operand, want);
        assert_true(needed <= enough);
        fewer_rows(queue, needed, all, rows, a, b, operand, want);
    }
    array_free(stored);
    array_free(want);
    array_free(b);
    array_free(operand);
    floats_free(a);
}

static void scratch_is_enough_for_fewer_rows(zr_queue *queue, zr_queue *ref)
{
    for (int s = 0; s < ZR_COUNT(of_fewer_rows); s++)
        try_fewer_rows(queue, ref, s);
}

static void limits(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    refusals(queue);
    scratch_too_small(queue, 1);
    scratch_too_small(queue, 300);
    if (queue->threads == 2)
        scratch_is_enough_for_fewer_rows(queue, ref);
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
