// An update: what it does to each shard slice of this rank's elements, whichever thread walks over
// them (group_walk.c); and the norms that it needs: sums of squares in exact accumulators, so that
// the order in which ranks add does not matter.
#ifndef ZR_ENGINE_UPDATE_H
#define ZR_ENGINE_UPDATE_H

#include "base/numbers.h"
#include "compute/compute.h"
#include "engine/engine_api.h"

typedef struct zr_update_walk { // what an update needs at each shard slice of its walk
    zr_queue *queue;
    zr_update update;
    const zr_update_values *values;
    double weight_decay;
    zr_span span;                  // of the current shard slice, elements of the flat parameter
    const zr_range_states *states; // of that shard slice
    bool copies;                   // parameters are written in the same walk
} zr_update_walk;

// Returns the kernel of an optimizer's update; LAMB's first walk is AdamW's.
zr_update_kind zr_optimizer_update_kind(zr_optimizer_kind optimizer);
// Describes the next update, and sets its values, which it reads until it ends. queue: that of the
// thread that will make it.
zr_update_walk zr_update_describe(const zero_engine *engine, zr_queue *queue, double lr,
                                  float gradient_scale, zr_update_values *values);
// A zr_shard_slice_fn that updates one shard slice. walk: a zr_update_walk.
zero_status zr_update_shard_slice(void *walk, zero_engine *engine,
                                  const zr_shard_slice *shard_slice, const zr_range_states *states,
                                  zero_error *error);
// Collective: LAMB's two walks, with the norms by tensor between them. In lamb.c.
zero_status zr_lamb_update(zero_engine *engine, const zr_update_walk *walk,
                           const zr_walk_vectors walks[2], zero_error *error);

// gradient_norm.c
// Adds the squares of a span of a flat parameter to `sums`, one sum a tensor (sums[tensor number])
// or all in sums[0]. values: from the span's first element on, of `dtype`.
void zr_norm_add_squares(zero_engine *engine, int flat_param, zr_span span, zero_dtype dtype,
                         const void *values, zr_exact *sums, bool by_tensor);
// Collective: adds up the sums (count) of all ranks, or, where a schedule is asynchronous, of those
// of this pipeline stage, because other stages are at other steps.
zero_status zr_norm_all_reduce(zero_engine *engine, zr_exact *sums, int count, zero_error *error);

#endif
