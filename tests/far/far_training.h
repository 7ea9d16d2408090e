// The trainings that the far device (far.h) is proven with, and what is checked of each run. A test
// that uses them links harness.c, far_training.c and far_words.c.
#ifndef TESTS_FAR_TRAINING_H
#define TESTS_FAR_TRAINING_H

#include "far.h"
#include "harness.h"

typedef struct far_case {
    const char *name;
    harness_case run;
} far_case;

// Of any stage and number of ranks.
extern const far_case far_plain_cases[];
extern const int far_plain_case_count;
// Of stages 1 and 3; each has its own number of ranks.
extern const far_case far_other_cases[];
extern const int far_other_case_count;

// Orders in which a device's queues may work; each keeps its rows.
typedef struct far_way {
    const char *name;
    far_options options;
} far_way;
enum { FAR_WAYS = 4 };
extern const far_way far_ways[FAR_WAYS];

enum { FAR_BATCH = 2 };
// Returns the case as it runs at a stage; ranks: 0: its own number.
harness_case far_case_at(const far_case *c, int stage, int ranks);

// Ends the device, and wants no race in the list of what was submitted (if it is kept), no
// violation, and nothing left over. `what` begins the messages.
void far_end_clean(const char *what);
// Runs a case on the far device as the options say, and wants the bits of `want`, no touch, no
// violation, no race in the list of what was submitted (if it is kept), nothing left over, and as
// many bytes held as planned. `what` begins the messages.
void far_train(const harness_case *c, const far_options *options, const harness_result *want,
               const char *what);

// Whether tests shall run whole: by the argument --all or the variable ZERO_TEST_FAR.
bool far_runs_all(int count, char **arguments);

#endif
