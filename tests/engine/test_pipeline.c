// Pipelines: every synchronous schedule, at any number of stages, gives the bits of the run without
// a pipeline on as many data ranks; and holds what was planned.
#include "harness.h"

#include "base/errors.h"

#include "../sanitizers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static harness_result plain, piped;

static zero_llama_config untied(int layers)
{
    zero_llama_config config = harness_llama();
    config.n_layer = layers;
    config.tied = 0;
    return config;
}

static void expect_equal(const harness_case *c, const char *schedule, int stages)
{
    harness_case p = *c;
    p.stages = stages;
    p.schedule = schedule;
    harness_run(&p, &piped);
    harness_expect_held(&piped);
    if (!harness_equal(&plain, &piped))
        fail_msg("stage %d, %d data ranks, %d stages, %s, K %d: other bits", c->stage, c->ranks,
                 stages, schedule, c->accumulation);
}

static void schedules_have_the_bits_of_no_pipeline(void **state)
{
    static const int accumulations[] = {1, 2, 3, 8};
    const zero_llama_config llama = untied(6);
    const int more = SANITIZED ? 3 : 1;
    // Under a sanitizer, each stage with one number of micro-batches and of pipeline stages.
    for (int stage = 0; stage <= 3; stage++)
        for (int k = SANITIZED ? stage : 0; k < (SANITIZED ? stage + 1 : 4); k++) {
            harness_case c = {.stage = stage,
                              .ranks = 1 + (stage + k) % 2,
                              .accumulation = accumulations[k],
                              .batch = 1,
                              .clipping = 1,
                              .llama = &llama};
            harness_run(&c, &plain);
            for (int stages = SANITIZED ? 2 + stage % 3 : 2; stages <= 4; stages += more) {
                expect_equal(&c, "gpipe", stages);
                expect_equal(&c, "1f1b", stages);
                expect_equal(&c, "zb-h1", stages);
                if (accumulations[k] % stages == 0)
                    expect_equal(&c, "interleaved:2", stages);
            }
        }
}

typedef struct variety { // something else that a step does
    const char *name, *precision, *tiers, *optimizer;
    int accumulation;
    bool masked;
} variety;

static void whatever_else_a_step_does(void **state)
{
    static const char offload[] =
        "\"offload_optimizer\": {\"device\": \"cpu\"}, \"offload_param\": {\"device\": \"cpu\"}, "
        "\"stage3_param_persistence_threshold\": 0";
    static const char checkpoints[] = "\"activation_checkpointing\": {\"number_checkpoints\": 4}";
    const variety all[] = {
        {"bf16", "\"bf16\": {\"enabled\": true}", .accumulation = 4},
        {"fp16", "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 20}", .accumulation = 4},
        {"LAMB", .optimizer = "LAMB", .accumulation = 4},
        {"host", .tiers = offload, .accumulation = 4},
        {"nvme", .tiers = harness_tiers(2, 2), .accumulation = 4},
        {"masked", .masked = true, .accumulation = 4},
        {"checkpoints", .precision = checkpoints, .accumulation = 4},
        {"interval", "\"pipeline\": {\"activation_checkpoint_interval\": 2}", .accumulation = 4},
        {"delayed", "\"libzero\": {\"delayed_update\": {\"start_step\": 1}}",
         .tiers = "\"offload_optimizer\": {\"device\": \"cpu\"}", .accumulation = 4},
    };
    static const char *const schedules[] = {"gpipe", "1f1b", "zb-h1", "interleaved:2"};
    const zero_llama_config llama = untied(6);
    for (size_t v = 0; v < sizeof all / sizeof *all; v++) {
        harness_case c = {.stage = 3,
                          .ranks = 2,
                          .accumulation = all[v].accumulation,
                          .batch = 2,
                          .clipping = 1,
                          .llama = &llama,
                          .precision = all[v].precision,
                          .tiers = all[v].tiers,
                          .optimizer = all[v].optimizer,
                          .masked = all[v].masked};
        harness_run(&c, &plain);
        // Under a sanitizer, each with one schedule.
        for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
            if (!SANITIZED || i == v % 4)
                expect_equal(&c, schedules[i], 2);
    }
}

// Two sums are one but for their rounding.
static void expect_near_one_sum(const harness_case *c, bool fp32)
{
    harness_case one = *c;
    one.precision = NULL;
    if (!fp32)
        return;
    harness_run(&one, &piped);
    for (int s = 0; s < HARNESS_STEPS; s++) {
        assert_true(fabs(piped.loss[s] - plain.loss[s]) < 1e-5 * plain.loss[s]);
        assert_true(fabs(piped.norm[s] - plain.norm[s]) < 1e-4 * plain.norm[s]);
    }
}

