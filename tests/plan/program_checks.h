// What holds for the program of any plan, whatever emitter has written it.
#ifndef TEST_PLAN_PROGRAM_CHECKS_H
#define TEST_PLAN_PROGRAM_CHECKS_H

#include "plan/full_plan.h"

typedef void (*program_check)(const zr_plan *plan);

// Over stages, types, tiers, checkpoints and numbers of ranks, of models whole and streamed.
void program_for_all(program_check check);

// No two places overlap while both are needed, and the windows are as large as the places need.
void program_check_lives(const zr_plan *plan);
// What is begun is awaited; what units read and add to is there.
void program_check_replay(const zr_plan *plan);
// What peers read, shards and contributions in a window, is not written over before they have
// drained it.
void program_check_readers(const zr_plan *plan);
// Forward of every unit once, then backward of every unit, last first; the seam lies between them.
void program_check_calls(const zr_plan *plan);

// Calls of a micro-batch that run while an exchange is under way: ZR_GATHER or ZR_REDUCE.
int program_calls_beside(const zr_plan *plan, zr_code code);

#endif
