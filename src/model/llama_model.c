// Llama, Mistral, Qwen2 and Qwen3: configuration, presets, tensors, with Hugging Face's names,
// layout (the weights of Linear are (out, in)) and initial distributions, and the rows of their
// block.
#include "model/llama_model.h"

#include "base/errors.h"

#include <stddef.h>

// zero_llama_defaults writes into a caller's struct, which an older program may have made shorter:
// no size is passed.
_Static_assert(
    sizeof(zero_llama_config) == ZR_STRUCT_UPTO(zero_llama_config, tiles_mlp),
    "a field was added: zero_llama_defaults may still write those of the first version only");

void zero_llama_defaults(zero_llama_config *config)
{
    if (!config)
        return;
    *config = (zero_llama_config){
        .struct_size = sizeof(*config),
        .vocab_size = 32000,
        .max_positions = 1024,
        .hidden_size = 768,
        .intermediate_size = 2048,
        .n_layer = 12,
        .n_head = 12,
        .n_kv_head = 4,
        .rms_norm_eps = 1e-5f,
        .initializer_range = 0.02f,
        .rope = {.theta = 10000},
        .tied = 1,
    };
}

static void set_defaults(zr_lm_config *out) { zero_llama_defaults(&out->llama); }

static void apply_preset(const zr_lm_preset *preset, zr_lm_config *out)
{
    zero_llama_config *config = &out->llama;
    config->variant = (zero_llama_variant)preset->variant;
    config->rope = preset->rope;
    config->qkv_bias = preset->variant == ZERO_LLAMA_qwen2;
    config->qk_norm = preset->variant == ZERO_LLAMA_qwen3;
}

#define FIELD(member, kind_) .kind = ZR_FIELD_##kind_, .at = offsetof(zero_llama_config, member)
#define TILES(member)                                                                              \
    {                                                                                              \
#member, FIELD(member, OPTIONAL), .most = ZR_MOST_WEIGHT_TILES                             \
    }
static const zr_lm_field fields[ZR_ROLES] = {
    [ZR_ROLE_VOCABULARY] = {"vocab_size", FIELD(vocab_size, SIZE), .most = INT32_MAX},
    [ZR_ROLE_POSITIONS] = {"max_position_embeddings", FIELD(max_positions, SIZE), .most = 1 << 30},
    [ZR_ROLE_WIDTH] = {"hidden_size", FIELD(hidden_size, SIZE), .most = 1 << 20},
    [ZR_ROLE_INNER] = {"intermediate_size", FIELD(intermediate_size, SIZE), .most = 1 << 22},
    [ZR_ROLE_LAYERS] = {"num_hidden_layers", FIELD(n_layer, SIZE), .most = 1 << 16},
    [ZR_ROLE_HEADS] = {"num_attention_heads", FIELD(n_head, SIZE), .most = 1 << 16},
    [ZR_ROLE_KV_HEADS] = {"num_key_value_heads", FIELD(n_kv_head, OPTIONAL),
                          .most_at = offsetof(zero_llama_config, n_head)},
    [ZR_ROLE_HEAD_DIM] = {"head_dim", FIELD(head_dim, OPTIONAL), .most = ZR_MOST_HEAD_DIM},
    [ZR_ROLE_EPSILON] = {"rms_norm_eps", FIELD(rms_norm_eps, EPSILON), .otherwise = 1e-6},
    [ZR_ROLE_DEVIATION] = {"initializer_range", FIELD(initializer_range, DEVIATION),
                           .otherwise = 0.02},
    [ZR_ROLE_ATTENTION_DROPOUT] = {"attention_dropout", FIELD(attention_dropout, PROBABILITY)},
    [ZR_ROLE_THETA] = {"rope_theta", FIELD(rope.theta, BASE), .otherwise = 10000},
    [ZR_ROLE_TIED] = {"tie_word_embeddings", FIELD(tied, FLAG)},
    [ZR_ROLE_WINDOW] = {"sliding_window", FIELD(sliding_window, OPTIONAL), .most = INT64_MAX},
    [ZR_ROLE_TILES] = TILES(tiles_embedding),
    [ZR_ROLE_TILES + 1] = TILES(tiles_attention),
    [ZR_ROLE_TILES + 2] = TILES(tiles_mlp),
};

static const zr_lm_need needs[] = {{.key = "hidden_act", .text = "silu", .synonym = "swish"}, {0}};

