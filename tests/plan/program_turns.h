// The passes that a rank runs, one after another.
#ifndef TEST_PLAN_PROGRAM_TURNS_H
#define TEST_PLAN_PROGRAM_TURNS_H

#include "plan/plan.h"

enum { PROGRAM_MOST_TURNS = 4096 };

typedef struct program_turn {
    zr_pass_kind pass;
    bool changed;   // the weights have changed just before
    uint32_t holds; // of what differs between turns, a bit for each zr_when
} program_turn;

// Says whether an action of a pipeline stage is one pass of a chunk: NORM and UPDATE are not.
bool program_has_pass(const zr_action *action);
// Returns that pass.
zr_pass_kind program_pass_of(const zr_action *action);

// A pass of a pipeline stage, with what the engine knows of it.
typedef struct pipeline_turn {
    zr_pass_kind pass;
    int set;
    int number; // of its micro-batch; at the end of a step, that of the step; of all windows
    int slot;   // number from which slots of links follow
} pipeline_turn;

// Lists, into out[PROGRAM_MOST_TURNS], so many windows of a pipeline stage, and then evaluations.
// A synchronous step ends without a turn. Returns how many turns there are.
int pipeline_turns(const zr_plan *plan, int windows, int evaluations, pipeline_turn *out);
// Lists, into out[PROGRAM_MOST_TURNS], a step, an evaluation after its update, and a step which
// finds the weights that the evaluation has read. Without a pipeline a step has two micro-batches.
// Returns how many turns there are.
int program_turns(const zr_plan *plan, program_turn *out);

#endif
