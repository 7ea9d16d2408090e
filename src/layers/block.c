// The unit of a block: joins its two halves to the residual stream, forward, backward and in steps
// of generation; and states its sizes and exchanges. The outputs of norms are never kept, because
// backward recomputes them.
#include "layers/block.h"

#include "layers/block_adapters.h"

static zero_status set_block(zero_context *context, zr_block_use use, unsigned parts,
                             zr_block *block)
{
    zr_block_layout l = {.use = use,
                         .parts = parts,
                         .saved = context->saved,
                         .workspace = context->workspace,
                         .held = context->held};
    ZERO_TRY(zr_lm_threads_check(context));
    if (parts != ZR_BACKWARD_WHOLE && !context->held)
        return zr_fail(context->error, ZERO_ERR_INTERNAL,
                       "unit \"%s\": its backward is in two parts, but its held_bytes are 0",
                       context->unit->name);
    zr_block_lay_out(context->unit, &context->shape, &l, block);
    block->context = context;
    block->place = zr_exchange_place(context, block->place);
    block->attention.mask = zr_lm_mask(context, ZR_SITE_ATTENTION);
    return zr_documents_read(context, 0, block->rows, &block->documents);
}

static void *normed_value(const zr_block *block, int half)
{
    return block->slices[0].value[half][0].at;
}

// Returns the address to which a norm writes this rank's rows: among those of all ranks, if rows
// are divided.
static void *own_normed(const zr_block *block, int half)
{
    return block->division.by_rows ? zr_division_own(&block->division, block->dtype, block->place)
                                   : normed_value(block, half);
}

// Gathers rows of all ranks, if rows are divided, and copies them where they outlive the next
// exchange.
static zero_status gather_into(zr_block *block, void *rows)
{
    const zr_bytes all = {block->rows * block->width * (int64_t)zero_dtype_bytes(block->dtype)};
    ZERO_TRY(zr_division_gather(block->context, &block->division, block->dtype));
    if (block->division.by_rows)
        zr_run(block->context->queue, zr_op_copy(&all, block->place, rows));
    return ZERO_OK;
}

// Returns dropout of this rank's rows of the branch, from and to these types.
static zr_dropout dropout_of(const zr_block *block, int half, zero_dtype from)
{
    return (zr_dropout){.from = from,
                        .to = block->dtype,
                        .n = block->division.own * block->width,
                        .p = block->dropout,
                        .mask = zr_lm_mask(block->context, half == ZERO_ATTENTION_HALF
                                                               ? ZR_SITE_ATTENTION_RESIDUAL
                                                               : ZR_SITE_MLP_RESIDUAL),
                        .first = block->division.first * block->width};
}

typedef struct half_slices { // each adds to a sum
    zr_block *block;
    int half;
} half_slices;

static zero_status join_slice(void *user, int s, float *out)
{
    const half_slices *j = user;
    int last = zr_block_last_row(j->block, j->half);
    const zr_linear linear = zr_block_linear(j->block, j->half, last, s);
    int in = zr_block_rows(j->block, j->half)[last].in[0];
    zr_linear_forward_sum(j->block->context, &linear, j->block->slices[s].value[j->half][in].at,
                          out, j->block->scratch);
    return ZERO_OK;
}

// Sums the products of all slices' last linears, adds the bias and rounds once.
static zero_status sum_branch_slices(zr_block *block, int half, void *branch)
{
    const zr_division *division = &block->division;
    const zr_linear linear = zr_block_branch_linear(block, half);
    const zr_matrix own = {.dtype = block->dtype, .rows = division->own, .width = block->width};
    half_slices slices = {block, half};
    float *sum;
    ZERO_TRY(zr_block_sum_squares(block, half));
    ZERO_TRY(zr_slices_add(block->context, division->slices, block->rows * block->width, join_slice,
                           &slices, block->place, block->spare));
    ZERO_TRY(zr_division_reduce(block->context, division, block->place, &sum));
    zr_run(block->context->queue,
           zr_op_add_bias(&own, sum, zr_tensor_values(block->context, linear.bias, 0), branch));
    return ZERO_OK;
}

static void *branch_value(const zr_block *block, int half)
{
    return block->slices[0].value[half][zr_block_last_row(block, half)].at;
}

static void join(const zr_block *block, const void *x, int half, void *y)
{
    const zr_sum sum = {block->stream, block->dtype, block->division.own * block->width};
    zr_run(block->context->queue, zr_op_add(&sum, x, branch_value(block, half), y));
}

