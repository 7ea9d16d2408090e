// 2bw gives, bit for bit, the training whose every update is delayed by one step, on as many data
// ranks without a pipeline; and windows of any lengths give the same one.
#include "window_runs.h"

#include "engine/engine_api.h"
#include "layers/layers.h"

#include "../sanitizers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static windows_result delayed, piped;

// Runs the case without a pipeline, with its updates delayed from the first step on. That needs
// states on the host, which are partitioned at stage 1 and above.
static void run_delayed(const windows_case *c)
{
    char libzero[256];
    windows_case plain = *c;
    snprintf(libzero, sizeof libzero, "\"delayed_update\": {\"start_step\": 1}%s%s",
             c->libzero ? ", " : "", c->libzero ? c->libzero : "");
    plain.libzero = libzero;
    plain.base.stages = 0;
    plain.base.stage = c->base.stage ? c->base.stage : 1;
    plain.base.tiers = "\"offload_optimizer\": {\"device\": \"cpu\"}";
    windows_run(&plain, &delayed);
    assert_true(delayed.info[0].loss != delayed.info[2].loss);
}

static void expect_delayed(const windows_case *c, int stages, const char *what)
{
    windows_case p = *c;
    p.base.stages = stages;
    p.base.schedule = "2bw";
    windows_run(&p, &piped);
    const char *difference = windows_difference(&delayed, &piped);
    if (difference)
        fail_msg("%s: ZeRO stage %d, %d data ranks, %d pipeline stages, K %d: another %s", what,
                 c->base.stage, c->base.ranks, stages, c->base.accumulation, difference);
}

// Every number of pipeline stages, each with the fewest micro-batches of a step, one more, and
// more; every ZeRO stage, on one and on two data ranks.
static void the_bits_of_delayed_updates(void **state)
{
    static const int lengths[][WINDOWS_MOST] = {{3}, {2, 1}, {5}, {1, 2, 3, 1}};
    const zero_llama_config llama = windows_llama();
    for (int stages = 2; stages <= 4; stages++)
        for (int k = 0; k < 3; k++)
            for (int data = 1; data <= 2; data++) {
                int turn = stages + k + data;
                windows_case c = {.base = {.ranks = data,
                                           .accumulation = k < 2 ? stages + k : 8,
                                           .batch = 1,
                                           .clipping = 0.5,
                                           .llama = &llama}};
                if (SANITIZED && turn != 5 && turn != 8)
                    continue;
                memcpy(c.lengths, lengths[turn % 4], sizeof c.lengths);
                run_delayed(&c);
                for (c.base.stage = turn % 2; c.base.stage <= 3; c.base.stage += SANITIZED ? 4 : 2)
                    expect_delayed(&c, stages, "plain");
            }
}

// A limit that the norm always exceeds, and one that it never does, are different trainings.
static void clipping_bites(void **state)
{
    static windows_result free_run;
    const zero_llama_config llama = windows_llama();
    windows_case c = {
        .base = {.stage = 1, .ranks = 1, .accumulation = 2, .batch = 2, .llama = &llama},
        .lengths = {4}};
    c.base.clipping = 1e-3;
    run_delayed(&c);
    expect_delayed(&c, 2, "clipped");
    memcpy(&free_run, &piped, sizeof piped);
    assert_true(free_run.info[0].grad_norm > 1e-3);
    c.base.clipping = 0;
    run_delayed(&c);
    expect_delayed(&c, 2, "not clipped");
    assert_string_equal(windows_difference(&free_run, &piped), "step 2");
}

static void windows_of_any_length(void **state)
{
    static const int lengths[][WINDOWS_MOST] = {{1}, {2}, {5}, {7}, {1, 5, 1}, {3, 2, 2}};
    const zero_llama_config llama = windows_llama();
    for (int stage = SANITIZED ? 3 : 0; stage <= 3; stage++) {
        windows_case c = {.base = {.stage = stage,
                                   .ranks = 1 + stage % 2,
                                   .accumulation = 3,
                                   .batch = 1,
                                   .clipping = 1,
                                   .llama = &llama}};
        run_delayed(&c);
        for (size_t i = (size_t)stage % 2; i < sizeof lengths / sizeof *lengths; i += 2) {
            memcpy(c.lengths, lengths[i], sizeof c.lengths);
            expect_delayed(&c, 2 + stage % 2, "windows");
        }
    }
}

static bool is_frozen(const void *user, const char *name) { return strstr(name, user) != NULL; }

typedef struct variety { // something else that a step does
    const char *name, *more, *libzero, *tiers;
    harness_case base;
} variety;

static const struct zr_lm_frozen frozen = {is_frozen, "mlp"};
static char nvme[256];