// clang-format off
#define TURNS(base) {.theta = (base)}
#define SLOWS(by) /* Llama 3 */                                                                    \
    {.scaling = ZERO_ROPE_llama3, .theta = 500000, .factor = (by), .low_freq_factor = 1,           \
     .high_freq_factor = 4, .original_max_positions = 8192}
enum { LLAMA = ZERO_LLAMA_llama, MISTRAL = ZERO_LLAMA_mistral, QWEN2 = ZERO_LLAMA_qwen2,
       QWEN3 = ZERO_LLAMA_qwen3 };
static const zr_lm_preset presets[] = {
    // layers, heads, of keys and values, head_dim, width, inner, vocabulary, context, epsilon, tied
    {"llama", 12, 12, 4, 0, 768, 2048, 32000, 1024, 1e-5f, true, LLAMA, TURNS(1e4)},
    {"mistral", 12, 12, 4, 0, 768, 2048, 32000, 1024, 1e-5f, true, MISTRAL, TURNS(1e4)},
    {"qwen2", 12, 12, 4, 0, 768, 2048, 32000, 1024, 1e-6f, true, QWEN2, TURNS(1e6)},
    {"qwen3", 12, 12, 4, 0, 768, 2048, 32000, 1024, 1e-6f, true, QWEN3, TURNS(1e6)},
    {"smollm2-135m", 30, 9, 3, 0, 576, 1536, 49152, 8192, 1e-5f, true, LLAMA, TURNS(1e5)},
    {"smollm2-360m", 32, 15, 5, 0, 960, 2560, 49152, 8192, 1e-5f, true, LLAMA, TURNS(1e5)},
    {"smollm2-1.7b", 24, 32, 32, 0, 2048, 8192, 49152, 8192, 1e-5f, true, LLAMA, TURNS(130000)},
    {"llama-2-7b", 32, 32, 32, 0, 4096, 11008, 32000, 4096, 1e-5f, false, LLAMA, TURNS(1e4)},
    {"llama-3.1-8b", 32, 32, 8, 0, 4096, 14336, 128256, 131072, 1e-5f, false, LLAMA, SLOWS(8)},
    {"llama-3.1-70b", 80, 64, 8, 0, 8192, 28672, 128256, 131072, 1e-5f, false, LLAMA, SLOWS(8)},
    {"llama-3.1-405b", 126, 128, 8, 0, 16384, 53248, 128256, 131072, 1e-5f, false, LLAMA, SLOWS(8)},
    {"llama-3.2-1b", 16, 32, 8, 0, 2048, 8192, 128256, 131072, 1e-5f, true, LLAMA, SLOWS(32)},
    {"mistral-7b", 32, 32, 8, 0, 4096, 14336, 32000, 32768, 1e-5f, false, MISTRAL, TURNS(1e4),
     .window = 4096},
    {"qwen2.5-0.5b", 24, 14, 2, 0, 896, 4864, 151936, 32768, 1e-6f, true, QWEN2, TURNS(1e6)},
    {"qwen3-0.6b", 28, 16, 8, 128, 1024, 3072, 151936, 40960, 1e-6f, true, QWEN3, TURNS(1e6)},
    {0}};
// clang-format on

#define WEIGHT(name_, out_, in_)                                                                   \
    .name = name_ ".weight", .out = ZERO_WIDE_##out_, .in = ZERO_WIDE_##in_
#define BIAS(name_, size, option)                                                                  \
    .name = name_ ".bias", .out = ZERO_WIDE_##size, .only_with = ZR_##option##_BIAS
