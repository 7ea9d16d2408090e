// Between the files of engine/: the engine's state, and the functions that run instructions (contract 8).
//
// A step is K micro-batches and a boundary:
//
//   forward   for each unit:  acquire its pieces, compute, release
//   backward  for each unit, last first:  acquire, open its gradients, compute, release, seal; reduce what is due
//   boundary  the norm of the reduced gradient, and with it clip, update, publish
#ifndef ZR_ENGINE_ENGINE_STATE_H
#define ZR_ENGINE_ENGINE_STATE_H

#include "base/exact.h"
#include "comm/window.h"
#include "engine/delayed.h"
#include "engine/engine_inner.h"
#include "engine/offload.h"
#include "model/unit.h"

typedef enum zr_phase { ZR_READY, ZR_FORWARD_DONE, ZR_BACKWARD_DONE, ZR_FAILED } zr_phase;

typedef struct zr_cursor { // where in the program this rank is
    const zr_pass *pass;
    int at;             // next instruction
    int body_end;       // of the call under way, or of the last one
    uint32_t holds;     // bit w: zr_when w does, in this pass
    zr_unit_fn visit; // runs in place of the units' own functions; NULL: they do
    void *user;
} zr_cursor;

typedef struct zr_collecting { // where units add up a piece's gradient, in fp32
    float *at;     // NULL: nowhere now
    int opened_by; // unit whose contribution is the first
} zr_collecting;

struct zero_engine {
    zr_plan *plan;
    zr_config *config;
    zero_comm *comm;   // not owned
    zr_queue *queue;
    zero_logger logger;
    uint32_t changes;        // zr_engine_changes
    uint64_t seed;
    struct zr_accessor accessor;
    struct zr_sink sink;

    zr_ledger ledger;
    zr_window params;        // replicas (stages 0 to 2), or the one copy that all ranks map (stage 3)
    zr_window gathers;       // stage 3 where nothing is mapped: plan->gather_bytes, shared by a machine's ranks
    zr_window grads;         // plan->grad_bytes of each rank
    zr_window wholes;        // plan->whole_bytes of each rank
    zr_arena open;           // plan->open_bytes
    zr_arena activations, activation_checkpoints, workspace;
    zr_store vectors[ZERO_TIER_COUNT][ZR_VECTOR_COUNT]; // those that the plan lists, the rest zeroed
    zr_offload offload;
    zr_delayed *delayed;
    const char **piece_names; // (piece_count)
    char **at;                // (piece_count) whole piece while acquired, else NULL
    zr_handle *reducing, *gathering; // (piece_count)
    zr_collecting *collecting; // (piece_count)
    uint64_t gathered;        // version that kept pieces have in the gather window
    zr_exact *squares;        // (2, tensor_count) for norms by tensor (LAMB)

    zr_recorder *recorder;   // NULL: nothing is recorded
    zr_recording *recording; // the queue's
    zr_observer observers[ZR_MOST_OBSERVERS];
    int observer_count;
    zr_guard guard;          // await NULL: none

    zr_phase phase;
    int64_t step;         // updates and skipped updates so far
    int64_t updates;      // that changed the state: Adam's t, the schedule's n
    bool states_loaded;   // optimizer states were written by somebody else than an update
    int64_t micro_batch;  // k, of this rank in this step
    uint64_t version;     // of the parameters
    zr_cursor cursor;
    zr_loss_scale scale;  // of the step under way
    double gradient_scale; // by which the gradient of the last completed step was multiplied
    struct zr_loss_weight weight; // of the micro-batch under way
    double micro_batch_loss;      // of it: the mean over its targets
    zr_exact loss;        // of this rank's micro-batches in this step: sum of means x weights;
    int64_t targets;      // of the same;
    zr_exact norm;        // squares of the own shards' gradients; all three of all ranks once they are summed
    double lr;            // of the update under way, and
    float update_scale;   // by which it multiplies the gradient
    zero_traffic traffic_before; // of the communicator, when this engine was made
    zero_tensors batch;   // of the micro-batch under way
    zero_context context; // what is the same for all units
};