static const variety varieties[] = {
    {"bf16", "\"bf16\": {\"enabled\": true}", .base = {.ranks = 2}},
    {"bf16, fp32 sums",
     "\"bf16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": \"fp32\"}",
     .base = {.ranks = 2}},
    {"fp16", "\"fp16\": {\"enabled\": true, \"loss_scale\": 128}", .base = {.ranks = 1}},
    {"host", .tiers = "\"offload_optimizer\": {\"device\": \"cpu\"}", .base = {.ranks = 2}},
    {"NVMe", .tiers = nvme, .base = {.ranks = 2}},
    {"NVMe, bf16", "\"bf16\": {\"enabled\": true}", .tiers = nvme, .base = {.ranks = 1}},
    {"masked", .base = {.ranks = 2, .masked = true}},
    {"checkpoints", "\"activation_checkpointing\": {\"number_checkpoints\": 4}",
     .base = {.ranks = 1}},
    {"overlap", .base = {.ranks = 2, .overlap = true}},
    {"SGD", .base = {.ranks = 1, .optimizer = "SGD"}},
    {"schedule",
     "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 4, "
     "\"warmup_type\": \"linear\"}}",
     .base = {.ranks = 1}},
    {"frozen", .base = {.ranks = 2, .frozen = &frozen}},
    {"tied", .libzero = "\"exact_pipeline\": true",
     .base = {.ranks = 2, .layers = 4, .dropout = 0.1f}},
    {"tied, bf16", "\"bf16\": {\"enabled\": true}", .libzero = "\"exact_pipeline\": true",
     .base = {.ranks = 1, .layers = 4}},
};

// The reference has its states on the host; the pipeline where `tiers` says.
static void expect_variety(const variety *v, int stage, int stages, const zero_llama_config *llama)
{
    windows_case c = {
        .base = v->base, .more = v->more, .libzero = v->libzero, .lengths = {2, 3, 1, 1}};
    c.base.stage = stage;
    c.base.accumulation = 4;
    c.base.batch = 2;
    c.base.clipping = 1;
    if (!c.base.layers)
        c.base.llama = llama;
    run_delayed(&c);
    c.base.tiers = v->tiers;
    expect_delayed(&c, stages, v->name);
}

static void whatever_else_a_step_does(void **state)
{
    const zero_llama_config llama = windows_llama();
    for (int v = 0; v < (int)(sizeof varieties / sizeof *varieties); v += 1 + 2 * SANITIZED)
        expect_variety(&varieties[v], varieties[v].tiers ? 1 + v % 3 : v % 4, 2 + v / 4 % 3,
                       &llama);
}

// Where a window has one step, no gradient is late under pipedream. Each begins with another one of
// the copies that the stage keeps for windows of three steps.
static void expect_synchronous(const variety *v, int stage, int stages,
                               const zero_llama_config *llama)
{
    windows_case c = {.base = v->base, .more = v->more};
    c.base.stage = stage;
    c.base.accumulation = 2;
    c.base.batch = 2;
    c.base.llama = llama;
    c.base.tiers = v->tiers;
    windows_run(&c, &delayed);
    c.base.stages = stages;
    c.base.schedule = "pipedream";
    memcpy(c.lengths, (int[WINDOWS_MOST]){1, 1, 1, 1, 1, 1, 1, 3}, sizeof c.lengths);
    windows_run(&c, &piped);
    windows_expect_same(&delayed, &piped, v->name);
}

// Targets cannot be masked under pipedream.
static void pipedream_that_drains_after_each_step_is_synchronous(void **state)
{
    static const variety lamb = {"LAMB", .base = {.ranks = 2, .optimizer = "LAMB"}};
    const zero_llama_config llama = windows_llama();
    expect_synchronous(&lamb, 2, 3, &llama);
    for (size_t v = SANITIZED; v < sizeof varieties / sizeof *varieties; v += 1 + 5 * SANITIZED)
        if (!varieties[v].base.layers && !varieties[v].base.masked)
            expect_synchronous(&varieties[v], varieties[v].tiers ? 1 + (int)v % 2 : (int)v % 3,
                               2 + (int)v % 3, &llama);
}

// With late gradients it has one set of bits at all ZeRO stages, on any tier, with exchanges on a
// thread of their own, and over tensor ranks.
static void pipedream_has_one_set_of_bits(void **state)
{
    const zero_llama_config llama = windows_llama();
    for (int frozen_too = SANITIZED; frozen_too < 2; frozen_too++) {
        windows_case c = windows_case_of(&llama, "pipedream", 3);
        c.base.stage = 0;
        c.base.ranks = 2;
        c.base.accumulation = 1;
        c.base.slices = 2;
        c.base.tensor = 1;
        c.base.frozen = frozen_too ? &frozen : NULL;
        c.more = frozen_too ? "\"bf16\": {\"enabled\": true}" : NULL;
        windows_run(&c, &delayed);
        c.base.stage = 1;
        c.base.tiers = nvme;
        windows_run(&c, &piped);
        windows_expect_same(&delayed, &piped, "ZeRO stage 1, NVMe");
        c.base.stage = 2;
        c.base.tiers = NULL;
        c.base.tensor = 2;
        c.base.overlap = true;
        windows_run(&c, &piped);
        windows_expect_same(&delayed, &piped, "ZeRO stage 2, 2 tensor ranks");
    }
}

