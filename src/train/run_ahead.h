// What a run has still to do, and how long that takes: steps at the pace that they have, and what
// comes between them.
#ifndef ZR_TRAIN_RUN_AHEAD_H
#define ZR_TRAIN_RUN_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

typedef struct zr_run_pace { // of the newest steps: a mean in which later ones count more
    double sum, weight;
    int64_t steps; // so far
    bool warm;     // the first steps, which warm up, count no more
} zr_run_pace;

// Adds a step. cold: it is one of those that warm up, which count until there are others.
void zr_run_pace_add(zr_run_pace *pace, double seconds, bool cold);
double zr_run_pace_step(
    const zr_run_pace *pace); // Returns the seconds of a step; 0: none was made.

typedef struct zr_run_item {
    int64_t count;
    double seconds; // of one; 0: unknown, and counts as nothing
} zr_run_item;

typedef struct zr_run_ahead {
    zr_run_item steps, micro_batches; // micro_batches: that a rank evaluates
    zr_run_item checkpoints, models, samples;
} zr_run_ahead;

// Returns the seconds of all that is ahead; 0: how long a step takes is unknown.
double zr_run_ahead_seconds(const zr_run_ahead *ahead);
// Returns how many multiples of `every` come after a step, up to the last; every <= 0: none.
int64_t zr_run_multiples(int64_t after, int64_t last, int64_t every);

#endif
