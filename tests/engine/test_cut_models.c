// Language models that are cut into slices, on a grid of ranks: the slices are the model, whoever
// computes them, so losses, norms and weights have the same bits on any number of tensor ranks.
#include "../sanitizers.h"
#include "harness.h"

#include "base/file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void same_on_any_number_of_ranks(harness_case c)
{
    static harness_result alone, other;
    c.tensor = 1;
    harness_run(&c, &alone);
    assert_true(alone.norm[0] > 0 && alone.loss[0] != alone.loss[1]);
    // Under a sanitizer, each number of ranks in one way.
    for (c.tensor = 2; c.tensor <= c.slices; c.tensor *= 2)
        for (int by_rows = 0; by_rows < 2; by_rows++) {
            if (SANITIZED && by_rows != (c.stage + c.tensor / 2) % 2)
                continue;
            c.by_rows = by_rows;
            harness_run(&c, &other);
            harness_expect_held(&other);
            if (!harness_equal(&alone, &other))
                fail_msg("stage %d, %d data ranks, %d tensor ranks, rows %s: other bits", c.stage,
                         c.ranks, c.tensor, by_rows ? "divided" : "whole");
        }
}

static void gpt2(void **state)
{
    for (int stage = 0; stage <= 3; stage++)
        for (int data = SANITIZED ? 2 : 1; data <= 2; data++)
            same_on_any_number_of_ranks((harness_case){.stage = stage,
                                                       .ranks = data,
                                                       .accumulation = 2,
                                                       .batch = 2,
                                                       .dropout = 0.1f,
                                                       .clipping = 0.5,
                                                       .slices = 2});
}

// Four slices of four heads, of which two share keys and values; on four ranks, two ranks do. The
// last slices of the vocabulary are smaller, and one is empty. The tied one has a window.
static zero_llama_config llama_of(bool tied)
{
    zero_llama_config config = harness_llama();
    config.tied = tied;
    config.qkv_bias = config.output_bias = config.mlp_bias = !tied;
    config.attention_dropout = 0.1f;
    if (tied) {
        config.variant = ZERO_LLAMA_qwen3;
        config.qk_norm = 1;
        config.sliding_window = 3;
    }
    return config;
}

static void llama(void **state)
{
    for (int stage = 0; stage <= 3; stage++)
        for (int data = SANITIZED ? 2 : 1; data <= 2; data++) {
            const zero_llama_config config = llama_of(stage % 2);
            same_on_any_number_of_ranks((harness_case){.stage = stage,
                                                       .ranks = data,
                                                       .accumulation = 1,
                                                       .batch = 2,
                                                       .llama = &config,
                                                       .masked = stage == 2,
                                                       .slices = 4});
        }
}

static void slices_are_the_model_of(const zero_llama_config *llama)
{
    static harness_result whole, cut;
    harness_case c = {.stage = 1, .ranks = 1, .accumulation = 2, .batch = 2, .llama = llama};
    harness_run(&c, &whole);
    c.slices = c.tensor = 2;
    harness_run(&c, &cut);
    for (int s = 0; s < HARNESS_STEPS; s++) {
        assert_true(fabs(whole.loss[s] - cut.loss[s]) < 1e-5);
        assert_true(fabs(whole.norm[s] - cut.norm[s]) < 1e-4 * whole.norm[s]);
    }
}

// Slices compute what the model does that is not cut, up to rounding: also where the gradients of
// a second micro-batch, and of both uses of a shared table, are added.
static void slices_are_the_model(void **state)
{
    const zero_llama_config own_head = llama_of(false), tied = llama_of(true);
    slices_are_the_model_of(NULL);
    slices_are_the_model_of(&own_head);
    slices_are_the_model_of(&tied);
}

