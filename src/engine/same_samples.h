// Tensor ranks compute the same samples together, and so do the first and the last stage of a
// pipeline, of which one reads the tokens and the other the targets. Nothing else would tell that a
// program has given them different ones, because each computes only its part, so hashes of the
// samples are compared.
#ifndef ZR_ENGINE_SAME_SAMPLES_H
#define ZR_ENGINE_SAME_SAMPLES_H

#include "engine/engine_api.h"
#include "engine/rank_grid.h"

// Returns `hash`, 0 at first, continued over the bytes of a batch.
uint64_t zr_samples_fold(const zero_tensors *batch, uint64_t hash);
// Says whether several ranks compute the same samples.
bool zr_samples_are_shared(const zr_grid *grid);
// Returns a number whose sum over the tensor ranks and pipeline stages of a data rank is 0 if those
// that read samples had the same in this step. It rides in the message of the scalars, and sums
// over data ranks do not cancel.
int64_t zr_samples_difference(const zero_engine *engine);
// Compares the step's hashes where that sum, over all ranks, is not 0. Collective over the job.
// ZERO_ERR_USAGE: they differ, and where they do the message names two ranks.
zero_status zr_samples_settle(zero_engine *engine, int64_t difference, zero_error *error);
// Compares `hash` with those of the other tensor ranks. Collective over them. ZERO_ERR_USAGE, too.
zero_status zr_samples_compare_tensor(zero_engine *engine, uint64_t hash, zero_error *error);
// Describes a difference between the first and the last pipeline stage. Returns ZERO_ERR_USAGE.
zero_status zr_samples_refuse_ends(const zero_engine *engine, zero_error *error);

#endif
