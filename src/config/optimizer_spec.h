// Which optimizer runs, and with which numbers; its learning-rate schedule; the loss scale of fp16.
// compute/ has the formulas of optimizers, engine/ those of schedules and of the scale.
#ifndef ZR_CONFIG_OPTIMIZER_SPEC_H
#define ZR_CONFIG_OPTIMIZER_SPEC_H

#include "base/errors.h"

typedef enum zr_optimizer_kind {
    // Decay is separate from the gradient. DeepSpeed's "Adam" is this too, if adam_w_mode is true.
    ZR_OPTIMIZER_ADAMW,
    ZR_OPTIMIZER_ADAM_L2, // decay is added to the gradient
    ZR_OPTIMIZER_SGD,
    ZR_OPTIMIZER_ADAGRAD,
    ZR_OPTIMIZER_LION,
    ZR_OPTIMIZER_LAMB,
    ZR_OPTIMIZER_MUON,      // AdamW for what is no matrix (plan/muon.h)
    ZR_OPTIMIZER_ADAFACTOR, // as torch.optim.Adafactor
    ZR_OPTIMIZER_KINDS
} zr_optimizer_kind;

typedef struct zr_optimizer_spec {
    zr_optimizer_kind kind;
    double lr; // of the group; a schedule may replace it
    double beta1, beta2, eps;
    double weight_decay;
    double momentum, dampening;  // SGD; momentum: Muon
    bool nesterov;               // SGD, Muon
    bool bias_correction;        // Adam, LAMB, Muon: of the averages, which start at zero
    double muon_lr, adam_lr;     // Muon: of matrices; of the rest
    int ns_method;               // Muon's iteration: 0 standard, 1 gram
    int adjust_lr_fn;            // Muon: torch's 0 original, 1 match_rms_adamw
    double min_coeff, max_coeff; // LAMB: bounds of the trust ratio
    // Adafactor: the exponent of the averages' decay; the least root of an average (eps is the
    // least scale of a tensor); the largest root of the mean square of an update.
    double beta2_decay, least_root, clip;
    double ema_decay; // of an average of the weights; 0: there is none
    bool decay_all;   // false: weight decay only on tensors of two or more dimensions
} zr_optimizer_spec;

typedef struct zr_optimizer_traits {
    const char *name;           // as the table of keys spells it
    const char *states[2];      // names of the fp32 vectors kept for every element; NULL: none
    bool elementwise;           // false: an update needs norms of whole tensors
    zr_optimizer_spec standard; // DeepSpeed's and PyTorch's defaults
} zr_optimizer_traits;

const zr_optimizer_traits *zr_optimizer_traits_of(zr_optimizer_kind kind);
// Returns how many fp32 vectors per element this optimizer keeps in addition to the weights: 0 (SGD
// without momentum), 1 or 2.
int zr_optimizer_states(const zr_optimizer_spec *spec);

// Returns the rate of Muon's matrices, or of all else, where the schedule gives `lr`.
double zr_optimizer_rate(const zr_optimizer_spec *spec, bool matrices, double lr);

// Returns the kind called `name` ("adamw", in any case); -1 if it is unknown or not built.
int zr_optimizer_find(const char *name, bool adam_w_mode);

// A learning-rate schedule gives the rate of update n from n alone (engine/step_schedules.h).
typedef enum zr_lr_schedule_kind {
    ZR_SCHEDULE_CONSTANT, // no scheduler: the optimizer's lr throughout
    ZR_SCHEDULE_WARMUP,
    ZR_SCHEDULE_WARMUP_DECAY,
    ZR_SCHEDULE_WARMUP_COSINE,
    ZR_SCHEDULE_ONE_CYCLE,
    ZR_SCHEDULE_RANGE_TEST,
    // The program's own, libzero.schedule: a warm-up, a constant rate, a decay.
    ZR_SCHEDULE_OWN_CONSTANT, // without a decay
    ZR_SCHEDULE_OWN_LINEAR,   // without a constant rate
    ZR_SCHEDULE_OWN_COSINE,   // the same
    ZR_SCHEDULE_OWN_WSD,
    ZR_SCHEDULE_COUNT
} zr_lr_schedule_kind;

// What is left of the rate at part p of a decay.
typedef enum zr_decay_shape {
    ZR_SHAPE_LINEAR, // 1 - p
    ZR_SHAPE_COSINE, // (1 + cos(pi p)) / 2
    ZR_SHAPE_ROOT,   // 1 - sqrt(p)
} zr_decay_shape;

typedef struct zr_lr_schedule {
    zr_lr_schedule_kind kind;
    double lr;             // the optimizer's own: the constant rate, and the top of the cosine
    double min_lr, max_lr; // warm-up and cycle use both, the range test min_lr
    int64_t warmup_steps;  // values below 2 count as 2 (own: below 1 as 1)
    int64_t total_steps;   // decay, cosine, own
    int warmup_linear;     // 0: logarithmic, 1: linear
    double warmup_min_ratio, cosine_min_ratio; // cosine: fractions of lr
    // Cosine: the program's own variant, which has no update at rate 0. The first rate is lr /
    // warmup_steps, and the warm-up ends at lr.
    bool from_one;
    int64_t first_steps, second_steps;   // one cycle: up, down
    int64_t first_stairs, second_stairs; // 0: continuous
    double decay_lr_rate, decay_momentum_rate;
    int64_t decay_steps; // of one decay after the cycle; own: at the end of the run; 0: no decay
    bool cycle_momentum;
    double min_momentum, max_momentum; // of beta1
    int64_t range_steps;
    double range_rate;
    bool range_staircase;
    int decay_shape;     // own: of zr_decay_shape
    double min_lr_ratio; // own: part of lr at the end of the decay
} zr_lr_schedule;

// Returns "WarmupLR", "wsd" and the like; "constant" if there is no scheduler.
const char *zr_schedule_name(zr_lr_schedule_kind kind);
// Returns -1 if no schedule has that name (case does not matter).
int zr_schedule_find(const char *name);
// Returns whether it is one of the program's own, which libzero.schedule names.
static inline bool zr_schedule_is_own(zr_lr_schedule_kind kind)
{
    return kind >= ZR_SCHEDULE_OWN_CONSTANT && kind <= ZR_SCHEDULE_OWN_WSD;
}
// Returns n at the end of a one cycle schedule's cycle.
double zr_schedule_cycle_length(const zr_lr_schedule *schedule);
// Returns 1 + rate x the number of decays between the end of the cycle and n.
double zr_schedule_decay_factor(const zr_lr_schedule *schedule, double n, double rate);
// Returns the first update at which decay_momentum_rate takes beta1 to 1 or above, given that the
// bounds are below 1; INT64_MAX if there is none.
int64_t zr_schedule_momentum_leaves(const zr_lr_schedule *schedule);

// ZR_SCALE_NONE: the scale is always 1.
typedef enum zr_scale_kind { ZR_SCALE_NONE, ZR_SCALE_STATIC, ZR_SCALE_DYNAMIC } zr_scale_kind;

typedef struct zr_loss_scale_spec {
    zr_scale_kind kind;
    double initial; // static: the scale; dynamic: 2^initial_scale_power
    double min_scale;
    int64_t window;
    int hysteresis;
    bool consecutive_hysteresis;
} zr_loss_scale_spec;

#endif