// With exact_world, too, data ranks do not matter either: 4 micro-batches a step, on 1 to 8 ranks.
static void same_on_any_grid(harness_case c)
{
    static harness_result alone, other;
    c.precision = "\"libzero\": {\"exact_world\": true}";
    c.ranks = c.tensor = 1;
    c.accumulation = 4;
    harness_run(&c, &alone);
    assert_true(alone.norm[0] > 0 && alone.loss[0] != alone.loss[1]);
    for (c.ranks = 1; c.ranks <= 4; c.ranks *= 2)
        for (c.tensor = 1; c.tensor <= c.slices && c.ranks * c.tensor <= 8; c.tensor *= 2) {
            c.accumulation = 4 / c.ranks;
            c.by_rows = (c.stage + c.ranks) % 2;
            harness_run(&c, &other);
            harness_expect_held(&other);
            if (!harness_equal(&alone, &other))
                fail_msg("stage %d, %d data ranks, %d tensor ranks, exact_world: other bits",
                         c.stage, c.ranks, c.tensor);
        }
}

static void data_ranks_do_not_matter_either(void **state)
{
    for (int stage = SANITIZED ? 2 : 0; stage <= 3; stage++) {
        const zero_llama_config config = llama_of(stage % 2);
        harness_case of_llama = {.stage = stage, .batch = 2, .llama = &config, .slices = 4};
        harness_case of_gpt2 = {.stage = stage, .batch = 1, .dropout = 0.1f, .slices = 2};
        of_llama.masked = stage >= 2;
        of_gpt2.optimizer = stage % 2 ? "LAMB" : NULL;
        same_on_any_grid(of_llama);
        same_on_any_grid(of_gpt2);
    }
}

static void every_precision_optimizer_and_tier(void **state)
{
    const zero_llama_config config = llama_of(false);
    const harness_case c = {
        .stage = 3, .ranks = 2, .accumulation = 2, .batch = 2, .llama = &config, .slices = 4};
    harness_case bf16 = c, fp16 = c, lamb = c, nvme = c, overlapped = c;
    bf16.precision = "\"bf16\": {\"enabled\": true}";
    fp16.precision = "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 10}";
    lamb.optimizer = "LAMB";
    overlapped.overlap = true;
    same_on_any_number_of_ranks(bf16);
    same_on_any_number_of_ranks(fp16);
    same_on_any_number_of_ranks(lamb);
    same_on_any_number_of_ranks(overlapped);
    nvme.tiers = harness_tiers(ZERO_TIER_nvme, ZERO_TIER_nvme);
    same_on_any_number_of_ranks(nvme);
}

static const char *const devices[] = {"none", "cpu", "nvme"};

// Returns a part of the configuration. segments: number_checkpoints.
static const char *divided_checkpoints(const char *more, int segments, const char *device)
{
    static char text[512];
    snprintf(text, sizeof text,
             "%s\"activation_checkpointing\": {\"number_checkpoints\": %d, "
             "\"partition_activations\": true}, \"libzero\": {\"checkpoints\": {\"device\": "
             "\"%s\", \"nvme_path\": \"%s\"}}",
             more, segments, device, harness_scratch());
    return text;
}

// `more`: of the configuration, with a comma at its end.
static void same_with_divided_checkpoints(harness_case c, const char *more)
{
    static const int segments[] = {100, 3, 2};
    static harness_result kept, divided;
    char precision[128];
    snprintf(precision, sizeof precision, "%.*s", (int)strlen(more) - 1, more);
    c.layers = 4;
    c.precision = *more ? precision : NULL;
    c.tensor = 1;
    harness_run(&c, &kept);
    for (c.tensor = 2; c.tensor <= c.slices; c.tensor *= 2)
        for (int d = 0; d < 3; d++)
            for (int s = 0; s < 3; s += 1 + d) {
                // Under a sanitizer, each device with one number of segments.
                if (SANITIZED && s != (c.stage + d) % 3 / (1 + d) * (1 + d))
                    continue;
                c.precision = divided_checkpoints(more, segments[s], devices[d]);
                harness_run(&c, &divided);
                harness_expect_held(&divided);
                if (!harness_equal(&kept, &divided))
                    fail_msg("stage %d, %d tensor ranks, %d segments, checkpoints on %s: other "
                             "bits than with whole ones",
                             c.stage, c.tensor, segments[s], devices[d]);
            }
}

