// Language models as lists of units: the embedding, a block a layer, the head. An architecture
// designs the tensors of each (names, shapes, initial values); what is common, also the cutting of
// weights into tiles and the freezing of tensors, happens here. The arithmetic of the units lies in
// layers/, which find their tensors by handles.
//
// Pieces where nothing is tiled or frozen:
//   unit "embedding"  {table of tokens (V,C)}, {table of positions (P,C)} where there is one
//   each block        {its tensors}
//   unit "head"       {final norm}, {a table of its own}; or it borrows the table of tokens
// Frozen tensors leave a piece for one of their own, which follows it. Tiled, a tensor is several
// pieces of one tensor each, streamed, after the pieces that stay:
//   each block        {norms, biases, whole weights}, {those of them that are frozen}, and tiles
//                     of weights in the order of forward
#ifndef ZR_MODEL_LM_BUILD_H
#define ZR_MODEL_LM_BUILD_H

#include "model/architecture.h"
#include "model/tensor_handle.h"

enum { ZR_LM_TENSORS = 20 }; // of a unit, at most

// Tensors of the embedding (the first two) and of the head (all but ZR_LM_POSITIONS), where they
// exist.
enum zr_lm_end_tensor { ZR_LM_TABLE, ZR_LM_POSITIONS, ZR_LM_GAIN, ZR_LM_BIAS, ZR_LM_END_TENSORS };

#define ZR_TILE_MULTIPLE 64 // of a tile's rows or columns, but the last

typedef struct zr_unit_tensor { // as an architecture designs it
    zero_tensor_desc desc; // its name without the layer's; dims 0: this model has no such tensor
    int group;             // those of one group share a piece: 0, or 1
    int tile_axis;         // that of a weight's outputs
    int64_t tiles;         // asked for
} zr_unit_tensor;

typedef struct zr_lm_design {
    const char *name;         // of the model: "gpt2"
    const char *unit_prefix;  // of a block's name: "h."
    const char *layer_prefix; // of its tensors: "h."
    zr_unit_tensor embedding[ZR_LM_END_TENSORS];
    zr_unit_tensor head[ZR_LM_END_TENSORS]; // without a table it reads the embedding's
    int tensor_count;                       // of a block
    zr_unit_tensor block[ZR_LM_TENSORS];
} zr_lm_design;

// For designs; tp: see zero_tensor_desc.
zero_tensor_desc zr_matrix_desc(const char *name, int64_t rows, int64_t columns, float deviation,
                                int tp_axis, int tp_parts);
zero_tensor_desc zr_vector_desc(const char *name, int64_t size, float value, int tp_axis,
                                int tp_parts);

typedef struct zr_lm_frozen { // which tensors keep their values: no gradient, no optimizer states
    bool (*is_frozen)(const void *user, const char *name); // name: "h.0.attn.c_attn.weight"
    const void *user;
} zr_lm_frozen;

typedef struct zr_lm_unit { // `hyper` of each unit
    zr_lm_config config;
    zr_lm_shape shape;
    int layer;                              // blocks: 0-based; else -1
    zr_tensor_handle tensor[ZR_LM_TENSORS]; // by number of the design
} zr_lm_unit;

typedef struct zr_lm_ops { // from layers/
    const zero_unit_ops *embedding, *block, *head;
} zr_lm_ops;

int64_t zr_tile_step(int64_t size, int64_t tiles); // of a dimension that is cut into so many
// Of the model that such a configuration makes, without making it.
const char *zr_lm_name(const zr_lm_config *config);
int64_t zr_lm_parameters(const zr_lm_config *config); // as zr_model_parameters counts them
// Checks the configuration. frozen: NULL where every tensor trains.
zero_status zr_lm_build(const zr_lm_config *config, const zr_lm_frozen *frozen,
                        const zr_lm_ops *ops, zero_model **out, zero_error *error);
void zr_lm_free(zero_model *model); // NULL is allowed

#endif
