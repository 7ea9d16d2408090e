// Checkpoints of a training, for jobs that keep more in them than the engine does.
#ifndef ZR_CHECKPOINT_TRAINING_CHECKPOINT_H
#define ZR_CHECKPOINT_TRAINING_CHECKPOINT_H

#include "base/json.h"
#include "checkpoint/states.h"
#include "checkpoint/factors_view.h"
#include "checkpoint/model_view.h"
#include "model/architecture.h"

// Collective, between steps. `more` has members for the manifest's "state" in addition to the
// engine's own (those of rank 0 are used), or is NULL; the call takes over the reference.
zero_status zr_checkpoint_save(zero_engine *engine, const char *directory, json_t *more,
                               zero_error *error);
// From background_save.c: zero_begin_checkpoint with `more`. zr_checkpoint_abandon is not
// collective, for when the other ranks cannot be reached any more: nothing is left of the
// checkpoint.
zero_status zr_checkpoint_begin(zero_engine *engine, const char *directory, json_t *more,
                                zero_checkpoint **out, zero_error *error);
void zr_checkpoint_abandon(zero_checkpoint *checkpoint);

// Shared by training_checkpoint.c and background_save.c: the vectors that an engine keeps, and the
// other values that it needs to continue the training bit for bit.
enum { ZR_MOST_STATE_VECTORS = 5 };
typedef struct zr_state_vectors {
    zr_model_view views[ZR_MOST_STATE_VECTORS];
    zr_factors_view factors[2]; // Adafactor's, of rows and of columns
    zr_state_vector of[ZR_MOST_STATE_VECTORS];
    int count;
} zr_state_vectors;
// Collective. The vectors are to be saved, or compared with saved ones (ZR_VIEW_COMPARES). *state
// becomes the manifest's, with `more`, whose reference the call takes over. Free *vectors with the
// second function whatever this returns.
zero_status zr_checkpoint_describe(zero_engine *engine, zr_view_purpose purpose,
                                   const char *directory, json_t *more, zr_state_vectors *vectors,
                                   json_t **state, zero_error *error);
void zr_state_vectors_free(zr_state_vectors *vectors);
// From checkpoint_state.c; not collective. Checks that the engine's training can continue from a
// manifest's state, and reads its progress; logs a loss scale that is not the checkpoint's.
// ZERO_ERR_DATA: an impossible number; ZERO_ERR_CONFIG: another training.
zero_status zr_checkpoint_state_read(const zero_engine *engine, const char *directory,
                                     const json_t *state, zr_progress *out, zero_error *error);
// Compares the model only: sets out->found if it differs from the checkpoint's model by a change
// that is not in `allowed`. The caller decides what follows.
zero_status zr_checkpoint_compare_model(const zero_engine *engine, const char *directory,
                                        const json_t *state, zr_lm_changes allowed,
                                        zr_lm_difference *out, zero_error *error);
// Returns the instruction set of the last steps ("avx2") from a manifest's state; NULL if another
// program wrote it.
const char *zr_checkpoint_instructions(const json_t *state);
// Returns whether two states are at the same step, with the same count of updates and the same loss
// scale.
bool zr_checkpoint_is_same_progress(const json_t *a, const json_t *b);
// Returns the micro-batch on which the bits of an exact run depend; 0 if the bits also depend on
// the number of ranks.
int64_t zr_exact_micro_batch(const zr_config *config);
// Collective, between steps. *state (json_decref) is the manifest's, for a caller that saved with
// `more`; `state` may be NULL.
zero_status zr_checkpoint_load(zero_engine *engine, const char *directory, json_t **state,
                               zero_error *error);

#endif
