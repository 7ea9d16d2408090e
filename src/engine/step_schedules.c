// DeepSpeed's schedules, written in its order of operations so that the values agree to the last
// bit or two, and schedules of our own; and dynamic loss scaling, whose tests are in DeepSpeed's
// order, so that every scale agrees with its.
#include "engine/step_schedules.h"

#include <inttypes.h>
#include <math.h>

static double warmup_length(const zr_lr_schedule *s) { return (double)ZR_MAX(s->warmup_steps, 2); }

// Grows from 0 to 1 over 0 <= t < warmup_length.
static double warmup_part(const zr_lr_schedule *s, double t)
{
    double length = warmup_length(s);
    return s->warmup_linear ? t / length : 1.0 / log(length) * log(t + 1);
}

static double warmup_then(const zr_lr_schedule *s, double t, double after)
{
    if (t < 0)
        return s->min_lr;
    double part = t < warmup_length(s) ? warmup_part(s, t) : after;
    return s->min_lr + (s->max_lr - s->min_lr) * part;
}

static double decayed_part(const zr_lr_schedule *s, double t)
{
    double total = (double)s->total_steps;
    return fmax(0.0, (total - t) / fmax(1.0, total - warmup_length(s)));
}

static double cosine_lr(const zr_lr_schedule *s, double t)
{
    double length = warmup_length(s);
    if (t < 0)
        return 0;
    if (t < length)
        return s->lr * (s->warmup_min_ratio + warmup_part(s, t) * (1.0 - s->warmup_min_ratio));
    double progress = fmin(1.0, (t - length + 1) / fmax(1.0, (double)s->total_steps - length));
    double part = (1 + cos(M_PI * progress)) / 2;
    return s->lr * fmax(0.0, s->cosine_min_ratio + (1.0 - s->cosine_min_ratio) * part);
}

// The program's own schedule: update t = 1, 2, ... of the warm-up has t / length of the rate, and
// the last update of the run has the smallest rate.
static double cosine_from_one(const zr_lr_schedule *s, double t)
{
    double length = (double)ZR_MAX(s->warmup_steps, 1);
    double part = s->warmup_linear ? t / length : log(t + 1) / log(length + 1);
    if (t <= length)
        return s->lr * (s->warmup_min_ratio + part * (1.0 - s->warmup_min_ratio));
    double progress = fmin(1.0, (t - length) / fmax(1.0, (double)s->total_steps - length));
    return s->lr *
           (s->cosine_min_ratio + (1.0 - s->cosine_min_ratio) * (1 + cos(M_PI * progress)) / 2);
}

// Returns what the decay leaves of the rate at update t. Without a least rate the decay is one
// update longer than the run, so that no update is made at rate 0.
static double own_decayed_part(const zr_lr_schedule *s, double t)
{
    double start = (double)(s->total_steps - s->decay_steps),
           end = (double)s->total_steps + (s->min_lr_ratio == 0);
    if (s->decay_steps == 0 || t <= start)
        return 1;
    double progress = fmin(1.0, (t - start) / (end - start));
    switch ((zr_decay_shape)s->decay_shape) {
    case ZR_SHAPE_COSINE: return (1 + cos(M_PI * progress)) / 2;
    case ZR_SHAPE_ROOT: return 1 - sqrt(progress);
    default: return fmax(0.0, (end - t) / (end - start));
    }
}

// The program's own schedules by name: update t = 1, 2, ... of the warm-up has t / length of the
// rate.
static double own_lr(const zr_lr_schedule *s, double t)
{
    double length = (double)ZR_MAX(s->warmup_steps, 1);
    if (t <= length)
        return s->lr * (t / length);
    return s->lr * (s->min_lr_ratio + (1.0 - s->min_lr_ratio) * own_decayed_part(s, t));
}

static double stairs_part(const zr_lr_schedule *s, double n, double total, int64_t stairs)
{
    double i = fmod(n, total), count = (double)stairs;
    double at = i <= (double)s->first_steps ? i * count / (double)s->first_steps
                                            : (total - i) * count / (double)s->second_steps;
    return floor(at) / count;
}

// Returns 0 at the foot of the cycle and 1 at its top, for 0 <= n <= zr_schedule_cycle_length.
static double cycle_part(const zr_lr_schedule *s, double n)
{
    double total = zr_schedule_cycle_length(s);
    double ratio = (double)s->first_steps / total;
    double x = 1.0 + n / total - floor(1 + n / total);
    bool rising = x <= ratio;
    int64_t stairs = rising ? s->first_stairs : s->second_stairs;
    if (stairs > 0)
        return stairs_part(s, n, total, stairs);
    return rising ? x / ratio : (x - 1) / (ratio - 1);
}

static bool in_cycle(const zr_lr_schedule *s, int64_t n)
{
    return (double)n <= zr_schedule_cycle_length(s);
}

static double range_lr(const zr_lr_schedule *s, double n)
{
    double interval = n / (double)s->range_steps;
    return s->min_lr * (1 + s->range_rate * (s->range_staircase ? floor(interval) : interval));
}

