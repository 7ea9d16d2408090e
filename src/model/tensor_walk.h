// The tensors of a model as files have them: the tiles of one tensor, which follow each other flat
// parameter by flat parameter, are one. Their numbers are those of zr_plan_tensor.number, in plans
// of the model and of its parts.
#ifndef ZR_MODEL_TENSOR_WALK_H
#define ZR_MODEL_TENSOR_WALK_H

#include <stdbool.h>
#include <zero/model.h>

// Walk over all tensors, or over those of one unit:
//   for (zr_tensor_walk w = zr_tensors_of(model); w.desc; zr_tensors_next(&w)) ...
typedef struct zr_tensor_walk {
    const zero_model *model;
    int unit, end_unit;
    int flat_param, tensor;
    int number;                   // of the tensors that the walk has, from 0 on
    zero_class kind;              // of its flat parameter
    const zero_tensor_desc *desc; // the tensor, or its first tile; NULL: the walk has ended
    const zero_tensor_desc *last; // of the flat parameter before; NULL: there is none
} zr_tensor_walk;

zr_tensor_walk zr_tensors_of(const zero_model *model);
zr_tensor_walk zr_tensors_of_unit(const zero_model *model, int unit);
void zr_tensors_next(zr_tensor_walk *walk);
int zr_tensors_count(zr_tensor_walk walk); // of those that are left
// Returns the tensor of that number, or its first tile, counted over the model from 0 on; NULL: it
// has fewer.
const zero_tensor_desc *zr_model_tensor(const zero_model *model, int number);

// Returns the name that files have for a tensor or for the tensor of which it is a tile.
const char *zr_tensor_name(const zero_tensor_desc *tensor);
// Returns the tensor of which `tensor` is a tile, or the tensor itself.
zero_tensor_desc zr_tensor_whole(const zero_tensor_desc *tensor);
// Says whether the tensor is one more tile of the last tensor of the flat parameter before, which
// may be NULL.
bool zr_tensor_continues(const zero_tensor_desc *last, const zero_tensor_desc *tensor);

#endif
