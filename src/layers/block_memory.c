// Where a block's values lie, as it follows from its rows: kept values in the saved buffer; what a
// split backward needs later in the held buffer; everything else in the workspace, where values
// that are never needed at the same time share memory. A value is needed from the row that computes
// it to the last row that reads it; places are given first fit, in the order in which values begin:
//
//   forward    norm | rows of a half, then of the other | the branches join
//   backward   gradient of the branch | values again | rows reversed | norm again | input rows
//
// Each use of the block, and each half in backward, has a layout of its own, and all begin at the
// same address. The scratch follows.
#include "layers/block.h"

#include <math.h>

// The values of a layout: those of rows (of both halves in forward), their gradients, and what one
// half of a backward has beside them.
enum {
    GRADIENT = ZR_MOST_ROWS, // of a row; in forward, the values of the second half
    SUM = 2 * ZR_MOST_ROWS,
    SHARED,
    KEYS,
    MOST_VALUES
};

typedef struct life {
    int birth, death; // times; 0: it is not needed
    int onto;         // it takes the place of this value; 0: it has its own
    int copies;       // slices
    int64_t bytes;    // of a copy
    int64_t first;    // byte, from where the layout begins
} life;

typedef struct timeline {
    const zr_block *block;
    int time, count;
    int order[MOST_VALUES]; // (count) values as they begin
    life all[MOST_VALUES];
} timeline;

bool zr_row_exists(const zr_block *block, const zr_block_row *row)
{
    return row->kind != ZR_ROW_HEAD_NORM || zr_tensor_exists(&block->hyper->tensor[row->weight]);
}

int64_t zr_row_elements(const zr_block *block, const zr_block_row *row)
{
    const zr_attention *a = &block->attention;
    const zr_lm_unit *hyper = block->hyper;
    const int64_t widths[] = {
        [ZR_WIDE_STREAM] = block->width,
        [ZR_WIDE_QUERIES] = a->heads * a->head_dim,
        [ZR_WIDE_KEYS] = a->kv_heads * a->head_dim,
        [ZR_WIDE_PACKED] = zr_attention_row(a),
        [ZR_WIDE_INNER] = hyper->shape.inner / hyper->slices.count,
    };
    switch (row->kind) {
    case ZR_ROW_NORM: return block->width;
    case ZR_ROW_HEAD_NORM: return widths[row->of_keys ? ZR_WIDE_KEYS : ZR_WIDE_QUERIES];
    case ZR_ROW_ROTATE: return widths[ZR_WIDE_PACKED];
    case ZR_ROW_ATTENTION: return widths[ZR_WIDE_QUERIES];
    case ZR_ROW_SILU_GATE: return widths[ZR_WIDE_INNER];
    default: return widths[row->width];
    }
}

// Returns the row whose value stands for that of `row`, which may be absent.
static int value_row(const zr_block *block, int half, int row)
{
    const zr_block_row *rows = zr_block_rows(block, half);
    while (!zr_row_exists(block, &rows[row]))
        row = rows[row].in[0];
    return row;
}

static int64_t value_bytes(const zr_block *block, const zr_block_row *row, bool gradient)
{
    bool wide = row->kind == ZR_ROW_HEAD_NORM;
    if (wide && !gradient)
        return (int64_t)sizeof(float) * zr_heads_norm_floats(block, row);
    return block->rows * zr_row_elements(block, row) *
           (int64_t)zero_dtype_bytes(wide ? ZERO_F32 : block->dtype);
}

static int place_of(const timeline *t, int value)
{
    while (t->all[value].onto)
        value = t->all[value].onto;
    return value;
}

// Notes that a value is needed now. bytes: those of a copy.
static void need(timeline *t, int value, int copies, int64_t bytes)
{
    life *of = &t->all[place_of(t, value)];
    if (!of->birth) {
        *of = (life){.birth = t->time, .copies = copies, .bytes = ZR_ROUND_UP(bytes, (int64_t)64)};
        t->order[t->count++] = place_of(t, value);
    }
    of->death = t->time;
}

static void need_row(timeline *t, int half, int row, int offset, bool gradient)
{
    const zr_block *block = t->block;
    bool whole = row == 0 || row == zr_block_last_row(block, half); // of all slices together
    need(t, offset + row, whole ? 1 : block->slice_count,
         value_bytes(block, &zr_block_rows(block, half)[row], gradient));
}

