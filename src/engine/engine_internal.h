// The engine's state, which the files of engine/ share. The functions that they share are declared
// in one header for each subject: buffers.h, interpret.h, step.h, update.h.
//
// A step is K micro-batches and a boundary:
//
//   forward   for each unit:  acquire its flat parameters, compute, release
//   backward  for each unit, last first:  acquire, open its gradients, compute, release, seal;
//             reduce what is due
//   boundary  the norm of the reduced gradient; with it clip, update, publish
#ifndef ZR_ENGINE_ENGINE_INTERNAL_H
#define ZR_ENGINE_ENGINE_INTERNAL_H

#include "base/numbers.h"
#include "comm/channel.h"
#include "comm/window.h"
#include "engine/buffers.h"
#include "engine/create.h"
#include "engine/engine_api.h"
#include "engine/far_memory.h"
#include "engine/rank_grid.h"
#include "engine/tensor_exchange.h"
#include "engine/update.h"
#include "model/unit.h"

typedef enum zr_phase { ZR_READY, ZR_FORWARD_DONE, ZR_BACKWARD_DONE, ZR_FAILED } zr_phase;

// A row of zr_plan.spaces, reserved (spaces.c); zeroed if the plan has no such space.
typedef struct zr_space {
    zr_window window; // if it is a window
    zr_arena arena;   // if it is an arena
    char *at;         // this rank's bytes, in either
} zr_space;

typedef struct zr_collecting { // where units add up a flat parameter's gradient, in fp32
    float *at;                 // NULL if no gradient of the flat parameter is open
    int opened_by;             // unit whose contribution is the first
} zr_collecting;

// Where units read and write flat parameters; BIND, UNBIND and OPEN write it (gradients.c).
typedef struct zr_bound {
    const char **names;        // (versions * flat_param_count) of the windows' slots; constant
    char **at;                 // (flat_param_count) whole flat parameter while acquired, else NULL
    zr_collecting *collecting; // (flat_param_count)
} zr_bound;

// The update: update.c and delayed.c write it, and step.c the two numbers of a step.
typedef struct zr_update_state {
    bool overlaps;          // a delayed update is under way
    bool states_written;    // an update or a load has written the optimizer states
    double lr;              // learning rate of the current update
    float scale;            // factor of the gradient in that update
    zr_exact *squares;      // (2, tensor_count) for norms by tensor
    int64_t *factor_savers; // (tensor_count) Adafactor: the rank that saves a tensor's averages
} zr_update_state;

// The position in a step: what starts a pass writes it (step.c, train_batch.c, evaluate.c), and a
// CALL its unit.
typedef struct zr_position {
    int64_t micro_batch; // k: this rank's, counted within the step
    // Of the current action: its chunk, its set of activations, and the number (turn) that selects
    // the slots of links.
    int chunk, set;
    int64_t turn;
    int unit;         // index of the plan's unit whose function runs
    double loss;      // of the current micro-batch: the mean over its targets
    uint64_t samples; // hash of this step's micro-batches, if ranks share them
} zr_position;

// The position in the program; zr_program_begin sets it for a pass.
typedef struct zr_cursor {
    const zr_pass *pass;
    int at;           // next instruction
    int body_end;     // end of the body of the current call, or of the last one
    uint32_t holds;   // bit w is set while zr_when w holds in this pass
    zr_unit_fn visit; // runs instead of the units' own functions; NULL if they run
    void *user;
    // In a visit with a smaller batch: bytes that enter and leave the chunk, 0 for a tensor rank
    // without rows; -1 if they are as planned.
    int64_t bytes_in, bytes_out;
} zr_cursor;

// Versions of the parameters, and copies under an asynchronous schedule: parameters.c publishes
// them, and train_batch.c selects the current ones.
typedef struct zr_versions {
    uint64_t newest;     // how often the parameters were published
    uint64_t gathered;   // version of the kept flat parameters in the gather window
    uint64_t *published; // (plan->versions) the version of each copy
    // The copy of the parameters that is read or written, and the copy of the accumulators; 0 under
    // a synchronous schedule.
    int copy, sum_copy;
    bool lag; // between steps, the parameters are one update older than the master
} zr_versions;

