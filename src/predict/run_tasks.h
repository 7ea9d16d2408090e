// The tasks of a run, which are everything but its steps: how large each of these tasks is by its
// plan, how long it takes on one rank, how long it was expected to take, and what that teaches the
// book of rates.
#ifndef ZR_PREDICT_RUN_TASKS_H
#define ZR_PREDICT_RUN_TASKS_H

#include "plan/plan.h"
#include "predict/run_times.h"

typedef struct zr_task_subject { // the run whose tasks are meant
    const zr_plan *plan;         // of the rank that is timed
    int together;                // ranks of its machine
    int64_t text;                // bytes of the files that are read; 0 if unknown
} zr_task_subject;

// task_amounts.c. Returns the sample of a task without its seconds.
zr_task_sample zr_task_sample_of(zr_task task, const zr_task_subject *subject);
// Returns the seconds of a call of the task, as zr_task_rates_seconds does; 0 if unknown.
double zr_task_expected(const zr_task_rates *rates, zr_task task, const zr_task_subject *subject,
                        const zr_task_facts *facts);
// Estimates the bytes of a checkpoint from its vectors, without headers and manifest.
int64_t zr_checkpoint_bytes(const zr_plan *plan);

typedef struct zr_run_tasks { // zeroed at the start, but for `since`
    double since;             // zr_clock_seconds at which the task that is under way began
    double saving;            // of the clock's seconds of saving, those that tasks have counted
    double seconds[ZR_TASKS]; // of all calls
    int64_t calls[ZR_TASKS];
    bool failed[ZR_TASKS];     // one of the calls has
    double expected[ZR_TASKS]; // seconds of a call; 0 if unknown
} zr_run_tasks;

// Ends a task, which took the time since the last such call, or since the beginning.
void zr_run_tasks_end(zr_run_tasks *tasks, zr_task task);
// Moves seconds that were counted for one task to another one, which was a part of it.
void zr_run_tasks_move(zr_run_tasks *tasks, zr_task from, zr_task to, double seconds);
// Ends a time of saving, which was of that task, and turns the clock to the part before.
void zr_run_tasks_end_saving(zr_run_tasks *tasks, zr_task task, zr_run_clock *clock,
                             zr_time_part before);
// Counts a call that saved, or failed to save.
void zr_run_tasks_count_saving(zr_run_tasks *tasks, zr_task task, zero_status status);
// Fills in how long the tasks are expected to take.
void zr_run_tasks_expect(zr_run_tasks *tasks, const zr_task_subject *subject,
                         const zr_rate_book *book);
// Fills in the measured and the predicted times of tasks.
void zr_run_tasks_take(const zr_run_tasks *tasks, zr_run_times *times);
// Adds the tasks of a run that has ended to rates.
void zr_run_tasks_teach(const zr_run_tasks *tasks, const zr_run_times *times,
                        const zr_task_subject *subject, zr_task_rates *out);

#endif
