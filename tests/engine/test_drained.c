// What may be done between two windows of an asynchronous pipeline, when it is empty: evaluations,
// reads and writes; what is counted; and the calls that are refused.
#include "../base/scratch_directory.h"
#include "window_runs.h"

#include "engine/engine_api.h"
#include "engine/rank_grid.h"
#include "model/unit.h"

#include "../sanitizers.h"

#include <math.h>
#include <stdatomic.h>

enum { MOST_ELEMENTS = 4096 };

static windows_result whole, other;

// ---- views and changes between windows ----

static const zero_model *whole_of(const zero_engine *engine)
{
    const zero_model *model = zr_engine_plan(engine)->model;
    return model->whole ? model->whole : model;
}

static zero_status see_all(zero_engine *engine, zero_error *error)
{
    static _Thread_local float values[MOST_ELEMENTS];
    double loss;
    for (zr_tensor_walk w = zr_tensors_of(whole_of(engine)); w.desc; zr_tensors_next(&w)) {
        int64_t n = zr_tensor_desc_elements(w.desc);
        ZERO_TRY(zero_read_parameter(engine, w.desc->name, values, n, error));
        windows_see(engine, values, (size_t)n * sizeof *values);
        ZERO_TRY(zero_read_gradient(engine, w.desc->name, values, n, error));
        windows_see(engine, values, (size_t)n * sizeof *values);
    }
    ZERO_TRY(windows_evaluate(engine, &loss, error));
    windows_see(engine, &loss, sizeof loss);
    return ZERO_OK;
}

static zero_status see_and_finish(zero_engine *engine, int64_t step, zero_error *error)
{
    if (step != 3 && step != 5)
        return ZERO_OK;
    ZERO_TRY(see_all(engine, error));
    if (step == 5)
        ZERO_TRY(zero_finish_update(engine, error));
    return see_all(engine, error);
}

// Changes a tensor of the first and one of the last pipeline stage.
static zero_status see_and_write(zero_engine *engine, int64_t step, zero_error *error)
{
    static const char *const names[] = {"model.layers.0.input_layernorm.weight",
                                        "model.norm.weight"};
    float values[64];
    if (step != 3)
        return ZERO_OK;
    ZERO_TRY(see_all(engine, error));
    for (int i = 0; i < 2; i++) {
        ZERO_TRY(zero_read_parameter(engine, names[i], values, 16, error));
        for (int e = 0; e < 16; e++)
            values[e] *= 1.25f;
        ZERO_TRY(zero_write_parameter(engine, names[i], values, 16, error));
    }
    return see_all(engine, error);
}

static void who_looks_and_changes_does_it_as_in_a_delayed_run(void **state)
{
    static zero_status (*const what[])(zero_engine *, int64_t, zero_error *) = {see_and_finish,
                                                                                see_and_write};
    const zero_llama_config llama = windows_llama();
    for (int i = 0; i < 2; i++)
        for (int zero_stage = 0; zero_stage <= 3; zero_stage += 1 + SANITIZED) {
            windows_case delayed = windows_case_of(&llama, NULL, 0),
                         c = windows_case_of(&llama, "2bw", 3);
            delayed.between = c.between = what[i];
            delayed.base.ranks = c.base.ranks = 1 + zero_stage % 2;
            c.base.stage = zero_stage;
            windows_run(&delayed, &whole);
            windows_run(&c, &other);
            windows_expect_same(&other, &whole, i ? "with writes" : "with zero_finish_update");
        }
}

static double last_norm; // of the step before the window's end

static zero_status sum_gradients(zero_engine *engine, int64_t step, zero_error *error)
{
    static _Thread_local float values[MOST_ELEMENTS];
    double sum = 0;
    for (zr_tensor_walk w = zr_tensors_of(whole_of(engine)); w.desc; zr_tensors_next(&w)) {
        int64_t n = zr_tensor_desc_elements(w.desc);
        ZERO_TRY(zero_read_gradient(engine, w.desc->name, values, n, error));
        for (int64_t i = 0; i < n; i++)
            sum += (double)values[i] * values[i];
    }
    if (step == WINDOWS_STEPS && zr_engine_comm(engine)->rank == 0)
        last_norm = sqrt(sum);
    return ZERO_OK;
}

