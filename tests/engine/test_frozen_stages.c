// Frozen tensors of GPT-2 and Llama in a run: at every stage, in every precision and on every tier
// they keep their values and cost no gradient and no optimizer states, and the other tensors train
// as they would otherwise. Whole and tiled.
#include "../sanitizers.h"
#include "harness.h"

#include "base/dtype.h"
#include "base/file.h"
#include "layers/layers.h"
#include "model/unit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const char *const policies[] = {
    NULL, "\"bf16\": {\"enabled\": true}",
    "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 10}"};

// What is frozen: names that have this in them, or, after a "!", all others.
static bool is_frozen(const void *user, const char *name)
{
    const char *pattern = user;
    bool others = pattern[0] == '!';
    return (strstr(name, pattern + others) != NULL) != others;
}

static zero_llama_config llama_of(int tied)
{
    zero_llama_config config = harness_llama();
    config.tied = tied;
    config.qkv_bias = config.output_bias = config.mlp_bias = !tied;
    config.qk_norm = tied;
    return config;
}

static const float *values_of(const zero_model *model, const harness_result *result,
                              const char *name)
{
    const float *at = result->parameters;
    for (int u = 0; u < model->unit_count; u++)
        for (int p = 0; p < model->units[u].flat_param_count; p++)
            for (int t = 0; t < model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &model->units[u].flat_params[p].tensors[t];
                if (strcmp(tensor->name, name) == 0)
                    return at;
                at += zr_tensor_desc_elements(tensor);
            }
    fail_msg("no tensor \"%s\"", name);
    return NULL;
}

// A frozen tensor has no master: it is what units read, rounded to their type.
static bool is_start(const harness_case *c, const float *got, const float *start, int64_t elements)
{
    static const zero_dtype dtypes[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
    int policy = 0;
    bool same = true;
    while (policies[policy] != c->precision)
        policy++;
    for (int64_t i = 0; i < elements; i++) {
        float stored[1], value;
        zr_narrow(dtypes[policy], &start[i], 1, stored);
        zr_widen(dtypes[policy], stored, 1, &value);
        same = same && memcmp(&value, &got[i], sizeof value) == 0;
    }
    return same;
}

// After a run frozen tensors are what they were at the start. The others are `moved`'s, or, where
// that is NULL, what they were not.
static void expect_values(const harness_case *c, const harness_result *run,
                          const harness_case *plain, const harness_result *start,
                          const harness_result *moved)
{
    zero_model *model = harness_model(c), *reference = harness_model(plain);
    int frozen = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int p = 0; p < model->units[u].flat_param_count; p++)
            for (int t = 0; t < model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &model->units[u].flat_params[p].tensors[t];
                bool stays = is_frozen(c->frozen->user, tensor->name);
                int64_t elements = zr_tensor_desc_elements(tensor);
                const float *got = values_of(model, run, tensor->name),
                            *like =
                                values_of(reference, stays || !moved ? start : moved, tensor->name);
                bool same = stays ? is_start(c, got, like, elements)
                                  : memcmp(got, like, sizeof *got * (size_t)elements) == 0;
                if (same != (stays || moved))
                    fail_msg("freezing \"%s\" at stage %d: %s %s", (const char *)c->frozen->user,
                             c->stage, tensor->name, same ? "did not change" : "changed otherwise");
                frozen += stays;
            }
    assert_true(frozen > 0);
    zr_lm_free(model);
    zr_lm_free(reference);
}

static int64_t planned(const harness_result *result, zero_memory_category category)
{
    int64_t bytes = 0;
    for (int tier = 0; tier < ZERO_TIER_COUNT; tier++) {
        assert_int_equal(result->memory.planned[tier][category],
                         result->memory.held[tier][category]);
        bytes += result->memory.planned[tier][category];
    }
    return bytes;
}

// Elements of all flat parameters that train, or of the others, as a plan pads them.
static int64_t padded_elements(const harness_case *c, bool trained)
{
    zero_model *model = harness_model(c);
    int64_t all = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int p = 0; p < model->units[u].flat_param_count; p++) {
            const zero_flat_param_desc *flat_param = &model->units[u].flat_params[p];
            int64_t elements = 0;
            for (int t = 0; t < flat_param->tensor_count; t++)
                elements = ZR_ROUND_UP(elements, (int64_t)64) +
                           zr_tensor_desc_elements(&flat_param->tensors[t]);
            if ((flat_param->kind == ZERO_TRAINABLE) == trained)
                all += ZR_ROUND_UP((elements + c->ranks - 1) / c->ranks, (int64_t)2048) * c->ranks;
        }
    zr_lm_free(model);
    return all;
}