// unit_context.c
void zr_engine_context(zero_engine *engine, int unit, zero_error *error);     // fills engine->context for this unit
zero_tensors zr_engine_boundary(const zero_engine *engine, int unit);         // what unit writes; unit -1: empty
// What unit writes when forward runs again: a checkpoint's place has the next one to come, so into the gradient that backward then sets.
zero_tensors zr_engine_boundary_again(const zero_engine *engine, int unit);
zero_tensors zr_engine_boundary_gradient(const zero_engine *engine, int unit);
void zr_engine_place(const zero_engine *engine, int unit, const zero_tensors *shapes, zero_tensors *out);
struct zr_accessor zr_engine_accessor(void);
struct zr_sink zr_engine_sink(void);

// interpret.c: a pass from its beginning; from where it is up to `end`; inside of a call, up to the mark of a
// piece of the unit (ZERO_ERR_USAGE: another one is next).
void zr_program_begin(zero_engine *engine, zr_pass_kind kind, uint32_t holds);
zero_status zr_program_run_until(zero_engine *engine, int end, zero_error *error);
zero_status zr_program_run_pass(zero_engine *engine, zr_pass_kind kind, uint32_t holds, zero_error *error);
zero_status zr_program_run_to_mark(zero_engine *engine, zr_mark mark, int piece, const char *call);
char *zr_place_at(const zero_engine *engine, zr_place place); // create.c; not of ZR_SPACE_SHARDS and _STORED

// step.c: others can read what this rank's shards hold now. holds: of ZR_BESIDE and ZR_REWRITTEN.
zero_status zr_engine_publish(zero_engine *engine, uint32_t holds, zero_error *error);

// parameters.c
void *zr_own_parameters(const zero_engine *engine, int piece); // own shard as units read it, of type piece->dtype; NULL: on NVMe
bool zr_piece_has_master(const zero_engine *engine, int piece);
zero_status zr_guard_await(zero_engine *engine, int piece, zero_error *error); // before this rank's part of its states changes

// gradients.c
zero_status zr_grads_fetch_sums(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_grads_store_sum(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_grads_await_travel(zero_engine *engine, int piece, zero_error *error); // of its sums
zr_sum_slots zr_grads_sum_slots(const zero_engine *engine); // of the micro-batch under way
char *zr_grads_reduced_shard(const zero_engine *engine, int piece, int slot); // of an accumulator; in memory
zr_span zr_own_shard(const zero_engine *engine, int piece);
const void *zr_own_shard_gradient(const zero_engine *engine, int piece); // of the step, once its last micro-batch is in; in memory
// The part of a piece that this rank updates, and where its gradient lies, of type piece->accumulator_dtype.
zr_span zr_update_range(const zero_engine *engine, int piece);
const void *zr_update_gradient(const zero_engine *engine, int piece);

// gradient_norm.c. Sums over a span of a piece of the squares, exactly, by tensor (sums[tensor number]) or in all. values: from the span's first
// element on, of `dtype`.
void zr_norm_add_squares(zero_engine *engine, int piece, zr_span span, zero_dtype dtype, const void *values, zr_exact *sums, bool by_tensor);
zero_status zr_norm_all_reduce(zero_engine *engine, zr_exact *sums, int count, zero_error *error);

// update.c
zr_update_pass zr_update_describe(const zero_engine *engine, zr_queue *queue, double lr, float gradient_scale); // the next update
zero_status zr_update_slice(void *pass, zero_engine *engine, const zr_slice *slice, const zr_range_states *states, zero_error *error);
zero_status zr_lamb_update(zero_engine *engine, const zr_update *update, const zr_pass_plan passes[2], zero_error *error); // lamb.c
zr_span zr_slice_span(const zero_engine *engine, const zr_slice *slice); // elements of the piece
zr_range_states zr_range_from(const zr_range_states *range, int64_t first);      // the same, `first` elements on

#endif
