// Schedules of pipelines as data. For each rank of a pipeline a short pure function lists what it
// computes, in order; everything else follows from the lists by one common pass: sends, receives,
// and how many buffers there have to be.
//
// A stage s of p has v chunks of neighbouring units. Chunk c of stage s is chunk c p + s of the
// whole model, so a micro-batch goes through all stages once for each chunk:
//
//   chunk of the model   0        1        2        3
//   stage, chunk         0, 0     1, 0     0, 1     1, 1      p = 2, v = 2
//
// In every schedule a chunk takes the micro-batches of each kind of action in ascending order. So
// its buffers are rings: micro-batch k has activation set k mod `sets`, and slot k mod `slots` of a
// channel.
#ifndef ZR_PLAN_PIPELINE_SCHEDULES_H
#define ZR_PLAN_PIPELINE_SCHEDULES_H

#include "config/pipeline_spec.h"

typedef enum zr_act {
    ZR_ACT_FORWARD,
    ZR_ACT_BACKWARD, // of zb-h1: of the input alone, as far as the units can
    ZR_ACT_WEIGHT,   // zb-h1: the weights' part of backward
    // 2bw: what the stage adds to a step's norm goes to all stages, after its last backward.
    ZR_ACT_NORM,
    ZR_ACT_UPDATE, // asynchronous: the stage's update by the gradient of a step
    ZR_ACT_COUNT
} zr_act;

typedef struct zr_action {
    zr_act act;
    int chunk;       // of the stage, 0 .. chunks - 1
    int micro_batch; // of the window, 0 ..; NORM and UPDATE: the last one of its step
    // Asynchronous: the version of the parameters that it reads or, UPDATE, makes. A window begins
    // with version 0, under 2bw with 1 too.
    int version;
} zr_action;

typedef struct zr_pipeline { // what lists are made for
    zr_pipeline_kind kind;
    int stages, chunks; // p; chunks of each stage, v
    int micro_batches;  // of a step, on each data rank
    // Of a window, at whose end the pipeline is empty: asynchronous flush_every, else 1.
    int steps;
} zr_pipeline;

// What one chunk of a stage needs at one time.
typedef struct zr_chunk_buffers {
    int sets;           // sets of activations, from a forward to its last backward
    int input_slots;    // of the channel from the chunk before; 0: there is none
    int gradient_slots; // of the channel from the chunk after; 0: there is none
} zr_chunk_buffers;

// ZERO_ERR_CONFIG: the schedule cannot be made of these numbers; the message has them, and what
// would do (interleaved: micro-batches are a multiple of stages; 2bw: at least as many as stages).
zero_status zr_pipeline_check(const zr_pipeline *pipeline, zero_error *error);
int zr_pipeline_window(const zr_pipeline *pipeline); // micro-batches of a window
// Lists what a stage does in a window, into `out`; NULL: only counts. Returns how many actions.
int zr_pipeline_list(const zr_pipeline *pipeline, int stage, zr_action *out);
bool zr_pipeline_has_weights(zr_pipeline_kind kind); // lists have ZR_ACT_WEIGHT
// Returns the act after which a micro-batch's activations, and the input of its chunk, are not read
// any more: backward or weight.
zr_act zr_pipeline_last_act(zr_pipeline_kind kind);
int zr_pipeline_chunk(const zr_pipeline *pipeline, int stage, int chunk); // of the whole model
// Returns how many versions of the parameters a stage keeps at one time, as the lists need them:
// pipedream one for each of its micro-batches under way between whose forwards it updates (p - s
// where a step has one micro-batch), 2bw two; else 1.
int zr_pipeline_versions(const zr_pipeline *pipeline, int stage);
// Finds, from the lists, what a chunk of a stage needs.
zr_chunk_buffers zr_pipeline_buffers(const zr_pipeline *pipeline, int stage, int chunk);
const char *zr_act_name(zr_act act); // "forward", "backward", "weight", "norm", "update"

#endif
