// What may be done between two windows of an asynchronous pipeline, when it is empty: evaluations,
// reads and writes, checkpoints; and the calls that are refused.
#include "../base/scratch_directory.h"
#include "windows.h"

#include "engine/engine_inner.h"
#include "engine/rank_grid.h"
#include "model/tensor_walk.h"
#include "model/unit.h"

#include "../sanitizers.h"

#include <math.h>
#include <stdatomic.h>

enum { SAVED_AT = 3, MOST_ELEMENTS = 4096 };

static windows_result whole, other;

static zero_llama_config untied(void)
{
    zero_llama_config config = harness_llama();
    config.n_layer = 4;
    config.tied = 0;
    return config;
}

// schedule: NULL: there is no pipeline, and updates are delayed.
static windows_case case_of(const zero_llama_config *llama, const char *schedule, int stages)
{
    windows_case c = {.base = {.ranks = 1,
                               .stage = 1,
                               .accumulation = 4,
                               .batch = 1,
                               .llama = llama,
                               .schedule = schedule,
                               .stages = stages},
                      .lengths = {3, 2, 2}};
    if (!schedule) {
        c.libzero = "\"delayed_update\": {\"start_step\": 1}";
        c.base.tiers = "\"offload_optimizer\": {\"device\": \"cpu\"}";
    }
    return c;
}

static void expect_same(const char *what)
{
    const char *difference = windows_difference(&other, &whole);
    if (difference)
        fail_msg("%s: another %s", what, difference);
}

// ---- checkpoints ----

static void save(windows_case c, const char *directory)
{
    c.steps = c.save_at = SAVED_AT;
    c.save = directory;
    windows_run(&c, &other);
}

static void go_on(windows_case c, const char *directory, windows_result *out)
{
    c.base.load = directory;
    windows_run(&c, out);
    assert_int_equal(out->first, SAVED_AT);
}

static void a_resumed_run_is_the_uninterrupted_one(void **state)
{
    static const char *const schedules[] = {"2bw", "pipedream"};
    static const char *const precisions[] = {NULL, "\"bf16\": {\"enabled\": true}"};
    const zero_llama_config llama = untied();
    for (int i = 0; i < 2; i++)
        for (int stages = 2; stages <= 4; stages++) {
            windows_case c = case_of(&llama, schedules[i], stages);
            char name[32];
            c.base.ranks = 1 + stages % 2;
            c.base.stage = stages % 3;
            c.base.accumulation = i ? stages - 1 : 4;
            c.more = precisions[(i + stages) % 2];
            // Windows after a load begin with the first length anew.
            memcpy(c.lengths, (int[WINDOWS_MOST]){3, 3, 3, 3, 3, 3, 3, 3}, sizeof c.lengths);
            snprintf(name, sizeof name, "same-%d-%d", i, stages);
            windows_run(&c, &whole);
            save(c, scratch_path(*state, name));
            go_on(c, scratch_path(*state, name), &other);
            expect_same(schedules[i]);
        }
}

// The file of 2bw is that of a delayed run, on any grid. Where data ranks are others, too, the sums
// have to be exact.
static void delayed_runs_and_2bw_go_on_from_each_other(void **state)
{
    static const char *const forms[] = {NULL, "\"bf16\": {\"enabled\": true}, \"data_types\": "
                                              "{\"grad_accum_dtype\": \"fp32\"}"};
    const zero_llama_config llama = untied();
    for (int form = 0; form < 2; form++) {
        windows_case delayed = case_of(&llama, NULL, 0);
        windows_case two = case_of(&llama, "2bw", 2), four = case_of(&llama, "2bw", 4);
        delayed.more = two.more = four.more = forms[form];
        four.base.stage = 3;
        memcpy(two.lengths, (int[WINDOWS_MOST]){1, 2, 1}, sizeof two.lengths);
        windows_run(&delayed, &whole);
        save(delayed, scratch_path(*state, form ? "delayed-bf16" : "delayed"));
        save(two, scratch_path(*state, form ? "two-bf16" : "two"));
        go_on(four, scratch_path(*state, form ? "delayed-bf16" : "delayed"), &other);
        expect_same("2bw after a delayed run");
        go_on(delayed, scratch_path(*state, form ? "two-bf16" : "two"), &other);
        expect_same("a delayed run after 2bw");
        go_on(four, scratch_path(*state, form ? "two-bf16" : "two"), &other);
        expect_same("2bw on four pipeline stages after two");
    }
}

static void other_data_ranks_go_on(void **state)
{
    const zero_llama_config llama = untied();
    windows_case one = case_of(&llama, "2bw", 2), two = one;
    one.libzero = two.libzero = "\"exact_world\": true";
    two.base.ranks = 2;
    two.base.stage = 3;
    two.base.accumulation = 2;
    windows_run(&one, &whole);
    save(one, scratch_path(*state, "exact"));
    go_on(two, scratch_path(*state, "exact"), &other);
    expect_same("two data ranks after one");
}

