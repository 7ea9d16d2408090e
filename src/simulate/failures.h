// What failures cost: how often to save, and which part of the time trains. Pure.
//
// Failures come at random, independent of the past, at one a `mtbf` seconds of the whole machine
// (that of a node divided by the nodes). After one, everything starts again from the last
// checkpoint that is complete, which takes `restart` seconds; a failure meanwhile starts it again.
//
// Saving stops training for `blocked` seconds. If it is asynchronous, what was copied in that time
// is written during another `behind` seconds of training, and only then counts. One checkpoint is
// written at a time. With the rate of failures f = 1 / mtbf, an interval t of training between two
// checkpoints, and L = t + blocked, the part of the time that makes progress is
//
//   goodput(t) = f t exp(-f (restart + behind)) / (exp(f L) - 1)
//
// which is exact for this process: attempts at a segment of length L are a Markov chain whose
// rewards are the segments that became durable. Its maximum lies where
//   f t = 1 - exp(-f L),  i.e.  (1 - f t) exp(f L) = 1
// Young (1974) is its first approximation, sqrt(2 blocked mtbf), and Daly (2006) a better one.
#ifndef ZR_SIMULATE_FAILURES_H
#define ZR_SIMULATE_FAILURES_H

#include "base/errors.h"

typedef struct zr_sim_failures { // seconds
    double mtbf;                 // of the whole machine, above 0
    double blocked, behind;      // see above; behind 0: checkpoints are synchronous
    double restart;
} zr_sim_failures;

typedef struct zr_sim_survival {
    double interval; // seconds of training between two checkpoints, the best
    double goodput;  // with it: the part of the time that makes progress, 0 to 1
    double young;    // seconds, by Young's formula, for comparison
} zr_sim_survival;

// Returns the goodput of an interval (above 0).
double zr_sim_goodput(const zr_sim_failures *failures, double interval);
// Finds the best interval. ZERO_ERR_USAGE, with the numbers: failures are so frequent that no
// interval is ever finished.
zero_status zr_sim_survive(const zr_sim_failures *failures, zr_sim_survival *out,
                           zero_error *error);

#endif
