// GPT-2 as data: its units, pieces and tensors in Hugging Face's names and layout, presets, and config.json.
// The arithmetic of its units lies in layers/gpt2_units.c; api/ puts the two together.
#ifndef ZR_MODEL_GPT2_H
#define ZR_MODEL_GPT2_H

#include "base/alloc.h"
#include <zero/gpt2.h>

#define ZR_GPT2_MOST_TILES 256
#define ZR_TILE_MULTIPLE 64 // of a tile's rows or columns, but the last

enum zr_gpt2_block_tensor {
    ZR_LN1_W, ZR_LN1_B, ZR_ATTN_W, ZR_ATTN_B, ZR_ATTN_PROJ_W, ZR_ATTN_PROJ_B,
    ZR_LN2_W, ZR_LN2_B, ZR_FC_W, ZR_FC_B, ZR_MLP_PROJ_W, ZR_MLP_PROJ_B, ZR_BLOCK_TENSORS
};
enum { ZR_BLOCK_WEIGHTS = 4 }; // c_attn, c_proj, c_fc, c_proj: in the order of forward

typedef struct zr_weight_place { // where a weight lies among a unit's pieces
    int piece, tensor; // of its first tile; the others are pieces that follow, of one tensor each
    int tiles;         // 1: whole
    int64_t step;      // rows or columns of a tile, but the last
} zr_weight_place;

typedef struct zr_gpt2_unit { // `hyper` of each of its units
    zero_gpt2_config config;
    int layer; // blocks: 0-based; else -1
    int tensor[ZR_BLOCK_TENSORS];              // blocks: of piece 0; a tiled weight is not there
    zr_weight_place weights[ZR_BLOCK_WEIGHTS]; // blocks
    zr_weight_place wte; // embedding and head
    int wpe_piece;       // embedding
} zr_gpt2_unit;

typedef struct zr_gpt2_ops { // from layers/
    const zero_unit_ops *embedding, *block, *head;
} zr_gpt2_ops;

// Pieces and tensors where nothing is tiled (gpt2_build.c says where tiles are):
//   unit "embedding": piece 0 {wte.weight (V,C)}, piece 1 {wpe.weight (P,C)}
//   unit "h.i":       piece 0, tensors by enum zr_gpt2_block_tensor
//   unit "head":      piece 0 {ln_f.weight, ln_f.bias}, piece 1 borrowed: wte
int64_t zr_tile_step(int64_t size, int64_t tiles); // of a dimension that is cut into so many
zero_status zr_gpt2_check(const zero_gpt2_config *config, zero_error *error); // ZERO_ERR_USAGE with the numbers
zero_status zr_gpt2_build(const zero_gpt2_config *config, const zr_gpt2_ops *ops, zero_model **out, zero_error *error);
void zr_gpt2_free(zero_model *model);
const zero_gpt2_config *zr_gpt2_config_of(const zero_model *model);

// "gpt2", "gpt2-medium", "gpt2:layers=4,heads=4,width=128,context=64,vocab=V,dropout=p"; *vocab_given tells whether the
// vocabulary is fixed (a bare preset, or vocab=). Unknown fields and presets are refused with the nearest name.
zero_status zr_gpt2_parse_spec(const char *spec, zero_gpt2_config *out, bool *vocab_given, zero_error *error);

// Hugging Face's config.json; reading refuses what we do not compute exactly (activation, scale_attn_by_inverse_layer_idx, ...) by key.
zero_status zr_gpt2_config_read(const char *path, zero_gpt2_config *out, zero_error *error);
void zr_gpt2_config_write(const zero_gpt2_config *config, zr_buffer *out);

#endif
