// Sums of squares of the rows of weights, factors of magnitudes, and what scales and sums columns:
// cpu compared with ref, on any number of threads with the same bits.
#include "compute/compute.h"
#include "compute_check.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    int64_t rows, width, rank;
} sizes[] = {{1, 64, 1}, {3, 192, 2}, {67, 128, 5}, {130, 320, 17}, {700, 64, 33}};

static void compare(zr_queue *queue, zr_queue *single, zr_queue *ref, const char *what, zr_op op,
                    zero_dtype dtype, void *out, int64_t count, double absolute)
{
    int64_t bytes = count * (int64_t)zero_dtype_bytes(dtype);
    void *one = array_new(dtype, count), *want = array_new(dtype, count),
         *before = malloc((size_t)bytes);
    memcpy(before, out, (size_t)bytes);
    zr_run(ref, op);
    memcpy(want, out, (size_t)bytes);
    memcpy(out, before, (size_t)bytes);
    zr_run(single, op);
    memcpy(one, out, (size_t)bytes);
    memcpy(out, before, (size_t)bytes);
    zr_run(queue, op);
    check_same_bits(what, out, one, bytes);
    check_close_as(what, dtype, out, want, count, 1e-5, absolute);
    free(before);
    array_free(one);
    array_free(want);
}

static void check_squares(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int i = 0; i < ZR_COUNT(sizes); i++)
        for (int t = 0; t < STORAGE_TYPES; t++)
            for (int first = 0; first < 2; first++) {
                const zr_weight_rows of = {.dtype = storage_types[t],
                                           .out = sizes[i].rows,
                                           .in = sizes[i].width,
                                           .outputs_first = first};
                void *weight = array_random(of.dtype, of.out * of.in, (uint64_t)i, 2);
                float *squares = floats_new(of.out);
                compare(queue, single, ref, "squares",
                        zr_op_weight_squares(&of, weight, NULL, squares), ZERO_F32, squares, of.out,
                        1e-6);
                floats_free(squares);
                array_free(weight);
            }
}

static void check_squares_of_codes(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int i = 0; i < ZR_COUNT(sizes); i++)
        for (zr_weight_format format = ZR_WEIGHT_NF4; format <= ZR_WEIGHT_INT8; format++) {
            const zr_weight_rows of = {.out = sizes[i].rows,
                                       .in = sizes[i].width,
                                       .outputs_first = true,
                                       .format = format};
            float *codes = floats_random(of.out * of.in / 4, 1, 100), // any bytes are codes
                *scales = floats_random(of.out * zr_weight_row_scales(format, of.in), 2, 1),
                  *squares = floats_new(of.out);
            compare(queue, single, ref, "squares of codes",
                    zr_op_weight_squares(&of, codes, scales, squares), ZERO_F32, squares, of.out,
                    1e-6);
            floats_free(squares);
            floats_free(scales);
            floats_free(codes);
        }
}

static void squares(void **state)
{
    check_each_kernels(check_squares);
    check_each_kernels(check_squares_of_codes);
}

static void check_factors(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int i = 0; i < ZR_COUNT(sizes); i++)
        for (int t = 0; t < STORAGE_TYPES; t++) {
            const zr_magnitude of = {.dtype = storage_types[t],
                                     .out = sizes[i].rows,
                                     .rank = sizes[i].rank,
                                     .scale = 0.7f};
            float *sums = floats_random(of.out, 1, 0.5f), *inverse = floats_new(of.out),
                  *across = floats_random(of.rank * of.out, 2, 0.1f), *factors = floats_new(of.out),
                  *gram = floats_random(of.rank * of.rank, 3, 0.1f);
            void *b = array_random(of.dtype, of.out * of.rank, 4, 0.1f),
                 *m = array_random(of.dtype, of.out, 5, 2);
            for (int64_t o = 0; o < of.out; o++)
                sums[o] += 3;
            const zr_op op = zr_op_magnitude_factors(&of, sums, m, factors, inverse);
            compare(queue, single, ref, "adapted squares",
                    zr_op_adapted_squares(&of, across, gram, b, sums), ZERO_F32, sums, of.out,
                    1e-6);
            compare(queue, single, ref, "factors", op, ZERO_F32, factors, of.out, 1e-6);
            compare(queue, single, ref, "inverse", op, ZERO_F32, inverse, of.out, 1e-6);
            memset(sums, 0, (size_t)of.out * sizeof *sums); // rows of zeros
            zr_run(queue, op);
            for (int64_t o = 0; o < of.out; o++)
                assert_true(factors[o] == 0 && inverse[o] == 0);
            array_free(m);
            array_free(b);
            float *const all[] = {gram, factors, across, inverse, sums};
            for (int k = 0; k < ZR_COUNT(all); k++)
                floats_free(all[k]);
        }
}

static void factors(void **state) { check_each_kernels(check_factors); }

static void check_columns_of(zr_queue *queue, zr_queue *single, zr_queue *ref, int i, int types)
{
    int64_t n = sizes[i].rows * sizes[i].width, width = sizes[i].width;
    bool full = types % 2;
    zr_column_scaling of = {.from = storage_types[types / 2 % 3],
                            .to = storage_types[types / 6],
                            .rows = sizes[i].rows,
                            .width = width,
                            .less = full ? 1 : 0};
    float *by = floats_random(width, 1, 2), *past = floats_random(n, 2, 3), *d = floats_new(width);
    void *x = array_random(of.from, n, 3, 2), *bias = array_random(of.to, width, 4, 1),
         *out = array_new(of.to, n);
    compare(queue, single, ref, "scaled columns",
            zr_op_scale_columns(&of, by, x, full ? past : NULL, full ? bias : NULL, out), of.to,
            out, n, 1e-6);
    memset(d, 0, (size_t)width * sizeof *d);
    compare(queue, single, ref, "products of columns",
            zr_op_column_products(
                &(zr_matrix){.dtype = of.from, .rows = of.rows, .width = width, .add = full}, by, x,
                past, d),
            ZERO_F32, d, width, 1e-3);
    array_free(out);
    array_free(bias);
    array_free(x);
    floats_free(d);
    floats_free(past);
    floats_free(by);
}

static void check_columns(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int i = 0; i < ZR_COUNT(sizes); i++)
        for (int types = 0; types < 18; types++)
            check_columns_of(queue, single, ref, i, types);
}

static void columns(void **state) { check_each_kernels(check_columns); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(squares),
        cmocka_unit_test(factors),
        cmocka_unit_test(columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
