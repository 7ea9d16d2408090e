// An update: what it does to each shard slice of this rank's elements, whichever thread walks over
// them (group_walk.c).
#ifndef ZR_ENGINE_UPDATE_H
#define ZR_ENGINE_UPDATE_H

#include "compute/compute.h"
#include "compute/optimizer_ops.h"
#include "engine/engine_api.h"

typedef struct zr_update_walk { // what an update needs at each shard slice of its walk
    zr_queue *queue;
    zr_update update;
    double weight_decay;
    zr_span span;                  // of the current shard slice, elements of the flat parameter
    const zr_range_states *states; // of that shard slice
    bool copies;                   // parameters are written in the same walk
} zr_update_walk;

// Returns what an optimizer's update computes; LAMB's first walk is AdamW's.
zr_update_kind zr_optimizer_update(zr_optimizer_kind optimizer);
// Describes the next update. queue: that of the thread that will make it.
zr_update_walk zr_update_describe(const zero_engine *engine, zr_queue *queue, double lr,
                                  float gradient_scale);
// A zr_shard_slice_fn that updates one shard slice. walk: a zr_update_walk.
zero_status zr_update_shard_slice(void *walk, zero_engine *engine,
                                  const zr_shard_slice *shard_slice, const zr_range_states *states,
                                  zero_error *error);
// Collective: LAMB's two walks, with the norms by tensor between them. In lamb.c.
zero_status zr_lamb_update(zero_engine *engine, const zr_update *update,
                           const zr_walk_vectors walks[2], zero_error *error);
// Returns the elements of the flat parameter that a shard slice covers.
zr_span zr_shard_slice_span(const zero_engine *engine, const zr_shard_slice *shard_slice);
// Returns the same states from element `first` on.
zr_range_states zr_range_from(const zr_range_states *range, int64_t first);

#endif
