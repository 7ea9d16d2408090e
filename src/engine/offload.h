// Between the files of engine/: model states on their tiers (contract 2: stages and stores know
// nothing of each other), and what travels.
//
//   parameters   NVMe ─> staged (host) ─> gather window (device)     transfers.c, exchange.c
//   gradients    reduced ─> staged (host) ─> NVMe                    gradients.c
//                of a streamed piece, until another unit adds to it  transfers.c
//   the update   NVMe ─> slabs (host) ─> NVMe                        group_walk.c
//   checkpoints  written by forward ─> host or NVMe ─> backward      transfers.c
#ifndef ZR_ENGINE_OFFLOAD_H
#define ZR_ENGINE_OFFLOAD_H

#include "compute/optimizer_ops.h"
#include "engine/engine_inner.h"
#include "memory/store.h"

#define ZR_MOST_SLABS 3

typedef struct zr_offload { // zeroed: everything is in memory
    zr_scratch scratch[ZR_SCRATCH_COUNT];
    zr_io *io;
    bool overwrite; // of zr_io_faults
    zr_arena staged_parameters, staged_gradients, slabs;
    zr_transfer *parameters; // (program.fetch_count)
    zr_transfer *gradients;  // (piece_count, zr_accumulators)
    zr_transfer slab[ZR_MOST_SLABS][ZR_VECTOR_COUNT];
    zr_store parked;      // plan->parked_bytes
    zr_transfer *parking; // (piece_count)
    // activations between segments, where they leave the device
    zr_store activation_checkpoints;
    zr_transfer activation_checkpoint[2]; // by the buffer that they pass through
    int64_t to_host, to_device;           // bytes that crossed
    zero_io before;                       // counts when this step or evaluation began,
    zr_moved expected;                    // and what the plan has added since
} zr_offload;

// transfers.c
// until what was begun has ended; recorded
zero_status zr_offload_await(zero_engine *engine, zr_transfer *transfer, zero_error *error);
void zr_offload_record(zr_recorder *recorder, const zr_io_request *request); // one that has ended

// vectors.c
zero_status zr_vectors_reserve(zero_engine *engine, const zr_nvme_options *options,
                               zero_error *error);
void zr_vectors_release(zero_engine *engine);
// Place of an element of the own part of a piece in a vector that is in memory; NULL where it is on
// NVMe or there is none.
void *zr_vector_at(const zero_engine *engine, int piece, zr_vector vector, int64_t first);
zr_store *zr_vector_store(zero_engine *engine, int piece, zr_vector vector);
// bytes of that store
zr_range zr_vector_range(const zero_engine *engine, int piece, zr_vector vector, int64_t first,
                         int64_t count);
// The own shard's sum in one of its accumulators; the last of a step is in accumulator 0, which
// zr_vector_range is of.
zr_range zr_accumulator_range(const zero_engine *engine, int piece, int slot);

// group_walk.c
typedef zero_status (*zr_slice_fn)(void *user, zero_engine *engine, const zr_slice *slice,
                                   const zr_range_states *states, zero_error *error);
// a pass over all slices that are updated, group by group: read, visit, write
typedef struct zr_walk {
    zr_pass_plan pass;
    zr_slice_fn visit;
    void *user;
    // the thread that walks beside the rank's, last group first; NULL: the rank's own
    struct zr_delayed *beside;
} zr_walk;
zero_status zr_groups_walk(zero_engine *engine, const zr_walk *walk, zero_error *error);
// Between steps: runs `visit` over a vector of the own shard of a piece that is on NVMe, in
// portions, writing them back where `changed`.
zero_status zr_slabs_visit(zero_engine *engine, int piece, zr_vector vector, bool changed,
                           zr_weights_fn visit, void *user, zero_error *error);

char *zr_slabs_buffer(const zero_engine *engine, zr_vector vector); // of one slice, between steps
// elements from `first` of the own shard to the end of its slice
int64_t zr_slabs_portion(const zero_engine *engine, int piece, int64_t first);

// moves.c: bytes moved between tiers, planned = counted.
// of a step, or an evaluation between two; what is beside them counts with the step that it ends in
void zr_moves_begin(zero_engine *engine);
void zr_moves_expect_update(zero_engine *engine, int pass, bool first); // first: of all updates
// the one that begins; stale: the weights have changed since kept
void zr_moves_expect_micro_batch(zero_engine *engine, bool stale);
void zr_moves_expect_evaluation(zero_engine *engine, bool stale); // pieces were gathered
// nothing is under way, or something beside is and it is left for later
zero_status zr_moves_check(zero_engine *engine, zero_error *error);

#endif
