// Each field of a model's configuration that changes what it computes counts as a difference, under
// its name in config.json.
#include "base/alloc.h"
#include "model/architecture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

typedef struct field { // of zero_gpt2_config or zero_llama_config
    size_t at;
    enum { SIZE, SMALL, FLOAT, DOUBLE } kind;
    double value;    // another one than `base` has
    const char *key; // NULL: it changes no arithmetic
} field;

#define GPT(name) offsetof(zero_gpt2_config, name)
#define LLAMA(name) offsetof(zero_llama_config, name)

// A new field needs a new row, and changes these.
_Static_assert(sizeof(zero_gpt2_config) == 104, "a field of zero_gpt2_config has no row");
_Static_assert(sizeof(zero_llama_config) == 248, "a field of zero_llama_config has no row");

static const field gpt2[] = {
    {GPT(vocab_size), SIZE, 300, "vocab_size"},
    {GPT(n_positions), SIZE, 64, "n_positions"},
    {GPT(n_embd), SIZE, 64, "n_embd"},
    {GPT(n_layer), SIZE, 3, "n_layer"},
    {GPT(n_head), SIZE, 4, "n_head"},
    {GPT(n_inner), SIZE, 100, "n_inner"},
    {GPT(layer_norm_epsilon), FLOAT, 1e-6, "layer_norm_epsilon"},
    {GPT(initializer_range), FLOAT, 0.5, NULL},
    {GPT(resid_pdrop), FLOAT, 0.25, "resid_pdrop"},
    {GPT(embd_pdrop), FLOAT, 0.25, "embd_pdrop"},
    {GPT(attn_pdrop), FLOAT, 0.25, "attn_pdrop"},
    {GPT(tiles_embedding), SIZE, 2, NULL},
    {GPT(tiles_attention), SIZE, 2, NULL},
    {GPT(tiles_mlp), SIZE, 2, NULL},
};

static const field llama[] = {
    {LLAMA(variant), SMALL, ZERO_LLAMA_qwen3, "model_type"},
    {LLAMA(vocab_size), SIZE, 300, "vocab_size"},
    {LLAMA(max_positions), SIZE, 64, "max_position_embeddings"},
    {LLAMA(hidden_size), SIZE, 64, "hidden_size"},
    {LLAMA(intermediate_size), SIZE, 100, "intermediate_size"},
    {LLAMA(n_layer), SIZE, 3, "num_hidden_layers"},
    {LLAMA(n_head), SIZE, 8, "num_attention_heads"},
    {LLAMA(n_kv_head), SIZE, 1, "num_key_value_heads"},
    {LLAMA(head_dim), SIZE, 16, "head_dim"},
    {LLAMA(sliding_window), SIZE, 16, "sliding_window"},
    {LLAMA(rms_norm_eps), FLOAT, 1e-6, "rms_norm_eps"},
    {LLAMA(initializer_range), FLOAT, 0.5, NULL},
    {LLAMA(attention_dropout), FLOAT, 0.25, "attention_dropout"},
    {LLAMA(rope.scaling), SMALL, ZERO_ROPE_linear, "rope_scaling"},
    {LLAMA(rope.theta), DOUBLE, 5e5, "rope_theta"},
    {LLAMA(rope.factor), DOUBLE, 8, "rope_scaling"},
    {LLAMA(rope.low_freq_factor), DOUBLE, 8, "rope_scaling"},
    {LLAMA(rope.high_freq_factor), DOUBLE, 8, "rope_scaling"},
    {LLAMA(rope.beta_fast), DOUBLE, 8, "rope_scaling"},
    {LLAMA(rope.beta_slow), DOUBLE, 8, "rope_scaling"},
    {LLAMA(rope.attention_factor), DOUBLE, 8, "rope_scaling"},
    {LLAMA(rope.mscale), DOUBLE, 8, "rope_scaling"},
    {LLAMA(rope.mscale_all_dim), DOUBLE, 8, "rope_scaling"},
    {LLAMA(rope.original_max_positions), SIZE, 8, "rope_scaling"},
    {LLAMA(rope.whole_range), SMALL, 1, "rope_scaling"},
    {LLAMA(tied), SMALL, 0, "tie_word_embeddings"},
    {LLAMA(output_bias), SMALL, 1, "attention_bias"},
    {LLAMA(mlp_bias), SMALL, 1, "mlp_bias"},
    {LLAMA(tiles_embedding), SIZE, 2, NULL},
    {LLAMA(tiles_attention), SIZE, 2, NULL},
    {LLAMA(tiles_mlp), SIZE, 2, NULL},
    // qkv_bias and qk_norm follow from the variant and attention_bias wherever a file says the
    // model, and have tensors of their own
};

