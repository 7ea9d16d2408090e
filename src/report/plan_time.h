// How long the steps of planned rows take on this machine, as far as it has cores for their ranks
// and is known (setup/estimate.h).
#ifndef ZR_REPORT_PLAN_TIME_H
#define ZR_REPORT_PLAN_TIME_H

#include "base/clock.h"
#include "report/planner.h"
#include "setup/estimate.h"

typedef struct zr_plan_time { // what the rows of a plan are predicted with
    zr_rate_book book;
    bool known; // something is known of this machine
    int cores;
    zr_busy busy; // with other programs, for as many threads as there are cores
} zr_plan_time;

// Reads what is known of this machine, and, if options->predict asks for it, measures what the
// plan's configuration needs and is not known. The caller frees *out with zr_plan_time_close.
zero_status zr_plan_time_open(const zr_planner *p, zr_plan_time *out, zero_error *error);
void zr_plan_time_close(zr_plan_time *time);
// Predicts a row's step and what comes besides; both stay zeroed if this machine has too few cores
// for its ranks, if they exchange over a network that nobody has measured, or if nothing is known.
// A failure is a warning.
void zr_plan_time_of(const zr_planner *p, const zr_plan_point *at, zr_estimate *estimate,
                     zr_plan_row *row);

// Writes the prediction of a row in words, or why there is none.
void zr_plan_time_text(const zr_planner *p, const zr_plan_row *row, zr_buffer *out);

#endif
