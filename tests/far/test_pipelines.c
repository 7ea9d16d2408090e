// Pipelines on the far device (far_training.h): every schedule has the bits of "ref", whatever the
// order in which queues work; and the host waits for losses on the last stage, and for norms.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/file.h"
#include "engine/engine_api.h"
#include "far_training.h"

#include "../sanitizers.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 3, SOME_WAYS = 1 }; // lazy and random 2

// Runs the case on "ref", and on the far device in each order, or in some. told: what the case
// itself tells, of `bytes`, which has to be the same.
static void check_ways(const harness_case *c, const char *name, int which, void *told, size_t bytes)
{
    static harness_result want;
    static char first[4096];
    harness_run(c, &want);
    assert_true(want.skipped || !strstr(name, "a step is skipped"));
    assert_true(bytes <= sizeof first);
    memcpy(first, told, bytes);
    for (int w = which; w < FAR_WAYS; w += 1 + which) {
        char what[200];
        snprintf(what, sizeof what, "%s, %s, %d stages, stage %d, %d data ranks, %s", name,
                 c->schedule, c->stages, c->stage, c->ranks, far_ways[w].name);
        far_train(c, &far_ways[w].options, &want, what);
        if (memcmp(first, told, bytes) != 0)
            fail_msg("%s: other losses or norms", what);
    }
}

static void check(const harness_case *c, const char *name, int which)
{
    char nothing = 0;
    check_ways(c, name, which, &nothing, 0);
}

typedef struct shape {
    const char *schedule;
    int stages, accumulation;
    int last; // of the ZeRO stages that may be
} shape;

static const shape shapes[] = {{"gpipe", 2, 3, 3}, {"1f1b", 3, 4, 3},
                               {"zb-h1", 3, 4, 3}, {"interleaved:2", 2, 4, 3},
                               {"2bw", 2, 4, 3},   {"pipedream", 3, 2, 2}};

static bool is_asynchronous(const shape *s)
{
    return strcmp(s->schedule, "2bw") == 0 || strcmp(s->schedule, "pipedream") == 0;
}

static harness_case case_of(const shape *s, int stage, int ranks)
{
    return (harness_case){.stage = stage,
                          .ranks = ranks,
                          .accumulation = s->accumulation,
                          .batch = 2,
                          .layers = 4,
                          .steps = STEPS,
                          .stages = s->stages,
                          .schedule = s->schedule};
}

// Embedding and head share a table, in the first and in the last stage.
static void check_schedules(int ranks, int first, int step)
{
    for (int i = 0; i < ZR_COUNT(shapes); i++)
        for (int stage = (first + i) % step; stage <= shapes[i].last; stage += step) {
            const harness_case c = case_of(&shapes[i], stage, ranks);
            check(&c, "tied", 0);
        }
}

// With one data rank ZeRO stages differ less.
static void schedules_have_the_bits_of_ref(void **state) { check_schedules(1, 0, 2); }

static void two_data_ranks_have_the_bits_of_ref(void **state)
{
    check_schedules(2, 0, SANITIZED ? 3 : 1);
}

// ---- what else a step does ----

typedef struct variety {
    const char *name, *precision, *optimizer;
    const char *asynchronous; // precision of asynchronous schedules; NULL: the same
    bool masked, untied;
} variety;

static const variety varieties[] = {
    {.name = "bf16", .precision = "\"bf16\": {\"enabled\": true}"},
    {.name = "fp16, a step is skipped",
     .precision = "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 24}",
     .asynchronous = "\"fp16\": {\"enabled\": true, \"loss_scale\": 16777216}"},
    {.name = "LAMB", .optimizer = "LAMB"},
    {.name = "untied, SGD", .optimizer = "SGD", .untied = true},
    {.name = "masked",
     .precision = "\"libzero\": {\"loss_mean\": \"micro_batch\"}",
     .masked = true},
    {.name = "checkpoints on the device",
     .precision = "\"activation_checkpointing\": {\"number_checkpoints\": 4}"},
    {.name = "checkpoints on the host",
     .precision = "\"activation_checkpointing\": {\"number_checkpoints\": 4, "
                  "\"cpu_checkpointing\": true}"},
};

static void whatever_else_a_step_does(void **state)
{
    zero_llama_config untied = harness_llama();
    untied.n_layer = 4;
    untied.tied = 0;
    for (int v = 0; v < ZR_COUNT(varieties); v++)
        for (int i = v % 2; i < ZR_COUNT(shapes); i += 2) {
            harness_case c = case_of(&shapes[i], ZR_MIN((v + i) % 4, shapes[i].last), 1 + v % 2);
            bool fixed = is_asynchronous(&shapes[i]) && varieties[v].asynchronous;
            c.precision = fixed ? varieties[v].asynchronous : varieties[v].precision;
            c.optimizer = varieties[v].optimizer;
            c.masked = varieties[v].masked;
            c.llama = varieties[v].untied ? &untied : NULL;
            check(&c, varieties[v].name, SOME_WAYS);
        }
}

