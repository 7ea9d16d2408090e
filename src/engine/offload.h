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
    zr_arena staged_parameters, staged_gradients, staging_buffers;
    zr_transfer *parameters; // (program.fetch_count)
    zr_transfer *gradients;  // (flat_param_count, zr_accumulators)
    zr_transfer staging_buffer[ZR_MOST_STAGING_BUFFERS][ZR_VECTOR_COUNT];
    zr_store parked;      // plan->parked_bytes
    zr_transfer *parking; // (flat_param_count)
    // Keeps what goes through the buffers of activation checkpoints.
    zr_store activation_checkpoints;
    zr_transfer activation_checkpoint[2]; // one for each buffer that they go through
    int64_t to_host, to_device;           // bytes moved so far
    zero_io before;                       // counts at the beginning of this step or evaluation
    zr_moved expected;                    // what the plan has added since then
} zr_offload;

// transfers.c
// Waits until what the transfer began has ended, and records it.
zero_status zr_offload_await(zero_engine *engine, zr_transfer *transfer, zero_error *error);
// Records a request that has ended.
void zr_offload_record(zr_recorder *recorder, const zr_io_request *request);

// Waits until the transfers of the flat parameter's sums have ended.
zero_status zr_transfers_await_sums(zero_engine *engine, int flat_param, zero_error *error);

// state_vectors.c
zero_status zr_vectors_reserve(zero_engine *engine, const zr_nvme_options *options,
                               zero_error *error);
// Ends all transfers: those under way are completed, others never begin. Nothing uses their buffers
// afterwards.
void zr_vectors_stop(zero_engine *engine);
void zr_vectors_release(zero_engine *engine); // after zr_vectors_stop
// Returns the address of element `first` of this rank's part of a flat parameter, in a vector that
// is in memory; NULL where the vector is on NVMe or does not exist.
void *zr_vector_at(const zero_engine *engine, int flat_param, zr_vector vector, int64_t first);
zr_store *zr_vector_store(zero_engine *engine, int flat_param, zr_vector vector);
// Returns the bytes of that store that hold these elements of this rank's part of the flat
// parameter.
zr_range zr_vector_range(const zero_engine *engine, int flat_param, zr_vector vector, int64_t first,
                         int64_t count);
// Returns the bytes of the own shard's sum in one of its accumulators. A step's last sum is in
// accumulator 0, and zr_vector_range gives the bytes of that one.
zr_range zr_accumulator_range(const zero_engine *engine, int flat_param, int slot);

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
                                    bool changed, zr_weights_fn take, void *user,
                                    zero_error *error);

// Between steps: returns a buffer for one shard slice of a vector, in a staging buffer.
char *zr_staging_buffer_of(const zero_engine *engine, zr_vector vector);
// Returns the number of elements from `first` of the own shard to the end of its shard slice.
int64_t zr_staging_buffers_portion(const zero_engine *engine, int flat_param, int64_t first);

// tier_traffic.c: counts the bytes that move between tiers and compares them with the plan.
//
// Begins to count for a step, or for an evaluation between two steps. The bytes of an overlapped
// update count with the step in which that update ends.
void zr_tier_traffic_begin(zero_engine *engine);
// Adds the planned bytes of a walk of the update; first: it is the first of all updates.
void zr_tier_traffic_expect_update(zero_engine *engine, int walk, bool first);
// Adds those of the walk that makes parameters from the master.
void zr_tier_traffic_expect_copy(zero_engine *engine);
// Adds those of the micro-batch, or evaluation, that begins; outdated: the weights have changed
// since the kept flat parameters were gathered.
void zr_tier_traffic_expect_micro_batch(zero_engine *engine, bool outdated);
void zr_tier_traffic_expect_evaluation(zero_engine *engine, bool outdated);
// Compares the bytes counted with those planned; does nothing while an overlapped update is under
// way.
zero_status zr_tier_traffic_check(zero_engine *engine, zero_error *error);

#endif