// Computes the norm that a half reads: of the block's input x or, in the second half of a block
// that is not parallel, of x and the first branch. In any case their sum is the stream between the
// halves.
static void norm_forward(const zr_block *block, int half, const void *x)
{
    bool second = half == ZERO_MLP_HALF, sums = second && !block->table->parallel;
    const void *branch = sums ? branch_value(block, ZERO_ATTENTION_HALF) : NULL;
    zr_norm_forward(block->context, &block->norm[half], x, branch, sums ? block->middle : NULL,
                    own_normed(block, half), block->statistics[half]);
    if (second && !sums)
        join(block, x, ZERO_ATTENTION_HALF, block->middle);
}

static zero_status run_forward(zr_block *block, const void *x, void *y)
{
    zero_context *context = block->context;
    if (!context->training || block->table->parallel)
        block->middle = y;
    for (int half = 0; half < ZERO_BLOCK_HALVES; half++) {
        int last = zr_block_last_row(block, half);
        void *branch = branch_value(block, half);
        norm_forward(block, half, x);
        block->input = block->division.by_rows ? block->place : normed_value(block, half);
        ZERO_TRY(zr_division_gather(context, &block->division, block->dtype));
        for (int r = 1; r < last; r++)
            ZERO_TRY(zr_row_forward(block, half, r));
        ZERO_TRY(zr_block_is_cut(block) ? sum_branch_slices(block, half, branch)
                                        : zr_row_forward(block, half, last));
        const zr_dropout dropout = dropout_of(block, half, block->dtype);
        if (dropout.p > 0)
            zr_run(context->queue, zr_op_dropout(&dropout, context->values, branch, branch));
    }
    join(block, block->middle, ZERO_MLP_HALF, y);
    return ZERO_OK;
}

static zero_status block_forward(zero_context *context, const zero_tensors *in,
                                 const zero_tensors *out)
{
    zr_block block;
    ZERO_TRY(set_block(context, context->training ? ZR_BLOCK_TRAINS : ZR_BLOCK_EVALUATES,
                       ZR_BACKWARD_WHOLE, &block));
    return run_forward(&block, in->at[0].data, out->at[0].data);
}

// Sets the gradient of a branch before its dropout, of type T, given that of the stream: d itself,
// or d converted and with the mask applied. It is held for the weight part of a split backward,
// because d is overwritten by then.
static zero_status branch_backward(zr_block *block, int half, const void *d)
{
    zr_queue *queue = block->context->queue;
    const zr_division *division = &block->division;
    const zr_dropout dropout = dropout_of(block, half, block->stream);
    void **branch = &block->slices[0].value[half][zr_block_last_row(block, half)].d;
    void *into =
        division->by_rows ? zr_division_own(division, block->dtype, block->place) : *branch;
    if (!(block->parts & ZR_BACKWARD_INPUT))
        return ZERO_OK;
    if (!into)
        *branch = (void *)d;
    else if (!(dropout.p > 0) && block->stream != block->dtype)
        zr_run(queue,
               zr_op_convert(&(zr_conversion){block->stream, block->dtype, dropout.n}, d, into));
    else
        zr_run(queue, zr_op_dropout(&dropout, block->context->values, d, into));
    for (int s = 1; s < block->slice_count; s++)
        block->slices[s].value[half][zr_block_last_row(block, half)].d = *branch;
    return into ? gather_into(block, *branch) : ZERO_OK;
}

static zero_status input_slice(void *user, int s, float *out)
{
    const half_slices *sum = user;
    return zr_block_input_backward(sum->block, sum->half, s, out);
}

// Returns (own, C) fp32 as type T: `wide` itself, or converted.
static const void *narrow_gradient(const zr_block *block, int half, const float *wide)
{
    void *narrow = block->slices[0].value[half][0].d;
    const zr_conversion own = {ZERO_F32, block->dtype, block->division.own * block->width};
    if (block->dtype == ZERO_F32)
        return wide;
    zr_run(block->context->queue, zr_op_convert(&own, wide, narrow));
    return narrow;
}

