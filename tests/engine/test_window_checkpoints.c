// Checkpoints of asynchronous pipelines, between two windows: a resumed run is the uninterrupted
// one, and other schedules go on from them as from what they are.
#include "../base/scratch_directory.h"
#include "window_runs.h"

enum { SAVED_AT = 3 };

static windows_result whole, other;

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
    const zero_llama_config llama = windows_llama();
    for (int i = 0; i < 2; i++)
        for (int stages = 2; stages <= 4; stages++) {
            windows_case c = windows_case_of(&llama, schedules[i], stages);
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
            windows_expect_same(&other, &whole, schedules[i]);
        }
}

#define WARMUP                                                                                     \
    "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": 0.001, "              \
    "\"warmup_max_lr\": 0.01, \"warmup_num_steps\": 6}}"

// Stages of pipedream that overflow skip an update that others make. All tell one learning rate,
// and a resumed run has it, too. At this scale some steps overflow, the first of them included.
static void after_updates_that_some_stages_skip(void **state)
{
    const zero_llama_config llama = windows_llama();
    char nvme[256];
    snprintf(nvme, sizeof nvme,
             "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"%s\"}",
             harness_scratch());
    for (int on_nvme = 0; on_nvme < 2; on_nvme++) {
        windows_case c = windows_case_of(&llama, "pipedream", 3);
        int skipped = 0;
        c.more = WARMUP ", \"fp16\": {\"enabled\": true, \"loss_scale\": 650000}";
        c.base.tiers = on_nvme ? nvme : NULL;
        memcpy(c.lengths, (int[WINDOWS_MOST]){3, 3, 3, 3, 3, 3, 3, 3}, sizeof c.lengths);
        windows_run(&c, &whole);
        save(c, scratch_path(*state, on_nvme ? "nvme" : "device"));
        go_on(c, scratch_path(*state, on_nvme ? "nvme" : "device"), &other);
        windows_expect_same(&other, &whole, "pipedream with overflows");
        for (int s = 0; s < WINDOWS_STEPS; s++)
            skipped += whole.info[s].skipped;
        assert_true(whole.info[0].skipped && skipped < WINDOWS_STEPS);
    }
}

// The file of 2bw is that of a delayed run, on any grid. Where data ranks are others, too, the sums
// have to be exact.
static void delayed_runs_and_2bw_go_on_from_each_other(void **state)
{
    static const char *const forms[] = {NULL, "\"bf16\": {\"enabled\": true}, \"data_types\": "
                                              "{\"grad_accum_dtype\": \"fp32\"}"};
    const zero_llama_config llama = windows_llama();
    for (int form = 0; form < 2; form++) {
        windows_case delayed = windows_case_of(&llama, NULL, 0);
        windows_case two = windows_case_of(&llama, "2bw", 2),
                     four = windows_case_of(&llama, "2bw", 4);
        delayed.more = two.more = four.more = forms[form];
        four.base.stage = 3;
        memcpy(two.lengths, (int[WINDOWS_MOST]){1, 2, 1}, sizeof two.lengths);
        windows_run(&delayed, &whole);
        save(delayed, scratch_path(*state, form ? "delayed-bf16" : "delayed"));
        save(two, scratch_path(*state, form ? "two-bf16" : "two"));
        go_on(four, scratch_path(*state, form ? "delayed-bf16" : "delayed"), &other);
        windows_expect_same(&other, &whole, "2bw after a delayed run");
        go_on(delayed, scratch_path(*state, form ? "two-bf16" : "two"), &other);
        windows_expect_same(&other, &whole, "a delayed run after 2bw");
        go_on(four, scratch_path(*state, form ? "two-bf16" : "two"), &other);
        windows_expect_same(&other, &whole, "2bw on four pipeline stages after two");
    }
}

static void other_data_ranks_go_on(void **state)
{
    const zero_llama_config llama = windows_llama();
    windows_case one = windows_case_of(&llama, "2bw", 2), two = one;
    one.libzero = two.libzero = "\"exact_world\": true";
    two.base.ranks = 2;
    two.base.stage = 3;
    two.base.accumulation = 2;
    windows_run(&one, &whole);
    save(one, scratch_path(*state, "exact"));
    go_on(two, scratch_path(*state, "exact"), &other);
    windows_expect_same(&other, &whole, "two data ranks after one");
}

// A synchronous run goes on from 2bw as from a delayed run, and 2bw from a synchronous one as a
// delayed run does.
static void synchronous_runs_and_2bw_go_on_from_each_other(void **state)
{
    const zero_llama_config llama = windows_llama();
    windows_case delayed = windows_case_of(&llama, NULL, 0),
                 two = windows_case_of(&llama, "2bw", 2);
    windows_case plain = windows_case_of(&llama, "1f1b", 2);
    memset(plain.lengths, 0, sizeof plain.lengths);
    save(two, scratch_path(*state, "late"));
    go_on(plain, scratch_path(*state, "late"), &whole);
    save(delayed, scratch_path(*state, "late2"));
    plain.base.stages = 4;
    plain.base.stage = 2;
    go_on(plain, scratch_path(*state, "late2"), &other);
    windows_expect_same(&other, &whole, "1f1b after 2bw, and after a delayed run");
    save(plain, scratch_path(*state, "plain"));
    go_on(delayed, scratch_path(*state, "plain"), &whole);
    go_on(two, scratch_path(*state, "plain"), &other);
    windows_expect_same(&other, &whole, "2bw after 1f1b");
}

// After pipedream all updates have been made, so any run goes on from its weights.
static void synchronous_runs_go_on_from_pipedream(void **state)
{
    const zero_llama_config llama = windows_llama();
    windows_case c = windows_case_of(&llama, "pipedream", 3),
                 plain = windows_case_of(&llama, "1f1b", 2);
    memset(plain.lengths, 0, sizeof plain.lengths);
    save(c, scratch_path(*state, "dream"));
    go_on(plain, scratch_path(*state, "dream"), &whole);
    plain.base.stages = 0;
    go_on(plain, scratch_path(*state, "dream"), &other);
    windows_expect_same(&other, &whole, "no pipeline after pipedream");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_resumed_run_is_the_uninterrupted_one, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(after_updates_that_some_stages_skip, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(delayed_runs_and_2bw_go_on_from_each_other, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(other_data_ranks_go_on, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(synchronous_runs_and_2bw_go_on_from_each_other,
                                        scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(synchronous_runs_go_on_from_pipedream, scratch_open,
                                        scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
