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
    ZR_SITE_MLP_RESIDUAL,
    ZR_SITE_LOW_RANK // the first of those of adapters: one for each slice, half and row
};

extern const zero_unit_ops zr_lm_embedding_ops, zr_lm_block_ops, zr_lm_head_ops;

// block.c: the sizes and exchanges of a generation step through a block, and the step itself, as
// zr_lm_decode.
void zr_block_decode_sizes(const zero_unit *unit, const zr_decode_limits *limits,
                           zero_unit_sizes *out);
void zr_block_decode_exchanges(const zero_unit *unit, int64_t rows, zero_unit_sizes *out);
zero_status zr_block_decode(zero_context *context, const zr_decode_cache *cache,
                            const zr_decode_step *step, const void *in, void *out);

const zr_lm_unit *zr_lm_unit_at(const zero_unit *unit);
// Returns the token table: the embedding's, or the one that the head reads.
const zr_tensor_handle *zr_lm_table(const zr_lm_unit *hyper);
int64_t zr_lm_tile_tokens(const zr_lm_unit *hyper, int tile); // rows of the table in a tile
// Returns ids (rows) as rows of a tile of the table; -1 for an id in another tile. `local` (rows)
// is filled, by the context's queue, if there are tiles.
const int32_t *zr_lm_ids_of_tile(const zero_context *context, int tile, int64_t rows,
                                 const int32_t *ids, int32_t *local);
// Fills `local` (rows) with ids (rows) as rows of slice `slice` of the table, of those that this
// rank has; -1 for an id in another slice. Returns the number of the slice's tokens; 0 if it is
// empty.
int64_t zr_lm_ids_of_slice(const zero_context *context, int slice, int64_t rows, const int32_t *ids,
                           int32_t *local);
// embedding.c. Rows of the stream are runs of consecutive positions. In a step of generation each
// run has its own first position. In training there is one run of all rows, whose positions repeat
// every `seq` rows; seq is 0 in a step of generation.
typedef struct zr_positions {
    const zr_attention_run *runs;
    int run_count;
    int64_t seq;
} zr_positions;
// Look up the rows of ids in the tables of tokens and positions; local: (rows), where the table has
// several tiles or slices. A table that is cut gives this rank's rows (own, C) fp32.
zero_status zr_embed_tiles(zero_context *context, const zr_positions *at, const int32_t *ids,
                           int32_t *local, void *out);
zero_status zr_embed_slices(zero_context *context, const zr_division *division,
                            const zr_positions *at, const int32_t *ids, int32_t *local, char *place,
                            float *out);
// The documents of a micro-batch, whose tensor 2 has the position of each row in its document
// (zr_lm_config.documents); in a unit's workspace.
typedef struct zr_documents {
    zr_attention_run *runs; // (count) each with the rows of one document; NULL: there are none
    int count;
    int32_t *starts; // (rows) where in its window the document of a row begins
} zr_documents;
zr_documents zr_documents_carve(zr_carver *carver, const zr_lm_unit *of, int64_t rows);
// Fills them, if there are any, with rows [first, first + count) of the micro-batch; starts are of
// all rows. ZERO_ERR_USAGE if the micro-batch has no positions; ZERO_ERR_DATA for a position that
// neither is 0 nor follows the one before.
zero_status zr_documents_read(const zero_context *context, int64_t first, int64_t count,
                              zr_documents *out);

// Returns the shape of the residual stream (batch, seq, width), or (rows, width) of this rank's
// rows of it. whole: the rank has all rows in any case.
zero_tensors zr_lm_boundary(const zr_lm_unit *of, const zero_shape *shape, bool whole);
// Returns ZERO_ERR_USAGE if the sequence is longer than the positions that the model has.
zero_status zr_lm_shape_check(const zr_lm_unit *of, const zero_shape *shape, zero_error *error);
// Returns the mask of dropout at a site of the context's unit.
zr_mask zr_lm_mask(const zero_context *context, enum zr_lm_site site);
// Returns ZERO_ERR_INTERNAL if the queue has more threads than the shape that sized the workspace.
zero_status zr_lm_threads_check(const zero_context *context);
// Ids of the batch, (batch, seq).
typedef struct zr_batch_ids {
    const int32_t *host; // for the host's own loops
    const int32_t *ids;  // for operations: the same, or the device's
} zr_batch_ids;
// Returns tensor `index` of the batch, after checking that every id is below the vocabulary (of
// targets: below the head's outputs), and not negative unless `holes`.
zero_status zr_lm_ids(const zero_context *context, int index, bool holes, zr_batch_ids *out);
// Returns tensor `index` of the batch, which is (batch, seq) of this type.
zero_status zr_lm_batch_rows(const zero_context *context, int index, zero_dtype dtype, void **out);

// Returns the norm of `rows` rows of the stream; bias is ignored if the model's norms have no bias.
zr_norm_layer zr_lm_norm(const zr_lm_unit *of, zero_dtype dtype, int64_t rows,
                         const zr_tensor_handle *gain, const zr_tensor_handle *bias);
// head.c: the head's final norm, of `rows` rows; and their logits (rows, tokens) = x table^T.
zr_norm_layer zr_head_norm(const zr_lm_unit *of, zero_dtype dtype, int64_t rows);
zr_product zr_logits_product(const zr_lm_unit *of, zero_dtype dtype, int64_t rows, int64_t tokens);

#endif