// Steps that a pipeline makes in one call (train_batch.c): one, or a window of an asynchronous
// schedule, after which the pipeline is empty. create.c reserves the last three arrays, which are
// NULL without a pipeline.
typedef struct zr_steps {
    int64_t together; // steps that the loop makes, some overlapping; 1 without a pipeline
    const zero_tensors *batches; // (together * accumulation); NULL if this stage reads no batch
    zero_step_info *infos;       // (together)
    bool outdated;               // they gather kept flat parameters
    int copy;                    // the copy of the parameters that is version 0
    int64_t evaluations;         // number of evaluations so far
    double *losses;              // (steps of a window * accumulation) of the micro-batches
    zr_action *actions;          // (plan->action_count) for a window with fewer steps than planned
    zr_step_sums *sums;          // (steps of a window) the sums of each
} zr_steps;

// What a unit sees: create.c fills it, and a micro-batch or an evaluation sets its batch.
typedef struct zr_view {
    zero_context context; // shared by all units
    struct zr_accessor accessor;
    struct zr_sink sink;
    zero_tensors batch;           // of the current micro-batch
    struct zr_loss_weight weight; // of the current micro-batch
    // In a debug build: where the operands of a unit's operations may lie; else NULL.
    zr_bounds *bounds;
    zr_wrapper *bounding;
} zr_view;

enum { ZR_SQUARE_PARTS = 512 }; // chunks of one operation of Adafactor's norms

// Operands that are neither planned nor alike in every step. What operations read is set before the
// first of them: of a step at its beginning, of the update when its norm is known.
typedef struct zr_step_operands {
    zr_step_values *values; // (steps of a window)
    zr_update_values update;
    zr_factored_values factored;
    float lamb_step;                                   // of the current tensor
    float muon_factors[2];                             // of the current matrix
    zr_square_part square_parts[ZR_MOST_SQUARE_PARTS]; // of the current sums of squares
    double squares[ZR_SQUARE_PARTS]; // what an operation of Adafactor's norms writes
} zr_step_operands;

struct zero_engine {
    // Constant: what setup hands over, owned; parts.nvme is valid only until the engine is made.
    zr_engine_parts parts;
    zero_traffic traffic_before; // of the job's communicator, when this engine was created
    zr_engine_making making;
    zr_plan *plan; // as in parts, and so are these three
    zr_config *config;
    zr_grid grid;
    zr_queue *queue;
    zr_queue *host_queue; // of states off the device: the same, unless that is far
    zr_step_operands operands;
    zr_ledger ledger;
    zr_space spaces[ZR_SPACE_COUNT];
    zr_store stores[ZR_STORE_COUNT];       // those that the plan does not list are zeroed
    zr_pending *pending;                   // of all slots, one kind after another
    zr_pending *slots[ZR_SLOT_KIND_COUNT]; // (plan->slots[kind], operations of a slot)
    zr_channels channels;             // of the links of the plan's pipeline; zeroed without one
    zr_channel_shape *channel_shapes; // (link_count)
    zr_tensor_exchange exchange;
    zr_offload offload;
    struct zr_muon *muon; // NULL with other optimizers
    zr_delayed *delayed;  // NULL if the configuration does not delay updates
    zr_update_state update;
    zr_bound bound;
    zr_recorder *recorder;                    // NULL if nothing is recorded
    zr_wrapper *recording, *host_recording;   // the queues'; one queue has one
    zr_observer observers[ZR_MOST_OBSERVERS]; // added by zr_engine_observe
    int observer_count;
    double carry_scale; // loss scale of what the carries hold; 0: they begin anew in the next step
    zr_guard guard;     // await is NULL without a guard
    zr_phase phase;
    // Steps and skipped steps so far, and updates among them: Adam's t, the schedule's n. Under
    // pipedream updates count all steps, because each pipeline stage skips updates on its own.
    zr_progress progress;
    zr_position now;
    zr_cursor cursor;
    zr_versions versions;
    zr_steps steps;
    // Sums over this rank's micro-batches in this step, and over all ranks once ZR_SCALARS has run:
    // means x weights, the number of targets, and the squares of the own shards' gradients. Before
    // that they hold only what this rank counts (zr_grid_reports, zr_flat_param.counted).
    zr_step_sums sums;
    zr_norm_sums norms;
    zr_far far;
    // Messages of tensor ranks and pipeline stages that the visits of an evaluation announced.
    zr_pass_traffic expected;
    zr_view view;
};

// Runs an operation that moves or clears a few bytes beside the arithmetic of a step: recordings do
// not list it, and predictions do not count it.
static inline void zr_engine_run_aside(const zero_engine *engine, zr_op op)
{
    zr_queue queue = zr_queue_inside(engine->queue);
    zr_run(&queue, op);
}

#endif
