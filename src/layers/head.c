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
// rows.
#include "compute/compute.h"
#include "layers/lm_units.h"

// Bytes of logits in a chunk, unless that would be fewer than CHUNK_ROWS_MIN rows; each chunk reads
// the table anew.
#define LOGIT_BYTES (32 << 20)
#define CHUNK_ROWS_MIN 64  // products narrower than this waste the machine
#define CHUNK_ROWS_STEP 16 // chunks start 64-byte aligned in every array over rows

typedef struct head {
    zero_context *context;
    const zr_lm_unit *hyper;
    const zr_tensor_handle *table;
    int64_t vocab, width;
    int64_t rows, chunk;
    zr_norm_layer norm;
    zr_norm_statistics statistics; // (rows)
    zero_dtype dtype;
    void *normed;          // (rows, C); its gradient, once a chunk is done
    float *row_loss;       // (rows)
    void *logits;          // (chunk, V); tiled: (rows, V)
    void *columns;         // tiled: (chunk, tile) of logits, dense
    float *dx;             // tiled: (rows, C)
    void *scratch;         // of the norm's backward
    const int32_t *target; // (rows)
    int64_t counted;       // rows whose target is not negative
} head;

zr_norm_layer zr_head_norm(const zr_lm_unit *of, zero_dtype dtype, int64_t rows)
{
    return zr_lm_norm(of, dtype, rows, &of->tensor[ZR_LM_GAIN], &of->tensor[ZR_LM_BIAS]);
}

zr_product zr_head_product(const zr_lm_unit *of, zero_dtype dtype, int64_t rows, int64_t tokens)
{
    return (zr_product){.dtype = dtype,
                        .out = dtype,
                        .m = rows,
                        .n = tokens,
                        .k = of->shape.width,
                        .trans_b = true};
}

// dx = dlogits table
static zr_product product_input(const zr_lm_unit *of, zero_dtype dtype, int64_t rows)
{
    return (zr_product){
        .dtype = dtype, .out = dtype, .m = rows, .n = of->shape.width, .k = of->shape.vocab};
}

zr_product zr_head_product_sum(const zr_lm_unit *of, zero_dtype dtype, int64_t rows, int64_t tokens)
{
    return (zr_product){
        .dtype = dtype, .out = ZERO_F32, .m = rows, .n = of->shape.width, .k = tokens};
}

zr_product zr_head_product_weight(const zr_lm_unit *of, zero_dtype dtype, int64_t rows,
                                  int64_t tokens)
{
    return (zr_product){.dtype = dtype,
                        .out = ZERO_F32,
                        .m = tokens,
                        .n = of->shape.width,
                        .k = rows,
                        .trans_a = true};
}

int64_t zr_head_chunk_rows(const zr_lm_unit *of, zero_dtype dtype, int64_t rows)
{
    int64_t most =
        ZR_MAX(LOGIT_BYTES / (int64_t)zero_dtype_bytes(dtype) / of->shape.vocab, CHUNK_ROWS_MIN);
    int64_t chunks = (rows + most - 1) / most;
    int64_t even = (rows + chunks - 1) / chunks;
    return ZR_MIN(ZR_ROUND_UP(even, (int64_t)CHUNK_ROWS_STEP), rows);
}

static bool is_tiled(const head *h) { return h->table->tiles > 1; }

