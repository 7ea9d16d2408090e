// Generation: takes some positions of some sequences through one unit, with a cache of keys and
// values. The layers are those of the forward pass; only attention and the positions of rows
// differ. The caller acquires the units in turn.
#include "compute/compute.h"
#include "layers/block.h"
#include "layers/head.h"

// Each slice has a cache of its own, even if slices share keys and values.
size_t zr_lm_decode_cache_bytes(const zero_model *model, int64_t sequences, int64_t capacity)
{
    const zr_lm_unit *unit = zr_lm_unit_at(&model->units[0]);
    const zr_lm_shape *shape = &unit->shape;
    int64_t heads = ZR_MAX(shape->kv_heads / unit->slices.count, 1) * zr_slices_here(&unit->slices);
    return sizeof(float) * (size_t)(shape->layers * sequences * heads * shape->head_dim * capacity);
}

typedef struct head_work {
    void *picked;   // (wanted, C) of the stream's type
    void *normed;   // (wanted, C)
    float *columns; // (wanted, tile) of logits, if the table is tiled
    char *place;    // of exchanges, if the table is cut
} head_work;

// Returns the elements of a place for the logits of every slice, (wanted, tokens) each.
static int64_t slice_logits(const zr_lm_unit *hyper, int64_t wanted)
{
    return wanted * zr_tokens_of_slice(&hyper->slices, hyper->shape.vocab, 0).count;
}

static size_t logits_place_bytes(const zr_lm_unit *hyper, int64_t wanted)
{
    return sizeof(float) * (size_t)(hyper->slices.count * slice_logits(hyper, wanted));
}

static size_t head_lay_out(const zr_lm_unit *hyper, zero_dtype dtype, int64_t wanted,
                           void *workspace, head_work *out)
{
    const zr_tensor_handle *table = zr_lm_table(hyper);
    zr_carver carver = {.base = workspace};
    out->picked = zr_carve_as(&carver, zr_stream_dtype(dtype), wanted * hyper->shape.width);
    out->normed = zr_carve_as(&carver, dtype, wanted * hyper->shape.width);
    out->columns = zr_carve_floats(&carver, table->tiles > 1 ? wanted * table->step : 0);
    out->place = zr_carve_place(&carver, hyper, logits_place_bytes(hyper, wanted));
    return carver.used;
}

// Returns the tokens of one of this rank's slices.
static int64_t vocabulary_of_slice(const zr_lm_unit *hyper, int slice)
{
    return zr_tokens_of_slice(&hyper->slices, hyper->shape.vocab,
                              zr_slices_first(&hyper->slices) + slice)
        .count;
}

// Logits are fp32 for sampling, whatever the model's own type is.
static zr_product logits_product(const zr_lm_unit *hyper, zero_dtype dtype, int64_t wanted,
                                 int64_t tokens)
{
    zr_product product = zr_logits_product(hyper, dtype, wanted, tokens);
    product.out = ZERO_F32;
    return product;
}

static void cut_head_sizes(const zr_lm_unit *hyper, const zr_decode_limits *limits,
                           zero_unit_sizes *out)
{
    for (int i = 0; i < zr_slices_here(&hyper->slices); i++) {
        const zr_product logits =
            logits_product(hyper, limits->dtype, limits->wanted, vocabulary_of_slice(hyper, i));
        if (logits.n > 0)
            zr_product_append(out, &logits, 1, false);
    }
    out->exchange_bytes = hyper->slices.ranks > 1 ? logits_place_bytes(hyper, limits->wanted) : 0;
}

static void head_sizes(const zr_lm_unit *hyper, const zr_decode_limits *limits,
                       zero_unit_sizes *out)
{
    head_work work;
    out->workspace_bytes = head_lay_out(hyper, limits->dtype, limits->wanted, NULL, &work);
    if (zr_lm_is_cut(hyper)) {
        cut_head_sizes(hyper, limits, out);
        return;
    }
    int tiles = zr_lm_table(hyper)->tiles;
    const zr_product logits =
        logits_product(hyper, limits->dtype, limits->wanted, zr_lm_tile_tokens(hyper, 0));
    const zr_product last =
        logits_product(hyper, limits->dtype, limits->wanted, zr_lm_tile_tokens(hyper, tiles - 1));
    zr_product_append(out, &logits, tiles, false);
    if (last.n != logits.n)
        zr_product_append(out, &last, 1, false);
}

typedef struct embedding_work {
    zr_division division;
    int32_t *local; // (rows) ids in a tile or slice, if the table has several
    char *place;    // of exchanges, if the table is cut
} embedding_work;

