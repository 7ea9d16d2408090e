// A training's state as one logical checkpoint: a directory that appears whole or not at all. No
// rank gathers anything: each writes its own ranges of every vector, and reads its own, whichever
// ranks wrote them.
//
//   write   .DIR.tmp/NAME.safetensors by all ranks -> fsync -> manifest.json by rank 0 -> fsync
//           -> rename to DIR -> fsync of its parent
//   read    manifest.json by every rank -> whole extents of its own ranges, checksums compared
#ifndef ZR_CHECKPOINT_STATES_H
#define ZR_CHECKPOINT_STATES_H

#include "formats/manifest.h"
#include "formats/weight_view.h"
#include "formats/source.h"
#include "comm/communicator.h"

// A vector of the model's size.
typedef struct zr_state_vector {
    const char *name;    // "weights", "exp_avg", ...: its file's name
    zero_dtype dtype;    // in the file
    zr_weight_view view; // this rank's ranges
} zr_state_vector;

// Collective. `state` (on rank 0) is what else belongs to the checkpoint. All ranks return the same
// status; after a failure DIR is what it was before.
zero_status zr_states_save(zero_comm *comm, const char *directory, const zr_state_vector *vectors,
                           int count, json_t *state, zero_error *error);

// The same in three steps, so that the second one can run beside the training. The vectors must
// all have equal parts and outlive the save, which keeps a reference to the state.
typedef struct zr_states_saving zr_states_saving;
// Collective: checks, names and creates empty files. *out is NULL after a failure.
zero_status zr_states_save_begin(zero_comm *comm, const char *directory,
                                 const zr_state_vector *vectors, int count, json_t *state,
                                 zr_states_saving **out, zero_error *error);
// Not collective; call it from one thread at a time; it sends nothing. Writes this rank's ranges of
// one part of all vectors to the files. After the last part, zr_states_save_sync brings them to the
// disk.
zero_status zr_states_save_part(zr_states_saving *saving, int part, zero_error *error);
zero_status zr_states_save_sync(zr_states_saving *saving, zero_error *error);
// From any thread. Returns the extents so far; while it grows, the save makes progress.
int64_t zr_states_save_moved(const zr_states_saving *saving);
// From any thread. Makes the part that is under way end soon, with ZERO_ERR_CANCELLED.
void zr_states_save_cancel(zr_states_saving *saving);
// Collective. `mine` is the status of this rank's parts. If all ranks succeeded, the directory gets
// its name; otherwise nothing is left of it.
zero_status zr_states_save_end(zr_states_saving *saving, zero_status mine, zero_error *error);
// Not collective, for when the other ranks cannot be reached any more; rank 0 removes what was
// written.
void zr_states_save_abandon(zr_states_saving *saving);
// Collective. Every rank must have read the manifest from the directory. If the checkpoint lacks a
// vector, or tensors are missing or have other shapes: ZERO_ERR_DATA with found and expected. If
// extents are damaged: with file and tensor.
zero_status zr_states_load(zero_comm *comm, const char *directory, const zr_manifest *manifest,
                           const zr_state_vector *vectors, int count, zero_error *error);

typedef struct zr_states_difference {
    // Elements of all ranks whose bits differ; 0: none.
    int64_t elements;
    double largest;               // the largest difference
    char vector[64], tensor[256]; // where the first one is
} zr_states_difference;
// Collective. Compares the ranges with the checkpoint bit for bit; refuses whatever zr_states_load
// refuses.
zero_status zr_states_compare(zero_comm *comm, const char *directory, const zr_manifest *manifest,
                              const zr_state_vector *vectors, int count, zr_states_difference *out,
                              zero_error *error);

// Returns DIR/NAME.safetensors (zr_free); shared by states_save.c and states_load.c.
char *zr_states_path(const char *directory, const char *vector, zero_error *error);

// From checkpoint_import.c. Writes a source as a checkpoint of ours: every vector in fp32, by
// ranges. Runs on one rank. The directory appears whole or not at all. `state` is the manifest's.
// ZERO_ERR_UNSUPPORTED for tensors whose elements are not real numbers, or that have more than
// ZERO_MAX_DIMS dimensions.
zero_status zr_checkpoint_import(zero_comm *comm, zr_source *source, const char *directory,
                                 json_t *state, zr_source_progress progress, void *user,
                                 zero_error *error);

#endif
