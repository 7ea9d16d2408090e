// The head of a model that is trained on preferences: between its two passes over the chunks.
#include "layers/head.h"
#include "layers/preference.h"

#include <string.h>

enum { ROLES = 3, REFERENCE, LOSSES }; // tensors of the micro-batch

static zero_status read_rows(const zr_head *h, zr_preference_rows *out)
{
    void *positions, *roles, *reference;
    ZERO_TRY(zr_lm_batch_rows(h->context, 2, ZERO_I32, &positions));
    ZERO_TRY(zr_lm_batch_rows(h->context, ROLES, ZERO_I32, &roles));
    ZERO_TRY(zr_lm_batch_rows(h->context, REFERENCE, ZERO_F32, &reference));
    *out = (zr_preference_rows){.rows = h->rows,
                                .positions = positions,
                                .roles = roles,
                                .reference = reference,
                                .row_loss = h->row_loss};
    return ZERO_OK;
}

zero_status zr_head_prefer(zr_head *h)
{
    zero_context *context = h->context;
    zr_preference_rows rows;
    zr_preference_sums sums;
    void *losses;
    ZERO_TRY(read_rows(h, &rows));
    ZERO_TRY(zr_preference_compute(h->preference, &rows, h->backward ? h->weight : NULL, &sums,
                                   context->error));
    context->values->loss_factor = (float)zero_loss_factor(context, sums.pairs);
    if (context->loss)
        *context->loss = sums.pairs ? sums.loss / (double)sums.pairs : 0;
    if (context->batch->count <= LOSSES)
        return ZERO_OK;
    ZERO_TRY(zr_lm_batch_rows(context, LOSSES, ZERO_F32, &losses));
    memcpy(losses, h->row_loss, sizeof *h->row_loss * (size_t)h->rows);
    return ZERO_OK;
}
