#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "far_training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const far_case far_plain_cases[] = {
    {"fp32, AdamW", {.accumulation = 1}},
    {"two micro-batches, SGD", {.accumulation = 2, .optimizer = "SGD"}},
    {"LAMB, clipped", {.accumulation = 1, .optimizer = "LAMB", .clipping = 0.1}},
    {"bf16, dropout",
     {.accumulation = 2, .precision = "\"bf16\": {\"enabled\": true}", .dropout = 0.1f}},
    {"fp16, a step is skipped",
     {.accumulation = 1,
      .precision = "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 24}"}},
    {"masked targets, tiles",
     {.accumulation = 1,
      .masked = true,
      .tiles_embedding = 3,
      .tiles_attention = 2,
      .tiles_mlp = 2}},
};
const int far_plain_case_count = ZR_COUNT(far_plain_cases);

const far_case far_other_cases[] = {
    {"tensor", {.ranks = 1, .accumulation = 1, .slices = 2, .tensor = 2}},
    {"tensor, by rows", {.ranks = 1, .accumulation = 1, .slices = 2, .tensor = 2, .by_rows = true}},
    {"tensor, two data ranks, bf16",
     {.ranks = 2,
      .accumulation = 2,
      .slices = 2,
      .tensor = 2,
      .precision = "\"bf16\": {\"enabled\": true}"}},
    {"four slices on one rank", {.ranks = 2, .accumulation = 1, .slices = 2, .tensor = 1}},
    {"exact_world",
     {.ranks = 2, .accumulation = 4, .precision = "\"libzero\": {\"exact_world\": true}"}},
    {"activation checkpoints on the device",
     {.ranks = 1,
      .accumulation = 1,
      .precision = "\"activation_checkpointing\": {\"number_checkpoints\": 2}"}},
    {"activation checkpoints on the host",
     {.ranks = 1,
      .accumulation = 1,
      .precision = "\"activation_checkpointing\": {\"number_checkpoints\": 2, "
                   "\"cpu_checkpointing\": true}"}},
};
const int far_other_case_count = ZR_COUNT(far_other_cases);

const far_way far_ways[FAR_WAYS] = {
    {"eager", {.order = FAR_EAGER, .keeps_rows = true}},
    {"lazy", {.order = FAR_LAZY, .keeps_rows = true}},
    {"random 1", {.order = FAR_RANDOM, .seed = 1, .keeps_rows = true}},
    {"random 2", {.order = FAR_RANDOM, .seed = 2, .keeps_rows = true}}};

harness_case far_case_at(const far_case *c, int stage, int ranks)
{
    harness_case run = c->run;
    run.stage = stage;
    run.batch = FAR_BATCH;
    if (ranks)
        run.ranks = ranks;
    return run;
}

void far_end_clean(const char *what)
{
    int count;
    far_race race;
    far_report report;
    char text[200];
    const far_row *rows = far_rows(&count);
    if (far_races(rows, count, &race)) {
        far_race_write(rows, &race, text, sizeof text);
        fail_msg("%s: %s", what, text);
    }
    far_end(&report);
    if (report.violations)
        fail_msg("%s: %s", what, report.first);
    assert_int_equal(report.allocations, 0);
}

void far_train(const harness_case *c, const far_options *options, const harness_result *want,
               const char *what)
{
    static harness_result got;
    harness_case run = *c;
    run.backend = "far";
    far_begin(options);
    harness_run(&run, &got);
    far_end_clean(what);
    if (!harness_equal(&got, want) || got.evaluated != want->evaluated ||
        got.skipped != want->skipped)
        fail_msg("%s: other bits: losses %a and %a, norms %a and %a", what, got.loss[0],
                 want->loss[0], got.norm[0], want->norm[0]);
    harness_expect_held(&got);
}

bool far_runs_all(int count, char **arguments)
{
    const char *asked = getenv("ZERO_TEST_FAR");
    return (count > 1 && strcmp(arguments[1], "--all") == 0) ||
           (asked && strcmp(asked, "all") == 0);
}
