// How fast a rank moves bytes of memory: a copy, a triad, and an optimizer's update in place.
#ifndef ZR_PREDICT_MEMORY_RATE_H
#define ZR_PREDICT_MEMORY_RATE_H

#include "compute/compute.h"
#include "compute/optimizer_ops.h"
#include "predict/timing.h"

// Measures the bytes per second that a rank reads and writes while all ranks copy. Collective.
zero_status zr_memory_rate_of_copy(const zr_meter *meter, double *out, zero_error *error);

// Computes a = b + 3 c over `count` elements.
void zr_memory_triad(float *restrict a, const float *restrict b, const float *restrict c,
                     int64_t count, int threads);
// Reads, modifies and writes what AdamW does with a bf16 gradient, an fp32 master and a bf16 copy,
// but computes almost nothing.
void zr_memory_update(const zr_range_states *states, int64_t count, int threads);
// Bytes per element: three vectors read and written, the gradient read, the copy written.
#define ZR_MEMORY_UPDATE_BYTES (3 * 8 + 2 + 2)

#endif