// What is frozen lies once on the machine, and each rank counts its part of it, at every stage;
// what trains is divided at stage 3 alone.
static void expect_frozen_once(const harness_case *c, const harness_result *run)
{
    int64_t size = c->precision ? 2 : 4, trained = padded_elements(c, true);
    assert_int_equal(planned(run, ZERO_MEM_parameters),
                     size * (padded_elements(c, false) / c->ranks +
                             (c->stage == 3 ? trained / c->ranks : trained)));
}

// One step without clipping moves what trains as if nothing were frozen; more steps are the same
// bits at every stage.
static void check(harness_case c, const char *pattern)
{
    static harness_result start, plain_step, plain, one, first, other;
    const zr_lm_frozen frozen = {.is_frozen = is_frozen, .user = pattern};
    harness_case whole = c;
    harness_run(&whole, &plain);
    whole.steps = 1;
    harness_run(&whole, &plain_step);
    whole.steps = -1;
    harness_run(&whole, &start);
    c.frozen = &frozen;
    c.steps = 1;
    harness_run(&c, &one);
    expect_values(&c, &one, &whole, &start, &plain_step);
    assert_memory_equal(&one.loss[0], &plain_step.loss[0], sizeof one.loss[0]);
    c.steps = 0;
    harness_run(&c, &first);
    expect_values(&c, &first, &whole, &start, NULL);
    assert_int_equal(planned(&first, ZERO_MEM_optimizer) * padded_elements(&whole, true),
                     planned(&plain, ZERO_MEM_optimizer) * padded_elements(&c, true));
    expect_frozen_once(&c, &first);
    assert_true(planned(&first, ZERO_MEM_gradients) <= planned(&plain, ZERO_MEM_gradients));
    for (c.stage = 1; c.stage <= 3; c.stage++) {
        harness_run(&c, &other);
        if (!harness_equal(&first, &other))
            fail_msg("freezing \"%s\": stage %d is not stage 0", pattern, c.stage);
        expect_frozen_once(&c, &other);
        for (int category = 0; category < ZERO_MEM_COUNT; category++)
            planned(&other, (zero_memory_category)category);
    }
}