static size_t head_lay_out(const zero_unit *unit, const zero_shape *shape, void *workspace, head *h)
{
    const zr_lm_unit *of = zr_lm_unit_at(unit);
    zr_carver carver = {.base = workspace};
    int64_t rows = shape->batch * shape->seq;
    zero_dtype dtype = shape->dtype;
    *h = (head){.hyper = of,
                .table = zr_lm_table(of),
                .vocab = of->shape.vocab,
                .width = of->shape.width,
                .dtype = dtype,
                .rows = rows,
                .chunk = zr_head_chunk_rows(of, dtype, rows),
                .norm = zr_head_norm(of, dtype, rows)};
    h->statistics.mean = zr_carve_floats(&carver, rows);
    h->statistics.rstd = zr_carve_floats(&carver, rows);
    h->normed = zr_carve_as(&carver, dtype, rows * h->width);
    h->row_loss = zr_carve_floats(&carver, rows);
    h->logits = zr_carve_as(&carver, dtype, (is_tiled(h) ? rows : h->chunk) * h->vocab);
    if (is_tiled(h)) {
        h->columns = zr_carve_as(&carver, dtype, h->chunk * h->table->step);
        h->dx = zr_carve_floats(&carver, rows * h->width);
    }
    h->scratch = zr_carve(&carver, zr_scratch_norm(shape->threads, &h->norm.norm));
    return carver.used;
}

static void append_head_chunk_products(const head *h, int64_t rows, int64_t tokens, int calls,
                                       zero_unit_sizes *sizes)
{
    const zr_product logits = zr_head_product(h->hyper, h->dtype, rows, tokens);
    const zr_product weight = zr_head_product_weight(h->hyper, h->dtype, rows, tokens);
    const zr_product input = is_tiled(h) ? zr_head_product_sum(h->hyper, h->dtype, rows, tokens)
                                         : product_input(h->hyper, h->dtype, rows);
    zr_product_append(sizes, &logits, calls);
    if (h->table->trains)
        zr_product_append(sizes, &weight, calls);
    zr_product_append(sizes, &input, calls);
}

// Appends the chunks of all tiles but the last, and those of the last, which is smaller.
static void append_head_tile_products(const head *h, int64_t rows, int calls,
                                      zero_unit_sizes *sizes)
{
    int last = h->table->tiles - 1;
    if (last > 0)
        append_head_chunk_products(h, rows, zr_lm_tile_tokens(h->hyper, 0), calls * last, sizes);
    append_head_chunk_products(h, rows, zr_lm_tile_tokens(h->hyper, last), calls, sizes);
}

static zero_status head_sizes(const zero_unit *unit, const zero_shape *shape,
                              const zero_tensors *in, zero_unit_sizes *out)
{
    head h;
    ZERO_TRY(zr_lm_shape_check(zr_lm_unit_at(unit), shape, NULL));
    *out = (zero_unit_sizes){.saved_bytes = 0};
    if (zr_lm_is_cut(zr_lm_unit_at(unit)))
        return zr_cut_head_sizes(unit, shape, out);
    out->workspace_bytes = head_lay_out(unit, shape, NULL, &h);
    zr_norm_read_in_backward(&h.norm, out);
    zr_tensor_read_in_backward(h.table, out);
    append_head_tile_products(&h, h.chunk, (int)(h.rows / h.chunk), out);
    if (h.rows % h.chunk)
        append_head_tile_products(&h, h.rows % h.chunk, 1, out);
    return ZERO_OK;
}

static zero_status prepare_head(zero_context *context, head *h)
{
    ZERO_TRY(zr_lm_threads_check(context));
    head_lay_out(context->unit, &context->shape, context->workspace, h);
    h->context = context;
    ZERO_TRY(zr_lm_ids(context, 1, true, &h->target));
    for (int64_t row = 0; row < h->rows; row++)
        h->counted += h->target[row] >= 0;
    context->values->loss_factor = (float)zero_loss_factor(context, h->counted);
    return ZERO_OK;
}

static void *normed_row(const head *h, int64_t row)
{
    return (char *)h->normed + row * h->width * (int64_t)zero_dtype_bytes(h->dtype);
}

static zr_loss loss_of_rows(const head *h, int64_t rows, bool gradient)
{
    return (zr_loss){.dtype = h->dtype, .rows = rows, .vocab = h->vocab, .gradient = gradient};
}

