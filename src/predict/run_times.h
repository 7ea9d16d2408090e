// How long a run took, as a whole and by part, compared with what was predicted, and how much it
// computed. It is logged at the end, and written to OUT/times.json:
//
//   [{"first_step": 0, "steps": 40, "setting": {"path": "avx2", "dtype": "f32", "threads": 1,
//     "together": 2, "ranks": 2}, "seconds": 12.3, "step": {"measured", "median", "spread",
//     "interrupted", "quiet", "predicted", "low", "high"}, "parts": {"compute": {"measured",
//     "predicted"}, ...}, "start": 0.2, "rest": 0.1, "flops", "flops_per_second", "product_rate",
//     "share"}, ...]
//
// with one object for each time that the run was started, oldest first. Seconds of compute,
// exchange, update and disk are a step's, those of the other parts the run's:
// steps * step.measured + start + data + evaluation + saving + generation + rest = seconds.
// "to_first_step": {"measured", "predicted"} comes before these. What is unknown is null.
#ifndef ZR_PREDICT_RUN_TIMES_H
#define ZR_PREDICT_RUN_TIMES_H

#include "predict/rates.h"

enum { ZR_RECENT_CALLS = 128 };

// The clock of one rank: every moment of a run belongs to a part, or to the rest.
typedef struct zr_run_clock {
    double began, since;               // zr_clock_seconds
    zr_time_part now;                  // ZR_TIME_COMPUTE: a step is under way
    double seconds[ZR_TIME_PARTS + 1]; // of steps, under ZR_TIME_COMPUTE; of the rest, last
    int64_t calls, steps;              // calls that made the steps: one each, or windows
    int64_t cold_calls, cold_steps;    // of the first calls, which warm up
    double cold_seconds;
    double counted;                 // of the steps' seconds, those of the calls so far
    double recent[ZR_RECENT_CALLS]; // seconds of a step in the newest warm calls: a ring
} zr_run_clock;

#define ZR_TIME_REST ZR_TIME_PARTS

void zr_run_clock_start(zr_run_clock *clock);
// Moves seconds of one part to another, or to the rest.
void zr_run_clock_move(zr_run_clock *clock, zr_time_part from, zr_time_part to, double seconds);
// Counts the time from now on for that part, or for the rest. Returns the part before.
zr_time_part zr_run_clock_turn(zr_run_clock *clock, zr_time_part to);
// Ends a call that made `steps` steps; the time from now on counts for the rest.
void zr_run_clock_end_steps(zr_run_clock *clock, int64_t steps);
// Returns the mean seconds of a step after the first ones, or of the first ones if there are no
// others.
double zr_run_clock_step(const zr_run_clock *clock);
// Returns the median seconds of a step in the newest warm calls, and how much their times differ:
// the distance of their quartiles, as a part of the median. If there are none: the mean, and 0.
double zr_run_clock_median(const zr_run_clock *clock, double *spread);
int64_t zr_run_clock_warm_steps(const zr_run_clock *clock);

typedef struct zr_run_times {
    zr_rate_setting setting;
    int ranks;
    int64_t first_step, steps; // made before this start; by it
    double to_first;           // seconds until the first step; those below come after them
    double predicted_to_first; // 0 if it was not predicted
    double seconds;            // in all
    double start;              // what the first steps took more than as many later ones
    double rest;
    // Of a step: compute, exchange, update, disk; of the run: data, evaluation, saving,
    // generation. Seconds; 0 of all of a step's parts: unknown.
    double measured[ZR_TIME_PARTS];
    double predicted[ZR_TIME_PARTS];  // 0 if not predicted
    double step;                      // measured seconds of one: the mean
    double median, spread;            // zr_run_clock_median
    double quiet;                     // zr_turns_quiet of the run
    double interrupted;               // zr_measured_interrupted
    double predicted_step, low, high; // 0 if not predicted
    double flops;                     // of a step and all ranks: zr_flops_of_token
    bool adapts;                      // what trains are adapters
    double product_rate;              // FLOP/s of the best products of all ranks; 0: unknown
} zr_run_times;

// Takes over a clock that has been stopped: totals, steps, and the parts of the run.
void zr_run_times_take(zr_run_times *times, const zr_run_clock *clock);
// Divides a step among compute, exchange, update and disk, in proportion to what records say.
void zr_run_times_divide(zr_run_times *times, const double recorded[ZR_TIME_PARTS]);
// Returns the share of the best product rate that the run's FLOPs reached; 0: unknown.
double zr_run_times_share(const zr_run_times *times);
// Writes lines for people, each with the name that lines of a run begin with.
void zr_run_times_text(const zr_run_times *times, zr_buffer *out);
// Appends the run to the file `path`, durably. A file that is damaged is replaced, with a
// warning. ZERO_ERR_IO, ZERO_ERR_MEMORY.
zero_status zr_run_times_write(const zr_run_times *times, const char *path,
                               const zero_logger *logger, zero_error *error);

// How long the rest of a run takes: its steps at the pace of those that were made, and what comes
// between them.
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
