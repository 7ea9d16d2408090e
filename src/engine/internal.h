// Between the files of engine/: the engine's state, and the table that a stage fills in (contract 2).
//
// A step is K micro-batches and a boundary:
//
//   forward   for each unit:  acquire its pieces, compute, release
//   backward  for each unit, last first:  acquire, open its gradients, compute, release, seal; reduce what is due
//   boundary  the norm of the reduced gradient, and with it clip, update, publish
#ifndef ZR_ENGINE_INTERNAL_H
#define ZR_ENGINE_INTERNAL_H

#include "base/exact.h"
#include "engine/delayed.h"
#include "engine/engine.h"
#include "engine/offload.h"
#include "model/unit.h"

typedef enum zr_phase { ZR_READY, ZR_FORWARD_DONE, ZR_BACKWARD_DONE, ZR_FAILED } zr_phase;

// What differs between stages. No other file asks which stage runs.
typedef struct zr_stage_ops {
    // Before the first read of visit v (plan->visits) in a micro-batch, and after its last: engine->at[piece] is set and cleared.
    zero_status (*params_acquire)(zero_engine *engine, int visit, int visits, zero_error *error);
    void (*params_release)(zero_engine *engine, int visit);
    // All contributions of this micro-batch are in: the exchange may begin.
    zero_status (*grads_sealed)(zero_engine *engine, int piece, zero_error *error);
    // After the last micro-batch of a step: what the update reads is complete. NULL: it is already.
    zero_status (*boundary)(zero_engine *engine, zero_error *error);
    // The part of a piece that this rank updates, and where its gradient lies.
    zr_span (*update_range)(const zero_engine *engine, int piece);
    const void *(*update_gradient)(const zero_engine *engine, int piece); // of type piece->accumulator_dtype
    // Before the range is written: nobody reads the old values any more (NULL: nobody could). After: others can read the new ones.
    zero_status (*before_update)(zero_engine *engine, int piece, zero_error *error);
    zero_status (*publish)(zero_engine *engine, zero_error *error);
    // Own shards of any piece were written between steps: others can read them.
    zero_status (*weights_changed)(zero_engine *engine, zero_error *error);
} zr_stage_ops;

extern const zr_stage_ops zr_stage0, zr_stage12, zr_stage3_mapped, zr_stage3_gathered;

struct zero_engine {
    zr_plan *plan;
    zr_config *config;
    zero_comm *comm;   // not owned
    zr_queue *queue;
    zero_logger logger;
    uint32_t changes;        // zr_engine_changes
    uint64_t seed;
    const zr_stage_ops *stage;
    struct zr_accessor accessor;
    struct zr_sink sink;

    zr_ledger ledger;
    zr_window params;        // replicas (stages 0 to 2), or the one copy that all ranks map (stage 3)
    zr_window gathers;       // stage 3 where nothing is mapped: plan->gather_bytes, shared by a machine's ranks
    zr_window grads;         // plan->grad_bytes of each rank
    zr_window wholes;        // plan->whole_bytes of each rank
    zr_arena open;           // plan->open_bytes
    zr_arena activations, checkpoints, workspace;
    zr_store vectors[ZERO_TIER_COUNT][ZR_VECTOR_COUNT]; // those that the plan lists, the rest zeroed
    zr_offload offload;
    zr_delayed *delayed;
    const char **piece_names; // (piece_count)
    char **at;                // (piece_count) whole piece while acquired, else NULL
    zr_handle *reducing, *gathering; // (piece_count)
    uint64_t *gathered;       // (piece_count) version that the gather window holds, where it is kept
    zr_exact *squares;        // (2, tensor_count) for norms by tensor (LAMB)

    zr_recorder *recorder;   // NULL: nothing is recorded
    zr_recording *recording; // the queue's
    zr_observer observer;
    zr_guard guard;          // await NULL: none

    zr_phase phase;
    int64_t step;         // updates and skipped updates so far
    int64_t updates;      // that changed the state: Adam's t, the schedule's n
    bool states_loaded;   // optimizer states were written by somebody else than an update
    int64_t micro_batch;  // k, of this rank in this step
    uint64_t version;     // of the parameters
    int next_visit, unit_visit, stream_visit, visit_limit; // of this pass: the next, the unit's under way, the streamed piece's (-1: none), its end
    int next_sealed, next_reduced; // first of plan->sealed that this micro-batch has not sealed, not waited for
    int next_gather;      // first visit whose gather has not been started (unmapped stage 3)
    zr_loss_scale scale;  // of the step under way
    double gradient_scale; // by which the gradient of the last completed step was multiplied
    struct zr_loss_weight weight; // of the micro-batch under way
    double micro_batch_loss;      // of it: the mean over its targets
    zr_exact loss;        // of this rank's micro-batches in this step: sum of means x weights
    int64_t targets;      // of the same
    zr_exact norm;        // squares of gradients that were on their way to NVMe when they were complete
    zero_traffic traffic_before; // of the communicator, when this engine was made
    zero_tensors batch;   // of the micro-batch under way
    zero_context context; // what is the same for all units
};