static void set(void *config, const field *f)
{
    char *at = (char *)config + f->at;
    if (f->kind == SIZE)
        *(int64_t *)at = (int64_t)f->value;
    else if (f->kind == SMALL)
        *(int *)at = (int)f->value;
    else if (f->kind == FLOAT)
        *(float *)at = (float)f->value;
    else
        *(double *)at = f->value;
}

static void check(const zr_lm_config *base, zr_lm_config *other, void *config, const field *f)
{
    zr_lm_difference found;
    set(config, f);
    assert_int_equal(zr_lm_compare(base, other, 0, &found, NULL), ZERO_OK);
    if (found.found != (f->key != NULL) || (f->key && strcmp(found.key, f->key)))
        fail_msg("%s is not what differs, but %s", f->key ? f->key : "nothing",
                 found.found ? found.key : "nothing");
    assert_true(!found.found || strcmp(found.values[0], found.values[1]));
}

static void every_field(void **state)
{
    zr_lm_config base = {.kind = ZR_LM_GPT2}, other;
    zero_gpt2_defaults(&base.gpt2);
    for (int i = 0; i < ZR_COUNT(gpt2); i++) {
        other = base;
        check(&base, &other, &other.gpt2, &gpt2[i]);
    }
    base = (zr_lm_config){.kind = ZR_LM_LLAMA};
    zero_llama_defaults(&base.llama);
    for (int i = 0; i < ZR_COUNT(llama); i++) {
        base.llama.variant =
            llama[i].at == LLAMA(sliding_window) ? ZERO_LLAMA_mistral : ZERO_LLAMA_llama;
        base.llama.rope.scaling = llama[i].key && !strcmp(llama[i].key, "rope_scaling")
                                      ? ZERO_ROPE_yarn
                                      : ZERO_ROPE_default;
        base.llama.rope.factor = base.llama.rope.scaling ? 4 : 0;
        other = base;
        check(&base, &other, &other.llama, &llama[i]);
    }
}

static void what_is_allowed(void **state)
{
    zr_lm_config base = {.kind = ZR_LM_GPT2}, other;
    zr_lm_changes changes;
    zr_lm_difference found;
    zero_error error = {0};
    zero_gpt2_defaults(&base.gpt2);
    other = base;
    other.gpt2.resid_pdrop = other.gpt2.attn_pdrop = 0.5f;
    assert_int_equal(zr_lm_compare(&base, &other, 0, &found, NULL), ZERO_OK);
    assert_string_equal(found.change, "dropout");
    assert_int_equal(zr_lm_changes_parse("dropout,dropout", &changes, NULL), ZERO_OK);
    assert_int_equal(zr_lm_compare(&base, &other, changes, &found, NULL), ZERO_OK);
    assert_false(found.found);
    other.gpt2.n_head = 6;
    assert_int_equal(zr_lm_compare(&base, &other, changes, &found, NULL), ZERO_OK);
    assert_true(found.found && !found.change && !strcmp(found.values[0], "12") &&
                !strcmp(found.values[1], "6"));
    base = (zr_lm_config){.kind = ZR_LM_LLAMA};
    zero_llama_defaults(&base.llama);
    other = base;
    other.llama.attention_dropout = 0.5f;
    assert_int_equal(zr_lm_compare(&base, &other, changes, &found, NULL), ZERO_OK);
    assert_false(found.found);
    assert_int_equal(zr_lm_changes_parse(NULL, &changes, NULL), ZERO_OK);
    assert_int_equal(changes, 0);
    assert_int_equal(zr_lm_changes_parse("dropout,heads", &changes, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "\"heads\""));
    assert_non_null(strstr(error.message, "dropout"));
    assert_int_equal(zr_lm_changes_parse("drop", &changes, &error), ZERO_ERR_USAGE);
}

static void there_and_back(void **state)
{
    zr_lm_config base = {.kind = ZR_LM_LLAMA}, back;
    zr_lm_difference found;
    zero_error error = {0};
    zero_llama_defaults(&base.llama);
    base.llama.rope = (zero_rope){.scaling = ZERO_ROPE_yarn,
                                  .theta = 12345.678,
                                  .factor = 4,
                                  .beta_fast = 31.5,
                                  .original_max_positions = 512};
    json_t *object = zr_lm_config_pack(&base);
    assert_non_null(object);
    assert_int_equal(zr_lm_config_unpack(object, "manifest", &back, &error), ZERO_OK);
    assert_int_equal(zr_lm_compare(&base, &back, 0, &found, NULL), ZERO_OK);
    assert_false(found.found);
    json_object_set_new(object, "hidden_act", json_string("relu"));
    assert_int_equal(zr_lm_config_unpack(object, "manifest", &back, &error), ZERO_ERR_UNSUPPORTED);
    json_decref(object);
    object = json_array();
    assert_int_equal(zr_lm_config_unpack(object, "manifest", &back, &error), ZERO_ERR_DATA);
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_field),
                                       cmocka_unit_test(what_is_allowed),
                                       cmocka_unit_test(there_and_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
