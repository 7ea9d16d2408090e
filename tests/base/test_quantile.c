// Quantiles as NumPy has them; the usual time: near the mean, whatever interrupts some.
#include "base/numbers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void quantiles_lie_between_neighbors(void **state)
{
    double numbers[] = {40, 10, 30, 20};
    zr_sort_numbers(numbers, 4);
    assert_true(zr_quantile(numbers, 4, 0) == 10);
    assert_true(zr_quantile(numbers, 4, 0.25) == 17.5);
    assert_true(zr_quantile(numbers, 4, 0.75) == 32.5);
    assert_true(zr_quantile(numbers, 4, 1) == 40);
    assert_true(zr_quantile(numbers, 1, 0.9) == 10);
}

static void medians_are_of_any_count(void **state)
{
    assert_true(zr_median((double[]){3, 1, 2}, 3) == 2);
    assert_true(zr_median((double[]){4, 1, 2, 3}, 4) == 2.5);
}

static void what_is_interrupted_is_left_out(void **state)
{
    assert_true(zr_usual_mean((double[]){1, 90, 2, 3}, 4) == 2);
    assert_true(zr_usual_mean((double[]){2, 4, 2}, 3) == 8.0 / 3);
    assert_true(zr_usual_mean((double[]){7}, 1) == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_lie_between_neighbors),
        cmocka_unit_test(medians_are_of_any_count),
        cmocka_unit_test(what_is_interrupted_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
