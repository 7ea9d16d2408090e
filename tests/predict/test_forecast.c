// A predicted step is the plan's program on virtual time: what is begun goes on beside the rank
// until it is awaited, and the parts add up to the step.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/step_sums.h"
#include "pipeline_fixture.h"
#include "plan/exchanges.h"
#include "plan/piece_sums.h"
#include "predict/forecast.h"

#include <math.h>
#include <string.h>

// Seconds of a byte, by what is done with it.
static const double OPTIMIZER = 1e-9, ELEMENT = 2e-9, SQUARES = 3e-9, NORM = 4e-9, REDUCE = 5e-9,
                    GATHER = 6e-9, SCALARS = 7e-9, EXCHANGE = 8e-9;
// Bytes of the norms by which each call of a unit is stood for.
enum { FORWARD = 1000000, BACKWARD = 2000000, WEIGHT = 700000, EXCHANGED = 10000 };

static const zr_operation forward_made = {ZR_ACTIVITY_norm, FORWARD, 0, 1},
                          backward_made = {ZR_ACTIVITY_norm, BACKWARD, 0, 1},
                          both_made = {ZR_ACTIVITY_norm, FORWARD + BACKWARD, 0, 1},
                          input_made = {ZR_ACTIVITY_norm, BACKWARD - WEIGHT, 0, 1},
                          weight_made = {ZR_ACTIVITY_norm, WEIGHT, 0, 1},
                          exchanging[] = {{ZR_ACTIVITY_norm, FORWARD, 0, 1},
                                          {ZR_ACTIVITY_exchange, EXCHANGED, 0, 2}};

static void near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-12 + 1e-9 * fabs(wanted)))
        fail_msg("%.12g, expected %.12g", got, wanted);
}

// A machine on which every byte of an activity takes the same time.
static void learn(zr_rate_book *book, const zr_rate_setting *setting)
{
    static const struct {
        zr_activity what;
        const double *rate;
    } known[] = {
        {ZR_ACTIVITY_optimizer, &OPTIMIZER},   {ZR_ACTIVITY_element, &ELEMENT},
        {ZR_ACTIVITY_square_sum, &SQUARES},    {ZR_ACTIVITY_norm, &NORM},
        {ZR_ACTIVITY_reduce_scatter, &REDUCE}, {ZR_ACTIVITY_all_gather, &GATHER},
        {ZR_ACTIVITY_all_reduce, &SCALARS},    {ZR_ACTIVITY_exchange, &EXCHANGE},
    };
    zr_rates *rates = zr_rate_book_take(book, setting, NULL);
    assert_non_null(rates);
    for (int i = 0; i < ZR_COUNT(known); i++)
        zr_rates_add(rates, known[i].what, 1000, 0, 1000 * *known[i].rate, 1);
}

typedef struct desk { // a question with all that it points to
    zr_rate_book book;
    zr_forecast_question question;
    const zr_plan *plans[PIPELINE_MOST_STAGES];
    zr_plan_operations operations[PIPELINE_MOST_STAGES];
} desk;

static void open_desk(desk *d)
{
    *d = (desk){.question = {.setting = {"avx512", ZERO_BF16, 1, 2}, .sharers = 1}};
    learn(&d->book, &d->question.setting);
    d->book.read = 2e8, d->book.write = d->book.mix = 1e8;
    d->question.book = &d->book;
    d->question.plans = d->plans;
    d->question.operations = d->operations;
}

// The operations of each unit: one a call.
static void describe(desk *d, const zr_plan *plan)
{
    int stage = d->question.stages++;
    zr_unit_operations *units = zr_alloc((size_t)plan->unit_count * sizeof *units, NULL);
    assert_non_null(units);
    for (int u = 0; u < plan->unit_count; u++) {
        zr_operation_list *calls = units[u].calls;
        calls[ZR_CALL_FORWARD] = calls[ZR_CALL_AGAIN] = (zr_operation_list){&forward_made, 1};
        calls[ZR_CALL_BACKWARD] = (zr_operation_list){&backward_made, 1};
        calls[ZR_CALL_BOTH] = (zr_operation_list){&both_made, 1};
        calls[ZR_CALL_INPUT] = (zr_operation_list){&input_made, 1};
        calls[ZR_CALL_WEIGHT] = (zr_operation_list){&weight_made, 1};
    }
    d->plans[stage] = plan;
    d->operations[stage] = (zr_plan_operations){.unit_count = plan->unit_count, .units = units};
}

static void forget_plans(desk *d)
{
    for (int s = 0; s < d->question.stages; s++)
        zr_free(d->operations[s].units);
    d->question.stages = 0;
}