static size_t embedding_lay_out(const zr_lm_unit *hyper, int64_t rows, void *workspace,
                                embedding_work *out)
{
    zr_carver carver = {.base = workspace};
    bool split = zr_lm_table(hyper)->tiles > 1 || zr_lm_is_cut(hyper);
    *out = (embedding_work){.division = zr_division_of(hyper, rows, true)};
    out->local = zr_carve(&carver, split ? sizeof *out->local * (size_t)rows : 0);
    out->place = zr_carve_place(&carver, hyper, zr_division_place_bytes(&out->division));
    return carver.used;
}

static void embedding_sizes(const zr_lm_unit *hyper, int64_t rows, zero_unit_sizes *out)
{
    embedding_work work;
    out->workspace_bytes = embedding_lay_out(hyper, rows, NULL, &work);
    out->exchange_bytes = hyper->slices.ranks > 1 ? zr_division_place_bytes(&work.division) : 0;
}

zero_status zr_lm_decode_sizes(const zero_unit *unit, const zr_decode_limits *limits,
                               zero_unit_sizes *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    const zero_shape shape = {
        .batch = 1, .seq = limits->rows, .threads = limits->threads, .dtype = limits->dtype};
    *out = (zero_unit_sizes){.out = zr_lm_boundary(hyper, &shape, true)};
    if (hyper->layer >= 0)
        zr_block_decode_sizes(unit, limits, out);
    else if (zr_lm_is_head(unit))
        head_sizes(hyper, limits, out);
    else
        embedding_sizes(hyper, limits->rows, out);
    return ZERO_OK;
}

// Gathers the logits of all slices, (wanted, tokens) each.
static zero_exchange logits_exchange(const zr_lm_unit *hyper, int64_t wanted)
{
    return (zero_exchange){.kind = ZERO_EXCHANGE_GATHER,
                           .elements = zr_slices_here(&hyper->slices) * slice_logits(hyper, wanted),
                           .dtype = ZERO_F32,
                           .calls = 1,
                           .purpose = ZERO_EXCHANGE_FOR_logits};
}

void zr_lm_decode_exchanges(const zero_unit *unit, int64_t rows, int64_t wanted,
                            zero_unit_sizes *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    const zr_division stream = zr_division_of(hyper, rows, true);
    const zero_exchange logits = logits_exchange(hyper, wanted);
    bool head = zr_lm_is_head(unit);
    out->exchange_count = 0;
    if (hyper->layer >= 0)
        zr_block_decode_exchanges(unit, rows, out);
    else if (!head)
        zr_list_reduce(out, &stream, false);
    else if (wanted)
        zr_list_exchange(out, &hyper->slices, &logits);
}

static zero_status check_step(zero_context *context, const zr_decode_cache *cache,
                              const zr_decode_step *step)
{
    const zr_lm_shape *shape = &zr_lm_unit_at(context->unit)->shape;
    for (int r = 0; r < step->run_count; r++)
        if (step->runs[r].first + step->runs[r].rows > ZR_MIN(cache->capacity, shape->positions))
            return zr_fail(context->error, ZERO_ERR_USAGE,
                           "generating token %lld: the model has %lld positions, the cache %lld",
                           (long long)(step->runs[r].first + step->runs[r].rows - 1),
                           (long long)shape->positions, (long long)cache->capacity);
    for (int64_t row = 0; row < step->rows; row++)
        if (step->tokens[row] < 0 || step->tokens[row] >= shape->vocab)
            return zr_fail(context->error, ZERO_ERR_DATA,
                           "generating: token %d is outside the vocabulary of %lld",
                           step->tokens[row], (long long)shape->vocab);
    return ZERO_OK;
}

static zero_status decode_embedding(zero_context *context, const zr_decode_cache *cache,
                                    const zr_decode_step *step, void *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    const zr_positions at = {step->runs, step->run_count, 0};
    const int32_t *ids = step->ids ? step->ids : step->tokens;
    embedding_work work;
    ZERO_TRY(check_step(context, cache, step));
    embedding_lay_out(hyper, step->rows, context->workspace, &work);
    return zr_lm_is_cut(hyper) ? zr_embed_slices(context, &work.division, &at, ids, work.local,
                                                 zr_exchange_place(context, work.place), out)
                               : zr_embed_tiles(context, &at, ids, work.local, out);
}

// Acquires and releases all tiles without using them, because flat parameters must be gathered in
// the same order whether or not they are needed.
static zero_status skip_tiles(zero_context *context, const zr_tensor_handle *table)
{
    for (int t = 0; t < table->tiles; t++) {
        ZERO_TRY(zr_tensor_acquire(context, table, t));
        ZERO_TRY(zr_tensor_release(context, table, t));
    }
    return ZERO_OK;
}

