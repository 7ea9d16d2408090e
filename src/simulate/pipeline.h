// How long the pipeline of a step takes: the lists of actions that a run of ours has
// (plan/pipeline/schedules.h), on virtual time. Pure.
#ifndef ZR_SIMULATE_PIPELINE_H
#define ZR_SIMULATE_PIPELINE_H

#include "config/pipeline_spec.h"

typedef struct zr_sim_pipeline {
    zr_pipeline_kind kind;
    int stages, chunks;       // chunks of each stage
    int64_t micro_batches;    // of a step
    int flush_every;          // steps of an asynchronous window; 0: 8, as libzero has them
    double forward, backward; // seconds of a micro-batch in all chunks of a stage
    double last;              // seconds that the last chunk of the model takes longer, in both
    double message;           // seconds from the end of a chunk until its neighbour can begin
} zr_sim_pipeline;

// Finds the seconds of a step, from the first forward to the last backward; of an asynchronous
// schedule, of one of a window, which drains once. Where a step has many micro-batches the first
// rounds are simulated, and the others go on at the pace of the last round. Where there are more
// chunks than libzero runs, or more than 128 of the model, the closed forms of the schedules stand
// for the lists.
// Interleaved chunks whose micro-batches are no multiple of the stages are taken from the next
// multiple. ZERO_ERR_MEMORY.
zero_status zr_sim_pipeline_find(const zr_sim_pipeline *pipeline, double *seconds,
                                 zero_error *error);

#endif
