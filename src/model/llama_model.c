// Llama's configuration: defaults, the check for contradictions, and its row among the
// architectures.
#include "model/llama_model.h"

#include "base/errors.h"

#include <math.h>
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

#define FIELD(member, kind_) .kind = ZR_FIELD_##kind_, .at = offsetof(zero_llama_config, member)
const zr_lm_field zr_llama_fields[ZR_LLAMA_FIELDS] = {
    [ZR_LLAMA_VOCABULARY] = {"vocab_size", FIELD(vocab_size, SIZE), .most = INT32_MAX},
    [ZR_LLAMA_POSITIONS] = {"max_position_embeddings", FIELD(max_positions, SIZE), .most = 1 << 30},
    [ZR_LLAMA_WIDTH] = {"hidden_size", FIELD(hidden_size, SIZE), .most = 1 << 20},
    [ZR_LLAMA_INNER] = {"intermediate_size", FIELD(intermediate_size, SIZE), .most = 1 << 22},
    [ZR_LLAMA_LAYERS] = {"num_hidden_layers", FIELD(n_layer, SIZE), .most = 1 << 16},
    [ZR_LLAMA_HEADS] = {"num_attention_heads", FIELD(n_head, SIZE), .most = 1 << 16},
    [ZR_LLAMA_KV_HEADS] = {"num_key_value_heads", FIELD(n_kv_head, OPTIONAL),
                           .most_at = offsetof(zero_llama_config, n_head)},
    [ZR_LLAMA_HEAD_DIM] = {"head_dim", FIELD(head_dim, OPTIONAL), .most = ZR_LLAMA_MOST_HEAD_DIM},
    [ZR_LLAMA_WINDOW] = {"sliding_window", FIELD(sliding_window, OPTIONAL), .most = INT64_MAX},
    [ZR_LLAMA_EPSILON] = {"rms_norm_eps", FIELD(rms_norm_eps, EPSILON), .otherwise = 1e-6},
    [ZR_LLAMA_DEVIATION] = {"initializer_range", FIELD(initializer_range, DEVIATION),
                            .otherwise = 0.02},
    [ZR_LLAMA_DROPOUT] = {"attention_dropout", FIELD(attention_dropout, PROBABILITY)},
    [ZR_LLAMA_ORIGINAL] = {"original_max_position_embeddings",
                           FIELD(rope.original_max_positions, OPTIONAL), .most = 1 << 30},
    [ZR_LLAMA_TILES] = {"tiles_embedding", FIELD(tiles_embedding, OPTIONAL),
                        .most = ZR_MOST_WEIGHT_TILES},
    [ZR_LLAMA_TILES + 1] = {"tiles_attention", FIELD(tiles_attention, OPTIONAL),
                            .most = ZR_MOST_WEIGHT_TILES},
    [ZR_LLAMA_TILES + 2] = {"tiles_mlp", FIELD(tiles_mlp, OPTIONAL), .most = ZR_MOST_WEIGHT_TILES},
};
#undef FIELD

static zero_status heads_check(const zero_llama_config *config, zero_error *error)
{
    int64_t kv = zr_llama_kv_heads(config);
    ZERO_TRY(zr_lm_fields_check(zr_llama_fields, ZR_LLAMA_HEADS, ZR_LLAMA_HEAD_DIM, "Llama", config,
                                error));
    if (!config->head_dim && config->hidden_size % config->n_head != 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "Llama: width %lld (hidden_size) is not divisible by %lld heads "
                       "(num_attention_heads), and head_dim is not given",
                       (long long)config->hidden_size, (long long)config->n_head);
    if (config->n_head % kv != 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "Llama: %lld heads (num_attention_heads) cannot share %lld heads of keys "
                       "and values (num_key_value_heads) evenly",
                       (long long)config->n_head, (long long)kv);
    if (zr_llama_head_dim(config) % 2 != 0 || zr_llama_head_dim(config) > ZR_LLAMA_MOST_HEAD_DIM)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "Llama: a head of %lld elements (head_dim): the two halves that are rotated "
                       "must be equal, and at most %d long",
                       (long long)zr_llama_head_dim(config), ZR_LLAMA_MOST_HEAD_DIM / 2);
    return ZERO_OK;
}

static bool is_positive(double value) { return value > 0 && isfinite(value); }

