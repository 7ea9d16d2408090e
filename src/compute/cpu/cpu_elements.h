// What the files of elementwise work share: how much work is worth a thread, and the embedding's
// functions of the table of elements.
#ifndef ZR_COMPUTE_CPU_ELEMENTS_H
#define ZR_COMPUTE_CPU_ELEMENTS_H

#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_math.h"

#define WORTH (1 << 14) // elements worth a thread

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
