// How much there is to do in the tasks of a run follows from its plan: its bytes are counted once,
// ranks share the weights that they draw, and types are told apart where they matter.
#include "lm_plan.h"
#include "predict/run_tasks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { RANKS = 2, TEXT = 12345 };

static zr_task_sample of(const lm_plan *p, zr_task task)
{
    return zr_task_sample_of(task,
                             &(zr_task_subject){.plan = p->plan, .together = RANKS, .text = TEXT});
}

static lm_plan plan_at(int stage, zero_dtype dtype)
{
    return lm_plan_create(
        &(lm_plan_case){.spec = "gpt2:layers=2,heads=2,width=32,context=16,vocab=64",
                        .batch = 1,
                        .seq = 16,
                        .dtype = dtype,
                        .stage = stage,
                        .ranks = RANKS});
}

static void test_bytes(void **state)
{
    for (int stage = 0; stage <= 3; stage++) {
        lm_plan p = plan_at(stage, ZERO_F32);
        int64_t alone = of(&p, ZR_TASK_RESERVE).amount, shared = of(&p, ZR_TASK_SHARE).amount;
        assert_int_equal(alone + shared, zr_plan_total_bytes(p.plan));
        assert_true(alone > 0 && shared >= p.plan->grad_bytes);
        if (p.plan->holding == ZR_HOLDS_TIED_COPIES)
            assert_true(shared >= p.plan->grad_bytes + p.plan->full_bytes);
        assert_int_equal(RANKS * of(&p, ZR_TASK_DRAW).amount, p.plan->elems);
        lm_plan_destroy(&p);
    }
}

static void test_others(void **state)
{
    lm_plan p = plan_at(0, ZERO_F32);
    assert_int_equal(of(&p, ZR_TASK_READ).amount, TEXT);
    assert_int_equal(of(&p, ZR_TASK_READ).together, RANKS);
    assert_int_equal(of(&p, ZR_TASK_FORECAST).amount, p.plan->unit_count);
    assert_int_equal(of(&p, ZR_TASK_ARRANGE).amount, 16);
    assert_int_equal(of(&p, ZR_TASK_MODEL).amount, p.plan->parameters);
    assert_int_equal(of(&p, ZR_TASK_CHECKPOINT).amount, 12 * p.plan->parameters);
    lm_plan_destroy(&p);
}

static void test_types(void **state)
{
    lm_plan wide = plan_at(0, ZERO_F32), narrow = plan_at(0, ZERO_BF16);
    assert_int_equal(of(&wide, ZR_TASK_BEGIN).element, 4);
    assert_int_equal(of(&narrow, ZR_TASK_BEGIN).element, 2);
    assert_int_equal(of(&narrow, ZR_TASK_READ).element, 0);
    zr_task_rates rates = {0};
    const zr_task_subject subject = {.plan = narrow.plan, .together = RANKS};
    zr_task_sample taught = of(&narrow, ZR_TASK_RESERVE);
    taught.seconds = 0.25;
    assert_true(zr_task_expected(&rates, ZR_TASK_RESERVE, &subject, NULL) == 0);
    zr_task_rates_add(&rates, ZR_TASK_RESERVE, &taught);
    assert_float_equal(zr_task_expected(&rates, ZR_TASK_RESERVE, &subject, NULL), 0.25, 1e-9);
    lm_plan_destroy(&wide);
    lm_plan_destroy(&narrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
