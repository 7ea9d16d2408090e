// Llama's presets and the fields that a spec can set: a small model of each variant, and published
// shapes.
//
//   smollm2-135m
//   llama:layers=4,heads=8,kv_heads=2,width=256,inner=704,context=512,vocab=V,theta=10000,tied=0
#include "model/llama_model.h"
#include "model/lm_fields.h"

#include <string.h>

typedef struct preset {
    const char *name;
    zero_llama_variant variant;
    int64_t layers, heads, kv_heads, head_dim, width, inner; // head_dim 0: width / heads
    int64_t vocab, context, window;
    float epsilon;
    bool tied;
    zero_rope rope;
} preset;

#define SMALL                                                                                      \
    .layers = 12, .heads = 12, .kv_heads = 4, .width = 768, .inner = 2048, .vocab = 32000,         \
    .context = 1024, .tied = true
#define LLAMA3_ROPE(by)                                                                            \
    {                                                                                              \
        .scaling = ZERO_ROPE_llama3, .theta = 500000, .factor = by, .low_freq_factor = 1,          \
        .high_freq_factor = 4, .original_max_positions = 8192                                      \
    }

static const preset presets[] = {
    {.name = "llama", SMALL, .epsilon = 1e-5f, .rope = {.theta = 10000}},
    {.name = "mistral",
     .variant = ZERO_LLAMA_mistral,
     SMALL,
     .epsilon = 1e-5f,
     .rope = {.theta = 10000}},
    {.name = "qwen2", .variant = ZERO_LLAMA_qwen2, SMALL, .epsilon = 1e-6f, .rope = {.theta = 1e6}},
    {.name = "qwen3", .variant = ZERO_LLAMA_qwen3, SMALL, .epsilon = 1e-6f, .rope = {.theta = 1e6}},
    {.name = "smollm2-135m",
     .layers = 30,
     .heads = 9,
     .kv_heads = 3,
     .width = 576,
     .inner = 1536,
     .vocab = 49152,
     .context = 8192,
     .epsilon = 1e-5f,
     .tied = true,
     .rope = {.theta = 100000}},
    {.name = "smollm2-360m",
     .layers = 32,
     .heads = 15,
     .kv_heads = 5,
     .width = 960,
     .inner = 2560,
     .vocab = 49152,
     .context = 8192,
     .epsilon = 1e-5f,
     .tied = true,
     .rope = {.theta = 100000}},
    {.name = "smollm2-1.7b",
     .layers = 24,
     .heads = 32,
     .kv_heads = 32,
     .width = 2048,
     .inner = 8192,
     .vocab = 49152,
     .context = 8192,
     .epsilon = 1e-5f,
     .tied = true,
     .rope = {.theta = 130000}},
    {.name = "llama-2-7b",
     .layers = 32,
     .heads = 32,
     .kv_heads = 32,
     .width = 4096,
     .inner = 11008,
     .vocab = 32000,
     .context = 4096,
     .epsilon = 1e-5f,
     .rope = {.theta = 10000}},
    {.name = "llama-3.1-8b",
     .layers = 32,
     .heads = 32,
     .kv_heads = 8,
     .width = 4096,
     .inner = 14336,
     .vocab = 128256,
     .context = 131072,
     .epsilon = 1e-5f,
     .rope = LLAMA3_ROPE(8)},
    {.name = "llama-3.1-70b",
     .layers = 80,
     .heads = 64,
     .kv_heads = 8,
     .width = 8192,
     .inner = 28672,
     .vocab = 128256,
     .context = 131072,
     .epsilon = 1e-5f,
     .rope = LLAMA3_ROPE(8)},
    {.name = "llama-3.1-405b",
     .layers = 126,
     .heads = 128,
     .kv_heads = 8,
     .width = 16384,
     .inner = 53248,
     .vocab = 128256,
     .context = 131072,
     .epsilon = 1e-5f,
     .rope = LLAMA3_ROPE(8)},
    {.name = "llama-3.2-1b",
     .layers = 16,
     .heads = 32,
     .kv_heads = 8,
     .width = 2048,
     .inner = 8192,
     .vocab = 128256,
     .context = 131072,
     .epsilon = 1e-5f,
     .tied = true,
     .rope = LLAMA3_ROPE(32)},
    {.name = "mistral-7b",
     .variant = ZERO_LLAMA_mistral,
     .layers = 32,
     .heads = 32,
     .kv_heads = 8,
     .width = 4096,
     .inner = 14336,
     .vocab = 32000,
     .context = 32768,
     .window = 4096,
     .epsilon = 1e-5f,
     .rope = {.theta = 10000}},
    {.name = "qwen2.5-0.5b",
     .variant = ZERO_LLAMA_qwen2,
     .layers = 24,
     .heads = 14,
     .kv_heads = 2,
     .width = 896,
     .inner = 4864,
     .vocab = 151936,
     .context = 32768,
     .epsilon = 1e-6f,
     .tied = true,
     .rope = {.theta = 1e6}},
    {.name = "qwen3-0.6b",
     .variant = ZERO_LLAMA_qwen3,
     .layers = 28,
     .heads = 16,
     .kv_heads = 8,
     .head_dim = 128,
     .width = 1024,
     .inner = 3072,
     .vocab = 151936,
     .context = 40960,
     .epsilon = 1e-6f,
     .tied = true,
     .rope = {.theta = 1e6}},
};