// Gives every value its place; returns the bytes of the layout.
static int64_t place_values(timeline *t)
{
    int64_t end = 0;
    for (int i = 0; i < t->count; i++) {
        life *of = &t->all[t->order[i]];
        int64_t bytes = of->copies * of->bytes;
        for (int k = 0; k < i; k++) {
            const life *other = &t->all[t->order[k]];
            int64_t other_end = other->first + other->copies * other->bytes;
            if (other->death < of->birth || other_end <= of->first ||
                of->first + bytes <= other->first)
                continue;
            of->first = other_end;
            k = -1; // it may now lie where an earlier one does
        }
        end = ZR_MAX(end, of->first + bytes);
    }
    return end;
}

static bool is_in_workspace(const zr_block_row *row, zr_block_use use)
{
    return !row->kept || use == ZR_BLOCK_EVALUATES;
}

static void need_inputs(timeline *t, int half, int row, int offset, zr_block_use use)
{
    const zr_block_row *rows = zr_block_rows(t->block, half);
    int count = rows[row].kind == ZR_ROW_ROTATE ? 3 : rows[row].kind == ZR_ROW_SILU_GATE ? 2 : 1;
    for (int i = 0; i < count && row > 0; i++) {
        int in = value_row(t->block, half, rows[row].in[i]);
        if (is_in_workspace(&rows[in], use))
            need_row(t, half, in, offset, false);
    }
}

static void follow_forward(timeline *t, int half, zr_block_use use)
{
    const zr_block_row *rows = zr_block_rows(t->block, half);
    int offset = half * GRADIENT, last = zr_block_last_row(t->block, half);
    for (int r = 0; r <= last; r++, t->time++) {
        if (!zr_row_exists(t->block, &rows[r]))
            continue;
        need_inputs(t, half, r, offset, use);
        if (rows[r].kind == ZR_ROW_SILU_GATE && use == ZR_BLOCK_EVALUATES)
            t->all[offset + r].onto = offset + rows[r].in[0];
        if (is_in_workspace(&rows[r], use))
            need_row(t, half, r, offset, false);
    }
    need_row(t, half, last, offset, false); // it joins the stream while the next norm is written
}

// Returns whether the gradient of a branch is a copy of the stream's.
static bool copies_gradient(const zr_block *block)
{
    return block->dropout > 0 || block->stream != block->dtype || block->division.by_rows ||
           block->parts != ZR_BACKWARD_WHOLE;
}

static bool is_summed(const zr_block *block, int half)
{
    int inputs = 0;
    for (int r = 1; r <= zr_block_last_row(block, half); r++)
        inputs += zr_row_is_input(&zr_block_rows(block, half)[r]);
    return inputs > 1 || zr_block_is_cut(block);
}

// Needs the gradients of shared keys and values: unrounded, and, where they go on, as sums.
static void need_shared(timeline *t, bool sums)
{
    const zr_block *block = t->block;
    int64_t elements = block->rows * zr_attention_shared_row(&block->attention);
    if (block->kv_replicas == 1)
        return;
    need(t, SHARED, block->slice_count, elements * (int64_t)sizeof(float));
    if (sums)
        need(t, KEYS, block->slice_count, elements * (int64_t)zero_dtype_bytes(block->dtype));
}

static void follow_row_backward(timeline *t, int half, int r)
{
    const zr_block *block = t->block;
    const zr_block_row *rows = zr_block_rows(block, half), *row = &rows[r];
    int inputs = row->kind == ZR_ROW_ROTATE ? 3 : row->kind == ZR_ROW_SILU_GATE ? 2 : 1;
    need_inputs(t, half, r, 0, ZR_BLOCK_GOES_BACK);
    if (r < zr_block_last_row(block, half) || copies_gradient(block))
        need_row(t, half, r, GRADIENT, true);
    if (row->kind == ZR_ROW_ATTENTION || row->kind == ZR_ROW_ROTATE)
        need_shared(t, row->kind == ZR_ROW_ROTATE);
    for (int i = 0; i < inputs; i++) {
        int in = value_row(block, half, row->in[i]);
        if (row->kind == ZR_ROW_SILU_GATE && i == 0)
            t->all[GRADIENT + in].onto = GRADIENT + r;
        if (rows[in].kind == ZR_ROW_HEAD_NORM)
            t->all[GRADIENT + in].onto = in;
        need_row(t, half, in, GRADIENT, true);
    }
}

