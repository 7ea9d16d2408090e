// What a plan's units ask of the backend, found without computing, is what a step of an engine
// records: the same activities, bytes, FLOPs and calls of each unit.
#include "../engine/harness.h"
#include "lm_plan.h"

#include "base/recorder.h"
#include "engine/engine_api.h"
#include "engine/engine_internal.h"
#include "layers/layers.h"
#include "predict/operations.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

enum { MOST_KINDS = 4096, RECORDS = 1 << 16 };

typedef struct counted { // operations of one size in the calls of one unit
    int unit;
    zr_operation of;
} counted;

typedef struct tally {
    int count;
    counted at[MOST_KINDS];
} tally;

static const harness_case *running;

static void add(tally *to, int unit, const zr_operation *operation, int times)
{
    int i = 0;
    while (i < to->count &&
           (to->at[i].unit != unit || to->at[i].of.what != operation->what ||
            to->at[i].of.bytes != operation->bytes || to->at[i].of.flops != operation->flops))
        i++;
    if (i == MOST_KINDS)
        abort();
    if (i == to->count)
        to->at[to->count++] =
            (counted){unit, {operation->what, operation->bytes, operation->flops, 0}};
    to->at[i].of.calls += operation->calls * times;
}

static void add_call(tally *to, const zr_plan_operations *found, const zr_instruction *call,
                     int times)
{
    const zr_operation_list *list = &found->units[call->unit].calls[call->what];
    for (int i = 0; i < list->count; i++)
        add(to, call->unit, &list->at[i], times);
}

// Adds what the instructions of a pass do on behalf of units: calls, and roundings of gradients.
static void add_pass(tally *to, const zr_plan *plan, const zr_plan_operations *found, int pass,
                     int times)
{
    for (int i = 0; i < plan->program.passes[pass].count; i++) {
        const zr_instruction *at = &plan->program.passes[pass].at[i];
        const zr_flat_param *flat_param =
            at->flat_param >= 0 ? &plan->flat_params[at->flat_param] : NULL;
        if (at->code == ZR_CALL)
            add_call(to, found, at, times);
        if (at->code == ZR_ROUND && at->unit >= 0)
            add(to, at->unit,
                &(zr_operation){ZR_ACTIVITY_element,
                                flat_param->padded *
                                    (4 + (int64_t)zero_dtype_bytes(flat_param->gradient_dtype)),
                                0, 1},
                times);
    }
}

static bool is_evaluation(int pass)
{
    bool is = pass == ZR_PASS_EVALUATION;
    for (int c = 0; c < ZR_MOST_CHUNKS; c++)
        is = is || pass == (int)zr_chunk_pass(ZR_CHUNK_EVALUATION, c);
    return is;
}

static void expect_step(tally *to, const zr_plan *plan, const zr_plan_operations *found)
{
    for (int p = 0; p < ZR_PASSES; p++)
        if (zr_pass_is_of_micro_batch(p) && !is_evaluation(p))
            add_pass(to, plan, found, p, running->accumulation);
}

// Takes what units compute and exchange: neither the update, which belongs to none, nor messages.
static void take_records(tally *to, const zr_recorder *recorder)
{
    assert_int_equal(recorder->dropped, 0);
    for (int64_t i = 0; i < recorder->count; i++) {
        const zr_record *r = &recorder->records[i];
        bool computes = zr_activity_track(r->what) == ZR_TRACK_COMPUTE &&
                        r->what != ZR_ACTIVITY_square_sum && r->what != ZR_ACTIVITY_optimizer;
        if (r->unit >= 0 && (computes || r->what == ZR_ACTIVITY_exchange))
            add(to, r->unit, &(zr_operation){r->what, r->bytes, r->flops, 1}, 1);
    }
}

static int calls_in(const tally *in, const counted *like)
{
    for (int i = 0; i < in->count; i++)
        if (in->at[i].unit == like->unit && in->at[i].of.what == like->of.what &&
            in->at[i].of.bytes == like->of.bytes && in->at[i].of.flops == like->of.flops)
            return in->at[i].of.calls;
    return 0;
}

