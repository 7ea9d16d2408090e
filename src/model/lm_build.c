// One allocation per kind of thing; names, descriptions and units live exactly as long as the model.
#include "model/lm_build.h"
#include "model/unit.h"
#include <stdio.h>

#define NAME_BYTES 80

typedef struct tiles { // of all tiled weights of one unit
    int count, filled;
    char (*names)[NAME_BYTES];  // (count)
    zero_tensor_desc *tensors;  // (count)
} tiles;

typedef struct block_storage {
    char unit_name[NAME_BYTES];
    char names[ZR_LM_TENSORS][NAME_BYTES];
    zero_tensor_desc tensors[ZR_LM_TENSORS]; // of piece 0: the first of them
    zero_piece_desc *pieces; // (1 + tiles.count)
    tiles tiles;
    zr_lm_unit hyper;
} block_storage;

typedef struct lm_storage {
    zero_model model; // first: zr_lm_free gets its address
    zr_lm_design design;
    zr_lm_unit embedding, head; // hyper
    tiles table_tiles, head_tiles;
    zero_piece_desc *embedding_pieces, *head_pieces; // (2 or 1 + tiles of each)
    zero_piece_ref *head_borrows; // (tiles of the table)
    zero_unit *units;      // (layers + 2)
    block_storage *blocks; // (layers)
} lm_storage;

zero_tensor_desc zr_matrix_desc(const char *name, int64_t rows, int64_t columns, float deviation, int tp_axis, int tp_parts)
{
    return (zero_tensor_desc){.name = name,
                              .dims = 2,
                              .shape = {rows, columns},
                              .init = ZERO_INIT_NORMAL,
                              .init_value = deviation,
                              .tp_axis = tp_axis,
                              .tp_parts = tp_parts};
}

zero_tensor_desc zr_vector_desc(const char *name, int64_t size, float value, int tp_axis, int tp_parts)
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

// A table of tokens becomes pieces from `first_piece` on: one, or its tiles.
static zr_weight_place table_add(tiles *t, zero_piece_desc *pieces, int first_piece, const zero_tensor_desc *table, int64_t asked)
{
    if (t->count)
        return tiles_add(t, pieces, first_piece, table, 0, asked);
    pieces[first_piece] = (zero_piece_desc){.kind = ZERO_TRAINABLE, .tensor_count = 1, .tensors = table};
    return (zr_weight_place){.piece = first_piece, .tiles = 1, .step = table->shape[0]};
}

static int tiles_of(const zr_block_tensor *tensor)
{
    return tensor->is_weight && tensor->desc.dims ? tile_count(tensor->desc.shape[tensor->tile_axis], tensor->tiles) : 0;
}

// Weights that are tiled leave piece 0; what stays moves up.
static zero_status block_place(block_storage *block, const zr_lm_design *design, zero_error *error)
{
    int count = 0, kept = 0, weight = 0;
    for (int t = 0; t < design->tensor_count; t++)
        count += tiles_of(&design->tensors[t]);
    block->pieces = zr_alloc((size_t)(1 + count) * sizeof *block->pieces, error);
    if (!block->pieces)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(tiles_create(&block->tiles, count, error));
    for (int t = 0; t < design->tensor_count; t++) {
        const zr_block_tensor *of = &design->tensors[t];
        zero_tensor_desc whole = of->desc;
        bool leaves = tiles_of(of) > 0;
        whole.name = block->names[t];
        block->hyper.tensor[t] = leaves || !whole.dims ? -1 : kept;
        if (of->is_weight)
            block->hyper.weights[weight++] = leaves ? tiles_add(&block->tiles, block->pieces, 1, &whole, of->tile_axis, of->tiles)
                                                    : (zr_weight_place){.tensor = kept, .tiles = 1, .step = whole.shape[of->tile_axis]};
        if (!leaves && whole.dims)
            block->tensors[kept++] = whole;
    }
    block->pieces[0] = (zero_piece_desc){.kind = ZERO_TRAINABLE, .tensor_count = kept, .tensors = block->tensors};
    return ZERO_OK;
}

static zero_status block_build(lm_storage *s, const zr_lm_ops *ops, int layer, zero_error *error)
{
    block_storage *block = &s->blocks[layer];
    snprintf(block->unit_name, NAME_BYTES, "%s%d", s->design.unit_prefix, layer);
    for (int t = 0; t < s->design.tensor_count; t++)
        if (s->design.tensors[t].desc.dims)
            snprintf(block->names[t], NAME_BYTES, "%s%d.%s", s->design.layer_prefix, layer, s->design.tensors[t].desc.name);
    block->hyper = s->embedding;
    block->hyper.layer = layer;
    ZERO_TRY(block_place(block, &s->design, error));
    s->units[layer + 1] = (zero_unit){.name = block->unit_name, .ops = ops->block, .hyper = &block->hyper, .piece_count = 1 + block->tiles.count, .pieces = block->pieces};
    return ZERO_OK;
}

