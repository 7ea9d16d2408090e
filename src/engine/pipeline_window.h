// Steps of a pipeline: the actions of its list, and what asynchronous schedules do between them
// (plan/pipeline/pipeline.h). A window is the steps after which the pipeline is empty: one, or
// those of an asynchronous schedule until it drains.
#ifndef ZR_ENGINE_PIPELINE_WINDOW_H
#define ZR_ENGINE_PIPELINE_WINDOW_H

#include "engine/engine_internal.h"

typedef struct zr_window_run {
    zero_engine *engine;
    const zero_tensors *batches; // (steps * accumulation); NULL: this stage reads none
    int64_t steps;
    zero_step_info *infos; // (steps)
    bool outdated;         // the window gathers kept flat parameters
    int copy;              // of the parameters that version 0 is
} zr_window_run;

// train_batch.c: runs the actions (count) of this stage, from the first to the last.
zero_status zr_window_actions(zr_window_run *run, const zr_action *actions, int count,
                              zero_error *error);

// asynchronous.c. Runs a window of an asynchronous schedule, and ends its steps.
zero_status zr_window_asynchronous(zr_window_run *run, zero_error *error);
// Runs NORM or UPDATE.
zero_status zr_window_end_step(zr_window_run *run, const zr_action *action, zero_error *error);
// Makes the copies of parameters and accumulators those that the action reads or, UPDATE, writes.
void zr_window_set_copies(const zr_window_run *run, const zr_action *action);

#endif
