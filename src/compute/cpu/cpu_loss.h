// Softmax's and the loss's functions of the table of rows.
#ifndef ZR_COMPUTE_CPU_LOSS_H
#define ZR_COMPUTE_CPU_LOSS_H

#include "compute/cpu/cpu_kernels.h"

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
