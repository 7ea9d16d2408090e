// Checkpoints of a training, for the jobs of api/ that keep more in them than the engine does.
#ifndef ZR_API_CHECKPOINT_H
#define ZR_API_CHECKPOINT_H

#include "base/json.h"
#include "engine/engine.h"

// Collective, between steps. more: members beside the engine's own in the manifest's "state" (rank 0's counts); NULL: none. Stolen.
zero_status zr_checkpoint_save(zero_engine *engine, const char *directory, json_t *more, zero_error *error);
// Collective, between steps. *state: the manifest's, for whoever put more into it; NULL: not wanted; json_decref.
zero_status zr_checkpoint_load(zero_engine *engine, const char *directory, json_t **state, zero_error *error);

#endif
