// GPT-NeoX, and so Pythia: configuration, presets and tensors, with Hugging Face's names, layout
// (the weights of Linear are (out, in)) and initial distributions. The arithmetic of its blocks is
// in layers/neox_block.c.
#include "model/neox_model.h"

#include <stddef.h>

#define FIELD(key_, kind_, member)                                                                 \
    .key = key_, .kind = ZR_FIELD_##kind_, .at = offsetof(zr_lm_numbers, member)
#define TILES(of) FIELD("tiles_" #of, OPTIONAL, tiles.of), .most = ZR_MOST_WEIGHT_TILES
static const zr_lm_field fields[ZR_ROLES] = {
    [ZR_ROLE_VOCABULARY] = {FIELD("vocab_size", SIZE, vocab), .most = INT32_MAX},
    [ZR_ROLE_POSITIONS] = {FIELD("max_position_embeddings", SIZE, positions), .most = 1 << 30},
    [ZR_ROLE_WIDTH] = {FIELD("hidden_size", SIZE, width), .most = 1 << 20},
    [ZR_ROLE_INNER] = {FIELD("intermediate_size", SIZE, inner), .most = 1 << 22},
    [ZR_ROLE_LAYERS] = {FIELD("num_hidden_layers", SIZE, layers), .most = 1 << 16},
    [ZR_ROLE_HEADS] = {FIELD("num_attention_heads", SIZE, heads), .most = 1 << 16},
    [ZR_ROLE_EPSILON] = {FIELD("layer_norm_eps", EPSILON, epsilon), .otherwise = 1e-5},
    [ZR_ROLE_DEVIATION] = {FIELD("initializer_range", DEVIATION, deviation), .otherwise = 0.02},
    [ZR_ROLE_RESIDUAL_DROPOUT] = {FIELD("hidden_dropout", PROBABILITY, residual_dropout)},
    [ZR_ROLE_EMBEDDING_DROPOUT] = {FIELD(NULL, PROBABILITY, residual_dropout)},
    [ZR_ROLE_ATTENTION_DROPOUT] = {FIELD("attention_dropout", PROBABILITY, attention_dropout)},
    [ZR_ROLE_ROTATED] = {FIELD("rotary_pct", FRACTION, rotated), .otherwise = 0.25},
    [ZR_ROLE_THETA] = {FIELD("rotary_emb_base", BASE, rope.theta), .otherwise = 10000},
    [ZR_ROLE_TIED] = {FIELD("tie_word_embeddings", FLAG, tied)},
    [ZR_ROLE_TILES] = {TILES(embedding)},
    [ZR_ROLE_TILES + 1] = {TILES(attention)},
    [ZR_ROLE_TILES + 2] = {TILES(mlp)},
};

static const zr_lm_need needs[] = {
    {.key = "hidden_act", .text = "gelu"},
    {.key = "use_parallel_residual", .value = true, .otherwise = true},
    {.key = "attention_bias", .value = true, .otherwise = true},
    {0}};

#define PYTHIA(size, layers_, width_, heads_, inner_, vocab_)                                      \
    .name = "pythia-" size, .layers = layers_, .heads = heads_, .width = width_, .inner = inner_,  \
    .vocab = vocab_, .context = 2048, .epsilon = 1e-5f
static const zr_lm_preset presets[] = {
    {PYTHIA("14m", 6, 128, 4, 512, 50304)},       {PYTHIA("70m", 6, 512, 8, 2048, 50304)},
    {PYTHIA("160m", 12, 768, 12, 3072, 50304)},   {PYTHIA("410m", 24, 1024, 16, 4096, 50304)},
    {PYTHIA("1b", 16, 2048, 8, 8192, 50304)},     {PYTHIA("1.4b", 24, 2048, 16, 8192, 50304)},
    {PYTHIA("2.8b", 32, 2560, 32, 10240, 50304)}, {PYTHIA("6.9b", 32, 4096, 32, 16384, 50432)},
    {PYTHIA("12b", 36, 5120, 40, 20480, 50688)},  {0}};

#define NORM(number, name)                                                                         \
    [number] = {name ".weight", ZR_WIDE_STREAM, .flags = ZR_GAIN},                                 \
    [number + 1] = {name ".bias", ZR_WIDE_STREAM}
#define LINEAR(number, name, out_, in_)                                                            \
    [number] = {name ".weight", ZR_WIDE_##out_, ZR_WIDE_##in_},                                    \
    [number + 1] = {name ".bias", ZR_WIDE_##out_}
static const zr_tensor_row block[] = {
    NORM(ZR_NEOX_NORM1, "input_layernorm"),
    LINEAR(ZR_NEOX_QKV, "attention.query_key_value", PACKED, STREAM),
    LINEAR(ZR_NEOX_DENSE, "attention.dense", STREAM, QUERIES),
    NORM(ZR_NEOX_NORM2, "post_attention_layernorm"),
    LINEAR(ZR_NEOX_FC, "mlp.dense_h_to_4h", INNER, STREAM),
    LINEAR(ZR_NEOX_PROJ, "mlp.dense_4h_to_h", STREAM, INNER),
};

static const zr_model_type types[] = {{"gpt_neox", "GPTNeoXForCausalLM"}, {0}};

const zr_architecture zr_neox_architecture = {
    .title = "GPT-NeoX",
    .types = types,
    .file_prefix = "",
    .outputs_first = true,
    .rotary = true,
    .fields = fields,
    .needs = needs,
    .presets = presets,
    .tensors = {.unit_prefix = "layers.",
                .layer_prefix = "gpt_neox.layers.",
                .table = "gpt_neox.embed_in.weight",
                .gain = "gpt_neox.final_layer_norm.weight",
                .bias = "gpt_neox.final_layer_norm.bias",
                .head = "embed_out.weight",
                .count = ZR_COUNT(block),
                .block = block},
    .rope_at = offsetof(zr_lm_numbers, rope),
};
