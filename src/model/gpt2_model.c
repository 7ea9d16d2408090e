// GPT-2's configuration: the published defaults, what contradicts itself, and its row of the architectures.
#include "model/gpt2_model.h"

#include "base/struct_take.h"

#include <math.h>

// It writes into the struct of a program that may be older, and is not told its size.
_Static_assert(sizeof(zero_gpt2_config) == ZR_STRUCT_UPTO(zero_gpt2_config, tiles_mlp),
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

static zero_status size_check(const char *name, int64_t value, int64_t limit, zero_error *error)
{
    if (value < 1 || value > limit)
        return zr_fail(error, ZERO_ERR_USAGE, "GPT-2: %s is %lld: it must be 1 to %lld", name, (long long)value,
                       (long long)limit);
    return ZERO_OK;
}

static zero_status dropout_check(const char *name, float p, zero_error *error)
{
    if (!(p >= 0 && p < 1))
        return zr_fail(error, ZERO_ERR_USAGE, "GPT-2: %s is %g: a probability from 0 to below 1 is needed", name,
                       (double)p);
    return ZERO_OK;
}

static zero_status tiles_check(const char *name, int64_t tiles, zero_error *error)
{
    return tiles ? size_check(name, tiles, ZR_MOST_WEIGHT_TILES, error) : ZERO_OK;
}

zero_status zr_gpt2_check(const zero_gpt2_config *config, zero_error *error)
{
    ZERO_TRY(size_check("vocab_size", config->vocab_size, INT32_MAX, error));
    ZERO_TRY(size_check("n_positions", config->n_positions, 1 << 24, error));
    ZERO_TRY(size_check("n_embd", config->n_embd, 1 << 20, error));
    ZERO_TRY(size_check("n_layer", config->n_layer, 1 << 16, error));
    ZERO_TRY(size_check("n_head", config->n_head, config->n_embd, error));
    if (config->n_inner != 0)
        ZERO_TRY(size_check("n_inner", config->n_inner, 1 << 22, error));
    if (config->n_embd % config->n_head != 0)
        return zr_fail(error, ZERO_ERR_USAGE, "GPT-2: width %lld (n_embd) is not divisible by %lld heads (n_head)",
                       (long long)config->n_embd, (long long)config->n_head);
    if (!(config->layer_norm_epsilon > 0 && config->layer_norm_epsilon < 1))
        return zr_fail(error, ZERO_ERR_USAGE, "GPT-2: layer_norm_epsilon is %g: it must be above 0 and below 1",
                       (double)config->layer_norm_epsilon);
    if (!(config->initializer_range >= 0 && isfinite(config->initializer_range)))
        return zr_fail(error, ZERO_ERR_USAGE, "GPT-2: initializer_range is %g: a finite standard deviation is needed",
                       (double)config->initializer_range);
    ZERO_TRY(tiles_check("tiles_embedding", config->tiles_embedding, error));
    ZERO_TRY(tiles_check("tiles_attention", config->tiles_attention, error));
    ZERO_TRY(tiles_check("tiles_mlp", config->tiles_mlp, error));
    ZERO_TRY(dropout_check("resid_pdrop", config->resid_pdrop, error));
    ZERO_TRY(dropout_check("embd_pdrop", config->embd_pdrop, error));
    return dropout_check("attn_pdrop", config->attn_pdrop, error);
}

int64_t zr_gpt2_inner(const zero_gpt2_config *config)
{
    return config->n_inner ? config->n_inner : 4 * config->n_embd;
}

static zero_status check(const zr_lm_config *config, zero_error *error)
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
    };
}

static void set_vocabulary(zr_lm_config *config, int64_t tokens)
{
    config->gpt2.vocab_size = tokens;
}

static zr_tiles tiles(const zr_lm_config *config)
{
    return (zr_tiles){config->gpt2.tiles_embedding, config->gpt2.tiles_attention, config->gpt2.tiles_mlp};
}

static void set_tiles(zr_lm_config *config, const zr_tiles *tiles)
{
    config->gpt2.tiles_embedding = tiles->embedding;
    config->gpt2.tiles_attention = tiles->attention;
    config->gpt2.tiles_mlp = tiles->mlp;
}

static const char *const model_types[] = {"gpt2", NULL};

const zr_architecture zr_gpt2_architecture = {
    .model_types = model_types,
    .file_prefix = "transformer.",
    .preset_name = zr_gpt2_preset_name,
    .parse = zr_gpt2_parse,
    .read = zr_gpt2_config_read,
    .write = zr_gpt2_config_write,
    .check = check,
    .shape = shape,
    .set_vocabulary = set_vocabulary,
    .tiles = tiles,
    .set_tiles = set_tiles,
    .design = zr_gpt2_design,
};
