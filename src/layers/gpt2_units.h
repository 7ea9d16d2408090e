// What the units of GPT-2 share. Only layers/ includes this.
#ifndef ZR_LAYERS_GPT2_UNITS_H
#define ZR_LAYERS_GPT2_UNITS_H

#include "layers/block.h"
#include "model/unit.h"

// Sites of randomness within a unit; masks are never stored, backward draws them again.
enum zr_gpt2_site { ZR_SITE_EMBEDDING, ZR_SITE_ATTENTION, ZR_SITE_ATTENTION_RESIDUAL, ZR_SITE_MLP_RESIDUAL };

enum { ZR_HEAD_NORM = 0 }; // piece of the head

extern const zero_unit_ops zr_gpt2_embedding_ops, zr_gpt2_block_ops, zr_gpt2_head_ops;

const zero_gpt2_config *zr_gpt2_config_at(const zero_unit *unit);
const zr_gpt2_unit *zr_gpt2_unit_at(const zero_unit *unit);
// Around the use of tile t of a weight: a whole weight (tiles 1) is there anyway.
zero_status zr_gpt2_tile_begin(zero_context *context, const zr_weight_place *place, int tile);
zero_status zr_gpt2_tile_end(zero_context *context, const zr_weight_place *place, int tile);
int64_t zr_gpt2_tile_tokens(const zr_gpt2_unit *hyper, int tile); // rows of wte in a tile
// Ids (rows) as rows of a tile of wte, -1 where they are of another; `local` (rows) is filled where there are tiles.
const int32_t *zr_gpt2_ids_of_tile(const zr_gpt2_unit *hyper, int tile, int64_t rows, const int32_t *ids, int32_t *local);
// The residual stream (batch, seq, n_embd), as shapes.
zero_tensors zr_gpt2_boundary(const zero_gpt2_config *config, const zero_shape *shape);
// ZERO_ERR_USAGE where the sequence is longer than the positions that the model has.
zero_status zr_gpt2_shape_check(const zero_gpt2_config *config, const zero_shape *shape, zero_error *error);
// ZERO_ERR_INTERNAL where the queue has more threads than the shape that sized the workspace.
zero_status zr_gpt2_threads_check(const zero_context *context);
// Tensor `index` of the batch as (batch, seq) int32, every id below the vocabulary, not negative unless `holes`.
zero_status zr_gpt2_ids(const zero_context *context, int index, bool holes, const int32_t **ids);

// Sizes and buffers of a block's call; returns the bytes of workspace (and *saved_bytes). base pointers NULL: only counts.
size_t zr_block_lay_out(const zero_unit *unit, const zero_shape *shape, bool training, void *saved, void *workspace,
                        zr_block *block, size_t *saved_bytes);
// In evaluation and decoding nothing is saved: what has to be held for a moment lies in the workspace and in `out`.
void zr_block_alias(zr_block *block, void *out);

// The head's final norm and its logits of `rows` rows: y(rows, tokens) = x(rows, C) wte^T, of all tokens or those of a tile.
zr_layer_norm zr_head_norm(const zero_gpt2_config *config, zero_dtype dtype, int64_t rows);
zr_product zr_head_product(const zero_gpt2_config *config, zero_dtype dtype, int64_t rows, int64_t tokens);

#endif