// Computes the logits of rows [first, first+rows), and then their losses or gradients.
static zero_status chunk_forward(head *h, int64_t first, int64_t rows, bool gradient)
{
    zr_queue *queue = h->context->queue;
    const void *x = normed_row(h, first), *table = zr_tensor_values(h->context, h->table, 0);
    const zr_product product = zr_head_product(h->hyper, h->dtype, rows, h->vocab);
    const zr_loss loss = loss_of_rows(h, rows, gradient);
    zr_run(queue, zr_op_product(&product, x, table, NULL, h->logits));
    zr_run(queue, zr_op_loss(&loss, h->target + first, &h->context->values->loss_factor, h->logits,
                             h->row_loss + first));
    return ZERO_OK;
}

// d_table is NULL if the table does not train.
static zero_status chunk_backward(head *h, int64_t first, int64_t rows, float *d_table, bool add)
{
    zr_queue *queue = h->context->queue;
    void *x = normed_row(h, first);
    const void *table = zr_tensor_values(h->context, h->table, 0);
    zr_product weight = zr_head_product_weight(h->hyper, h->dtype, rows, h->vocab),
               input = product_input(h->hyper, h->dtype, rows);
    weight.add = add;
    if (d_table)
        zr_run(queue, zr_op_product(&weight, h->logits, x, NULL, d_table));
    zr_run(queue, zr_op_product(&input, h->logits, table, NULL, x));
    return ZERO_OK;
}

void zr_head_report(const zero_context *context, int64_t rows, int64_t counted,
                    const float *row_loss)
{
    double sum = 0;
    for (int64_t row = 0; row < rows; row++)
        sum += row_loss[row];
    if (context->loss)
        *context->loss = counted ? sum / (double)counted : 0;
}

static void loss_report(const head *h)
{
    zr_head_report(h->context, h->rows, h->counted, h->row_loss);
}

// Returns the place of the logits of tile t and rows [first, first+rows).
static char *logits_at(const head *h, int tile, int64_t first)
{
    return (char *)h->logits +
           (first * h->vocab + tile * h->table->step) * (int64_t)zero_dtype_bytes(h->dtype);
}

static zero_status tile_logits(head *h, int tile)
{
    zr_queue *queue = h->context->queue;
    const void *table = zr_tensor_values(h->context, h->table, tile);
    int64_t size = (int64_t)zero_dtype_bytes(h->dtype), tokens = zr_lm_tile_tokens(h->hyper, tile),
            vocab = h->vocab;
    for (int64_t first = 0, rows; first < h->rows; first += rows) {
        rows = ZR_MIN(h->chunk, h->rows - first);
        const zr_product product = zr_head_product(h->hyper, h->dtype, rows, tokens);
        zr_run(queue, zr_op_product(&product, normed_row(h, first), table, NULL, h->columns));
        zr_run(queue, zr_op_copy_rows(&(zr_strided){.rows = rows,
                                                    .bytes = tokens * size,
                                                    .from_stride = tokens * size,
                                                    .to_stride = vocab * size},
                                      h->columns, logits_at(h, tile, first)));
    }
    return ZERO_OK;
}

static zero_status tile_backward(head *h, int tile)
{
    zr_queue *queue = h->context->queue;
    int add = 0;
    const void *table = zr_tensor_values(h->context, h->table, tile);
    float *d_table = zr_tensor_gradient(h->context, h->table, tile, &add);
    int64_t size = (int64_t)zero_dtype_bytes(h->dtype), tokens = zr_lm_tile_tokens(h->hyper, tile),
            vocab = h->vocab;
    for (int64_t first = 0, rows; first < h->rows; first += rows) {
        rows = ZR_MIN(h->chunk, h->rows - first);
        zr_product weight = zr_head_product_weight(h->hyper, h->dtype, rows, tokens),
                   input = zr_head_product_sum(h->hyper, h->dtype, rows, tokens);
        weight.add = add || first;
        input.add = tile + 1 < h->table->tiles;
        zr_run(queue, zr_op_copy_rows(&(zr_strided){.rows = rows,
                                                    .bytes = tokens * size,
                                                    .from_stride = vocab * size,
                                                    .to_stride = tokens * size},
                                      logits_at(h, tile, first), h->columns));
        if (d_table)
            zr_run(queue, zr_op_product(&weight, h->columns, normed_row(h, first), NULL, d_table));
        zr_run(queue, zr_op_product(&input, h->columns, table, NULL, h->dx + first * h->width));
    }
    return ZERO_OK;
}

