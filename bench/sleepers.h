// A model whose units do not compute but sleep, so that pipeline stages do not share cores.
#ifndef BENCH_SLEEPERS_H
#define BENCH_SLEEPERS_H

#include <zero/engine.h>
#include <zero/model.h>

enum { SLEEPERS_MOST = 16 };

typedef struct sleepers {
    long nap[SLEEPERS_MOST]; // nanoseconds of a unit's forward, and of each half of its backward
    zero_tensor_desc tensors[SLEEPERS_MOST];
    zero_flat_param_desc flat_params[SLEEPERS_MOST];
    zero_unit units[SLEEPERS_MOST];
    char names[SLEEPERS_MOST][2][8]; // of units and tensors
    zero_model model;
} sleepers;

// Makes a model of so many units. Samples are one float each, which nobody reads. The model points
// into *s, which therefore stays where it is.
void sleepers_make(sleepers *s, int units, const long *naps);
// Makes a step of so many micro-batches of one sample, at most SLEEPERS_MOST. Collective.
zero_status sleepers_step(zero_engine *engine, int micro_batches, zero_error *error);

#endif
