// Language models as lists of units: the embedding, a block a layer, the head. An architecture designs one (names, shapes, initial
// values); what is common, also the cutting of weights into tiles, happens here. The arithmetic of the units lies in layers/.
//
// Pieces where nothing is tiled:
//   unit "embedding"  piece 0 {table of tokens (V,C)}, piece 1 {table of positions (P,C)} where there is one
//   each block        piece 0 {its tensors}
//   unit "head"       piece 0 {final norm}, piece 1: the table of tokens, borrowed, or a table of its own
// Tiled, a weight is several pieces of one tensor each, streamed, behind the pieces that stay:
//   each block        piece 0 {norms, biases, whole weights}, then the tiles of weights in the order of forward
//   unit "embedding"  piece 0 {positions} where there are any, then the tiles;   unit "head"  piece 0 {norm}, then the tiles
#ifndef ZR_MODEL_LM_BUILD_H
#define ZR_MODEL_LM_BUILD_H

#include "model/architecture.h"

enum { ZR_LM_TENSORS = 20, ZR_LM_WEIGHTS = 8 }; // of a block, at most

#define ZR_TILE_MULTIPLE 64 // of a tile's rows or columns, but the last

typedef struct zr_block_tensor { // as an architecture designs it
    zero_tensor_desc desc; // its name without the layer's; dims 0: this model has no such tensor
    bool is_weight;        // of a product: may be cut into tiles. Weights stand in the order of forward
    int tile_axis;         // that of its outputs
    int64_t tiles;         // asked for
} zr_block_tensor;

typedef struct zr_lm_design {
    const char *name;         // of the model: "gpt2"
    const char *unit_prefix;  // of a block's name: "h."
    const char *layer_prefix; // of its tensors: "h."
    zero_tensor_desc table, positions, norm[2], head; // dims 0: there is none (head: it reads `table`)
    int tensor_count;         // of a block
    zr_block_tensor tensors[ZR_LM_TENSORS];
} zr_lm_design;

// For designs; tp: see zero_tensor_desc.
zero_tensor_desc zr_matrix_desc(const char *name, int64_t rows, int64_t columns, float deviation, int tp_axis, int tp_parts);
zero_tensor_desc zr_vector_desc(const char *name, int64_t size, float value, int tp_axis, int tp_parts);

typedef struct zr_weight_place { // where a weight lies among a unit's pieces
    int piece, tensor; // of its first tile; the others are pieces that follow, of one tensor each
    int tiles;         // 1: whole
    int64_t step;      // rows or columns of a tile, but the last
} zr_weight_place;

typedef struct zr_lm_unit { // `hyper` of each unit
    zr_lm_config config;
    zr_lm_shape shape;
    int layer;                 // blocks: 0-based; else -1
    int tensor[ZR_LM_TENSORS]; // blocks: by number of the design, of piece 0; -1: not there, or tiled
    zr_weight_place weights[ZR_LM_WEIGHTS]; // blocks
    zr_weight_place table;     // embedding and head: of tokens
    int positions_piece;       // embedding; -1: none
} zr_lm_unit;

typedef struct zr_lm_ops { // from layers/
    const zero_unit_ops *embedding, *block, *head;
} zr_lm_ops;

int64_t zr_tile_step(int64_t size, int64_t tiles); // of a dimension that is cut into so many
zero_status zr_lm_build(const zr_lm_config *config, const zr_lm_ops *ops, zero_model **out, zero_error *error); // checks the configuration
void zr_lm_free(zero_model *model); // NULL is allowed

#endif