// The gradient of the norm's output: of one product of one slice in T, otherwise a sum in fp32.
static void follow_inputs_backward(timeline *t, int half)
{
    const zr_block *block = t->block;
    const zr_block_row *rows = zr_block_rows(block, half);
    bool summed = is_summed(block, half);
    int64_t sum = block->rows * block->width * (int64_t)sizeof(float);
    need_row(t, half, 0, 0, false);
    for (int r = zr_block_last_row(block, half); r > 0; r--) {
        if (!zr_row_is_input(&rows[r]))
            continue;
        need_row(t, half, r, GRADIENT, true);
        need_row(t, half, 0, 0, false);
        if (summed && !zr_block_is_cut(block))
            need(t, SUM, 1, sum);
        else if (!summed)
            need_row(t, half, 0, GRADIENT, true);
        t->time++;
    }
    if (summed && block->dtype != ZERO_F32)
        need_row(t, half, 0, GRADIENT, true);
    if (summed && !zr_block_is_cut(block))
        need(t, SUM, 1, sum);
}

static void follow_backward(timeline *t, int half)
{
    const zr_block *block = t->block;
    const zr_block_row *rows = zr_block_rows(block, half);
    int last = zr_block_last_row(block, half);
    if (copies_gradient(block))
        need_row(t, half, last, GRADIENT, true);
    for (int r = 1; r < last; r++, t->time++)
        if (!rows[r].kept && zr_row_exists(block, &rows[r])) {
            need_inputs(t, half, r, 0, ZR_BLOCK_GOES_BACK);
            need_row(t, half, r, 0, false);
        }
    for (int r = last; r > 0; r--, t->time++) {
        if (zr_row_is_input(&rows[r]) || !zr_row_exists(block, &rows[r]))
            continue;
        follow_row_backward(t, half, r);
    }
    follow_inputs_backward(t, half);
}

// Returns the place of a copy of a value, or NULL if it has none.
static void *at_place(const timeline *t, char *base, int value, int copy)
{
    const life *of = &t->all[place_of(t, value)];
    return base && of->birth ? base + of->first + (of->copies > 1 ? copy : 0) * of->bytes : NULL;
}

static void set_values(const timeline *t, char *base, int half, zr_block_use use, zr_block *block)
{
    const zr_block_row *rows = zr_block_rows(block, half);
    bool back = use == ZR_BLOCK_GOES_BACK;
    for (int s = 0; s < block->slice_count; s++) {
        zr_block_slice *slice = &block->slices[s];
        for (int r = 0; r <= zr_block_last_row(block, half); r++) {
            zr_block_value *value = &slice->value[half][r];
            int row = value_row(block, half, r);
            if (row != r) {
                *value = slice->value[half][row];
                continue;
            }
            if (is_in_workspace(&rows[r], use))
                value->at = at_place(t, base, r + (back ? 0 : half * GRADIENT), s);
            value->d = back ? at_place(t, base, GRADIENT + r, s) : NULL;
        }
        if (back && half == ZR_ATTENTION_HALF) {
            slice->d_shared = at_place(t, base, SHARED, s);
            slice->d_keys = at_place(t, base, KEYS, s);
        }
    }
    if (back && t->all[SUM].birth)
        block->sum = at_place(t, base, SUM, 0);
}

// Lays out one use; returns its bytes, without the scratch. base: NULL to count only.
static int64_t lay_out_use(zr_block *block, zr_block_use use, char *base)
{
    int64_t end = 0;
    for (int half = 0; half < ZR_BLOCK_HALVES; half++) {
        timeline t = {.block = block, .time = 1};
        if (use != ZR_BLOCK_GOES_BACK) {
            follow_forward(&t, ZR_ATTENTION_HALF, use);
            follow_forward(&t, ZR_MLP_HALF, use);
            end = place_values(&t);
            set_values(&t, base, ZR_ATTENTION_HALF, use, block);
            set_values(&t, base, ZR_MLP_HALF, use, block);
            return end;
        }
        follow_backward(&t, half);
        int64_t of_half = place_values(&t);
        end = ZR_MAX(end, of_half);
        set_values(&t, base, half, use, block);
    }
    return end;
}

