// GPT-2 as a list of units: the embedding, n_layer blocks, the head that borrows wte.
// One allocation per kind of thing; names, descriptions and units live exactly as long as the model.
// Names, layout (Conv1D weights are (in, out)) and initial distributions are Hugging Face's.
//
// Tiled, a weight is several pieces of one tensor each, streamed, behind the pieces that stay:
//   "h.i"        piece 0 {norms, biases, whole weights}, then the tiles of c_attn, c_proj, c_fc, c_proj in the order of forward
//   "embedding"  piece 0 {wpe}, then the tiles of wte;   "head"  piece 0 {ln_f}, then the same, borrowed
#include "model/gpt2.h"
#include "model/unit.h"
#include <math.h>
#include <stdio.h>

#define NAME_BYTES 40

typedef struct tiles { // of all tiled weights of one unit
    int count, filled;
    char (*names)[NAME_BYTES];  // (count)
    zero_tensor_desc *tensors;  // (count)
} tiles;

typedef struct block_storage {
    char unit_name[NAME_BYTES];
    char names[ZR_BLOCK_TENSORS][NAME_BYTES];
    zero_tensor_desc tensors[ZR_BLOCK_TENSORS]; // of piece 0: the first of them
    zero_piece_desc *pieces; // (1 + tiles.count)
    tiles tiles;
    zr_gpt2_unit hyper;
} block_storage;

