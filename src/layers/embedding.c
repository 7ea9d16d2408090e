// The embedding: rows of the token table, and of the table of positions if there is one, and their
// dropout. A table that is cut into slices of the vocabulary, or into tiles, gives each row from
// the slice or tile that has its token.
#include "compute/compute.h"
#include "layers/lm_units.h"
#include "layers/slices.h"

typedef struct embedding {
    zero_context *context;
    const zr_lm_unit *hyper;
    zr_division division;
    int64_t rows, width;
    float dropout;
    const int32_t *ids; // (rows)
    int32_t *local;     // (rows) as rows of a tile or slice
    char *place;        // of exchanges, if the table is cut
    zr_documents documents;
} embedding;

static size_t lay_out_embedding(const zero_unit *unit, const zero_shape *shape, void *workspace,
                                embedding *e)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    zr_carver carver = {.base = workspace};
    int64_t rows = shape->batch * shape->seq;
    bool split = zr_lm_table(hyper)->tiles > 1 || zr_lm_is_cut(hyper);
    *e = (embedding){.hyper = hyper,
                     .division = zr_division_of(hyper, rows, false),
                     .rows = rows,
                     .width = hyper->shape.width,
                     .dropout = hyper->shape.embedding_dropout};
    e->local = zr_carve(&carver, split ? sizeof *e->local * (size_t)rows : 0);
    e->place = zr_carve_place(&carver, hyper, zr_division_place_bytes(&e->division));
    e->documents = zr_documents_carve(&carver, hyper, rows);
    return carver.used;
}

static zero_status prepare_embedding(zero_context *context, embedding *e)
{
    lay_out_embedding(context->unit, &context->shape, context->workspace, e);
    e->context = context;
    e->place = zr_exchange_place(context, e->place);
    ZERO_TRY(zr_lm_shape_check(e->hyper, &context->shape, context->error));
    zr_batch_ids tokens;
    ZERO_TRY(zr_lm_ids(context, 0, false, &tokens));
    e->ids = tokens.ids;
    return ZERO_OK;
}

static zero_status embedding_sizes(const zero_unit *unit, const zero_shape *shape,
                                   const zero_tensors *in, zero_unit_sizes *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    embedding e;
    ZERO_TRY(zr_lm_shape_check(hyper, shape, NULL));
    *out = (zero_unit_sizes){.out = zr_lm_boundary(hyper, shape, false)}; // backward reads only ids
    out->workspace_bytes = lay_out_embedding(unit, shape, NULL, &e);
    if (hyper->slices.ranks == 1)
        return ZERO_OK;
    zr_list_reduce(out, &e.division, false);
    zr_list_gather(out, &e.division, true, out->out.at[0].dtype);
    out->exchange_bytes = zr_division_place_bytes(&e.division);
    return ZERO_OK;
}

// Looks up the rows of one run in a tile of the table.
static void embed_run(zero_context *context, const zr_positions *at, int tile,
                      const zr_attention_run *run, const int32_t *ids, void *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    const zr_embedding shape = {.vocab = zr_lm_tile_tokens(hyper, tile),
                                .dtype = context->shape.dtype,
                                .stream = zr_stream_dtype(context->shape.dtype),
                                .rows = run->rows,
                                .seq = at->seq ? at->seq : run->rows,
                                .width = hyper->shape.width};
    const char *positions = zr_tensor_values(context, &hyper->tensor[ZR_LM_POSITIONS], 0);
    int64_t first = run->first * shape.width * (int64_t)zero_dtype_bytes(shape.dtype);
    zr_run(context->queue,
           zr_op_embedding_forward(&shape, ids, zr_tensor_values(context, zr_lm_table(hyper), tile),
                                   positions ? positions + first : NULL, out));
}

zero_status zr_embed_tiles(zero_context *context, const zr_positions *at, const int32_t *ids,
                           int32_t *local, void *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    const zr_tensor_handle *table = zr_lm_table(hyper);
    int64_t all = 0, row = hyper->shape.width *
                           (int64_t)zero_dtype_bytes(zr_stream_dtype(context->shape.dtype));
    for (int r = 0; r < at->run_count; r++)
        all += at->runs[r].rows;
    for (int t = 0; t < table->tiles; t++) {
        const int32_t *of_tile = zr_lm_ids_of_tile(context, t, all, ids, local);
        int64_t done = 0;
        ZERO_TRY(zr_tensor_acquire(context, table, t));
        for (int r = 0; r < at->run_count; done += at->runs[r++].rows)
            embed_run(context, at, t, &at->runs[r], of_tile + done, (char *)out + done * row);
        ZERO_TRY(zr_tensor_release(context, table, t));
    }
    return ZERO_OK;
}

