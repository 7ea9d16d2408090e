// Sums of columns on a card, and what adapters with magnitudes need, compared with ref.
#include "cuda_check.h"

#include <string.h>

static void column_sums_agree(void **state)
{
    // The last two have as many parts as there can be, and a last part that is shorter.
    static const struct {
        int64_t rows, width;
    } sizes[] = {{0, 72}, {1, 72}, {33, 1}, {33, 168}, {40, 800}, {97, 77}, {8192, 5}, {9001, 33}};
    for (int s = 0; s < ZR_COUNT(sizes); s++)
        for (int t = 0; t < STORAGE_TYPES; t++)
            for (int add = 0; add < 2; add++) {
                const zr_matrix of = {storage_types[t], sizes[s].rows, sizes[s].width, add};
                void *x = array_random(of.dtype, of.rows * of.width, 1, 1);
                float *out = floats_random(of.width, 2, 1);
                cuda_check("column sum", zr_op_column_sum(&of, x, out, NULL),
                           (cuda_tolerance){1e-6, 3e-8 * (double)of.rows + 1e-6});
                array_free(x), floats_free(out);
            }
}

static const struct {
    int64_t rows, width, rank;
} sizes[] = {{1, 8, 1}, {33, 72, 8}, {50, 77, 5}, {5, 328, 16}, {150, 40, 3}};

static const cuda_tolerance near = {1e-5, 1e-6};

static void squares_agree(void **state)
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
                cuda_check("squares", zr_op_weight_squares(&of, weight, NULL, squares), near);
                floats_free(squares), array_free(weight);
            }
}

static void factors_agree(void **state)
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
                sums[o] += o % 5 == 3 ? -sums[o] : 3; // some are 0
            cuda_check("adapted", zr_op_adapted_squares(&of, across, gram, b, sums), near);
            cuda_check("factors", zr_op_magnitude_factors(&of, sums, m, factors, inverse), near);
            float *const all[] = {gram, factors, across, inverse, sums};
            for (int k = 0; k < ZR_COUNT(all); k++)
                floats_free(all[k]);
            array_free(m), array_free(b);
        }
}

static void check_columns_of(int i, zero_dtype from, zero_dtype to, bool full)
{
    const int64_t n = sizes[i].rows * sizes[i].width, width = sizes[i].width;
    const zr_column_scaling of = {from, to, sizes[i].rows, width, full ? 1 : 0};
    const zr_matrix matrix = {from, of.rows, width, full};
    float *by = floats_random(width, 1, 2), *past = floats_random(n, 2, 3),
          *d = floats_random(width, 5, 1);
    void *x = array_random(from, n, 3, 2), *bias = array_random(to, width, 4, 1),
         *out = array_new(to, n);
    cuda_check("scaled",
               zr_op_scale_columns(&of, by, x, full ? past : NULL, full ? bias : NULL, out), near);
    if (from == to)
        cuda_check("scaled in place", zr_op_scale_columns(&of, by, x, NULL, bias, x), near);
    if (to == ZERO_F32)
        cuda_check("scaled over the past", zr_op_scale_columns(&of, by, x, past, NULL, past), near);
    cuda_check("products", zr_op_column_products(&matrix, by, x, past, d),
               (cuda_tolerance){1e-5, 2e-6 * (double)(4 + of.rows)});
    array_free(out), array_free(bias), array_free(x);
    floats_free(d), floats_free(past), floats_free(by);
}

static void columns_are_scaled(void **state)
{
    for (int i = 0; i < ZR_COUNT(sizes); i++)
        for (int f = 0; f < STORAGE_TYPES; f++)
            for (int t = 0; t < STORAGE_TYPES; t++)
                for (int full = 0; full < 2; full++)
                    check_columns_of(i, storage_types[f], storage_types[t], full);
}

static void codes_are_refused(void **state)
{
    const zr_weight_rows of = {.out = 2, .in = 64, .outputs_first = true, .format = ZR_WEIGHT_INT8};
    zero_error error = {0};
    zero_status status =
        check_run(cuda_check_queue(), zr_op_weight_squares(&of, NULL, NULL, NULL), &error);
    assert_int_equal(status, ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "weight_squares of a weight in codes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(column_sums_agree), cmocka_unit_test(squares_agree),
        cmocka_unit_test(factors_agree),     cmocka_unit_test(columns_are_scaled),
        cmocka_unit_test(codes_are_refused),
    };
    return cmocka_run_group_tests(tests, cuda_check_setup, cuda_check_teardown);
}
