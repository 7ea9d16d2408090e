// Checkpoints: the whole state of a training (weights, optimizer states, step, loss scale) as a
// directory. Included by <zero/engine.h>.
//
// A checkpoint is either complete or absent, even if the program dies while it is being written.
// Each rank writes and reads its own ranges, with a checksum for each MiB. A checkpoint loads on
// any number of ranks, at any stage, on any tier and in any precision, if model, optimizer and
// global batch are the same:
//   - Two models of the library are the same if every field that changes their arithmetic is
//     (heads, rotary settings, epsilons, dropout, ...); zero_options.allow_change permits
//     exceptions. Models of your own are the same if their tensors have the same names and shapes.
//   - The loss scale of fp16 is carried over if both trainings scale dynamically, but is at least
//     fp16.min_loss_scale; otherwise it starts from the configuration, which is logged.
// A training that is saved and loaded in one precision, at the same number of ranks, continues bit
// for bit as if it had not stopped. With libzero.exact_world the number of ranks may be any power
// of two.
#ifndef ZERO_CHECKPOINT_H
#define ZERO_CHECKPOINT_H

#include <zero/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

// Save a checkpoint to, or load it from, `directory`. Saving replaces a checkpoint that is already
// there. Both are collective and only allowed between steps, and not between zero_begin_checkpoint
// and zero_end_checkpoint. Saving fails with ZERO_ERR_IO, or with ZERO_ERR_USAGE if something other
// than a checkpoint is there. Loading fails with ZERO_ERR_DATA, naming the file and tensor that are
// damaged or the number that is impossible, or with ZERO_ERR_CONFIG for the checkpoint of another
// training, before anything is changed.
ZERO_API zero_status zero_save_checkpoint(zero_engine *engine, const char *directory,
                                          zero_error *error);
ZERO_API zero_status zero_load_checkpoint(zero_engine *engine, const char *directory,
                                          zero_error *error);

// Save a checkpoint while the next steps are computed. Between the two calls a thread of each rank
// writes the states from where they are in memory; an update waits until the states that it is
// about to change have been written. zero_end_checkpoint waits for the rest, and the directory
// exists once it has returned. In between only steps may change states: other functions that would,
// or that save a checkpoint, return ZERO_ERR_USAGE. The engine must not be destroyed in between.
// With states on NVMe, or with a delayed update, zero_begin_checkpoint itself writes everything.
// Both are collective and only allowed between steps. A failure leaves the engine as it is. *out is
// NULL after a failed zero_begin_checkpoint; zero_end_checkpoint always frees its argument, and
// does nothing if that is NULL.
typedef struct zero_checkpoint zero_checkpoint;
ZERO_API zero_status zero_begin_checkpoint(zero_engine *engine, const char *directory,
                                           zero_checkpoint **out, zero_error *error);
ZERO_API zero_status zero_end_checkpoint(zero_checkpoint *checkpoint, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
