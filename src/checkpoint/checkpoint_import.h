// Writes a source as a checkpoint of ours: every vector in fp32, by ranges, through states.h.
#ifndef ZR_CHECKPOINT_CHECKPOINT_IMPORT_H
#define ZR_CHECKPOINT_CHECKPOINT_IMPORT_H

#include "formats/source.h"
#include "comm/communicator.h"

// Runs on one rank. The directory appears whole or not at all. `state` is the manifest's.
// ZERO_ERR_UNSUPPORTED for tensors whose elements are not real numbers, or that have more than
// ZERO_MAX_DIMS dimensions.
zero_status zr_checkpoint_import(zero_comm *comm, zr_source *source, const char *directory,
                                 json_t *state, zr_source_progress progress, void *user,
                                 zero_error *error);

#endif
