// Pipelines: a step takes what the lists of its stages take against each other.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/numbers.h"
#include "forecast_desk.h"

#include <math.h>

static int64_t message_bytes(const pipeline_plans *plans)
{
    return plans->plans[0]->links[plans->plans[0]->chunks[0].output].message;
}

// Of the sums that end a step.
static double scalar_bytes(const pipeline_plans *plans)
{
    return (plans->plans[0]->world - 1) * 3 * ZR_EXACT_WORDS * (double)sizeof(int64_t);
}

// All stages cost the same if the units do: 1f1b takes (m + p - 1) (F + B).
static void pipelines_take_what_their_lists_do(void **state)
{
    desk d;
    static pipeline_model model;
    pipeline_plans plans;
    open_desk(&d);
    pipeline_build(&model, 8, (pipeline_style){.apart = true}); // 10 units, 5 a stage
    for (int m = 1; m <= 5; m += 2) {
        zr_pipeline pipeline = pipeline_of(ZR_PIPELINE_1F1B, 2, 1, m);
        zr_settings settings = fixture_settings(ZERO_F32, 2, m);
        pipeline_plans_make(&model.f.model, &pipeline, &settings,
                            &(zr_machine){.ranks = 1, .threads = 1, .mapped = true}, &plans);
        forget_plans(&d);
        for (int s = 0; s < plans.count; s++)
            describe(&d, plans.plans[s]);
        zr_forecast f = ask(&d);
        double both = unit_seconds(plans.plans[0]);
        near(f.parts[ZR_TIME_COMPUTE], m * both);
        // What one rank adds to its sums is part of backward, too, and the same in no two stages.
        assert_true(f.seconds - f.parts[ZR_TIME_UPDATE] > (m + 1) * both);
        assert_true(f.bubble > 0.98 * both && f.bubble < 1.1 * both);
        double tokens = (double)(plans.plans[0]->shape.batch * plans.plans[0]->shape.seq * m);
        near(f.tokens * f.seconds, tokens);
        // The first forward and the last backward wait for what comes from another machine.
        // So does the sum of scalars.
        double bytes = 2 * (double)message_bytes(&plans) + scalar_bytes(&plans);
        d.question.pipeline = link_of(&d, 1e9, 0.125 * both);
        if (m == 1)
            near(ask(&d).seconds - f.seconds,
                 0.375 * both + 1e-9 * bytes - scalar_bytes(&plans) * SCALARS);
        static const int apart[] = {0, 1}, on_one[] = {0, 0};
        double across = ask(&d).seconds;
        d.question.machines = apart;
        near(ask(&d).seconds, across);
        d.question.machines = on_one;
        assert_true(ask(&d).seconds < across - 0.2 * both || m > 1);
        d.question.machines = NULL;
        d.question.pipeline = (zr_link_speed){0};
        pipeline_plans_free(&plans);
    }
    close_desk(&d);
}

// A window drains once, so its steps share (p - 1) (F + B).
static void windows_share_what_a_drain_takes(void **state)
{
    static pipeline_model model;
    desk d;
    pipeline_plans plans;
    enum { MICRO_BATCHES = 2 };
    open_desk(&d);
    pipeline_build(&model, 8, (pipeline_style){.apart = true});
    double bubbles[2], both = 0;
    static const int steps[] = {2, 8};
    for (int i = 0; i < 2; i++) {
        zr_pipeline pipeline = pipeline_of(ZR_PIPELINE_PIPEDREAM, 2, 1, MICRO_BATCHES);
        pipeline.steps = steps[i];
        zr_settings settings = fixture_settings(ZERO_F32, 2, MICRO_BATCHES);
        pipeline_plans_make(&model.f.model, &pipeline, &settings,
                            &(zr_machine){.ranks = 1, .threads = 1, .mapped = true}, &plans);
        forget_plans(&d);
        for (int s = 0; s < plans.count; s++)
            describe(&d, plans.plans[s]);
        zr_forecast f = ask(&d);
        both = unit_seconds(plans.plans[0]);
        near(f.parts[ZR_TIME_COMPUTE], MICRO_BATCHES * both);
        bubbles[i] = f.bubble;
        pipeline_plans_free(&plans);
    }
    assert_true(bubbles[0] > 0.9 * both / steps[0] && bubbles[0] < 1.3 * both / steps[0]);
    assert_true(bubbles[1] > 0.9 * both / steps[1] && bubbles[1] < 1.3 * both / steps[1]);
    close_desk(&d);
}

static void check_any(const pipeline_plans *stages)
{
    static desk d;
    if (!d.question.book)
        open_desk(&d);
    forget_plans(&d);
    for (int s = 0; s < stages->count; s++)
        describe(&d, stages->plans[s]);
    zr_forecast f = ask(&d);
    const zr_pipeline *pipeline = &stages->parts[0].pipeline;
    assert_true(isfinite(f.seconds) && f.seconds > 0);
    assert_true(f.parts[ZR_TIME_COMPUTE] >
                0.9 * pipeline->micro_batches * (FORWARD + BACKWARD) * NORM);
    assert_true(f.bubble >= 0 && f.bubble <= f.parts[ZR_TIME_EXCHANGE] * (1 + 1e-9));
    forget_plans(&d);
}

static void every_schedule_is_forecast(void **state) { pipeline_for_all(check_any); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipelines_take_what_their_lists_do),
        cmocka_unit_test(windows_share_what_a_drain_takes),
        cmocka_unit_test(every_schedule_is_forecast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
