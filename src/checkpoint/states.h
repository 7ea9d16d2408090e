// A training's state as one logical checkpoint: a directory that is there whole, or not at all.
// Nobody gathers: each rank writes its own ranges of every vector, and reads its own, whatever
// ranks wrote them.
//
//   write   .DIR.tmp/NAME.safetensors by all ranks -> fsync -> manifest.json by rank 0 -> fsync
//           -> rename to DIR -> fsync of its parent
//   read    manifest.json by every rank -> whole extents of its own ranges, checksums compared
#ifndef ZR_CHECKPOINT_STATES_H
#define ZR_CHECKPOINT_STATES_H

#include "checkpoint/manifest.h"
#include "checkpoint/weight_view.h"

typedef struct zr_state_vector { // one of the model's size
    const char *name;            // "weights", "exp_avg", ...: of its file
    zero_dtype dtype;            // in the file
    zr_weight_view view;         // this rank's ranges
} zr_state_vector;

// Collective. state: what else belongs to it, on rank 0. One answer for all ranks; after a failure
// DIR is what it was before.
zero_status zr_states_save(zero_comm *comm, const char *directory, const zr_state_vector *vectors,
                           int count, json_t *state, zero_error *error);

// The same in three steps, so that the second can go on beside something else. Vectors, which have
// equal parts, and state outlive the save.
typedef struct zr_states_saving zr_states_saving;
// Collective: checks, names and empty files. *out NULL after a failure.
zero_status zr_states_save_begin(zero_comm *comm, const char *directory,
                                 const zr_state_vector *vectors, int count, json_t *state,
                                 zr_states_saving **out, zero_error *error);
// Not collective, on one thread at a time; sends nothing. This rank's ranges of a part of all
// vectors to the files; after the last part they are on the disk (zr_states_save_sync).
zero_status zr_states_save_part(zr_states_saving *saving, int part, zero_error *error);
zero_status zr_states_save_sync(zr_states_saving *saving, zero_error *error);
// by any thread: extents so far; as long as it grows the save goes on
int64_t zr_states_save_moved(const zr_states_saving *saving);
// by any thread: the part under way ends soon, with ZERO_ERR_CANCELLED
void zr_states_save_cancel(zr_states_saving *saving);
// Collective: mine is how this rank's parts went. The directory gets its name where all went well,
// and nothing is left of it otherwise.
zero_status zr_states_save_end(zr_states_saving *saving, zero_status mine, zero_error *error);
// Not collective, where the other ranks cannot be reached any more; rank 0 removes what is there.
void zr_states_save_abandon(zr_states_saving *saving);
// Collective. The manifest was read from the directory by every rank. A vector that the checkpoint
// lacks, tensors missing or of other shapes: ZERO_ERR_DATA with found and expected; damaged
// extents: file and tensor.
zero_status zr_states_load(zero_comm *comm, const char *directory, const zr_manifest *manifest,
                           const zr_state_vector *vectors, int count, zero_error *error);

typedef struct zr_states_difference {
    int64_t elements;             // of all ranks that have other bits; 0: none
    double largest;               // difference
    char vector[64], tensor[256]; // of the first
} zr_states_difference;
// Collective. Whether the ranges hold what the checkpoint does, bit for bit; refuses what
// zr_states_load refuses.
zero_status zr_states_compare(zero_comm *comm, const char *directory, const zr_manifest *manifest,
                              const zr_state_vector *vectors, int count, zr_states_difference *out,
                              zero_error *error);

#endif
