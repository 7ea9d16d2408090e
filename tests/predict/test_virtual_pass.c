// What instructions take: exchanges, beside the rank or not, on this machine or over a network, and
// what units do inside of their calls.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/numbers.h"
#include "forecast_desk.h"
#include "plan/accumulators.h"
#include "plan/exchanges.h"

static const zr_operation exchanging[] = {{ZR_ACTIVITY_norm, FORWARD, 0, 1},
                                          {ZR_ACTIVITY_exchange, EXCHANGED, 0, 2}};

// The own shard is copied into the window before other ranks' come.
static void shards_that_are_gathered(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *plan = fixture_plan_in(&f, ZERO_F32, 3, 2, 2, false);
    zr_forecast p = ask_of(&d, plan);
    zr_pass_traffic all = zr_traffic_of_step(plan);
    double gathered = (double)all.data.bytes[ZERO_COMM_all_gather];
    near(p.parts[ZR_TIME_EXCHANGE], gathered * (GATHER + 2 * ELEMENT) + scalars_of(1) +
                                        (double)all.data.bytes[ZERO_COMM_reduce_scatter] * REDUCE);
    zr_plan_destroy(plan);
    close_desk(&d);
}

static void contributions_are_rounded(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *plan = fixture_plan_in(&f, ZERO_BF16, 2, 2, 3, true);
    zr_forecast p = ask_of(&d, plan);
    double rounded = 0;
    for (int i = 0; i < plan->flat_param_count; i++)
        if (zr_flat_param_collects_apart(&plan->flat_params[i]))
            rounded += (double)plan->flat_params[i].padded * 6;
    assert_true(rounded > 0);
    near(p.parts[ZR_TIME_COMPUTE], 3 * (unit_seconds(plan) + rounded * ELEMENT));
    zr_plan_destroy(plan);
    close_desk(&d);
}

// With a comm thread, sums of a micro-batch go on while backward computes: their seconds and the
// computing are not added, and the longer of both remains.
static void overlap_hides_exchanges(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *plan = fixture_plan_in(&f, ZERO_F32, 2, 2, 4, true);
    double reduced = (double)zr_traffic_of_step(plan).data.bytes[ZERO_COMM_reduce_scatter];
    zr_forecast apart = ask_of(&d, plan);
    d.question.overlaps = true;
    d.question.cores = 4;
    zr_forecast beside = ask(&d);
    near(beside.parts[ZR_TIME_COMPUTE], apart.parts[ZR_TIME_COMPUTE]);
    assert_true(beside.seconds < apart.seconds - 0.5 * reduced * REDUCE);
    d.question.cores = 2; // the comm threads take the ranks' cores
    near(ask(&d).seconds, apart.seconds);
    d.question.cores = 4;
    // Where computing takes no time, the comm thread's do, one after another.
    make_nothing(&d, 0);
    zr_forecast idle = ask(&d);
    near(idle.parts[ZR_TIME_EXCHANGE], apart.parts[ZR_TIME_EXCHANGE]);
    near(idle.parts[ZR_TIME_COMPUTE], 0);
    zr_plan_destroy(plan);
    close_desk(&d);
}

static void networks_have_a_rate_and_a_latency(void **state)
{
    static const double RATE = 1e6, LATENCY = 1e-3;
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *plan = fixture_plan_in(&f, ZERO_F32, 2, 4, 2, false);
    zr_forecast here = ask_of(&d, plan);
    zr_traffic_plan all = zr_traffic_of_step(plan).data;
    double reduced = (double)all.bytes[ZERO_COMM_reduce_scatter],
           gathered = (double)all.bytes[ZERO_COMM_all_gather],
           scalars = 3 * 2 * ZR_EXACT_WORDS * sizeof(int64_t),
           latencies = ((double)all.messages + 1) * LATENCY, // and the scalars
        without =
            here.seconds - (reduced * REDUCE + gathered * GATHER + scalars * SCALARS) + latencies;
    d.question.data = link_of(&d, RATE, LATENCY);
    near(ask(&d).seconds, without + (reduced + gathered + scalars) / RATE);
    // Of 3 others, 2 are far; this rank brings the shard of one of them.
    d.question.data.reach = (zr_reach){.size = 4, .strangers = 2, .fetches = 1};
    near(ask(&d).seconds, without + (reduced * 2 / 3 + gathered / 3 + scalars) / RATE);
    // Twice as many ranks of a machine exchange at once as when the rate was measured.
    d.question.data.together = 2 * d.question.data.rates->setting.together;
    near(ask(&d).seconds, without + 2 * (reduced * 2 / 3 + gathered / 3 + scalars) / RATE);
    // What is under way is beside the rank, but for copies where there is no core to spare.
    d.question.overlaps = true;
    d.question.cores = 4;
    zr_forecast beside = ask(&d);
    near(beside.parts[ZR_TIME_COMPUTE], here.parts[ZR_TIME_COMPUTE]);
    d.question.data.rates = NULL; // nobody has measured it
    assert_true(ask(&d).unknown > beside.unknown);
    zr_plan_destroy(plan);
    close_desk(&d);
}

