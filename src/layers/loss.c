// The head: final norm, logits against wte, mean cross-entropy, in chunks of rows so that the full logits never exist.
//
//   for each chunk:  logits = x wte^T;  row losses, logits become their gradient;  dwte += dlogits^T x;  x becomes dx = dlogits wte
//
// Nothing is saved from forward to backward: backward runs the chunks again; forward_backward runs them once.
// The loss is the mean over the rows whose target is not negative, summed in double in the order of rows.
#include "layers/gpt2_units.h"

#define LOGIT_BYTES (32 << 20) // of a chunk, where that leaves it CHUNK_ROWS_MIN rows: each chunk reads wte anew
#define CHUNK_ROWS_MIN 64      // products narrower than this waste the machine
#define CHUNK_ROWS_STEP 16     // chunks start 64-byte aligned in every array over rows

typedef struct head {
    zero_context *context;
    const zero_gpt2_config *config;
    int64_t rows, chunk;
    zr_layer_norm norm;
    float *mean, *rstd;   // (rows)
    zero_dtype dtype;
    void *normed;         // (rows, C); its gradient, once a chunk is through
    float *row_loss;      // (rows)
    void *logits;         // (chunk, V)
    void *scratch;        // of the norm's backward
    const int32_t *target; // (rows)
    int64_t counted;      // rows whose target is not negative
} head;

zr_layer_norm zr_head_norm(const zero_gpt2_config *config, zero_dtype dtype, int64_t rows)
{
    return (zr_layer_norm){.norm = {.dtype = dtype,
                                    .stream = zr_stream_dtype(dtype),
                                    .rows = rows,
                                    .width = config->n_embd,
                                    .epsilon = config->layer_norm_epsilon},
                           .piece = ZR_HEAD_NORM,
                           .weight = 0,
                           .bias = 1};
}

zr_product zr_head_product(const zero_gpt2_config *config, zero_dtype dtype, int64_t rows)
{
    return (zr_product){
        .dtype = dtype, .out = dtype, .m = rows, .n = config->vocab_size, .k = config->n_embd, .trans_b = true};
}

static zr_product product_input(const zero_gpt2_config *config, zero_dtype dtype, int64_t rows) // dx = dlogits wte
{
    return (zr_product){.dtype = dtype, .out = dtype, .m = rows, .n = config->n_embd, .k = config->vocab_size};
}

static zr_product product_weight(const zero_gpt2_config *config, zero_dtype dtype, int64_t rows) // dwte = dlogits^T x, fp32
{
    return (zr_product){
        .dtype = dtype, .out = ZERO_F32, .m = config->vocab_size, .n = config->n_embd, .k = rows, .trans_a = true};
}

// Rows a chunk: as many as LOGIT_BYTES hold, then evened out over the chunks that this takes.
static int64_t chunk_rows(const zero_gpt2_config *config, zero_dtype dtype, int64_t rows)
{
    int64_t most = ZR_MAX(LOGIT_BYTES / (int64_t)zero_dtype_bytes(dtype) / config->vocab_size, CHUNK_ROWS_MIN);
    int64_t chunks = (rows + most - 1) / most;
    int64_t even = (rows + chunks - 1) / chunks;
    return ZR_MIN(ZR_ROUND_UP(even, (int64_t)CHUNK_ROWS_STEP), rows);
}

static size_t head_lay_out(const zero_gpt2_config *config, const zero_shape *shape, void *workspace, head *h)
{
    zr_carver carver = {.base = workspace};
    int64_t rows = shape->batch * shape->seq;
    zero_dtype dtype = shape->dtype;
    *h = (head){.config = config,
                .dtype = dtype,
                .rows = rows,
                .chunk = chunk_rows(config, dtype, rows),
                .norm = zr_head_norm(config, dtype, rows)};
    h->mean = zr_carve_floats(&carver, rows);
    h->rstd = zr_carve_floats(&carver, rows);
    h->normed = zr_carve_as(&carver, dtype, rows * config->n_embd);
    h->row_loss = zr_carve_floats(&carver, rows);
    h->logits = zr_carve_as(&carver, dtype, h->chunk * config->vocab_size);
    h->scratch = zr_carve(&carver, zr_scratch_norm(shape->threads, &h->norm.norm));
    return carver.used;
}

static void chunk_products(const head *h, int64_t rows, int calls, zero_unit_sizes *sizes)
{
    const zr_product logits = zr_head_product(h->config, h->dtype, rows);
    const zr_product weight = product_weight(h->config, h->dtype, rows), input = product_input(h->config, h->dtype, rows);
    zr_product_append(sizes, &logits, calls);
    zr_product_append(sizes, &weight, calls);
    zr_product_append(sizes, &input, calls);
}

