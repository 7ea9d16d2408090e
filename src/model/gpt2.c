// GPT-2 as a list of units: the embedding, n_layer blocks, the head that borrows wte.
// One allocation per kind of thing; names, descriptions and units live exactly as long as the model.
// Names, layout (Conv1D weights are (in, out)) and initial distributions are Hugging Face's.
#include "model/gpt2.h"
#include "model/unit.h"
#include <math.h>
#include <stdio.h>

#define NAME_BYTES 40

typedef struct block_storage {
    char unit_name[NAME_BYTES];
    char names[ZR_BLOCK_TENSORS][NAME_BYTES];
    zero_tensor_desc tensors[ZR_BLOCK_TENSORS];
    zero_piece_desc piece;
    zr_gpt2_unit hyper;
} block_storage;

typedef struct gpt2_storage {
    zero_model model; // first: zr_gpt2_free gets its address
    zr_gpt2_unit ends; // hyper of embedding and head
    zero_tensor_desc wte, wpe, ln_f[2];
    zero_piece_desc embedding_pieces[2], head_piece;
    zero_piece_ref head_borrows;
    zero_unit *units;      // (n_layer + 2)
    block_storage *blocks; // (n_layer)
} gpt2_storage;

static const char *const block_names[ZR_BLOCK_TENSORS] = {
    [ZR_LN1_W] = "ln_1.weight",
    [ZR_LN1_B] = "ln_1.bias",
    [ZR_ATTN_W] = "attn.c_attn.weight",
    [ZR_ATTN_B] = "attn.c_attn.bias",
    [ZR_ATTN_PROJ_W] = "attn.c_proj.weight",
    [ZR_ATTN_PROJ_B] = "attn.c_proj.bias",
    [ZR_LN2_W] = "ln_2.weight",
    [ZR_LN2_B] = "ln_2.bias",
    [ZR_FC_W] = "mlp.c_fc.weight",
    [ZR_FC_B] = "mlp.c_fc.bias",
    [ZR_MLP_PROJ_W] = "mlp.c_proj.weight",
    [ZR_MLP_PROJ_B] = "mlp.c_proj.bias",
};

void zero_gpt2_defaults(zero_gpt2_config *config)
{
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

zero_status zr_gpt2_check(const zero_gpt2_config *config, zero_error *error)
{
    if (config->struct_size != sizeof(*config))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_gpt2_config: struct_size is %zu, this library's is %zu (zero_gpt2_defaults sets it)",
                       config->struct_size, sizeof(*config));
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
    ZERO_TRY(dropout_check("resid_pdrop", config->resid_pdrop, error));
    ZERO_TRY(dropout_check("embd_pdrop", config->embd_pdrop, error));
    return dropout_check("attn_pdrop", config->attn_pdrop, error);
}

static zero_tensor_desc matrix(const char *name, int64_t rows, int64_t columns, float deviation, int tp_axis,
                               int tp_parts)
{
    return (zero_tensor_desc){.name = name,
                              .dims = 2,
                              .shape = {rows, columns},
                              .init = ZERO_INIT_NORMAL,
                              .init_value = deviation,
                              .tp_axis = tp_axis,
                              .tp_parts = tp_parts};
}

static zero_tensor_desc vector(const char *name, int64_t size, float value, int tp_axis, int tp_parts)
{
    return (zero_tensor_desc){.name = name,
                              .dims = 1,
                              .shape = {size},
                              .init = ZERO_INIT_CONSTANT,
                              .init_value = value,
                              .tp_axis = tp_axis,
                              .tp_parts = tp_parts};
}

static void block_tensors(const zero_gpt2_config *config, block_storage *block)
{
    int64_t width = config->n_embd, inner = config->n_inner;
    float range = config->initializer_range;
    float residual = (float)(range / sqrt(2.0 * (double)config->n_layer)); // outputs of c_proj add up along the stream
    zero_tensor_desc *t = block->tensors;
    char(*name)[NAME_BYTES] = block->names;

    t[ZR_LN1_W] = vector(name[ZR_LN1_W], width, 1, -1, 1);
    t[ZR_LN1_B] = vector(name[ZR_LN1_B], width, 0, -1, 1);
    t[ZR_ATTN_W] = matrix(name[ZR_ATTN_W], width, 3 * width, range, 1, 3);
    t[ZR_ATTN_B] = vector(name[ZR_ATTN_B], 3 * width, 0, 0, 3);
    t[ZR_ATTN_PROJ_W] = matrix(name[ZR_ATTN_PROJ_W], width, width, residual, 0, 1);
    t[ZR_ATTN_PROJ_B] = vector(name[ZR_ATTN_PROJ_B], width, 0, -1, 1);
    t[ZR_LN2_W] = vector(name[ZR_LN2_W], width, 1, -1, 1);
    t[ZR_LN2_B] = vector(name[ZR_LN2_B], width, 0, -1, 1);
    t[ZR_FC_W] = matrix(name[ZR_FC_W], width, inner, range, 1, 1);
    t[ZR_FC_B] = vector(name[ZR_FC_B], inner, 0, 0, 1);
    t[ZR_MLP_PROJ_W] = matrix(name[ZR_MLP_PROJ_W], inner, width, residual, 0, 1);
    t[ZR_MLP_PROJ_B] = vector(name[ZR_MLP_PROJ_B], width, 0, -1, 1);
}

