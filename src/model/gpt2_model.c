// GPT-2: its configuration, presets, tensors, with Hugging Face's names, layout (the weights of
// Conv1D are (in, out)) and initial distributions, and the rows of its block. Its gelu is by the
// hyperbolic tangent, as published, or by the error function, as nanoGPT's is.
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

static void set_defaults(zr_lm_config *out) { zero_gpt2_defaults(&out->gpt2); }

#define FIELD(key_, kind_)                                                                         \
    .key = #key_, .kind = ZR_FIELD_##kind_, .at = offsetof(zero_gpt2_config, key_)
#define TILES(member)                                                                              \
    {                                                                                              \
        FIELD(tiles_##member, OPTIONAL), .most = ZR_MOST_WEIGHT_TILES                              \
    }
static const zr_lm_field fields[ZR_ROLES] = {
    [ZR_ROLE_VOCABULARY] = {FIELD(vocab_size, SIZE), .most = INT32_MAX},
    [ZR_ROLE_POSITIONS] = {FIELD(n_positions, SIZE), .most = 1 << 24,
                           .other_key = "max_position_embeddings", .repeated = "n_ctx"},
    [ZR_ROLE_WIDTH] = {FIELD(n_embd, SIZE), .most = 1 << 20, .other_key = "hidden_size"},
    [ZR_ROLE_INNER] = {FIELD(n_inner, OPTIONAL), .most = 1 << 22},
    [ZR_ROLE_LAYERS] = {FIELD(n_layer, SIZE), .most = 1 << 16, .other_key = "num_hidden_layers"},
    [ZR_ROLE_HEADS] = {FIELD(n_head, SIZE), .most_at = offsetof(zero_gpt2_config, n_embd),
                       .other_key = "num_attention_heads"},
    [ZR_ROLE_EPSILON] = {FIELD(layer_norm_epsilon, EPSILON), .otherwise = 1e-5},
    [ZR_ROLE_DEVIATION] = {FIELD(initializer_range, DEVIATION), .otherwise = 0.02},
    [ZR_ROLE_RESIDUAL_DROPOUT] = {FIELD(resid_pdrop, PROBABILITY), .otherwise = 0.1},
    [ZR_ROLE_EMBEDDING_DROPOUT] = {FIELD(embd_pdrop, PROBABILITY), .otherwise = 0.1},
    [ZR_ROLE_ATTENTION_DROPOUT] = {FIELD(attn_pdrop, PROBABILITY), .otherwise = 0.1},
    [ZR_ROLE_TILES] = TILES(embedding),
    [ZR_ROLE_TILES + 1] = TILES(attention),
    [ZR_ROLE_TILES + 2] = TILES(mlp),
};

#define OTHER_NEEDS                                                                                \
    {.key = "scale_attn_weights", .value = true, .otherwise = true},                               \
        {.key = "scale_attn_by_inverse_layer_idx"}, {.key = "reorder_and_upcast_attn"},            \
        {.key = "add_cross_attention", .silent = true},                                            \
        {.key = "tie_word_embeddings", .value = true, .otherwise = true},                          \
    {                                                                                              \
        0                                                                                          \
    }
static const zr_lm_need needs[] = {
    {.key = "activation_function", .text = "gelu_new", .synonym = "gelu_pytorch_tanh"},
    OTHER_NEEDS,
};
static const zr_lm_need needs_by_erf[] = {
    {.key = "activation_function", .text = "gelu"},
    OTHER_NEEDS,
};

#define PUBLISHED .vocab = 50257, .context = 1024, .epsilon = 1e-5f
static const zr_lm_preset presets[] = {
    {.name = "gpt2", .layers = 12, .heads = 12, .width = 768, PUBLISHED},
    {.name = "gpt2-medium", .layers = 24, .heads = 16, .width = 1024, PUBLISHED},
    {.name = "gpt2-large", .layers = 36, .heads = 20, .width = 1280, PUBLISHED},
    {.name = "gpt2-xl", .layers = 48, .heads = 25, .width = 1600, PUBLISHED},
    {0},
};

static const zero_tensor_row tensors[] = {
    [ZR_LN1_W] = {"ln_1.weight", ZERO_WIDE_STREAM, .flags = ZERO_GAIN},
    [ZR_LN1_B] = {"ln_1.bias", ZERO_WIDE_STREAM},
    [ZR_ATTN_W] = {"attn.c_attn.weight", ZERO_WIDE_PACKED, ZERO_WIDE_STREAM, ZERO_THREE_PARTS},
    [ZR_ATTN_B] = {"attn.c_attn.bias", ZERO_WIDE_PACKED, .flags = ZERO_THREE_PARTS},
    [ZR_ATTN_PROJ_W] = {"attn.c_proj.weight", ZERO_WIDE_STREAM, ZERO_WIDE_QUERIES, ZERO_DEPTH},
    [ZR_ATTN_PROJ_B] = {"attn.c_proj.bias", ZERO_WIDE_STREAM},
    [ZR_LN2_W] = {"ln_2.weight", ZERO_WIDE_STREAM, .flags = ZERO_GAIN},
    [ZR_LN2_B] = {"ln_2.bias", ZERO_WIDE_STREAM},
    [ZR_FC_W] = {"mlp.c_fc.weight", ZERO_WIDE_INNER, ZERO_WIDE_STREAM},
    [ZR_FC_B] = {"mlp.c_fc.bias", ZERO_WIDE_INNER},
    [ZR_MLP_PROJ_W] = {"mlp.c_proj.weight", ZERO_WIDE_STREAM, ZERO_WIDE_INNER, ZERO_DEPTH},
    [ZR_MLP_PROJ_B] = {"mlp.c_proj.bias", ZERO_WIDE_STREAM},
};

static const char *const gguf_names[] = {
    [ZR_LN1_W] = "attn_norm.weight",
    [ZR_LN1_B] = "attn_norm.bias",
    [ZR_ATTN_W] = "attn_qkv.weight",
    [ZR_ATTN_B] = "attn_qkv.bias",
    [ZR_ATTN_PROJ_W] = "attn_output.weight",
    [ZR_ATTN_PROJ_B] = "attn_output.bias",
    [ZR_LN2_W] = "ffn_norm.weight",
    [ZR_LN2_B] = "ffn_norm.bias",
    [ZR_FC_W] = "ffn_up.weight",
    [ZR_FC_B] = "ffn_up.bias",
    [ZR_MLP_PROJ_W] = "ffn_down.weight",
    [ZR_MLP_PROJ_B] = "ffn_down.bias",
};

// The block:
//
//   attention:  c_attn ─ attention ─ c_proj ─ dropout
//   mlp:        c_fc ─ gelu ─ c_proj ─ dropout
//
// The probabilities of attention are never stored: backward recomputes them from qkv and each row's
// log-sum-exp. Neither is the output of gelu: the products that read it apply gelu to fc
// themselves, or it is computed again. A row of activations keeps 4C + F values of T.
enum { NORMED, QKV, ATTENDED, ATTENTION_BRANCH, FC = 1, MLP_BRANCH, GELU = 2, MLP_BRANCH_BY_ERF };

// clang-format off
#define ATTENTION {                                                                                \
    .count = ATTENTION_BRANCH + 1, .rows = {                                                       \
    [NORMED]     = {ZERO_ROW_NORM, .weight = ZR_LN1_W, .bias = ZR_LN1_B},                          \
    [QKV]        = {ZERO_ROW_LINEAR, {NORMED}, ZERO_WIDE_PACKED, ZR_ATTN_W, ZR_ATTN_B, ZERO_KEPT}, \
    [ATTENDED]   = {ZERO_ROW_ATTENTION, {QKV}, .kept = ZERO_KEPT},                                 \
    [ATTENTION_BRANCH] =                                                                           \
        {ZERO_ROW_LINEAR, {ATTENDED}, ZERO_WIDE_STREAM, ZR_ATTN_PROJ_W, ZR_ATTN_PROJ_B},           \
}}
#define MLP_BEGIN                                                                                  \
    [NORMED]     = {ZERO_ROW_NORM, .weight = ZR_LN2_W, .bias = ZR_LN2_B},                          \
    [FC]         = {ZERO_ROW_LINEAR, {NORMED}, ZERO_WIDE_INNER, ZR_FC_W, ZR_FC_B, ZERO_KEPT}