// Embedding and head share a table: its two contributions are summed once a step, at any number of
// stages.
static void shared_tables(void **state)
{
    static const char *const more[] = {
        "", "\"bf16\": {\"enabled\": true}, ",
        "\"activation_checkpointing\": {\"number_checkpoints\": 2}, ",
        "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 20}, "};
    char precision[512], on_nvme[256];
    snprintf(on_nvme, sizeof on_nvme,
             ", \"checkpoints\": {\"device\": \"nvme\", \"nvme_path\": \"%s\"}", harness_scratch());
    for (int stage = 0; stage <= 3; stage++)
        for (int m = SANITIZED ? stage : 0; m < 4; m += SANITIZED ? 4 : 1)
            for (int t = SANITIZED ? stage % 3 : 0; t < 3; t += SANITIZED ? 3 : 1) {
                bool travel = m == 2 && t > 0; // the checkpoints, beside dropout
                snprintf(precision, sizeof precision, "%s\"libzero\": {\"exact_pipeline\": true%s}",
                         more[m], travel ? on_nvme : "");
                harness_case c = {.stage = stage,
                                  .ranks = 1 + (stage + m + t) % 2,
                                  .accumulation = 1 + (m + t) % 3,
                                  .batch = 2,
                                  .layers = 4,
                                  .clipping = 1,
                                  .dropout = 0.1f,
                                  .optimizer = t == 2 ? "LAMB" : "AdamW",
                                  .tiers = t == 1 && stage == 3 ? harness_tiers(2, 2) : NULL,
                                  .precision = precision};
                harness_run(&c, &plain);
                harness_expect_held(&plain);
                expect_near_one_sum(&c, m == 0);
                expect_equal(&c, "1f1b", 2);
                expect_equal(&c, "zb-h1", 3);
                expect_equal(&c, "gpipe", 4);
                if (c.accumulation % 2 == 0)
                    expect_equal(&c, "interleaved:2", 2);
            }
}

// Trains with activation checkpoints on the device, on the host and on NVMe.
static void expect_checkpoints_anywhere(harness_case c, const char *more, int count)
{
    char checkpoints[3][160], precision[1024];
    snprintf(checkpoints[0], sizeof *checkpoints, "\"device\": \"none\"");
    snprintf(checkpoints[1], sizeof *checkpoints, "\"device\": \"cpu\"");
    snprintf(checkpoints[2], sizeof *checkpoints, "\"device\": \"nvme\", \"nvme_path\": \"%s\"",
             harness_scratch());
    c.precision = precision;
    for (int tier = 0; tier < 3; tier++) {
        snprintf(precision, sizeof precision,
                 "%s\"activation_checkpointing\": {\"number_checkpoints\": %d%s}, \"libzero\": "
                 "{\"checkpoints\": {%s}}",
                 more, count, c.tensor > 1 ? ", \"partition_activations\": true" : "",
                 checkpoints[tier]);
        harness_run(&c, tier ? &piped : &plain);
        harness_expect_held(tier ? &piped : &plain);
        if (tier && !harness_equal(&plain, &piped))
            fail_msg("%s, %d tensor ranks, %d checkpoints, %s%s: other bits than on the device",
                     c.schedule, c.tensor, count, more, checkpoints[tier]);
    }
}

// A set of checkpoints for each micro-batch in flight, and several chunks, each with its sets.
static void checkpoints_lie_anywhere(void **state)
{
    static const char *const schedules[] = {"gpipe",         "1f1b", "zb-h1",
                                            "interleaved:2", "2bw",  "pipedream"};
    static const char *const precisions[] = {"", "\"bf16\": {\"enabled\": true}, ",
                                             "\"fp16\": {\"enabled\": true, \"loss_scale\": 64}, "};
    const zero_llama_config llama = untied(8);
    int number = 0;
    for (int s = 0; s < ZR_COUNT(schedules); s++)
        for (int tensor = 1; tensor <= 2; tensor++)
            for (int count = 2; count <= 6; count += 2) {
                bool pipedream = s == 5;
                const harness_case c = {.stage = pipedream ? 1 : number % 4,
                                        .ranks = 1 + number % 2,
                                        .accumulation = 4,
                                        .batch = 2,
                                        .clipping = pipedream ? 0 : 1,
                                        .llama = &llama,
                                        .slices = tensor > 1 ? 2 : 0,
                                        .tensor = tensor > 1 ? 2 : 0,
                                        .stages = 2,
                                        .schedule = schedules[s]};
                const char *more = precisions[(s + tensor + count / 2) % ZR_COUNT(precisions)];
                if (number++ % (SANITIZED ? 5 : 1) == 0)
                    expect_checkpoints_anywhere(c, more, count);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints_lie_anywhere),
        cmocka_unit_test(schedules_have_the_bits_of_no_pipeline),
        cmocka_unit_test(whatever_else_a_step_does),
        cmocka_unit_test(shared_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
