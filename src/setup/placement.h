// "libzero": {"offload": "auto"}: chooses where states lie, among all that the configuration leaves
// open, by what fits and by the shortest predicted time of a step (predict/forecast.h).
//
//   stage x optimizer's tier x parameters' tier, each in the first of these forms that fits:
//       whole operators, with sub-groups as configured (on NVMe at most 1 Mi elements), then of
//       256 Ki, then of 64 Ki; then the same with operators in tiles, from few to many
#ifndef ZR_SETUP_PLACEMENT_H
#define ZR_SETUP_PLACEMENT_H

#include "base/alloc.h"
#include "base/report.h"
#include "model/architecture.h"
#include "setup/estimate.h"
#include "setup/resolve.h"

enum { ZR_MOST_PLACEMENTS = 16 };

enum { ZR_SUB_GROUPS = 2 };
// Elements of the sub-groups that are tried, where states travel to and from NVMe, next to what the
// configuration says.
extern const int64_t zr_sub_groups[ZR_SUB_GROUPS];

typedef struct zr_placement {
    int stage;
    zero_tier optimizer, parameters;
    int64_t sub_group; // elements; 0: as the configuration says
    int tiles;         // index of zr_tilings
    bool fits;
    int64_t tiers[ZERO_TIER_COUNT]; // bytes of a rank
    zr_forecast step;
    char excess[288]; // if not `fits`: what is too much, in the last form tried
} zr_placement;

typedef struct zr_placement_question {
    // What is placed. Its configuration is resolved, with libzero.offload auto; a model of a shape
    // gets tiles if that helps.
    zr_estimate_question run;
    // The ranks that choose together; a rank by itself if the others are only planned.
    zero_comm *comm;
    const zero_logger *logger;
    // What is known of the machine; NULL: what the user's file says. The disk's room is then in
    // run.machine.tier_limit; else the free space of the disk counts.
    const zr_rate_book *book;
} zr_placement_question;

typedef struct zr_placement_answer {
    int count, chosen; // chosen -1: nothing fits
    // First what fits, by the predicted step; then what does not, nearest tiers first.
    zr_placement at[ZR_MOST_PLACEMENTS];
    bool with_disk; // NVMe was considered
} zr_placement_answer;

// Chooses among the placements that fit. Collective; every rank gets the same answer.
zero_status zr_placement_choose(const zr_placement_question *question, zr_placement_answer *out,
                                zero_error *error);
typedef struct zr_imagined_ranks { // ranks of one machine, for zero plan
    int count;
    int64_t memory; // bytes of each; 0: its share of what this machine has
} zr_imagined_ranks;

// Does the same for the engine that these options would make. imagined NULL: with the ranks of
// options->comm. `shape` is as in the question; if it is given, options->model is not read.
zero_status zr_placement_of_options(const zero_options *options, const zr_imagined_ranks *imagined,
                                    const zr_lm_config *shape, const zr_config *config,
                                    zr_placement_answer *out, zero_error *error);
// If the resolved configuration leaves the placement to the program: chooses it, reports it, and
// resolves the configuration again, as `how` did. Collective. Returns ZERO_ERR_LIMIT if nothing
// fits. On failure *config is unchanged.
zero_status zr_placement_settle(const zr_resolution *how, const zero_options *options,
                                const zr_lm_config *shape, zr_config **config, zero_error *error);
// Writes the chosen placement, as the program's values, into `parsed`: the configuration from which
// `resolved` was made, with the user's flags but not resolved itself.
zero_status zr_placement_apply(const zr_placement *placement, const zr_config *resolved,
                               zr_config *parsed, zero_error *error);
// Writes "stage 3, optimizer states on NVMe, parameters on the host, sub-groups of 65536"; the
// sub-groups and tiles are left out if it does not fit.
void zr_placement_text(const zr_placement *placement, char *out, size_t size);
// Writes what was chosen, its step and bottleneck, and what would be faster but does not fit.
void zr_placement_describe(const zr_placement_answer *answer, const char *separator,
                           zr_buffer *out);
// A separator that aligns with the other lines before a first step.
#define ZR_PLACEMENT_LINES "\n         "
void zr_placement_table(const zr_placement_answer *answer, int width, zr_buffer *out);
void zr_placement_json(const zr_placement_answer *answer, zr_json_writer *w);

#endif
