// What optimizers do with weights and directions beside the update itself, one element at a time in
// double.
#include "compute/ref/ref.h"

void zr_ref_average(zr_queue *queue, const zr_update *update, const zr_update_values *values,
                    const float *master, float *average)
{
    double take = values->first ? 1 : 1 - update->average_decay;
    for (int64_t i = 0; i < update->n; i++)
        average[i] = (float)(average[i] + ((double)master[i] - average[i]) * take);
}