// Sums the rows of a table that is cut, without positions. *own (own, C) fp32 are this rank's rows,
// which lie at the place.
static zero_status sum_slices(zero_context *context, const zr_division *division,
                              const int32_t *ids, int32_t *local, char *place, float **own)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    zr_queue *queue = context->queue;
    zr_embedding shape = {.dtype = context->shape.dtype,
                          .stream = ZERO_F32,
                          .rows = division->rows,
                          .seq = division->rows,
                          .width = division->width};
    const zr_bytes all = {shape.rows * shape.width * (int64_t)sizeof **own};
    zr_run(queue, zr_op_fill(&all, place));
    for (int i = 0; i < zr_slices_here(&hyper->slices); i++) {
        const zr_tensor_handle *table = zr_lm_tensor(hyper, i, ZR_LM_TABLE);
        shape.vocab = zr_lm_ids_of_slice(context, i, shape.rows, ids, local);
        if (shape.vocab)
            zr_run(queue, zr_op_embedding_forward(
                              &shape, local, zr_tensor_values(context, table, 0), NULL, place));
    }
    return zr_division_reduce(context, division, place, own);
}

zero_status zr_embed_slices(zero_context *context, const zr_division *division,
                            const zr_positions *at, const int32_t *ids, int32_t *local, char *place,
                            float *out)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(context->unit);
    zr_queue *queue = context->queue;
    const zr_bytes all = {division->own * division->width * (int64_t)sizeof *out};
    const void *positions = zr_tensor_values(context, &hyper->tensor[ZR_LM_POSITIONS], 0);
    float *own;
    assert(zr_stream_dtype(context->shape.dtype) == ZERO_F32);
    ZERO_TRY(sum_slices(context, division, ids, local, place, &own));
    zr_run(queue, zr_op_copy(&all, own, out));
    for (int r = 0; r < at->run_count; out += at->runs[r++].rows * division->width) {
        const zr_embedding shape = {.dtype = context->shape.dtype,
                                    .rows = at->runs[r].rows,
                                    .seq = at->seq ? at->seq : hyper->shape.positions,
                                    .first = at->runs[r].first,
                                    .width = division->width};
        zr_run(queue, zr_op_add_positions(&shape, positions, out));
    }
    return ZERO_OK;
}

static void apply_dropout(const embedding *e, void *x)
{
    zero_context *context = e->context;
    zero_dtype stream = zr_stream_dtype(context->shape.dtype);
    if (context->training && e->dropout > 0)
        zr_run(context->queue,
               zr_op_dropout(&(zr_dropout){.from = stream,
                                           .to = stream,
                                           .n = e->division.own * e->width,
                                           .p = e->dropout,
                                           .mask = zr_lm_mask(context, ZR_SITE_EMBEDDING),
                                           .first = e->division.first * e->width},
                             context->values, x, x));
}

static zero_status run_embedding_forward(zero_context *context, const zero_tensors *in,
                                         const zero_tensors *out)
{
    embedding e;
    void *x = out->at[0].data;
    ZERO_TRY(prepare_embedding(context, &e));
    ZERO_TRY(zr_documents_read(context, e.division.first, e.division.own, &e.documents));
    const zr_attention_run all = {.first = e.division.first, .rows = e.division.own};
    const zr_positions at = e.documents.runs
                                ? (zr_positions){e.documents.runs, e.documents.count, 0}
                                : (zr_positions){&all, 1, context->shape.seq};
    ZERO_TRY(zr_lm_is_cut(e.hyper)
                 ? zr_embed_slices(context, &e.division, &at, e.ids, e.local, e.place, x)
                 : zr_embed_tiles(context, &at, e.ids, e.local, x));
    apply_dropout(&e, x);
    return ZERO_OK;
}