static void gpt2_at_every_stage(void **state)
{
    static const char *const patterns[] = {
        "wte",       "wpe",  "attn.c_attn.weight",   "ln_", "bias",
        "ln_f.bias", "h.1.", "!h.0.mlp.c_fc.weight", "!wpe"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        for (int ranks = SANITIZED ? 2 : 1; ranks <= 2; ranks++)
            check((harness_case){.ranks = ranks,
                                 .accumulation = 2,
                                 .batch = 1,
                                 .dropout = 0.1f,
                                 .precision = policies[i % 3]},
                  patterns[i]);
}

// Frozen tiles come and go with nothing to be collected, parked or sealed.
static void tiles_at_every_stage(void **state)
{
    static const char *const patterns[] = {"wte", "attn.c_attn.weight", "!wte", "h.1.",
                                           "!h.0.mlp.c_fc.weight"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        check((harness_case){.ranks = 1 + (int)(i % 2),
                             .accumulation = 2,
                             .batch = 1,
                             .tiles_embedding = 3,
                             .tiles_attention = 2,
                             .tiles_mlp = 2,
                             .precision = policies[i % 3]},
              patterns[i]);
}

static void llama_at_every_stage(void **state)
{
    static const char *const patterns[] = {"embed_tokens", "lm_head",  "o_proj",  "norm", "bias",
                                           "layers.0",     "!lm_head", "!q_norm", ""};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const zero_llama_config config = llama_of(strcmp(patterns[i], "!q_norm") == 0);
        check((harness_case){.llama = &config,
                             .ranks = 1 + (int)(i % 3),
                             .accumulation = 2,
                             .batch = 1,
                             .precision = policies[i % 3]},
              patterns[i]);
    }
}

static const char *scratch(void)
{
    const char *chosen = getenv("TMPDIR");
    return chosen ? chosen : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

// Where model states lie, and what is computed again, changes nothing.
static void on_every_tier(void **state)
{
    static const char *const patterns[] = {"wte",  "attn.c_attn.weight",   "bias",
                                           "h.1.", "!h.0.mlp.c_fc.weight", "!wpe"};
    static const char *const tiers[] = {
        "\"offload_optimizer\": {\"device\": \"cpu\"}, \"offload_param\": {\"device\": \"cpu\"}, "
        "\"stage3_param_persistence_threshold\": 0, \"sub_group_size\": 3000",
        "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"%1$s\"}, "
        "\"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"%1$s\"},"
        " \"stage3_param_persistence_threshold\": 0, \"sub_group_size\": 3000",
        "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"%1$s\"}, "
        "\"offload_param\": {\"device\": \"cpu\"}",
        "\"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"%1$s\"}, "
        "\"stage3_param_persistence_threshold\": 3000",
    };
    static harness_result memory, other;
    char text[512];
    for (size_t i = 0; i < 2 * sizeof patterns / sizeof *patterns; i += SANITIZED ? 5 : 1) {
        const zr_lm_frozen frozen = {.is_frozen = is_frozen, .user = patterns[i / 2]};
        int tiles = i % 2 ? 2 : 0;
        harness_case c = {.frozen = &frozen,
                          .tiles_embedding = tiles,
                          .tiles_attention = tiles,
                          .tiles_mlp = tiles,
                          .stage = 3,
                          .ranks = 2,
                          .accumulation = 2,
                          .batch = 1,
                          .precision = policies[i % 3]};
        harness_run(&c, &memory);
        c.tiers = text;
        for (size_t t = 0; t < sizeof tiers / sizeof *tiers; t++) {
            snprintf(text, sizeof text, tiers[t], scratch());
            harness_run(&c, &other);
            if (!harness_equal(&memory, &other))
                fail_msg("freezing \"%s\": other bits with %s", patterns[i / 2], text);
        }
    }
}

// Segments that are computed again, and a run that is saved, ended and loaded.
static void again_and_later(void **state)
{
    static const char *const again =
        "\"bf16\": {\"enabled\": true}, \"activation_checkpointing\": {\"number_checkpoints\": 2}";
    static const char *const patterns[] = {"wte", "bias", "!mlp.c_fc.weight"};
    static harness_result straight, other;
    char directory[256], path[300];
    snprintf(directory, sizeof directory, "%s/zero-frozen-XXXXXX", scratch());
    assert_non_null(mkdtemp(directory));
    for (int i = 0; i < 3 * 2; i++) {
        const zr_lm_frozen frozen = {.is_frozen = is_frozen, .user = patterns[i / 2]};
        harness_case c = {.frozen = &frozen,
                          .stage = i % 2 ? 3 : 1,
                          .ranks = 2,
                          .accumulation = 1,
                          .batch = 2,
                          .layers = 3,
                          .precision = policies[1]};
        snprintf(path, sizeof path, "%s/%d", directory, i);
        harness_run(&c, &straight);
        c.precision = again;
        c.save = path;
        c.save_at = 2;
        harness_run(&c, &other);
        assert_true(harness_equal(&straight, &other));
        c.save = NULL;
        c.load = path;
        c.precision = policies[1];
        harness_run(&c, &other);
        assert_memory_equal(&other.loss[2], &straight.loss[2], 2 * sizeof straight.loss[2]);
        assert_memory_equal(other.parameters, straight.parameters,
                            sizeof(float) * (size_t)straight.elems);
    }
    assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
}

// The model of another, but that its first block and its final norm are frozen: by the public
// interface alone.
static const zero_model *freeze_flat_params(const zero_model *model)
{
    static zero_unit units[4];
    static zero_flat_param_desc block, norm;
    static zero_model tuned;
    assert_int_equal(model->unit_count, 4);
    memcpy(units, model->units, sizeof units);
    block = units[1].flat_params[0];
    norm = units[3].flat_params[0];
    block.kind = norm.kind = ZERO_FROZEN;
    units[1].flat_params = &block;
    units[3].flat_params = &norm;
    tuned = (zero_model){.name = model->name, .unit_count = 4, .units = units};
    return &tuned;
}

static bool of_those_flat_params(const void *user, const char *name)
{
    return strstr(name, "h.0.") || strstr(name, "ln_f");
}

static void flat_params_are_frozen_from_outside(void **state)
{
    static const zr_lm_frozen frozen = {.is_frozen = of_those_flat_params};
    static harness_result built, tuned;
    for (int stage = 0; stage <= 3; stage++) {
        harness_case c = {.stage = stage,
                          .ranks = 2,
                          .accumulation = 2,
                          .batch = 1,
                          .precision = policies[stage % 3]},
                     by_name = c;
        c.tuned = freeze_flat_params;
        by_name.frozen = &frozen;
        harness_run(&c, &tuned);
        harness_run(&by_name, &built);
        assert_true(harness_equal(&built, &tuned));
        assert_memory_equal(built.memory.planned, tuned.memory.planned,
                            sizeof built.memory.planned);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_at_every_stage),
        cmocka_unit_test(tiles_at_every_stage),
        cmocka_unit_test(llama_at_every_stage),
        cmocka_unit_test(on_every_tier),
        cmocka_unit_test(again_and_later),
        cmocka_unit_test(flat_params_are_frozen_from_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
