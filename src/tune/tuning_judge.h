// Judges candidates by estimates: whether they can be planned, whether they fit, what they hold
// and how long a step takes. What the book of rates knows too little of is measured, for so long.
#ifndef ZR_TUNE_TUNING_JUDGE_H
#define ZR_TUNE_TUNING_JUDGE_H

#include "compute/compute.h"
#include "tune/tuning_settings.h"

enum { ZR_JUDGE_QUEUES = ZR_SPACE_MOST };
// A prediction more of whose time than this is a guess is no ground for a choice.
#define ZR_JUDGE_UNKNOWN 0.2

typedef struct zr_tuning_judge {
    const zr_tuning_asked *asked;
    zr_rate_book book;
    double measuring; // seconds that measuring may still take
    double until;     // zr_clock_seconds after which no more than a few are judged
    int64_t memory;   // bytes of this machine
    int judged, measured;
    zr_queue *queues[ZR_JUDGE_QUEUES]; // (queue_count) by the threads of a rank
    int queue_count;
} zr_tuning_judge;

// Reads the book. Freed with zr_tuning_judge_close.
void zr_tuning_judge_open(const zr_tuning_asked *asked, zr_tuning_judge *out);
void zr_tuning_judge_close(zr_tuning_judge *judge);

// zr_candidate_judge.judge; `user` is a zr_tuning_judge. A candidate that cannot be planned is
// refused, with the planner's reason. ZERO_ERR_MEMORY, ZERO_ERR_CANCELLED.
zero_status zr_tuning_judge_one(void *user, zr_run_candidate *candidate, zero_error *error);

#endif