static const zero_block_table block = {.halves = {ATTENTION, {
    .count = MLP_BRANCH + 1, .rows = {
    MLP_BEGIN,
    [MLP_BRANCH] = {ZERO_ROW_GELU_LINEAR, {FC}, ZERO_WIDE_STREAM, ZR_MLP_PROJ_W, ZR_MLP_PROJ_B},
}}}};
static const zero_block_table block_by_erf = {.halves = {ATTENTION, {
    .count = MLP_BRANCH_BY_ERF + 1, .rows = {
    MLP_BEGIN,
    [GELU]       = {ZERO_ROW_GELU_ERF, {FC}},
    [MLP_BRANCH_BY_ERF] =
        {ZERO_ROW_LINEAR, {GELU}, ZERO_WIDE_STREAM, ZR_MLP_PROJ_W, ZR_MLP_PROJ_B},
}}}};
// clang-format on

static const zr_model_type types[] = {{"gpt2", "GPT2LMHeadModel"}, {0}};
static const zr_lm_gguf gguf[] = {{.name = "gpt2"}};

#define TABLES                                                                                     \
    .types = types, .file_prefix = "transformer.", .fields = fields,                               \
    .tensors =                                                                                     \
        {                                                                                          \
            .unit_prefix = "h.",                                                                   \
            .layer_prefix = "h.",                                                                  \
            .table = "wte.weight",                                                                 \
            .positions = "wpe.weight",                                                             \
            .gain = "ln_f.weight",                                                                 \
            .bias = "ln_f.bias",                                                                   \
            .head = "lm_head.weight",                                                              \
            .count = ZR_COUNT(tensors),                                                            \
            .block = tensors,                                                                      \
    },                                                                                             \
    .gguf_names = gguf_names, .defaults = set_defaults

const zr_architecture zr_gpt2_architecture = {
    TABLES, .title = "GPT-2", .needs = needs, .presets = presets, .block = &block, .gguf = gguf,
};

// llama.cpp's GPT-2 has the other gelu.
const zr_architecture zr_gpt2_erf_architecture = {
    TABLES,
    .title = "GPT-2 with gelu by the error function",
    .needs = needs_by_erf,
    .presets = (const zr_lm_preset[]){{0}},
    .block = &block_by_erf,
};
