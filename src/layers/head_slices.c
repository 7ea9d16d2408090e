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
#include "compute/compute.h"
#include "layers/lm_units.h"

typedef struct cut_head {
    zero_context *context;
    const zr_lm_unit *hyper;
    const zr_lm_slices *slices;
    zr_division division;
    int here; // slices of this rank
    int64_t width, rows, chunk;
    zr_norm_layer norm;
    zero_dtype dtype;
    zr_norm_statistics statistics; // (own)
    void *normed;                  // (rows, C) T
    void *dy;                      // (own, C) T
    float *row_loss;               // (rows)
    struct {
        int64_t tokens;
        void *logits;    // (chunk, tokens) T
        int32_t *target; // (rows) as tokens of the slice: see zr_row_ops.loss_parts
    } slice[ZR_MOST_LOCAL_SLICES];
    float *spare, *partials;
    zr_gains gains;
    void *scratch; // of the norm's backward
    // Of exchanges: first dx (rows, C) fp32, then from byte `parts` on the parts of a chunk.
    char *place;
    int64_t parts;
    int64_t counted;      // rows whose target is not negative
    int64_t first, count; // rows of the current chunk
} cut_head;

static size_t place_bytes(const cut_head *h)
{
    size_t of_parts = sizeof(zr_loss_part) * (size_t)(h->slices->count * h->chunk);
    return ZR_MAX((size_t)h->parts + of_parts, zr_gains_place_bytes(h->slices, &h->gains));
}

static void slices_lay_out(cut_head *h, zr_carver *carver)
{
    for (int i = 0; i < h->here; i++) {
        int number = zr_slices_first(h->slices) + i;
        int64_t tokens = zr_tokens_of_slice(h->slices, h->hyper->shape.vocab, number).count;
        h->slice[i].tokens = tokens;
        h->slice[i].logits = zr_carve_as(carver, h->dtype, h->chunk * tokens);
        h->slice[i].target = zr_carve(carver, sizeof *h->slice[i].target * (size_t)h->rows);
    }
}

static size_t lay_out_cut_head(const zero_unit *unit, const zero_shape *shape, void *workspace,
                               cut_head *h)
{
    const zr_lm_unit *of = zr_lm_unit_at(unit);
    zr_carver carver = {.base = workspace};
    int64_t rows = shape->batch * shape->seq;
    zero_dtype dtype = shape->dtype;
    *h = (cut_head){.hyper = of,
                    .slices = &of->slices,
                    .division = zr_division_of(of, rows, false),
                    .here = zr_slices_here(&of->slices),
                    .width = of->shape.width,
                    .rows = rows,
                    .chunk = zr_head_chunk_rows(of, dtype, rows),
                    .dtype = dtype};
    int64_t own = h->division.own;
    h->norm = zr_head_norm(of, dtype, own);
    h->statistics.mean = zr_carve_floats(&carver, own);
    h->statistics.rstd = zr_carve_floats(&carver, own);
    h->normed = zr_carve_as(&carver, dtype, rows * h->width);
    h->dy = zr_carve_as(&carver, dtype, own * h->width);
    h->row_loss = zr_carve_floats(&carver, rows);
    slices_lay_out(h, &carver);
    h->spare =
        zr_carve_floats(&carver, zr_slices_spare(h->slices) * zr_spare_floats(h->chunk * h->width));
    h->partials = zr_carve_floats(&carver, zr_norm_partials(&h->norm, &h->division));
    if (zr_gains_by_rows(h->slices))
        zr_norm_gains_carve(&h->norm, &h->division, &h->gains, &carver);
    h->parts = ZR_ROUND_UP((int64_t)zr_division_place_bytes(&h->division), (int64_t)64);
    h->place = zr_carve_place(&carver, of, place_bytes(h));
    h->scratch = zr_carve(&carver, zr_scratch_norm(shape->threads, &h->norm.norm));
    return carver.used;
}

static void list_products(const cut_head *h, int64_t rows, int calls, zero_unit_sizes *sizes)
{
    for (int i = 0; i < h->here; i++) {
        int64_t tokens = h->slice[i].tokens;
        const zr_tensor_handle *table = zr_lm_tensor(h->hyper, i, ZR_LM_TABLE);
        const zr_product logits = zr_head_product(h->hyper, h->dtype, rows, tokens),
                         weight = zr_head_product_weight(h->hyper, h->dtype, rows, tokens),
                         input = zr_head_product_sum(h->hyper, h->dtype, rows, tokens);
        if (tokens == 0)
            continue;
        zr_product_append(sizes, &logits, calls);
        if (table->trains)
            zr_product_append(sizes, &weight, calls);
        zr_product_append(sizes, &input, calls);
    }
}