static zero_status cut_input_backward(zr_block *block, int half, const void **dy)
{
    half_slices slices = {block, half};
    float *sum;
    if (!(block->parts & ZR_BACKWARD_INPUT)) {
        for (int s = 0; s < block->slice_count; s++)
            ZERO_TRY(zr_block_input_backward(block, half, s, NULL));
        return ZERO_OK;
    }
    ZERO_TRY(zr_slices_add(block->context, block->division.slices, block->rows * block->width,
                           input_slice, &slices, block->place, block->spare));
    ZERO_TRY(zr_division_reduce(block->context, &block->division, block->place, &sum));
    *dy = narrow_gradient(block, half, sum);
    return ZERO_OK;
}

// Computes the gradient (own, C) T of the norm's output, and those of the weights that read it. A
// single product rounds it itself.
static zero_status inputs_backward(zr_block *block, int half, const void **dy)
{
    int input = 1;
    if (zr_block_is_cut(block))
        return cut_input_backward(block, half, dy);
    if (zr_block_inputs(block, half) > 1) {
        ZERO_TRY(zr_block_input_backward(block, half, 0, block->sum[half]));
        if (block->parts & ZR_BACKWARD_INPUT)
            *dy = narrow_gradient(block, half, block->sum[half]);
        return ZERO_OK;
    }
    while (!zr_row_is_input(&zr_block_rows(block, half)[input]))
        input++;
    *dy = block->slices[0].value[half][0].d;
    return zr_row_backward(block, half, input);
}

static zero_status rows_backward(zr_block *block, int half, const void *d)
{
    const zero_block_row *rows = zr_block_rows(block, half);
    int last = zr_block_last_row(block, half);
    ZERO_TRY(branch_backward(block, half, d));
    const zr_linear branch = zr_block_branch_linear(block, half);
    if (block->parts & ZR_BACKWARD_WEIGHT && zr_block_is_cut(block) &&
        zr_tensor_exists(branch.bias))
        zr_linear_backward_bias(block->context, &branch, block->slices[0].value[half][last].d,
                                block->scratch);
    ZERO_TRY(zr_block_recompute(block, half));
    for (int r = last; r > 0; r--)
        if (!zr_row_is_input(&rows[r]))
            ZERO_TRY(zr_row_backward(block, half, r));
    return ZERO_OK;
}

// d (own, C) S: the gradient of the stream after the branch has joined it. Adds to `past` what goes
// through the half, into dx. x: what its norm reads.
static zero_status half_backward(zr_block *block, int half, const void *x, const void *d,
                                 const void *past, void *dx)
{
    const void *dy = NULL;
    ZERO_TRY(rows_backward(block, half, d));
    if (block->parts & ZR_BACKWARD_WEIGHT) { // inputs of the products of weights
        zr_norm_forward(block->context, &block->norm[half], x, NULL, NULL, own_normed(block, half),
                        (zr_norm_statistics){0});
        ZERO_TRY(gather_into(block, normed_value(block, half)));
    }
    ZERO_TRY(inputs_backward(block, half, &dy));
    if (block->parts & ZR_BACKWARD_WEIGHT)
        zr_block_sum_adapters(block, half);
    if (!(block->parts & ZR_BACKWARD_INPUT))
        return ZERO_OK;
    const zr_norm_gradient gradient = {
        .dy = dy, .x = x, .statistics = block->statistics[half], .past = past, .dx = dx};
    zr_norm_backward(block->context, &block->norm[half], &block->division, &gradient, &block->gains,
                     block->partials, block->scratch);
    return ZERO_OK;
}

// Computes parts of backward. d: the gradient of the output, which becomes that of `middle`; d and
// dx are NULL if only the weight part is computed.
static zero_status run_backward(zero_context *context, unsigned parts, const void *x, void *d,
                                void *dx)
{
    zr_block block;
    ZERO_TRY(set_block(context, ZR_BLOCK_GOES_BACK, parts, &block));
    bool parallel = block.table->parallel;
    ZERO_TRY(
        half_backward(&block, ZERO_MLP_HALF, parallel ? x : block.middle, d, d, parallel ? dx : d));
    ZERO_TRY(half_backward(&block, ZERO_ATTENTION_HALF, x, d, parallel ? dx : d, dx));
    if (!(parts & ZR_BACKWARD_WEIGHT))
        return ZERO_OK;
    return zr_gains_finish(context, block.division.slices, &block.gains, block.place);
}

static zero_status block_backward(zero_context *context, const zero_tensors *in,
                                  const zero_tensors *d_out, const zero_tensors *d_in)
{
    return run_backward(context, ZR_BACKWARD_WHOLE, in->at[0].data, d_out->at[0].data,
                        d_in->at[0].data);
}

