// A forecast accounts for what an engine does in a step: if each recorded operation is said to take
// some time that follows from its size, the forecast of the plan is the sum of these times.
#include "../engine/harness.h"

#include "base/recorder.h"
#include "comm/agreement.h"
#include "engine/engine_api.h"
#include "engine/engine_internal.h"
#include "predict/forecast.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { RECORDS = 1 << 16, WARMING = 2, MOST_STAGES = 4 };

static const harness_case *running;

// What the first data rank of each pipeline stage tells the first one of all.
static const zr_plan *plans[MOST_STAGES];
static zr_plan_operations operations[MOST_STAGES];
static double recorded[MOST_STAGES][ZR_TIME_PARTS];

// Seconds of a byte, or of a FLOP: each activity has its own.
static double rate_of(zr_activity what) { return 1e-9 * (1 + 0.37 * (double)what); }

static double seconds_of(const zr_record *r)
{
    return rate_of(r->what) * (double)(r->flops ? r->flops : r->bytes);
}

// Samples are of operations than which none is larger, so all is in proportion.
enum { LARGE = 1 << 30 };

static void learn(zr_rate_book *book, const zr_rate_setting *setting)
{
    zr_rates *rates = zr_rate_book_take(book, setting, NULL);
    for (int what = 0; what < ZR_ACTIVITY_COUNT; what++) {
        bool flops = what == ZR_ACTIVITY_product || what == ZR_ACTIVITY_attention;
        zr_track track = zr_activity_track((zr_activity)what);
        if (track == ZR_TRACK_COMPUTE || (track == ZR_TRACK_COMM && what != ZR_ACTIVITY_wait))
            zr_rates_add(rates, (zr_activity)what, LARGE, flops ? LARGE : 0,
                         LARGE * rate_of((zr_activity)what), 1);
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
    parts[ZR_TIME_UPDATE] += computed; // the end of a window is in no phase
}

static zero_status make_step(zero_engine *engine, zero_error *error)
{
    static _Thread_local harness_rows rows[64];
    zero_tensors batches[64];
    zero_step_info infos[64];
    int steps = (int)zero_window(engine), count = running->accumulation * steps;
    for (int k = 0; k < count; k++)
        batches[k] = harness_micro_batch(running, 0, k, &rows[k]);
    return zero_train_window(engine, batches, steps, infos, error);
}

static zero_status forecast(int stages, zr_forecast *out, zero_error *error)
{
    zr_rate_book book = {0};
    zr_forecast_question question = {.plans = plans,
                                     .operations = operations,
                                     .stages = stages,
                                     .book = &book,
                                     .setting = {"portable", ZERO_F32, 1, plans[0]->world}};
    learn(&book, &question.setting);
    zero_status status = zr_forecast_find(&question, out, error);
    zr_rate_book_free(&book);
    return status;
}

// Assertions of a rank's thread cannot fail the test.
static void expect(const char *part, double predicted, double measured, double allowed)
{
    if (fabs(predicted - measured) <= 1e-12 + allowed * measured)
        return;
    fprintf(stderr, "stage %d, %d ranks, %d micro-batches, %s: %s: %.9g predicted, %.9g recorded\n",
            running->stage, running->ranks, running->accumulation,
            running->schedule ? running->schedule : "no pipeline", part, predicted, measured);
    abort();
}

static double sum_of(const double parts[ZR_TIME_PARTS])
{
    double sum = 0;
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        sum += parts[part];
    return sum;
}

// Of a pipeline, what the slowest stage does is compared, without what it waits.
static void compare(int stages, const zr_forecast *f)
{
    const zr_plan *plan = plans[0];
    int slowest = 0;
    for (int s = 1; s < stages; s++)
        slowest = sum_of(recorded[s]) > sum_of(recorded[slowest]) ? s : slowest;
    const double *parts = recorded[slowest];
    expect("compute", f->parts[ZR_TIME_COMPUTE], parts[ZR_TIME_COMPUTE], 1e-9);
    // The update beside the step is recorded by groups.
    if (!plan->settings.delayed)
        expect("update", f->parts[ZR_TIME_UPDATE], parts[ZR_TIME_UPDATE], 1e-9);
    // What one rank alone adds to its sums, and copies of own shards, are recorded without bytes.
    if (plan->ranks > 1 && running->stage > 0)
        expect("exchange", f->parts[ZR_TIME_EXCHANGE] - f->bubble, parts[ZR_TIME_EXCHANGE], 1e-9);
}

static zero_status record(zero_engine *engine, double parts[ZR_TIME_PARTS], zero_error *error)
{
    zr_recorder *recorder;
    ZERO_TRY(zr_recorder_create(RECORDS, &recorder, error));
    for (int i = 0; i < WARMING; i++)
        ZERO_TRY(make_step(engine, error));
    ZERO_TRY(zr_engine_record(engine, recorder, error));
    ZERO_TRY(make_step(engine, error));
    ZERO_TRY(zr_engine_record(engine, NULL, error));
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        parts[part] = 0;
    add_up(recorder, parts);
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        parts[part] /= (double)zero_window(engine);
    zr_recorder_destroy(recorder);
    return ZERO_OK;
}

static zero_status check_engine(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    zero_comm *world = engine->grid.world;
    int stage = plan->pipeline ? plan->pipeline->stage : 0, stages = ZR_MAX(running->stages, 1);
    double parts[ZR_TIME_PARTS];
    zr_forecast f;
    ZERO_TRY(record(engine, parts, error));
    if (engine->grid.data->rank == 0 && plan->tensor_rank == 0) { // later ones have padding
        plans[stage] = plan;
        memcpy(recorded[stage], parts, sizeof parts);
        ZERO_TRY(zr_plan_operations_find(plan, "ref", &operations[stage], error));
    }
    ZERO_TRY(zr_comm_barrier(world, error));
    if (world->rank == 0) {
        ZERO_TRY(forecast(stages, &f, error));
        compare(stages, &f);
        for (int s = 0; s < stages; s++)
            zr_plan_operations_free(&operations[s]);
    }
    return zr_comm_barrier(world, error);
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
    for (int i = 0; i < ZR_COUNT(names); i++)
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
    for (int i = 0; i < ZR_COUNT(all); i++)
        check((harness_case){
            .stage = 2, .ranks = 2, .accumulation = 2, .precision = BF16, .tiers = all[i]});
    check((harness_case){.stage = 3,
                         .ranks = 2,
                         .accumulation = 2,
                         .precision = BF16,
                         .tiers = harness_tiers(ZERO_TIER_nvme, ZERO_TIER_nvme)});
}

static void pipelines(void **state)
{
    static const char *const names[] = {"gpipe", "1f1b",      "interleaved",
                                        "zb-h1", "pipedream", "2bw"};
    const int asynchronous = 4; // and those after it, which keep whole parameters
    for (int i = 0; i < ZR_COUNT(names); i++)
        for (int stage = 1; stage < (i < asynchronous ? 4 : 3); stage++)
            check((harness_case){.stage = stage,
                                 .ranks = 2,
                                 .accumulation = 4,
                                 .layers = 4,
                                 .stages = 2,
                                 .schedule = names[i],
                                 .precision = BF16});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stage),  cmocka_unit_test(models), cmocka_unit_test(optimizers),
        cmocka_unit_test(tensor_ranks), cmocka_unit_test(tiers),  cmocka_unit_test(pipelines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
