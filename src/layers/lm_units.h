// Declarations that the units of language models share. Only layers/ includes this.
#ifndef ZR_LAYERS_LM_UNITS_H
#define ZR_LAYERS_LM_UNITS_H

#include "compute/compute.h"
#include "layers/layers.h"
#include "layers/linear.h"
#include "layers/slices.h"
#include "model/unit.h"

// Sites of randomness within a unit. Masks are never stored, because backward draws them again.
enum zr_lm_site {
    ZR_SITE_EMBEDDING,
    ZR_SITE_ATTENTION,
    ZR_SITE_ATTENTION_RESIDUAL,
    ZR_SITE_MLP_RESIDUAL
};

extern const zero_unit_ops zr_lm_embedding_ops, zr_lm_block_ops, zr_lm_head_ops;

// lm_create.c: the table of an architecture's blocks (block.h).
const struct zero_block_table *zr_block_table_of(const zero_unit *unit);
// block.c: the sizes of a generation step through a block, and the step itself, as zr_lm_decode.
void zr_block_decode_sizes(const zero_unit *unit, const zr_decode_limits *limits,
                           zero_unit_sizes *out);
zero_status zr_block_decode(zero_context *context, const zr_decode_cache *cache,
                            const zr_decode_step *step, const void *in, void *out);

const zr_lm_unit *zr_lm_unit_at(const zero_unit *unit);
// Returns the token table: the embedding's, or the one that the head reads.
const zr_tensor_handle *zr_lm_table(const zr_lm_unit *hyper);
int64_t zr_lm_tile_tokens(const zr_lm_unit *hyper, int tile); // rows of the table in a tile
// Returns ids (rows) as rows of a tile of the table; -1 for an id in another tile. `local` (rows)
// is filled if there are tiles.
const int32_t *zr_lm_ids_of_tile(const zr_lm_unit *hyper, int tile, int64_t rows,
                                 const int32_t *ids, int32_t *local);
// Fills `local` (rows) with ids (rows) as rows of slice `slice` of the table, of those that this
// rank has; -1 for an id in another slice. Returns the number of the slice's tokens; 0 if it is
// empty.
int64_t zr_lm_ids_of_slice(const zr_lm_unit *hyper, int slice, int64_t rows, const int32_t *ids,
                           int32_t *local);
// embedding.c: sums the rows of a table that is cut, without positions. *own (own, C) fp32 are this
// rank's rows, which lie at the place.
zero_status zr_embed_slices(zero_context *context, const zr_division *division, const int32_t *ids,
                            int32_t *local, char *place, float **own);
// Returns the shape of the residual stream (batch, seq, width), or (rows, width) of this rank's
// rows of it. whole: the rank has all rows in any case.
zero_tensors zr_lm_boundary(const zr_lm_unit *of, const zero_shape *shape, bool whole);
// Returns ZERO_ERR_USAGE if the sequence is longer than the positions that the model has.
zero_status zr_lm_shape_check(const zr_lm_unit *of, const zero_shape *shape, zero_error *error);
// Returns the mask of dropout at a site of the context's unit.
zr_mask zr_lm_mask(const zero_context *context, enum zr_lm_site site);
// Returns ZERO_ERR_INTERNAL if the queue has more threads than the shape that sized the workspace.
zero_status zr_lm_threads_check(const zero_context *context);
// Returns tensor `index` of the batch as (batch, seq) int32, after checking that every id is below
// the vocabulary, and not negative unless `holes`.
zero_status zr_lm_ids(const zero_context *context, int index, bool holes, const int32_t **ids);

// Returns the norm of `rows` rows of the stream; bias is ignored if the model's norms have no bias.
zr_norm_layer zr_lm_norm(const zr_lm_unit *of, zero_dtype dtype, int64_t rows,
                         const zr_tensor_handle *gain, const zr_tensor_handle *bias);
// Return the head's final norm and its logits for `rows` rows: y(rows, tokens) = x(rows, C)
// table^T, with all tokens or those of a tile.
zr_norm_layer zr_head_norm(const zr_lm_unit *of, zero_dtype dtype, int64_t rows);
zr_product zr_head_product(const zr_lm_unit *of, zero_dtype dtype, int64_t rows, int64_t tokens);

// Shared by the head's files: head.c, for a vocabulary that is whole or in tiles, and
// head_slices.c, for one that is cut.
//
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

// head_slices.c: the head of a model that is cut, as the functions of zero_unit_ops.
zero_status zr_cut_head_sizes(const zero_unit *unit, const zero_shape *shape, zero_unit_sizes *out);
zero_status zr_cut_head_forward(zero_context *context, const void *x);
zero_status zr_cut_head_forward_backward(zero_context *context, const void *x, void *dx);

#endif
