// How long work takes while all ranks of a job do it at the same time, for zero bench and zero
// doctor: any call, moves of memory, and the matrix products of a step.
#ifndef ZR_PREDICT_METER_H
#define ZR_PREDICT_METER_H

#include "comm/communicator.h"
#include "compute/compute.h"
#include "plan/plan.h"

typedef struct zr_meter { // which ranks measure together, and how
    zero_comm *comm;
    int threads;    // of each rank
    double seconds; // per figure, approximately
} zr_meter;

typedef zero_status (*zr_timed_work)(void *user, zero_error *error);

// Measures the mean seconds of one call of `work` on the slowest rank, over about meter->seconds.
// Collective: all ranks make the same number of calls.
zero_status zr_meter_time(const zr_meter *meter, zr_timed_work work, void *user, double *seconds,
                          zero_error *error);

// Measures the bytes per second that a rank reads and writes while all ranks copy. Collective.
zero_status zr_memory_rate_of_copy(const zr_meter *meter, double *out, zero_error *error);

// Computes a = b + 3 c over `count` elements.
void zr_memory_triad(float *restrict a, const float *restrict b, const float *restrict c,
                     int64_t count, int threads);
// Reads a word of each 64 bytes of the rows of `width` words that `list` names, in its order, and
// returns the sum of these words.
uint32_t zr_memory_gather(const uint32_t *words, int64_t width, const int32_t *list, int64_t count,
                          int threads);
// Reads, modifies and writes what AdamW does with a bf16 gradient, an fp32 master, states of any
// type and a bf16 copy, but computes almost nothing.
void zr_memory_update(const zr_range_states *states, int64_t count, int threads);
// Bytes per element: the master and two states read and written, the gradient read, the copy
// written.
#define ZR_MEMORY_UPDATE_BYTES(states) (8 + 4 * (double)zero_dtype_bytes(states) + 2 + 2)

// products.c: the matrix products of one micro-batch on one rank, while all ranks compute.
typedef struct zr_products_time {
    double median, best; // seconds: the sums, over shapes, of the median and of the best time
    double flops;
} zr_products_time;

// Measures the products that the plan's units list, each shape alone on operands of its own.
// Collective.
zero_status zr_products_measure(const zr_meter *meter, const zr_plan *plan, zr_products_time *out,
                                zero_error *error);

#endif