static size_t scratch_bytes(const zr_block *block, int threads)
{
    size_t most = ZR_MAX(zr_scratch_norm(threads, &block->norm[0].norm),
                         zr_scratch_attention(threads, &block->attention));
    for (int half = 0; half < ZR_BLOCK_HALVES; half++)
        for (int r = 1; r <= zr_block_last_row(block, half); r++) {
            const zr_block_row *row = &zr_block_rows(block, half)[r];
            const zr_linear linear = zr_block_linear(block, half, r, 0);
            const zr_norm heads = zr_heads_norm(block, row);
            size_t bytes = zr_row_is_linear(row)             ? zr_linear_scratch(&linear, threads)
                           : row->kind == ZR_ROW_HEAD_NORM ? zr_scratch_norm(threads, &heads)
                                                           : 0;
            most = ZR_MAX(most, bytes);
        }
    return most;
}

static void carve_statistics(zr_block *block, zr_carver *carver)
{
    for (int half = 0; half < ZR_BLOCK_HALVES; half++) {
        zr_norm_statistics *of = &block->statistics[half];
        of->mean = block->norm[half].norm.rms ? NULL : zr_carve_floats(carver, block->division.own);
        of->rstd = zr_carve_floats(carver, block->division.own);
    }
}

// Cuts the value of a row that is kept; slices that share keys have that of their lender.
static void carve_value(zr_block *block, int half, int r, int s, zr_carver *carver)
{
    const zr_block_row *row = &zr_block_rows(block, half)[r];
    zr_block_slice *slice = &block->slices[s];
    if (row->of_keys && slice->lender != s) {
        slice->value[half][r].at = block->slices[slice->lender].value[half][r].at;
        return;
    }
    slice->value[half][r].at =
        zr_carve_as(carver, block->dtype, block->rows * zr_row_elements(block, row));
    if (row->kind == ZR_ROW_ATTENTION)
        slice->lse = zr_carve_floats(carver, block->rows * block->attention.heads);
}

static size_t carve_saved(zr_block *block, void *base)
{
    zr_carver carver = {.base = base};
    carve_statistics(block, &carver);
    for (int half = 0; half < ZR_BLOCK_HALVES; half++)
        for (int r = 1; r <= zr_block_last_row(block, half); r++)
            for (int s = 0; s < block->slice_count && zr_block_rows(block, half)[r].kept; s++)
                carve_value(block, half, r, s, &carver);
    if (!block->table->parallel)
        block->middle = zr_carve_as(&carver, block->stream, block->division.own * block->width);
    return carver.used;
}

static bool is_split(const zr_block *block) { return block->parts != ZR_BACKWARD_WHOLE; }

// Puts the gradients of the outputs of linears that train in the held buffer, for the weight part of
// a split backward. Those of shared keys and values belong to the slice that lends them.
static void hold_gradients(zr_block *block, zr_carver *held)
{
    for (int half = 0; half < ZR_BLOCK_HALVES; half++) {
        int last = zr_block_last_row(block, half);
        const zr_linear branch = zr_block_branch_linear(block, half);
        void *d = zr_linear_hold(&branch, held, block->slices[0].value[half][last].d);
        for (int s = 0; s < block->slice_count; s++) {
            zr_block_value *values = block->slices[s].value[half];
            values[last].d = d;
            for (int r = 1; r < last; r++) {
                const zr_block_row *row = &zr_block_rows(block, half)[r];
                const zr_linear linear = zr_block_linear(block, half, r, s);
                if (zr_row_is_linear(row) && !linear.is_lent)
                    values[r].d = zr_linear_hold(&linear, held, values[r].d);
            }
        }
    }
}

