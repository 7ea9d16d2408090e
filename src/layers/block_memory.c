// Where a block's values lie, as it follows from its rows: kept values in the saved buffer; what a
// split backward needs later in the held buffer; everything else in the workspace, where values
// that are never needed at the same time share memory. A value is needed from the row that computes
// it to the last row that reads it; the largest values get their places first:
//
//   forward    norm | rows of a half, then of the other | the branches join
//   backward   gradient of the branch | values again | rows reversed | norm again | input rows
//
// Each use of the block, and each half in backward, has a layout of its own, and all begin at the
// same address. The scratch follows.
#include "layers/block.h"

// The values of a layout, by number: those of the rows of a half and, from GRADIENT on, their
// gradients; in forward, those of the other half instead.
enum {
    GRADIENT = ZERO_MOST_ROWS,
    SUM = 2 * ZERO_MOST_ROWS, // of what several products add up for the norm's output
    SHARED,                   // gradients of shared keys and values, and their sums
    KEYS,
    MOST_VALUES
};

typedef struct life {
    int birth, death;     // times; birth 0: it is not needed
    int onto;             // it takes the place of this value; 0: it has its own
    int copies;           // slices, or 1 of what they have together
    int64_t bytes, first; // of a copy; from where the layout begins
} life;

typedef struct timeline {
    const zr_block *block;
    zr_block_use use;
    int half; // in backward
    int time, count;
    int order[MOST_VALUES]; // (count) values, as they begin; once placed, the largest first
    life all[MOST_VALUES];
} timeline;

static int place_of(const timeline *t, int value)
{
    while (t->all[value].onto)
        value = t->all[value].onto;
    return value;
}

static life new_life(const timeline *t, int value)
{
    const zr_block *block = t->block;
    bool back = t->use == ZR_BLOCK_GOES_BACK, gradient = back && value >= GRADIENT;
    int half = back ? t->half : value / GRADIENT, r = value % GRADIENT;
    const zero_block_row *row = &zr_block_rows(block, half)[r];
    bool together = value == SUM || r == 0 || r == zr_block_last_row(block, half),
         wide = row->kind == ZERO_ROW_HEAD_NORM;
    int64_t elements = block->rows * zr_row_elements(block, row);
    zero_dtype type = wide ? ZERO_F32 : block->dtype;
    if (wide && !gradient)
        elements = zr_heads_norm_floats(block, row);
    if (value >= SUM) {
        type = value == KEYS ? block->dtype : ZERO_F32;
        together = value == SUM;
        elements =
            block->rows * (together ? block->width : zr_attention_shared_row(&block->attention));
    }
    return (life){.birth = t->time,
                  .copies = together ? 1 : block->slice_count,
                  .bytes = ZR_ROUND_UP(elements * (int64_t)zero_dtype_bytes(type), (int64_t)64)};
}

// Notes that a value is needed now.
static void need(timeline *t, int value)
{
    int at = place_of(t, value);
    if (!t->all[at].birth) {
        t->all[at] = new_life(t, at);
        t->order[t->count++] = at;
    }
    t->all[at].death = t->time;
}

static int64_t bytes_of(const life *of) { return of->copies * of->bytes; }

// Gives every value its place, the largest first, because small ones fit into what large ones
// leave. Returns the bytes of the layout.
static int64_t place_values(timeline *t)
{
    int64_t end = 0;
    for (int i = 1; i < t->count; i++) // in place; values of equal bytes stay in order
        for (int k = i;
             k > 0 && bytes_of(&t->all[t->order[k]]) > bytes_of(&t->all[t->order[k - 1]]); k--) {
            int before = t->order[k - 1];
            t->order[k - 1] = t->order[k];
            t->order[k] = before;
        }
    for (int i = 0; i < t->count; i++) {
        life *of = &t->all[t->order[i]];
        for (int k = 0; k < i; k++) {
            const life *other = &t->all[t->order[k]];
            bool together = other->death >= of->birth && of->death >= other->birth;
            if (!together || other->first + bytes_of(other) <= of->first ||
                of->first + bytes_of(of) <= other->first)
                continue;
            of->first = other->first + bytes_of(other);
            k = -1; // it may now lie where an earlier one does
        }
        end = ZR_MAX(end, of->first + bytes_of(of));
    }
    return end;
}

static bool is_in_workspace(const zero_block_row *row, zr_block_use use)
{
    return !row->kept || use == ZR_BLOCK_EVALUATES;
}

// Needs the values that a row reads, if they are in the workspace.
static void need_inputs(timeline *t, int half, int r, int offset)
{
    const zero_block_row *rows = zr_block_rows(t->block, half);
    for (int i = 0; i < zr_row_inputs(&rows[r]); i++) {
        int in = zr_value_row(t->block, half, rows[r].in[i]);
        if (is_in_workspace(&rows[in], t->use))
            need(t, offset + in);
    }
}

static void follow_forward(timeline *t, int half)
{
    const zero_block_row *rows = zr_block_rows(t->block, half);
    int offset = half * GRADIENT, last = zr_block_last_row(t->block, half);
    for (int r = 0; r <= last; r++, t->time++) {
        if (!zr_row_exists(t->block, &rows[r]))
            continue;
        need_inputs(t, half, r, offset);
        if (zr_row_is_elementwise(&rows[r]) && t->use == ZR_BLOCK_EVALUATES)
            t->all[offset + r].onto = offset + rows[r].in[0];
        if (is_in_workspace(&rows[r], t->use))
            need(t, offset + r);
    }
    need(t, offset + last); // it joins the stream while the next norm is written
}

