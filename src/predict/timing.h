// How long a piece of work takes when several ranks do it at the same time: the clock of all
// measurements.
#ifndef ZR_PREDICT_TIMING_H
#define ZR_PREDICT_TIMING_H

#include "comm/communicator.h"

typedef struct zr_meter { // which ranks measure together, and how
    zero_comm *comm;
    int threads;    // of each rank
    double seconds; // per figure, approximately
} zr_meter;

typedef zero_status (*zr_timed_work)(void *user, zero_error *error);

// Measures the mean seconds of one call of `work` on the slowest rank, over about meter->seconds.
// Collective: all ranks make the same number of calls.
zero_status zr_meter_time(const zr_meter *meter, zr_timed_work work, void *user, double *seconds,
                          zero_error *error);

#endif