typedef struct gpt2_storage {
    zero_model model; // first: zr_gpt2_free gets its address
    zr_gpt2_unit embedding, head; // hyper
    zero_tensor_desc wte, wpe, ln_f[2];
    tiles wte_tiles;
    zero_piece_desc *embedding_pieces, head_piece; // (2 or 1 + wte_tiles.count)
    zero_piece_ref *head_borrows; // (1 or wte_tiles.count)
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

int64_t zr_tile_step(int64_t size, int64_t tiles)
{
    return ZR_ROUND_UP((size + tiles - 1) / tiles, (int64_t)ZR_TILE_MULTIPLE);
}

// 0: it stays whole.
static int tile_count(int64_t size, int64_t tiles)
{
    int64_t step = tiles > 1 ? zr_tile_step(size, tiles) : size;
    return step < size ? (int)((size + step - 1) / step) : 0;
}

static zero_status tiles_create(tiles *t, int count, zero_error *error)
{
    t->count = count;
    if (!count)
        return ZERO_OK;
    t->names = zr_alloc((size_t)count * sizeof *t->names, error);
    t->tensors = zr_alloc((size_t)count * sizeof *t->tensors, error);
    return t->names && t->tensors ? ZERO_OK : ZERO_ERR_MEMORY;
}

static void tiles_free(tiles *t)
{
    zr_free(t->names);
    zr_free(t->tensors);
}

// The next tiles of a unit: those of `whole` along an axis, as pieces.
static zr_weight_place tiles_add(tiles *t, zero_piece_desc *pieces, int first_piece, const zero_tensor_desc *whole, int axis, int64_t asked)
{
    int64_t size = whole->shape[axis], step = zr_tile_step(size, asked);
    zr_weight_place place = {.piece = first_piece + t->filled, .tiles = tile_count(size, asked), .step = step};
    for (int i = 0; i < place.tiles; i++, t->filled++) {
        zero_tensor_desc *tensor = &t->tensors[t->filled];
        snprintf(t->names[t->filled], NAME_BYTES, "%s[%d]", whole->name, i);
        *tensor = *whole;
        tensor->name = t->names[t->filled];
        tensor->shape[axis] = ZR_MIN(step, size - i * step);
        tensor->tp_axis = -1; // a tile is cut by elements, like any piece
        tensor->tp_parts = 1;
        tensor->tile = (zero_tile){.whole = whole->name, .axis = axis, .first = i * step, .size = size};
        pieces[first_piece + t->filled] = (zero_piece_desc){.kind = ZERO_TRAINABLE, .tensor_count = 1, .tensors = tensor, .streamed = 1};
    }
    return place;
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

static const int tiled_weights[ZR_BLOCK_WEIGHTS] = {ZR_ATTN_W, ZR_ATTN_PROJ_W, ZR_FC_W, ZR_MLP_PROJ_W}; // in the order of forward

static int64_t tiles_of(const zero_gpt2_config *config, int weight)
{
    return weight < 2 ? config->tiles_attention : config->tiles_mlp;
}

// Weights that are tiled leave piece 0; what stays moves up.
static zero_status block_place(block_storage *block, const zero_gpt2_config *config, zero_error *error)
{
    zero_tensor_desc whole[ZR_BLOCK_TENSORS];
    bool leaves[ZR_BLOCK_TENSORS] = {false};
    int count = 0, kept = 0;
    for (int w = 0; w < ZR_BLOCK_WEIGHTS; w++) {
        int tiles = tile_count(block->tensors[tiled_weights[w]].shape[1], tiles_of(config, w));
        leaves[tiled_weights[w]] = tiles > 0;
        count += tiles;
    }
    block->pieces = zr_alloc((size_t)(1 + count) * sizeof *block->pieces, error);
    if (!block->pieces)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(tiles_create(&block->tiles, count, error));
    for (int t = 0; t < ZR_BLOCK_TENSORS; t++) {
        whole[t] = block->tensors[t];
        block->hyper.tensor[t] = kept;
        if (!leaves[t])
            block->tensors[kept++] = whole[t];
    }
    for (int w = 0; w < ZR_BLOCK_WEIGHTS; w++) {
        int t = tiled_weights[w];
        block->hyper.weights[w] = leaves[t] ? tiles_add(&block->tiles, block->pieces, 1, &whole[t], 1, tiles_of(config, w))
                                            : (zr_weight_place){.tensor = block->hyper.tensor[t], .tiles = 1, .step = whole[t].shape[1]};
    }
    block->pieces[0] = (zero_piece_desc){.kind = ZERO_TRAINABLE, .tensor_count = kept, .tensors = block->tensors};
    return ZERO_OK;
}

static zero_status block_build(gpt2_storage *s, const zr_gpt2_ops *ops, int layer, zero_error *error)
{
    block_storage *block = &s->blocks[layer];
    const zero_gpt2_config *config = &s->embedding.config;
    snprintf(block->unit_name, NAME_BYTES, "h.%d", layer);
    for (int t = 0; t < ZR_BLOCK_TENSORS; t++)
        snprintf(block->names[t], NAME_BYTES, "h.%d.%s", layer, block_names[t]);
    block_tensors(config, block);
    block->hyper = (zr_gpt2_unit){.config = *config, .layer = layer};
    ZERO_TRY(block_place(block, config, error));
    s->units[layer + 1] = (zero_unit){.name = block->unit_name, .ops = ops->block, .hyper = &block->hyper, .piece_count = 1 + block->tiles.count, .pieces = block->pieces};
    return ZERO_OK;
}

static zero_status embedding_build(gpt2_storage *s, const zr_gpt2_ops *ops, zero_error *error)
{
    const zero_gpt2_config *config = &s->embedding.config;
    s->wte = matrix("wte.weight", config->vocab_size, config->n_embd, config->initializer_range, 0, 1);
    s->wpe = matrix("wpe.weight", config->n_positions, config->n_embd, config->initializer_range, -1, 1);
    int count = tile_count(config->vocab_size, config->tiles_embedding);
    s->embedding_pieces = zr_alloc((size_t)(2 + count) * sizeof *s->embedding_pieces, error);
    if (!s->embedding_pieces)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(tiles_create(&s->wte_tiles, count, error));
    s->embedding.wte = (zr_weight_place){.piece = 0, .tiles = 1, .step = config->vocab_size};
    s->embedding_pieces[0] = (zero_piece_desc){.kind = ZERO_TRAINABLE, .tensor_count = 1, .tensors = &s->wte};
    s->embedding.wpe_piece = count ? 0 : 1;
    s->embedding_pieces[s->embedding.wpe_piece] = (zero_piece_desc){.kind = ZERO_TRAINABLE, .tensor_count = 1, .tensors = &s->wpe};
    if (count)
        s->embedding.wte = tiles_add(&s->wte_tiles, s->embedding_pieces, 1, &s->wte, 0, config->tiles_embedding);
    s->units[0] = (zero_unit){.name = "embedding", .ops = ops->embedding, .hyper = &s->embedding, .piece_count = count ? 1 + count : 2, .pieces = s->embedding_pieces};
    return ZERO_OK;
}

static zero_status head_build(gpt2_storage *s, const zr_gpt2_ops *ops, zero_error *error)
{
    const zero_gpt2_config *config = &s->embedding.config;
    int tiles = s->embedding.wte.tiles;
    s->ln_f[0] = vector("ln_f.weight", config->n_embd, 1, -1, 1);
    s->ln_f[1] = vector("ln_f.bias", config->n_embd, 0, -1, 1);
    s->head_piece = (zero_piece_desc){.kind = ZERO_TRAINABLE, .tensor_count = 2, .tensors = s->ln_f};
    s->head_borrows = zr_alloc((size_t)tiles * sizeof *s->head_borrows, error);
    if (!s->head_borrows)
        return ZERO_ERR_MEMORY;
    for (int t = 0; t < tiles; t++)
        s->head_borrows[t] = (zero_piece_ref){.unit = 0, .piece = s->embedding.wte.piece + t};
    s->head = s->embedding;
    s->head.wte.piece = 1;
    s->units[config->n_layer + 1] = (zero_unit){
        .name = "head",
        .ops = ops->head,
        .hyper = &s->head,
        .piece_count = 1,
        .pieces = &s->head_piece,
        .borrowed_count = tiles,
        .borrowed = s->head_borrows,
    };
    return ZERO_OK;
}

static zero_status build_units(gpt2_storage *s, const zr_gpt2_ops *ops, zero_error *error)
{
    const zero_gpt2_config *config = &s->embedding.config;
    s->units = zr_alloc(sizeof(*s->units) * (size_t)(config->n_layer + 2), error);
    s->blocks = zr_alloc(sizeof(*s->blocks) * (size_t)config->n_layer, error);
    if (!s->units || !s->blocks)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(embedding_build(s, ops, error));
    for (int layer = 0; layer < config->n_layer; layer++)
        ZERO_TRY(block_build(s, ops, layer, error));
    return head_build(s, ops, error);
}

zero_status zr_gpt2_build(const zero_gpt2_config *config, const zr_gpt2_ops *ops, zero_model **out, zero_error *error)
{
    ZERO_TRY(zr_gpt2_check(config, error));
    gpt2_storage *s = zr_alloc(sizeof(*s), error);
    if (!s)
        return ZERO_ERR_MEMORY;
    s->embedding = (zr_gpt2_unit){.config = *config, .layer = -1};
    if (s->embedding.config.n_inner == 0)
        s->embedding.config.n_inner = 4 * config->n_embd;
    s->model = (zero_model){.name = "gpt2", .unit_count = (int)config->n_layer + 2};
    zero_status status = build_units(s, ops, error);
    if (status != ZERO_OK) {
        zr_gpt2_free(&s->model);
        return status;
    }
    s->model.units = s->units;
    *out = &s->model;
    return ZERO_OK;
}

void zr_gpt2_free(zero_model *model)
{
    gpt2_storage *s = (gpt2_storage *)model;
    if (!s)
        return;
    for (int layer = 0; s->blocks && layer < s->model.unit_count - 2; layer++) {
        zr_free(s->blocks[layer].pieces);
        tiles_free(&s->blocks[layer].tiles);
    }
    tiles_free(&s->wte_tiles);
    zr_free(s->embedding_pieces);
    zr_free(s->head_borrows);
    zr_free(s->blocks);
    zr_free(s->units);
    zr_free(s);
}

const zero_gpt2_config *zr_gpt2_config_of(const zero_model *model)
{
    return &((const zr_gpt2_unit *)model->units[0].hyper)->config;
}
