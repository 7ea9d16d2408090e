// Planning as a whole: the same for the same, and refused where it cannot be.
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void test_pure(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    zr_plan *a = fixture_plan(&f, 2, 4, 1, true), *b = fixture_plan(&f, 2, 4, 1, true), *c = fixture_plan(&f, 3, 4, 1, true);
    assert_true(a->hash == b->hash && a->hash != c->hash);
    zr_plan_destroy(a);
    zr_plan_destroy(b);
    zr_plan_destroy(c);
}

static void what_is_not_partitioned_is_not_offloaded(void **state)
{
    fixture f;
    fixture_build(&f, 2, 100, 64);
    const struct { int stage; zr_tiering tiering; } wrong[] = {{0, {.optimizer = ZERO_TIER_host}}, {2, {.parameters = ZERO_TIER_nvme}}};
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zr_settings settings = {.stage = wrong[i].stage, .precision = zr_precision_of(ZERO_F32, 1), .accumulation = 1, .tiering = wrong[i].tiering};
        zr_plan *plan = NULL;
        zero_error error;
        assert_int_equal(zr_plan_create(&f.model, &(zero_shape){.batch = 1, .seq = 1}, &settings, &(zr_machine){.ranks = 2, .mapped = true}, &plan, &error), ZERO_ERR_CONFIG);
        assert_non_null(strstr(error.message, "they are partitioned at stage"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pure),
        cmocka_unit_test(what_is_not_partitioned_is_not_offloaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
