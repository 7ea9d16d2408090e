// Where the data of a rank lies: the plan's buffers and the slots of its links, the own shard of
// each flat parameter, and the gradients that were summed up for it.
//
//   flat parameter   [   shard 0   |   shard 1   |   shard 2   ]
//   rank 1 owns                     [ own shard ]                zr_own_shard
//   rank 1 updates   [ all ]  or    [ own shard ]                zr_update_range
//   slices of that                  [ s0 | s1 |s2]               zr_shard_slice_span
#ifndef ZR_ENGINE_BUFFERS_H
#define ZR_ENGINE_BUFFERS_H

#include "engine/engine_api.h"

// Returns the address of a place; in ZR_BUFFER_PARAMETERS, of the current copy (engine->copy).
// Places in ZR_BUFFER_SHARDS or ZR_BUFFER_STORED are in stores instead (offload.h).
char *zr_buffer_at(const zero_engine *engine, zr_buffer_ref place);
// Returns the slot of a link of the plan that belongs to the current micro-batch or evaluation, and
// its address.
int zr_engine_slot(const zero_engine *engine, int link);
char *zr_engine_slot_at(const zero_engine *engine, int link);

// Returns the elements of a flat parameter that this rank owns.
zr_span zr_own_shard(const zero_engine *engine, int flat_param);
// Returns the elements that this rank updates: its shard, or all where each rank updates all.
zr_span zr_update_range(const zero_engine *engine, int flat_param);
// Returns the elements of the flat parameter that a shard slice covers.
zr_span zr_shard_slice_span(const zero_engine *engine, const zr_shard_slice *shard_slice);

// Returns the own shard as units read it, of type flat_param->dtype; NULL if it is on NVMe.
void *zr_own_parameters(const zero_engine *engine, int flat_param);
bool zr_flat_param_has_master(const zero_engine *engine, int flat_param);

zr_sum_slots zr_grads_sum_slots(const zero_engine *engine); // of the current micro-batch
// Returns the address of the own shard's sum in an accumulator; in memory.
char *zr_grads_reduced_shard(const zero_engine *engine, int flat_param, int slot);
// Returns the address of the own shard's gradient of the step, once the step's last micro-batch is
// in it; in memory.
const void *zr_own_shard_gradient(const zero_engine *engine, int flat_param);
// Returns the address of the gradient of zr_update_range, of type flat_param->accumulator_dtype.
const void *zr_update_gradient(const zero_engine *engine, int flat_param);

#endif
