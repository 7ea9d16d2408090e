// The head: final norm, logits against the token table, and mean cross-entropy, in chunks of rows
// so that the full logits never exist.
//
//   for each chunk:
//       logits = x table^T;  losses of the rows;  logits become their gradient
//       dtable += dlogits^T x;  x becomes dx = dlogits table
//
// If the table is tiled, it comes in tiles of its rows. Then all logits are stored, tile by tile;
// then the losses of the rows follow; then the gradients, tile by tile.
//
//   for each tile, for each chunk:
//       logits[:, tile] = x table_tile^T
// for all rows together:
//       losses of the rows;  logits become their gradient
//   for each tile, last first, for each chunk:
//       dtable_tile += dlogits[:, tile]^T x;  dx += dlogits[:, tile] table_tile, fp32
//
// Nothing is saved from forward to backward: backward runs the chunks again, forward_backward runs
// them once.
// The loss is the mean over the rows whose target is not negative, summed in double in the order of
// rows. A loss of preferences (layers/preference.h) is a function of the losses of all rows, from
// which the weight of each row's gradient follows: the chunks run twice, first for their losses.
#include "layers/head.h"

// Bytes of logits in a chunk, unless that would be fewer than CHUNK_ROWS_MIN rows; each chunk reads
// the table anew.
#define LOGIT_BYTES (32 << 20) // on the host
#define CHUNK_ROWS_MIN 64      // products narrower than this waste the machine
#define CHUNK_ROWS_STEP 16     // chunks start 64-byte aligned in every array over rows

zr_norm_layer zr_head_norm(const zr_lm_unit *of, zero_dtype dtype, int64_t rows)
{
    return zr_lm_norm(of, dtype, rows, &of->tensor[ZR_LM_GAIN], &of->tensor[ZR_LM_BIAS]);
}

zr_product zr_logits_product(const zr_lm_unit *of, zero_dtype dtype, int64_t rows, int64_t tokens)
{
    return (zr_product){.dtype = dtype,
                        .out = dtype,
                        .m = rows,
                        .n = tokens,
                        .k = of->shape.width,
                        .trans_b = true};
}

zr_product zr_head_product(const zr_head *h, int64_t rows, int64_t tokens)
{
    zr_product product = zr_logits_product(h->hyper, h->dtype, rows, tokens);
    product.d_step = zr_head_step(h, tokens);
    return product;
}

zr_product zr_head_product_sum(const zr_head *h, int64_t rows, int64_t tokens)
{
    return (zr_product){.dtype = h->dtype,
                        .out = ZERO_F32,
                        .m = rows,
                        .n = h->width,
                        .k = tokens,
                        .a_step = zr_head_step(h, tokens)};
}

zr_product zr_head_product_weight(const zr_head *h, int64_t rows, int64_t tokens)
{
    return (zr_product){.dtype = h->dtype,
                        .out = ZERO_F32,
                        .m = tokens,
                        .n = h->width,
                        .k = rows,
                        .trans_a = true,
                        .a_step = zr_head_step(h, tokens)};
}

// dx = dlogits table, rounded: of a vocabulary that is whole
static zr_product product_input(const zr_head *h, int64_t rows)
{
    zr_product product = zr_head_product_sum(h, rows, h->hyper->shape.outputs);
    product.out = h->dtype;
    return product;
}

// Returns the rows of a chunk: as many as the backend's bytes hold of the whole vocabulary's
// logits, then divided evenly among the chunks.
static int64_t chunk_rows(const zr_lm_unit *of, const zr_backend *backend, zero_dtype dtype,
                          int64_t rows)
{
    int64_t bytes = zr_backend_is_far(backend) ? backend->logit_bytes : LOGIT_BYTES;
    int64_t most =
        ZR_MAX(bytes / (int64_t)zero_dtype_bytes(dtype) / of->shape.outputs, CHUNK_ROWS_MIN);
    int64_t chunks = (rows + most - 1) / most;
    int64_t even = (rows + chunks - 1) / chunks;
    return ZR_MIN(ZR_ROUND_UP(even, (int64_t)CHUNK_ROWS_STEP), rows);
}

static bool is_cut(const zr_head *h) { return zr_lm_is_cut(h->hyper); }

static bool is_tiled(const zr_head *h) { return !is_cut(h) && h->table->tiles > 1; }