#define GAIN(name_, size) .name = name_ ".weight", .out = ZERO_WIDE_##size, .flags = ZERO_GAIN
static const zero_tensor_row tensors[] = {
    [ZR_LLAMA_NORM1] = {GAIN("input_layernorm", STREAM)},
    [ZR_LLAMA_Q_W] = {WEIGHT("self_attn.q_proj", QUERIES, STREAM)},
    [ZR_LLAMA_Q_B] = {BIAS("self_attn.q_proj", QUERIES, QKV)},
    [ZR_LLAMA_K_W] = {WEIGHT("self_attn.k_proj", KEYS, STREAM)},
    [ZR_LLAMA_K_B] = {BIAS("self_attn.k_proj", KEYS, QKV)},
    [ZR_LLAMA_V_W] = {WEIGHT("self_attn.v_proj", KEYS, STREAM)},
    [ZR_LLAMA_V_B] = {BIAS("self_attn.v_proj", KEYS, QKV)},
    [ZR_LLAMA_Q_NORM] = {GAIN("self_attn.q_norm", HEAD), .only_with = ZR_HEAD_NORMS},
    [ZR_LLAMA_K_NORM] = {GAIN("self_attn.k_norm", HEAD), .only_with = ZR_HEAD_NORMS},
    [ZR_LLAMA_O_W] = {WEIGHT("self_attn.o_proj", STREAM, QUERIES)},
    [ZR_LLAMA_O_B] = {BIAS("self_attn.o_proj", STREAM, OUTPUT)},
    [ZR_LLAMA_NORM2] = {GAIN("post_attention_layernorm", STREAM)},
    [ZR_LLAMA_GATE_W] = {WEIGHT("mlp.gate_proj", INNER, STREAM)},
    [ZR_LLAMA_GATE_B] = {BIAS("mlp.gate_proj", INNER, MLP)},
    [ZR_LLAMA_UP_W] = {WEIGHT("mlp.up_proj", INNER, STREAM)},
    [ZR_LLAMA_UP_B] = {BIAS("mlp.up_proj", INNER, MLP)},
    [ZR_LLAMA_DOWN_W] = {WEIGHT("mlp.down_proj", STREAM, INNER)},
    [ZR_LLAMA_DOWN_B] = {BIAS("mlp.down_proj", STREAM, MLP)},
};

#define IN_GGUF(tensor, name)                                                                      \
    [ZR_LLAMA_##tensor##_W] = name ".weight", [ZR_LLAMA_##tensor##_B] = name ".bias"
static const char *const gguf_names[] = {
    [ZR_LLAMA_NORM1] = "attn_norm.weight",
    IN_GGUF(Q, "attn_q"),
    IN_GGUF(K, "attn_k"),
    IN_GGUF(V, "attn_v"),
    [ZR_LLAMA_Q_NORM] = "attn_q_norm.weight",
    [ZR_LLAMA_K_NORM] = "attn_k_norm.weight",
    IN_GGUF(O, "attn_output"),
    [ZR_LLAMA_NORM2] = "ffn_norm.weight",
    IN_GGUF(GATE, "ffn_gate"),
    IN_GGUF(UP, "ffn_up"),
    IN_GGUF(DOWN, "ffn_down"),
};

// The block:
//
//   attention:  q, k, v ─ [norms of heads] ─ rotate ─ attention ─ o
//   mlp:        silu(gate) * up ─ down
//
// Queries, keys and values are kept as their products wrote them; backward recomputes what
// attention reads: normed, rotated and packed. Neither silu(gate) * up nor the norms' outputs are
// kept. A row of activations keeps 2Q + 2K + 2F values of T.
enum { NORMED, Q, K, V, NORMED_Q, NORMED_K, PACKED, ATTENDED, ATTENTION_BRANCH };
enum { GATE = 1, UP, PRODUCT, MLP_BRANCH };

// clang-format off
static const zero_block_table block = {.halves = {{
    .count = ATTENTION_BRANCH + 1, .rows = {
    [NORMED]   = {ZERO_ROW_NORM, .weight = ZR_LLAMA_NORM1},
    [Q]        =
        {ZERO_ROW_LINEAR, {NORMED}, ZERO_WIDE_QUERIES, ZR_LLAMA_Q_W, ZR_LLAMA_Q_B, ZERO_KEPT},
    [K]        = {ZERO_ROW_LINEAR, {NORMED}, ZERO_WIDE_KEYS, ZR_LLAMA_K_W, ZR_LLAMA_K_B, ZERO_KEPT},
    [V]        = {ZERO_ROW_LINEAR, {NORMED}, ZERO_WIDE_KEYS, ZR_LLAMA_V_W, ZR_LLAMA_V_B, ZERO_KEPT},
    [NORMED_Q] = {ZERO_ROW_HEAD_NORM, {Q}, ZERO_WIDE_QUERIES, ZR_LLAMA_Q_NORM},
    [NORMED_K] = {ZERO_ROW_HEAD_NORM, {K}, ZERO_WIDE_KEYS, ZR_LLAMA_K_NORM},
    [PACKED]   = {ZERO_ROW_ROTATE, {NORMED_Q, NORMED_K, V}},
    [ATTENDED] = {ZERO_ROW_ATTENTION, {PACKED}, .kept = ZERO_KEPT},
    [ATTENTION_BRANCH] =
        {ZERO_ROW_LINEAR, {ATTENDED}, ZERO_WIDE_STREAM, ZR_LLAMA_O_W, ZR_LLAMA_O_B},
}}, {
    .count = MLP_BRANCH + 1, .rows = {
    [NORMED]   = {ZERO_ROW_NORM, .weight = ZR_LLAMA_NORM2},
    [GATE]     =
        {ZERO_ROW_LINEAR, {NORMED}, ZERO_WIDE_INNER, ZR_LLAMA_GATE_W, ZR_LLAMA_GATE_B, ZERO_KEPT},
    [UP]       =
        {ZERO_ROW_LINEAR, {NORMED}, ZERO_WIDE_INNER, ZR_LLAMA_UP_W, ZR_LLAMA_UP_B, ZERO_KEPT},
    [PRODUCT]  = {ZERO_ROW_SILU_GATE, {GATE, UP}},
    [MLP_BRANCH] =
        {ZERO_ROW_LINEAR, {PRODUCT}, ZERO_WIDE_STREAM, ZR_LLAMA_DOWN_W, ZR_LLAMA_DOWN_B},
}}}};
// clang-format on

static zero_status check_variant(const zr_lm_config *config, zero_error *error)
{
    int variant = (int)config->llama.variant;
    if (variant >= 0 && variant < ZERO_LLAMA_VARIANT_COUNT)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE, "zero_llama_config: variant is %d: there are %d", variant,
                   ZERO_LLAMA_VARIANT_COUNT);
}

