// Tensor ranks compute the same samples together. Nothing else would tell that a program has given
// them different ones, because each computes only its part, so hashes of the samples are compared.
#ifndef ZR_ENGINE_SAME_SAMPLES_H
#define ZR_ENGINE_SAME_SAMPLES_H

#include "engine/engine_inner.h"

// Returns `hash`, 0 at first, continued over the bytes of a batch.
uint64_t zr_samples_fold(const zero_tensors *batch, uint64_t hash);
// Returns a number whose sum over the tensor ranks of a data rank is 0 if they had the same samples
// in this step. It rides in the message of the scalars, and sums over data ranks do not cancel.
// Only where there are tensor ranks.
int64_t zr_samples_difference(const zero_engine *engine);
// Compares `hash` with those of the other tensor ranks. Collective over the tensor ranks.
// ZERO_ERR_USAGE: it differs, and the message names two ranks.
zero_status zr_samples_compare(zero_engine *engine, uint64_t hash, zero_error *error);

#endif
