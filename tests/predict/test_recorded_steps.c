// A forecast accounts for what an engine does in a step: if each recorded operation is said to take
// some time that follows from its size, the forecast of the plan is the sum of these times.
#include "../engine/harness.h"

#include "base/recorder.h"
#include "engine/engine_inner.h"
#include "engine/engine_state.h"
#include "predict/forecast.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { RECORDS = 1 << 16, WARMING = 2, STEP = 3 };

static const harness_case *running;

// Seconds of a byte, or of a FLOP: each activity has its own.
static double rate_of(zr_activity what) { return 1e-9 * (1 + 0.37 * (double)what); }

static double seconds_of(const zr_record *r)
{
    return rate_of(r->what) * (double)(r->flops ? r->flops : r->bytes);
}

static void learn(zr_rate_book *book, const zr_rate_setting *setting)
{
    zr_rates *rates = zr_rate_book_take(book, setting, NULL);
    for (int what = 0; what < ZR_ACTIVITY_COUNT; what++) {
        bool flops = what == ZR_ACTIVITY_product || what == ZR_ACTIVITY_attention;
        zr_track track = zr_activity_track((zr_activity)what);
        if (track == ZR_TRACK_COMPUTE || (track == ZR_TRACK_COMM && what != ZR_ACTIVITY_wait))
            zr_rates_add(rates, (zr_activity)what, 1000, flops ? 1000 : 0,
                         1000 * rate_of((zr_activity)what), 1);
    }
    book->read = book->write = book->mix = 1e18;
}

// Adds up what was recorded: what a phase's operations are part of is known when it ends. What a
// step makes of the master beside the optimizer is of the update.
static void add_up(const zr_recorder *recorder, double parts[ZR_TIME_PARTS])
{
    double computed = 0;
    for (int64_t i = 0; i < recorder->count; i++) {
        const zr_record *r = &recorder->records[i];
        zr_track track = zr_activity_track(r->what);
        bool update = r->what == ZR_ACTIVITY_optimizer || r->what == ZR_ACTIVITY_square_sum;
        if (track == ZR_TRACK_COMM && r->what != ZR_ACTIVITY_wait)
            parts[ZR_TIME_EXCHANGE] += seconds_of(r);
        else if (track == ZR_TRACK_COMPUTE && update)
            parts[ZR_TIME_UPDATE] += seconds_of(r);
        else if (track == ZR_TRACK_COMPUTE)
            computed += seconds_of(r);
        if (track != ZR_TRACK_PHASE)
            continue;
        parts[r->what == ZR_ACTIVITY_step ? ZR_TIME_UPDATE : ZR_TIME_COMPUTE] += computed;
        computed = 0;
    }
}

static zero_status make_step(zero_engine *engine, zero_error *error)
{
    static _Thread_local harness_rows rows[8];
    zero_tensors batches[8];
    zero_step_info info;
    for (int k = 0; k < running->accumulation; k++)
        batches[k] = harness_micro_batch(running, 0, k, &rows[k]);
    return zero_train_batch(engine, batches, running->accumulation, &info, error);
}

static zero_status forecast(zero_engine *engine, zr_forecast *out, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    zr_rate_book book = {0};
    zr_plan_operations operations;
    zr_forecast_question question = {.plans = &plan,
                                     .operations = &operations,
                                     .stages = 1,
                                     .book = &book,
                                     .setting = {"portable", ZERO_F32, 1, plan->world}};
    learn(&book, &question.setting);
    ZERO_TRY(zr_plan_operations_find(plan, "ref", &operations, error));
    zero_status status = zr_forecast_find(&question, out, error);
    zr_plan_operations_free(&operations);
    zr_rate_book_free(&book);
    return status;
}

// Assertions of a rank's thread cannot fail the test.
static void expect(const char *part, double predicted, double recorded, double allowed)
{
    if (fabs(predicted - recorded) <= 1e-12 + allowed * recorded)
        return;
    fprintf(stderr, "stage %d, %d ranks, %d micro-batches: %s: %.9g predicted, %.9g recorded\n",
            running->stage, running->ranks, running->accumulation, part, predicted, recorded);
    abort();
}

