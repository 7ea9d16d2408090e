#include "compute/loss_parts.h"

#include <math.h>

// Returns the sum of e^(logit - largest) over slices [0, count), by the tree of contract 3. A slice
// without a logit above -infinity adds 0, or the NaN that it met.
static double sum_of(const zr_loss_part *parts, int count, int64_t stride, float largest)
{
    if (count > 1) {
        int left = 1 << (31 - __builtin_clz((unsigned)count - 1));
        return sum_of(parts, left, stride, largest) +
               sum_of(parts + left * stride, count - left, stride, largest);
    }
    return parts->sum * exp((double)parts->largest - (double)largest);
}

zr_loss_part zr_loss_parts_join(const zr_loss_part *parts, int slices, int64_t stride)
{
    zr_loss_part whole = {.largest = -INFINITY, .aimed = -INFINITY};
    for (int t = 0; t < slices; t++) {
        whole.largest = fmaxf(whole.largest, parts[t * stride].largest);
        whole.aimed = fmaxf(whole.aimed, parts[t * stride].aimed);
    }
    whole.sum = sum_of(parts, slices, stride, whole.largest);
    return whole;
}