static zero_status llama3_check(const zero_rope *rope, zero_error *error)
{
    bool ordered =
        is_positive(rope->low_freq_factor) && rope->high_freq_factor > rope->low_freq_factor;
    if (ordered && isfinite(rope->high_freq_factor))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "Llama: rope scaling \"llama3\" between low_freq_factor %g and high_freq_factor "
                   "%g: the second must be the greater",
                   rope->low_freq_factor, rope->high_freq_factor);
}

static zero_status yarn_check(const zero_rope *rope, zero_error *error)
{
    const double all[] = {rope->beta_fast, rope->beta_slow, rope->attention_factor, rope->mscale,
                          rope->mscale_all_dim};
    bool good = true;
    double sum = 0; // finite if all terms are
    for (int i = 0; i < ZR_COUNT(all); i++) {
        good = good && all[i] >= 0;
        sum += all[i];
    }
    if (good && isfinite(sum))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "Llama: rope scaling \"yarn\" with beta_fast %g, beta_slow %g, attention_factor "
                   "%g, mscale %g, mscale_all_dim %g: none may be negative",
                   all[0], all[1], all[2], all[3], all[4]);
}

static zero_status scaling_check(const zero_rope *rope, zero_error *error)
{
    if (rope->scaling == ZERO_ROPE_default)
        return ZERO_OK;
    if (!is_positive(rope->factor) || rope->factor < 1)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "Llama: rope scaling \"%s\" by a factor of %g: it must be 1 or more",
                       zr_rope_scaling_name(rope->scaling), rope->factor);
    if (rope->scaling == ZERO_ROPE_llama3)
        return llama3_check(rope, error);
    return rope->scaling == ZERO_ROPE_yarn ? yarn_check(rope, error) : ZERO_OK;
}

static zero_status rope_check(const zero_llama_config *config, zero_error *error)
{
    const zero_rope *rope = &config->rope;
    if (rope->scaling < 0 || rope->scaling >= ZERO_ROPE_SCALING_COUNT)
        return zr_fail(error, ZERO_ERR_USAGE, "Llama: rope.scaling is %d: there are %d",
                       (int)rope->scaling, ZERO_ROPE_SCALING_COUNT);
    if (!is_positive(rope->theta) || rope->theta <= 1)
        return zr_fail(error, ZERO_ERR_USAGE, "Llama: rope_theta is %g: it must be above 1",
                       rope->theta);
    ZERO_TRY(scaling_check(rope, error));
    return zr_lm_fields_check(zr_llama_fields, ZR_LLAMA_ORIGINAL, ZR_LLAMA_ORIGINAL, "Llama",
                              config, error);
}

zero_status zr_llama_check(const zero_llama_config *config, zero_error *error)
{
    if (config->variant < 0 || config->variant >= ZERO_LLAMA_VARIANT_COUNT)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_llama_config: variant is %d: there are %d",
                       (int)config->variant, ZERO_LLAMA_VARIANT_COUNT);
    ZERO_TRY(zr_lm_fields_check(zr_llama_fields, ZR_LLAMA_VOCABULARY, ZR_LLAMA_LAYERS, "Llama",
                                config, error));
    ZERO_TRY(zr_lm_fields_check(zr_llama_fields, ZR_LLAMA_WINDOW, ZR_LLAMA_WINDOW, "Llama", config,
                                error));
    ZERO_TRY(heads_check(config, error));
    ZERO_TRY(rope_check(config, error));
    ZERO_TRY(zr_lm_fields_check(zr_llama_fields, ZR_LLAMA_TILES, ZR_LLAMA_TILES + 2, "Llama",
                                config, error));
    return zr_lm_fields_check(zr_llama_fields, ZR_LLAMA_EPSILON, ZR_LLAMA_DROPOUT, "Llama", config,
                              error);
}

static zero_status check_llama_model(const zr_lm_config *config, zero_error *error)
{
    return zr_llama_check(&config->llama, error);
}

static zr_lm_shape shape(const zr_lm_config *config)
{
    const zero_llama_config *of = &config->llama;
    return (zr_lm_shape){
        .title = "Llama",
        .vocab = of->vocab_size,
        .positions =
            of->sliding_window ? ZR_MIN(of->max_positions, of->sliding_window) : of->max_positions,
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
    .check = check_llama_model,
    .shape = shape,
    .vocabulary = &zr_llama_fields[ZR_LLAMA_VOCABULARY],
    .tiles = &zr_llama_fields[ZR_LLAMA_TILES],
    .design = zr_llama_design,
};
