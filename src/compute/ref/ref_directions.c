// What optimizers do with weights and directions beside the elementwise updates, one element at a
// time in double.
#include "compute/ref/ref.h"

void zr_ref_momentum_direction(zr_queue *queue, const zr_update *update,
                               const zr_update_values *values, void *state0, const void *gradient,
                               void *direction)
{
    double take = 1 - update->momentum;
    for (int64_t i = 0; i < update->n; i++) {
        double g = ref_get(update->gradient, gradient, i) * values->gradient_scale,
               m = ref_get(update->states, state0, i);
        m += take * (g - m);
        ref_put(update->states, state0, i, m);
        double u = update->nesterov ? m - take * (m - g) : m;
        ref_put(update->states, direction, i, zr_bf16_to_f32(zr_f32_to_bf16((float)u)));
    }
}

void zr_ref_orthogonal_update(zr_queue *queue, const zr_update *update, const float *factors,
                              float *master, const void *direction, void *parameters)
{
    for (int64_t i = 0; i < update->n; i++) {
        master[i] = (float)((double)factors[0] * master[i] -
                            (double)factors[1] * ref_get(update->states, direction, i));
        if (parameters)
            ref_put(update->parameters, parameters, i, master[i]);
    }
}

void zr_ref_average(zr_queue *queue, const zr_update *update, const zr_update_values *values,
                    const float *master, float *average)
{
    double take = 1 - update->average_decay;
    for (int64_t i = 0; i < update->n; i++)
        average[i] = values->first ? master[i]
                                   : (float)(average[i] + ((double)master[i] - average[i]) * take);
}