static void tensor_ranks_in_a_pipeline(void **state)
{
    for (int i = 0; i < ZR_COUNT(shapes); i++)
        for (int by_rows = 0; by_rows < 2; by_rows++) {
            harness_case c = case_of(&shapes[i], by_rows ? 1 : ZR_MIN(i, shapes[i].last), 1);
            c.stages = 2;
            c.slices = c.tensor = 2;
            c.by_rows = by_rows;
            check(&c, by_rows ? "tensor 2 by rows" : "tensor 2", SOME_WAYS);
        }
}

static void four_stages(void **state)
{
    const shape deep[] = {{"1f1b", 4, 6, 3}, {"zb-h1", 4, 5, 3}, {"pipedream", 4, 3, 2}};
    for (int i = 0; i < ZR_COUNT(deep); i++) {
        const harness_case c = case_of(&deep[i], 1 + i % 2, 1 + i % 2);
        check(&c, "deep", SOME_WAYS);
    }
}

// ---- windows of asynchronous schedules ----

enum { WINDOW = 3, WINDOWS = 2, WINDOW_STEPS = WINDOW * WINDOWS, MOST_BATCHES = 4 };

static zero_step_info told[WINDOW_STEPS]; // to rank 0

static zero_status train_windows(zero_engine *engine, zero_error *error)
{
    static _Thread_local harness_rows rows[WINDOW * MOST_BATCHES];
    zero_tensors batches[WINDOW * MOST_BATCHES];
    zero_step_info infos[WINDOW];
    int64_t step, g, each = zr_engine_plan(engine)->settings.accumulation;
    const harness_case c = {.batch = 2};
    for (int w = 0; w < WINDOWS; w++) {
        zero_position(engine, &step, &g);
        for (int64_t k = 0; k < WINDOW * each; k++)
            batches[k] = harness_micro_batch(
                &c, step + k / each, g + k % each * zr_engine_plan(engine)->ranks, &rows[k]);
        ZERO_TRY(zero_train_window(engine, batches, WINDOW, infos, error));
        if (zr_engine_comm(engine)->rank == 0)
            memcpy(&told[w * WINDOW], infos, sizeof infos);
    }
    return ZERO_OK;
}

static void windows_of_steps_overlap(void **state)
{
    const shape windows[] = {
        {"2bw", 2, 4, 3}, {"2bw", 3, 4, 3}, {"pipedream", 2, 2, 2}, {"pipedream", 3, 1, 2}};
    for (int i = 0; i < ZR_COUNT(windows); i++)
        for (int stage = 0; stage <= windows[i].last; stage++) {
            harness_case c = case_of(&windows[i], stage, 1 + (i + stage) % 2);
            c.precision = stage % 2 ? "\"bf16\": {\"enabled\": true}, \"libzero\": "
                                      "{\"pipeline\": {\"flush_every\": 3}}"
                                    : "\"libzero\": {\"pipeline\": {\"flush_every\": 3}}";
            c.drive = train_windows;
            memset(told, 0, sizeof told);
            check_ways(&c, "windows", SOME_WAYS, told, sizeof told);
        }
}

// ---- checkpoints ----

// Trains to the end from a checkpoint of the step before the last, which the other device has
// saved.
static void check_resumed(harness_case c, bool saved_on_far)
{
    static harness_result want, got;
    char folder[128];
    snprintf(folder, sizeof folder, "%s/far-pipelines-%d", harness_scratch(), (int)getpid());
    harness_run(&c, &want);
    for (int i = 0; i < 2; i++) {
        far_begin(&(far_options){.order = FAR_RANDOM, .seed = 4});
        c.backend = saved_on_far == (i == 0) ? "far" : "ref";
        c.load = i ? folder : NULL;
        c.save = i ? NULL : folder;
        c.save_at = STEPS - 1;
        harness_run(&c, &got);
        far_end(NULL);
    }
    assert_int_equal(zr_directory_remove(folder, NULL), ZERO_OK);
    assert_memory_equal(got.parameters, want.parameters, (size_t)want.elems * sizeof(float));
    assert_true(got.loss[STEPS - 1] == want.loss[STEPS - 1]);
    assert_true(got.evaluated == want.evaluated);
}

