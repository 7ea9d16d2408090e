// The passes that a rank runs, one after another.
#ifndef TEST_PLAN_PROGRAM_TURNS_H
#define TEST_PLAN_PROGRAM_TURNS_H

#include "plan/full_plan.h"

enum { PROGRAM_MOST_TURNS = 4096 };

typedef struct program_turn {
    zr_pass_kind pass;
    bool changed;   // the weights have changed just before
    uint32_t holds; // of what differs between turns, a bit for each zr_when
} program_turn;

// Returns the pass that an action of a pipeline stage is; ZR_ACT_UPDATE has none.
zr_pass_kind program_pass_of(const zr_action *action);
// Lists, into out[PROGRAM_MOST_TURNS], a step, an evaluation after its update, and a step which
// finds the weights that the evaluation has read. Without a pipeline a step has two micro-batches.
// Returns how many turns there are.
int program_turns(const zr_plan *plan, program_turn *out);

#endif
