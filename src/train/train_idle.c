// Steps without any target: their windows are all prompt.
#include "train/training.h"

#include <math.h>

void zr_train_judge_loss(zr_train *train, zero_step_info *info)
{
    if (!train->subject.data.masked || info->loss != 0 || info->grad_norm != 0)
        return;
    info->loss = NAN;
    train->run.idle_steps++;
}

void zr_train_warn_idle(const zr_train *train, int64_t steps)
{
    if (train->run.idle_steps)
        zr_log(&train->logger, ZERO_LOG_WARNING,
               "%lld of %lld steps had no target and learnt nothing: their windows were all prompt "
               "(a larger --seq, or shorter prompts)",
               (long long)train->run.idle_steps, (long long)steps);
}
