// Which AWAITs of a program a run can do without, and why: found from the program alone, because
// what two ranks do before, after and at the same time follows from its order.
#ifndef TEST_ENGINE_AWAIT_REASONS_H
#define TEST_ENGINE_AWAIT_REASONS_H

#include "plan/full_plan.h"

typedef enum reason {
    NEVER_RUN, // the run has no step in which it holds
    NEEDED,
    ENDED,   // an earlier AWAIT has ended all that was begun there
    NEXT,    // another AWAIT of it follows before anything touches the place
    PASSED,  // this rank has awaited something that others come to only after what it waits for
    ENTERED, // nobody writes into what ranks share before all of them have come there
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

// What is run: new weights are published, an evaluation, `steps` steps (a delayed update is delayed
// from the first one on), two evaluations. The plan outlives the trace.
void trace_of(const zr_plan *plan, bool shares, int steps, trace *out);
void trace_free(trace *trace);
// Without the AWAITs in `without`: why this one of them is not missed.
reason reason_without(const trace *trace, const dropped *without, zr_pass_kind pass, int at);

#endif
