// The head of a model whose vocabulary is cut into slices. The logits are never gathered: each
// slice computes for every row its largest logit, the sum of its exponentials and, if it has the
// target, that logit; these 16 bytes a row and slice are exchanged.
//
//   for each chunk of rows:
//       for each slice of this rank:  logits = x table_slice^T;  their parts of the loss
// gather the parts of all slices from the other ranks
//       for each slice of this rank:  losses of the rows;  logits become their gradient
//                                     dtable_slice += dlogits^T x
//       dx = the sum of dlogits table_slice over this rank's slices, fp32
//   dx is summed over the ranks, and rounded once
#include "layers/head.h"

static size_t place_bytes(const zr_head *h)
{
    size_t of_parts = sizeof(zr_loss_part) * (size_t)(h->slices->count * h->chunk);
    return ZR_MAX((size_t)h->parts + of_parts, zr_gains_place_bytes(h->slices, &h->gains));
}

static void slices_lay_out(zr_head *h, zr_carver *carver)
{
    for (int i = 0; i < h->here; i++) {
        int number = zr_slices_first(h->slices) + i;
        int64_t tokens = zr_tokens_of_slice(h->slices, h->hyper->shape.outputs, number).count;
        h->slice[i].tokens = tokens;
        h->slice[i].logits = zr_carve_as(carver, h->dtype, h->chunk * zr_head_step(h, tokens));
        h->slice[i].target = zr_carve(carver, sizeof *h->slice[i].target * (size_t)h->rows);
    }
}

void zr_cut_head_carve(zr_head *h, zr_carver *carver)
{
    h->here = zr_slices_here(h->slices);
    h->dy = zr_carve_as(carver, h->dtype, h->division.own * h->width);
    slices_lay_out(h, carver);
    h->spare =
        zr_carve_floats(carver, zr_slices_spare(h->slices) * zr_spare_floats(h->chunk * h->width));
    h->partials = zr_carve_floats(carver, zr_norm_partials(&h->norm, &h->division));
    if (zr_gains_by_rows(h->slices))
        zr_norm_gains_carve(&h->norm, &h->division, &h->gains, carver);
    h->parts = ZR_ROUND_UP((int64_t)zr_division_place_bytes(&h->division), (int64_t)64);
    h->place = zr_carve_place(carver, h->hyper, place_bytes(h));
}

static void list_products(const zr_head *h, int64_t rows, int calls, zero_unit_sizes *sizes)
{
    for (int i = 0; i < h->here; i++) {
        int64_t tokens = h->slice[i].tokens;
        const zr_product input = zr_head_product_sum(h, rows, tokens);
        if (tokens > 0)
            zr_head_list_products(h, zr_lm_tensor(h->hyper, i, ZR_LM_TABLE), rows, tokens, &input,
                                  calls, sizes);
    }
}

static zero_exchange loss_parts_exchange(const zr_head *h, int64_t rows, int calls, bool backward)
{
    return (zero_exchange){.kind = ZERO_EXCHANGE_GATHER,
                           .backward = backward,
                           .elements =
                               h->here * rows * (int64_t)(sizeof(zr_loss_part) / sizeof(float)),
                           .dtype = ZERO_F32,
                           .calls = calls,
                           .purpose = ZERO_EXCHANGE_FOR_loss};
}

static void list_cut_head_exchanges(const zr_head *h, bool backward, zero_unit_sizes *sizes)
{
    int chunks = (int)(h->rows / h->chunk);
    int64_t rest = h->rows % h->chunk;
    const zero_exchange whole = loss_parts_exchange(h, h->chunk, chunks, backward),
                        last = loss_parts_exchange(h, rest, 1, backward);
    zr_list_gather(sizes, &h->division, backward, h->dtype);
    for (int times = backward && zr_head_computes_twice(h) ? 2 : 1; times > 0; times--) {
        zr_list_exchange(sizes, h->slices, &whole);
        if (rest)
            zr_list_exchange(sizes, h->slices, &last);
    }
}

void zr_cut_head_sizes(const zr_head *h, zero_unit_sizes *out)
{
    for (int i = 0; i < h->here; i++)
        zr_tensor_read_in_backward(zr_lm_tensor(h->hyper, i, ZR_LM_TABLE), out);
    list_products(h, h->chunk, (int)(h->rows / h->chunk), out);
    if (h->rows % h->chunk)
        list_products(h, h->rows % h->chunk, 1, out);
    list_cut_head_exchanges(h, false, out);
    list_cut_head_exchanges(h, true, out);
    zr_list_reduce(out, &h->division, true);
    zr_list_gains(out, h->slices, &h->gains);
    out->exchange_bytes = h->slices->ranks > 1 ? place_bytes(h) : 0;
}

void zr_cut_head_take_targets(zr_head *h)
{
    for (int i = 0; i < h->here; i++) {
        const zr_slice_tokens tokens =
            zr_tokens_of_slice(h->slices, h->hyper->shape.outputs, zr_slices_first(h->slices) + i);
        const zr_id_range range = {h->rows, tokens.first, tokens.count};
        zr_run(h->context->queue, zr_op_local_ids(&range, h->target, h->slice[i].target));
    }
}

