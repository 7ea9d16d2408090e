// A training's state as one logical checkpoint: a directory that is there whole, or not at all. Nobody gathers: each rank writes its own
// ranges of every vector, and reads its own, whatever ranks wrote them.
//
//   write   .DIR.tmp/NAME.safetensors by all ranks -> fsync -> manifest.json by rank 0 -> fsync -> rename to DIR -> fsync of its parent
//   read    manifest.json by every rank -> whole extents of its own ranges, checksums compared
#ifndef ZR_CHECKPOINT_STATES_H
#define ZR_CHECKPOINT_STATES_H

#include "checkpoint/manifest.h"
#include "checkpoint/weights.h"

typedef struct zr_state_vector { // one of the model's size
    const char *name;      // "weights", "exp_avg", ...: of its file
    zero_dtype dtype;      // in the file
    zr_weight_view view;   // this rank's ranges
} zr_state_vector;

// Collective. state: what else belongs to it, on rank 0. One answer for all ranks; after a failure DIR is what it was before.
zero_status zr_states_save(zero_comm *comm, const char *directory, const zr_state_vector *vectors, int count, json_t *state, zero_error *error);
// Collective. The manifest was read from the directory by every rank. A vector that the checkpoint lacks, tensors missing or of other
// shapes: ZERO_ERR_DATA with found and expected; damaged extents: file and tensor.
zero_status zr_states_load(zero_comm *comm, const char *directory, const zr_manifest *manifest, const zr_state_vector *vectors, int count, zero_error *error);

#endif
