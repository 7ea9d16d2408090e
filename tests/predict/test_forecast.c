// A predicted step is the plan's program on virtual time: what is begun goes on beside the rank
// until it is awaited, and the parts add up to the step.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "forecast_desk.h"
#include "lm_plan.h"
#include "plan/exchanges.h"
#include "plan/accumulators.h"

#include <math.h>
#include <string.h>

static void one_rank(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    for (int64_t k = 1; k <= 3; k += 2) {
        zr_plan *plan = fixture_plan_in(&f, ZERO_F32, 1, 1, k, true);
        zr_forecast p = ask_of(&d, plan);
        double n = elements_of(plan, true);
        near(p.parts[ZR_TIME_COMPUTE], (double)k * unit_seconds(plan));
        // master and two moments are read and written, the gradient is read; the squares
        near(p.parts[ZR_TIME_UPDATE], n * (28 * OPTIMIZER + 4 * SQUARES));
        // Later micro-batches are added to the sum; the first of several is put there, if that is
        // another place.
        bool apart = plan->accumulator_bytes[ZERO_TIER_device] > 0;
        double padded = (double)plan->elems;
        near(p.parts[ZR_TIME_EXCHANGE],
             padded * ELEMENT * ((apart ? 8 : 0) + 12 * (double)(k - 1)));
        near(p.tokens, (double)(16 * k) / p.seconds);
        near(p.flops, (double)(16 * k) * 6 * (double)plan->parameters);
        assert_true(p.unknown > 0 && p.unknown < 1);
        assert_string_equal(p.bound, "compute");
        zr_plan_destroy(plan);
    }
    close_desk(&d);
}

// What is frozen has a product for the output and one for the gradient of its input.
static void the_base_of_adapters_costs_less(void **state)
{
    lm_plan_case c = {.spec = "llama:layers=2,heads=4,kv_heads=2,width=32,inner=48,context=16,"
                              "vocab=61",
                      .batch = 2,
                      .seq = 16};
    lm_plan whole = lm_plan_create(&c);
    c.lora = "r=2";
    lm_plan adapted = lm_plan_create(&c);
    double base = (double)whole.plan->parameters, all = (double)adapted.plan->parameters;
    double attention = zr_flops_of_token(whole.plan) - 6 * base;
    assert_true(attention == 12.0 * 2 * 32 * 16 && all > base);
    near(zr_flops_of_token(adapted.plan), 4 * base + 6 * (all - base) + attention);
    lm_plan_destroy(&adapted);
    lm_plan_destroy(&whole);
}

// Of a window, attention counts by the pairs of positions that it sees: here of 8192 positions the
// last 4096.
static void a_window_costs_less(void **state)
{
    lm_plan_case c = {.spec = "mistral-7b:layers=2,heads=4,kv_heads=2,width=32,inner=48,"
                              "context=16384,vocab=61",
                      .batch = 1,
                      .seq = 4096};
    lm_plan up_to_it = lm_plan_create(&c);
    c.seq = 8192;
    lm_plan beyond = lm_plan_create(&c);
    double weights = 6 * (double)beyond.plan->parameters;
    assert_true(zr_flops_of_token(up_to_it.plan) - weights == 12.0 * 2 * 32 * 4096);
    near(zr_flops_of_token(beyond.plan) - weights,
         12.0 * 2 * 32 * 8192 * 4096 * (2 * 8192 - 4096 + 1) / (8192.0 * 8193));
    lm_plan_destroy(&beyond);
    lm_plan_destroy(&up_to_it);
}

// What is fetched from other ranks, where nothing overlaps, and copies of the own shard before.
static double exchanged(const zr_plan *plan)
{
    zr_pass_traffic all = zr_traffic_of_step(plan);
    double bytes = 0;
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        if (plan->holding == ZR_HOLDS_SHARDS && plan->gather_bytes > 0)
            continue;
        if (plan->updates_whole && flat_param->accumulator_first >= 0)
            bytes += 2 * (double)zr_flat_param_sum_bytes(flat_param);
    }
    return (double)all.data.bytes[ZERO_COMM_reduce_scatter] * REDUCE +
           (double)all.data.bytes[ZERO_COMM_all_gather] * GATHER + bytes * ELEMENT +
           scalars_of(plan->ranks - 1);
}

