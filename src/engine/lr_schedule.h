// Learning-rate schedules as DeepSpeed computes them: pure functions of one number, n.
//
// n is how many times the schedule has stepped, which is the 0-based number of the update it
// serves; a skipped update does not step it. So n is the whole state, and any update can be
// replayed. The engine calls these functions once per update.
#ifndef ZR_ENGINE_LR_SCHEDULE_H
#define ZR_ENGINE_LR_SCHEDULE_H

#include "config/optimizer_spec.h"

double zr_schedule_lr(const zr_lr_schedule *schedule, int64_t n);
// Computes beta1 and beta2 of update n. They are the optimizer's own (betas), except under OneCycle
// with cycle_momentum.
void zr_schedule_betas(const zr_lr_schedule *schedule, int64_t n, const double betas[2],
                       double out[2]);

#endif