// Ranks that share what they gather have rates of their own for that.
static void one_copy_of_a_machine(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *plan = fixture_plan_on_machines(&f, 4, 2, false);
    d.question.data = link_of(&d, 1e6, 1e-3);
    d.question.data.reach = (zr_reach){.size = 4, .strangers = 2, .fetches = 1};
    double before = ask_of(&d, plan).seconds;
    zr_rates once = {.setting = zr_link_setting(2, 2, true)};
    zr_rates_add(&once, ZR_ACTIVITY_all_gather, 0, 0, 1e-3, 1);
    zr_rates_add(&once, ZR_ACTIVITY_all_gather, 1000000, 0, 1e-3 + 2, 1);
    d.question.data.one_copy = &once;
    double gathered = (double)zr_traffic_of_step(plan).data.bytes[ZERO_COMM_all_gather];
    near(ask(&d).seconds - before, gathered / 1e6); // half as fast
    zr_plan_destroy(plan);
    close_desk(&d);
}

static void tensor_ranks_are_waited_for(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *plan = fixture_plan_in(&f, ZERO_F32, 1, 1, 1, true);
    zr_forecast alone = ask_of(&d, plan);
    for (int u = 0; u < plan->unit_count; u++)
        d.operations[0].units[u].calls[ZR_CALL_FORWARD] = (zr_operation_list){exchanging, 2};
    d.question.overlaps = true;
    double calls = 2 * (plan->unit_count - 1), // the last unit does both in one call
        inside = calls * EXCHANGED * EXCHANGE;
    near(ask(&d).parts[ZR_TIME_EXCHANGE] - alone.parts[ZR_TIME_EXCHANGE], inside);
    d.question.tensor = link_of(&d, 1e6, 1e-3);
    near(ask(&d).parts[ZR_TIME_EXCHANGE] - alone.parts[ZR_TIME_EXCHANGE],
         calls * (EXCHANGED / 1e6 + 1e-3));
    zr_plan_destroy(plan);
    close_desk(&d);
}

// What a unit runs from inside of its call is run once, and what is gathered there comes while it
// computes.
static void streamed_flat_params_come_while_the_unit_computes(void **state)
{
    desk d;
    fixture f;
    fixture_build_streamed(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *plan = fixture_plan_in(&f, ZERO_F32, 3, 2, 2, false);
    int bodies = 0;
    int64_t copied = 0; // of contributions that are rounded or parked
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    for (const zr_instruction *i = pass->at; i < pass->at + pass->count; i++) {
        bodies += i->body > 0;
        copied += i->code == ZR_ROUND ? 8 * plan->flat_params[i->flat_param].padded : 0;
        copied += i->code == ZR_FETCH || i->code == ZR_STORE ? 2 * i->bytes : 0;
    }
    assert_true(bodies > 0);
    zr_forecast apart = ask_of(&d, plan);
    near(apart.parts[ZR_TIME_COMPUTE], 2 * (unit_seconds(plan) + (double)copied * ELEMENT));
    zr_pass_traffic all = zr_traffic_of_step(plan);
    near(apart.parts[ZR_TIME_EXCHANGE],
         (double)all.data.bytes[ZERO_COMM_all_gather] * (GATHER + 2 * ELEMENT) + scalars_of(1) +
             (double)all.data.bytes[ZERO_COMM_reduce_scatter] * REDUCE);
    d.question.overlaps = true;
    assert_true(ask(&d).seconds < 0.9 * apart.seconds);
    zr_plan_destroy(plan);
    close_desk(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_that_are_gathered),
        cmocka_unit_test(contributions_are_rounded),
        cmocka_unit_test(overlap_hides_exchanges),
        cmocka_unit_test(networks_have_a_rate_and_a_latency),
        cmocka_unit_test(one_copy_of_a_machine),
        cmocka_unit_test(tensor_ranks_are_waited_for),
        cmocka_unit_test(streamed_flat_params_come_while_the_unit_computes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
