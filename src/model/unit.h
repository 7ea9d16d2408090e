// What the engine fills in to implement the public unit interface: the accessor of parameters and
// the sink of gradients.
#ifndef ZR_MODEL_UNIT_H
#define ZR_MODEL_UNIT_H

#include "base/errors.h"
#include <zero/model.h>

struct zr_accessor {
    const void *(*parameter)(const struct zr_accessor *self, const zero_context *context,
                             int flat_param, int tensor);
    zero_status (*begin)(const struct zr_accessor *self, zero_context *context, int flat_param);
    zero_status (*end)(const struct zr_accessor *self, zero_context *context, int flat_param);
};

struct zr_sink {
    float *(*gradient)(const struct zr_sink *self, zero_context *context, int flat_param,
                       int tensor, int *add);
};

// Exchanges with other tensor ranks, in a window of this rank that they can reach.
struct zr_exchanger {
    int rank, size; // among the tensor ranks
    char *window;   // (bytes) at least the unit's exchange_bytes, 64-byte aligned
    int64_t bytes;
    // Makes an exchange of the operand at byte `offset` of every rank's window, in place: `size`
    // shares (or as many as there are replicas) of `elements` elements; kind, replicas and dtype as
    // in zero_exchange. Afterwards the whole window may be overwritten.
    zero_status (*run)(const struct zr_exchanger *self, const zero_context *context,
                       zero_exchange_kind kind, int replicas, int64_t offset, int64_t elements,
                       zero_dtype dtype);
};

struct zr_loss_weight {    // of the current micro-batch
    bool of_micro_batches; // the step's mean is over micro-batches, each with the same weight
    int64_t positions;     // of a micro-batch
    int64_t targets;       // those of the positions that count
};

// Resolves index i of a unit's flat parameters (owned first, then borrowed) to the owning unit and
// the flat parameter in it.
zero_flat_param_ref zr_unit_flat_param(const zero_model *model, int unit, int index);
const zero_flat_param_desc *zr_flat_param_desc(const zero_model *model, zero_flat_param_ref ref);
int64_t zr_tensor_desc_elements(const zero_tensor_desc *tensor);
int64_t zr_flat_param_desc_elements(
    const zero_flat_param_desc *flat_param); // of its tensors, without padding
// Returns how many matrices lie next to each other along the tensor's axis, at least 1.
int64_t zr_tensor_parts(const zero_tensor_desc *tensor);
// Returns the type in which units read flat parameters of a class. Buffers stay in fp32, because
// running statistics would stop moving in 16 bits.
static inline zero_dtype zr_class_dtype(zero_class kind, zero_dtype parameters)
{
    return kind == ZERO_BUFFER ? ZERO_F32 : kind == ZERO_CODES ? ZERO_U8 : parameters;
}
// Says whether nothing writes flat parameters of a class once they are loaded.
static inline bool zr_class_is_frozen(zero_class kind)
{
    return kind == ZERO_FROZEN || kind == ZERO_CODES;
}
// Returns for how many parameters the elements of a tensor stand: 0 in a buffer.
int64_t zr_tensor_parameters(zero_class kind, const zero_tensor_desc *tensor);
// Counts trainable and frozen parameters, without padding.
int64_t zr_model_parameters(const zero_model *model);
int64_t zr_model_trained(const zero_model *model); // of these, the trainable ones

// Returns ZERO_ERR_USAGE for a model that breaks the rules of the interface: names not unique,
// borrowed from a later unit, too many flat parameters, empty shapes, `backward` missing, ...
zero_status zr_model_check(const zero_model *model, zero_error *error);

typedef struct zr_rectangle { // elements of a whole tensor: `rows` rows of `width` elements, each
    int64_t first, width, stride,
        rows; // `stride` elements after the one before; a stretch if rows is 1
} zr_rectangle;
// Takes elements [start, start+count) of a tensor that may be a tile. Returns how many of them,
// from the first on, are a rectangle of the whole tensor: whole rows of the tile if there are any,
// else a stretch of one row. A tensor that is no tile is one row.
int64_t zr_tile_rectangle(const zero_tensor_desc *tensor, int64_t start, int64_t count,
                          zr_rectangle *out);
// Returns how many of the elements, from the first on, are contiguous in the whole tensor too;
// *whole_start is the place of the first one there.
int64_t zr_tile_stretch(const zero_tensor_desc *tensor, int64_t start, int64_t count,
                        int64_t *whole_start);
bool zr_flat_param_is_streamed(const zero_model *model, zero_flat_param_ref ref);
// Computes the initial values of elements [start, start+count) of a tensor. They depend only on the
// seed, the name and the element.
void zr_tensor_initialise(const zero_tensor_desc *tensor, uint64_t seed, int64_t start,
                          int64_t count, float *out);

// Returns the random key of (seed, step, micro-batch, unit, site); zero_random is philox of it.
uint64_t zr_context_key(const zero_context *context, uint32_t site);

// The tensors of a model as files have them: the tiles of one tensor, which follow each other flat
// parameter by flat parameter, are one. Their numbers are those of zr_plan_tensor.number, in plans
// of the model and of its parts.
//
// Walk over all tensors, or over those of one unit:
//   for (zr_tensor_walk w = zr_tensors_of(model); w.desc; zr_tensors_next(&w)) ...
typedef struct zr_tensor_walk {
    const zero_model *model;
    int unit, end_unit;
    int flat_param, tensor;
    int number;                   // of the tensors that the walk has, from 0 on
    zero_class kind;              // of its flat parameter
    const zero_tensor_desc *desc; // the tensor, or its first tile; NULL once the walk has ended
    const zero_tensor_desc *last; // of the flat parameter before; NULL if there is none
} zr_tensor_walk;

zr_tensor_walk zr_tensors_of(const zero_model *model);
zr_tensor_walk zr_tensors_of_unit(const zero_model *model, int unit);
void zr_tensors_next(zr_tensor_walk *walk);
int zr_tensors_count(zr_tensor_walk walk); // of those that are left
// Returns tensor number `number` of the model, counted from 0, or its first tile; NULL if the model
// has fewer.
const zero_tensor_desc *zr_model_tensor(const zero_model *model, int number);

// Returns a tensor's name in files; for a tile, that of the whole tensor.
const char *zr_tensor_name(const zero_tensor_desc *tensor);
// Returns the whole tensor that `tensor` is a tile of, or the tensor itself.
zero_tensor_desc zr_tensor_whole(const zero_tensor_desc *tensor);
// Returns whether `tensor` is the next tile of the same whole as `last`, the last tensor of the
// flat parameter before (may be NULL).
bool zr_tensor_continues(const zero_tensor_desc *last, const zero_tensor_desc *tensor);

#endif