static zero_status head_sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                              zero_unit_sizes *out)
{
    const zero_gpt2_config *config = zr_gpt2_config_at(unit);
    head h;
    ZERO_TRY(zr_gpt2_shape_check(config, shape, NULL));
    *out = (zero_unit_sizes){.backward_reads = 1u << ZR_HEAD_NORM | 1u << ZR_HEAD_WTE};
    out->workspace_bytes = head_lay_out(config, shape, NULL, &h);
    chunk_products(&h, h.chunk, (int)(h.rows / h.chunk), out);
    if (h.rows % h.chunk)
        chunk_products(&h, h.rows % h.chunk, 1, out);
    return ZERO_OK;
}

static zero_status head_set(zero_context *context, head *h)
{
    ZERO_TRY(zr_gpt2_threads_check(context));
    head_lay_out(zr_gpt2_config_at(context->unit), &context->shape, context->workspace, h);
    h->context = context;
    ZERO_TRY(zr_gpt2_ids(context, 1, true, &h->target));
    for (int64_t row = 0; row < h->rows; row++)
        h->counted += h->target[row] >= 0;
    return ZERO_OK;
}

static void *normed_row(const head *h, int64_t row)
{
    return (char *)h->normed + row * h->config->n_embd * (int64_t)zero_dtype_bytes(h->dtype);
}

// Rows [first, first+rows): logits, and their losses or gradients.
static zero_status chunk_forward(head *h, int64_t first, int64_t rows, bool gradient)
{
    zr_queue *queue = h->context->queue;
    const void *x = normed_row(h, first), *wte = zero_parameter(h->context, ZR_HEAD_WTE, 0);
    const zr_product product = zr_head_product(h->config, h->dtype, rows);
    const zr_loss loss = {.dtype = h->dtype,
                          .rows = rows,
                          .vocab = h->config->vocab_size,
                          .factor = h->counted ? (float)((double)h->context->loss_factor / (double)h->counted) : 0};
    ZERO_TRY(queue->backend->product->run(queue, &product, x, wte, NULL, h->logits, h->context->error));
    queue->backend->rows->loss(queue, &loss, h->logits, h->target + first, h->row_loss + first, gradient);
    return ZERO_OK;
}

static zero_status chunk_backward(head *h, int64_t first, int64_t rows, float *d_wte, bool add)
{
    zr_queue *queue = h->context->queue;
    void *x = normed_row(h, first);
    const void *wte = zero_parameter(h->context, ZR_HEAD_WTE, 0);
    zr_product weight = product_weight(h->config, h->dtype, rows), input = product_input(h->config, h->dtype, rows);
    weight.add = add;
    ZERO_TRY(queue->backend->product->run(queue, &weight, h->logits, x, NULL, d_wte, h->context->error));
    return queue->backend->product->run(queue, &input, h->logits, wte, NULL, x, h->context->error);
}

static void loss_report(const head *h)
{
    double sum = 0;
    for (int64_t row = 0; row < h->rows; row++)
        sum += h->row_loss[row];
    if (h->context->loss)
        *h->context->loss = h->counted ? sum / (double)h->counted : 0;
}

static zero_status head_forward(zero_context *context, const zero_tensors *in, const zero_tensors *out)
{
    head h;
    ZERO_TRY(head_set(context, &h));
    zr_layer_norm_forward(context, &h.norm, in->at[0].data, h.normed, NULL, NULL);
    for (int64_t first = 0; first < h.rows; first += h.chunk)
        ZERO_TRY(chunk_forward(&h, first, ZR_MIN(h.chunk, h.rows - first), false));
    loss_report(&h);
    return ZERO_OK;
}

static zero_status head_forward_backward(zero_context *context, const zero_tensors *in, const zero_tensors *d_in)
{
    const void *x = in->at[0].data;
    int add = 0;
    head h;
    ZERO_TRY(head_set(context, &h));
    zr_layer_norm_forward(context, &h.norm, x, h.normed, h.mean, h.rstd);
    float *d_wte = zero_gradient(context, ZR_HEAD_WTE, 0, &add);
    for (int64_t first = 0; first < h.rows; first += h.chunk) {
        int64_t rows = ZR_MIN(h.chunk, h.rows - first);
        ZERO_TRY(chunk_forward(&h, first, rows, true));
        ZERO_TRY(chunk_backward(&h, first, rows, d_wte, add || first));
    }
    loss_report(&h);
    zr_layer_norm_backward(context, &h.norm, h.normed, x, h.mean, h.rstd, NULL, d_in->at[0].data, h.scratch);
    return ZERO_OK;
}

static zero_status head_backward(zero_context *context, const zero_tensors *in, const zero_tensors *d_out,
                                 const zero_tensors *d_in)
{
    return head_forward_backward(context, in, d_in);
}

const zero_unit_ops zr_gpt2_head_ops = {
    .kind = "head",
    .dtypes = ZR_LAYER_DTYPES,
    .sizes = head_sizes,
    .forward = head_forward,
    .backward = head_backward,
    .forward_backward = head_forward_backward,
};
