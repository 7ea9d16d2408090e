// Language models as lists of units: the embedding, a block per layer, the head. An architecture
// designs the tensors of each unit (names, shapes, initial values). What is common to all happens
// here, including the cutting of weights into tiles and the freezing of tensors. The arithmetic of
// the units is in layers/, which finds their tensors by handles.
//
// Flat parameters, if nothing is tiled or frozen:
//   unit "embedding"  {token table (V,C)}, and {position table (P,C)} if there is one
//   each block        {its tensors}
//   unit "head"       {final norm}, {its own table}; or it borrows the token table
// Frozen tensors move to a flat parameter of their own, which follows the one that they leave. A
// tiled tensor becomes several streamed flat parameters of one tensor each, after the flat
// parameters that stay:
//   each block        {norms, biases, whole weights}, {those of them that are frozen}, and tiles
//                     of weights in the order of forward
// In a tensor rank's part of a model (lm_cut.c) the tensors that are not cut come first, as above;
// then there is a flat parameter for each slice that the rank holds, and one for each head of keys
// and values that slices share; frozen tensors have flat parameters of their own after each, and so
// have quantised ones.
#ifndef ZR_MODEL_LM_BUILD_H
#define ZR_MODEL_LM_BUILD_H

#include "model/lm_slices.h"
#include "model/lm_table.h"
#include "model/tensor_handle.h"

// A unit's tensors by number: those of its table first. The adapter of weight t (model/lora.h) has
// the numbers t + ZR_LM_LORA_A and t + ZR_LM_LORA_B, and its magnitudes t + ZR_LM_MAGNITUDE. If the
// weight is quantised, t has its codes, t + ZR_LM_SCALES its scales, and t + ZR_LM_SHARED what
// these share.
enum {
    ZR_LM_LORA_A = 20,
    ZR_LM_LORA_B = 40,
    ZR_LM_SCALES = 60,
    ZR_LM_SHARED = 80,
    ZR_LM_MAGNITUDE = 100,
    ZR_LM_TENSORS = 120
};

// What takes the place of ".weight" in the names of a quantised weight's tensors.
#define ZR_WEIGHT_SCALES ".weight.absmax"
#define ZR_WEIGHT_SHARED ".weight.nested_absmax"

// The tensors of the embedding (the first two) and of the head (all except ZR_LM_POSITIONS), if the
// model has them.
enum zr_lm_end_tensor { ZR_LM_TABLE, ZR_LM_POSITIONS, ZR_LM_GAIN, ZR_LM_BIAS, ZR_LM_END_TENSORS };

#define ZR_TILE_MULTIPLE 64 // rows or columns of a tile are a multiple of this, except in the last

// How a tensor with a tp_axis is cut into slices.
typedef enum zr_lm_split {
    ZR_SPLIT_EVENLY,
    ZR_SPLIT_BY_KEYS,  // at most into as many parts as there are heads of keys and values
    ZR_SPLIT_BY_TOKENS // as the vocabulary
} zr_lm_split;

typedef struct zr_unit_tensor { // of a configuration
    zero_tensor_desc desc; // its name without the layer's; dims 0 if this model has no such tensor
    const char *ending;    // takes the place of ".weight" at the end of the name; NULL: none
    bool frozen;           // it keeps its value, because the model has adapters
    bool codes;            // its elements are bytes, and it is frozen (ZERO_CODES)
    int group;             // 0 or 1: the tensors of a group share a flat parameter
    zr_lm_split split;
    int tile_axis; // the axis of a weight's outputs
    int64_t tiles; // number of tiles requested
} zr_unit_tensor;

typedef struct zr_lm_design {
    const char *name;         // of the model: "gpt2"
    const char *unit_prefix;  // begins a block's name: "h."
    const char *layer_prefix; // begins the names of its tensors: "h."
    zr_unit_tensor embedding[ZR_LM_END_TENSORS];
    zr_unit_tensor head[ZR_LM_END_TENSORS]; // without a table it uses the embedding's
    int tensor_count;                       // of a block
    zr_unit_tensor block[ZR_LM_TENSORS];
} zr_lm_design;