static zero_status block_backward_input(zero_context *context, const zero_tensors *in,
                                        const zero_tensors *d_out, const zero_tensors *d_in)
{
    return run_backward(context, ZR_BACKWARD_INPUT, in->at[0].data, d_out->at[0].data,
                        d_in->at[0].data);
}

static zero_status block_backward_weight(zero_context *context, const zero_tensors *in)
{
    return run_backward(context, ZR_BACKWARD_WEIGHT, in->at[0].data, NULL, NULL);
}

// ---- sizes ----

// Lists the products of the linears, and that backward reads their weights and heads' gains.
static void list_rows(const zr_block *block, bool training, zero_unit_sizes *out)
{
    for (int s = 0; s < block->slice_count; s++)
        for (int half = 0; half < ZERO_BLOCK_HALVES; half++)
            for (int r = 1; r <= zr_block_last_row(block, half); r++) {
                const zero_block_row *row = &zr_block_rows(block, half)[r];
                const zr_linear linear = zr_block_linear(block, half, r, s);
                if (zr_row_is_linear(row))
                    zr_linear_products(&linear, training, s > 0, out);
                else if (training && row->kind == ZERO_ROW_HEAD_NORM && zr_row_exists(block, row))
                    zr_tensor_read_in_backward(&block->hyper->tensor[row->weight], out);
            }
}

static void list_half_backward(const zr_block *block, int half, zero_unit_sizes *out)
{
    const zr_division *division = &block->division;
    zr_list_gather(out, division, true, block->dtype); // the branch's gradient
    if (half == ZERO_ATTENTION_HALF && block->shared.elements)
        zr_list_exchange(out, division->slices, &block->shared);
    zr_list_gather_in_weight(out, division, block->dtype); // the norm's output
    zr_list_reduce(out, division, true);
}

static void list_forward_exchanges(const zr_block *block, zero_unit_sizes *out)
{
    const zr_division *division = &block->division;
    for (int half = 0; half < ZERO_BLOCK_HALVES; half++) {
        zr_list_gather(out, division, false, block->dtype);
        zr_block_list_squares(block, half, out);
        zr_list_reduce(out, division, false);
    }
}

static void list_exchanges(const zr_block *block, zero_unit_sizes *out)
{
    const zr_division *division = &block->division;
    if (!zr_block_is_cut(block))
        return;
    list_forward_exchanges(block, out);
    list_half_backward(block, ZERO_MLP_HALF, out);
    list_half_backward(block, ZERO_ATTENTION_HALF, out);
    zr_list_gains(out, division->slices, &block->gains);
    out->exchange_bytes = division->slices->ranks > 1 ? zr_block_place_bytes(block) : 0;
}

// Notes what the weight part of a split backward reads in addition to the norms' tensors, from
// which it recomputes their outputs.
static void list_low_rank(const zr_block *block, zero_unit_sizes *out)
{
    for (int s = 0; s < block->slice_count; s++)
        for (int half = 0; half < ZERO_BLOCK_HALVES; half++)
            for (int r = 1; r <= zr_block_last_row(block, half); r++) {
                const zr_linear linear = zr_block_linear(block, half, r, s);
                if (zr_row_is_linear(&zr_block_rows(block, half)[r]))
                    zr_low_rank_read_in_backward(&linear, out);
            }
}

// Finds the held bytes of a split backward, and the workspace of its parts. Streamed flat
// parameters come once in a backward, so a block with tiles does not split it.
static size_t held_bytes(const zero_unit *unit, const zr_backend *backend, const zero_shape *shape,
                         size_t *workspace)
{
    zr_block_layout l = {
        .use = ZR_BLOCK_GOES_BACK, .backend = backend, .parts = ZR_BACKWARD_WEIGHT};
    zr_block block;
    zr_block_lay_out(unit, shape, &l, &block);
    *workspace = ZR_MAX(*workspace, l.workspace_bytes);
    l.parts = ZR_BACKWARD_INPUT;
    zr_block_lay_out(unit, shape, &l, &block);
    *workspace = ZR_MAX(*workspace, l.workspace_bytes);
    for (int half = 0; half < ZERO_BLOCK_HALVES; half++)
        for (int r = 1; r <= zr_block_last_row(&block, half); r++) {
            const zr_linear linear = zr_block_linear(&block, half, r, 0);
            if (zr_row_is_linear(&zr_block_rows(&block, half)[r]) && zr_linear_is_tiled(&linear))
                return 0;
        }
    return l.held_bytes;
}

