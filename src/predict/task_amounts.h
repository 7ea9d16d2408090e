// How much there is to do in a run's tasks, as its plan says.
#ifndef ZR_PREDICT_TASK_AMOUNTS_H
#define ZR_PREDICT_TASK_AMOUNTS_H

#include "plan/plan.h"
#include "predict/task_rates.h"

typedef struct zr_task_subject { // of which run
    const zr_plan *plan;         // of the rank that is timed
    int together;                // ranks of its machine
    int64_t text;                // bytes of the files that are read; 0: unknown
} zr_task_subject;

// Returns the sample of a task without its seconds.
zr_task_sample zr_task_sample_of(zr_task task, const zr_task_subject *subject);
// Returns the seconds of a call of the task, as zr_task_rates_seconds does; 0: unknown.
double zr_task_expected(const zr_task_rates *rates, zr_task task, const zr_task_subject *subject,
                        const zr_task_facts *facts);
// Estimates the bytes of a checkpoint from its vectors, without headers and manifest.
int64_t zr_checkpoint_bytes(const zr_plan *plan);

#endif
