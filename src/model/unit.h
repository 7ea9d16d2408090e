// What the engine fills in behind the public unit interface: the accessor of parameters and the
// sink of gradients.
#ifndef ZR_MODEL_UNIT_H
#define ZR_MODEL_UNIT_H

#include "base/errors.h"
#include <zero/model.h>

struct zr_accessor {
    const void *(*parameter)(const struct zr_accessor *self, const zero_context *context, int piece,
                             int tensor);
    zero_status (*begin)(const struct zr_accessor *self, zero_context *context, int piece);
    zero_status (*end)(const struct zr_accessor *self, zero_context *context, int piece);
};

struct zr_sink {
    float *(*gradient)(const struct zr_sink *self, zero_context *context, int piece, int tensor,
                       int *add);
};

struct zr_loss_weight {    // of the micro-batch under way
    bool of_micro_batches; // the step's mean is over micro-batches, each with the same weight
    int64_t positions;     // of a micro-batch
    int64_t targets;       // that count, of them
};

// The piece behind index i of a unit (owned first, then borrowed): unit and piece within it.
zero_piece_ref zr_unit_piece(const zero_model *model, int unit, int index);
const zero_piece_desc *zr_piece_desc(const zero_model *model, zero_piece_ref ref);
int64_t zr_tensor_desc_elements(const zero_tensor_desc *tensor);
// trainable and frozen elements, padding not counted
int64_t zr_model_parameters(const zero_model *model);

// ZERO_ERR_USAGE for a model that breaks the interface's rules: names not unique, borrowed from a
// later unit, too many pieces, empty shapes, `backward` missing, ...
zero_status zr_model_check(const zero_model *model, zero_error *error);

// Elements [start, start+count) of a tensor that may be a tile: as many of them as follow each
// other in the whole one too, and where they begin in it.
int64_t zr_tile_run(const zero_tensor_desc *tensor, int64_t start, int64_t count,
                    int64_t *whole_start);
bool zr_piece_is_streamed(const zero_model *model, zero_piece_ref ref);
// Initial values of elements [start, start+count) of a tensor: a function of seed, name and element
// alone.
void zr_tensor_initialise(const zero_tensor_desc *tensor, uint64_t seed, int64_t start,
                          int64_t count, float *out);

// Random key of (seed, step, micro-batch, unit, site); zero_random is philox of it.
uint64_t zr_context_key(const zero_context *context, uint32_t site);

#endif
