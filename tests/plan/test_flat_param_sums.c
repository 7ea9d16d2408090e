// What is known of the sums of a flat parameter, over types, kinds and tiers.
#include "plan/flat_param_sums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void bytes_are_of_the_sums_own_type(void **state)
{
    zr_flat_param flat_param = {.shard = 2048, .padded = 3 * 2048, .gradient_dtype = ZERO_BF16};
    flat_param.accumulator_dtype = ZERO_F32;
    assert_int_equal(zr_flat_param_sum_bytes(&flat_param), 2048 * 4);
    flat_param.accumulator_dtype = ZERO_BF16;
    assert_int_equal(zr_flat_param_sum_bytes(&flat_param), 2048 * 2);
    assert_int_equal(zr_flat_param_open_bytes(&flat_param), 3 * 2048 * 4);
}

static void only_what_is_trained_goes_on_to_nvme(void **state)
{
    for (int kind = ZERO_TRAINABLE; kind <= ZERO_BUFFER; kind++)
        for (int tier = 0; tier < ZERO_TIER_COUNT; tier++) {
            const zr_flat_param flat_param = {.kind = (zero_class)kind,
                                              .state_tier = (zero_tier)tier};
            bool goes = kind == ZERO_TRAINABLE && tier == ZERO_TIER_nvme;
            assert_int_equal(zr_flat_param_sums_on_nvme(&flat_param), goes);
        }
}

static void what_has_no_place_for_a_gradient_collects_none(void **state)
{
    assert_true(zr_flat_param_collects(&(zr_flat_param){.grad_first = 0}));
    assert_false(zr_flat_param_collects(&(zr_flat_param){.grad_first = -1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_of_the_sums_own_type),
        cmocka_unit_test(only_what_is_trained_goes_on_to_nvme),
        cmocka_unit_test(what_has_no_place_for_a_gradient_collects_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