// Tensor ranks that keep shares of activation checkpoints compute the same bits, also where shares
// are not equal (18 wide: 288 of 576 bytes, in places of 320).
static void activation_checkpoints_are_divided(void **state)
{
    static const char *const precisions[] = {
        "", "\"bf16\": {\"enabled\": true},",
        "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 10},"};
    zero_llama_config config = llama_of(false);
    config.n_layer = 4;
    for (int stage = 0; stage <= 3; stage++) {
        harness_case c = {.stage = stage, .ranks = 2, .accumulation = 2, .batch = 2, .slices = 4};
        c.llama = &config;
        same_with_divided_checkpoints(c, precisions[stage % 3]);
    }
    harness_case gpt2 = {.stage = 2,
                         .ranks = 1,
                         .accumulation = 1,
                         .batch = 1,
                         .width = 18,
                         .dropout = 0.1f,
                         .slices = 2};
    for (int i = 0; i < 3; i++)
        same_with_divided_checkpoints(gpt2, precisions[i]);
}

// Two buffers of the whole checkpoint, and a share of each of those that are not used at once: of
// four, three.
static void a_rank_keeps_its_share(void **state)
{
    static harness_result divided;
    enum { WHOLE = 2 * HARNESS_SEQ * 16 * 4 };
    harness_case c = {
        .stage = 1, .ranks = 1, .accumulation = 1, .batch = 2, .layers = 4, .slices = 2};
    c.tensor = 2;
    c.precision = divided_checkpoints("", 100, "none");
    harness_run(&c, &divided);
    assert_int_equal(divided.memory.held[ZERO_TIER_device][ZERO_MEM_checkpoints],
                     2 * WHOLE + 3 * WHOLE / 2);
    c.precision = divided_checkpoints("", 100, "cpu");
    harness_run(&c, &divided);
    assert_int_equal(divided.memory.held[ZERO_TIER_host][ZERO_MEM_checkpoints], 3 * 4096);
}

// A training goes on from a checkpoint on another number of tensor ranks, to the same bits.
static void checkpoints_go_to_other_numbers_of_ranks(void **state)
{
    static harness_result saved, rest;
    char directory[64];
    const zero_llama_config config = llama_of(false);
    snprintf(directory, sizeof directory, "%s/zero-cut-XXXXXX", harness_scratch());
    assert_non_null(mkdtemp(directory));
    for (int from = 1; from <= 4; from *= 2)
        for (int to = 1; to <= 4; to *= 2) {
            harness_case c = {.stage = 1 + from / 2 % 3,
                              .ranks = 1 + to / 4,
                              .accumulation = 1,
                              .batch = 1,
                              .llama = &config,
                              .slices = 4,
                              .tensor = from,
                              .save = directory,
                              .save_at = 2};
            harness_run(&c, &saved);
            c.save = NULL;
            c.load = directory;
            c.tensor = to;
            harness_run(&c, &rest);
            assert_true(rest.loss[3] == saved.loss[3] && rest.evaluated == saved.evaluated);
            assert_memory_equal(rest.parameters, saved.parameters, sizeof rest.parameters);
            assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2),
        cmocka_unit_test(llama),
        cmocka_unit_test(slices_are_the_model),
        cmocka_unit_test(data_ranks_do_not_matter_either),
        cmocka_unit_test(every_precision_optimizer_and_tier),
        cmocka_unit_test(activation_checkpoints_are_divided),
        cmocka_unit_test(a_rank_keeps_its_share),
        cmocka_unit_test(checkpoints_go_to_other_numbers_of_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
