// What holds for the program of any plan, whichever emitter wrote it.
#ifndef TEST_PLAN_PROGRAM_CHECKS_H
#define TEST_PLAN_PROGRAM_CHECKS_H

#include "plan/plan.h"

typedef void (*program_check)(const zr_plan *plan);

enum { PROGRAM_TIERINGS = 7 };
extern const zr_tiering program_tierings[PROGRAM_TIERINGS]; // where program_for_all puts vectors
int program_least_stage(const zr_tiering *tiering);         // that can do so

// Runs `check` over stages, types, tiers, activation checkpoints and numbers of ranks, for
// whole and streamed models.
void program_for_all(program_check check);
// The same from stage 1 on, where weights and contributions are blocks of codes.
void program_for_all_codes(program_check check);

// The checks take any plan, also that of a pipeline stage. What has to hold from one pass to the
// next is checked along what a rank runs: a step, an evaluation, and a step before whose second
// nothing has changed the weights; in a pipeline a step is the stage's list of actions.

// Checks that no two places overlap while both are needed, and that the windows are as large as the
// places need.
void program_check_live_ranges(const zr_plan *plan);
// Checks that what is begun in a pass is awaited in it, and that what units read and add to is
// there, in the place that they are told.
void program_check_replay(const zr_plan *plan);
// Checks that what peers read, shards and contributions in a window, is not overwritten before they
// have read it.
void program_check_readers(const zr_plan *plan);
// Checks that nothing is written where contributions or sums that are fetched or stored are still
// under way.
void program_check_transfers(const zr_plan *plan);
// Checks that forward runs for every unit once, then backward for every unit, last first, with the
// end of forward in between; in a pipeline, for every unit of each chunk, in the passes that they
// belong to.
void program_check_calls(const zr_plan *plan);

// Returns the number of calls in a micro-batch that run while an exchange is under way: ZR_GATHER
// or ZR_REDUCE.
int program_calls_overlapped(const zr_plan *plan, zr_code code);

#endif