zr_lm_design zr_lm_design_of_config(const zr_lm_config *config); // lm_design.c

typedef struct zr_lm_frozen { // which tensors keep their values: no gradient, no optimizer states
    bool (*is_frozen)(const void *user, const char *name); // name: "h.0.attn.c_attn.weight"
    const void *user;
} zr_lm_frozen;

typedef struct zr_lm_unit { // `hyper` of each unit
    zr_lm_config config;
    zr_lm_shape shape;
    int layer;      // of a block, from 0; -1 for other units
    int64_t window; // of a block's attention, as zr_lm_window has it
    // (shape.rotated / 2) radians per position, and the factor of cosines and sines.
    float frequency[ZR_MOST_HEAD_DIM / 2], rotary_factor;
    // Numbered as in the design. Of a part of a model: only the tensors that are not cut.
    zr_tensor_handle tensor[ZR_LM_TENSORS];
    zr_lm_slices slices;
    // (zr_slices_here) Of a part of a model: all tensors as each of its slices sees them.
    zr_tensor_handle (*sliced)[ZR_LM_TENSORS];
} zr_lm_unit;

// Returns the handle of a tensor in slice number `slice` of those that this rank computes.
const zr_tensor_handle *zr_lm_tensor(const zr_lm_unit *unit, int slice, int tensor);

typedef struct zr_lm_ops { // from layers/
    const zero_unit_ops *embedding, *block, *head;
} zr_lm_ops;

// Returns the class of a tensor. All tensors of a flat parameter are of one class.
zero_class zr_lm_class(const zr_unit_tensor *tensor, bool trains);
int64_t zr_tile_step(int64_t size, int64_t tiles); // size of a tile of a dimension cut into `tiles`
// Describe the model of a configuration without building it.
const char *zr_lm_name(const zr_lm_config *config);
int64_t zr_lm_parameters(const zr_lm_config *config); // as zr_model_parameters counts them
int64_t zr_lm_trained(const zr_lm_config *config);    // those that are not frozen
// Checks the configuration and makes the model. frozen is NULL if every tensor trains.
zero_status zr_lm_build(const zr_lm_config *config, const zr_lm_frozen *frozen,
                        const zr_lm_ops *ops, zero_model **out, zero_error *error);
void zr_lm_free(zero_model *model); // NULL is allowed

// Makes the part of a whole model that a tensor rank holds (lm_cut.c): its own slices, and the
// tensors that are not cut. slices->count is above 1. The whole model outlives it; free it with
// zr_lm_free. Fails as zr_slices_check does, which it calls with `message`.
zero_status zr_lm_cut(const zero_model *whole, const zr_lm_slices *slices,
                      const zr_slices_message *message, zero_model **out, zero_error *error);

// Private to lm_build.c and lm_cut.c: how models and parts are stored. Each unit has one storage,
// so that its names, descriptions, flat parameters and handles live exactly as long as the model.
#define ZR_LM_NAME_BYTES 80
#define ZR_LM_GROUPS 2 // of zr_unit_tensor.group

typedef struct zr_unit_storage {
    char name[ZR_LM_NAME_BYTES];
    // (name_count) The names of its tensors, numbered as in the design, then those of its tiles.
    char (*names)[ZR_LM_NAME_BYTES];
    zero_tensor_desc *tensors; // of its flat parameters, one flat parameter after another
    zero_flat_param_desc *flat_params;
    zero_flat_param_ref *borrowed;                  // NULL if it borrows nothing
    int name_count, tensor_count, flat_param_count; // so far
    zr_lm_unit hyper;
} zr_unit_storage;

typedef struct zr_lm_storage {
    zero_model model; // first, because zr_lm_free gets its address
    zr_lm_design design;
    const zr_lm_frozen *frozen; // set while the model is built; NULL if all tensors train
    zero_unit *units;           // (model.unit_count)
    zr_unit_storage *storage;   // (model.unit_count)
} zr_lm_storage;

// Returns the unit's tensors as the design has them, and their number.
const zr_unit_tensor *zr_lm_design_of(const zr_lm_storage *storage, int unit, int *count);

#endif
