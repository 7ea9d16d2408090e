// What a training makes of a step that went wrong: a loss that is not finite ends it, and a
// skipped update, an exploding loss, or steps without any target are logged.
#include "comm/agreement.h"
#include "engine/engine_api.h"
#include "train/training.h"

#include <math.h>
#include <stdio.h>

// A training diverges if its loss is this many times that of the first step.
enum { LOST = 100 };

static zero_status refuse_nonfinite(const zr_train *train, const zero_step_info *info,
                                    zero_error *error)
{
    char name[256];
    ZERO_TRY(zr_engine_find_nonfinite(train->run.engine, name, sizeof name, error));
    zr_fail(error, ZERO_ERR_NONFINITE,
            "step %lld: the loss is %f; the first that is not finite: %s. A lower learning rate "
            "(now %.3g) or gradient_clipping may help",
            (long long)info->step, info->loss, name, info->lr);
    return zr_comm_agree(train->comm, ZERO_ERR_NONFINITE, error);
}

// Warns of a skipped step. A dynamic loss scale is found by overflows, so the first steps that it
// skips are normal.
// last: the gradients of this step are still there.
static zero_status report_skip(const zr_train *train, const zero_step_info *info, bool last,
                               zero_error *error)
{
    char name[256] = "no longer known", scale[64] = "";
    bool alone = zr_plan_schedule(zr_engine_plan(train->run.engine)) == ZR_PIPELINE_PIPEDREAM;
    if (last)
        ZERO_TRY(zr_engine_find_nonfinite(train->run.engine, name, sizeof name, error));
    if (info->loss_scale > 0)
        snprintf(scale, sizeof scale, " at loss scale %g (next: %g)", info->loss_scale,
                 zr_engine_progress(train->run.engine).scale.scale);
    zr_log(
        &train->logger, ZERO_LOG_WARNING,
        "step %lld: the norm of the gradient is not finite%s: this update is skipped%s; the first "
        "tensor that is not finite: %s",
        (long long)info->step, scale, alone ? ", on the pipeline stages whose own norm is not" : "",
        name);
    return ZERO_OK;
}

// Warns once of a loss that has left the range of losses. One below 1 may well be 100 times as
// large for another text.
static void warn_of_growth(zr_train *train, const zero_step_info *info)
{
    zr_train_run *run = &train->run;
    if (!run->has_first_loss)
        run->first_loss = info->loss;
    run->has_first_loss = true;
    if (run->diverges || info->loss < LOST * fmax(run->first_loss, 1))
        return;
    run->diverges = true;
    zr_log(&train->logger, ZERO_LOG_WARNING,
           "step %lld: the loss is %.3g, that of the first step was %.3g: this training diverges; "
           "a lower learning rate (now %.3g, --lr), a longer warm-up or gradient_clipping may help",
           (long long)info->step, info->loss, run->first_loss, info->lr);
}

zero_status zr_train_check_step(zr_train *train, const zero_step_info *info, bool last,
                                zero_error *error)
{
    if (!isfinite(info->loss))
        return refuse_nonfinite(train, info, error);
    warn_of_growth(train, info);
    if (info->updated) // the update waited for everything that was being written
        ZERO_TRY(zr_train_end_checkpoint(train, error));
    return info->skipped ? report_skip(train, info, last, error) : ZERO_OK;
}

void zr_train_mark_idle_step(zr_train *train, zero_step_info *info)
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