// Returns whether the gradient of a branch is a copy of the stream's.
static bool copies_gradient(const zr_block *block)
{
    return block->dropout > 0 || block->stream != block->dtype || block->division.by_rows ||
           block->parts != ZR_BACKWARD_WHOLE;
}

static void follow_row_backward(timeline *t, int r)
{
    const zr_block *block = t->block;
    const zero_block_row *rows = zr_block_rows(block, t->half), *row = &rows[r];
    bool shares = block->kv_replicas > 1;
    need_inputs(t, t->half, r, 0);
    if (r < zr_block_last_row(block, t->half) || copies_gradient(block))
        need(t, GRADIENT + r);
    if (shares && (row->kind == ZERO_ROW_ATTENTION || zr_row_rotates(row)))
        need(t, SHARED);
    if (shares && zr_row_rotates(row))
        need(t, KEYS);
    for (int i = 0; i < zr_row_inputs(row); i++) {
        int in = zr_value_row(block, t->half, row->in[i]);
        if (zr_row_is_elementwise(row) && i == 0)
            t->all[GRADIENT + in].onto = GRADIENT + r;
        if (rows[in].kind == ZERO_ROW_HEAD_NORM)
            t->all[GRADIENT + in].onto = in;
        need(t, GRADIENT + in);
    }
}

// The gradient of the norm's output: of one product of one slice in T, otherwise a sum in fp32 (at
// the place of exchanges, if the block is cut) that is converted.
static void follow_inputs_backward(timeline *t)
{
    const zr_block *block = t->block;
    const zero_block_row *rows = zr_block_rows(block, t->half);
    bool cut = zr_block_is_cut(block), summed = cut || zr_block_inputs(block, t->half) > 1;
    int to = summed ? SUM : GRADIENT;
    need(t, 0);
    for (int r = zr_block_last_row(block, t->half); r > 0; r--) {
        if (!zr_row_is_input(&rows[r]))
            continue;
        need(t, GRADIENT + r);
        need(t, 0);
        if (!cut)
            need(t, to);
        t->time++;
    }
    if (!cut)
        need(t, to);
    if (summed && block->dtype != ZERO_F32)
        need(t, GRADIENT);
}

static void follow_backward(timeline *t)
{
    const zr_block *block = t->block;
    const zero_block_row *rows = zr_block_rows(block, t->half);
    int last = zr_block_last_row(block, t->half);
    if (copies_gradient(block))
        need(t, GRADIENT + last);
    for (int r = 1; r < last; r++, t->time++)
        if (!rows[r].kept && zr_row_exists(block, &rows[r])) {
            need_inputs(t, t->half, r, 0);
            need(t, r);
        }
    for (int r = last; r > 0; r--, t->time++)
        if (!zr_row_is_input(&rows[r]) && zr_row_exists(block, &rows[r]))
            follow_row_backward(t, r);
    follow_inputs_backward(t);
}

// Returns the place of a copy of a value, or NULL if it has none.
static void *at_place(const timeline *t, char *base, int value, int copy)
{
    const life *of = &t->all[place_of(t, value)];
    return base && of->birth ? base + of->first + (of->copies > 1 ? copy : 0) * of->bytes : NULL;
}

static void set_values(const timeline *t, char *base, int half, zr_block *block)
{
    const zero_block_row *rows = zr_block_rows(block, half);
    bool back = t->use == ZR_BLOCK_GOES_BACK;
    for (int s = 0; s < block->slice_count; s++) {
        zr_block_slice *slice = &block->slices[s];
        zr_block_value *values = slice->value[half];
        for (int r = 0; r <= zr_block_last_row(block, half); r++) {
            if (is_in_workspace(&rows[r], t->use))
                values[r].at = at_place(t, base, back ? r : half * GRADIENT + r, s);
            if (back)
                values[r].d = at_place(t, base, GRADIENT + r, s);
        }
        if (back && half == ZERO_ATTENTION_HALF) {
            slice->d_shared = at_place(t, base, SHARED, s);
            slice->d_keys = at_place(t, base, KEYS, s);
        }
    }
    if (back)
        block->sum[half] = at_place(t, base, SUM, 0);
}

int64_t zr_block_place_values(zr_block *block, zr_block_use use, char *base)
{
    int64_t end = 0;
    bool back = use == ZR_BLOCK_GOES_BACK;
    for (int half = 0; half < (back ? ZERO_BLOCK_HALVES : 1); half++) {
        timeline t = {.block = block, .use = use, .half = half, .time = 1};
        for (int of = 0; of < ZERO_BLOCK_HALVES && !back; of++)
            follow_forward(&t, of);
        if (back)
            follow_backward(&t);
        int64_t bytes = place_values(&t);
        end = ZR_MAX(end, bytes);
        set_values(&t, base, half, block);
        if (!back)
            set_values(&t, base, ZERO_MLP_HALF, block);
    }
    return end;
}
