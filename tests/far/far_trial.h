// Trains on the far device in a child process, in which anything may go wrong.
#ifndef TESTS_FAR_TRIAL_H
#define TESTS_FAR_TRIAL_H

#include "far_training.h"

// What is looked at first comes first: a child that touched what it must not has told nothing else.
typedef enum far_outcome {
    FAR_SAME, // nothing went wrong
    FAR_TOUCH_MESSAGE,
    FAR_RANK_FAILED,
    FAR_VIOLATION,
    FAR_RACE,
    FAR_OTHER_BITS,
    FAR_ENDED, // in another way, by a signal
} far_outcome;

typedef struct far_trial {
    far_outcome outcome;
    char said[8192]; // on stderr: the message of the touch, rank, violation or race
} far_trial;

const char *far_outcome_name(far_outcome outcome);
// Runs the case as far_train does. `want` may be NULL: bits are not looked at.
void far_try(const harness_case *c, const far_options *options, const harness_result *want,
             far_trial *out);

#endif