static zero_exchange loss_parts_exchange(const cut_head *h, int64_t rows, int calls, bool backward)
{
    return (zero_exchange){.kind = ZERO_EXCHANGE_GATHER,
                           .backward = backward,
                           .elements =
                               h->here * rows * (int64_t)(sizeof(zr_loss_part) / sizeof(float)),
                           .dtype = ZERO_F32,
                           .calls = calls,
                           .purpose = ZERO_EXCHANGE_FOR_loss};
}

static void list_cut_head_exchanges(const cut_head *h, bool backward, zero_unit_sizes *sizes)
{
    int chunks = (int)(h->rows / h->chunk);
    int64_t rest = h->rows % h->chunk;
    const zero_exchange whole = loss_parts_exchange(h, h->chunk, chunks, backward),
                        last = loss_parts_exchange(h, rest, 1, backward);
    zr_list_gather(sizes, &h->division, backward, h->dtype);
    zr_list_exchange(sizes, h->slices, &whole);
    if (rest)
        zr_list_exchange(sizes, h->slices, &last);
}

zero_status zr_cut_head_sizes(const zero_unit *unit, const zero_shape *shape, zero_unit_sizes *out)
{
    cut_head h;
    out->workspace_bytes = lay_out_cut_head(unit, shape, NULL, &h);
    zr_norm_read_in_backward(&h.norm, out);
    for (int i = 0; i < h.here; i++)
        zr_tensor_read_in_backward(zr_lm_tensor(h.hyper, i, ZR_LM_TABLE), out);
    list_products(&h, h.chunk, (int)(h.rows / h.chunk), out);
    if (h.rows % h.chunk)
        list_products(&h, h.rows % h.chunk, 1, out);
    list_cut_head_exchanges(&h, false, out);
    list_cut_head_exchanges(&h, true, out);
    zr_list_reduce(out, &h.division, true);
    zr_list_gains(out, h.slices, &h.gains);
    out->exchange_bytes = h.slices->ranks > 1 ? place_bytes(&h) : 0;
    return ZERO_OK;
}

static void take_targets(cut_head *h, const int32_t *target)
{
    for (int i = 0; i < h->here; i++) {
        int64_t first =
            zr_tokens_of_slice(h->slices, h->hyper->shape.vocab, zr_slices_first(h->slices) + i)
                .first;
        for (int64_t row = 0; row < h->rows; row++)
            h->slice[i].target[row] =
                target[row] < 0 ? ZR_TARGET_NONE : (int32_t)(target[row] - first);
    }
    for (int64_t row = 0; row < h->rows; row++)
        h->counted += target[row] >= 0;
}

static zero_status prepare_cut_head(zero_context *context, cut_head *h)
{
    const int32_t *target;
    ZERO_TRY(zr_lm_threads_check(context));
    lay_out_cut_head(context->unit, &context->shape, context->workspace, h);
    h->context = context;
    h->place = zr_exchange_place(context, h->place);
    ZERO_TRY(zr_lm_ids(context, 1, true, &target));
    take_targets(h, target);
    context->values->loss_factor = (float)zero_loss_factor(context, h->counted);
    return ZERO_OK;
}

// Computes the norm of all rows: each rank its own rows if they are divided, which are then
// gathered.
static zero_status norm_rows(cut_head *h, const void *x, zr_norm_statistics statistics)
{
    zr_queue *queue = h->context->queue;
    const zr_division *division = &h->division;
    int64_t bytes = h->rows * h->width * (int64_t)zero_dtype_bytes(h->dtype);
    bool divided = division->by_rows;
    zr_norm_forward(h->context, &h->norm, x, NULL, NULL,
                    divided ? zr_division_own(division, h->dtype, h->place) : h->normed,
                    statistics);
    ZERO_TRY(zr_division_gather(h->context, division, h->dtype));
    if (divided)
        zr_run(queue, zr_op_copy(&(zr_bytes){bytes}, h->place, h->normed));
    return ZERO_OK;
}

static void *normed_rows(const cut_head *h)
{
    return (char *)h->normed + h->first * h->width * (int64_t)zero_dtype_bytes(h->dtype);
}

// Returns the parts of a slice in this chunk, among those of all ranks.
static zr_loss_part *parts_at(const cut_head *h, int slice)
{
    return (zr_loss_part *)(void *)(h->place + h->parts) + slice * h->count;
}

static zr_loss loss_of_slice(const cut_head *h, int slice, bool gradient)
{
    return (zr_loss){.dtype = h->dtype,
                     .rows = h->count,
                     .vocab = h->slice[slice].tokens,
                     .gradient = gradient,
                     .slices = h->slices->count,
                     .stride = h->count};
}