// The gradients of heads' gains have a part for each slice, one after another, to be summed.
static void carve_head_gains(zr_block *block, zr_carver *work, zr_carver *sums)
{
    int64_t dim = block->attention.head_dim, step = zr_spare_floats(dim);
    const zr_block_row *rows = zr_block_rows(block, ZR_ATTENTION_HALF);
    for (int r = 1; r < zr_block_last_row(block, ZR_ATTENTION_HALF); r++) {
        bool cut = zr_block_is_cut(block);
        if (rows[r].kind != ZR_ROW_HEAD_NORM || !zr_row_exists(block, &rows[r]))
            continue;
        float *parts = cut ? zr_carve_floats(work, block->slice_count * step) : NULL;
        for (int s = 0; s < block->slice_count; s++)
            block->slices[s].d_gain[r] = parts ? parts + s * step : NULL;
        zr_gains_carve(&block->gains, sums, &block->hyper->tensor[rows[r].weight], dim, cut);
    }
}

// sums: the buffer for sums of gains, which is not scratch if backward is split.
static void carve_gains(zr_block *block, zr_carver *work, zr_carver *sums)
{
    const zr_division *division = &block->division;
    block->partials = zr_carve_floats(work, zr_norm_partials(&block->norm[0], division));
    carve_head_gains(block, work, sums);
    if (!is_split(block) && !zr_gains_by_rows(division->slices))
        return;
    for (int half = 0; half < ZR_BLOCK_HALVES; half++)
        zr_norm_gains_carve(&block->norm[half], division, &block->gains, sums);
}

size_t zr_block_place_bytes(const zr_block *block)
{
    size_t of_shared =
        sizeof(float) * (size_t)(block->shared.elements * ZR_MAX(block->shared.replicas, 1));
    size_t most = ZR_MAX(zr_division_place_bytes(&block->division), of_shared);
    return ZR_MAX(most, zr_gains_place_bytes(block->division.slices, &block->gains));
}

static bool rotates(const zr_block *block)
{
    for (int r = 1; r < zr_block_last_row(block, ZR_ATTENTION_HALF); r++)
        if (zr_block_rows(block, ZR_ATTENTION_HALF)[r].kind == ZR_ROW_ROTATE)
            return true;
    return false;
}

// Lays out the workspace. While only counting, returns the bytes that suffice for every use.
static size_t carve_workspace(zr_block *block, const zr_block_layout *l, int threads,
                              zr_carver *held)
{
    zr_carver carver = {.base = l->workspace};
    const zr_attention *attention = &block->attention;
    if (zr_block_is_cut(block))
        block->spare = zr_carve_floats(&carver, zr_slices_spare(block->division.slices) *
                                                    zr_spare_floats(block->rows * block->width));
    if (zr_block_is_cut(block) || is_split(block))
        carve_gains(block, &carver, is_split(block) ? held : &carver);
    if (zr_block_is_cut(block))
        block->place = zr_carve_place(&carver, block->hyper, zr_block_place_bytes(block));
    if (rotates(block)) {
        block->frequency = zr_carve_floats(&carver, attention->head_dim / 2);
        block->angles = zr_carve_floats(&carver, attention->seq * attention->head_dim);
    }
    char *base = l->workspace ? (char *)l->workspace + carver.used : NULL;
    int64_t end = lay_out_use(block, l->use, base);
    block->scratch = base ? base + end : NULL;
    if (base)
        return 0;
    for (int use = ZR_BLOCK_TRAINS; use <= ZR_BLOCK_GOES_BACK && l->use != ZR_BLOCK_EVALUATES; use++) {
        int64_t bytes = lay_out_use(block, (zr_block_use)use, NULL);
        end = ZR_MAX(end, bytes);
    }
    return carver.used + (size_t)end + scratch_bytes(block, threads);
}

static zr_attention attention_of(const zr_lm_unit *hyper, const zero_shape *shape, bool training)
{
    const zr_lm_shape *of = &hyper->shape;
    int64_t count = hyper->slices.count, heads = of->heads / count;
    return (zr_attention){
        .dtype = shape->dtype,
        .batch = shape->batch,
        .seq = shape->seq,
        .heads = heads,
        .kv_heads = ZR_MAX(of->kv_heads / count, 1),
        .head_dim = of->head_dim,
        .scale = (float)(1 / sqrt((double)of->head_dim)),
        .dropout = training ? of->attention_dropout : 0,
        .first_head = zr_slices_first(&hyper->slices) * heads,
        .all_heads = of->heads,
    };
}

