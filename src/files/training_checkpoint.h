// Checkpoints of a training, for the jobs that keep more in them than the engine does.
#ifndef ZR_FILES_TRAINING_CHECKPOINT_H
#define ZR_FILES_TRAINING_CHECKPOINT_H

#include "base/json.h"
#include "checkpoint/states.h"
#include "files/model_view.h"
#include "model/model_compare.h"

// Collective, between steps. more: members beside the engine's own in the manifest's "state" (rank
// 0's counts); NULL: none. Stolen.
zero_status zr_checkpoint_save(zero_engine *engine, const char *directory, json_t *more,
                               zero_error *error);
// saving.c: zero_begin_checkpoint with `more`; and, not collective, where the other ranks cannot be
// reached any more: nothing is left of it.
zero_status zr_checkpoint_begin(zero_engine *engine, const char *directory, json_t *more,
                                zero_checkpoint **out, zero_error *error);
void zr_checkpoint_abandon(zero_checkpoint *checkpoint);

// Between training_checkpoint.c and saving.c: the vectors that an engine keeps, and the rest of
// what makes it go on as if nothing had happened.
enum { ZR_MOST_STATE_VECTORS = 4 };
typedef struct zr_state_vectors {
    zr_model_view views[ZR_MOST_STATE_VECTORS];
    zr_state_vector of[ZR_MOST_STATE_VECTORS];
    int count;
} zr_state_vectors;
// Collective. *state: the manifest's, with `more`, which is stolen. Freed by the second function
// whatever the first one answers.
zero_status zr_checkpoint_describe(zero_engine *engine, const char *directory, json_t *more,
                                   zr_state_vectors *vectors, json_t **state, zero_error *error);
void zr_state_vectors_free(zr_state_vectors *vectors);
// checkpoint_state.c, not collective: whether the engine's training can go on from what a
// manifest's state says, and with what; logs a loss scale that is not the checkpoint's.
// ZERO_ERR_DATA: a number that cannot be; ZERO_ERR_CONFIG: another training.
zero_status zr_checkpoint_state_read(const zero_engine *engine, const char *directory,
                                     const json_t *state, zr_progress *out, zero_error *error);
// Only the model: out->found where it is not the one that the checkpoint was made with, but for
// what is allowed to differ. What to do is the caller's to say.
zero_status zr_checkpoint_compare_model(const zero_engine *engine, const char *directory,
                                        const json_t *state, zr_lm_changes allowed,
                                        zr_lm_difference *out, zero_error *error);
// Of a manifest's state: the path that the arithmetic of its last steps took; NULL: another
// program's.
const char *zr_checkpoint_instructions(const json_t *state);
// Whether two states are at the same step, with the same count of updates and loss scale.
bool zr_checkpoint_is_same_progress(const json_t *a, const json_t *b);
// that a run's bits depend on where nothing else of its ranks counts; 0: they all do
int64_t zr_exact_micro_batch(const zr_config *config);
// Collective, between steps. *state: the manifest's, for the caller that put more into it; NULL:
// not wanted; json_decref.
zero_status zr_checkpoint_load(zero_engine *engine, const char *directory, json_t **state,
                               zero_error *error);

#endif