static void block_build(gpt2_storage *s, const zr_gpt2_ops *ops, int layer)
{
    block_storage *block = &s->blocks[layer];
    snprintf(block->unit_name, NAME_BYTES, "h.%d", layer);
    for (int t = 0; t < ZR_BLOCK_TENSORS; t++)
        snprintf(block->names[t], NAME_BYTES, "h.%d.%s", layer, block_names[t]);
    block_tensors(&s->ends.config, block);
    block->piece = (zero_piece_desc){.kind = ZERO_TRAINABLE, .tensor_count = ZR_BLOCK_TENSORS, .tensors = block->tensors};
    block->hyper = (zr_gpt2_unit){.config = s->ends.config, .layer = layer};
    s->units[layer + 1] = (zero_unit){
        .name = block->unit_name, .ops = ops->block, .hyper = &block->hyper, .piece_count = 1, .pieces = &block->piece};
}

static void embedding_build(gpt2_storage *s, const zr_gpt2_ops *ops)
{
    const zero_gpt2_config *config = &s->ends.config;
    s->wte = matrix("wte.weight", config->vocab_size, config->n_embd, config->initializer_range, 0, 1);
    s->wpe = matrix("wpe.weight", config->n_positions, config->n_embd, config->initializer_range, -1, 1);
    s->embedding_pieces[0] = (zero_piece_desc){.kind = ZERO_TRAINABLE, .tensor_count = 1, .tensors = &s->wte};
    s->embedding_pieces[1] = (zero_piece_desc){.kind = ZERO_TRAINABLE, .tensor_count = 1, .tensors = &s->wpe};
    s->units[0] = (zero_unit){
        .name = "embedding", .ops = ops->embedding, .hyper = &s->ends, .piece_count = 2, .pieces = s->embedding_pieces};
}

static void head_build(gpt2_storage *s, const zr_gpt2_ops *ops)
{
    const zero_gpt2_config *config = &s->ends.config;
    s->ln_f[0] = vector("ln_f.weight", config->n_embd, 1, -1, 1);
    s->ln_f[1] = vector("ln_f.bias", config->n_embd, 0, -1, 1);
    s->head_piece = (zero_piece_desc){.kind = ZERO_TRAINABLE, .tensor_count = 2, .tensors = s->ln_f};
    s->head_borrows = (zero_piece_ref){.unit = 0, .piece = 0};
    s->units[config->n_layer + 1] = (zero_unit){
        .name = "head",
        .ops = ops->head,
        .hyper = &s->ends,
        .piece_count = 1,
        .pieces = &s->head_piece,
        .borrowed_count = 1,
        .borrowed = &s->head_borrows,
    };
}

zero_status zr_gpt2_build(const zero_gpt2_config *config, const zr_gpt2_ops *ops, zero_model **out, zero_error *error)
{
    ZERO_TRY(zr_gpt2_check(config, error));
    gpt2_storage *s = zr_alloc(sizeof(*s), error);
    if (!s)
        return ZERO_ERR_MEMORY;
    s->units = zr_alloc(sizeof(*s->units) * (size_t)(config->n_layer + 2), error);
    if (!s->units)
        goto undo_storage;
    s->blocks = zr_alloc(sizeof(*s->blocks) * (size_t)config->n_layer, error);
    if (!s->blocks)
        goto undo_units;

    s->ends = (zr_gpt2_unit){.config = *config, .layer = -1};
    if (s->ends.config.n_inner == 0)
        s->ends.config.n_inner = 4 * config->n_embd;
    embedding_build(s, ops);
    for (int layer = 0; layer < config->n_layer; layer++)
        block_build(s, ops, layer);
    head_build(s, ops);
    s->model = (zero_model){.name = "gpt2", .unit_count = (int)config->n_layer + 2, .units = s->units};
    *out = &s->model;
    return ZERO_OK;

undo_units:
    zr_free(s->units);
undo_storage:
    zr_free(s);
    return ZERO_ERR_MEMORY;
}

void zr_gpt2_free(zero_model *model)
{
    gpt2_storage *s = (gpt2_storage *)model;
    if (!s)
        return;
    zr_free(s->blocks);
    zr_free(s->units);
    zr_free(s);
}

const zero_gpt2_config *zr_gpt2_config_of(const zero_model *model)
{
    return &((const zr_gpt2_unit *)model->units[0].hyper)->config;
}
