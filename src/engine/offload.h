// Model states on their tiers, and how they travel. Contract 2: stages and stores do not know each
// other.
//
//   parameters   NVMe ─> staged (host) ─> gather window (device)     transfers.c, gather_reduce.c
//   gradients    reduced ─> staged (host) ─> NVMe                    transfers.c
//                of a streamed flat parameter, until another unit adds to it
//   the update   NVMe ─> staging buffers (host) ─> NVMe              group_walk.c
//   boundaries   written by forward ─> their tier ─> backward        transfers.c
#ifndef ZR_ENGINE_OFFLOAD_H
#define ZR_ENGINE_OFFLOAD_H

#include "compute/compute.h"
#include "engine/engine_api.h"
#include "memory/store.h"

typedef struct zr_offload { // all zero if everything is in memory
    zr_scratch scratch[ZR_SCRATCH_COUNT];
    zr_io *io;
    bool overwrite; // of zr_io_faults
    zr_transfer staging_buffer[ZR_MOST_STAGING_BUFFERS][ZR_VECTOR_COUNT];
    int64_t to_host, to_device; // bytes moved so far
    zero_io before;             // counts at the beginning of this step or evaluation
    zr_moved expected;          // what the plan has added since then
} zr_offload;

// transfers.c
// Waits until what the transfer began has ended, and records it.
zero_status zr_offload_await(zero_engine *engine, zr_transfer *transfer, zero_error *error);
// Records a request that has ended.
void zr_offload_record(zr_recorder *recorder, const zr_io_request *request);

// group_walk.c
typedef zero_status (*zr_shard_slice_fn)(void *user, zero_engine *engine,
                                         const zr_shard_slice *shard_slice,
                                         const zr_range_states *states, zero_error *error);
// What a walk does differently on another thread while the rank's own thread computes. Such a walk
// begins with the last group, because backward overwrites the gradients of the last unit first.
typedef struct zr_overlapped_walk {
    zero_status (*await)(zero_engine *engine, zr_transfer *transfer, zero_error *error);
    void (*group_done)(zero_engine *engine, int group);
} zr_overlapped_walk;
// A walk over all shard slices that are updated, group by group: read, take, write.
typedef struct zr_walk {
    zr_walk_vectors vectors;
    zr_shard_slice_fn take;
    void *user;
    // Set if another thread walks while the rank's own computes; NULL if the rank's own walks.
    const zr_overlapped_walk *overlapped;
} zr_walk;
zero_status zr_groups_walk(zero_engine *engine, const zr_walk *walk, zero_error *error);
// Returns the same states from element `first` on.
zr_range_states zr_range_from(const zr_range_states *range, int64_t first);
// Between steps: calls `take` for a vector of the own shard of a flat parameter that is on NVMe, in
// portions, and writes them back if `changed`.
zero_status zr_staging_buffers_each(zero_engine *engine, int flat_param, zr_vector vector,
                                    bool changed, zr_portion_fn take, void *user,
                                    zero_error *error);

// Returns where a vector lies in a staging buffer.
char *zr_staging_buffer_at(const zero_engine *engine, int staging_buffer, zr_vector vector);
// Returns the number of elements from `first` of the own shard to the end of its shard slice.
int64_t zr_staging_buffers_portion(const zero_engine *engine, int flat_param, int64_t first);

// pass_checks.c: counts the bytes that move between tiers and compares them with the plan.
//
// Begins to count for a step, or for an evaluation between two steps. The bytes of an overlapped
// update count with the step in which that update ends.
void zr_tier_traffic_begin(zero_engine *engine);
// Adds planned bytes to those that are expected.
void zr_tier_traffic_expect(zero_engine *engine, const zr_moved *planned);
// Adds also those of kept flat parameters. outdated: the weights have changed since they were
// gathered.
void zr_tier_traffic_expect_gathers(zero_engine *engine, const zr_moved *planned, bool outdated);
void zr_tier_traffic_expect_micro_batch(zero_engine *engine, bool outdated); // that begins
// first: it is the first of all updates.
void zr_tier_traffic_expect_update(zero_engine *engine, int walk, bool first);
// Compares the bytes counted with those planned; does nothing while an overlapped update is under
// way.
zero_status zr_tier_traffic_check(zero_engine *engine, zero_error *error);

#endif
