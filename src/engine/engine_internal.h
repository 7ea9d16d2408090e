// The engine's state, which the files of engine/ share. The functions that they share are declared
// in one header for each subject: buffers.h, interpret.h, step.h, update.h, offload.h, delayed.h.
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
#include "engine/create.h"
#include "engine/delayed.h"
#include "engine/engine_api.h"
#include "engine/offload.h"
#include "engine/rank_grid.h"
#include "engine/tensor_exchange.h"
#include "model/unit.h"

typedef enum zr_phase { ZR_READY, ZR_FORWARD_DONE, ZR_BACKWARD_DONE, ZR_FAILED } zr_phase;

typedef struct zr_cursor { // the position in the program
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

typedef struct zr_collecting { // where units add up a flat parameter's gradient, in fp32
    float *at;                 // NULL if no gradient of the flat parameter is open
    int opened_by;             // unit whose contribution is the first
} zr_collecting;

enum { ZR_SQUARE_PARTS = 512 }; // chunks of one operation of the gradient norm

// Operands that are neither planned nor alike in every step. What operations read is set before the
// first of them: of a step at its beginning, of the update when its norm is known.
typedef struct zr_step_operands {
    zr_step_values *values; // (steps of a window)
    zr_update_values update;
    float lamb_step;                 // of the current tensor
    double squares[ZR_SQUARE_PARTS]; // what an operation of the gradient norm writes
} zr_step_operands;

struct zero_engine {
    zr_plan *plan;
    // Models that this engine owns: the tensor-parallel part and the pipeline stage; NULL if there
    // is none.
    zero_model *part, *stage;
    zr_pipeline_part *pipeline; // NULL without a pipeline
    zr_config *config;
    zr_grid grid;
    zr_queue *queue;
    zero_logger logger;
    uint32_t changes; // bits, see zr_engine_allowed_changes
    uint64_t seed;
    struct zr_accessor accessor;
    struct zr_sink sink;
    zr_step_operands operands;

    zr_ledger ledger;
    // Replicas (stages 0 to 2), or the one copy that all ranks map (stage 3).
    zr_window params;
    // Used at stage 3 where nothing is mapped: plan->gather_bytes, shared by a machine's ranks.
    zr_window gathers;
    zr_window grads;  // plan->grad_bytes of each rank
    zr_window wholes; // plan->whole_bytes of each rank
    zr_tensor_exchange exchange;
    zr_channels channels;             // the plan's links
    zr_channel_shape *channel_shapes; // (link_count)
    zr_arena open;                    // plan->open_bytes
    zr_arena activations, activation_checkpoints, workspace;
    // Stores that the plan does not list are zeroed.
    zr_store vectors[ZERO_TIER_COUNT][ZR_VECTOR_COUNT];
    zr_offload offload;
    zr_delayed *delayed;
    bool update_overlaps;          // a delayed update is under way; set and cleared by delayed.c
    const char **flat_param_names; // (flat_param_count)
    char **at; // (flat_param_count) whole flat parameter while acquired, else NULL
    zr_handle *reducing, *gathering; // (flat_param_count)
    zr_collecting *collecting;       // (flat_param_count)
    uint64_t gathered;               // version of the kept flat parameters in the gather window
    zr_exact *squares;               // (2, tensor_count) for norms by tensor (LAMB)

    zr_recorder *recorder; // NULL if nothing is recorded
    zr_wrapper *recording; // the queue's
    zr_observer observers[ZR_MOST_OBSERVERS];
    int observer_count;
    zr_guard guard; // await is NULL without a guard

    zr_engine_making making;
    zr_phase phase;
    int64_t step; // updates and skipped updates so far
    // Steps that changed the state: Adam's t, the schedule's n. Under pipedream it counts all
    // steps, because each pipeline stage skips updates on its own.
    int64_t updates;
    bool states_written; // an update or a load has written the optimizer states
    int64_t micro_batch; // k: this rank's, counted within the step
    // Of the current action: its chunk, its set of activations, and the number (turn) that selects
    // the slots of links.
    int chunk, set;
    int64_t turn;
    int64_t evaluations; // number of evaluations so far
    int unit;            // index of the plan's unit whose function runs
    double *losses;      // (steps of a window * accumulation) of a pipeline's micro-batches
    uint64_t version;    // how often the parameters were published
    // Under an asynchronous schedule: the copy of the parameters that is read or written, and the
    // copy of the accumulators; else 0.
    int copy, sum_copy;
    int64_t together;       // steps that the loop makes, some overlapping; 0: one
    uint64_t *published;    // (plan->versions) the version of each copy
    bool lags;              // between steps, the parameters are one update older than the master
    zr_action *actions;     // (plan->action_count) for a window with fewer steps than planned
    zr_step_sums *of_steps; // (steps of a window) the sums of each
    zr_cursor cursor;
    zr_loss_scale scale;          // of the current step
    double gradient_scale;        // factor that the last completed step's gradient contains
    struct zr_loss_weight weight; // of the current micro-batch
    double micro_batch_loss;      // of the current micro-batch: the mean over its targets
    // Sums over this rank's micro-batches in this step, and over all ranks once ZR_SCALARS has run:
    // means x weights, the number of targets, and the squares of the own shards' gradients. Before
    // that they hold only what this rank counts (zr_grid_reports, zr_flat_param.counted).
    zr_step_sums sums;
    // Messages of tensor ranks and pipeline stages that the visits of an evaluation announced.
    zr_pass_traffic expected;
    uint64_t samples;            // hash of this step's micro-batches, if ranks share them
    double lr;                   // learning rate of the current update
    float update_scale;          // factor of the gradient in that update
    zero_traffic traffic_before; // of the job's communicator, when this engine was created
    zero_tensors batch;          // of the current micro-batch
    zero_context context;        // shared by all units
};

#endif