const char *zr_llama_preset_name(int i) { return i < ZR_COUNT(presets) ? presets[i].name : NULL; }

static void preset_apply(const preset *p, zero_llama_config *config)
{
    zero_llama_defaults(config);
    config->variant = p->variant;
    config->vocab_size = p->vocab;
    config->max_positions = p->context;
    config->sliding_window = p->window;
    config->hidden_size = p->width;
    config->intermediate_size = p->inner;
    config->n_layer = p->layers;
    config->n_head = p->heads;
    config->n_kv_head = p->kv_heads;
    config->head_dim = p->head_dim;
    config->rms_norm_eps = p->epsilon;
    config->rope = p->rope;
    config->tied = p->tied;
    config->qkv_bias = p->variant == ZERO_LLAMA_qwen2;
    config->qk_norm = p->variant == ZERO_LLAMA_qwen3;
}

enum {
    VOCAB,
    LAYERS,
    HEADS,
    KV_HEADS,
    HEAD_DIM,
    WIDTH,
    INNER,
    CONTEXT,
    THETA,
    TIED,
    DROPOUT,
    FIELDS
};

// Lists the fields that a spec may set, and where each value goes. `tied` is separate, because it
// is not a number of elements.
static void fields_of_config(zero_llama_config *config, int64_t *tied, zr_spec_field out[FIELDS])
{
    const zr_spec_field fields[FIELDS] = {
        [VOCAB] = {.name = "vocab", .count = &config->vocab_size},
        [LAYERS] = {.name = "layers", .count = &config->n_layer},
        [HEADS] = {.name = "heads", .count = &config->n_head},
        [KV_HEADS] = {.name = "kv_heads", .count = &config->n_kv_head},
        [HEAD_DIM] = {.name = "head_dim", .count = &config->head_dim},
        [WIDTH] = {.name = "width", .count = &config->hidden_size},
        [INNER] = {.name = "inner", .count = &config->intermediate_size},
        [CONTEXT] = {.name = "context", .count = &config->max_positions},
        [THETA] = {.name = "theta", .real = &config->rope.theta},
        [TIED] = {.name = "tied", .count = tied},
        [DROPOUT] = {.name = "dropout", .fraction = &config->attention_dropout},
    };
    memcpy(out, fields, sizeof fields);
}

// Derives fields that are not given: an inner width of 8/3 of the width, and as many key/value
// heads as query heads.
static void derive_unset_sizes(const zr_spec_field fields[FIELDS], zero_llama_config *config)
{
    int64_t width = config->hidden_size;
    bool usable = width > 0 && width <= 1 << 20;
    if (fields[WIDTH].given && !fields[INNER].given && usable)
        config->intermediate_size = ZR_ROUND_UP(width * 8 / 3, (int64_t)64);
    if (fields[HEADS].given && !fields[KV_HEADS].given)
        config->n_kv_head = 0;
}

zero_status zr_llama_parse(const char *spec, int preset, zr_lm_config *out, bool *vocab_given,
                           zero_error *error)
{
    zero_llama_config *config = &out->llama;
    zr_spec_field fields[FIELDS];
    preset_apply(&presets[preset], config);
    int64_t tied = config->tied;
    fields_of_config(config, &tied, fields);
    ZERO_TRY(zr_spec_parse(spec, fields, FIELDS, error));
    if (tied > 1)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "model \"%s\": tied=%lld: 1 (the head reads the table of tokens) or 0", spec,
                       (long long)tied);
    config->tied = (int)tied;
    derive_unset_sizes(fields, config);
    *vocab_given = fields[VOCAB].given;
    return ZERO_OK;
}