static void gradients_are_those_of_the_last_step(void **state)
{
    static const char *const schedules[] = {"2bw", "pipedream"};
    const zero_llama_config llama = windows_llama();
    for (int i = 0; i < 2; i++)
        for (int zero_stage = 0; zero_stage <= 2; zero_stage++) {
            windows_case c = windows_case_of(&llama, schedules[i], 2 + zero_stage);
            c.base.stage = zero_stage;
            c.between = sum_gradients;
            windows_run(&c, &whole);
            double norm = whole.info[WINDOWS_STEPS - 1].grad_norm;
            assert_true(fabs(last_norm - norm) < 1e-6 * norm);
        }
}

static zero_status write_and_evaluate(zero_engine *engine, zero_error *error)
{
    const float *at = whole.run.parameters;
    double loss;
    for (zr_tensor_walk w = zr_tensors_of(whole_of(engine)); w.desc; zr_tensors_next(&w)) {
        int64_t n = zr_tensor_desc_elements(w.desc);
        ZERO_TRY(zero_write_parameter(engine, w.desc->name, at, n, error));
        at += n;
    }
    ZERO_TRY(windows_evaluate(engine, &loss, error));
    if (loss != whole.evaluated || loss != whole.finished)
        fail_msg("pipedream evaluates to %.17g, then %.17g; its weights to %.17g", whole.evaluated,
                 whole.finished, loss);
    return ZERO_OK;
}

static void pipedream_evaluates_its_newest_weights(void **state)
{
    static harness_result plain;
    const zero_llama_config llama = windows_llama();
    for (int stages = 2; stages <= 4; stages++) {
        windows_case c = windows_case_of(&llama, "pipedream", stages);
        c.base.accumulation = 1;
        memcpy(c.lengths, (int[WINDOWS_MOST]){5, 2}, sizeof c.lengths);
        windows_run(&c, &whole);
        harness_run(&(harness_case){.stage = 1,
                                    .ranks = 1,
                                    .accumulation = 1,
                                    .batch = 1,
                                    .llama = &llama,
                                    .drive = write_and_evaluate},
                    &plain);
    }
}

// ---- what is counted ----

static _Atomic int64_t sent, planned, messages;
static _Atomic int parameters_unlike;

static int64_t planned_of(const zr_plan *plan, zr_pass_kind kind)
{
    return plan->traffic[kind].pipeline.bytes[ZERO_COMM_send];
}

static int64_t planned_of_action(const zr_plan *plan, const zr_action *action)
{
    int64_t ends = planned_of(plan, ZR_PASS_BOUNDARY);
    int64_t update = planned_of(plan, ZR_PASS_TOTAL) + planned_of(plan, ZR_PASS_UPDATE) +
                     planned_of(plan, ZR_PASS_PUBLISH);
    bool alone = zr_plan_schedule(plan) == ZR_PIPELINE_PIPEDREAM;
    switch (action->act) {
    case ZR_ACT_FORWARD: return planned_of(plan, zr_chunk_pass(ZR_CHUNK_FORWARD, 0));
    case ZR_ACT_BACKWARD: return planned_of(plan, zr_chunk_pass(ZR_CHUNK_BACKWARD, 0));
    case ZR_ACT_NORM: return ends;
    default: return update + (alone ? ends : 0);
    }
}

static zero_status count(zero_engine *engine, int64_t step, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(engine);
    zero_traffic traffic;
    zero_memory memory;
    int p = plan->pipeline->pipeline.stages, s = plan->pipeline->stage;
    bool alone = zr_plan_schedule(plan) == ZR_PIPELINE_PIPEDREAM;
    for (int i = 0; i < plan->action_count; i++)
        planned += planned_of_action(plan, &plan->actions[i]);
    if (step < 6)
        return ZERO_OK;
    zr_engine_traffic(engine, ZERO_AXIS_pipeline, &traffic);
    zero_memory_report(engine, &memory);
    sent += traffic.bytes[ZERO_COMM_send];
    messages += traffic.calls[ZERO_COMM_send];
    int versions = alone ? p - s : 2;
    parameters_unlike += plan->versions != versions;
    parameters_unlike +=
        memory.held[ZERO_TIER_device][ZERO_MEM_parameters] != versions * plan->full_bytes;
    return ZERO_OK;
}

// Under 2bw a stage sends the boundaries of its micro-batches, and each stage but the first one
// message with its sums of a step and gets one.
static void messages_and_versions_are_those_of_the_formula(void **state)
{
    static const char *const schedules[] = {"2bw", "pipedream"};
    const zero_llama_config llama = windows_llama();
    for (int i = 0; i < 2; i++)
        for (int stages = 2; stages <= 4; stages++)
            for (int data = 1; data <= 2; data++) {
                windows_case c = windows_case_of(&llama, schedules[i], stages);
                int64_t each = 6 * data * 2 * (stages - 1);
                c.base.accumulation = i ? 1 : 4;
                c.base.ranks = data;
                c.base.stage = (stages + data) % 3;
                c.between = count;
                c.steps = 6;
                memcpy(c.lengths, (int[WINDOWS_MOST]){6}, sizeof c.lengths);
                sent = planned = 0;
                messages = 0;
                parameters_unlike = 0;
                windows_run(&c, &whole);
                assert_int_equal(messages, each * (i ? 1 : 4 + 1));
                assert_int_equal(sent, planned);
                assert_int_equal(parameters_unlike, 0);
            }
}

