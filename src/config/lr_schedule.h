// Learning-rate schedules as DeepSpeed computes them: pure functions of one number, n.
//
// n is how many times the schedule has stepped, which is the 0-based number of the update it
// serves; a skipped update does not step it. So n is the whole state, and any update can be
// replayed. The engine calls these functions once per update.
#ifndef ZR_CONFIG_LR_SCHEDULE_H
#define ZR_CONFIG_LR_SCHEDULE_H

#include "base/errors.h"

typedef enum zr_lr_schedule_kind {
    ZR_SCHEDULE_CONSTANT, // no scheduler: the optimizer's lr throughout
    ZR_SCHEDULE_WARMUP,
    ZR_SCHEDULE_WARMUP_DECAY,
    ZR_SCHEDULE_WARMUP_COSINE,
    ZR_SCHEDULE_ONE_CYCLE,
    ZR_SCHEDULE_RANGE_TEST,
    ZR_SCHEDULE_COUNT
} zr_lr_schedule_kind;

typedef struct zr_lr_schedule {
    zr_lr_schedule_kind kind;
    double lr;             // the optimizer's own: the constant rate, and the top of the cosine
    double min_lr, max_lr; // warm-up and cycle use both, the range test min_lr
    int64_t warmup_steps;  // values below 2 count as 2
    int64_t total_steps;   // decay and cosine
    int warmup_linear;     // 0: logarithmic, 1: linear
    double warmup_min_ratio, cosine_min_ratio; // cosine: fractions of lr
    // Cosine: the program's own variant, which has no update at rate 0. The first rate is lr /
    // warmup_steps, and the warm-up ends at lr.
    bool from_one;
    int64_t first_steps, second_steps;   // one cycle: up, down
    int64_t first_stairs, second_stairs; // 0: continuous
    double decay_lr_rate, decay_momentum_rate;
    int64_t decay_steps; // after the cycle; 0: no decay
    bool cycle_momentum;
    double min_momentum, max_momentum; // of beta1
    int64_t range_steps;
    double range_rate;
    bool range_staircase;
} zr_lr_schedule;

// Returns "WarmupLR" and the like; "constant" if there is no scheduler.
const char *zr_schedule_name(zr_lr_schedule_kind kind);
// Returns -1 if no schedule has that name (case does not matter).
int zr_schedule_find(const char *name);

double zr_schedule_lr(const zr_lr_schedule *schedule, int64_t n);
// Computes beta1 and beta2 of update n. They are the optimizer's own (betas), except under OneCycle
// with cycle_momentum.
void zr_schedule_betas(const zr_lr_schedule *schedule, int64_t n, const double betas[2],
                       double out[2]);
// Returns the first update at which decay_momentum_rate takes beta1 to 1 or above, given that the
// bounds are below 1; INT64_MAX: none.
int64_t zr_schedule_momentum_leaves(const zr_lr_schedule *schedule);

#endif
