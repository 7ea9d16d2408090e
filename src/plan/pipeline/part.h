// The part of a pipeline that a rank computes: the units of its chunks, and the links between
// chunks, through which activations and their gradients go.
//
//   links   0: chunk 0 -> 1   1: chunk 1 -> 0   2: chunk 1 -> 2   3: chunk 2 -> 1   ...
//           activations       gradients         activations       gradients
//
// Chunks are numbered over the whole model. All ranks of a pipeline list the same links.
#ifndef ZR_PLAN_PIPELINE_PART_H
#define ZR_PLAN_PIPELINE_PART_H

#include "model/pipeline_stage_cut.h"
#include "plan/pipeline/schedules.h"
#include <zero/model.h>

typedef struct zr_pipeline_part {
    zr_pipeline pipeline;
    int stage; // this rank's; the plan's model has its units (model/pipeline_stage_cut.h)
    // (stages * chunks + 1) the first unit of each chunk of the whole model, and the end.
    const int *first_unit;
    // (stages * chunks) what forward and backward of a micro-batch cost in a chunk; their sum is 1.
    const double *share;
    int64_t
        checkpoint_interval; // units of a segment that is computed again; 0 if the settings decide
    bool exact;              // each borrowed flat parameter is a tied copy
    bool mapped;             // ranks of different stages share memory
    // Tensor ranks, which have the same boundaries, send a share each; the receivers put the shares
    // together.
    bool divides;
} zr_pipeline_part;

typedef struct zr_link {
    int from, to; // pipeline stages
    int slots;
    int64_t bytes;          // of a slot
    int64_t first, message; // byte of a slot where a message begins, and its bytes
    char name[160];         // for messages: "h.5 to h.6"
    bool on_host;           // the host writes and reads it, also on a far device
} zr_link;

typedef struct zr_tied_weight_plan { // plan/pipeline/tied_weights.h
    zr_tied_weight of;
    int tied_copy, owner;         // own flat parameters; -1 if another rank has it
    int sum_link, parameter_link; // -1 if nothing is sent
} zr_tied_weight_plan;

typedef struct zr_chunk_plan {     // neighbouring units; without a pipeline there is one chunk
    int number;                    // of the whole model
    int first_unit, end_unit;      // of plan->units
    zero_tensors in;               // shapes of what enters; empty for the batch
    int input, output;             // links of activations; -1 if there is none
    int gradient_in, gradient_out; // links of gradients; -1 if there is none
    zr_chunk_buffers buffers;
    // Visits of forward, of backward (from a last unit on that does both in one call), and of
    // weights. Those of an evaluation are [first_visit, forward_end).
    int first_visit, backward_visit, forward_end, weight_visit, end_visit;
    int first_segment, segments; // that are computed again
    // Of the activations, and of activation checkpoints: where set 0 begins, and a set's bytes.
    int64_t set_first, set_bytes;
    int64_t kept_first, kept_bytes;
    // In the store of activation checkpoints: bytes of a set; set 0 is first.
    int64_t stored_first, stored_bytes;
} zr_chunk_plan;

typedef struct zr_plan zr_plan;

// Finds the chunks of a plan, the links, and this stage's list of actions; without a pipeline, one
// chunk. It runs before the sizes of units are known.
zero_status zr_plan_chunks(zr_plan *plan, zero_error *error);
// Returns the chunk of a unit of the plan.
const zr_chunk_plan *zr_plan_chunk_of(const zr_plan *plan, int unit);
// Says whether the chunk has the last unit of the whole model.
bool zr_chunk_is_last(const zr_plan *plan, const zr_chunk_plan *chunk);
// Return the schedule of the plan's pipeline (1f1b where there is none, or nothing is trained), and
// whether it is asynchronous.
zr_pipeline_kind zr_plan_schedule(const zr_plan *plan);
bool zr_plan_is_asynchronous(const zr_plan *plan);
// Says whether the parameters that units read may be one update older than the weights, after a
// step: under a delayed update and under 2bw.
bool zr_plan_parameters_lag(const zr_plan *plan);
// Returns the number of accumulators of a shard, over all steps whose gradients coexist.
int zr_plan_accumulators(const zr_plan *plan);
// Return the links of a step's sums between stage `stage`, above 0, and the first one: to it, and
// back.
int zr_plan_sums_to_first(const zr_plan *plan, int stage);
int zr_plan_sums_from_first(const zr_plan *plan, int stage);
// Returns the bytes that this rank holds for slots of links.
int64_t zr_plan_link_bytes(const zr_plan *plan);
// Adds them to the plan's bytes, each to those of where it lies.
void zr_plan_count_links(zr_plan *plan);

#endif
