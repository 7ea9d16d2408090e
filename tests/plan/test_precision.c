// The precision policies of src/plan/precision.c.
#include "plan/plan_settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const struct {
    const char *name;
    zero_dtype dtype; // of parameters, activations and gradients
    bool has_master;
} policies[] = {
    {"fp32", ZERO_F32, false},
    {"bf16", ZERO_BF16, true},
    {"fp16", ZERO_F16, true},
};

static void each_type_has_its_policy(void **state)
{
    for (int i = 0; i < ZR_COUNT(policies); i++) {
        zr_precision found = zr_precision_of(policies[i].dtype, 1);
        assert_string_equal(found.name, policies[i].name);
        assert_int_equal(found.parameters, policies[i].dtype);
        assert_int_equal(found.activations, policies[i].dtype);
        assert_int_equal(found.gradients, policies[i].dtype);
        assert_int_equal(found.accumulator, policies[i].dtype);
    }
}

// 2 + 2 + 12 bytes: whatever the units read, the optimizer works in fp32.
static void the_optimizer_works_in_fp32(void **state)
{
    for (int i = 0; i < ZR_COUNT(policies); i++) {
        zr_precision found = zr_precision_of(policies[i].dtype, 1);
        assert_int_equal(found.master, ZERO_F32);
        assert_int_equal(found.moments, ZERO_F32);
        assert_int_equal(zr_precision_has_master(&found), policies[i].has_master);
    }
}

static void several_micro_batches_meet_in_fp32(void **state)
{
    for (int i = 0; i < ZR_COUNT(policies); i++) {
        zr_precision one = zr_precision_of(policies[i].dtype, 1);
        zr_precision two = zr_precision_of(policies[i].dtype, 2);
        assert_int_equal(two.accumulator, ZERO_F32);
        two.accumulator = one.accumulator;
        assert_memory_equal(&one, &two, sizeof one); // nothing else follows from their number
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_has_its_policy),
        cmocka_unit_test(the_optimizer_works_in_fp32),
        cmocka_unit_test(several_micro_batches_meet_in_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
