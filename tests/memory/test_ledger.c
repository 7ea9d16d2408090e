// The ledger: bytes held and peak by category, and the check against the plan.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "memory/arena.h"
#include <string.h>

static void names_are_those_of_the_list(void **state)
{
    assert_string_equal(zr_memory_category_name(ZERO_MEM_parameters), "parameters");
    assert_string_equal(zr_memory_category_name(ZERO_MEM_workspace), "workspace");
    assert_string_equal(zr_memory_category_name(ZERO_MEM_COUNT), "unknown");
    assert_string_equal(zr_tier_name(ZERO_TIER_device), "device");
    assert_string_equal(zr_tier_name(ZERO_TIER_host), "host");
    assert_string_equal(zr_tier_name(ZERO_TIER_nvme), "nvme");
    assert_string_equal(zr_tier_name((zero_tier)9), "unknown");
    for (int i = 0; i < ZERO_MEM_COUNT; i++)
        assert_string_not_equal(zr_memory_category_name((zero_memory_category)i), "unknown");
}

static void held_and_peak_are_counted(void **state)
{
    zr_ledger ledger = {0};
    zr_ledger_hold(&ledger, ZERO_TIER_host, ZERO_MEM_gradients, 100);
    zr_ledger_hold(&ledger, ZERO_TIER_host, ZERO_MEM_gradients, 50);
    zr_ledger_hold(&ledger, ZERO_TIER_host, ZERO_MEM_gradients, -120);
    zr_ledger_hold(&ledger, ZERO_TIER_host, ZERO_MEM_optimizer, 7);
    assert_int_equal(ledger.held[ZERO_TIER_host][ZERO_MEM_gradients], 30);
    assert_int_equal(ledger.peak[ZERO_TIER_host][ZERO_MEM_gradients], 150);
    assert_int_equal(ledger.held[ZERO_TIER_host][ZERO_MEM_optimizer], 7);
    assert_int_equal(ledger.held[ZERO_TIER_host][ZERO_MEM_parameters], 0);
}

static void one_byte_off_the_plan_is_seen_in_each_tier_and_category(void **state)
{
    for (int i = 0; i < ZERO_MEM_COUNT * ZERO_TIER_COUNT; i++) {
        zero_tier tier = (zero_tier)(i % ZERO_TIER_COUNT);
        zero_memory_category category = (zero_memory_category)(i / ZERO_TIER_COUNT);
        zr_ledger ledger = {0};
        zero_error error = {0};
        for (int t = 0; t < ZERO_TIER_COUNT; t++)
            for (int k = 0; k < ZERO_MEM_COUNT; k++) {
                ledger.planned[t][k] = 1000 + k;
                zr_ledger_hold(&ledger, (zero_tier)t, (zero_memory_category)k, 1000 + k);
            }
        assert_int_equal(zr_ledger_check(&ledger, &error), ZERO_OK);
        zr_ledger_hold(&ledger, tier, category, i % 2 ? 1 : -1);
        assert_int_equal(zr_ledger_check(&ledger, &error), ZERO_ERR_INTERNAL);
        assert_non_null(strstr(error.message, zr_memory_category_name(category)));
        assert_non_null(strstr(error.message, zr_tier_name(tier)));
        assert_non_null(strstr(error.message, "bytes held, where the plan says 100"));
        assert_int_equal(zr_ledger_check(&ledger, NULL), ZERO_ERR_INTERNAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_the_list),
        cmocka_unit_test(held_and_peak_are_counted),
        cmocka_unit_test(one_byte_off_the_plan_is_seen_in_each_tier_and_category),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