// Returns the wanted rows, one after another; `in` itself if all rows are wanted.
static const void *pick_rows(zero_context *context, const zr_decode_step *step, const void *in,
                             void *picked)
{
    int64_t bytes = zr_lm_unit_at(context->unit)->shape.width *
                    (int64_t)zero_dtype_bytes(zr_stream_dtype(context->shape.dtype));
    zr_queue *queue = context->queue;
    if (step->wanted_count == step->rows)
        return in;
    for (int64_t i = 0; i < step->wanted_count; i++)
        zr_run(queue, zr_op_copy(&(zr_bytes){bytes}, (const char *)in + step->wanted[i] * bytes,
                                 (char *)picked + i * bytes));
    return picked;
}

static void logits_of_tile(zero_context *context, const zr_decode_step *step, int tile,
                           const head_work *work, float *logits)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    zr_queue *queue = context->queue;
    int64_t vocab = hyper->shape.vocab, tokens = zr_lm_tile_tokens(hyper, tile),
            size = sizeof *logits;
    bool dense = tokens == vocab || step->wanted_count == 1;
    const zr_tensor_handle *table = zr_lm_table(hyper);
    float *to = logits + tile * table->step;
    const zr_product product =
        logits_product(hyper, context->shape.dtype, step->wanted_count, tokens);
    const void *rows = zr_tensor_values(context, table, tile);
    zr_run(queue, zr_op_product(&product, work->normed, rows, NULL, dense ? to : work->columns));
    if (!dense)
        zr_columns_copy(queue, step->wanted_count, tokens * size, work->columns, tokens * size, to,
                        vocab * size);
}

// Copies the logits of all slices, which lie one after another, to rows of the whole vocabulary.
static void spread_logits(zero_context *context, int64_t wanted, const char *place, float *logits)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    int64_t size = sizeof *logits, each = slice_logits(hyper, wanted) * size,
            row = hyper->shape.vocab * size;
    for (int s = 0; s < hyper->slices.count; s++) {
        const zr_slice_tokens tokens = zr_tokens_of_slice(&hyper->slices, hyper->shape.vocab, s);
        zr_columns_copy(context->queue, wanted, tokens.count * size, place + s * each,
                        tokens.count * size, logits + tokens.first, row);
    }
}

// Every rank gets the logits of all slices, because each draws the next token itself.
static zero_status logits_of_slices(zero_context *context, const zr_decode_step *step,
                                    const head_work *work, float *logits)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    const zr_lm_slices *slices = &hyper->slices;
    zr_queue *queue = context->queue;
    int64_t wanted = step->wanted_count, each = slice_logits(hyper, wanted);
    int here = zr_slices_here(slices), first = zr_slices_first(slices);
    char *place = zr_exchange_place(context, work->place);
    const zero_exchange exchange = logits_exchange(hyper, wanted);
    for (int i = 0; i < here; i++) {
        const zr_tensor_handle *table = zr_lm_tensor(hyper, i, ZR_LM_TABLE);
        const zr_product product =
            logits_product(hyper, context->shape.dtype, wanted, vocabulary_of_slice(hyper, i));
        float *out = (float *)(void *)place + (first + i) * each;
        if (product.n > 0)
            zr_run(queue, zr_op_product(&product, work->normed, zr_tensor_values(context, table, 0),
                                        NULL, out));
    }
    ZERO_TRY(zr_exchange(context, &exchange, 0));
    spread_logits(context, wanted, place, logits);
    return ZERO_OK;
}

static zero_status decode_head(zero_context *context, const zr_decode_step *step, const void *in,
                               float *logits)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    const zr_tensor_handle *table = zr_lm_table(hyper);
    zero_dtype dtype = context->shape.dtype;
    head_work work;
    if (!step->wanted_count)
        return skip_tiles(context, table);
    head_lay_out(hyper, dtype, step->wanted_count, context->workspace, &work);
    const zr_norm_layer norm = zr_head_norm(hyper, dtype, step->wanted_count);
    zr_norm_forward(context, &norm, pick_rows(context, step, in, work.picked), NULL, NULL,
                    work.normed, (zr_norm_statistics){0});
    if (zr_lm_is_cut(hyper))
        return logits_of_slices(context, step, &work, logits);
    for (int t = 0; t < table->tiles; t++) {
        ZERO_TRY(zr_tensor_acquire(context, table, t));
        logits_of_tile(context, step, t, &work, logits);
        ZERO_TRY(zr_tensor_release(context, table, t));
    }
    return ZERO_OK;
}

zero_status zr_lm_decode(zero_context *context, const zr_decode_cache *cache,
                         const zr_decode_step *step, const void *in, void *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    if (hyper->layer >= 0)
        return zr_block_decode(context, cache, step, in, out);
    if (zr_lm_is_head(context->unit))
        return decode_head(context, step, in, out);
    return decode_embedding(context, cache, step, out);
}