static bool agrees(const tally *a, const tally *b, const char *of_a)
{
    bool same = true;
    for (int i = 0; i < a->count; i++) {
        const zr_operation *o = &a->at[i].of;
        int others = calls_in(b, &a->at[i]);
        if (others == o->calls)
            continue;
        fprintf(stderr, "unit %d: %s of %lld bytes, %lld flops: %d %s, not %d\n", a->at[i].unit,
                zr_activity_name(o->what), (long long)o->bytes, (long long)o->flops, o->calls, of_a,
                others);
        same = false;
    }
    return same;
}

static zero_status train_one(zero_engine *engine, zero_error *error)
{
    static _Thread_local harness_rows rows[8];
    zero_tensors batches[8];
    zero_step_info info;
    double loss;
    for (int k = 0; k < running->accumulation; k++)
        batches[k] = harness_micro_batch(running, 0, k, &rows[k]);
    if (running->stages > 1)
        return zero_train_batch(engine, batches, running->accumulation, &info, error);
    for (int k = 0; k < running->accumulation; k++) {
        ZERO_TRY(zero_forward(engine, &batches[k], &loss, error));
        ZERO_TRY(zero_backward(engine, error));
        ZERO_TRY(zero_step(engine, &info, error));
    }
    return ZERO_OK;
}

static zero_status evaluate_one(zero_engine *engine, zero_error *error)
{
    static _Thread_local harness_rows rows;
    const zero_tensors batch = harness_micro_batch(running, 0, 0, &rows);
    double loss;
    return zero_evaluate(engine, &batch, &loss, error);
}