static const zr_model_type types[] = {
    [ZERO_LLAMA_llama] = {"llama", "LlamaForCausalLM"},
    [ZERO_LLAMA_mistral] = {"mistral", "MistralForCausalLM"},
    [ZERO_LLAMA_qwen2] = {"qwen2", "Qwen2ForCausalLM"},
    [ZERO_LLAMA_qwen3] = {"qwen3", "Qwen3ForCausalLM"},
    {0},
};

#define AS_LLAMA                                                                                   \
    {                                                                                              \
        .name = "llama", .options = ZR_QKV_BIAS | ZR_OUTPUT_BIAS | ZR_MLP_BIAS,                    \
        .neighbours = true, .factors = true                                                        \
    }
static const zr_lm_gguf gguf[] = {
    [ZERO_LLAMA_llama] = AS_LLAMA,
    [ZERO_LLAMA_mistral] = AS_LLAMA,
    [ZERO_LLAMA_qwen2] = {.name = "qwen2", .options = ZR_QKV_BIAS, .pattern = true},
    [ZERO_LLAMA_qwen3] = {.name = "qwen3", .options = ZR_HEAD_NORMS, .pattern = true},
};

// A model of type llama has no window in files, so that one limits its positions: up to it the
// attention is full attention.
static void correct_shape(const zr_lm_config *of, zr_lm_shape *shape)
{
    const zero_llama_config *config = &of->llama;
    if (check_variant(of, NULL) == ZERO_OK)
        shape->type = &types[config->variant];
    if (config->variant == ZERO_LLAMA_llama && config->sliding_window)
        shape->positions = ZR_MIN(config->max_positions, config->sliding_window);
    shape->options = (config->qkv_bias ? ZR_QKV_BIAS : 0) |
                     (config->output_bias ? ZR_OUTPUT_BIAS : 0) |
                     (config->mlp_bias ? ZR_MLP_BIAS : 0) | (config->qk_norm ? ZR_HEAD_NORMS : 0);
}

const zr_architecture zr_llama_architecture = {
    .title = "Llama",
    .types = types,
    .rms = true,
    .gated = true,
    .outputs_first = true,
    .rotary = true,
    .fields = fields,
    .needs = needs,
    .presets = presets,
    .tensors =
        {
            .unit_prefix = "layers.",
            .layer_prefix = "model.layers.",
            .table = "model.embed_tokens.weight",
            .gain = "model.norm.weight",
            .head = "lm_head.weight",
            .count = ZR_COUNT(tensors),
            .block = tensors,
        },
    .block = &block,
    .gguf = gguf,
    .gguf_names = gguf_names,
    .defaults = set_defaults,
    .apply = apply_preset,
    .read = zr_llama_read,
    .write = zr_llama_write,
    .check = check_variant,
    .shape = correct_shape,
};
