// GPT-NeoX, and so Pythia. The weights of Linear are (out, in); both halves read the block's input.
#include "model/lm_table.h"

static const zr_lm_field fields[ZR_ROLES] = {
    ZR_USUAL_NUMBERS,
    [ZR_ROLE_EPSILON] = {ZR_NUMBER("layer_norm_eps", EPSILON, epsilon), .otherwise = 1e-5},
    [ZR_ROLE_RESIDUAL_DROPOUT] = {ZR_NUMBER("hidden_dropout", PROBABILITY, residual_dropout)},
    [ZR_ROLE_EMBEDDING_DROPOUT] = {ZR_NUMBER(NULL, PROBABILITY, residual_dropout)},
    [ZR_ROLE_ROTATED] = {ZR_NUMBER("rotary_pct", FRACTION, rotated), .otherwise = 0.25},
    [ZR_ROLE_THETA] = {ZR_NUMBER("rotary_emb_base", BASE, rope.theta), .otherwise = 10000},
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

enum { NORM1, QKV = 2, DENSE = 4, NORM2 = 6, FC = 8, PROJ = 10 }; // weights; a bias follows each

static const zero_tensor_row tensors[] = {
    ZR_NORM_TENSORS(NORM1, "input_layernorm"),
    ZR_LINEAR_TENSORS(QKV, "attention.query_key_value", PACKED, STREAM),
    ZR_LINEAR_TENSORS(DENSE, "attention.dense", STREAM, QUERIES),
    ZR_NORM_TENSORS(NORM2, "post_attention_layernorm"),
    ZR_LINEAR_TENSORS(FC, "mlp.dense_h_to_4h", INNER, STREAM),
    ZR_LINEAR_TENSORS(PROJ, "mlp.dense_4h_to_h", STREAM, INNER),
};

#define IN_GGUF(number, name) [number] = name ".weight", [(number) + 1] = name ".bias"
static const char *const gguf_names[] = {
    IN_GGUF(NORM1, "attn_norm"), IN_GGUF(QKV, "attn_qkv"), IN_GGUF(DENSE, "attn_output"),
    IN_GGUF(NORM2, "ffn_norm"),  IN_GGUF(FC, "ffn_up"),    IN_GGUF(PROJ, "ffn_down"),
};

// clang-format off
#define PRODUCT(in, width, number) ZERO_ROW_LINEAR, {in}, ZERO_WIDE_##width, number, number + 1
static const zero_block_table block = {.parallel = true, .halves = {{
    .count = 5, .rows = {
    {ZERO_ROW_NORM, .weight = NORM1, .bias = NORM1 + 1},
    {PRODUCT(0, PACKED, QKV), ZERO_KEPT},
    {ZERO_ROW_ROTATE_HEADS, {1}},
    {ZERO_ROW_ATTENTION, {2}, .kept = ZERO_KEPT},
    {PRODUCT(3, STREAM, DENSE)},
}}, {
    .count = 4, .rows = {
    {ZERO_ROW_NORM, .weight = NORM2, .bias = NORM2 + 1},
    {PRODUCT(0, INNER, FC), ZERO_KEPT},
    {ZERO_ROW_GELU_ERF, {1}},
    {PRODUCT(2, STREAM, PROJ)},
}}}};
// clang-format on

const zr_architecture zr_neox_architecture = {
    .title = "GPT-NeoX",
    .types = (const zr_model_type[]){{"gpt_neox", "GPTNeoXForCausalLM"}, {0}},
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
                .count = ZR_COUNT(tensors),
                .block = tensors},
    .block = &block,
    .gguf = &(const zr_lm_gguf){.name = "gptneox", .has_head = true},
    .gguf_names = gguf_names,
};