static void stages_without_overlap(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    for (int stage = 0; stage < 4; stage++)
        for (int64_t k = 1; k <= 3; k += 2) {
            zr_plan *plan = fixture_plan_in(&f, ZERO_F32, stage, 2, k, true);
            zr_forecast p = ask_of(&d, plan);
            near(p.parts[ZR_TIME_COMPUTE], (double)k * unit_seconds(plan));
            near(p.parts[ZR_TIME_EXCHANGE], exchanged(plan));
            near(p.parts[ZR_TIME_UPDATE], elements_of(plan, stage == 0) * 28 * OPTIMIZER +
                                              elements_of(plan, false) * 4 * SQUARES);
            near(p.parts[ZR_TIME_DISK], 0);
            zr_plan_destroy(plan);
        }
    close_desk(&d);
}

static void check_stage(const zr_plan *plan)
{
    static desk d;
    static const zr_activity made[] = {ZR_ACTIVITY_optimizer, ZR_ACTIVITY_element, ZR_ACTIVITY_norm,
                                       ZR_ACTIVITY_reduce_scatter, ZR_ACTIVITY_all_gather};
    if (!d.question.book)
        open_desk(&d);
    d.question.overlaps = plan->ranks == 2;
    double before = ask_of(&d, plan).seconds;
    for (int i = 0; i < ZR_COUNT(made); i++) { // slower operations never make a faster step
        double *seconds = &d.book.settings[0].at[made[i]][0].seconds, as_it_is = *seconds;
        *seconds *= 2;
        assert_true(ask(&d).seconds >= before * (1 - 1e-9));
        *seconds = as_it_is;
    }
    forget_plans(&d);
}

static void slower_operations_make_slower_steps(void **state) { fixture_for_stages(check_stage); }

static void corrections_are_applied(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *plan = fixture_plan_in(&f, ZERO_F32, 2, 2, 2, true);
    zr_forecast plain = ask_of(&d, plan);
    for (int i = 0; i < 1000; i++) {
        zr_correction_learn(&d.book.corrections[ZR_TIME_UPDATE], 1, 2);
        zr_correction_learn(&d.book.whole, 1, i % 2 ? 1.01 : 1 / 1.01);
    }
    zr_forecast learnt = ask(&d);
    assert_true(fabs(learnt.parts[ZR_TIME_UPDATE] / plain.parts[ZR_TIME_UPDATE] - 2) < 0.02);
    near(learnt.plain[ZR_TIME_UPDATE], plain.plain[ZR_TIME_UPDATE]);
    near(plain.plain[ZR_TIME_COMPUTE], plain.parts[ZR_TIME_COMPUTE]);
    assert_true(log(learnt.high / learnt.low) < log(plain.high / plain.low));
    zr_plan_destroy(plan);
    close_desk(&d);
}

// What exchanges in memory were off by is nothing that a network is off by.
static void corrections_are_not_of_a_network(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *plan = fixture_plan_in(&f, ZERO_F32, 2, 2, 2, true);
    d.question.data = link_of(&d, 1e8, 1e-4);
    d.question.data.reach = (zr_reach){.size = 2, .strangers = 1, .fetches = 1};
    zr_forecast plain = ask_of(&d, plan);
    zr_correction_learn(&d.book.corrections[ZR_TIME_EXCHANGE], 1, 2);
    zr_correction_learn(&d.book.corrections[ZR_TIME_UPDATE], 1, 2);
    zr_forecast learnt = ask(&d);
    near(learnt.parts[ZR_TIME_EXCHANGE], plain.parts[ZR_TIME_EXCHANGE]);
    assert_true(learnt.parts[ZR_TIME_UPDATE] > 1.2 * plain.parts[ZR_TIME_UPDATE]);
    zr_plan_destroy(plan);
    close_desk(&d);
}

// Ranks that do the same wait for each other as long as runs have told.
static void ranks_wait_for_each_other(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *alone = fixture_plan_in(&f, ZERO_F32, 2, 1, 2, true),
            *plan = fixture_plan_in(&f, ZERO_F32, 2, 2, 2, true);
    double before = ask_of(&d, alone).seconds;
    zr_forecast equal = ask_of(&d, plan);
    zr_rates_add(&d.book.settings[0], ZR_ACTIVITY_wait, 1000000, 0, 1e-4, 1); // a tenth
    near(ask_of(&d, alone).seconds, before);
    zr_forecast unequal = ask_of(&d, plan);
    assert_true(fabs(unequal.seconds / equal.seconds - 1.1) < 1e-6);
    near(unequal.seconds - equal.seconds,
         unequal.parts[ZR_TIME_EXCHANGE] - equal.parts[ZR_TIME_EXCHANGE]);
    zr_plan_destroy(alone);
    zr_plan_destroy(plan);
    close_desk(&d);
}