// ---- refusals ----

static _Atomic int refused;

static void expect_refused(zero_status status, const zero_error *error, const char *words)
{
    refused += status == ZERO_ERR_USAGE && strstr(error->message, words) != NULL;
    if (status != ZERO_ERR_USAGE || !strstr(error->message, words))
        fprintf(stderr, "%s: %s\n", zero_status_name(status), error->message);
}

// None of these calls changes anything.
static zero_status ask_wrongly(zero_engine *engine, int64_t step, zero_error *error)
{
    zero_step_info infos[WINDOWS_STEPS];
    zero_tensors batches[WINDOWS_STEPS] = {{0}};
    zero_error why = {0};
    int64_t most = zero_window(engine);
    char words[96];
    snprintf(words, sizeof words, "expected 1 to %lld (zero_window)", (long long)most);
    expect_refused(zero_train_window(engine, batches, 0, infos, &why), &why, words);
    expect_refused(zero_train_window(engine, batches, most + 1, infos, &why), &why, words);
    expect_refused(zero_train_window(engine, NULL, 1, infos, &why), &why,
                   "zero_train_window: batches is missing");
    expect_refused(zero_train_window(engine, batches, 1, NULL, &why), &why,
                   "zero_train_window: info is missing");
    expect_refused(zero_train_batch(engine, batches, 99, infos, &why), &why,
                   "zero_train_batch: 99 micro-batches; a step has");
    return ZERO_OK;
}

static void expect_all_refused(windows_case c, int ranks, int windows)
{
    windows_run(&c, &whole);
    c.between = ask_wrongly;
    refused = 0;
    windows_run(&c, &other);
    assert_int_equal(refused, 5 * ranks * windows);
    windows_expect_same(&other, &whole, "after calls that are refused");
}

static void wrong_calls_are_refused_and_change_nothing(void **state)
{
    const zero_llama_config llama = windows_llama();
    expect_all_refused(windows_case_of(&llama, "2bw", 2), 2, 3);
    expect_all_refused(windows_case_of(&llama, "pipedream", 2), 2, 3);
    windows_case plain = windows_case_of(&llama, NULL, 0),
                 piped = windows_case_of(&llama, "1f1b", 2);
    memset(piped.lengths, 0, sizeof piped.lengths);
    expect_all_refused(plain, 1, WINDOWS_STEPS);
    expect_all_refused(piped, 2, WINDOWS_STEPS);
}

static zero_status train_masked(zero_engine *engine, zero_error *error)
{
    static const harness_case base = {.batch = 1, .masked = true};
    zero_step_info infos[2];
    return windows_train(engine, &base, 2, infos, error);
}

static void pipedream_refuses_masked_targets(void **state)
{
    const zero_llama_config llama = windows_llama();
    harness_failure ranks[WINDOWS_RANKS];
    harness_case c = {.stage = 1,
                      .ranks = 2,
                      .accumulation = 2,
                      .batch = 1,
                      .llama = &llama,
                      .masked = true,
                      .stages = 3,
                      .schedule = "pipedream",
                      .drive = train_masked};
    harness_try(&c, &whole.run, ranks);
    for (int r = 0; r < 6; r++) {
        assert_int_not_equal(ranks[r].status, ZERO_OK);
        assert_contains(ranks[r].error.message, "positions are targets");
    }
    c.precision = "\"libzero\": {\"loss_mean\": \"micro_batch\"}";
    harness_try(&c, &whole.run, ranks);
    for (int r = 0; r < 6; r++)
        assert_int_equal(ranks[r].status, ZERO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_looks_and_changes_does_it_as_in_a_delayed_run),
        cmocka_unit_test(gradients_are_those_of_the_last_step),
        cmocka_unit_test(pipedream_evaluates_its_newest_weights),
        cmocka_unit_test(messages_and_versions_are_those_of_the_formula),
        cmocka_unit_test(wrong_calls_are_refused_and_change_nothing),
        cmocka_unit_test(pipedream_refuses_masked_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
