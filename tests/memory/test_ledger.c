// Bytes by category: held, peak, and the check against the plan.
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "memory/ledger.h"
#include <string.h>

static void names_are_those_of_the_list(void **state)
{
    assert_string_equal(zr_memory_category_name(ZERO_MEM_parameters), "parameters");
    assert_string_equal(zr_memory_category_name(ZERO_MEM_workspace), "workspace");
    assert_string_equal(zr_memory_category_name(ZERO_MEM_COUNT), "unknown");
    assert_string_equal(zr_memory_kind_name(ZR_DEVICE), "device");
    assert_string_equal(zr_memory_kind_name(ZR_HOST), "host");
    assert_string_equal(zr_memory_kind_name(ZR_NVME), "nvme");
    assert_string_equal(zr_memory_kind_name((zr_memory_kind)9), "unknown");
    for (int i = 0; i < ZERO_MEM_COUNT; i++)
        assert_string_not_equal(zr_memory_category_name((zero_memory_category)i), "unknown");
}

static void held_and_peak_are_counted(void **state)
{
    zr_ledger ledger = {0};
    zr_ledger_hold(&ledger, ZERO_MEM_gradients, 100);
    zr_ledger_hold(&ledger, ZERO_MEM_gradients, 50);
    zr_ledger_hold(&ledger, ZERO_MEM_gradients, -120);
    zr_ledger_hold(&ledger, ZERO_MEM_optimizer, 7);
    assert_int_equal(ledger.held[ZERO_MEM_gradients], 30);
    assert_int_equal(ledger.peak[ZERO_MEM_gradients], 150);
    assert_int_equal(ledger.held[ZERO_MEM_optimizer], 7);
    assert_int_equal(ledger.held[ZERO_MEM_parameters], 0);
}

static void one_byte_off_the_plan_is_seen_in_each_category(void **state)
{
    for (int i = 0; i < ZERO_MEM_COUNT; i++) {
        zr_ledger ledger = {0};
        zero_error error = {0};
        for (int k = 0; k < ZERO_MEM_COUNT; k++) {
            ledger.planned[k] = 1000 + k;
            zr_ledger_hold(&ledger, (zero_memory_category)k, 1000 + k);
        }
        assert_int_equal(zr_ledger_check(&ledger, &error), ZERO_OK);
        zr_ledger_hold(&ledger, (zero_memory_category)i, i % 2 ? 1 : -1);
        assert_int_equal(zr_ledger_check(&ledger, &error), ZERO_ERR_INTERNAL);
        assert_non_null(strstr(error.message, zr_memory_category_name((zero_memory_category)i)));
        assert_non_null(strstr(error.message, "bytes held, where the plan says 100"));
        assert_int_equal(zr_ledger_check(&ledger, NULL), ZERO_ERR_INTERNAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_the_list),
        cmocka_unit_test(held_and_peak_are_counted),
        cmocka_unit_test(one_byte_off_the_plan_is_seen_in_each_category),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
