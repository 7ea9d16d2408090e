// What zero tune chooses among: every way to run a training that the configuration leaves open. The
// space lists what is open. The search lists candidates, has each of them judged (planned, and
// predicted if possible), and varies those that are good or nearly fit.
//
//   ranks x threads, tensor x pipeline x data, schedule, stage, micro-batch x accumulation: all
//   activation checkpoints, tiers, sub-groups, delayed update, tiles: of the best of each grid, and
//   of what does not fit without them
//
// The search neither plans nor measures: the judge finds what a candidate costs.
#ifndef ZR_TUNE_CANDIDATES_H
#define ZR_TUNE_CANDIDATES_H

#include "config/pipeline_spec.h"
#include "predict/forecast.h"
#include <zero/memory.h>

typedef enum zr_candidate_state {
    ZR_CANDIDATE_UNJUDGED,
    ZR_CANDIDATE_REFUSED,   // it cannot be planned
    ZR_CANDIDATE_TOO_LARGE, // it does not fit
    ZR_CANDIDATE_FITS,
} zr_candidate_state;

typedef enum zr_tuning_metric { // what is to be best
    ZR_METRIC_THROUGHPUT,       // tokens a second
    ZR_METRIC_LATENCY,          // seconds of a step
    ZR_METRIC_FLOPS,            // FLOPs a second
} zr_tuning_metric;

typedef struct zr_run_candidate {
    int ranks, threads;        // of the job, of a rank
    int tensor, stages;        // tensor ranks, pipeline stages
    zr_pipeline_kind schedule; // of a pipeline
    int chunks;                // of each pipeline stage
    int64_t stage;
    int64_t micro_batch, accumulation;
    int64_t checkpoints;             // activation checkpoints' segments; 0: everything is kept
    zero_tier optimizer, parameters; // where they lie
    int64_t sub_group;               // elements; 0: as the configuration says
    int tiling;                      // index of zr_tilings
    bool delayed;                    // updates are
    // What the judge found:
    zr_candidate_state state;
    char why[288];    // refused or too large: what is wrong, or too much
    int64_t memory;   // bytes of the largest rank
    int64_t tokens;   // of a step
    zr_forecast step; // zeroed: nothing is known
} zr_run_candidate;

enum { ZR_SPACE_MOST = 24 };            // values of a list
enum { ZR_SPACE_MOST_BATCH = 1 << 30 }; // samples of a step

typedef struct zr_space_list {
    int64_t at[ZR_SPACE_MOST]; // (count)
    int count;
} zr_space_list;

typedef struct zr_tuning_space { // what is open; a list of one value is not
    zr_space_list ranks;         // of the job
    int cores;                   // of the machine, which the ranks share
    int threads;                 // of a rank; 0: its share of the cores
    zr_space_list tensor, pipeline, stages;
    zr_space_list schedules; // zr_pipeline_kind
    int chunks;              // of an interleaved schedule
    zr_space_list batches;   // samples of a step
    // Micro-batches that may be used. If empty: the divisors of a data rank's share from least to
    // most, or `micro_batch_count` of them, evenly spread (0: ZR_SPACE_MOST).
    zr_space_list micro_batches;
    int64_t least_micro_batch, most_micro_batch; // most 0: no limit
    int micro_batch_count;
    int64_t accumulation; // as the user has set it; 0: it follows from the rest
    bool batch_follows;   // it is micro-batch x accumulation x data ranks; `batches` is not read
    // What else may be varied, in addition to the configuration's value.
    bool vary_checkpoints, vary_optimizer, vary_parameters, vary_sub_group, vary_delayed,
        vary_tiles;
    bool budgets;             // a device's memory is limited apart from the host's
    bool nvme;                // a directory on NVMe is named
    int64_t checkpoints;      // the usual number of segments
    zr_run_candidate as_said; // the configuration's values of what may be varied
    int tilings;              // of zr_tilings that may be tried
    int most;                 // candidates to judge; 0: no limit
    zr_tuning_metric metric;  // by which the best of a grid are found
} zr_tuning_space;

// Judges a candidate: fills in its state and what follows. An error ends the search.
typedef struct zr_candidate_judge {
    zero_status (*judge)(void *user, zr_run_candidate *candidate, zero_error *error);
    void *user;
} zr_candidate_judge;

typedef struct zr_candidates {
    zr_run_candidate *at; // (count)
    int count, capacity;
    int left; // that were not judged, because there are too many
} zr_candidates;

// Fills *out, which the caller frees with zr_candidates_free, also after an error. They are in the
// order in which they were listed: grid, stage, batch, micro-batch, variations.
zero_status zr_candidates_search(const zr_tuning_space *space, const zr_candidate_judge *judge,
                                 zr_candidates *out, zero_error *error);
void zr_candidates_free(zr_candidates *candidates);

// Returns the cost of a step of `seconds`: seconds a token, so that candidates of different batches
// compare; with the metric latency, seconds of the step.
double zr_candidate_cost_at(const zr_run_candidate *candidate, zr_tuning_metric metric,
                            double seconds);
// Returns the cost of its predicted step; INFINITY if unknown.
double zr_candidate_cost(const zr_run_candidate *candidate, zr_tuning_metric metric);
// Returns whether some of its states move to the device and back in sub-groups: from NVMe, or from
// the host if the device's memory is limited.
bool zr_candidate_travels(const zr_run_candidate *candidate, bool budgets);
// Returns whether two candidates are the same run.
bool zr_candidate_is_same(const zr_run_candidate *a, const zr_run_candidate *b);
// Describes it in few words: "2 x 1, stage 2, micro-batch 4 x 3, checkpoints 4".
void zr_candidate_text(const zr_run_candidate *candidate, char *out, size_t size);

#endif
