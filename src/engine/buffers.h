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

// Returns the address of a place; in ZR_BUFFER_PARAMETERS, of the current copy
// (engine->versions.copy). Places in ZR_BUFFER_SHARDS or ZR_BUFFER_STORED are in stores instead
// (zr_vector_store).
char *zr_buffer_at(const zero_engine *engine, zr_buffer_ref place);
// Returns the slot of a link of the plan that belongs to the current micro-batch or evaluation, and
// its address.
int zr_engine_slot(const zero_engine *engine, int link);
char *zr_engine_slot_at(const zero_engine *engine, int link);

// Returns the slot of a flat parameter's current copy in the window of parameters: each copy has
// versions of its own.
int zr_version_slot(const zero_engine *engine, int flat_param);

// spaces.c, transfers.c: reserve what the plan's tables list; spaces before stores, which travel
// through them. Windows are made collectively.
zero_status zr_spaces_reserve(zero_engine *engine, zero_error *error);
zero_status zr_stores_reserve(zero_engine *engine, const zr_nvme_options *options,
                              zero_error *error);
zero_status zr_slots_reserve(zero_engine *engine, zero_error *error);
// First ends what is under way in it: transfers (those that have not begun never begin), and
// exchanges, for which destroying a window waits.
void zr_memory_release(zero_engine *engine);

// Returns the address of element `first` of this rank's part of a flat parameter, in a vector that
// is in memory; NULL where the vector is on NVMe or does not exist.
void *zr_vector_at(const zero_engine *engine, int flat_param, zr_vector vector, int64_t first);
zr_store *zr_vector_store(zero_engine *engine, int flat_param, zr_vector vector);
zero_dtype zr_vector_dtype(const zero_engine *engine, int flat_param, zr_vector vector);
// Returns the bytes of that store that hold these elements of this rank's part of the flat
// parameter.
zr_range zr_vector_range(const zero_engine *engine, int flat_param, zr_vector vector, int64_t first,
                         int64_t count);
// Returns the bytes of the own shard's sum in one of its accumulators. A step's last sum is in
// accumulator 0, and zr_vector_range gives the bytes of that one.
zr_range zr_accumulator_range(const zero_engine *engine, int flat_param, int slot);

// Returns the elements of a flat parameter that this rank owns.
zr_span zr_own_shard(const zero_engine *engine, int flat_param);
// Returns the elements that this rank updates: its shard, or all where each rank updates all.
zr_span zr_update_range(const zero_engine *engine, int flat_param);
// Returns the elements of the flat parameter that a shard slice covers.
zr_span zr_shard_slice_span(const zero_engine *engine, const zr_shard_slice *shard_slice);

// Returns the own shard as units read it, of type flat_param->dtype; NULL if it is on NVMe.
void *zr_own_parameters(const zero_engine *engine, int flat_param);

zr_sum_slots zr_grads_sum_slots(const zero_engine *engine); // of the current micro-batch
// Returns the address of the own shard's sum in an accumulator; in memory. Accumulator 0 has the
// gradient of the step, once the step's last micro-batch is in it.
char *zr_grads_reduced_shard(const zero_engine *engine, int flat_param, int slot);
// Returns the address of the gradient of zr_update_range, of type flat_param->accumulator_dtype.
const void *zr_update_gradient(const zero_engine *engine, int flat_param);

#endif
