// What LayerNorm and RMSNorm share: how rows are cut into blocks, and RMSNorm's functions of the
// table of rows.
#ifndef ZR_COMPUTE_CPU_NORM_H
#define ZR_COMPUTE_CPU_NORM_H

#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_math.h"

// Blocks of rows, at most; each sums the gradients of its parameters separately.
#define NORM_BLOCKS 64

static inline int64_t norm_worth(int64_t width) // rows that are worth a thread
{
    return ZR_MAX(1, 8192 / ZR_MAX(1, width));
}

static inline int64_t norm_block_rows(int64_t rows)
{
    int64_t even = (rows + NORM_BLOCKS - 1) / NORM_BLOCKS;
    return ZR_MAX(32, even);
}

void ZR_CPU_TABLE(zr_cpu_rms_forward)(zr_queue *queue, const zr_norm *norm, const void *x,
                                      const void *gamma, void *y, float *rstd);
void ZR_CPU_TABLE(zr_cpu_residual_rms_forward)(zr_queue *queue, const zr_norm *norm, const void *x,
                                               const void *branch, void *sum, const void *gamma,
                                               void *y, float *rstd);
void ZR_CPU_TABLE(zr_cpu_rms_backward)(zr_queue *queue, const zr_norm *norm, const void *dy,
                                       const void *x, const void *gamma, const float *rstd,
                                       const void *past, void *dx, float *dgamma,
                                       bool add_parameters, void *scratch);

#endif