static void evaluation_is_forward(void **state)
{
    desk d;
    fixture f;
    double seconds;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *plan = fixture_plan_in(&f, ZERO_F32, 2, 2, 2, true);
    describe(&d, plan);
    assert_int_equal(zr_forecast_evaluation(&d.question, 3, &seconds, NULL, NULL), ZERO_OK);
    near(seconds, 3.0 * plan->unit_count * FORWARD * NORM);
    zr_plan_destroy(plan);
    close_desk(&d);
}

// With nothing measured at all there is a guess, which is said to be one.
static void an_empty_book_is_a_guess(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_rate_book_free(&d.book);
    zr_plan *plan = fixture_plan_in(&f, ZERO_F32, 2, 2, 2, true);
    zr_forecast p = ask_of(&d, plan);
    near(p.unknown, 1);
    assert_true(p.seconds > 0 && p.high / p.low > 1.8);
    zr_plan_destroy(plan);
    close_desk(&d);
}

static void assert_words(double unknown, const char *words, bool json_is_null)
{
    const zr_forecast f = {.seconds = 0.0234,
                           .low = 0.02,
                           .high = 0.03,
                           .unknown = unknown,
                           .bound = "compute",
                           .parts = {[ZR_TIME_COMPUTE] = 0.0234}};
    zr_buffer text = {0};
    zr_forecast_text(&f, &text);
    if (!strstr(text.data, words))
        fail_msg("\"%s\" is not in: %s", words, text.data);
    text.length = 0;
    zr_json_writer w = zr_json_writer_on(&text, ZR_JSON_COMPACT);
    zr_forecast_json(&f, &w, NULL);
    assert_true((strstr(text.data, "\"seconds\":null,\"low\":null") != NULL) == json_is_null);
    zr_buffer_free(&text);
}

// The more is guessed, the less is said.
static void guesses_are_no_figures(void **state)
{
    assert_words(0.2, "a step takes 23.4 ms (20.0 ms to 30.0 ms), ", false);
    assert_words(0.4, "a step takes roughly 20 ms; bound by compute; 40% of it is guessed", false);
    assert_words(0.75, "how long a step takes is not known yet (75% of it would be guessed)", true);
}

// Other programs make a step longer, and nobody knows how long they stay.
static void a_busy_machine_is_slower(void **state)
{
    zr_forecast f = {.seconds = 2, .low = 1.5, .high = 2.5, .tokens = 100, .parts = {2}};
    zr_forecast_slow(&f, 1);
    assert_float_equal(f.seconds, 2, 0);
    zr_forecast_slow(&f, 2);
    assert_float_equal(f.seconds, 4, 1e-12);
    assert_float_equal(f.parts[ZR_TIME_COMPUTE], 4, 1e-12);
    assert_float_equal(f.low, 1.5, 1e-12);
    assert_float_equal(f.high, 10, 1e-12);
    assert_float_equal(f.tokens, 50, 1e-12);
}

static void memory_that_is_missing_is_an_error(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *plan = fixture_plan_in(&f, ZERO_F32, 2, 2, 2, true);
    describe(&d, plan);
    zero_status status = ZERO_ERR_MEMORY;
    for (int64_t nth = 1; status == ZERO_ERR_MEMORY; nth++) {
        zr_forecast p;
        assert_true(nth < 100);
        zr_alloc_fail_at(nth);
        status = zr_forecast_find(&d.question, &p, NULL);
        zr_alloc_fail_at(0);
    }
    assert_int_equal(status, ZERO_OK);
    zr_plan_destroy(plan);
    close_desk(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank),
        cmocka_unit_test(the_base_of_adapters_costs_less),
        cmocka_unit_test(a_window_costs_less),
        cmocka_unit_test(stages_without_overlap),
        cmocka_unit_test(slower_operations_make_slower_steps),
        cmocka_unit_test(corrections_are_applied),
        cmocka_unit_test(corrections_are_not_of_a_network),
        cmocka_unit_test(ranks_wait_for_each_other),
        cmocka_unit_test(evaluation_is_forward),
        cmocka_unit_test(an_empty_book_is_a_guess),
        cmocka_unit_test(guesses_are_no_figures),
        cmocka_unit_test(a_busy_machine_is_slower),
        cmocka_unit_test(memory_that_is_missing_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