static size_t head_lay_out(const zero_unit *unit, const zr_backend *backend,
                           const zero_shape *shape, void *workspace, zr_head *h)
{
    const zr_lm_unit *of = zr_lm_unit_at(unit);
    zr_carver carver = {.base = workspace};
    int64_t rows = shape->batch * shape->seq;
    zero_dtype dtype = shape->dtype;
    *h = (zr_head){.hyper = of,
                   .division = zr_division_of(of, rows, false),
                   .table = zr_lm_table(of),
                   .slices = &of->slices,
                   .width = of->shape.width,
                   .dtype = dtype,
                   .rows = rows,
                   .chunk = chunk_rows(of, backend, dtype, rows),
                   .step = backend && backend->logit_step ? backend->logit_step : 1,
                   .preference = of->config.preference.kind ? &of->config.preference : NULL};
    h->norm = zr_head_norm(of, dtype, h->division.own);
    h->statistics.mean = zr_carve_floats(&carver, h->division.own);
    h->statistics.rstd = zr_carve_floats(&carver, h->division.own);
    h->normed = zr_carve_as(&carver, dtype, rows * h->width);
    h->dy = h->normed;
    h->row_loss = zr_carve_floats(&carver, rows);
    h->weight = h->preference ? zr_carve_floats(&carver, rows) : NULL;
    if (is_cut(h))
        zr_cut_head_carve(h, &carver);
    else
        h->logits = zr_carve_as(
            &carver, dtype, (is_tiled(h) ? rows : h->chunk) * zr_head_step(h, of->shape.outputs));
    if (is_tiled(h)) {
        h->columns = zr_carve_as(&carver, dtype, h->chunk * zr_head_step(h, h->table->step));
        h->dx = zr_carve_floats(&carver, rows * h->width);
    }
    h->scratch = zr_carve(&carver, zr_scratch_norm(backend, shape->threads, &h->norm.norm));
    return carver.used;
}

bool zr_head_computes_twice(const zr_head *h)
{
    return h->preference && !is_tiled(h) && h->chunk < h->rows;
}

const float *zr_head_weights(const zr_head *h) { return h->weight ? h->weight + h->first : NULL; }

void zr_head_list_products(const zr_head *h, const zr_tensor_handle *table, int64_t rows,
                           int64_t tokens, const zr_product *input, int calls,
                           zero_unit_sizes *sizes)
{
    const zr_product logits = zr_head_product(h, rows, tokens),
                     weight = zr_head_product_weight(h, rows, tokens);
    zr_product_append(sizes, &logits, zr_head_computes_twice(h) ? 2 * calls : calls, false);
    if (table->trains)
        zr_product_append(sizes, &weight, calls, false);
    zr_product_append(sizes, input, calls, false);
}

// Lists the chunks of all tiles but the last, and those of the last, which is smaller.
static void list_tile_products(const zr_head *h, int64_t rows, int calls, zero_unit_sizes *sizes)
{
    int last = h->table->tiles - 1;
    for (int t = last > 0 ? 0 : last; t <= last; t += ZR_MAX(last, 1)) {
        int64_t tokens = zr_lm_tile_tokens(h->hyper, t);
        const zr_product input =
            is_tiled(h) ? zr_head_product_sum(h, rows, tokens) : product_input(h, rows);
        zr_head_list_products(h, h->table, rows, tokens, &input, t < last ? calls * last : calls,
                              sizes);
    }
}

static zero_status head_sizes_on(const zero_unit *unit, const zr_backend *backend,
                                 const zero_shape *shape, const zero_tensors *in,
                                 zero_unit_sizes *out)
{
    zr_head h;
    ZERO_TRY(zr_lm_shape_check(zr_lm_unit_at(unit), shape, NULL));
    *out = (zero_unit_sizes){.saved_bytes = 0};
    out->workspace_bytes = head_lay_out(unit, backend, shape, NULL, &h);
    zr_norm_read_in_backward(&h.norm, out);
    if (is_cut(&h)) {
        zr_cut_head_sizes(&h, out);
        return ZERO_OK;
    }
    zr_tensor_read_in_backward(h.table, out);
    list_tile_products(&h, h.chunk, (int)(h.rows / h.chunk), out);
    if (h.rows % h.chunk)
        list_tile_products(&h, h.rows % h.chunk, 1, out);
    return ZERO_OK;
}

static zero_status head_sizes(const zero_unit *unit, const zero_shape *shape,
                              const zero_tensors *in, zero_unit_sizes *out)
{
    return head_sizes_on(unit, NULL, shape, in, out);
}

