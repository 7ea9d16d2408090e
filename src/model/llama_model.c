// Llama's configuration: defaults, what contradicts itself, and its row of the architectures.
#include "model/llama_model.h"

#include "base/struct_take.h"

#include <math.h>

// It writes into the struct of a program that may be older, and is not told its size.
_Static_assert(sizeof(zero_llama_config) == ZR_STRUCT_UPTO(zero_llama_config, tiles_mlp),
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

const char *zr_llama_variant_name(zero_llama_variant variant)
{
#define NAME(name) [ZERO_LLAMA_##name] = #name,
    static const char *const names[] = {ZERO_LLAMA_VARIANTS(NAME)};
#undef NAME
    return names[variant];
}

const char *zr_rope_scaling_name(zero_rope_scaling scaling)
{
#define NAME(name) [ZERO_ROPE_##name] = #name,
    static const char *const names[] = {ZERO_ROPE_SCALINGS(NAME)};
#undef NAME
    return names[scaling];
}

int64_t zr_llama_head_dim(const zero_llama_config *config)
{
    return config->head_dim ? config->head_dim : config->hidden_size / config->n_head;
}

int64_t zr_llama_kv_heads(const zero_llama_config *config)
{
    return config->n_kv_head ? config->n_kv_head : config->n_head;
}

static zero_status size_check(const char *name, int64_t value, int64_t limit, zero_error *error)
{
    if (value < 1 || value > limit)
        return zr_fail(error, ZERO_ERR_USAGE, "Llama: %s is %lld: it must be 1 to %lld", name, (long long)value, (long long)limit);
    return ZERO_OK;
}

static zero_status optional_check(const char *name, int64_t value, int64_t limit, zero_error *error)
{
    return value ? size_check(name, value, limit, error) : ZERO_OK;
}

static zero_status heads_check(const zero_llama_config *config, zero_error *error)
{
    int64_t kv = zr_llama_kv_heads(config);
    ZERO_TRY(size_check("num_attention_heads", config->n_head, 1 << 16, error));
    ZERO_TRY(optional_check("num_key_value_heads", config->n_kv_head, config->n_head, error));
    ZERO_TRY(optional_check("head_dim", config->head_dim, ZR_LLAMA_MOST_HEAD_DIM, error));
    if (!config->head_dim && config->hidden_size % config->n_head != 0)
        return zr_fail(error, ZERO_ERR_USAGE, "Llama: width %lld (hidden_size) is not divisible by %lld heads (num_attention_heads), and head_dim is not given",
                       (long long)config->hidden_size, (long long)config->n_head);
    if (config->n_head % kv != 0)
        return zr_fail(error, ZERO_ERR_USAGE, "Llama: %lld heads (num_attention_heads) cannot share %lld heads of keys and values (num_key_value_heads) evenly",
                       (long long)config->n_head, (long long)kv);
    if (zr_llama_head_dim(config) % 2 != 0 || zr_llama_head_dim(config) > ZR_LLAMA_MOST_HEAD_DIM)
        return zr_fail(error, ZERO_ERR_USAGE, "Llama: a head of %lld elements (head_dim): the two halves that are rotated must be equal, and at most %d long",
                       (long long)zr_llama_head_dim(config), ZR_LLAMA_MOST_HEAD_DIM / 2);
    return ZERO_OK;
}

static bool is_positive(double value)
{
    return value > 0 && isfinite(value);
}

static zero_status rope_check(const zero_llama_config *config, zero_error *error)
{
    const zero_rope *rope = &config->rope;
    if (rope->scaling < 0 || rope->scaling >= ZERO_ROPE_SCALING_COUNT)
        return zr_fail(error, ZERO_ERR_USAGE, "Llama: rope.scaling is %d: there are %d", (int)rope->scaling, ZERO_ROPE_SCALING_COUNT);
    const char *name = zr_rope_scaling_name(rope->scaling);
    if (!is_positive(rope->theta) || rope->theta <= 1)
        return zr_fail(error, ZERO_ERR_USAGE, "Llama: rope_theta is %g: it must be above 1", rope->theta);
    if (rope->scaling != ZERO_ROPE_default && (!is_positive(rope->factor) || rope->factor < 1))
        return zr_fail(error, ZERO_ERR_USAGE, "Llama: rope scaling \"%s\" by a factor of %g: it must be 1 or more", name, rope->factor);
    if (rope->scaling == ZERO_ROPE_llama3 && (!is_positive(rope->low_freq_factor) || !(rope->high_freq_factor > rope->low_freq_factor) || !isfinite(rope->high_freq_factor)))
        return zr_fail(error, ZERO_ERR_USAGE, "Llama: rope scaling \"llama3\" between low_freq_factor %g and high_freq_factor %g: the second must be the greater",
                       rope->low_freq_factor, rope->high_freq_factor);
    if (rope->scaling == ZERO_ROPE_yarn && !(rope->beta_fast >= 0 && rope->beta_slow >= 0 && rope->attention_factor >= 0 && rope->mscale >= 0 && rope->mscale_all_dim >= 0 &&
                                             isfinite(rope->beta_fast + rope->beta_slow + rope->attention_factor + rope->mscale + rope->mscale_all_dim)))
        return zr_fail(error, ZERO_ERR_USAGE, "Llama: rope scaling \"yarn\" with beta_fast %g, beta_slow %g, attention_factor %g, mscale %g, mscale_all_dim %g: none may be negative",
                       rope->beta_fast, rope->beta_slow, rope->attention_factor, rope->mscale, rope->mscale_all_dim);
    return optional_check("original_max_position_embeddings", rope->original_max_positions, 1 << 30, error);
}

static zero_status numbers_check(const zero_llama_config *config, zero_error *error)
{
    if (!(config->rms_norm_eps > 0 && config->rms_norm_eps < 1))
        return zr_fail(error, ZERO_ERR_USAGE, "Llama: rms_norm_eps is %g: it must be above 0 and below 1", (double)config->rms_norm_eps);
    if (!(config->initializer_range >= 0 && isfinite(config->initializer_range)))
        return zr_fail(error, ZERO_ERR_USAGE, "Llama: initializer_range is %g: a finite standard deviation is needed", (double)config->initializer_range);
    if (!(config->attention_dropout >= 0 && config->attention_dropout < 1))
        return zr_fail(error, ZERO_ERR_USAGE, "Llama: attention_dropout is %g: a probability from 0 to below 1 is needed", (double)config->attention_dropout);
    return ZERO_OK;
}

zero_status zr_llama_check(const zero_llama_config *config, zero_error *error)
{
    if (config->variant < 0 || config->variant >= ZERO_LLAMA_VARIANT_COUNT)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_llama_config: variant is %d: there are %d", (int)config->variant, ZERO_LLAMA_VARIANT_COUNT);
    ZERO_TRY(size_check("vocab_size", config->vocab_size, INT32_MAX, error));
    ZERO_TRY(size_check("max_position_embeddings", config->max_positions, 1 << 30, error));
    ZERO_TRY(size_check("hidden_size", config->hidden_size, 1 << 20, error));
    ZERO_TRY(size_check("intermediate_size", config->intermediate_size, 1 << 22, error));
    ZERO_TRY(size_check("num_hidden_layers", config->n_layer, 1 << 16, error));
    ZERO_TRY(optional_check("sliding_window", config->sliding_window, INT64_MAX, error));
    ZERO_TRY(heads_check(config, error));
    ZERO_TRY(rope_check(config, error));
    ZERO_TRY(optional_check("tiles_embedding", config->tiles_embedding, ZR_MOST_WEIGHT_TILES, error));
    ZERO_TRY(optional_check("tiles_attention", config->tiles_attention, ZR_MOST_WEIGHT_TILES, error));
    ZERO_TRY(optional_check("tiles_mlp", config->tiles_mlp, ZR_MOST_WEIGHT_TILES, error));
    return numbers_check(config, error);
}

static zero_status check(const zr_lm_config *config, zero_error *error)
{
    return zr_llama_check(&config->llama, error);
}

static zr_lm_shape shape(const zr_lm_config *config)
{
    const zero_llama_config *of = &config->llama;
    return (zr_lm_shape){
        .title = "Llama",
        .vocab = of->vocab_size,
        .positions = of->sliding_window ? ZR_MIN(of->max_positions, of->sliding_window) : of->max_positions,
        .width = of->hidden_size,
        .inner = of->intermediate_size,
        .layers = of->n_layer,
        .heads = of->n_head,
        .kv_heads = zr_llama_kv_heads(of),
        .head_dim = zr_llama_head_dim(of),
        .norm_epsilon = of->rms_norm_eps,
        .rms = true,
        .attention_dropout = of->attention_dropout,
    };
}

static void set_vocabulary(zr_lm_config *config, int64_t tokens)
{
    config->llama.vocab_size = tokens;
}

static zr_tiles tiles(const zr_lm_config *config)
{
    return (zr_tiles){config->llama.tiles_embedding, config->llama.tiles_attention, config->llama.tiles_mlp};
}

static void set_tiles(zr_lm_config *config, const zr_tiles *tiles)
{
    config->llama.tiles_embedding = tiles->embedding;
    config->llama.tiles_attention = tiles->attention;
    config->llama.tiles_mlp = tiles->mlp;
}

#define NAME(name) #name,
static const char *const model_types[] = {ZERO_LLAMA_VARIANTS(NAME) NULL};
#undef NAME

const zr_architecture zr_llama_architecture = {
    .model_types = model_types,
    .file_prefix = "",
    .preset_name = zr_llama_preset_name,
    .parse = zr_llama_parse,
    .read = zr_llama_config_read,
    .write = zr_llama_config_write,
    .check = check,
    .shape = shape,
    .set_vocabulary = set_vocabulary,
    .tiles = tiles,
    .set_tiles = set_tiles,
    .design = zr_llama_design,
};
