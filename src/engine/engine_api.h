// The engine's interface to the rooms above, in addition to the public functions of
// include/zero/engine.h.
#ifndef ZR_ENGINE_ENGINE_API_H
#define ZR_ENGINE_ENGINE_API_H

#include "base/recorder.h"
#include "comm/communicator.h"
#include "compute/compute.h"
#include "config/config.h"
#include "engine/step_schedules.h"
#include "memory/store.h"
#include "plan/plan.h"
#include <zero/engine.h>

typedef enum zr_scratch_kind {
    ZR_SCRATCH_PARAMETERS,
    ZR_SCRATCH_STATES,
    ZR_SCRATCH_ACTIVATION_CHECKPOINTS,
    ZR_SCRATCH_COUNT
} zr_scratch_kind;

// How offloaded states travel to and from NVMe. If no states are on NVMe, only `faults` counts.
typedef struct zr_nvme_options {
    // The directories over which each kind of scratch space is striped.
    struct {
        const char *const *at;
        int count;
    } paths[ZR_SCRATCH_COUNT];
    int queue_depth, lanes;
    bool single_submit, overlap_events;
    const zr_io_faults *faults; // injected by tests; else NULL
} zr_nvme_options;

// For the rooms above (files, train):
const zr_plan *zr_engine_plan(const zero_engine *engine);
zero_comm *zr_engine_comm(const zero_engine *engine); // all ranks of the job
zr_queue *zr_engine_queue(const zero_engine *engine);
const zr_config *zr_engine_config(const zero_engine *engine);
// Returns the number g of this rank's current micro-batch in its step (contract 4).
int64_t zr_engine_micro_batch(const zero_engine *engine);
uint64_t zr_engine_seed(const zero_engine *engine);
const zero_logger *zr_engine_logger(const zero_engine *engine);
// Bits of zr_lm_changes: what may differ, on purpose, between this model and a checkpoint's.
uint32_t zr_engine_allowed_changes(const zero_engine *engine);
typedef struct zr_span {
    int64_t first, count;
} zr_span;
// A span of a flat parameter's elements, which lie at `data`.
typedef struct zr_portion {
    zr_span span;
    zero_dtype dtype;
    char *data;
} zr_portion;
// Returns the address of an element, which is counted from the start of the flat parameter.
char *zr_portion_at(const zr_portion *portion, int64_t element);
// What portions are for. ZR_PORTIONS_CHANGED: what `take` leaves in `data` becomes the vector, and
// the caller calls the function that is named below afterwards. ZR_PORTIONS_SAVED: they are read by
// the one thread that a guard lets read while steps run.
typedef enum zr_portion_use {
    ZR_PORTIONS_READ,
    ZR_PORTIONS_CHANGED,
    ZR_PORTIONS_SAVED
} zr_portion_use;
// Calls `take` for a vector of this rank's shard of a flat parameter, in portions. Between steps,
// unless it is ZR_PORTIONS_SAVED; not collective.
//   ZR_VECTOR_MASTER          the weights: the fp32 master where there is one, else the parameters
//                             (zr_engine_parameters_changed)
//   ZR_VECTOR_STATE0, STATE1  of a flat parameter that has one (zr_engine_states_changed)
//   ZR_VECTOR_PARAMETERS      as units read them (zr_engine_parameters_stale)
//   ZR_VECTOR_GRADIENT        accumulated in the last step; `take` must not change it
typedef zero_status (*zr_portion_fn)(void *user, const zr_portion *portion, zero_error *error);
zero_status zr_engine_vector_each(zero_engine *engine, int flat_param, zr_vector vector,
                                  zr_portion_use use, zr_portion_fn take, void *user,
                                  zero_error *error);