// Adds the rows of d (rows, C) to the rows `ids` of the gradient of a part of the table.
// d_positions is passed with one of the parts, and NULL with the others.
static void part_backward(const embedding *e, const zr_tensor_handle *table, int tile,
                          int64_t tokens, const int32_t *ids, const void *d, bool positions)
{
    zero_context *context = e->context;
    zr_queue *queue = context->queue;
    int add = 0, add_positions = 0;
    float *d_table = tokens > 0 ? zr_tensor_gradient(context, table, tile, &add) : NULL;
    float *d_positions = positions ? zr_tensor_gradient(context, &e->hyper->tensor[ZR_LM_POSITIONS],
                                                        0, &add_positions)
                                   : NULL;
    if (d_table || d_positions)
        zr_run(queue, zr_op_embedding_backward(
                          &(zr_embedding){.stream = zr_stream_dtype(context->shape.dtype),
                                          .rows = e->rows,
                                          .seq = context->shape.seq,
                                          .width = e->width,
                                          .vocab = tokens,
                                          .add_tokens = add,
                                          .positions = e->hyper->shape.positions,
                                          .add_positions = add_positions},
                          ids, d, d_table, d_positions));
}

// Adds the rows of each document to the gradient of the table of positions.
static void positions_backward(const embedding *e, const void *d)
{
    zero_context *context = e->context;
    int add = 0;
    float *gradient = zr_tensor_gradient(context, &e->hyper->tensor[ZR_LM_POSITIONS], 0, &add);
    int64_t row = 0;
    for (int i = 0; gradient && i < e->documents.count; row += e->documents.runs[i++].rows) {
        const zr_embedding shape = {.stream = ZERO_F32,
                                    .rows = e->documents.runs[i].rows,
                                    .seq = e->documents.runs[i].rows,
                                    .width = e->width,
                                    .vocab = e->hyper->shape.vocab,
                                    .positions = e->hyper->shape.positions,
                                    .add_positions = add || i};
        zr_run(context->queue,
               zr_op_embedding_backward(&shape, e->ids + row, (const float *)d + row * e->width,
                                        NULL, gradient));
    }
}

static zero_status tiles_backward(const embedding *e, const void *d)
{
    const zr_tensor_handle *table = zr_lm_table(e->hyper);
    for (int t = table->tiles - 1; t >= 0; t--) {
        ZERO_TRY(zr_tensor_acquire(e->context, table, t));
        part_backward(e, table, t, zr_lm_tile_tokens(e->hyper, t),
                      zr_lm_ids_of_tile(e->context, t, e->rows, e->ids, e->local), d,
                      t == table->tiles - 1 && !e->documents.runs);
        ZERO_TRY(zr_tensor_release(e->context, table, t));
    }
    return ZERO_OK;
}

// The gradient of a table needs all rows of the stream, in whichever slices their tokens are.
// *d becomes them.
static zero_status slices_backward(const embedding *e, const void **rows)
{
    const void *d = *rows;
    zero_context *context = e->context;
    zr_queue *queue = context->queue;
    const zr_division *division = &e->division;
    zero_dtype stream = zr_stream_dtype(context->shape.dtype);
    if (division->by_rows) {
        zr_run(queue,
               zr_op_copy(&(zr_bytes){division->own * e->width * (int64_t)zero_dtype_bytes(stream)},
                          d, zr_division_own(division, stream, e->place)));
        ZERO_TRY(zr_division_gather(context, division, stream));
        *rows = d = e->place;
    }
    for (int i = 0; i < zr_slices_here(division->slices); i++) {
        int64_t tokens = zr_lm_ids_of_slice(context, i, e->rows, e->ids, e->local);
        part_backward(e, zr_lm_tensor(e->hyper, i, ZR_LM_TABLE), 0, tokens, e->local, d,
                      i == 0 && !e->documents.runs);
    }
    return ZERO_OK;
}

static zero_status run_embedding_backward(zero_context *context, const zero_tensors *in,
                                          const zero_tensors *d_out, const zero_tensors *d_in)
{
    embedding e;
    void *d = d_out->at[0].data;
    ZERO_TRY(prepare_embedding(context, &e));
    apply_dropout(&e, d);
    ZERO_TRY(zr_documents_read(context, 0, e.rows, &e.documents));
    const void *all = d;
    ZERO_TRY(zr_lm_is_cut(e.hyper) ? slices_backward(&e, &all) : tiles_backward(&e, d));
    positions_backward(&e, all);
    return ZERO_OK;
}

const zero_unit_ops zr_lm_embedding_ops = {
    .kind = "embedding",
    .dtypes = ZR_LAYER_DTYPES,
    .sizes = embedding_sizes,
    .forward = run_embedding_forward,
    .backward = run_embedding_backward,
};