// A synchronous run goes on from 2bw as from a delayed run, and 2bw from a synchronous one as a
// delayed run does.
static void synchronous_runs_and_2bw_go_on_from_each_other(void **state)
{
    const zero_llama_config llama = untied();
    windows_case delayed = case_of(&llama, NULL, 0), two = case_of(&llama, "2bw", 2);
    windows_case plain = case_of(&llama, "1f1b", 2);
    memset(plain.lengths, 0, sizeof plain.lengths);
    save(two, scratch_path(*state, "late"));
    go_on(plain, scratch_path(*state, "late"), &whole);
    save(delayed, scratch_path(*state, "late2"));
    plain.base.stages = 4;
    plain.base.stage = 2;
    go_on(plain, scratch_path(*state, "late2"), &other);
    expect_same("1f1b after 2bw, and after a delayed run");
    save(plain, scratch_path(*state, "plain"));
    go_on(delayed, scratch_path(*state, "plain"), &whole);
    go_on(two, scratch_path(*state, "plain"), &other);
    expect_same("2bw after 1f1b");
}

// After pipedream all updates have been made, so any run goes on from its weights.
static void synchronous_runs_go_on_from_pipedream(void **state)
{
    const zero_llama_config llama = untied();
    windows_case c = case_of(&llama, "pipedream", 3), plain = case_of(&llama, "1f1b", 2);
    memset(plain.lengths, 0, sizeof plain.lengths);
    save(c, scratch_path(*state, "dream"));
    go_on(plain, scratch_path(*state, "dream"), &whole);
    plain.base.stages = 0;
    go_on(plain, scratch_path(*state, "dream"), &other);
    expect_same("no pipeline after pipedream");
}

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
    const zero_llama_config llama = untied();
    for (int i = 0; i < 2; i++)
        for (int zero_stage = 0; zero_stage <= 3; zero_stage += 1 + SANITIZED) {
            windows_case delayed = case_of(&llama, NULL, 0), c = case_of(&llama, "2bw", 3);
            delayed.between = c.between = what[i];
            delayed.base.ranks = c.base.ranks = 1 + zero_stage % 2;
            c.base.stage = zero_stage;
            windows_run(&delayed, &whole);
            windows_run(&c, &other);
            expect_same(i ? "with writes" : "with zero_finish_update");
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
    const zero_llama_config llama = untied();
    for (int i = 0; i < 2; i++)
        for (int zero_stage = 0; zero_stage <= 2; zero_stage++) {
            windows_case c = case_of(&llama, schedules[i], 2 + zero_stage);
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
    const zero_llama_config llama = untied();
    for (int stages = 2; stages <= 4; stages++) {
        windows_case c = case_of(&llama, "pipedream", stages);
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
    const zero_llama_config llama = untied();
    for (int i = 0; i < 2; i++)
        for (int stages = 2; stages <= 4; stages++)
            for (int data = 1; data <= 2; data++) {
                windows_case c = case_of(&llama, schedules[i], stages);
                int64_t each = 6 * data * 2 * (stages - 1);
                c.base.accumulation = i ? 1 : 4;
                c.base.ranks = data;
                c.base.stage = (stages + data) % 3;
                c.between = count;
                c.steps = 6;
                memcpy(c.lengths, (int[WINDOWS_MOST]){6}, sizeof c.lengths);
                sent = planned = messages = parameters_unlike = 0;
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
    expect_same("after calls that are refused");
}

static void wrong_calls_are_refused_and_change_nothing(void **state)
{
    const zero_llama_config llama = untied();
    expect_all_refused(case_of(&llama, "2bw", 2), 2, 3);
    expect_all_refused(case_of(&llama, "pipedream", 2), 2, 3);
    windows_case plain = case_of(&llama, NULL, 0), piped = case_of(&llama, "1f1b", 2);
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
    const zero_llama_config llama = untied();
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
        cmocka_unit_test_setup_teardown(a_resumed_run_is_the_uninterrupted_one, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(delayed_runs_and_2bw_go_on_from_each_other, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(other_data_ranks_go_on, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(synchronous_runs_and_2bw_go_on_from_each_other,
                                        scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(synchronous_runs_go_on_from_pipedream, scratch_open,
                                        scratch_close),
        cmocka_unit_test(who_looks_and_changes_does_it_as_in_a_delayed_run),
        cmocka_unit_test(gradients_are_those_of_the_last_step),
        cmocka_unit_test(pipedream_evaluates_its_newest_weights),
        cmocka_unit_test(messages_and_versions_are_those_of_the_formula),
        cmocka_unit_test(wrong_calls_are_refused_and_change_nothing),
        cmocka_unit_test(pipedream_refuses_masked_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