static zero_status tiles_forward(head *h, bool gradient)
{
    const zr_tensor_handle *table = h->table;
    const zr_loss loss = loss_of_rows(h, h->rows, gradient);
    for (int t = 0; t < table->tiles; t++) {
        ZERO_TRY(zr_tensor_acquire(h->context, table, t));
        ZERO_TRY(tile_logits(h, t));
        ZERO_TRY(zr_tensor_release(h->context, table, t));
    }
    zr_run(h->context->queue,
           zr_op_loss(&loss, h->target, &h->context->values->loss_factor, h->logits, h->row_loss));
    return ZERO_OK;
}

static zero_status tiles_backward(head *h)
{
    const zr_tensor_handle *table = h->table;
    for (int t = table->tiles - 1; t >= 0; t--) {
        ZERO_TRY(zr_tensor_acquire(h->context, table, t));
        ZERO_TRY(tile_backward(h, t));
        ZERO_TRY(zr_tensor_release(h->context, table, t));
    }
    zr_run(
        h->context->queue,
        zr_op_convert(&(zr_conversion){.from = ZERO_F32, .to = h->dtype, .n = h->rows * h->width},
                      h->dx, h->normed));
    return ZERO_OK;
}

static zero_status chunks_forward(head *h)
{
    for (int64_t first = 0; first < h->rows; first += h->chunk)
        ZERO_TRY(chunk_forward(h, first, ZR_MIN(h->chunk, h->rows - first), false));
    return ZERO_OK;
}

static zero_status chunks_forward_backward(head *h)
{
    int add = 0;
    float *d_table = zr_tensor_gradient(h->context, h->table, 0, &add);
    for (int64_t first = 0; first < h->rows; first += h->chunk) {
        int64_t rows = ZR_MIN(h->chunk, h->rows - first);
        ZERO_TRY(chunk_forward(h, first, rows, true));
        ZERO_TRY(chunk_backward(h, first, rows, d_table, add || first));
    }
    return ZERO_OK;
}

static zero_status head_forward(zero_context *context, const zero_tensors *in,
                                const zero_tensors *out)
{
    head h;
    if (zr_lm_is_cut(zr_lm_unit_at(context->unit)))
        return zr_cut_head_forward(context, in->at[0].data);
    ZERO_TRY(prepare_head(context, &h));
    zr_norm_forward(context, &h.norm, in->at[0].data, NULL, NULL, h.normed,
                    (zr_norm_statistics){0});
    ZERO_TRY(is_tiled(&h) ? tiles_forward(&h, false) : chunks_forward(&h));
    loss_report(&h);
    return ZERO_OK;
}

static zero_status head_forward_backward(zero_context *context, const zero_tensors *in,
                                         const zero_tensors *d_in)
{
    const void *x = in->at[0].data;
    head h;
    if (zr_lm_is_cut(zr_lm_unit_at(context->unit)))
        return zr_cut_head_forward_backward(context, x, d_in->at[0].data);
    ZERO_TRY(prepare_head(context, &h));
    zr_norm_forward(context, &h.norm, x, NULL, NULL, h.normed, h.statistics);
    if (is_tiled(&h)) {
        ZERO_TRY(tiles_forward(&h, true));
        ZERO_TRY(tiles_backward(&h));
    } else {
        ZERO_TRY(chunks_forward_backward(&h));
    }
    loss_report(&h);
    const zr_norm_gradient gradient = {
        .dy = h.normed, .x = x, .statistics = h.statistics, .dx = d_in->at[0].data};
    zr_norm_backward(context, &h.norm, &gradient, h.scratch);
    return ZERO_OK;
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
    .forward = head_forward,
    .backward = head_backward,
    .forward_backward = head_forward_backward,
};