// Lays out a call, and computes the norm of all rows: each rank its own rows if they are divided,
// which are then gathered.
static zero_status begin(zero_context *context, const void *x, bool gradient, zr_head *h)
{
    ZERO_TRY(zr_lm_threads_check(context));
    head_lay_out(context->unit, context->queue->backend, &context->shape, context->workspace, h);
    const zr_division *division = &h->division;
    const zr_bytes all = {h->rows * h->width * (int64_t)zero_dtype_bytes(h->dtype)};
    zr_batch_ids targets;
    h->context = context;
    h->backward = gradient;
    h->place = zr_exchange_place(context, h->place);
    ZERO_TRY(zr_lm_ids(context, 1, true, &targets));
    h->target = targets.ids;
    h->host_target = targets.host;
    for (int64_t row = 0; row < h->rows; row++)
        h->counted += targets.host[row] >= 0;
    ZERO_TRY(gradient ? ZERO_OK : zr_head_find_scores(h));
    if (is_cut(h))
        zr_cut_head_take_targets(h);
    context->values->targets = (double)h->counted;
    if (!h->preference)
        context->values->loss_factor = (float)zero_loss_factor(context, h->counted);
    zr_norm_forward(context, &h->norm, x, NULL, NULL,
                    division->by_rows ? zr_division_own(division, h->dtype, h->place) : h->normed,
                    gradient ? h->statistics : (zr_norm_statistics){0});
    ZERO_TRY(zr_division_gather(context, division, h->dtype));
    if (division->by_rows)
        zr_run(context->queue, zr_op_copy(&all, h->place, h->normed));
    return ZERO_OK;
}

void *zr_head_normed_rows(const zr_head *h)
{
    return (char *)h->normed + h->first * h->width * (int64_t)zero_dtype_bytes(h->dtype);
}

static zr_loss loss_of_rows(const zr_head *h, int64_t rows, bool gradient)
{
    return (zr_loss){.dtype = h->dtype,
                     .rows = rows,
                     .vocab = h->hyper->shape.outputs,
                     .gradient = gradient,
                     .step = zr_head_step(h, h->hyper->shape.outputs)};
}

// Computes the losses of the current chunk of a whole vocabulary and, if `gradient`, the gradients
// from them. The gradient of the norm's output takes its place.
static void whole_chunk(zr_head *h, bool gradient)
{
    zr_queue *queue = h->context->queue;
    void *x = zr_head_normed_rows(h);
    const void *table = zr_tensor_values(h->context, h->table, 0);
    const zr_loss loss = loss_of_rows(h, h->count, gradient);
    const zr_product logits = zr_head_product(h, h->count, loss.vocab),
                     input = product_input(h, h->count);
    zr_product weight = zr_head_product_weight(h, h->count, loss.vocab);
    int add = 0;
    if (!h->kept)
        zr_run(queue, zr_op_product(&logits, x, table, NULL, h->logits));
    zr_run(queue, zr_op_loss(&loss, h->target + h->first, &h->context->values->loss_factor,
                             zr_head_weights(h), h->logits, h->row_loss + h->first));
    if (!gradient) {
        zr_head_keep_scores(h, h->logits, 0, loss.vocab);
        return;
    }
    float *d_table = zr_tensor_gradient(h->context, h->table, 0, &add);
    weight.add = add || h->first > 0;
    if (d_table)
        zr_run(queue, zr_op_product(&weight, h->logits, x, NULL, d_table));
    zr_run(queue, zr_op_product(&input, h->logits, table, NULL, x));
}

// Sets the rows of the next chunk; returns whether there is one. Chunks begin with h->count = 0.
static bool next_chunk(zr_head *h)
{
    h->first = h->count ? h->first + h->count : 0;
    h->count = ZR_MIN(h->chunk, h->rows - h->first);
    return h->count > 0;
}

// Copies the logits of the current chunk and a tile from or to columns of their own.
static void copy_logits(const zr_head *h, int tile, bool from_columns)
{
    int64_t size = (int64_t)zero_dtype_bytes(h->dtype),
            row = zr_head_step(h, h->hyper->shape.outputs),
            tokens = zr_lm_tile_tokens(h->hyper, tile), step = zr_head_step(h, tokens);
    char *logits = (char *)h->logits + (h->first * row + tile * h->table->step) * size;
    zr_columns_copy(h->context->queue, h->count, tokens * size, from_columns ? h->columns : logits,
                    (from_columns ? step : row) * size, from_columns ? logits : h->columns,
                    (from_columns ? row : step) * size);
}

static void tile_logits(zr_head *h, int tile)
{
    const void *table = zr_tensor_values(h->context, h->table, tile);
    int64_t tokens = zr_lm_tile_tokens(h->hyper, tile);
    for (h->count = 0; next_chunk(h);) {
        const zr_product product = zr_head_product(h, h->count, tokens);
        zr_run(h->context->queue,
               zr_op_product(&product, zr_head_normed_rows(h), table, NULL, h->columns));
        copy_logits(h, tile, true);
    }
}

static void tile_backward(zr_head *h, int tile)
{
    zr_queue *queue = h->context->queue;
    int add = 0;
    const void *table = zr_tensor_values(h->context, h->table, tile);
    float *d_table = zr_tensor_gradient(h->context, h->table, tile, &add);
    int64_t tokens = zr_lm_tile_tokens(h->hyper, tile);
    for (h->count = 0; next_chunk(h);) {
        zr_product weight = zr_head_product_weight(h, h->count, tokens),
                   input = zr_head_product_sum(h, h->count, tokens);
        weight.add = add || h->first > 0;
        input.add = tile + 1 < h->table->tiles;
        copy_logits(h, tile, false);
        if (d_table)
            zr_run(queue,
                   zr_op_product(&weight, h->columns, zr_head_normed_rows(h), NULL, d_table));
        zr_run(queue, zr_op_product(&input, h->columns, table, NULL, h->dx + h->first * h->width));
    }
}