static zero_status embedding_build(lm_storage *s, const zr_lm_ops *ops, zero_error *error)
{
    const zr_lm_design *design = &s->design;
    int64_t asked = zr_lm_tiles(&s->embedding.config).embedding;
    int count = tile_count(design->table.shape[0], asked), stays = design->positions.dims > 0;
    s->embedding_pieces = zr_alloc((size_t)(2 + count) * sizeof *s->embedding_pieces, error);
    if (!s->embedding_pieces)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(tiles_create(&s->table_tiles, count, error));
    s->embedding.table = table_add(&s->table_tiles, s->embedding_pieces, count ? stays : 0, &design->table, asked);
    s->embedding.positions_piece = !stays ? -1 : count ? 0 : 1;
    if (stays)
        s->embedding_pieces[s->embedding.positions_piece] = (zero_piece_desc){.kind = ZERO_TRAINABLE, .tensor_count = 1, .tensors = &design->positions};
    s->units[0] = (zero_unit){.name = "embedding", .ops = ops->embedding, .hyper = &s->embedding, .piece_count = ZR_MAX(count, 1) + stays, .pieces = s->embedding_pieces};
    return ZERO_OK;
}

static zero_status head_table_borrow(lm_storage *s, zero_unit *unit, zero_error *error)
{
    int tiles = s->embedding.table.tiles;
    s->head_borrows = zr_alloc((size_t)tiles * sizeof *s->head_borrows, error);
    if (!s->head_borrows)
        return ZERO_ERR_MEMORY;
    for (int t = 0; t < tiles; t++)
        s->head_borrows[t] = (zero_piece_ref){.unit = 0, .piece = s->embedding.table.piece + t};
    s->head.table.piece = 1;
    unit->borrowed_count = tiles;
    unit->borrowed = s->head_borrows;
    return ZERO_OK;
}

static zero_status head_build(lm_storage *s, const zr_lm_ops *ops, zero_error *error)
{
    const zr_lm_design *design = &s->design;
    int64_t asked = zr_lm_tiles(&s->embedding.config).embedding;
    int count = design->head.dims ? tile_count(design->head.shape[0], asked) : 0;
    zero_unit *unit = &s->units[s->embedding.shape.layers + 1];
    s->head = s->embedding;
    s->head_pieces = zr_alloc((size_t)(2 + count) * sizeof *s->head_pieces, error);
    if (!s->head_pieces)
        return ZERO_ERR_MEMORY;
    s->head_pieces[0] = (zero_piece_desc){.kind = ZERO_TRAINABLE, .tensor_count = design->norm[1].dims ? 2 : 1, .tensors = design->norm};
    *unit = (zero_unit){.name = "head", .ops = ops->head, .hyper = &s->head, .piece_count = 1, .pieces = s->head_pieces};
    if (!design->head.dims)
        return head_table_borrow(s, unit, error);
    ZERO_TRY(tiles_create(&s->head_tiles, count, error));
    s->head.table = table_add(&s->head_tiles, s->head_pieces, 1, &design->head, asked);
    unit->piece_count = 1 + ZR_MAX(count, 1);
    return ZERO_OK;
}

static zero_status build_units(lm_storage *s, const zr_lm_ops *ops, zero_error *error)
{
    int64_t layers = s->embedding.shape.layers;
    s->units = zr_alloc(sizeof(*s->units) * (size_t)(layers + 2), error);
    s->blocks = zr_alloc(sizeof(*s->blocks) * (size_t)layers, error);
    if (!s->units || !s->blocks)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(embedding_build(s, ops, error));
    for (int layer = 0; layer < layers; layer++)
        ZERO_TRY(block_build(s, ops, layer, error));
    return head_build(s, ops, error);
}

zero_status zr_lm_build(const zr_lm_config *config, const zr_lm_ops *ops, zero_model **out, zero_error *error)
{
    ZERO_TRY(zr_lm_check(config, error));
    lm_storage *s = zr_alloc(sizeof(*s), error);
    if (!s)
        return ZERO_ERR_MEMORY;
    zr_architecture_of(config->kind)->design(config, &s->design);
    s->embedding = (zr_lm_unit){.config = *config, .shape = zr_lm_shape_of(config), .layer = -1};
    s->model = (zero_model){.name = s->design.name, .unit_count = (int)s->embedding.shape.layers + 2};
    zero_status status = build_units(s, ops, error);
    if (status != ZERO_OK) {
        zr_lm_free(&s->model);
        return status;
    }
    s->model.units = s->units;
    *out = &s->model;
    return ZERO_OK;
}

void zr_lm_free(zero_model *model)
{
    lm_storage *s = (lm_storage *)model;
    if (!s)
        return;
    for (int layer = 0; s->blocks && layer < s->model.unit_count - 2; layer++) {
        zr_free(s->blocks[layer].pieces);
        tiles_free(&s->blocks[layer].tiles);
    }
    tiles_free(&s->table_tiles);
    tiles_free(&s->head_tiles);
    zr_free(s->embedding_pieces);
    zr_free(s->head_pieces);
    zr_free(s->head_borrows);
    zr_free(s->blocks);
    zr_free(s->units);
    zr_free(s);
}