static zero_status compute_loss_parts(cut_head *h, int slice)
{
    zr_queue *queue = h->context->queue;
    const void *table = zr_tensor_values(h->context, zr_lm_tensor(h->hyper, slice, ZR_LM_TABLE), 0);
    const zr_product product =
        zr_head_product(h->hyper, h->dtype, h->count, h->slice[slice].tokens);
    const zr_loss loss = loss_of_slice(h, slice, false);
    void *logits = h->slice[slice].logits;
    if (loss.vocab > 0)
        zr_run(queue, zr_op_product(&product, normed_rows(h), table, NULL, logits));
    zr_run(queue, zr_op_loss_parts(&loss, h->slice[slice].target + h->first, logits,
                                   parts_at(h, zr_slices_first(h->slices) + slice)));
    return ZERO_OK;
}

static zero_status chunk_losses(cut_head *h, bool gradient)
{
    zr_queue *queue = h->context->queue;
    const zero_exchange exchange = loss_parts_exchange(h, h->count, 1, gradient);
    for (int i = 0; i < h->here; i++)
        ZERO_TRY(compute_loss_parts(h, i));
    ZERO_TRY(zr_exchange(h->context, &exchange, h->parts));
    for (int i = 0; i < h->here; i++) {
        const zr_loss loss = loss_of_slice(h, i, gradient);
        zr_run(queue, zr_op_loss_finish(&loss, parts_at(h, 0), h->slice[i].target + h->first,
                                        &h->context->values->loss_factor, h->slice[i].logits,
                                        h->row_loss + h->first));
    }
    return ZERO_OK;
}

static zero_status table_backward(cut_head *h, int slice)
{
    zr_queue *queue = h->context->queue;
    zr_product product =
        zr_head_product_weight(h->hyper, h->dtype, h->count, h->slice[slice].tokens);
    int add = 0;
    if (h->slice[slice].tokens == 0)
        return ZERO_OK;
    float *d_table =
        zr_tensor_gradient(h->context, zr_lm_tensor(h->hyper, slice, ZR_LM_TABLE), 0, &add);
    product.add = add || h->first > 0;
    if (d_table)
        zr_run(queue,
               zr_op_product(&product, h->slice[slice].logits, normed_rows(h), NULL, d_table));
    return ZERO_OK;
}

static zero_status input_of_slice(void *user, int slice, float *out)
{
    cut_head *h = user;
    zr_queue *queue = h->context->queue;
    const void *table = zr_tensor_values(h->context, zr_lm_tensor(h->hyper, slice, ZR_LM_TABLE), 0);
    const zr_product product =
        zr_head_product_sum(h->hyper, h->dtype, h->count, h->slice[slice].tokens);
    if (product.k == 0) {
        zr_run(queue, zr_op_zero(&(zr_bytes){h->count * h->width * (int64_t)sizeof *out}, out));
        return ZERO_OK;
    }
    zr_run(queue, zr_op_product(&product, h->slice[slice].logits, table, NULL, out));
    return ZERO_OK;
}

static zero_status chunk_backward(cut_head *h)
{
    float *dx = (float *)(void *)h->place + h->first * h->width;
    for (int i = 0; i < h->here; i++)
        ZERO_TRY(table_backward(h, i));
    return zr_slices_add(h->context, h->slices, h->count * h->width, input_of_slice, h, dx,
                         h->spare);
}

static zero_status run_chunks(cut_head *h, bool gradient)
{
    for (h->first = 0; h->first < h->rows; h->first += h->count) {
        h->count = ZR_MIN(h->chunk, h->rows - h->first);
        ZERO_TRY(chunk_losses(h, gradient));
        if (gradient)
            ZERO_TRY(chunk_backward(h));
    }
    zr_head_report(h->context, h->rows, h->counted, h->row_loss);
    return ZERO_OK;
}

zero_status zr_cut_head_forward(zero_context *context, const void *x)
{
    cut_head h;
    ZERO_TRY(prepare_cut_head(context, &h));
    ZERO_TRY(norm_rows(&h, x, (zr_norm_statistics){0}));
    return run_chunks(&h, false);
}

zero_status zr_cut_head_forward_backward(zero_context *context, const void *x, void *dx)
{
    zr_queue *queue = context->queue;
    cut_head h;
    float *sum;
    ZERO_TRY(prepare_cut_head(context, &h));
    ZERO_TRY(norm_rows(&h, x, h.statistics));
    ZERO_TRY(run_chunks(&h, true));
    ZERO_TRY(zr_division_reduce(context, &h.division, h.place, &sum));
    zr_run(queue,
           zr_op_convert(
               &(zr_conversion){.from = ZERO_F32, .to = h.dtype, .n = h.division.own * h.width},
               sum, h.dy));
    const zr_norm_gradient gradient = {.dy = h.dy, .x = x, .statistics = h.statistics, .dx = dx};
    zr_norm_backward_sliced(context, &h.norm, &h.division, &gradient, &h.gains, h.partials,
                            h.scratch);
    return zr_gains_finish(context, h.slices, &h.gains, h.place);
}