// context.c
void zr_engine_context(zero_engine *engine, int unit, zero_error *error);     // fills engine->context for this unit
zero_tensors zr_engine_boundary(const zero_engine *engine, int unit);         // what unit writes; unit -1: empty
// What unit writes when forward runs again: a checkpoint's place has the next one to come, so into the gradient that backward then sets.
zero_tensors zr_engine_boundary_again(const zero_engine *engine, int unit);
zero_tensors zr_engine_boundary_gradient(const zero_engine *engine, int unit);
void zr_engine_place(const zero_engine *engine, int unit, const zero_tensors *shapes, zero_tensors *out);
// A unit's run: its visit is acquired, and the streamed pieces in between; all of its visits have been made when it ends.
void zr_run_begin_pass(zero_engine *engine, int visits);
zero_status zr_run_begin(zero_engine *engine, int unit, zero_error *error);
zero_status zr_run_end(zero_engine *engine, zero_error *error);
struct zr_accessor zr_engine_accessor(void);
struct zr_sink zr_engine_sink(void);

// parameters.c: what stages share
zero_status zr_params_acquire_whole(zero_engine *engine, int visit, int visits, zero_error *error);
void zr_params_release_whole(zero_engine *engine, int visit);
zero_status zr_params_gather_replicas(zero_engine *engine, bool trained_only, zero_error *error);
zero_status zr_params_share_replicas(zero_engine *engine, zero_error *error); // weights_changed of replicas
void *zr_own_parameters(const zero_engine *engine, int piece); // own shard as units read it, of type piece->dtype; NULL: on NVMe
bool zr_piece_has_master(const zero_engine *engine, int piece);
zero_status zr_guard_await(zero_engine *engine, int piece, zero_error *error); // before this rank's part of its states changes

// gradients.c
zero_status zr_grads_open(zero_engine *engine, int visit, zero_error *error); // also begins to fetch sums that are needed soon
zero_status zr_grads_written(zero_engine *engine, zero_error *error); // waits until what goes to NVMe is there
zero_status zr_grads_start(zero_engine *engine, int piece, zero_error *error); // seals: starts the reduce-scatter
zero_status zr_grads_seal_and_reduce(zero_engine *engine, int visit, zero_error *error);
zr_span zr_own_shard(const zero_engine *engine, int piece);
const void *zr_own_shard_gradient(const zero_engine *engine, int piece); // of the step, once its last micro-batch is in; in memory
// Where units add up a piece's gradient, fp32; of a streamed piece during its visit, and while it is sealed.
float *zr_grads_collecting(const zero_engine *engine, int piece);
bool zr_piece_trains(const zr_piece *piece);

// norm.c. Sums over a span of a piece of the squares, exactly, by tensor (sums[tensor number]) or in all. values: from the span's first
// element on, of `dtype`.
void zr_norm_add_squares(zero_engine *engine, int piece, zr_span span, zero_dtype dtype, const void *values, zr_exact *sums, bool by_tensor);
zero_status zr_norm_all_reduce(zero_engine *engine, zr_exact *sums, int count, zero_error *error);

// update.c
zr_update_pass zr_update_describe(const zero_engine *engine, zr_queue *queue, double lr, float gradient_scale); // the next update
zero_status zr_update_slice(void *pass, zero_engine *engine, const zr_slice *slice, const zr_range_states *states, zero_error *error);
zero_status zr_update_parameters(zero_engine *engine, double lr, float gradient_scale, zero_error *error); // updates and publishes
// At the boundary of a step that does not update: parameters become what a delayed update has made of the master, if it has; buffers what
// this step has found, where that is finite.
zero_status zr_update_publish(zero_engine *engine, bool finite, zero_error *error);
zero_status zr_lamb_update(zero_engine *engine, const zr_update *update, const zr_pass_plan passes[2], zero_error *error); // lamb.c
zr_span zr_slice_span(const zero_engine *engine, const zr_slice *slice); // elements of the piece
zr_range_states zr_range_from(const zr_range_states *range, int64_t first);      // the same, `first` elements on

#endif
