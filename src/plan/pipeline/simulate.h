// Runs the lists of all stages of a pipeline against each other, on virtual time. It proves, before
// the first step, that everything runs once, in an order that keeps the sums, and that the lists
// run to their end; and it tells how long they take. Pure.
#ifndef ZR_PLAN_PIPELINE_SIMULATE_H
#define ZR_PLAN_PIPELINE_SIMULATE_H

#include "plan/pipeline/schedules.h"

typedef struct zr_chunk_cost { // seconds, of one chunk of the whole model
    double act[ZR_ACT_COUNT];  // backward: of the input alone if lists have weights, else all of it
    double send;               // from the end of a forward until the next chunk has its output
    double send_back;          // from the end of a backward until the chunk before has it
} zr_chunk_cost;

typedef struct zr_lane { // what one stage does: its list, or a list that a test has changed
    const zr_action *at; // (count)
    int count;
} zr_lane;

typedef struct zr_slot_of_time { // of one action
    double begin, end;
} zr_slot_of_time;

typedef struct zr_simulated_pipeline_stage {
    double busy;         // seconds
    double bubble;       // 1 - busy / total
    int sets;            // most activation sets of all chunks at one time
    zr_slot_of_time *at; // (count of the lane) when each action ran
} zr_simulated_pipeline_stage;

typedef struct zr_simulation {
    double total;  // seconds of the window
    double bubble; // share of all stages' time in which they do nothing
    int stages;
    zr_simulated_pipeline_stage *stage; // (stages)
} zr_simulation;

// Simulates the lanes of all stages; NULL: the lists of the pipeline. costs: (stages * chunks), by
// chunk of the whole model. The caller frees *out with zr_simulation_free, also after an error.
// ZERO_ERR_INTERNAL: the lanes are no schedule; the message names the stage, the chunk, the
// micro-batch and what is wrong: something is missing or twice, sums are out of order, a slot or a
// set is used before it is free, or stages wait for each other for ever.
zero_status zr_simulate(const zr_pipeline *pipeline, const zr_lane *lanes,
                        const zr_chunk_cost *costs, zr_simulation *out, zero_error *error);
void zr_simulation_free(zr_simulation *simulation);

// lanes.c
enum { ZR_ACTION_TEXT = 80 };

// Returns the lists of all stages (stages), which the caller frees with one zr_free; NULL, with
// ZERO_ERR_MEMORY in *error, if there is no memory.
zr_lane *zr_pipeline_lanes(const zr_pipeline *pipeline, zero_error *error);

// Checks one lane: it has everything once, each chunk takes the micro-batches of each act in
// ascending order, a backward comes after its forward and a weight after its backward, a forward
// finds its set of activations free, an update is between the backwards of two steps, or under 2bw
// after its norm, which is there, and before the next step but one; and every action reads its
// version of the parameters, which no later one has replaced. *sets becomes the most sets of all
// chunks at one time. ZERO_ERR_INTERNAL says what is wrong, with the stage, the chunk and the
// micro-batch.
zero_status zr_lane_check(const zr_pipeline *pipeline, int stage, const zr_lane *lane, int *sets,
                          zero_error *error);
// Writes "backward of micro-batch 3, chunk 0".
void zr_action_text(const zr_action *action, char out[ZR_ACTION_TEXT]);

#endif