// An overflow skips its own update alone: the steps before and after it make theirs.
static void a_step_that_overflows_is_skipped(void **state)
{
    const zero_llama_config llama = windows_llama();
    windows_case c = {
        .base =
            {.stage = 2, .ranks = 2, .accumulation = 4, .batch = 1, .clipping = 1, .llama = &llama},
        .more = "\"fp16\": {\"enabled\": true, \"loss_scale\": 524288}",
        .lengths = {4, 3}};
    int skipped = 0;
    run_delayed(&c);
    for (int s = 0; s < WINDOWS_STEPS; s++)
        skipped += delayed.info[s].skipped;
    assert_in_range(skipped, 1, WINDOWS_STEPS - 2);
    expect_delayed(&c, 2, "overflow");
    expect_delayed(&c, 4, "overflow");
}

static _Atomic int counted_otherwise; // ranks, at the end of a window

static zero_status count_updates(zero_engine *engine, int64_t step, zero_error *error)
{
    counted_otherwise += zr_engine_progress(engine).updates != step;
    return ZERO_OK;
}

// Under pipedream each stage skips its own updates, so all count steps: the learning rate is that
// of a run in which nothing overflows.
static void pipedream_counts_steps_that_it_skips(void **state)
{
    static const char *const scales[] = {"128", "524288"};
    const zero_llama_config llama = windows_llama();
    int skipped = 0;
    for (int i = 0; i < 2; i++) {
        char more[256];
        windows_case c = windows_case_of(&llama, "pipedream", 3);
        snprintf(more, sizeof more,
                 "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 9, "
                 "\"warmup_type\": \"linear\"}}, \"fp16\": {\"enabled\": true, \"loss_scale\": %s}",
                 scales[i]);
        c.more = more;
        c.between = count_updates;
        counted_otherwise = 0;
        windows_run(&c, i ? &piped : &delayed);
        assert_int_equal(counted_otherwise, 0);
    }
    for (int s = 0; s < WINDOWS_STEPS; s++) {
        assert_true(piped.info[s].lr == delayed.info[s].lr);
        assert_int_equal(delayed.info[s].skipped, 0);
        skipped += piped.info[s].skipped;
    }
    assert_in_range(skipped, 1, WINDOWS_STEPS - 1);
}

// LAMB cannot be delayed; its bits must not depend on windows, ranks of the pipeline, or ZeRO.
static void lamb(void **state)
{
    const zero_llama_config llama = windows_llama();
    windows_case c = {.base = {.ranks = 2,
                               .accumulation = 4,
                               .batch = 1,
                               .clipping = 1,
                               .llama = &llama,
                               .optimizer = "LAMB"}};
    c.base.stages = 2;
    c.base.schedule = "2bw";
    windows_run(&c, &delayed);
    c.lengths[0] = 4;
    for (c.base.stage = SANITIZED; c.base.stage <= 3; c.base.stage += 1 + SANITIZED)
        expect_delayed(&c, 2 + c.base.stage % 3, "LAMB");
}

static void tensor_ranks(void **state)
{
    for (int data = 1; data <= 2; data++)
        for (int stage = SANITIZED ? 2 * data - 1 : 1; stage <= 3; stage += SANITIZED ? 4 : 2) {
            zero_llama_config llama = windows_llama();
            windows_case c = {.base = {.stage = stage,
                                       .ranks = 1,
                                       .accumulation = 4,
                                       .batch = 1,
                                       .clipping = 1,
                                       .llama = &llama,
                                       .slices = 2,
                                       .tensor = 1},
                              .libzero = "\"exact_world\": true",
                              .lengths = {3, 2}};
            run_delayed(&c);
            c.base.ranks = data;
            c.base.accumulation = 4 / data;
            c.base.tensor = 2;
            c.base.by_rows = stage == 3;
            expect_delayed(&c, 2, "2 tensor ranks");
            if (data == 1)
                expect_delayed(&c, 4, "2 tensor ranks");
        }
}

int main(void)
{
    snprintf(nvme, sizeof nvme,
             "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"%s\"}, "
             "\"sub_group_size\": 3000",
             harness_scratch());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_of_delayed_updates),
        cmocka_unit_test(clipping_bites),
        cmocka_unit_test(windows_of_any_length),
        cmocka_unit_test(whatever_else_a_step_does),
        cmocka_unit_test(a_step_that_overflows_is_skipped),
        cmocka_unit_test(pipedream_counts_steps_that_it_skips),
        cmocka_unit_test(lamb),
        cmocka_unit_test(pipedream_that_drains_after_each_step_is_synchronous),
        cmocka_unit_test(pipedream_has_one_set_of_bits),
        cmocka_unit_test(tensor_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
