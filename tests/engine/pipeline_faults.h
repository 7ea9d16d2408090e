// One rank of a pipeline in which something goes wrong: what test_pipeline_faults runs on threads,
// on processes and under mpirun.
#ifndef TEST_ENGINE_PIPELINE_FAULTS_H
#define TEST_ENGINE_PIPELINE_FAULTS_H

#include <zero/engine.h>

enum {
    // Of the pipeline. The second one has layers 2 and 3, or interleaved, in two chunks, 1 and 4.
    FAULT_STAGES = 3,
    FAULT_DATA = 2, // data ranks
    FAULT_WORLD = FAULT_STAGES * FAULT_DATA,
    FAULT_ACCUMULATION = 6
};

// What happens at `rank`, in its micro-batch `micro_batch` of step `step`.
typedef enum fault_kind {
    FAULT_NONE,
    FAULT_FORWARD, // a unit of it fails
    FAULT_BACKWARD,
    FAULT_WEIGHT,
    FAULT_EVALUATION, // likewise, in the evaluation before the step
    FAULT_SILENT,     // a unit of it fails in forward, and does not say why
    FAULT_ABORT,      // it gives up while it computes
    FAULT_KILL,       // it is killed in forward
    FAULT_STOP,       // it is stopped in backward
    FAULT_KILL_EVALUATING,
    FAULT_NO_BATCHES, // it is given none
    FAULT_OTHER_SAMPLES,
    FAULT_OTHER_EVALUATED, // likewise in the evaluation before the step
    FAULT_COUNT
} fault_kind;

typedef struct fault {
    fault_kind kind;
    const char *schedule;
    int rank, step, micro_batch;
    const char *unit; // whose function it is, where one fails
} fault;

// Trains as rank zero_comm_rank(comm) of FAULT_WORLD, 3 steps with an evaluation before each.
zero_status fault_run(zero_comm *comm, const fault *fault, zero_error *error);

#endif