static void close_desk(desk *d)
{
    forget_plans(d);
    zr_rate_book_free(&d->book);
}

static zr_forecast ask(const desk *d)
{
    zr_forecast f;
    zero_error error = {0};
    if (zr_forecast_find(&d->question, &f, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    double sum = 0;
    for (int part = 0; part < ZR_TIME_PARTS; part++) {
        assert_true(f.parts[part] >= 0);
        sum += f.parts[part];
    }
    near(f.seconds, sum);
    assert_true(f.low < f.seconds && f.seconds < f.high);
    assert_true(f.parts[ZR_TIME_DATA] == 0 && f.parts[ZR_TIME_SAVING] == 0);
    return f;
}

static zr_forecast ask_of(desk *d, const zr_plan *plan)
{
    forget_plans(d);
    describe(d, plan);
    return ask(d);
}

// Elements of the tensors that the first rank updates, without padding, and whose squares it adds.
static double elements_of(const zr_plan *plan, bool whole)
{
    double sum = 0;
    for (int p = 0; p < plan->piece_count; p++)
        for (int t = 0; t < plan->pieces[p].tensor_count; t++) {
            const zr_plan_tensor *tensor = &plan->pieces[p].tensors[t];
            int64_t end = whole ? plan->pieces[p].padded : plan->pieces[p].shard;
            sum += (double)ZR_MAX(ZR_MIN(tensor->first + tensor->count, end) - tensor->first, 0);
        }
    return sum;
}

static double scalars_of(int others)
{
    return others * ZR_STEP_SUMS_WORDS * (double)sizeof(int64_t) * SCALARS;
}

static double unit_seconds(const zr_plan *plan)
{
    return plan->unit_count * (double)(FORWARD + BACKWARD) * NORM;
}

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

// What is fetched from other ranks, where nothing overlaps, and copies of the own shard before.
static double exchanged(const zr_plan *plan)
{
    zr_pass_traffic all = zr_traffic_of_step(plan);
    double bytes = 0;
    for (int p = 0; p < plan->piece_count; p++) {
        const zr_piece *piece = &plan->pieces[p];
        if (plan->holding == ZR_HOLDS_SHARDS && plan->gather_bytes > 0)
            continue;
        if (plan->updates_whole && piece->accumulator_first >= 0)
            bytes += 2 * (double)zr_piece_sum_bytes(piece);
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
    for (int i = 0; i < plan->piece_count; i++)
        if (plan->pieces[i].open_first >= 0)
            rounded += (double)plan->pieces[i].padded * 6;
    assert_true(rounded > 0);
    near(p.parts[ZR_TIME_COMPUTE], 3 * (unit_seconds(plan) + rounded * ELEMENT));
    zr_plan_destroy(plan);
    close_desk(&d);
}

// With a courier, sums of a micro-batch go on while backward computes: their seconds and the
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
    d.question.cores = 2; // the couriers take the ranks' cores
    near(ask(&d).seconds, apart.seconds);
    d.question.cores = 4;
    // Where computing takes no time, the courier's do, one after another.
    for (int u = 0; u < plan->unit_count; u++)
        memset(&d.operations[0].units[u], 0, sizeof d.operations[0].units[u]);
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
           messages = (double)all.messages + 2; // and the scalars, to and fro
    d.question.data = (zr_link_speed){.rate = RATE, .latency = LATENCY};
    near(ask(&d).seconds, here.seconds + (reduced + gathered) / RATE + messages * LATENCY);
    // Of 3 others, 2 are far; this rank brings the shard of one of them.
    d.question.data.reach = (zr_reach){.size = 4, .strangers = 2, .fetches = 1};
    near(ask(&d).seconds,
         here.seconds + (reduced * 2 / 3 + gathered / 3) / RATE + messages * LATENCY);
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
    d.question.tensor = (zr_link_speed){.rate = 1e6, .latency = 1e-3};
    near(ask(&d).parts[ZR_TIME_EXCHANGE] - alone.parts[ZR_TIME_EXCHANGE],
         inside + calls * (EXCHANGED / 1e6 + 1e-3));
    zr_plan_destroy(plan);
    close_desk(&d);
}

static const zr_tiering on_nvme = {.optimizer = ZERO_TIER_nvme,
                                   .parameters = ZERO_TIER_nvme,
                                   .sub_group = 4096,
                                   .read_ahead = true,
                                   .write_behind = true,
                                   .visits_ahead = 2,
                                   .block = 1 << 20};

// The disk is waited for where it is slower, and not where computing takes longer.
static void the_disk_hides_behind_computing(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *plan = fixture_plan_on_tiers(&f, 3, 2, 2, &on_nvme);
    const zr_moved *update = &plan->moves.update[0];
    double moved = (double)(update->nvme_read + update->nvme_written);
    d.book.read = d.book.write = d.book.mix = 1e15;
    zr_forecast quick = ask_of(&d, plan);
    assert_true(quick.parts[ZR_TIME_DISK] < 1e-6);
    d.book.mix = 1e5; // the walk's computing is nothing next to it
    zr_forecast slow = ask(&d);
    assert_true(slow.parts[ZR_TIME_DISK] > 0.9 * (moved / 1e5 - quick.parts[ZR_TIME_UPDATE]));
    assert_true(slow.parts[ZR_TIME_DISK] <= moved / 1e5);
    near(slow.parts[ZR_TIME_UPDATE], quick.parts[ZR_TIME_UPDATE]);
    assert_string_equal(slow.bound, "disk");
    d.question.sharers = 2;
    assert_true(ask(&d).parts[ZR_TIME_DISK] > 1.9 * slow.parts[ZR_TIME_DISK]);
    // What micro-batches move: nothing is waited for while they compute long enough.
    d.question.sharers = 1, d.book.mix = 1e15;
    d.book.read = d.book.write = 1e5;
    zr_forecast waits = ask(&d);
    d.book.read = d.book.write = 1e8;
    zr_forecast hidden = ask(&d);
    assert_true(hidden.parts[ZR_TIME_DISK] < 0.1 * waits.parts[ZR_TIME_DISK] / 1e3 * 5);
    d.book.read = d.book.write = d.book.mix = 0; // unknown
    assert_true(ask(&d).unknown > hidden.unknown);
    zr_plan_destroy(plan);
    close_desk(&d);
}

static void what_is_delayed_hides_behind_the_next_step(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    static const zr_tiering on_host = {.optimizer = ZERO_TIER_host};
    zr_settings settings = fixture_settings(ZERO_BF16, 2, 1);
    settings.tiering = on_host;
    zr_plan *now = fixture_plan_of(&f, &settings, 2, true);
    settings.delayed = true;
    zr_plan *later = fixture_plan_of(&f, &settings, 2, true);
    zr_forecast at_once = ask_of(&d, now), beside = ask_of(&d, later);
    double squares = elements_of(now, false) * 2 * SQUARES,
           copied = elements_of(now, false) * 6 * ELEMENT;
    near(beside.parts[ZR_TIME_UPDATE], squares + copied);
    near(beside.parts[ZR_TIME_COMPUTE], at_once.parts[ZR_TIME_COMPUTE]);
    double walk = at_once.parts[ZR_TIME_UPDATE] - squares;
    // Without a core to spare it is computed in the ranks' time all the same.
    d.question.cores = 2;
    near(ask(&d).seconds, beside.seconds + elements_of(now, false) * 26 * OPTIMIZER);
    d.question.cores = 3;
    near(ask(&d).seconds, beside.seconds);
    assert_true(walk > 0);
    // Where there is little to hide behind, the rest of it is waited for.
    for (int u = 0; u < later->unit_count; u++)
        memset(&d.operations[0].units[u], 0, sizeof d.operations[0].units[u]);
    zr_forecast idle = ask(&d);
    assert_true(idle.seconds < beside.seconds && idle.seconds > walk);
    zr_plan_destroy(now);
    zr_plan_destroy(later);
    close_desk(&d);
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
        pipeline_plans_free(&plans);
    }
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

static void evaluation_is_forward(void **state)
{
    desk d;
    fixture f;
    double seconds;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *plan = fixture_plan_in(&f, ZERO_F32, 2, 2, 2, true);
    describe(&d, plan);
    assert_int_equal(zr_forecast_evaluation(&d.question, 3, &seconds, NULL), ZERO_OK);
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
        cmocka_unit_test(stages_without_overlap),
        cmocka_unit_test(shards_that_are_gathered),
        cmocka_unit_test(contributions_are_rounded),
        cmocka_unit_test(overlap_hides_exchanges),
        cmocka_unit_test(networks_have_a_rate_and_a_latency),
        cmocka_unit_test(tensor_ranks_are_waited_for),
        cmocka_unit_test(the_disk_hides_behind_computing),
        cmocka_unit_test(what_is_delayed_hides_behind_the_next_step),
        cmocka_unit_test(pipelines_take_what_their_lists_do),
        cmocka_unit_test(every_schedule_is_forecast),
        cmocka_unit_test(slower_operations_make_slower_steps),
        cmocka_unit_test(corrections_are_applied),
        cmocka_unit_test(evaluation_is_forward),
        cmocka_unit_test(an_empty_book_is_a_guess),
        cmocka_unit_test(memory_that_is_missing_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