static void compare(zero_engine *engine, const zr_recorder *recorder, const zr_forecast *f)
{
    double recorded[ZR_TIME_PARTS] = {0};
    add_up(recorder, recorded);
    expect("compute", f->parts[ZR_TIME_COMPUTE], recorded[ZR_TIME_COMPUTE], 1e-9);
    // The update beside the step is recorded by groups.
    if (!engine->plan->settings.delayed)
        expect("update", f->parts[ZR_TIME_UPDATE], recorded[ZR_TIME_UPDATE], 1e-9);
    // What one rank alone adds to its sums, and copies of own shards, are recorded without bytes.
    if (engine->plan->ranks > 1 && running->stage > 0 && engine->plan->gather_bytes == 0)
        expect("exchange", f->parts[ZR_TIME_EXCHANGE], recorded[ZR_TIME_EXCHANGE], 1e-9);
}

static zero_status check_engine(zero_engine *engine, zero_error *error)
{
    zr_recorder *recorder;
    zr_forecast f;
    ZERO_TRY(forecast(engine, &f, error));
    ZERO_TRY(zr_recorder_create(RECORDS, &recorder, error));
    for (int i = 0; i < WARMING; i++)
        ZERO_TRY(make_step(engine, error));
    ZERO_TRY(zr_engine_record(engine, recorder, error));
    ZERO_TRY(make_step(engine, error));
    ZERO_TRY(zr_engine_record(engine, NULL, error));
    if (engine->grid.world->rank == 0) // later ones have padding
        compare(engine, recorder, &f);
    zr_recorder_destroy(recorder);
    return ZERO_OK;
}

static void check(harness_case c)
{
    static harness_result result;
    c.drive = check_engine;
    c.batch = 2;
    running = &c;
    harness_run(&c, &result);
}

#define BF16 "\"bf16\": {\"enabled\": true}"

static void every_stage(void **state)
{
    for (int stage = 0; stage < 4; stage++)
        for (int ranks = 1; ranks <= 2; ranks++)
            for (int k = 1; k <= 3; k += 2)
                for (int bf16 = 0; bf16 < 2; bf16++)
                    check((harness_case){.stage = stage,
                                         .ranks = ranks,
                                         .accumulation = k,
                                         .precision = bf16 ? BF16 : NULL});
}

static void models(void **state)
{
    const zero_llama_config llama = harness_llama();
    check((harness_case){.stage = 2, .ranks = 2, .accumulation = 2, .llama = &llama});
    check((harness_case){.stage = 3,
                         .ranks = 2,
                         .accumulation = 2,
                         .tiles_embedding = 3,
                         .tiles_attention = 2,
                         .tiles_mlp = 4,
                         .precision = BF16});
}

static void optimizers(void **state)
{
    static const char *const names[] = {"SGD", "Lion", "Adagrad", "LAMB"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        for (int bf16 = 0; bf16 < 2; bf16++)
            check((harness_case){.stage = 1,
                                 .ranks = 2,
                                 .accumulation = 1,
                                 .optimizer = names[i],
                                 .precision = bf16 ? BF16 : NULL});
}

static void tensor_ranks(void **state)
{
    check((harness_case){
        .stage = 1, .ranks = 1, .accumulation = 2, .slices = 2, .tensor = 2, .precision = BF16});
}

static void tiers(void **state)
{
    static const char on_host[] = "\"offload_optimizer\": {\"device\": \"cpu\"}",
                      checkpoints[] = "\"reduce_scatter\": true}, \"activation_checkpointing\": "
                                      "{\"number_checkpoints\": 2, \"cpu_checkpointing\": true",
                      delayed[] = "\"offload_optimizer\": {\"device\": \"cpu\"}}, \"libzero\": "
                                  "{\"delayed_update\": {\"start_step\": 1}";
    const char *const all[] = {on_host, checkpoints, delayed};
    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++)
        check((harness_case){
            .stage = 2, .ranks = 2, .accumulation = 2, .precision = BF16, .tiers = all[i]});
    check((harness_case){.stage = 3,
                         .ranks = 2,
                         .accumulation = 2,
                         .precision = BF16,
                         .tiers = harness_tiers(ZERO_TIER_nvme, ZERO_TIER_nvme)});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stage),  cmocka_unit_test(models), cmocka_unit_test(optimizers),
        cmocka_unit_test(tensor_ranks), cmocka_unit_test(tiers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
