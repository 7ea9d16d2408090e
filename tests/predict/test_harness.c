// Units are called in memory that is exactly as large as the harness says, in each of their calls,
// with the plan's micro-batch or a smaller one; and refusals have their reasons.
#include "predict/harness.h"

#include "fixture.h"
#include "lm_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { GUARD = 64, ALIGN = 64 };
static const char guard_byte = 0x5a;

// Calls a unit twice in each way that it has, and looks behind its memory.
static void call_all(zr_harness *harness, const zero_unit_ops *ops)
{
    zero_error error = {0};
    for (int again = 0; again < 2; again++) {
        assert_int_equal(zr_harness_call(harness, ZR_CALL_FORWARD, true, &error), ZERO_OK);
        zr_harness_refill(harness);
        assert_int_equal(zr_harness_call(harness, ZR_CALL_BACKWARD, true, &error), ZERO_OK);
        if (ops->forward_backward)
            assert_int_equal(zr_harness_call(harness, ZR_CALL_BOTH, true, &error), ZERO_OK);
        if (!ops->backward_input)
            continue;
        zr_harness_refill(harness);
        assert_int_equal(zr_harness_call(harness, ZR_CALL_INPUT, true, &error), ZERO_OK);
        assert_int_equal(zr_harness_call(harness, ZR_CALL_WEIGHT, true, &error), ZERO_OK);
    }
    assert_int_equal(zr_harness_call(harness, ZR_CALL_FORWARD, false, &error), ZERO_OK);
}

static void check_unit(const zr_plan *plan, int unit, const zero_shape *shape, zr_queue *queue)
{
    size_t bytes = (size_t)zr_harness_bytes(plan, unit, shape);
    size_t room = ZR_ROUND_UP(bytes + GUARD, (size_t)ALIGN);
    char *memory = aligned_alloc(ALIGN, room);
    zr_harness *harness = NULL;
    zero_error error = {0};
    assert_true(bytes > 0);
    assert_non_null(memory);
    memset(memory, guard_byte, room);
    const zr_harness_question question = {.plan = plan,
                                          .unit = unit,
                                          .shape = *shape,
                                          .memory = ZR_HARNESS_FILLED,
                                          .base = memory,
                                          .queue = queue};
    assert_int_equal(zr_harness_open(&question, &harness, &error), ZERO_OK);
    call_all(harness, plan->model->units[unit].ops);
    zr_harness_close(harness);
    assert_null(queue->scratch);
    for (size_t i = bytes; i < room; i++)
        assert_int_equal(memory[i], guard_byte);
    free(memory);
}

static void check_plan(const lm_plan_case *c, const char *backend)
{
    lm_plan p = lm_plan_create(c);
    zr_queue *queue = NULL;
    zero_error error = {0};
    zero_shape smaller = p.plan->shape;
    smaller.batch = 1;
    smaller.seq /= 2;
    assert_int_equal(zr_queue_open(backend, NULL, 1, &queue, &error), ZERO_OK);
    for (int u = 0; u < p.plan->unit_count; u++) {
        assert_true(zr_harness_bytes(p.plan, u, &smaller) <
                    zr_harness_bytes(p.plan, u, &p.plan->shape));
        check_unit(p.plan, u, &p.plan->shape, queue);
        check_unit(p.plan, u, &smaller, queue);
    }
    zr_queue_close(queue);
    lm_plan_destroy(&p);
}

#define GPT2 "gpt2:layers=2,heads=2,width=32,context=16,vocab=61,dropout=0.1"
#define LLAMA "llama:layers=2,heads=4,kv_heads=2,width=32,inner=48,context=16,vocab=61"

static void every_call_stays_in_its_memory(void **state)
{
    static const char *const specs[] = {GPT2, LLAMA}, *const backends[] = {"ref", "cpu"};
    for (int b = 0; b < ZR_COUNT(backends); b++)
        for (int s = 0; s < ZR_COUNT(specs); s++)
            for (zero_dtype dtype = ZERO_F32; dtype <= ZERO_F16; dtype++)
                for (int tensor = 0; tensor <= 2; tensor += 2)
                    check_plan(&(lm_plan_case){.spec = specs[s],
                                               .batch = 2,
                                               .seq = 16,
                                               .dtype = dtype,
                                               .tensor = tensor},
                               backends[b]);
}

static void documents_have_positions(void **state)
{
    for (int tensor = 0; tensor <= 2; tensor += 2)
        check_plan(&(lm_plan_case){.spec = LLAMA,
                                   .batch = 2,
                                   .seq = 16,
                                   .tensor = tensor,
                                   .lora = "r=2",
                                   .documents = true},
                   "cpu");
}

static void open_refused(const zr_plan *plan, int64_t seq, zero_status status, const char *words)
{
    zr_queue *queue = NULL;
    zr_harness *harness = NULL;
    zero_error error = {0};
    zr_harness_question question = {.plan = plan, .shape = plan->shape};
    assert_int_equal(zr_queue_open("ref", NULL, 1, &queue, &error), ZERO_OK);
    question.queue = queue;
    question.shape.seq = seq;
    assert_int_equal(zr_harness_open(&question, &harness, &error), status);
    assert_null(harness);
    if (!strstr(error.message, words))
        fail_msg("%s", error.message);
    assert_int_equal(zr_harness_bytes(plan, 0, &question.shape), 0);
    zr_harness_close(harness);
    zr_queue_close(queue);
}

static void refusals_have_reasons(void **state)
{
    static fixture f;
    lm_plan p = lm_plan_create(&(lm_plan_case){.spec = GPT2, .batch = 1, .seq = 16});
    open_refused(p.plan, 17, ZERO_ERR_USAGE, "micro-batch 1 x 17");
    lm_plan_destroy(&p);
    fixture_build(&f, 2, 61, 32);
    zr_plan *plan = fixture_plan(&f, 1, 1, 1, true);
    assert_false(zr_harness_can_call(plan));
    open_refused(plan, plan->shape.seq, ZERO_ERR_UNSUPPORTED, "\"fixture\" is a program's own");
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_stays_in_its_memory),
        cmocka_unit_test(documents_have_positions),
        cmocka_unit_test(refusals_have_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
