// The engine's inside: what step.c executes and the stages' tables fill in. Public functions:
// include/zero/engine.h.
#ifndef ZR_ENGINE_ENGINE_INNER_H
#define ZR_ENGINE_ENGINE_INNER_H

#include "base/recorder.h"
#include "comm/communicator.h"
#include "compute/compute.h"
#include "config/config.h"
#include "memory/store.h"
#include "plan/full_plan.h"
#include <zero/engine.h>

typedef enum zr_scratch_kind {
    ZR_SCRATCH_PARAMETERS,
    ZR_SCRATCH_STATES,
    ZR_SCRATCH_ACTIVATION_CHECKPOINTS,
    ZR_SCRATCH_COUNT
} zr_scratch_kind;

// how offloaded states travel; not looked at where nothing is on NVMe
typedef struct zr_nvme_options {
    // directories, striped
    struct {
        const char *const *at;
        int count;
    } paths[ZR_SCRATCH_COUNT];
    int queue_depth, lanes;
    bool single_submit, overlap_events;
    const zr_io_faults *faults; // tests'; NULL
} zr_nvme_options;

// Besides the public functions, for the rooms above (files, train):
const zr_plan *zr_engine_plan(const zero_engine *engine);
zero_comm *zr_engine_comm(const zero_engine *engine);
zr_queue *zr_engine_queue(const zero_engine *engine);
const zr_config *zr_engine_config(const zero_engine *engine);
uint64_t zr_engine_seed(const zero_engine *engine);
const zero_logger *zr_engine_logger(const zero_engine *engine);
// zr_lm_changes: what may differ, on purpose, in the model of a checkpoint
uint32_t zr_engine_changes(const zero_engine *engine);
typedef struct zr_span {
    int64_t first, count;
} zr_span;
// these elements of a piece lie at data
typedef struct zr_portion {
    zr_span span;
    zero_dtype dtype;
    char *data;
} zr_portion;
char *zr_portion_at(const zr_portion *portion, int64_t element); // of the piece
// Runs `visit` over the weights of this rank's shard of a piece as they are kept, in portions: the
// fp32 master where there is one.
// changed: what the visit leaves at data are the weights from then on; after writing:
// zr_engine_parameters_changed. Between steps; not collective.
typedef zero_status (*zr_weights_fn)(void *user, const zr_portion *portion, zero_error *error);
zero_status zr_engine_visit_weights(zero_engine *engine, int piece, bool changed,
                                    zr_weights_fn visit, void *user, zero_error *error);
// The same over an optimizer's state, of pieces that have one: ZR_VECTOR_STATE0 and
// ZR_VECTOR_STATE1; and over their parameters as units read them, ZR_VECTOR_PARAMETERS. After
// writing: zr_engine_states_changed, zr_engine_parameters_behind.
bool zr_engine_has_state(const zero_engine *engine, int piece, zr_vector vector);
zero_status zr_engine_visit_state(zero_engine *engine, int piece, zr_vector vector, bool changed,
                                  zr_weights_fn visit, void *user, zero_error *error);
// The same over the accumulated gradient of the last step, which is not changed.
zero_status zr_engine_visit_gradient(zero_engine *engine, int piece, zr_weights_fn visit,
                                     void *user, zero_error *error);
// ZERO_ERR_USAGE from a step's first zero_forward until the zero_step that ends it, and on an
// engine that has failed. The second also while a checkpoint is being written from where states
// lie: for callers that change them, or begin another. Not collective.
zero_status zr_engine_between_steps(const zero_engine *engine, const char *call, zero_error *error);
zero_status zr_engine_may_change(const zero_engine *engine, const char *call, zero_error *error);
// Collective: brings replicas and readers to what the shards hold now; the second one where
// optimizer states were written too.
zero_status zr_engine_parameters_changed(zero_engine *engine, zero_error *error);
zero_status zr_engine_states_changed(zero_engine *engine, zero_error *error);
// Collective: a delayed update has ended; *behind: the parameters that units read are without it
// still (zr_engine_visit_state of ZR_VECTOR_PARAMETERS). And the way back: those were written, and
// are one update older than the weights.
zero_status zr_engine_settle(zero_engine *engine, bool *behind, zero_error *error);
zero_status zr_engine_parameters_behind(zero_engine *engine, zero_error *error);
// States that somebody reads beside the steps: before an update changes this rank's part of a piece
// it calls `await`, until the guard is taken away (NULL). Another caller that would change states
// is refused meanwhile. Not collective; between steps. Where states cannot be read like that
// (zr_engine_can_guard: not from NVMe, which they leave through buffers of the update, and not
// under a delayed update) `await` waits for nothing.
typedef struct zr_guard {
    zero_status (*await)(void *user, int piece, zero_error *error); // on the rank's thread
    void *user;
} zr_guard;
bool zr_engine_can_guard(const zero_engine *engine);
bool zr_engine_is_guarded(const zero_engine *engine);
void zr_engine_guard(zero_engine *engine, const zr_guard *guard);
typedef struct zr_progress { // all that is not a vector of the model's size
    int64_t step, updates;
    zr_loss_scale scale;   // of the next step
    double gradient_scale; // of the last
} zr_progress;
zr_progress zr_engine_progress(const zero_engine *engine);
// on every rank, between steps
void zr_engine_go_on_from(zero_engine *engine, const zr_progress *progress);
// The parts of a piece's elements [span) that lie in one tensor each: [first, first+count) of the
// piece.
typedef void (*zr_part_fn)(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count);
void zr_for_parts(const zr_piece *piece, zr_span span, zr_part_fn visit, void *user);
// how bytes travel to and from NVMe; NULL: none do
const char *zr_engine_io_description(const zero_engine *engine);
// of the next step; 1 where the precision has none
double zr_engine_loss_scale(const zero_engine *engine);
// Name of the first tensor with a non-finite parameter or gradient, NULL if all are finite.
// Collective.
zero_status zr_engine_find_nonfinite(zero_engine *engine, char *name, size_t size,
                                     zero_error *error);

// From here on every kernel, collective, wait and phase of this rank is recorded, until recorder
// NULL ends it. Not collective;
// between steps. The recorder outlives that.
zero_status zr_engine_record(zero_engine *engine, zr_recorder *recorder, zero_error *error);

// Told of every step on every rank, between steps, in the order in which they came; one of them may
// record. Not collective.
typedef struct zr_observer {
    // before its first forward; optional
    zero_status (*step_begun)(void *user, zero_engine *engine, zero_error *error);
    zero_status (*step_done)(void *user, zero_engine *engine, const zero_step_info *info,
                             zero_error *error);
    void (*destroy)(void *user, zero_engine *engine); // before the engine goes
    void *user;
} zr_observer;
enum { ZR_MOST_OBSERVERS = 4 };
// The engine keeps a copy. ZERO_ERR_LIMIT for one too many.
zero_status zr_engine_observe(zero_engine *engine, const zr_observer *observer, zero_error *error);

// Runs `visit` unit by unit with that unit's parameters acquired, forward order: decoding and other
// inference.
typedef zero_status (*zr_unit_fn)(void *user, zero_context *context, zero_error *error);
zero_status zr_engine_visit_units(zero_engine *engine, zr_unit_fn visit, void *user,
                                  zero_error *error);

#endif