double zr_schedule_lr(const zr_lr_schedule *s, int64_t n)
{
    double updates = (double)n, t = updates - 1;
    switch (s->kind) {
    case ZR_SCHEDULE_WARMUP: return warmup_then(s, t, 1.0);
    case ZR_SCHEDULE_WARMUP_DECAY: return warmup_then(s, t, decayed_part(s, t));
    case ZR_SCHEDULE_WARMUP_COSINE:
        return s->from_one ? cosine_from_one(s, updates + 1) : cosine_lr(s, t);
    case ZR_SCHEDULE_ONE_CYCLE:
        if (in_cycle(s, n))
            return s->min_lr + (s->max_lr - s->min_lr) * cycle_part(s, updates);
        return s->min_lr / zr_schedule_decay_factor(s, updates, s->decay_lr_rate);
    case ZR_SCHEDULE_RANGE_TEST: return range_lr(s, updates);
    case ZR_SCHEDULE_OWN_CONSTANT:
    case ZR_SCHEDULE_OWN_LINEAR:
    case ZR_SCHEDULE_OWN_COSINE:
    case ZR_SCHEDULE_OWN_WSD: return own_lr(s, updates + 1);
    default: return s->lr;
    }
}

void zr_schedule_betas(const zr_lr_schedule *s, int64_t n, const double betas[2], double out[2])
{
    out[0] = betas[0];
    out[1] = betas[1];
    if (s->kind != ZR_SCHEDULE_ONE_CYCLE || !s->cycle_momentum)
        return;
    out[1] = 0.99;
    // DeepSpeed sets the lower bound when it creates the schedule, the upper one from the first
    // step.
    if (n == 0)
        out[0] = s->min_momentum;
    else if (in_cycle(s, n))
        out[0] = s->max_momentum - (s->max_momentum - s->min_momentum) * cycle_part(s, (double)n);
    else
        out[0] = s->max_momentum * zr_schedule_decay_factor(s, (double)n, s->decay_momentum_rate);
}

zr_loss_scale zr_loss_scale_begin(const zr_loss_scale_spec *spec)
{
    return (zr_loss_scale){
        .scale = spec->kind == ZR_SCALE_NONE ? 1 : spec->initial,
        .last_overflow = -1,
        .hysteresis = spec->hysteresis,
    };
}

zr_loss_scale zr_loss_scale_resume(const zr_loss_scale_spec *spec, const zr_loss_scale *saved,
                                   bool dynamic)
{
    zr_loss_scale state = zr_loss_scale_begin(spec);
    state.iteration = saved->iteration;
    state.last_overflow = saved->last_overflow;
    if (spec->kind == ZR_SCALE_DYNAMIC && dynamic) {
        state.scale = ZR_MAX(saved->scale, spec->min_scale);
        state.hysteresis =
            saved->hysteresis > 0 ? ZR_MIN(saved->hysteresis, spec->hysteresis) : spec->hysteresis;
    } else if (spec->kind == ZR_SCALE_DYNAMIC) {
        state.last_overflow = saved->iteration - 1;
    }
    return state;
}

// Shrinks the scale after an overflow. Overflows are forgiven while some are left; then each one
// halves the scale, until a growth restores the forgiveness. A hysteresis of 0 forgives every
// overflow.
static zero_status shrink_loss_scale(const zr_loss_scale_spec *spec, zr_loss_scale *state,
                                     zero_error *error)
{
    if (spec->hysteresis != 1 && state->hysteresis != 1) {
        state->hysteresis -= state->hysteresis > 0;
        return ZERO_OK;
    }
    if (state->scale == spec->min_scale)
        return zr_fail(
            error, ZERO_ERR_DATA,
            "step %" PRId64
            ": the gradients overflow at the smallest loss scale, %g (fp16.min_loss_scale): train "
            "in bf16 (--dtype bf16), with a lower learning rate, or with a smaller "
            "fp16.initial_scale_power and "
            "fp16.min_loss_scale",
            state->iteration + 1, state->scale);
    state->scale = ZR_MAX(state->scale / 2, spec->min_scale);
    return ZERO_OK;
}

static void grow_loss_scale(const zr_loss_scale_spec *spec, zr_loss_scale *state)
{
    int64_t clean = state->iteration - state->last_overflow - 1;
    if (spec->consecutive_hysteresis)
        state->hysteresis = spec->hysteresis;
    if (clean < 1 || clean % spec->window)
        return;
    state->hysteresis = spec->hysteresis;
    state->scale *= 2;
}

zero_status zr_loss_scale_next(const zr_loss_scale_spec *spec, bool overflow, zr_loss_scale *state,
                               zero_error *error)
{
    if (spec->kind == ZR_SCALE_DYNAMIC && overflow)
        ZERO_TRY(shrink_loss_scale(spec, state, error));
    else if (spec->kind == ZR_SCALE_DYNAMIC)
        grow_loss_scale(spec, state);
    if (overflow)
        state->last_overflow = state->iteration;
    state->iteration++;
    return ZERO_OK;
}
