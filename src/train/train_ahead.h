// How long a training has still to go, and what it says of that.
#ifndef ZR_TRAIN_TRAIN_AHEAD_H
#define ZR_TRAIN_TRAIN_AHEAD_H

#include "train/train_parts.h"

typedef struct zr_train_between {     // what comes between steps
    int64_t eval_every, eval_batches; // steps; micro-batches of all ranks that are read, 0: all
} zr_train_between;
// Returns the seconds that the run has still to go after a step that it has made, at
// the pace of its steps, with all that comes between them and after them. Rank 0 calls it.
double zr_train_seconds_left(const zr_train *train, const zr_train_between *between, int64_t step);
// Say how long the whole run takes: before the first step, as predicted; after the first steps,
// once, if that was unknown or is off. Of ranks other than 0 they say nothing.
void zr_train_tell_length(zr_train *train, const zr_train_between *between);
void zr_train_correct_length(zr_train *train, const zr_train_between *between, int64_t step);

#endif
