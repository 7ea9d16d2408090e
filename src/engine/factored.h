// Adafactor's update (arXiv 1804.04235, as torch.optim.Adafactor does it), in three walks:
//
//   walk 0   squares of gradients, summed by rows and columns; squares of weights by tensor
//            -> sums of all ranks -> averages
//   walk 1   squares of directions by tensor -> sums of all ranks
//   walk 2   weights
//
// Every rank has the averages of all tensors and computes them alike. Sums by rows and columns are
// integers, so they are the same whichever rank adds which part of a tensor in which order: the
// unit of a sum follows from the norm of the whole gradient, which no sum exceeds.
#ifndef ZR_ENGINE_FACTORED_H
#define ZR_ENGINE_FACTORED_H

#include "engine/update.h"

// Collective, when an engine is made: which rank saves which tensor's averages. They begin at 0.
zero_status zr_factored_create(zero_engine *engine, zero_error *error);
// Before the first walk, once the gradient's norm is known.
void zr_factored_begin(zero_engine *engine);
// Of walks 0 and 1: what they do with a shard slice.
void zr_factored_add_sums(const zr_update_walk *walk, int flat_param);
void zr_factored_add_squares(const zr_update_walk *walk, int flat_param);
// Collective, after walks 0 and 1.
zero_status zr_factored_average(zero_engine *engine, zero_error *error);
zero_status zr_factored_sum_squares(zero_engine *engine, zero_error *error);
// Of walk 2: what it does with a part. A zr_part_fn; walk: a zr_update_walk.
void zr_factored_apply(void *walk, const zr_plan_tensor *tensor, int64_t first, int64_t count);

#endif
