// The loss scale of fp16 as DeepSpeed computes it: pure functions of a small state (reference:
// DynamicLossScaler).
//
// The engine multiplies the loss by `scale`, divides the reduced gradient by the same number, and
// calls zr_loss_scale_next once a step with what all ranks agree on. A growth or a shrink holds
// from the next step on.
#ifndef ZR_CONFIG_LOSS_SCALE_H
#define ZR_CONFIG_LOSS_SCALE_H

#include "base/errors.h"

// none: 1 throughout
typedef enum zr_scale_kind { ZR_SCALE_NONE, ZR_SCALE_STATIC, ZR_SCALE_DYNAMIC } zr_scale_kind;

typedef struct zr_loss_scale_spec {
    zr_scale_kind kind;
    double initial; // static: the scale; dynamic: 2^initial_scale_power
    double min_scale;
    int64_t window;
    int hysteresis;
    bool consecutive_hysteresis;
} zr_loss_scale_spec;

typedef struct zr_loss_scale { // all that a checkpoint has to keep
    double scale;
    // steps so far; the step of the last overflow, or the one before this scale began (-1)
    int64_t iteration, last_overflow;
    int hysteresis; // overflows that are still forgiven, and the one that is not
} zr_loss_scale;

zr_loss_scale zr_loss_scale_begin(const zr_loss_scale_spec *spec);

// What a training goes on with that was saved with `saved`. Only a dynamic scale that was saved by
// a dynamic one (`dynamic`) goes on, at least min_scale, with no more overflows to forgive than the
// specification says; every other scale is the specification's own, and a dynamic one counts its
// window from here.
zr_loss_scale zr_loss_scale_resume(const zr_loss_scale_spec *spec, const zr_loss_scale *saved,
                                   bool dynamic);

// After a step: overflow means that its gradient was not finite and the step was skipped.
// ZERO_ERR_DATA where a dynamic scale overflows at its minimum: the state is then unchanged.
zero_status zr_loss_scale_next(const zr_loss_scale_spec *spec, bool overflow, zr_loss_scale *state,
                               zero_error *error);

#endif
