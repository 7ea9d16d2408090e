// One call of the head, shared by head.c, for a vocabulary that is whole or in tiles, and
// head_slices.c, for one that is cut.
#ifndef ZR_LAYERS_HEAD_H
#define ZR_LAYERS_HEAD_H

#include "layers/lm_units.h"

typedef struct zr_head {
    zero_context *context;
    const zr_lm_unit *hyper;
    zr_division division;
    int64_t width, rows, chunk;
    int64_t step; // rows of logits begin at multiples of this, in elements
    zr_norm_layer norm;
    zero_dtype dtype;
    zr_norm_statistics statistics; // (own)
    void *normed;                  // (rows, C) T
    void *dy;        // (own, C) T gradient of `normed`; normed itself if the vocabulary is not cut
    float *row_loss; // (rows)
    void *scratch;   // of the norm's backward
    const int32_t *target;      // (rows) as operations read them
    const int32_t *host_target; // (rows) as the host does
    int64_t counted;            // rows whose target is not negative
    int64_t first, count;       // rows of the current chunk
    bool backward;              // the call computes gradients
    // Of labels, if the micro-batch has a place for them, else NULL: (counted, outputs) the logits
    // of rows with a target.
    float *scores;
    // Of a preference, else NULL: rows get weights once the losses of all are known, so the chunks
    // run twice.
    const zr_preference *preference;
    float *weight; // (rows) of the gradients; NULL: all are 1
    bool kept;     // the second time, the logits of the only chunk are still there
    // Of a whole vocabulary:
    const zr_tensor_handle *table;
    void *logits;  // (chunk, V), rows zr_head_step apart; tiled: (rows, V)
    void *columns; // tiled: (chunk, tile) of logits, rows zr_head_step apart
    float *dx;     // tiled: (rows, C)
    // Of one that is cut:
    const zr_lm_slices *slices;
    int here; // slices of this rank
    struct {
        int64_t tokens;
        void *logits;    // (chunk, tokens) T, rows zr_head_step apart
        int32_t *target; // (rows) as tokens of the slice: see zr_row_ops.loss_parts
    } slice[ZR_MOST_LOCAL_SLICES];
    float *spare, *partials;
    zr_gains gains;
    // Of exchanges: first dx (rows, C) fp32, then from byte `parts` on the parts of a chunk.
    char *place;
    int64_t parts;
} zr_head;

// The products of some rows with some tokens, all or those of a tile or slice.
//   logits (rows, tokens) = x table^T;  dtable = dlogits^T x, fp32;  dx = dlogits table, fp32
zr_product zr_head_product(const zr_head *h, int64_t rows, int64_t tokens);
zr_product zr_head_product_weight(const zr_head *h, int64_t rows, int64_t tokens);
zr_product zr_head_product_sum(const zr_head *h, int64_t rows, int64_t tokens);
// Returns the elements from one row of logits for these tokens to the next: as many, or more
// where the backend wants its rows aligned (zr_backend.logit_step).
static inline int64_t zr_head_step(const zr_head *h, int64_t tokens)
{
    return ZR_ROUND_UP(tokens, h->step);
}
void *zr_head_normed_rows(const zr_head *h); // of the current chunk
// Lists the products of `calls` chunks, with these products for dx.
void zr_head_list_products(const zr_head *h, const zr_tensor_handle *table, int64_t rows,
                           int64_t tokens, const zr_product *input, int calls,
                           zero_unit_sizes *sizes);
// Returns the loss operations' weights of the current chunk; NULL: all are 1.
const float *zr_head_weights(const zr_head *h);
// Returns whether the chunks compute their logits twice.
bool zr_head_computes_twice(const zr_head *h);

// head_preference.c. Once the losses of all rows are known: sets the loss, its factor and, if the
// call computes gradients, the weights. Writes the rows' losses where the micro-batch has a place
// for them.
zero_status zr_head_prefer(zr_head *h);

// head_labels.c. Finds where the micro-batch of a model with labels wants its logits.
zero_status zr_head_find_scores(zr_head *h);
// Copies logits (count, tokens) of the current chunk, rows zr_head_step apart, which begin with
// output `first`.
void zr_head_keep_scores(const zr_head *h, const void *logits, int64_t first, int64_t tokens);

// head_slices.c
void zr_cut_head_carve(zr_head *h, zr_carver *carver);
void zr_cut_head_sizes(const zr_head *h, zero_unit_sizes *out);
void zr_cut_head_take_targets(zr_head *h);
// Computes the losses of the current chunk and, if `gradient`, the gradients from them.
zero_status zr_cut_head_chunk(zr_head *h, bool gradient);
// Sums the gradient of `normed` over the ranks, and rounds it.
zero_status zr_cut_head_reduce(zr_head *h);

#endif
