// Lanes of pipeline stages: the lists of a schedule in one block of memory, and what has to hold of
// one lane whatever the others do.
#ifndef ZR_PLAN_PIPELINE_LANES_H
#define ZR_PLAN_PIPELINE_LANES_H

#include "plan/pipeline/simulate.h"

enum { ZR_ACTION_TEXT = 80 };

// Returns the lists of all stages (stages), which the caller frees with one zr_free; NULL, with
// ZERO_ERR_MEMORY in *error, if there is no memory.
zr_lane *zr_pipeline_lanes(const zr_pipeline *pipeline, zero_error *error);
// Returns the act after which a micro-batch's activations, and the input of its chunk, are not read
// any more: backward or weight.
zr_act zr_pipeline_last_act(zr_pipeline_kind kind);

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
