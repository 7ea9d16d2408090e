// The learning rate and the loss scale of a step as DeepSpeed computes them: pure functions.
//
// A schedule is a function of one number, n: how many times it has stepped, which is the 0-based
// number of the update it serves; a skipped update does not step it. So n is the whole state, and
// any update can be replayed. The engine calls these functions once per update.
//
// The loss scale of fp16 is a small state (reference: DynamicLossScaler). The engine multiplies the
// loss by `scale`, divides the reduced gradient by the same number, and calls zr_loss_scale_next
// once per step with the outcome that all ranks agree on. When the scale grows or shrinks, the next
// step is the first to use the new one.
#ifndef ZR_ENGINE_STEP_SCHEDULES_H
#define ZR_ENGINE_STEP_SCHEDULES_H

#include "config/optimizer_spec.h"

double zr_schedule_lr(const zr_lr_schedule *schedule, int64_t n);
// Computes beta1 and beta2 of update n. They are the optimizer's own (betas), except under OneCycle
// with cycle_momentum.
void zr_schedule_betas(const zr_lr_schedule *schedule, int64_t n, const double betas[2],
                       double out[2]);

typedef struct zr_loss_scale { // all that a checkpoint has to keep
    double scale;
    // Steps so far; the step of the last overflow. If there was none: the step before this scale
    // began (-1 in a new run).
    int64_t iteration, last_overflow;
    int hysteresis; // overflows still forgiven, plus the one that is not
} zr_loss_scale;

zr_loss_scale zr_loss_scale_begin(const zr_loss_scale_spec *spec);

// Returns the state with which a resumed training continues after `saved`. Only if both scales are
// dynamic (`dynamic` tells of the saved one) does the saved scale continue: at least min_scale, and
// with no more overflows to forgive than the specification says. Any other scale starts as the
// specification says, and a dynamic one counts its window from here.
zr_loss_scale zr_loss_scale_resume(const zr_loss_scale_spec *spec, const zr_loss_scale *saved,
                                   bool dynamic);

// Updates the state after a step; `overflow` means that the step's gradient was not finite and the
// step was skipped. Returns ZERO_ERR_DATA, with the state unchanged, if a dynamic scale overflows
// at its minimum.
zero_status zr_loss_scale_next(const zr_loss_scale_spec *spec, bool overflow, zr_loss_scale *state,
                               zero_error *error);

#endif
