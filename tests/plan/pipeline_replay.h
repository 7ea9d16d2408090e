// Runs the programs of all pipeline stages together, without arithmetic: each stage goes through
// its list of actions until a link makes it wait for another one.
#ifndef TEST_PLAN_PIPELINE_REPLAY_H
#define TEST_PLAN_PIPELINE_REPLAY_H

#include "pipeline_fixture.h"

// Checks, over two windows and then three evaluations, that every stage gets to the end; that what
// comes through a link is what was asked for, in a slot that is free for it; and that everything
// that a call reads of its own micro-batch lies where the plan says, and was not written over by
// any other: inputs, what was saved and held, activation checkpoints, and gradients of boundaries.
// Where steps end without each other, every update finds the sums of all stages, or under pipedream
// its own.
// What does not lie in a set or among activation checkpoints is gone when its action ends.
void pipeline_check_replay(const pipeline_plans *stages);

#endif