// Returns the parts of a slice in this chunk, among those of all ranks.
static zr_loss_part *parts_at(const zr_head *h, int slice)
{
    return (zr_loss_part *)(void *)(h->place + h->parts) + slice * h->count;
}

static zr_loss loss_of_slice(const zr_head *h, int slice, bool gradient)
{
    return (zr_loss){.dtype = h->dtype,
                     .rows = h->count,
                     .vocab = h->slice[slice].tokens,
                     .gradient = gradient,
                     .slices = h->slices->count,
                     .stride = h->count,
                     .step = zr_head_step(h, h->slice[slice].tokens)};
}

static void compute_loss_parts(zr_head *h, int slice)
{
    zr_queue *queue = h->context->queue;
    const void *table = zr_tensor_values(h->context, zr_lm_tensor(h->hyper, slice, ZR_LM_TABLE), 0);
    const zr_product product = zr_head_product(h, h->count, h->slice[slice].tokens);
    const zr_loss loss = loss_of_slice(h, slice, false);
    void *logits = h->slice[slice].logits;
    if (loss.vocab > 0)
        zr_run(queue, zr_op_product(&product, zr_head_normed_rows(h), table, NULL, logits));
    zr_run(queue, zr_op_loss_parts(&loss, h->slice[slice].target + h->first, logits,
                                   parts_at(h, zr_slices_first(h->slices) + slice)));
}

static zero_status chunk_losses(zr_head *h, bool gradient)
{
    zr_queue *queue = h->context->queue;
    const zero_exchange exchange = loss_parts_exchange(h, h->count, 1, h->backward);
    for (int i = 0; i < h->here && !h->kept; i++)
        compute_loss_parts(h, i);
    if (!h->kept)
        ZERO_TRY(zr_exchange(h->context, &exchange, h->parts));
    for (int i = 0; i < h->here; i++) {
        const zr_loss loss = loss_of_slice(h, i, gradient);
        zr_run(queue, zr_op_loss_finish(&loss, parts_at(h, 0), h->slice[i].target + h->first,
                                        &h->context->values->loss_factor, zr_head_weights(h),
                                        h->slice[i].logits, h->row_loss + h->first));
    }
    return ZERO_OK;
}

static void table_backward(zr_head *h, int slice)
{
    zr_queue *queue = h->context->queue;
    zr_product product = zr_head_product_weight(h, h->count, h->slice[slice].tokens);
    int add = 0;
    if (h->slice[slice].tokens == 0)
        return;
    float *d_table =
        zr_tensor_gradient(h->context, zr_lm_tensor(h->hyper, slice, ZR_LM_TABLE), 0, &add);
    product.add = add || h->first > 0;
    if (d_table)
        zr_run(queue, zr_op_product(&product, h->slice[slice].logits, zr_head_normed_rows(h), NULL,
                                    d_table));
}

static zero_status input_of_slice(void *user, int slice, float *out)
{
    zr_head *h = user;
    zr_queue *queue = h->context->queue;
    const void *table = zr_tensor_values(h->context, zr_lm_tensor(h->hyper, slice, ZR_LM_TABLE), 0);
    const zr_product product = zr_head_product_sum(h, h->count, h->slice[slice].tokens);
    if (product.k == 0) {
        zr_run(queue, zr_op_fill(&(zr_bytes){h->count * h->width * (int64_t)sizeof *out}, out));
        return ZERO_OK;
    }
    zr_run(queue, zr_op_product(&product, h->slice[slice].logits, table, NULL, out));
    return ZERO_OK;
}

static void keep_scores(const zr_head *h)
{
    for (int i = 0; i < h->here; i++) {
        int number = zr_slices_first(h->slices) + i;
        zr_head_keep_scores(h, h->slice[i].logits,
                            zr_tokens_of_slice(h->slices, h->hyper->shape.outputs, number).first,
                            h->slice[i].tokens);
    }
}

zero_status zr_cut_head_chunk(zr_head *h, bool gradient)
{
    float *dx = (float *)(void *)h->place + h->first * h->width;
    ZERO_TRY(chunk_losses(h, gradient));
    if (!gradient) {
        keep_scores(h);
        return ZERO_OK;
    }
    for (int i = 0; i < h->here; i++)
        table_backward(h, i);
    return zr_slices_add(h->context, h->slices, h->count * h->width, input_of_slice, h, dx,
                         h->spare);
}

zero_status zr_cut_head_reduce(zr_head *h)
{
    const zr_conversion own = {ZERO_F32, h->dtype, h->division.own * h->width};
    float *sum;
    ZERO_TRY(zr_division_reduce(h->context, &h->division, h->place, &sum));
    zr_run(h->context->queue, zr_op_convert(&own, sum, h->dy));
    return ZERO_OK;
}
