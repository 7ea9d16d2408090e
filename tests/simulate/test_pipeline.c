// Pipelines of a step: closed forms of the schedules, and that what is not simulated goes on at the
// pace of the slowest stage.
#include "simulate/costs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static double seconds_of(zr_sim_pipeline pipeline)
{
    double seconds;
    zero_error error;
    if (zr_sim_pipeline_find(&pipeline, &seconds, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return seconds;
}

static zr_sim_pipeline of(zr_pipeline_kind kind, int stages, int chunks, int64_t micro_batches)
{
    return (zr_sim_pipeline){.kind = kind,
                             .stages = stages,
                             .chunks = chunks,
                             .micro_batches = micro_batches,
                             .forward = 1,
                             .backward = 2};
}

static void bubbles_are_those_of_the_books(void **state)
{
    for (int p = 2; p <= 8; p *= 2)
        for (int m = p; m <= 16 * p; m *= 2) {
            double flush = 3.0 * (m + p - 1);
            assert_float_equal(seconds_of(of(ZR_PIPELINE_1F1B, p, 1, m)), flush, 1e-9);
            assert_float_equal(seconds_of(of(ZR_PIPELINE_GPIPE, p, 1, m)), flush, 1e-9);
            double chunked = 3.0 * m + 3.0 * (p - 1) / 2;
            assert_float_equal(seconds_of(of(ZR_PIPELINE_INTERLEAVED, p, 2, m)), chunked, 1e-9);
            // Weights' gradients fill a third: forward + backward of inputs - weights a stage.
            double filled = 3.0 * m + (p - 1) * 1.0;
            assert_float_equal(seconds_of(of(ZR_PIPELINE_ZB_H1, p, 1, m)), filled, 1e-9);
        }
}

static void closed_forms_continue_the_lists(void **state)
{
    static const zr_pipeline_kind kinds[] = {ZR_PIPELINE_1F1B, ZR_PIPELINE_GPIPE, ZR_PIPELINE_ZB_H1,
                                             ZR_PIPELINE_PIPEDREAM};
    for (int i = 0; i < ZR_COUNT(kinds); i++) { // a stage more is as much from 127 as from 128 on
        double few = seconds_of(of(kinds[i], 127, 1, 512)),
               most = seconds_of(of(kinds[i], 128, 1, 512)),
               more = seconds_of(of(kinds[i], 129, 1, 512));
        assert_float_equal(more - most, most - few, 1e-6);
    }
}

static void asynchronous_ones_drain_once_in_eight_steps(void **state)
{
    double step = 3.0 * 16, two = seconds_of(of(ZR_PIPELINE_2BW, 4, 1, 16)),
           dream = seconds_of(of(ZR_PIPELINE_PIPEDREAM, 4, 1, 16));
    assert_true(two >= step && two < step + 3.0 * 3);
    assert_float_equal(dream, step + 3.0 * 3 / 8, 1e-9);
}

// A drain is shared by the steps of its window, simulated, continued or by the closed form.
static void windows_say_how_often_they_drain(void **state)
{
    static const int windows[] = {1, 2, 8, 9, 64, 1000};
    static const int stages[] = {4, 129};
    for (int i = 0; i < ZR_COUNT(windows) * ZR_COUNT(stages); i++) {
        int p = stages[i % 2], window = windows[i / 2], m = 4 * p;
        zr_sim_pipeline pipeline = of(ZR_PIPELINE_PIPEDREAM, p, 1, m);
        pipeline.flush_every = window;
        assert_float_equal(seconds_of(pipeline), 3.0 * m + 3.0 * (p - 1) / window, 1e-9);
        pipeline.kind = ZR_PIPELINE_1F1B;
        assert_float_equal(seconds_of(pipeline), 3.0 * (m + p - 1), 1e-9);
    }
}

static void what_is_not_simulated_keeps_the_pace(void **state)
{
    zr_sim_pipeline pipeline = of(ZR_PIPELINE_1F1B, 4, 1, 100000);
    pipeline.last = 0.5;
    double many = seconds_of(pipeline);
    pipeline.micro_batches = 100001;
    assert_float_equal(seconds_of(pipeline) - many, 3.5, 1e-6);
    // Micro-batches that do not divide into rounds take a time between that of their neighbours
    // that do.
    double below = seconds_of(of(ZR_PIPELINE_INTERLEAVED, 4, 2, 8)),
           between = seconds_of(of(ZR_PIPELINE_INTERLEAVED, 4, 2, 10)),
           above = seconds_of(of(ZR_PIPELINE_INTERLEAVED, 4, 2, 12));
    assert_true(below < between && between < above);
}

static void messages_and_a_longer_end_take_time(void **state)
{
    zr_sim_pipeline pipeline = of(ZR_PIPELINE_1F1B, 4, 1, 16);
    double plain = seconds_of(pipeline);
    pipeline.message = 0.1;
    double sent = seconds_of(pipeline);
    assert_true(sent >= plain + 2 * 3 * 0.1 - 1e-9);
    // Stages wait for messages in every round, simulated or not.
    pipeline.micro_batches = 12;
    double short_step = seconds_of(pipeline);
    pipeline.micro_batches = 1200;
    assert_true((seconds_of(pipeline) - short_step) / (1200 - 12) > 3.01);
    pipeline.last = 1;
    pipeline.micro_batches = 16;
    assert_true(seconds_of(pipeline) >= plain + 16 - 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bubbles_are_those_of_the_books),
        cmocka_unit_test(closed_forms_continue_the_lists),
        cmocka_unit_test(asynchronous_ones_drain_once_in_eight_steps),
        cmocka_unit_test(windows_say_how_often_they_drain),
        cmocka_unit_test(what_is_not_simulated_keeps_the_pace),
        cmocka_unit_test(messages_and_a_longer_end_take_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
