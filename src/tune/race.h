// A race among candidates (as in F-Race, Birattari et al. 2002): each is measured once a round, so
// that changes of the machine affect all of them. A candidate that is slower beyond doubt leaves
// the race. It ends when one is left, when there is no time, or after the allowed trials.
#ifndef ZR_TUNE_RACE_H
#define ZR_TUNE_RACE_H

#include "base/errors.h"

enum { ZR_RACE_LANES = 64, ZR_RACE_ROUNDS = 8 };

typedef struct zr_race_lane {     // one candidate
    double costs[ZR_RACE_ROUNDS]; // (trials) as measured; less is better
    int trials;                   // that were of use
    bool failed;                  // its last one did, and it has no more; earlier ones count
    bool parted;                  // it is slower than the best beyond doubt
    double cost;                  // median of its trials
    double low, high;             // within which it lies, as far as its trials tell
} zr_race_lane;

typedef struct zr_race {
    zr_race_lane lanes[ZR_RACE_LANES]; // (count) in the order in which they are measured
    int count;
    int most_trials;    // of all lanes
    int early_stopping; // trials of the first round without a better one, after which it ends
    // Runs a trial of a lane, whose *failed it sets if it is of no use. An error ends the race.
    zero_status (*run)(void *user, int lane, double *cost, bool *failed, zero_error *error);
    bool (*has_time)(void *user);
    void *user;
    int trials; // made
} zr_race;

// Runs it. Returns the lane with the least cost in *best; -1 if none was measured.
zero_status zr_race_run(zr_race *race, int *best, zero_error *error);
// Returns the lane with the least cost except `but`; -1 if there is none.
int zr_race_best(const zr_race *race, int but);

#endif
