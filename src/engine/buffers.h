// Where the data of a rank lies: the plan's buffers and the slots of its links, the own shard of
// each flat parameter, and the gradients that were summed up for it; and how model states travel
// between tiers. Contract 2: stages and stores do not know each other.
//
//   flat parameter   [   shard 0   |   shard 1   |   shard 2   ]
//   rank 1 owns                     [ own shard ]                zr_own_shard
//   rank 1 updates   [ all ]  or    [ own shard ]                zr_update_range
//   slices of that                  [ s0 | s1 |s2]               zr_shard_slice_span
//
//   parameters   NVMe ─> staged (host) ─> gather window (device)     transfers.c, gather_reduce.c
//   gradients    reduced ─> staged (host) ─> NVMe                    transfers.c
//                of a streamed flat parameter, until another unit adds to it
//   the update   NVMe ─> staging buffers (host) ─> NVMe              group_walk.c
//   boundaries   written by forward ─> their tier ─> backward        transfers.c
#ifndef ZR_ENGINE_BUFFERS_H
#define ZR_ENGINE_BUFFERS_H

#include "comm/window.h"
#include "engine/engine_api.h"

typedef struct zr_portion_taker {
    zr_portion_fn take;
    void *user;
} zr_portion_taker;

typedef struct zr_offload { // all zero if everything is in memory
    zr_scratch scratch[ZR_SCRATCH_COUNT];
    zr_io *io;
    bool overwrite; // of zr_io_faults
    zr_transfer staging_buffer[ZR_MOST_STAGING_BUFFERS][ZR_VECTOR_COUNT];
    zr_mark crossing[ZR_MOST_STAGING_BUFFERS]; // of parameters (far_states.h)
    int64_t to_host, to_device;                // bytes moved so far
    zero_io before;                            // counts at the beginning of this step or evaluation
    zr_moved expected;                         // what the plan has added since then
} zr_offload;

// An operation of a slot. What begins it fills it, and the AWAIT of its slot ends it (transfers.c).
// An AWAIT of an operation that was not begun, or has ended, returns at once.
typedef union zr_pending {
    zr_handle exchange; // ZR_SLOT_SUM, ZR_SLOT_GATHER
    struct {            // ZR_SLOT_FETCHED, ZR_SLOT_TRAVELLED, ZR_SLOT_PARKED, ZR_SLOT_KEPT
        zr_transfer transfer;
        // What comes to pinned memory and goes on to a far device; NULL: it has come where it goes.
        const char *landed;
        char *to;
        int64_t bytes;
    };
} zr_pending;

// buffers.c
// Returns the address of a place; in ZR_BUFFER_PARAMETERS, of the current copy
// (engine->versions.copy). Places in ZR_BUFFER_SHARDS or ZR_BUFFER_STORED are in stores instead
// (zr_vector_store).
char *zr_buffer_at(const zero_engine *engine, zr_buffer_ref place);
// Returns where a vector lies in a staging buffer of the update.
char *zr_staging_buffer_at(const zero_engine *engine, int staging_buffer, zr_vector vector);
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
zero_status zr_stores_reserve(zero_engine *engine, zero_error *error);
zero_status zr_slots_reserve(zero_engine *engine, zero_error *error);
// First ends what is under way in it: transfers (those that have not begun never begin), and
// exchanges, for which destroying a window waits.
void zr_memory_release(zero_engine *engine);

// Returns the address of element `first` of this rank's part of a flat parameter, in a vector that
// is in memory; NULL where the vector is on NVMe or does not exist.
void *zr_vector_at(const zero_engine *engine, int flat_param, zr_vector vector, int64_t first);
// Returns the tier on which this rank keeps a vector of a flat parameter.
zero_tier zr_vector_tier_of(const zero_engine *engine, int flat_param, zr_vector vector);
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

// group_walk.c
// Waits until what the transfer began has ended, and records it.
zero_status zr_offload_await(zero_engine *engine, zr_transfer *transfer, zero_error *error);
// Records a request that has ended.
void zr_offload_record(zr_recorder *recorder, const zr_io_request *request);

// Waits, before this rank's part of a flat parameter's states changes, until the owner of a guard
// (zr_guard) has read it.
zero_status zr_guard_await(zero_engine *engine, int flat_param, zero_error *error);
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
