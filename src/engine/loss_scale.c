// Dynamic loss scaling. The tests are in DeepSpeed's order, so that every scale agrees with its.
#include "engine/loss_scale.h"

#include <inttypes.h>

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
