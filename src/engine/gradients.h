// The gradients of this rank's shards: the sums of a step on their way through the accumulators,
// and what an update reads of them.
#ifndef ZR_ENGINE_GRADIENTS_H
#define ZR_ENGINE_GRADIENTS_H

#include "engine/engine_api.h"

zr_sum_slots zr_grads_sum_slots(const zero_engine *engine); // of the current micro-batch
// The first begins to fetch the sums of earlier micro-batches from NVMe, the second to store this
// one's sum there.
zero_status zr_grads_fetch_sums(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_grads_store_sum(zero_engine *engine, const zr_instruction *i, zero_error *error);
// Waits until the transfers of the flat parameter's sums have ended.
zero_status zr_grads_await_travel(zero_engine *engine, int flat_param, zero_error *error);
// Returns the address of the own shard's sum in an accumulator; in memory.
char *zr_grads_reduced_shard(const zero_engine *engine, int flat_param, int slot);
zr_span zr_own_shard(const zero_engine *engine, int flat_param);
// Returns the address of the own shard's gradient of the step, once its last micro-batch is in it;
// in memory.
const void *zr_own_shard_gradient(const zero_engine *engine, int flat_param);
// The first returns the part of a flat parameter that this rank updates, the second the address of
// its gradient, of type flat_param->accumulator_dtype.
zr_span zr_update_range(const zero_engine *engine, int flat_param);
const void *zr_update_gradient(const zero_engine *engine, int flat_param);

#endif
