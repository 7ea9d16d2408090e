// How long the rest of a run takes: its steps at the pace of those that were made, and what comes
// between steps. Pure.
#ifndef ZR_TRAIN_TIME_LEFT_H
#define ZR_TRAIN_TIME_LEFT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct zr_run_pace { // of the newest steps: a mean in which later ones count more
    double sum, weight;
    int64_t steps; // so far
    bool warm;     // the first steps, which warm up, count no more
} zr_run_pace;

// Adds a step. cold: it is one of those that warm up, which count until there are others.
void zr_run_pace_add(zr_run_pace *pace, double seconds, bool cold);
// Returns the seconds of a step; 0 before the first one.
double zr_run_pace_step(const zr_run_pace *pace);

typedef struct zr_work_item {
    int64_t count;
    double seconds; // of one; 0 if unknown, which adds nothing
} zr_work_item;

typedef struct zr_work_left {
    zr_work_item steps, micro_batches; // micro_batches: that a rank evaluates
    zr_work_item checkpoints, models, samples;
} zr_work_left;

// Returns the seconds of all the work; 0 if those of a step are unknown.
double zr_work_left_seconds(const zr_work_left *work);
// Returns how many multiples of `every` come after a step, up to the last; 0 if every <= 0.
int64_t zr_run_multiples(int64_t after, int64_t last, int64_t every);

#endif
