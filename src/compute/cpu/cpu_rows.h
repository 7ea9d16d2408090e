// What the files of the table of rows share: how norms cut rows into blocks, and the functions of
// the table that are not in cpu_rows.c.
#ifndef ZR_COMPUTE_CPU_ROWS
#define ZR_COMPUTE_CPU_ROWS

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

// cpu_rms.c
void ZR_CPU_TABLE(zr_cpu_rms_forward)(zr_queue *queue, const zr_norm *norm, const void *x,
                                      const void *gamma, void *y, float *rstd);
void ZR_CPU_TABLE(zr_cpu_residual_rms_forward)(zr_queue *queue, const zr_norm *norm, const void *x,
                                               const void *branch, void *sum, const void *gamma,
                                               void *y, float *rstd);
void ZR_CPU_TABLE(zr_cpu_rms_backward)(zr_queue *queue, const zr_norm *norm, const void *dy,
                                       const void *x, const void *gamma, const float *rstd,
                                       const void *past, void *dx, float *dgamma,
                                       bool add_parameters, void *scratch);

// cpu_loss.c
void ZR_CPU_TABLE(zr_cpu_loss)(zr_queue *queue, const zr_loss *loss, void *logits,
                               const int32_t *target, float *row_loss, bool gradient);
void ZR_CPU_TABLE(zr_cpu_loss_parts)(zr_queue *queue, const zr_loss *loss, const void *logits,
                                     const int32_t *target, zr_loss_part *parts);
void ZR_CPU_TABLE(zr_cpu_loss_finish)(zr_queue *queue, const zr_loss *loss, int slices,
                                      const zr_loss_part *parts, int64_t stride,
                                      const int32_t *target, void *logits, float *row_loss,
                                      bool gradient);
void ZR_CPU_TABLE(zr_cpu_softmax)(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width,
                                  void *x);

#endif
