// Tells which AWAITs of a program a run can do without, and why. The program alone tells this,
// because its order determines what two ranks do before, after and at the same time.
#ifndef TEST_ENGINE_AWAIT_REASONS_H
#define TEST_ENGINE_AWAIT_REASONS_H

#include "plan/plan.h"

typedef enum reason {
    NEVER_RUN, // its condition holds in no step of the run
    NEEDED,
    ENDED,   // an earlier AWAIT has ended everything that was begun there
    NEXT,    // another AWAIT of the same follows before anything touches the place
    PASSED,  // this rank has awaited something that the others reach only after what it waits for
    ENTERED, // a shared window is written only after all ranks have started the next gather
    REASON_COUNT
} reason;

typedef struct dropped { // AWAITs that are left out
    bool at[ZR_PASS_COUNT][512];
} dropped;

typedef struct traced { // an instruction that is run
    const zr_instruction *i;
    zr_pass_kind pass;
    int at;
} traced;

typedef struct trace { // of a run of some steps
    const zr_plan *plan;
    bool shares; // ranks share the gather window
    traced *at;  // (count)
    int count, capacity;
} trace;

// Records what a run does: it publishes new weights, evaluates, makes `steps` steps (a delayed
// update is delayed from the first one on), and evaluates twice. The plan must outlive the trace.
void trace_of(const zr_plan *plan, bool shares, int steps, trace *out);
void trace_free(trace *trace);
// Returns why this AWAIT, which is one of those in `without`, is not needed.
reason reason_without(const trace *trace, const dropped *without, zr_pass_kind pass, int at);

#endif