static void checkpoints_go_from_one_device_to_the_other(void **state)
{
    for (int i = 0; i < ZR_COUNT(shapes); i++)
        for (int from_far = 0; from_far < 2; from_far++)
            check_resumed(case_of(&shapes[i], 1, 1 + from_far), from_far);
}

// ---- how often the host waits ----

enum { MOST_STAGES = 4 };

static int64_t waits_before[MOST_STAGES][STEPS + 1]; // of each stage and step, and the end

static void note_waits(zero_comm *comm, int step)
{
    waits_before[comm->rank][step] = far_finishes_of(far_host());
}

static zero_status seal(zero_engine *engine, int step, zero_error *error)
{
    bool first = zr_engine_comm(engine)->rank == 0;
    if (first && step == 0)
        far_seal(); // nothing is reserved in a step
    if (first && step == STEPS - 2)
        far_unseal();
    return ZERO_OK;
}

// A stage's own thread waits for its norm, once a step (and for LAMB's norms); the last stage's for
// the loss of each micro-batch, too. Its comm thread waits beside it, once a message.
static void the_host_waits_for_losses_and_norms_alone(void **state)
{
    static harness_result got;
    for (int i = 0; i < ZR_COUNT(shapes); i++)
        for (int lamb = 0; lamb < 2; lamb++) {
            harness_case c = case_of(&shapes[i], shapes[i].last, 1);
            far_report report;
            c.backend = "far";
            c.optimizer = lamb ? "LAMB" : NULL;
            c.at_step = note_waits;
            c.after = seal;
            far_begin(&(far_options){.order = FAR_LAZY});
            harness_run(&c, &got);
            far_end(&report);
            assert_string_equal(report.first, "");
            for (int s = 0; s < c.stages; s++)
                for (int step = 0; step < STEPS; step++) {
                    int64_t waits = waits_before[s][step + 1] - waits_before[s][step],
                            wanted = 1 + lamb + (s == c.stages - 1 ? c.accumulation : 0);
                    if (waits != wanted)
                        fail_msg("%s, pipeline stage %d, step %d: %lld waits, not %lld", c.schedule,
                                 s, step, (long long)waits, (long long)wanted);
                }
        }
}

// ---- failures ----

// Runs the case so that an operation fails; returns whether a rank says which. No step that ends
// has another loss than without the failure.
static bool fails(const harness_case *c, const far_options *options, const harness_result *want,
                  const char *what)
{
    static harness_result got;
    harness_failure ranks[MOST_STAGES * 2] = {{0}};
    far_report report;
    bool said = false;
    far_begin(options);
    harness_try(c, &got, ranks);
    far_end(&report);
    assert_int_equal(report.allocations, 0);
    assert_string_equal(report.first, "");
    for (int r = 0; r < c->stages * c->ranks; r++) {
        if (ranks[r].status == ZERO_OK)
            fail_msg("%s: rank %d goes on", what, r);
        said = said || strstr(ranks[r].error.message, "fails, as the test asked");
    }
    for (int s = 0; s < STEPS; s++)
        if (got.norm[s] != 0 && (got.loss[s] != want->loss[s] || got.norm[s] != want->norm[s]))
            fail_msg("%s: step %d ends with loss %g, norm %g", what, s, got.loss[s], got.norm[s]);
    return said;
}

// An operation that fails ends all stages, whether their own thread hears of it or their comm
// thread.
static void a_failure_ends_all_stages(void **state)
{
    enum { PARTS = 12 };
    static harness_result want;
    for (int i = 0; i < ZR_COUNT(shapes); i++) {
        far_options options = {.order = i % 2 ? FAR_LAZY : FAR_RANDOM, .seed = 3};
        harness_case c = case_of(&shapes[i], 1, 1 + i % 2);
        far_report whole;
        c.backend = "far";
        c.steps = 2;
        far_begin(&options);
        harness_run(&c, &want);
        far_end(&whole);
        for (int part = 1; part < PARTS; part++) {
            char what[80];
            options.fail_row = whole.executed * part / PARTS;
            snprintf(what, sizeof what, "%s, operation %lld", c.schedule,
                     (long long)options.fail_row);
            if (!fails(&c, &options, &want, what))
                fail_msg("%s: nobody says what failed", what);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_have_the_bits_of_ref),
        cmocka_unit_test(two_data_ranks_have_the_bits_of_ref),
        cmocka_unit_test(whatever_else_a_step_does),
        cmocka_unit_test(tensor_ranks_in_a_pipeline),
        cmocka_unit_test(four_stages),
        cmocka_unit_test(windows_of_steps_overlap),
        cmocka_unit_test(checkpoints_go_from_one_device_to_the_other),
        cmocka_unit_test(the_host_waits_for_losses_and_norms_alone),
        cmocka_unit_test(a_failure_ends_all_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
