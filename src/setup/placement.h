// "libzero": {"offload": "auto"}: where states lie is chosen, of all that the configuration leaves
// open, by what fits and by the least predicted time of a step (plan/predict.h).
//
//   stage x optimizer's tier x parameters' tier, each in the first of these forms that fits:
//       sub-groups of 1 Mi, 256 Ki, 64 Ki elements, whole operators; the same in tiles, from few to
//       many
#ifndef ZR_SETUP_PLACEMENT_H
#define ZR_SETUP_PLACEMENT_H

#include "base/alloc.h"
#include "model/architecture.h"
#include "plan/predict.h"
#include "setup/resolve.h"

enum { ZR_MOST_PLACEMENTS = 16 };

typedef struct zr_placement {
    int stage;
    zero_tier optimizer, parameters;
    int64_t sub_group; // elements; 0: as the configuration says
    int tiles;         // index of zr_tiling_choices
    bool fits;
    int64_t tiers[ZERO_TIER_COUNT]; // bytes of a rank
    zr_prediction step;
    char excess[256]; // !fits: what is too much, in the last form that was tried
} zr_placement;

typedef struct zr_placement_question {
    // What is placed: any model of this shape, in tiles where that helps; shape NULL: this model.
    const zr_lm_config *shape;
    const zero_model *model;
    const zr_config *config; // resolved, with libzero.offload auto
    zero_shape batch;        // of a micro-batch, with the threads of a rank
    zr_machine machine;      // its ranks and budgets
    int sharers;             // ranks that share the machine
    // whose ranks choose together; one rank of its own where others are only planned
    zero_comm *comm;
    const char *backend; // that the engine will have; NULL: cpu
    const zero_logger *logger;
    // What the machine reaches, where it is known; the disk's room is then machine.tier_limit's.
    // NULL: the machine is measured and the disk is asked.
    const zr_speed *speed;
} zr_placement_question;

typedef struct zr_placement_answer {
    int count, chosen; // chosen -1: nothing fits
    // what fits first, by the predicted step; then what does not, nearest tiers first
    zr_placement at[ZR_MOST_PLACEMENTS];
    bool with_disk; // NVMe was considered
    zr_speed speed; // that the predictions are made with
} zr_placement_answer;

// Collective. The same answer on every rank.
zero_status zr_placement_choose(const zr_placement_question *question, zr_placement_answer *out,
                                zero_error *error);
typedef struct zr_imagined_ranks { // of one machine, for zero plan
    int count;
    int64_t memory; // bytes of each; 0: a share of what this machine has
} zr_imagined_ranks;

// The same for an engine that these options would make. imagined NULL: of the ranks of
// options->comm.
// shape: as in the question; where there is one, options->model is not read.
zero_status zr_placement_of(const zero_options *options, const zr_imagined_ranks *imagined,
                            const zr_lm_config *shape, const zr_config *config,
                            zr_placement_answer *out, zero_error *error);
// Collective. Where the resolved configuration leaves it to the program: chooses, says it, and
// resolves the configuration anew, as `how` did. ZERO_ERR_LIMIT where nothing fits. On failure
// *config stays.
zero_status zr_placement_settle(const zr_resolution *how, const zero_options *options,
                                const zr_lm_config *shape, zr_config **config, zero_error *error);
// Writes the chosen placement over the configuration that `config` was resolved from (parsed, with
// the user's flags, not resolved), as values of the program's.
zero_status zr_placement_apply(const zr_placement *placement, const zr_config *resolved,
                               zr_config *parsed, zero_error *error);
// "stage 3, optimizer states on NVMe, parameters on the host, sub-groups of 65536"; the form only
// where it fits
void zr_placement_text(const zr_placement *placement, char *out, size_t size);
// What was chosen, its step and bottleneck, and what would be faster but does not fit.
void zr_placement_describe(const zr_placement_answer *answer, const char *separator,
                           zr_buffer *out);
// a separator: in line with the other lines before a first step
#define ZR_PLACEMENT_LINES "\n         "
void zr_placement_table(const zr_placement_answer *answer, zr_buffer *out);
void zr_placement_json(const zr_placement_answer *answer, zr_buffer *out);

#endif
