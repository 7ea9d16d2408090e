// What the files of one table share: how much work is worth a thread, and the functions of the
// tables of rows and of elements that are not in cpu_rows.c and cpu_elements.c.
#ifndef ZR_COMPUTE_CPU_TABLES_H
#define ZR_COMPUTE_CPU_TABLES_H

#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_math.h"

#define WORTH (1 << 14) // elements worth a thread

static inline int64_t rows_worth(int64_t width) // rows that are worth a thread
{
    return ZR_MAX(1, 8192 / ZR_MAX(1, width));
}

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

// cpu_embedding.c
void ZR_CPU_TABLE(zr_cpu_embedding_forward)(zr_queue *queue, zero_dtype dtype, zero_dtype stream,
                                            int64_t rows, int64_t seq, int64_t width,
                                            const int32_t *ids, const void *tokens,
                                            const void *positions, void *out);
void ZR_CPU_TABLE(zr_cpu_add_positions)(zr_queue *queue, zero_dtype dtype, int64_t rows,
                                        int64_t seq, int64_t first, int64_t width,
                                        const void *positions, float *x);
void ZR_CPU_TABLE(zr_cpu_embedding_backward)(zr_queue *queue, zero_dtype stream, int64_t rows,
                                             int64_t seq, int64_t width, const int32_t *ids,
                                             const void *d, int64_t vocab, float *d_tokens,
                                             bool add_tokens, int64_t max_seq, float *d_positions,
                                             bool add_positions);

#endif
