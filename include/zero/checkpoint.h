// A training's whole state as a directory: weights, optimizer states, step, loss scale. Included by
// <zero/engine.h>.
//
// It is there whole or not at all, whatever happens while it is written. Each rank writes, and
// reads, its own ranges, with a checksum for each MiB. It loads on any number of ranks, at any
// stage, on any tier and in any precision, for the same model, optimizer and global batch:
//   - A model of the library's own is compared by every field that changes its arithmetic (heads,
//     rotary settings, epsilons, dropout, ...;
//     zero_options.allow_change), a model of your own by its tensors' names and shapes.
//   - fp16's loss scale goes on where both trainings have a dynamic one, at least at
//     fp16.min_loss_scale; else it begins anew by the configuration, and a message says so.
// Saved and loaded in one precision at the same number of ranks, and with libzero.exact_world at
// any power of two of them, a training goes on to the same bits.
#ifndef ZERO_CHECKPOINT_H
#define ZERO_CHECKPOINT_H

#include <zero/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

// Collective, between steps only, and one at a time: not between zero_begin_checkpoint and
// zero_end_checkpoint. A checkpoint that lies at `directory` is replaced. Saving: ZERO_ERR_IO;
// ZERO_ERR_USAGE where something other than a checkpoint lies there. Loading: ZERO_ERR_DATA naming
// file and tensor that are damaged, or a number that cannot be; ZERO_ERR_CONFIG for the checkpoint
// of another training, before anything is changed.
ZERO_API zero_status zero_save_checkpoint(zero_engine *engine, const char *directory,
                                          zero_error *error);
ZERO_API zero_status zero_load_checkpoint(zero_engine *engine, const char *directory,
                                          zero_error *error);

// Saving while the next step is computed: between the two calls a thread of each rank writes states
// from where they lie, and an update waits for what it is about to change. The directory is there
// once zero_end_checkpoint has returned, which waits for the rest. In between nothing but steps
// changes states (other functions that would, or that save a checkpoint, answer ZERO_ERR_USAGE),
// and the engine stays.
// With states on NVMe, and under a delayed update, all is written by zero_begin_checkpoint.
// Collective, between steps only. A failure leaves the engine as it is; *out is NULL after one, and
// freed by zero_end_checkpoint in any case, which does nothing with NULL.
typedef struct zero_checkpoint zero_checkpoint;
ZERO_API zero_status zero_begin_checkpoint(zero_engine *engine, const char *directory,
                                           zero_checkpoint **out, zero_error *error);
ZERO_API zero_status zero_end_checkpoint(zero_checkpoint *checkpoint, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