static zero_status block_sizes_on(const zero_unit *unit, const zr_backend *backend,
                                  const zero_shape *shape, const zero_tensors *in,
                                  zero_unit_sizes *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    zr_block_layout l = {.use = ZR_BLOCK_TRAINS, .backend = backend, .parts = ZR_BACKWARD_WHOLE};
    zr_block block;
    ZERO_TRY(zr_lm_shape_check(hyper, shape, NULL));
    *out = (zero_unit_sizes){.out = zr_lm_boundary(hyper, shape, false)};
    zr_block_lay_out(unit, shape, &l, &block);
    out->saved_bytes = l.saved_bytes;
    out->workspace_bytes = l.workspace_bytes;
    out->held_bytes = held_bytes(unit, backend, shape, &out->workspace_bytes);
    for (int half = 0; half < ZERO_BLOCK_HALVES; half++)
        zr_norm_read_in_backward(&block.norm[half], out);
    list_low_rank(&block, out);
    out->weight_reads = out->held_bytes ? out->backward_reads : 0;
    list_rows(&block, true, out);
    list_exchanges(&block, out);
    return ZERO_OK;
}

static zero_status block_sizes(const zero_unit *unit, const zero_shape *shape,
                               const zero_tensors *in, zero_unit_sizes *out)
{
    return block_sizes_on(unit, NULL, shape, in, out);
}

// ---- generation ----

// Lays out the block for as many rows as a step has. The scratch has room for the keys and values
// which attention packs from the cache, too. Returns the bytes, if it only counts.
static size_t lay_out_decode(const zero_unit *unit, const zr_decode_limits *limits, void *workspace,
                             zr_block *block)
{
    const zero_shape shape = {
        .batch = 1, .seq = limits->rows, .threads = limits->threads, .dtype = limits->dtype};
    zr_block_layout l = {.use = ZR_BLOCK_EVALUATES,
                         .backend = limits->backend,
                         .whole = true,
                         .parts = ZR_BACKWARD_WHOLE,
                         .workspace = workspace};
    zr_block_lay_out(unit, &shape, &l, block);
    return l.workspace_bytes + (workspace ? 0
                                          : zr_scratch_decode(limits->backend, limits->threads,
                                                              &block->attention, limits->capacity));
}

void zr_block_decode_sizes(const zero_unit *unit, const zr_decode_limits *limits,
                           zero_unit_sizes *out)
{
    zr_block block;
    out->workspace_bytes = lay_out_decode(unit, limits, NULL, &block);
    list_rows(&block, false, out);
    out->exchange_bytes = block.division.slices->ranks > 1 ? zr_block_place_bytes(&block) : 0;
}

void zr_block_decode_exchanges(const zero_unit *unit, int64_t rows, zero_unit_sizes *out)
{
    const zr_decode_limits limits = {.rows = rows, .capacity = rows, .threads = 1};
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    const zr_division stream = zr_division_of(hyper, rows, true);
    zr_block block;
    if (hyper->config.lora.magnitudes) {
        lay_out_decode(unit, &limits, NULL, &block);
        list_forward_exchanges(&block, out);
        return;
    }
    // The same without them: each token lists its exchanges, and a layout would take long.
    for (int half = 0; half < ZERO_BLOCK_HALVES; half++)
        zr_list_reduce(out, &stream, false);
}

zero_status zr_block_decode(zero_context *context, const zr_decode_cache *cache,
                            const zr_decode_step *step, const void *in, void *out)
{
    const zr_decode_limits limits = {
        .dtype = context->shape.dtype,
        .threads = context->shape.threads,
        .rows = step->rows,
        .capacity = cache->capacity,
    };
    zr_block block;
    ZERO_TRY(zr_lm_threads_check(context));
    lay_out_decode(context->unit, &limits, context->workspace, &block);
    block.context = context;
    block.place = zr_exchange_place(context, block.place);
    block.step = step;
    block.cache = cache;
    return run_forward(&block, in, out);
}

const zero_unit_ops zr_lm_block_ops = {
    .kind = "block",
    .dtypes = ZR_LAYER_DTYPES,
    .sizes = block_sizes,
    .sizes_on = block_sizes_on,
    .forward = block_forward,
    .backward = block_backward,
    .backward_input = block_backward_input,
    .backward_weight = block_backward_weight,
};
