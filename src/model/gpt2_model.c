// GPT-2's configuration: the published defaults, the check for contradictions, and its row among
// the architectures.
#include "model/gpt2_model.h"

#include "base/errors.h"

#include <stddef.h>

// zero_gpt2_defaults writes into a caller's struct, which an older program may have made shorter:
// no size is passed.
_Static_assert(
    sizeof(zero_gpt2_config) == ZR_STRUCT_UPTO(zero_gpt2_config, tiles_mlp),
    "a field was added: zero_gpt2_defaults may still write those of the first version only");

void zero_gpt2_defaults(zero_gpt2_config *config)
{
    if (!config)
        return;
    *config = (zero_gpt2_config){
        .struct_size = sizeof(*config),
        .vocab_size = 50257,
        .n_positions = 1024,
        .n_embd = 768,
        .n_layer = 12,
        .n_head = 12,
        .layer_norm_epsilon = 1e-5f,
        .initializer_range = 0.02f,
    };
}

#define FIELD(key_, kind_)                                                                         \
    .key = #key_, .kind = ZR_FIELD_##kind_, .at = offsetof(zero_gpt2_config, key_)
const zr_lm_field zr_gpt2_fields[ZR_GPT2_FIELDS] = {
    [ZR_GPT2_VOCABULARY] = {FIELD(vocab_size, SIZE), .most = INT32_MAX},
    [ZR_GPT2_POSITIONS] = {FIELD(n_positions, SIZE), .most = 1 << 24,
                           .other_key = "max_position_embeddings"},
    [ZR_GPT2_WIDTH] = {FIELD(n_embd, SIZE), .most = 1 << 20, .other_key = "hidden_size"},
    [ZR_GPT2_LAYERS] = {FIELD(n_layer, SIZE), .most = 1 << 16, .other_key = "num_hidden_layers"},
    [ZR_GPT2_HEADS] = {FIELD(n_head, SIZE), .most_at = offsetof(zero_gpt2_config, n_embd),
                       .other_key = "num_attention_heads"},
    [ZR_GPT2_INNER] = {FIELD(n_inner, OPTIONAL), .most = 1 << 22},
    [ZR_GPT2_EPSILON] = {FIELD(layer_norm_epsilon, EPSILON), .otherwise = 1e-5},
    [ZR_GPT2_DEVIATION] = {FIELD(initializer_range, DEVIATION), .otherwise = 0.02},
    [ZR_GPT2_RESIDUAL_DROPOUT] = {FIELD(resid_pdrop, PROBABILITY), .otherwise = 0.1},
    [ZR_GPT2_EMBEDDING_DROPOUT] = {FIELD(embd_pdrop, PROBABILITY), .otherwise = 0.1},
    [ZR_GPT2_ATTENTION_DROPOUT] = {FIELD(attn_pdrop, PROBABILITY), .otherwise = 0.1},
    [ZR_GPT2_TILES] = {FIELD(tiles_embedding, OPTIONAL), .most = ZR_MOST_WEIGHT_TILES},
    [ZR_GPT2_TILES + 1] = {FIELD(tiles_attention, OPTIONAL), .most = ZR_MOST_WEIGHT_TILES},
    [ZR_GPT2_TILES + 2] = {FIELD(tiles_mlp, OPTIONAL), .most = ZR_MOST_WEIGHT_TILES},
};
#undef FIELD

zero_status zr_gpt2_check(const zero_gpt2_config *config, zero_error *error)
{
    ZERO_TRY(zr_lm_fields_check(zr_gpt2_fields, ZR_GPT2_VOCABULARY, ZR_GPT2_INNER, "GPT-2", config,
                                error));
    if (config->n_embd % config->n_head != 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "GPT-2: width %lld (n_embd) is not divisible by %lld heads (n_head)",
                       (long long)config->n_embd, (long long)config->n_head);
    ZERO_TRY(zr_lm_fields_check(zr_gpt2_fields, ZR_GPT2_EPSILON, ZR_GPT2_DEVIATION, "GPT-2", config,
                                error));
    ZERO_TRY(zr_lm_fields_check(zr_gpt2_fields, ZR_GPT2_TILES, ZR_GPT2_TILES + 2, "GPT-2", config,
                                error));
    return zr_lm_fields_check(zr_gpt2_fields, ZR_GPT2_RESIDUAL_DROPOUT, ZR_GPT2_ATTENTION_DROPOUT,
                              "GPT-2", config, error);
}

int64_t zr_gpt2_inner(const zero_gpt2_config *config)
{
    return config->n_inner ? config->n_inner : 4 * config->n_embd;
}

static zero_status check_gpt2_model(const zr_lm_config *config, zero_error *error)
{
    return zr_gpt2_check(&config->gpt2, error);
}

static zr_lm_shape shape(const zr_lm_config *config)
{
    const zero_gpt2_config *of = &config->gpt2;
    return (zr_lm_shape){
        .title = "GPT-2",
        .vocab = of->vocab_size,
        .positions = of->n_positions,
        .width = of->n_embd,
        .inner = zr_gpt2_inner(of),
        .layers = of->n_layer,
        .heads = of->n_head,
        .kv_heads = of->n_head,
        .head_dim = of->n_embd / of->n_head,
        .norm_epsilon = of->layer_norm_epsilon,
        .embedding_dropout = of->embd_pdrop,
        .attention_dropout = of->attn_pdrop,
        .residual_dropout = of->resid_pdrop,
    };
}

static const char *const model_types[] = {"gpt2", NULL};

const zr_architecture zr_gpt2_architecture = {
    .model_types = model_types,
    .file_prefix = "transformer.",
    .preset_name = zr_gpt2_preset_name,
    .parse = zr_gpt2_parse,
    .read = zr_gpt2_config_read,
    .write = zr_gpt2_config_write,
    .check = check_gpt2_model,
    .shape = shape,
    .vocabulary = &zr_gpt2_fields[ZR_GPT2_VOCABULARY],
    .tiles = &zr_gpt2_fields[ZR_GPT2_TILES],
    .design = zr_gpt2_design,
};