// If ranks share keys and values, each holds one head of them.
static zero_exchange shared_exchange(const zr_block *block)
{
    const zr_lm_unit *hyper = block->hyper;
    int ranks = zr_slices_sharing_ranks(&hyper->slices, &hyper->shape);
    int64_t elements = block->rows * zr_attention_shared_row(&block->attention);
    if (ranks == 1)
        return (zero_exchange){0};
    return (zero_exchange){.kind = ZERO_EXCHANGE_SUM,
                           .backward = 1,
                           .replicas = ranks,
                           .elements = zr_sum_share(elements, ranks),
                           .dtype = ZERO_F32,
                           .calls = 1,
                           .purpose = ZERO_EXCHANGE_FOR_shared};
}

static void set_sizes(const zero_unit *unit, const zero_shape *shape, const zr_block_layout *l,
                      zr_block *block)
{
    const zr_lm_unit *hyper = zr_lm_unit_at(unit);
    const zr_lm_shape *of = &hyper->shape;
    int64_t rows = shape->batch * shape->seq;
    bool training = l->use != ZR_BLOCK_EVALUATES;
    *block = (zr_block){
        .table = zr_block_table_of(unit),
        .hyper = hyper,
        .parts = l->parts,
        .dtype = shape->dtype,
        .stream = zr_stream_dtype(shape->dtype),
        .rows = rows,
        .width = of->width,
        .division = zr_division_of(hyper, rows, l->whole),
        .attention = attention_of(hyper, shape, training),
        .dropout = training ? of->residual_dropout : 0,
        .slice_count = zr_slices_here(&hyper->slices),
        .kv_replicas = zr_slices_kv_replicas(&hyper->slices, of),
    };
    for (int s = 0; s < block->slice_count; s++) {
        int here = zr_slices_first(&hyper->slices), number = here + s;
        int first = number / block->kv_replicas * block->kv_replicas;
        block->slices[s].lender = ZR_MAX(first - here, 0);
        block->slices[s].first = first == number;
    }
    for (int half = 0; half < ZR_BLOCK_HALVES; half++) {
        const zr_block_row *norm = zr_block_rows(block, half);
        block->norm[half] = zr_lm_norm(hyper, block->dtype, block->division.own,
                                       &hyper->tensor[norm->weight], &hyper->tensor[norm->bias]);
    }
    block->shared = shared_exchange(block);
}

void zr_block_lay_out(const zero_unit *unit, const zero_shape *shape, zr_block_layout *l,
                      zr_block *block)
{
    zr_carver held = {.base = l->held};
    set_sizes(unit, shape, l, block);
    if (l->use != ZR_BLOCK_EVALUATES)
        l->saved_bytes = carve_saved(block, l->saved);
    l->workspace_bytes = carve_workspace(block, l, shape->threads, &held);
    if (is_split(block))
        hold_gradients(block, &held);
    l->held_bytes = held.used;
}

zr_linear zr_block_linear(const zr_block *block, int half, int r, int s)
{
    static const zr_tensor_handle none = {.flat_param = -1};
    const zr_block_row *rows = zr_block_rows(block, half), *row = &rows[r];
    const zr_block_slice *slice = &block->slices[s];
    bool summed = r == zr_block_last_row(block, half) && zr_block_is_cut(block);
    return (zr_linear){
        .dtype = block->dtype,
        .gelu = row->kind == ZR_ROW_GELU_LINEAR,
        .outputs_first = block->table->outputs_first,
        .rows = block->rows,
        .in = zr_row_elements(block, &rows[row->in[0]]),
        .out = zr_row_elements(block, row),
        .weight = zr_lm_tensor(block->hyper, s, row->weight),
        .bias = summed ? &none : zr_lm_tensor(block->hyper, s, row->bias),
        .is_lent = row->of_keys && slice->lender != s,
        .flows_elsewhere = row->of_keys && !slice->first,
    };
}

zr_linear zr_block_branch_linear(const zr_block *block, int half)
{
    int last = zr_block_last_row(block, half);
    zr_linear branch = zr_block_linear(block, half, last, 0);
    branch.bias = zr_lm_tensor(block->hyper, 0, zr_block_rows(block, half)[last].bias);
    return branch;
}