// Says whether a flat parameter has a state of the optimizer, or a master.
bool zr_engine_has_state(const zero_engine *engine, int flat_param, zr_vector vector);
// With Adafactor: returns the averages of a tensor's rows, or of its columns (of a vector, of its
// elements), and how many there are; NULL or none where it has no such averages. Every rank has
// those of the whole model; in an asynchronous pipeline only those of its stage are up to date.
// They may be changed between steps.
float *zr_engine_factors(const zero_engine *engine, int number, bool of_rows, int64_t *count);
// Says whether this rank is the one that saves them; its own are up to date.
bool zr_engine_saves_factors(const zero_engine *engine, int number);
// Both return ZERO_ERR_USAGE from a step's first zero_forward until the zero_step that ends it, and
// on an engine that has failed. The second also does so while a checkpoint is being written
// straight from the states: it is for callers that change states or begin another checkpoint. Not
// collective.
zero_status zr_engine_between_steps(const zero_engine *engine, const char *call, zero_error *error);
zero_status zr_engine_may_change(const zero_engine *engine, const char *call, zero_error *error);
// Collective: waits until no rank reads this one's parameters any more, before they are changed.
zero_status zr_engine_await_readers(zero_engine *engine, zero_error *error);
// Collective: brings tied copies and readers up to date with what the shards hold now. Callers that
// also wrote optimizer states use the second one.
zero_status zr_engine_parameters_changed(zero_engine *engine, zero_error *error);
zero_status zr_engine_states_changed(zero_engine *engine, zero_error *error);
// Collective. The first waits until a delayed update has ended and sets *stale if the parameters
// that units read (zr_engine_vector_each of ZR_VECTOR_PARAMETERS) still lack that update. Callers
// that write such parameters, one update older than the weights, call the second afterwards.
zero_status zr_engine_join_delayed_update(zero_engine *engine, bool *stale, zero_error *error);
zero_status zr_engine_parameters_stale(zero_engine *engine, zero_error *error);
// A guard lets another thread read states while steps run: an update calls `await` before it
// changes this rank's part of a flat parameter, until the guard is removed (NULL). Other callers
// that would change states are rejected meanwhile. Set between steps, before that thread begins;
// not collective. `await` is not called for states that cannot be guarded (zr_engine_can_guard): on
// NVMe, because they leave it through the update's buffers, under a delayed update, and in 8 bits,
// which leave as fp32.
typedef struct zr_guard {
    zero_status (*await)(void *user, int flat_param, zero_error *error); // on the rank's thread
    void *user;
} zr_guard;
bool zr_engine_can_guard(const zero_engine *engine);
void zr_engine_guard(zero_engine *engine, const zr_guard *guard);
typedef struct zr_progress { // all state except vectors of the model's size
    int64_t step, updates;
    zr_loss_scale scale;   // of the next step; 1 where the precision has none
    double gradient_scale; // of the last step
} zr_progress;
zr_progress zr_engine_progress(const zero_engine *engine);
// Continues from `progress`. Called on every rank, between steps.
void zr_engine_go_on_from(zero_engine *engine, const zr_progress *progress);
// Calls `take` for the part of each tensor that lies in a span of a flat parameter's elements: for
// elements [first, first+count) of the flat parameter.
typedef void (*zr_part_fn)(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count);
void zr_for_parts(const zr_flat_param *flat_param, zr_span span, zr_part_fn take, void *user);
// Makes the carries of rounded gradients (LoCo) begin anew with the next step. Called on every
// rank, where states are saved or loaded, because they are in no checkpoint.
void zr_engine_forget_carries(zero_engine *engine);
// Describes how bytes travel to and from NVMe; NULL if there are none.
const char *zr_engine_io_description(const zero_engine *engine);
// Collective. Writes into `name` (size bytes) which tensor is the first with a non-finite value,
// "the values of NAME", or else the first with a non-finite gradient, "the gradient of NAME"; "no
// parameter and no gradient" where all are finite.
zero_status zr_engine_find_nonfinite(zero_engine *engine, char *name, size_t size,
                                     zero_error *error);

// Returns how many steps are made together, so that they overlap and are recorded together: 1, or
// those of an asynchronous pipeline's window. For observers, from a step's begin to its end.
int64_t zr_engine_steps_together(const zero_engine *engine);
// Records every kernel, collective, wait and phase of this rank from now on, until a call with
// recorder NULL ends it. Between steps; not collective. The recorder must outlive the recording.
zero_status zr_engine_record(zero_engine *engine, zr_recorder *recorder, zero_error *error);

// An observer is called for every step on every rank, between steps. Observers run in the order in
// which they were added, and one of them may record. Not collective.
typedef struct zr_observer {
    // Called before the step's first forward; optional.
    zero_status (*step_begun)(void *user, zero_engine *engine, zero_error *error);
    zero_status (*step_done)(void *user, zero_engine *engine, const zero_step_info *info,
                             zero_error *error);
    // Called before the engine is destroyed, for the last observer first.
    void (*destroy)(void *user, zero_engine *engine);
    void *user;
} zr_observer;
enum { ZR_MOST_OBSERVERS = 4 };
// Adds a copy of the observer. ZERO_ERR_LIMIT: the engine has ZR_MOST_OBSERVERS already.
zero_status zr_engine_observe(zero_engine *engine, const zr_observer *observer, zero_error *error);

// Calls `visit` for each unit in forward order, with that unit's parameters acquired: for decoding
// and other inference. Each visit first announces what the unit exchanges
// (zr_tensor_exchange_expect).
typedef zero_status (*zr_unit_fn)(void *user, zero_context *context, zero_error *error);
zero_status zr_engine_visit_units(zero_engine *engine, zr_unit_fn visit, void *user,
                                  zero_error *error);
// As zero_evaluate, but in a pipeline only ranks of the last stage get the loss, and the others go
// on with the next evaluation meanwhile. Collective.
zero_status zr_engine_evaluate(zero_engine *engine, const zero_tensors *batch, double *loss,
                               zero_error *error);

#endif
