// Sums over neighbours, one element at a time, in double.
#include "compute/backends.h"
#include "compute/ref/ref.h"

void zr_ref_neighbour_sum(zr_queue *queue, const zr_neighbours *of, const int64_t *starts,
                          const int32_t *neighbours, const float *weights, const void *x, void *out)
{
    for (int64_t i = 0; i < of->rows * of->width; i++) {
        int64_t row = i / of->width, column = i % of->width;
        double sum = 0;
        for (int64_t e = starts[row]; e < starts[row + 1]; e++)
            sum += (weights ? (double)weights[e] : 1) *
                   ref_get(of->dtype, x, neighbours[e] * of->width + column);
        ref_put(of->dtype, out, i, sum);
    }
}