// Computes the losses of all rows, whose logits are stored, and, if `gradient`, the gradients.
static zero_status tiled_losses(zr_head *h, bool gradient)
{
    zr_queue *queue = h->context->queue;
    const float *factor = &h->context->values->loss_factor;
    const zr_loss loss = loss_of_rows(h, h->rows, gradient),
                  before = loss_of_rows(h, h->rows, false);
    if (h->preference) {
        zr_run(queue, zr_op_loss(&before, h->target, NULL, NULL, h->logits, h->row_loss));
        ZERO_TRY(zr_head_prefer(h));
    }
    if (gradient || !h->preference)
        zr_run(queue, zr_op_loss(&loss, h->target, factor, h->weight, h->logits, h->row_loss));
    return ZERO_OK;
}

static zero_status run_tiles(zr_head *h, bool gradient)
{
    zr_queue *queue = h->context->queue;
    const zr_tensor_handle *table = h->table;
    for (int t = 0; t < table->tiles; t++) {
        ZERO_TRY(zr_tensor_acquire(h->context, table, t));
        tile_logits(h, t);
        ZERO_TRY(zr_tensor_release(h->context, table, t));
    }
    ZERO_TRY(tiled_losses(h, gradient));
    for (int t = gradient ? table->tiles - 1 : -1; t >= 0; t--) {
        ZERO_TRY(zr_tensor_acquire(h->context, table, t));
        tile_backward(h, t);
        ZERO_TRY(zr_tensor_release(h->context, table, t));
    }
    if (gradient)
        zr_run(queue, zr_op_convert(&(zr_conversion){ZERO_F32, h->dtype, h->rows * h->width}, h->dx,
                                    h->normed));
    return ZERO_OK;
}

static zero_status run_chunks(zr_head *h, bool gradient)
{
    for (h->count = 0; next_chunk(h);)
        if (is_cut(h))
            ZERO_TRY(zr_cut_head_chunk(h, gradient));
        else
            whole_chunk(h, gradient);
    return gradient && is_cut(h) ? zr_cut_head_reduce(h) : ZERO_OK;
}

static zero_status run_preferred_chunks(zr_head *h, bool gradient)
{
    ZERO_TRY(run_chunks(h, false));
    ZERO_TRY(zr_head_prefer(h));
    h->kept = h->chunk == h->rows;
    return gradient ? run_chunks(h, true) : ZERO_OK;
}

// Computes the loss: the mean of the losses of the rows that count, or that of the preference.
static zero_status compute_loss(zr_head *h, bool gradient)
{
    ZERO_TRY(is_tiled(h)     ? run_tiles(h, gradient)
             : h->preference ? run_preferred_chunks(h, gradient)
                             : run_chunks(h, gradient));
    if (h->context->loss && !h->preference)
        zr_run(h->context->queue,
               zr_op_sum_rows(&(zr_row_sum){h->rows}, &h->context->values->targets, h->row_loss,
                              h->context->loss));
    return ZERO_OK;
}

static zero_status head_forward(zero_context *context, const zero_tensors *in,
                                const zero_tensors *out)
{
    zr_head h;
    ZERO_TRY(begin(context, in->at[0].data, false, &h));
    return compute_loss(&h, false);
}

static zero_status head_forward_backward(zero_context *context, const zero_tensors *in,
                                         const zero_tensors *d_in)
{
    const void *x = in->at[0].data;
    zr_head h;
    ZERO_TRY(begin(context, x, true, &h));
    ZERO_TRY(compute_loss(&h, true));
    const zr_norm_gradient gradient = {
        .dy = h.dy, .x = x, .statistics = h.statistics, .dx = d_in->at[0].data};
    zr_norm_backward(context, &h.norm, &h.division, &gradient, &h.gains, h.partials, h.scratch);
    return zr_gains_finish(context, h.slices, &h.gains, h.place);
}

static zero_status head_backward(zero_context *context, const zero_tensors *in,
                                 const zero_tensors *d_out, const zero_tensors *d_in)
{
    return head_forward_backward(context, in, d_in);
}

const zero_unit_ops zr_lm_head_ops = {
    .kind = "head",
    .dtypes = ZR_LAYER_DTYPES,
    .sizes = head_sizes,
    .sizes_on = head_sizes_on,
    .forward = head_forward,
    .backward = head_backward,
    .forward_backward = head_forward_backward,
};
