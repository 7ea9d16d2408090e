// Makes the configuration of a model that a program describes by rows.
#include "model/rows_model.h"

#include "base/errors.h"

#include <stddef.h>
#include <string.h>

typedef struct described { // an architecture, and what it points to
    zr_architecture architecture;
    zr_model_type types[2];
} described;

static const zr_lm_field fields[ZR_ROLES] = {
    [ZR_ROLE_VOCABULARY] = ZR_SIZE("vocab_size", vocab, INT32_MAX),
    [ZR_ROLE_POSITIONS] = ZR_SIZE("n_positions", positions, 1 << 30),
    [ZR_ROLE_WIDTH] = ZR_SIZE("width", width, 1 << 20),
    [ZR_ROLE_INNER] = ZR_SIZE("inner", inner, 1 << 22),
    [ZR_ROLE_LAYERS] = ZR_SIZE("n_layer", layers, 1 << 16),
    [ZR_ROLE_HEADS] = ZR_SIZE("n_head", heads, 1 << 16),
    [ZR_ROLE_KV_HEADS] = {ZR_NUMBER("n_kv_head", OPTIONAL, kv_heads), .most = 1 << 16},
    [ZR_ROLE_HEAD_DIM] = {ZR_NUMBER("head_dim", OPTIONAL, head_dim), .most = ZR_MOST_HEAD_DIM},
    [ZR_ROLE_EPSILON] = {ZR_NUMBER("norm_epsilon", EPSILON, epsilon)},
    [ZR_ROLE_DEVIATION] = {ZR_NUMBER("initializer_range", DEVIATION, deviation)},
    [ZR_ROLE_RESIDUAL_DROPOUT] = {ZR_NUMBER("residual_dropout", PROBABILITY, residual_dropout)},
    [ZR_ROLE_EMBEDDING_DROPOUT] = {ZR_NUMBER("embedding_dropout", PROBABILITY, embedding_dropout)},
    [ZR_ROLE_ATTENTION_DROPOUT] = {ZR_NUMBER("attention_dropout", PROBABILITY, attention_dropout)},
    [ZR_ROLE_ROTATED] = {ZR_NUMBER("rotated", FRACTION, rotated)},
    [ZR_ROLE_THETA] = {ZR_NUMBER("rope_theta", BASE, rope.theta)},
    [ZR_ROLE_TIED] = {ZR_NUMBER("tied", FLAG, tied)},
    ZR_TILE_NUMBERS,
};

static zr_lm_numbers numbers_of(const zero_rows_config *config, bool rotary)
{
    return (zr_lm_numbers){
        .vocab = config->vocab_size,
        .positions = config->n_positions,
        .width = config->width,
        .inner = config->inner,
        .layers = config->n_layer,
        .heads = config->n_head,
        .kv_heads = config->n_kv_head,
        .head_dim = config->head_dim,
        .epsilon = config->norm_epsilon,
        .deviation = config->initializer_range,
        .residual_dropout = config->residual_dropout,
        .embedding_dropout = config->embedding_dropout,
        .attention_dropout = config->attention_dropout,
        .rotated = rotary ? config->rotated : 1,
        .rope = rotary ? config->rope : (zero_rope){.theta = 10000},
        .tied = config->tied,
    };
}

// Returns whether the block has a row of a kind.
static bool has_kind(const zero_block_table *block, zero_row_kind kind)
{
    const zero_half_table *half = &block->halves[ZERO_ATTENTION_HALF];
    for (int r = 0; r < half->count; r++)
        if (half->rows[r].kind == kind)
            return true;
    return false;
}

static void describe(const zero_rows_config *config, bool rotary, described *out)
{
    static const zr_lm_need no_needs[] = {{0}};
    static const zr_lm_preset no_presets[] = {{0}};
    out->types[0] = (zr_model_type){config->name, config->name};
    out->architecture = (zr_architecture){
        .title = config->name,
        .types = out->types,
        .rms = config->rms_norm,
        .outputs_first = config->outputs_first,
        .rotary = rotary,
        .fields = fields,
        .needs = no_needs,
        .presets = no_presets,
        .tensors = {.unit_prefix = "blocks.",
                    .layer_prefix = "blocks.",
                    .table = "embedding.weight",
                    .positions = config->learned_positions ? "positions.weight" : NULL,
                    .gain = "norm.weight",
                    .bias = config->rms_norm ? NULL : "norm.bias",
                    .head = "head.weight",
                    .count = config->tensor_count,
                    .block = config->tensors},
        .block = config->block,
    };
}

static zero_status check_names(const zero_rows_config *config, zero_error *error)
{
    for (int t = 0; t < config->tensor_count; t++) {
        const zero_tensor_row *tensor = &config->tensors[t];
        if (!tensor->name || !tensor->name[0] || strlen(tensor->name) > 40)
            return zr_fail(error, ZERO_ERR_USAGE,
                           "rows of \"%s\": tensor %d needs a name of 1 to 40 characters",
                           config->name, t);
        if (tensor->out <= ZERO_WIDE_NONE || tensor->out > ZERO_WIDE_HEAD || tensor->in < 0 ||
            tensor->in > ZERO_WIDE_HEAD || tensor->only_with)
            return zr_fail(error, ZERO_ERR_USAGE,
                           "rows of \"%s\": tensor \"%s\" has no size that a row can have, or "
                           "only_with is not 0",
                           config->name, tensor->name);
        for (int other = 0; other < t; other++)
            if (!strcmp(config->tensors[other].name, tensor->name))
                return zr_fail(error, ZERO_ERR_USAGE,
                               "rows of \"%s\": two tensors have the name \"%s\"", config->name,
                               tensor->name);
    }
    return ZERO_OK;
}

zero_status zr_rows_make(const zero_rows_config *config, zr_lm_config *out, zero_error *error)
{
    *out = (zr_lm_config){.kind = ZR_LM_ROWS};
    if (!config->name || !config->name[0] || !config->block || !config->tensors ||
        config->tensor_count < 1 || config->tensor_count >= ZERO_NO_TENSOR)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_rows_config: name, block and tensors, of which there are 1 to %d, are "
                       "needed",
                       ZERO_NO_TENSOR - 1);
    ZERO_TRY(check_names(config, error));
    ZERO_TRY(zr_rows_check(config->block, config->tensors, config->tensor_count, config->rms_norm,
                           config->outputs_first, config->name, error));
    bool woven = has_kind(config->block, ZERO_ROW_ROTATE_HEADS),
         rotary = woven || has_kind(config->block, ZERO_ROW_ROTATE);
    described *made = zr_alloc(sizeof *made, error);
    if (!made)
        return ZERO_ERR_MEMORY;
    describe(config, rotary, made);
    out->rows =
        (zr_lm_rows){.numbers = numbers_of(config, rotary), .architecture = &made->architecture};
    ZERO_TRY(zr_lm_check(out, error));
    const zr_lm_shape shape = zr_lm_shape_of(out);
    if (woven && shape.kv_heads != shape.heads)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "rows of \"%s\": ROTATE_HEADS needs as many heads of keys and values as of "
                       "queries, not %lld and %lld",
                       config->name, (long long)shape.kv_heads, (long long)shape.heads);
    return ZERO_OK;
}

void zr_rows_free(const zr_lm_config *config)
{
    if (config && config->kind == ZR_LM_ROWS)
        zr_free((void *)config->rows.architecture);
}
