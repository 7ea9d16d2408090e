// The usual time of an operation: near its mean, whatever interrupts some of them.
#include "measure/timing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

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
        cmocka_unit_test(medians_are_of_any_count),
        cmocka_unit_test(what_is_interrupted_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
