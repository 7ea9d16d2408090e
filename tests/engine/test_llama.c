// Llama is a model like any other: stages 0 to 3, on any number of ranks, with every policy, tier
// and tiling, give the same bits, and the bytes held are those planned. Three configurations: a
// head of its own, shared keys and every bias; a tied head, norms of heads and a window; tiled
// weights.
// So is GPT-NeoX, with dropout and, on the second backend, tiled.
#include "harness.h"
#include "model/architecture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define CONFIGS 3
#define TILED 2

static const char *const policies[] = {
    NULL, "\"bf16\": {\"enabled\": true}",
    "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 10}"};

static zero_llama_config config_of(int which)
{
    zero_llama_config config = harness_llama();
    if (which == 0) {
        config.tied = 0;
        config.qkv_bias = config.output_bias = config.mlp_bias = 1;
    }
    if (which == 1) {
        config.variant = ZERO_LLAMA_qwen3;
        config.head_dim = 6;
        config.qk_norm = 1;
        config.sliding_window = 3;
        config.attention_dropout = 0.1f;
    }
    if (which == TILED) {
        config.vocab_size = 200;
        config.hidden_size = 96;
        config.intermediate_size = 136;
        config.n_kv_head = 4;
        config.tied = 0;
        config.tiles_embedding = 3;
        config.tiles_attention = config.tiles_mlp = 2;
    }
    return config;
}

static void test_stages(void **state)
{
    for (int which = 0; which < TILED; which++)
        for (int p = 0; p < 3; p++)
            for (int ranks = 1; ranks <= 3; ranks++) {
                const zero_llama_config config = config_of(which);
                harness_stages_agree((harness_case){.llama = &config,
                                                    .ranks = ranks,
                                                    .accumulation = 2,
                                                    .batch = 1,
                                                    .clipping = 1,
                                                    .precision = policies[p]});
            }
}

static zr_lm_config neox(bool tiled)
{
    return (zr_lm_config){.kind = ZR_LM_NEOX,
                          .numbers = {.vocab = tiled ? 200 : HARNESS_VOCAB,
                                      .positions = HARNESS_SEQ,
                                      .width = tiled ? 96 : 16,
                                      .inner = tiled ? 136 : 24,
                                      .layers = 2,
                                      .heads = 2,
                                      .epsilon = 1e-5f,
                                      .deviation = 0.02f,
                                      .residual_dropout = 0.1f,
                                      .attention_dropout = 0.1f,
                                      .rotated = 0.25,
                                      .rope = {.theta = 10000},
                                      .tied = !tiled,
                                      .tiles = {tiled ? 3 : 0, tiled ? 2 : 0, tiled ? 2 : 0}}};
}

static void test_neox(void **state)
{
    for (int p = 0; p < 3; p++)
        for (int ranks = 1; ranks <= 2; ranks++)
            for (int tiled = 0; tiled < 2; tiled++) {
                const zr_lm_config config = neox(tiled);
                harness_stages_agree((harness_case){.lm = &config,
                                                    .ranks = ranks,
                                                    .accumulation = 2,
                                                    .batch = 1,
                                                    .clipping = 1,
                                                    .backend = tiled ? "cpu" : NULL,
                                                    .precision = policies[p]});
            }
}

static void test_cpu_backend(void **state)
{
    for (int which = 0; which < CONFIGS; which++)
        for (int p = 0; p < 3; p++) {
            const zero_llama_config config = config_of(which);
            harness_stages_agree((harness_case){.llama = &config,
                                                .ranks = 2,
                                                .accumulation = 1,
                                                .batch = 2,
                                                .backend = "cpu",
                                                .precision = policies[p]});
        }
}

// Where model states lie changes nothing, tiled or whole.
static void test_tiers(void **state)
{
    static const char *const devices[] = {"cpu", "nvme"};
    static harness_result memory, other;
    char tiers[512];
    for (int which = 0; which < CONFIGS; which++) {
        const zero_llama_config config = config_of(which);
        harness_case c = {.llama = &config,
                          .stage = 3,
                          .ranks = 2,
                          .accumulation = 2,
                          .batch = 1,
                          .precision = policies[which]};
        harness_run(&c, &memory);
        for (int d = 0; d < 2; d++) {
            snprintf(tiers, sizeof tiers,
                     "\"offload_optimizer\": {\"device\": \"%s\", \"nvme_path\": \"%s\"}, "
                     "\"offload_param\": {\"device\": \"%s\", \"nvme_path\": \"%s\"},"
                     " \"stage3_param_persistence_threshold\": 0, \"sub_group_size\": 3000",
                     devices[d], harness_scratch(), devices[d], harness_scratch());
            c.tiers = tiers;
            harness_run(&c, &other);
            assert_true(harness_equal(&memory, &other));
            harness_expect_held(&other);
        }
    }
}

static double worst_difference(const harness_result *a, const harness_result *b)
{
    double worst = 0;
    for (int s = 0; s < HARNESS_STEPS; s++)
        worst = fmax(worst, fabs(a->loss[s] - b->loss[s]));
    return worst;
}

// Tiles hold the initial values and compute the gradients that the whole weights would.
static void test_tiles_are_the_whole(void **state)
{
    static harness_result whole, tiled;
    zero_llama_config config = config_of(TILED);
    harness_case c = {.llama = &config, .stage = 2, .ranks = 2, .accumulation = 1, .batch = 2};
    harness_run(&c, &tiled);
    config.tiles_embedding = config.tiles_attention = config.tiles_mlp = 0;
    harness_run(&c, &whole);
    assert_true(tiled.flat_params > whole.flat_params + 10);
    assert_true(worst_difference(&whole, &tiled) < 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_neox),
        cmocka_unit_test(test_cpu_backend),
        cmocka_unit_test(test_tiers),
        cmocka_unit_test(test_tiles_are_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
