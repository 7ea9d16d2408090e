// Messages and bytes of a program.
#include "fixture.h"
#include "plan/state_formulas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

// Elements exchanged a step against contract 4, the pieces that are needed once (the head's own) aside.
static void test_volume(void **state)
{
    fixture f;
    fixture_build(&f, 5, 4096, 1024);
    for (int stage = 0; stage < 4; stage++)
        for (int run = 0; run < 5; run++) {
            zero_dtype dtype = run < 3 ? ZERO_F32 : ZERO_BF16;
            int k = run < 3 ? run + 1 : run == 3 ? 1 : stage == 0 ? 1 : 4;
            zr_plan *plan = fixture_plan_in(&f, dtype, stage, 4, k, false);
            zr_volume volume = zr_volume_of_step(stage, k);
            const zr_traffic_plan *s = plan->segments;
            double gathered = 0, reduced = (double)k * (double)s[ZR_SEGMENT_MICRO_BATCH].bytes[ZERO_COMM_reduce_scatter];
            gathered += (double)k * (double)s[ZR_SEGMENT_MICRO_BATCH].bytes[ZERO_COMM_all_gather];
            gathered += (double)s[ZR_SEGMENT_BOUNDARY].bytes[ZERO_COMM_all_gather] + (double)s[ZR_SEGMENT_UPDATE].bytes[ZERO_COMM_all_gather];
            double size = dtype == ZERO_F32 ? 4 : 2, unit = size * (double)plan->elems * 3 / 4;
            assert_true(reduced == volume.reduce_scatter * unit);
            double head = size * 3 / 4 * (double)plan->pieces[plan->piece_count - 1].padded;
            assert_true(gathered == volume.all_gather * unit - (stage == 3 ? k * head : 0));
            zr_plan_destroy(plan);
        }
}

static void test_mapped_moves_nothing(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    zr_plan *plan = fixture_plan(&f, 3, 4, 1, true);
    const zr_traffic_plan *micro = &plan->segments[ZR_SEGMENT_MICRO_BATCH];
    assert_true(micro->calls[ZERO_COMM_all_gather] > 0);
    assert_int_equal(micro->bytes[ZERO_COMM_all_gather], 0);
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_volume),
        cmocka_unit_test(test_mapped_moves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
