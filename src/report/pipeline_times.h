// How long the steps of a pipeline take, and how long the simulator says they should: it gets what
// each chunk's forward and backward took by themselves in the same steps.
#ifndef ZR_REPORT_PIPELINE_TIMES_H
#define ZR_REPORT_PIPELINE_TIMES_H

#include "predict/meter.h"
#include "plan/pipeline/simulate.h"
#include <zero/engine.h>

typedef struct zr_pipeline_times { // means over the steps, in seconds
    // From a barrier until the slowest rank has ended it; of a window, divided by its steps.
    double step;
    double update;    // of it, the update without waits, on the slowest rank
    double bubble;    // share of all ranks' time in which they wait for others
    double simulated; // the simulated step and the update, or the simulated window by its steps
    double simulated_bubble;
    double simulating; // what the simulation itself took
    int chunks;
    zr_chunk_cost *cost; // (chunks) by chunk of the whole model; without waits, the slowest rank's
} zr_pipeline_times;

// Calls `step` a number of times and records the calls; `step` makes one step of the engine, or a
// whole window (zero_window) if the schedule is asynchronous. The engine is part of a pipeline, and
// warm. Collective over `world`, the engine's
// communicator. The caller frees *out with zr_pipeline_times_free, also after an error.
// ZERO_ERR_LIMIT: a step has more records than there is room for.
zero_status zr_pipeline_times_measure(zero_comm *world, zero_engine *engine, int calls,
                                      zr_timed_work step, void *user, zr_pipeline_times *out,
                                      zero_error *error);
void zr_pipeline_times_free(zr_pipeline_times *times); // zeroed ones are fine

#endif
