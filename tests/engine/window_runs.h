// Runs of several windows of steps: what an asynchronous pipeline and the run that must have its
// bits agree on, and on each rank what was planned.
#ifndef TEST_ENGINE_WINDOW_RUNS_H
#define TEST_ENGINE_WINDOW_RUNS_H

#include "harness.h"

#include <stddef.h>
#include <stdint.h>

enum { WINDOWS_STEPS = 7, WINDOWS_MOST = 8, WINDOWS_ELEMS = 65536, WINDOWS_RANKS = 16 };

typedef struct windows_case {
    // Ranks, model and so on. Of these fields this file sets steps, drive and precision.
    harness_case base;
    const char *libzero; // more of libzero: "\"exact_pipeline\": true"; NULL: nothing
    const char *more;    // more of the configuration; NULL: nothing
    // Lengths of windows, in turn from the first; 0: all have one step. No pipeline: one step.
    int lengths[WINDOWS_MOST];
    int steps;        // the step to end with, also after a load; 0: WINDOWS_STEPS
    const char *save; // where to save after step save_at, which must end a window; NULL: nowhere
    int save_at;
    // Called on every rank after each window, once `step` steps are made; may be NULL.
    zero_status (*between)(zero_engine *engine, int64_t step, zero_error *error);
} windows_case;

typedef struct windows_result {
    int first; // step of this run: 0, or after a load the one that follows
    zero_step_info info[WINDOWS_STEPS];
    double evaluated, finished; // before and after zero_finish_update
    // By the tensors of the model, one after the other; of ranks that divide none of them.
    float moments[2][WINDOWS_ELEMS];
    uint64_t seen; // what windows_see was given, hashed
    harness_result run;
} windows_result;

// Returns a Llama of four blocks that shares nothing.
zero_llama_config windows_llama(void);
// Returns a case of one data rank, with windows of 3, 2 and 2 steps. schedule: NULL: there is no
// pipeline, and updates are delayed.
windows_case windows_case_of(const zero_llama_config *llama, const char *schedule, int stages);
// Trains on all ranks. Each has to tell the same steps, and to hold what was planned for it.
void windows_run(const windows_case *c, windows_result *out);
// Says in what two runs differ, from the first step of `a` on: "step 3", "parameters", ...; NULL:
// in nothing.
const char *windows_difference(const windows_result *a, const windows_result *b);
// Fails, and says what differs, where something does.
void windows_expect_same(const windows_result *a, const windows_result *b, const char *what);
// Trains `steps` steps from the engine's position in one window.
zero_status windows_train(zero_engine *engine, const harness_case *base, int64_t steps,
                          zero_step_info *infos, zero_error *error);

// Evaluates a sample of its own.
zero_status windows_evaluate(zero_engine *engine, double *loss, zero_error *error);
// Called between windows, on every rank: what rank 0 sees there is part of the run's result.
void windows_see(zero_engine *engine, const void *data, size_t bytes);

#endif