// Records what `run` does, and compares it with what is expected of it.
static void compare(zero_engine *engine, zero_status (*run)(zero_engine *engine, zero_error *error),
                    const tally *expected)
{
    zero_error error = {0};
    zr_recorder *recorder;
    tally *recorded = calloc(1, sizeof *recorded);
    assert_int_equal(zr_recorder_create(RECORDS, &recorder, &error), ZERO_OK);
    assert_int_equal(zr_engine_record(engine, recorder, &error), ZERO_OK);
    if (run(engine, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_int_equal(zr_engine_record(engine, NULL, &error), ZERO_OK);
    take_records(recorded, recorder);
    assert_true(recorded->count > 0);
    bool all_were_found = agrees(recorded, expected, "recorded");
    if (!agrees(expected, recorded, "found") || !all_were_found)
        abort(); // on a rank's thread, where an assertion cannot fail the test
    zr_recorder_destroy(recorder);
    free(recorded);
}

static zero_status check_engine(zero_engine *engine, zero_error *error)
{
    tally *step = calloc(1, sizeof *step), *evaluation = calloc(1, sizeof *evaluation);
    zr_plan_operations found;
    ZERO_TRY(zr_plan_operations_find(engine->plan, running->backend ? running->backend : "ref",
                                     &found, error));
    expect_step(step, engine->plan, &found);
    compare(engine, train_one, step);
    if (running->dropout == 0 && running->stages < 2) {
        add_pass(evaluation, engine->plan, &found, ZR_PASS_EVALUATION, 1);
        compare(engine, evaluate_one, evaluation);
    }
    zr_plan_operations_free(&found);
    free(step);
    free(evaluation);
    return ZERO_OK;
}

static void check(harness_case c)
{
    static harness_result result;
    c.drive = check_engine;
    c.accumulation = c.accumulation ? c.accumulation : 2;
    c.batch = 2;
    running = &c;
    harness_run(&c, &result);
}

#define BF16 "\"bf16\": {\"enabled\": true}"

static void models_and_precisions(void **state)
{
    const zero_llama_config llama = harness_llama();
    static const char *const precisions[] = {NULL, BF16, "\"fp16\": {\"enabled\": true}"};
    for (int p = 0; p < ZR_COUNT(precisions); p++)
        for (int stage = 0; stage <= 3; stage += 3) {
            check((harness_case){.stage = stage, .ranks = 1, .precision = precisions[p]});
            check((harness_case){
                .stage = stage, .ranks = 1, .llama = &llama, .precision = precisions[p]});
        }
}

static void dropout(void **state)
{
    check((harness_case){.stage = 2, .ranks = 1, .dropout = 0.1f});
    check((harness_case){.stage = 1, .ranks = 2, .dropout = 0.1f, .precision = BF16});
}

static void kernels_of_the_processor(void **state)
{
    check((harness_case){.stage = 1, .ranks = 1, .backend = "cpu"});
    check((harness_case){.stage = 1, .ranks = 1, .backend = "cpu", .precision = BF16});
}

static void tiles(void **state)
{
    check((harness_case){.stage = 3,
                         .ranks = 2,
                         .tiles_embedding = 3,
                         .tiles_attention = 2,
                         .tiles_mlp = 4,
                         .precision = BF16});
}

static void tensors(void **state)
{
    zero_llama_config llama = harness_llama();
    for (int rows = 0; rows < 2; rows++) {
        harness_case c = {.stage = 1, .ranks = 1, .slices = 2, .tensor = 2, .by_rows = rows};
        check(c);
        c.precision = BF16;
        check(c);
        c.llama = &llama;
        check(c);
        c.slices = 4; // more slices than heads of keys and values: gradients of shared ones
        c.tensor = 4;
        check(c);
    }
}

static void split_backward(void **state)
{
    zero_llama_config llama = harness_llama();
    llama.tied = 0;
    llama.n_layer = 4;
    static const char *const schedules[] = {"1f1b", "zb-h1", "gpipe"};
    for (int s = 0; s < ZR_COUNT(schedules); s++)
        check((harness_case){.stage = 1,
                             .ranks = 1,
                             .llama = &llama,
                             .accumulation = 3,
                             .stages = 2,
                             .schedule = schedules[s]});
    check((harness_case){
        .stage = 0, .ranks = 1, .layers = 4, .stages = 2, .schedule = "zb-h1", .precision = BF16});
}

static void find_of_plan(zero_engine *engine)
{
    zr_plan_operations found;
    zero_error error = {0};
    const zr_unit_operations *head;
    assert_int_equal(zr_plan_operations_find(engine->plan, "ref", &found, &error), ZERO_OK);
    head = &found.units[found.unit_count - 1];
    // A training makes both parts in one call, an evaluation makes forward alone.
    assert_true(head->calls[ZR_CALL_BOTH].count > 0 && head->calls[ZR_CALL_FORWARD].count > 0);
    assert_int_equal(head->calls[ZR_CALL_BACKWARD].count, 0);
    assert_int_equal(head->calls[ZR_CALL_WEIGHT].count, 0);
    zr_plan_operations_free(&found);
    assert_null(found.units);
}

static zero_status look_at_plan(zero_engine *engine, zero_error *error)
{
    find_of_plan(engine);
    return ZERO_OK;
}

static void calls_that_are_not_made_have_none(void **state)
{
    static harness_result result;
    const harness_case c = {
        .stage = 1, .ranks = 1, .batch = 1, .accumulation = 1, .drive = look_at_plan};
    harness_run(&c, &result);
}

static long peak_kilobytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void a_model_larger_than_memory_takes_none(void **state)
{
    const lm_plan_case c = {.spec = "llama:layers=1,width=65536,inner=262144,heads=512,kv_heads=64,"
                                    "vocab=262144,context=8192",
                            .batch = 4,
                            .seq = 8192,
                            .stage = 3,
                            .ranks = 64};
    lm_plan p = lm_plan_create(&c);
    zr_plan_operations found;
    zero_error error = {0};
    long before = peak_kilobytes();
    assert_int_equal(zr_plan_operations_find(p.plan, "ref", &found, &error), ZERO_OK);
    assert_true(peak_kilobytes() - before < 64 << 10);
    const zr_operation *first = &found.units[1].calls[ZR_CALL_BACKWARD].at[0];
    assert_true(found.units[1].calls[ZR_CALL_BACKWARD].count > 0 && first->bytes > 0);
    zr_plan_operations_free(&found);
    lm_plan_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_and_precisions),
        cmocka_unit_test(dropout),
        cmocka_unit_test(kernels_of_the_processor),
        cmocka_unit_test(tiles),
        cmocka_unit_test(tensors),
        cmocka_unit_test(split_backward),
        cmocka_unit_test(calls_that_are_not_made_have_none),
        cmocka_unit_test(a_model_larger_than_memory_takes_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
