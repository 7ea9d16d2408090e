// What the host and a far device hand each other (memory/device.h): ids go up, the loss and norms
// come down, each after a finish of the queue, and portions of vectors travel by strips of pinned
// memory: between steps by one, on the engine's queue, and beside steps by two, on a queue of the
// thread that saves, which copies into the one while the other is written. On the CPU's device
// nothing travels: both sides use one place.
#ifndef ZR_ENGINE_FAR_MEMORY_H
#define ZR_ENGINE_FAR_MEMORY_H

#include "base/numbers.h"
#include "engine/engine_api.h"

// Where the operations of norms add (zr_norm_add_squares).
typedef struct zr_norm_sums {
    zr_exact *step;    // of the gradient
    zr_exact *tensors; // (2, tensor_count) by tensor, of an update that needs them
} zr_norm_sums;

typedef struct zr_far {
    bool is;            // the queue's device is far; else the rest is not used
    zero_tensors batch; // the current micro-batch as the device has it
    int64_t batches;    // that have gone up, without a pipeline
    double *wanted;     // where the caller gets it
    // Of the thread that saves beside steps, alone while it does: its queue, and what the engine's
    // had been given when the guard was set, until the other one is ordered after it.
    zr_queue *saver;
    zr_mark guarded;
} zr_far;

// After the spaces are reserved: finds the places, and opens the queue of the saving thread.
zero_status zr_far_begin(zero_engine *engine, zero_error *error);
void zr_far_end(zero_engine *engine);
// Clears what nobody has written yet and everybody relies on.
zero_status zr_far_clear_stores(zero_engine *engine, zero_error *error);

// Sets where units find the ids of the current micro-batch, and makes its loss come to *loss
// (zr_far_bring_loss).
void zr_far_place_batch(zero_engine *engine, double *loss);
// Brings the ids of the current micro-batch up, before the first unit that reads them.
zero_status zr_far_send_batch(zero_engine *engine, zero_error *error);
// Waits for a mark of a far device's queue; or until it has done all that it was given, where there
// is one.
zero_status zr_far_await(zero_engine *engine, zr_mark mark, zero_error *error);
zero_status zr_far_settle(zero_engine *engine, zero_error *error);
// By the thread that saves beside steps, before it reads the host's memory: waits until the device
// has written there what it was given before the guard was set.
zero_status zr_far_saver_settle(zero_engine *engine, zero_error *error);
// Waits until the loss is there.
zero_status zr_far_bring_loss(zero_engine *engine, zero_error *error);

void zr_norms_begin_step(zero_engine *engine);
void zr_norms_begin_update(zero_engine *engine);
// Brings the sums to engine->sums.norm, or those by tensor to engine->update.squares.
zero_status zr_norms_bring_step(zero_engine *engine, zero_error *error);
zero_status zr_norms_bring_tensors(zero_engine *engine, zero_error *error);

// Broadcasts the part of a vector that belongs to a data rank's shard from there to the others.
zero_status zr_vector_broadcast(zero_engine *engine, int flat_param, zr_vector vector, int root,
                                zero_error *error);
// Calls `take` for a portion in a device's memory, strip by strip (zr_engine_vector_each).
zero_status zr_strips_each(zero_engine *engine, const zr_portion *whole, zr_portion_use use,
                           zr_portion_fn take, void *user, zero_error *error);

#endif
