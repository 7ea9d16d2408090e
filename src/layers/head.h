// What the head's files share: loss.c, where the vocabulary is whole or comes in tiles, and
// loss_slices.c, where it is cut.
#ifndef ZR_LAYERS_HEAD_H
#define ZR_LAYERS_HEAD_H

#include "layers/lm_units.h"

// Returns the rows of a chunk: as many as LOGIT_BYTES hold of the whole vocabulary's logits, then
// divided evenly among the chunks.
int64_t zr_head_chunk_rows(const zr_lm_unit *of, zero_dtype dtype, int64_t rows);
// dtable = dlogits^T x, fp32, of some tokens.
zr_product zr_head_product_weight(const zr_lm_unit *of, zero_dtype dtype, int64_t rows,
                                  int64_t tokens);
// dx = dlogits table, fp32, of some tokens.
zr_product zr_head_product_sum(const zr_lm_unit *of, zero_dtype dtype, int64_t rows,
                               int64_t tokens);
// Writes the mean of the losses of the rows that count.
void zr_head_report(const zero_context *context, int64_t rows, int64_t counted,
                    const float *row_loss);

// loss_slices.c: the head of a model that is cut, as the functions of zero_unit_ops.
zero_status zr_cut_head_sizes(const zero_unit *unit, const zero_shape *shape, zero_unit_sizes *out);
zero_status zr_cut_head_forward(zero_context *context, const void *x);
zero_status zr_cut_head_forward_backward(zero_context *context, const void *x, void *dx);

#endif
