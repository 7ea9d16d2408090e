// What the kinds of rows compute, in all slices of this rank: forward, and backward.
#include "layers/block.h"

static zr_queue *queue_of(const zr_block *block) { return block->context->queue; }

static int64_t bytes_of(const zr_block *block, int64_t elements)
{
    return elements * (int64_t)zero_dtype_bytes(block->dtype);
}

static char *element_at(const zr_block *block, void *array, int64_t element)
{
    return (char *)array + bytes_of(block, element);
}

// Returns whether a slice computes a row: of shared keys, only the one that lends them does.
static bool computes(const zr_block *block, const zero_block_row *row, int s)
{
    return row->width != ZERO_WIDE_KEYS || block->slices[s].lender == s;
}

static zr_attention attention_of_slice(const zr_block *block, int s)
{
    zr_attention attention = block->attention;
    attention.first_head += s * attention.heads;
    return attention;
}

// ---- linears ----

static zero_status linear_forward(zr_block *block, int half, int r, int s)
{
    const zr_linear linear = zr_block_linear(block, half, r, s);
    zr_block_value *values = block->slices[s].value[half];
    int in = zr_block_rows(block, half)[r].in[0];
    return zr_linear_forward(block->context, &linear, in ? values[in].at : block->input,
                             values[r].at, block->scratch);
}

static zero_status linear_backward(zr_block *block, int half, int r, int s)
{
    const zr_linear linear = zr_block_linear(block, half, r, s);
    zr_block_value *values = block->slices[s].value[half];
    int in = zr_block_rows(block, half)[r].in[0];
    return zr_linear_backward(block->context, &linear, block->parts, values[in].at, values[r].d,
                              values[in].d, block->scratch);
}

// The parts of an input row that a slice computes: slices that share keys and values each have
// their gradients, but only one of them computes the share of the input's gradient.
static unsigned parts_of_input(const zr_block *block, const zero_block_row *row, int s)
{
    unsigned parts = row->width == ZERO_WIDE_KEYS && !block->slices[s].first ? ZR_BACKWARD_WEIGHT
                                                                             : ZR_BACKWARD_WHOLE;
    return computes(block, row, s) ? block->parts & parts : 0;
}

zero_status zr_block_input_backward(zr_block *block, int half, int s, float *dx)
{
    const zero_block_row *rows = zr_block_rows(block, half);
    bool adds = false;
    for (int r = zr_block_last_row(block, half); r > 0; r--) {
        const zr_linear linear = zr_block_linear(block, half, r, s);
        zr_block_value *values = block->slices[s].value[half];
        if (!zr_row_is_input(&rows[r]) || !computes(block, &rows[r], s))
            continue;
        unsigned parts = parts_of_input(block, &rows[r], s);
        ZERO_TRY(zr_linear_backward_sum(block->context, &linear, parts, values[0].at, values[r].d,
                                        dx, adds, block->scratch));
        adds = adds || parts & ZR_BACKWARD_INPUT;
    }
    return ZERO_OK;
}

// ---- norms of heads, from T into fp32, because the rotation rounds again ----

zr_norm zr_heads_norm(const zr_block *block, const zero_block_row *row)
{
    const zr_attention *a = &block->attention;
    return (zr_norm){
        .dtype = ZERO_F32,
        .stream = block->dtype,
        .rows = block->rows * (row->width == ZERO_WIDE_KEYS ? a->kv_heads : a->heads),
        .width = a->head_dim,
        .epsilon = block->hyper->shape.norm_epsilon,
        .rms = true,
    };
}

int64_t zr_heads_norm_floats(const zr_block *block, const zero_block_row *row)
{
    const zr_norm norm = zr_heads_norm(block, row);
    return zr_spare_floats(norm.rows * norm.width) + zr_spare_floats(norm.rows) + norm.width;
}

// Returns the rstd that lies behind the value of a HEAD_NORM.
static float *rstd_of(const zr_norm *norm, float *value)
{
    return value + zr_spare_floats(norm->rows * norm->width);
}

// Returns the gain in fp32, which lies behind rstd if it is converted.
static const float *gain_of(const zr_block *block, const zero_block_row *row, const zr_norm *norm,
                            float *value)
{
    const void *gain = zr_tensor_values(block->context, &block->hyper->tensor[row->weight], 0);
    float *wide = rstd_of(norm, value) + zr_spare_floats(norm->rows);
    if (block->dtype == ZERO_F32)
        return gain;
    zr_run(queue_of(block),
           zr_op_convert(&(zr_conversion){block->dtype, ZERO_F32, norm->width}, gain, wide));
    return wide;
}

static zero_status head_norm_forward(zr_block *block, int half, int r, int s)
{
    const zero_block_row *row = &zr_block_rows(block, half)[r];
    const zr_norm norm = zr_heads_norm(block, row);
    zr_block_value *values = block->slices[s].value[half];
    float *y = values[r].at;
    zr_run(queue_of(block),
           zr_op_norm_forward(&norm, values[row->in[0]].at, NULL, NULL,
                              gain_of(block, row, &norm, y), NULL, y, NULL, rstd_of(&norm, y)));
    return ZERO_OK;
}

static void head_norm_backward_slice(zr_block *block, int half, int r, int s)
{
    const zero_block_row *row = &zr_block_rows(block, half)[r];
    zr_norm norm = zr_heads_norm(block, row);
    zr_block_value *values = block->slices[s].value[half];
    float *y = values[r].at, *d_gain = block->slices[s].d_gain[r];
    int add = 0;
    if (!d_gain)
        d_gain =
            zr_gains_place(block->context, &block->gains, &block->hyper->tensor[row->weight], &add);
    norm.add_parameters = add;
    zr_run(queue_of(block),
           zr_op_norm_backward(&norm, values[r].d, values[row->in[0]].at,
                               gain_of(block, row, &norm, y), NULL, rstd_of(&norm, y), NULL,
                               values[row->in[0]].d, d_gain, NULL, block->scratch));
}

// The gradient of a shared key's gain counts once, in the first of the slices that share it. The
// last slice adds up those of all.
static zero_status head_norm_backward(zr_block *block, int half, int r, int s)
{
    const zero_block_row *row = &zr_block_rows(block, half)[r];
    int64_t dim = block->attention.head_dim;
    const zr_bytes gain = {dim * (int64_t)sizeof(float)};
    float *parts = block->slices[0].d_gain[r];
    float *sum = zr_gains_sum(&block->gains, &block->hyper->tensor[row->weight]);
    if (computes(block, row, s))
        head_norm_backward_slice(block, half, r, s);
    if (parts && row->width == ZERO_WIDE_KEYS && !block->slices[s].first)
        zr_run(queue_of(block), zr_op_fill(&gain, block->slices[s].d_gain[r]));
    if (!parts || !sum || s + 1 < block->slice_count)
        return ZERO_OK;
    zr_rows_add(queue_of(block), block->slice_count, zr_spare_floats(dim), parts);
    zr_run(queue_of(block), zr_op_copy(&gain, parts, sum));
    return ZERO_OK;
}

// ---- rotation by position, and packing ----

static zr_rotary rotary_of(const zr_block *block, bool back)
{
    bool by_row = block->documents.runs; // each row has its own angles
    return (zr_rotary){.batch = by_row ? 1 : block->attention.batch,
                       .seq = by_row ? block->rows : block->attention.seq,
                       .rotated = block->hyper->shape.rotated,
                       .back = back};
}

// Computes cosines and sines for every row's position; in a step of generation, the runs give the
// positions.
static void make_angles(zr_block *block)
{
    zr_rotary rotary = rotary_of(block, false);
    const float *frequency = block->hyper->frequency;
    float *angles = block->angles;
    rotary.factor = block->hyper->rotary_factor;
    const zr_attention_run *runs = block->step ? block->step->runs : block->documents.runs;
    int count = block->step ? block->step->run_count : block->documents.count;
    if (!runs)
        zr_run(queue_of(block), zr_op_rotary_table(&rotary, frequency, angles));
    for (int i = 0; runs && i < count; i++) {
        rotary.first = runs[i].first;
        rotary.seq = runs[i].rows;
        zr_run(queue_of(block), zr_op_rotary_table(&rotary, frequency, angles));
        angles += runs[i].rows * rotary.rotated;
    }
}

// Where the queries, keys or values of a slice lie.
typedef struct columns {
    void *at;
    int64_t row, head; // elements from row to row, and from head to head
    zero_dtype type;   // of norms of heads, or T
} columns;

enum { QUERIES, KEYS, VALUES, TURNED };

static int64_t heads_of(const zr_block *block, int which)
{
    return which == QUERIES ? block->attention.heads : block->attention.kv_heads;
}

// Returns where a rotating row reads them, or where their gradients go.
static columns read_columns(const zr_block *block, int half, int r, int s, int which, bool back)
{
    const zero_block_row *rows = zr_block_rows(block, half), *row = &rows[r];
    bool woven = row->kind == ZERO_ROW_ROTATE_HEADS;
    int64_t dim = block->attention.head_dim, step = woven ? TURNED * dim : dim;
    int in = row->in[woven ? 0 : which], from = which == QUERIES ? s : block->slices[s].lender;
    const zr_block_value *value = &block->slices[from].value[half][in];
    bool wide = rows[in].kind == ZERO_ROW_HEAD_NORM && zr_row_exists(block, &rows[in]);
    return (columns){.at = element_at(block, back ? value->d : value->at, woven ? which * dim : 0),
                     .row = heads_of(block, which) * step,
                     .head = step,
                     .type = wide ? ZERO_F32 : block->dtype};
}

// Returns where attention reads them, in `packed`.
static columns packed_columns(const zr_block *block, void *packed, int which)
{
    const zr_attention *a = &block->attention;
    const int64_t first[] = {0, a->heads * a->head_dim, (a->heads + a->kv_heads) * a->head_dim};
    return (columns){.at = element_at(block, packed, first[which]),
                     .row = zr_attention_row(a),
                     .head = a->head_dim,
                     .type = block->dtype};
}

// Rotates queries or keys, or copies values, from some columns to others.
static void turn(const zr_block *block, const zr_rotary *by, int which, const columns *from,
                 const columns *to)
{
    zr_rotary rotary = *by;
    rotary.rotated = which == VALUES ? 0 : by->rotated;
    rotary.rest = block->attention.head_dim - rotary.rotated;
    rotary.heads = heads_of(block, which);
    rotary.from = from->type, rotary.to = to->type;
    rotary.x_step = from->row, rotary.y_step = to->row;
    rotary.x_head = from->head, rotary.y_head = to->head;
    zr_run(queue_of(block),
           zr_op_rotate(&rotary, which == VALUES ? NULL : block->angles, from->at, to->at));
}

// The first slice makes the angles of all.
static zero_status rotate_forward(zr_block *block, int half, int r, int s)
{
    const zr_rotary rotary = rotary_of(block, false);
    if (s == 0)
        make_angles(block);
    for (int which = QUERIES; which < TURNED; which++) {
        const columns from = read_columns(block, half, r, s, which, false),
                      to = packed_columns(block, block->slices[s].value[half][r].at, which);
        turn(block, &rotary, which, &from, &to);
    }
    return ZERO_OK;
}

// Sums the gradients of the keys and values that slices [first, first + count) share, also with
// slices of other ranks if those share them; then rounds them once.
static zero_status sum_shared(zr_block *block, int first, int count)
{
    zr_queue *queue = queue_of(block);
    const zr_block_slice *slice = &block->slices[first];
    int64_t size = block->rows * zr_attention_shared_row(&block->attention);
    const zr_bytes all = {size * (int64_t)sizeof(float)};
    zr_rows_add(queue, count, zr_spare_floats(size), slice->d_shared);
    if (block->shared.elements) {
        zr_run(queue, zr_op_copy(&all, slice->d_shared, block->place));
        ZERO_TRY(zr_exchange(block->context, &block->shared, 0));
        zr_run(queue, zr_op_copy(&all, block->place, slice->d_shared));
    }
    zr_run(queue, zr_op_convert(&(zr_conversion){ZERO_F32, block->dtype, size}, slice->d_shared,
                                slice->d_keys));
    return ZERO_OK;
}

static zero_status share_keys(zr_block *block)
{
    for (int s = 0, end; s < block->slice_count && block->kv_replicas > 1; s = end) {
        for (end = s + 1; end < block->slice_count && block->slices[end].lender == s;)
            end++;
        ZERO_TRY(sum_shared(block, s, end - s));
    }
    return ZERO_OK;
}

// Returns where the gradients are that attention wrote, in `packed`; those of shared keys and
// values are their sums.
static columns gradient_columns(const zr_block *block, const zr_block_slice *slice, void *packed,
                                int which)
{
    columns of = packed_columns(block, packed, which);
    int64_t keys = block->attention.kv_heads * block->attention.head_dim;
    if (!slice->d_shared || which == QUERIES)
        return of;
    of.at = element_at(block, slice->d_keys, which == KEYS ? 0 : keys);
    of.row = 2 * keys;
    return of;
}

// Before the first slice, the gradients of shared keys and values are summed.
static zero_status rotate_backward(zr_block *block, int half, int r, int s)
{
    const zr_rotary rotary = rotary_of(block, true);
    const zr_block_slice *slice = &block->slices[s];
    if (s == 0)
        ZERO_TRY(share_keys(block));
    for (int which = QUERIES; which < TURNED && (which == QUERIES || slice->lender == s); which++) {
        const columns from = gradient_columns(block, slice, slice->value[half][r].d, which),
                      to = read_columns(block, half, r, s, which, true);
        turn(block, &rotary, which, &from, &to);
    }
    return ZERO_OK;
}

// ---- attention ----

static int64_t rows_of_runs(const zr_attention_run *runs, int count)
{
    int64_t rows = 0;
    for (int r = 0; r < count; r++)
        rows += runs[r].rows;
    return rows;
}

// Fills in the part of a cache that belongs to a slice of the unit's layer. An operation of a
// device takes at most ZR_MOST_RUNS.
static void decode(zr_block *block, zr_attention *a, int s, const char *packed, char *out)
{
    const zr_decode_cache *cache = block->cache;
    const zr_decode_step *step = block->step;
    int64_t each = cache->sequences * a->kv_heads * a->head_dim * cache->capacity,
            first = (block->hyper->layer * block->slice_count + s) * each;
    a->window = block->hyper->window; // seq is that of the step, not of what the cache has
    a->sequences = cache->sequences;
    a->capacity = cache->capacity;
    int most = zr_backend_is_far(queue_of(block)->backend) ? ZR_MOST_RUNS : step->run_count;
    for (int r = 0; r < step->run_count; r += a->run_count) {
        a->run_count = ZR_MIN(step->run_count - r, most);
        a->seq = rows_of_runs(step->runs + r, a->run_count);
        zr_run(queue_of(block),
               zr_op_attention_decode(a, step->runs + r, cache->k + first, cache->v + first, packed,
                                      out, block->scratch));
        packed += a->seq * zr_attention_row(a) * (int64_t)zero_dtype_bytes(a->dtype);
        out += a->seq * a->heads * a->head_dim * (int64_t)zero_dtype_bytes(a->dtype);
    }
}

static zero_status attention_forward(zr_block *block, int half, int r, int s)
{
    zr_attention attention = attention_of_slice(block, s);
    zr_block_slice *slice = &block->slices[s];
    const void *packed = slice->value[half][zr_block_rows(block, half)[r].in[0]].at;
    void *out = slice->value[half][r].at;
    if (block->cache)
        decode(block, &attention, s, packed, out);
    else
        zr_run(queue_of(block),
               zr_op_attention_forward(&attention, packed, out, slice->lse, block->documents.starts,
                                       block->context->values, block->scratch));
    return ZERO_OK;
}

static zero_status attention_backward(zr_block *block, int half, int r, int s)
{
    const zr_attention attention = attention_of_slice(block, s);
    zr_block_slice *slice = &block->slices[s];
    const zr_block_value *in = &slice->value[half][zr_block_rows(block, half)[r].in[0]],
                         *out = &slice->value[half][r];
    zr_run(queue_of(block),
           zr_op_attention_backward(&attention, in->at, out->at, slice->lse, out->d, in->d,
                                    slice->d_shared, block->documents.starts,
                                    block->context->values, block->scratch));
    return ZERO_OK;
}

// ---- gelu(x), silu(gate) * up ----

static zr_elements inner_elements(const zr_block *block, int half, int r)
{
    int64_t width = zr_row_elements(block, &zr_block_rows(block, half)[r]);
    return (zr_elements){block->dtype, block->rows * width};
}

static zero_status gelu_erf_forward(zr_block *block, int half, int r, int s)
{
    const zr_elements all = inner_elements(block, half, r);
    zr_block_value *values = block->slices[s].value[half];
    zr_run(
        queue_of(block),
        zr_op_gelu_erf_forward(&all, values[zr_block_rows(block, half)[r].in[0]].at, values[r].at));
    return ZERO_OK;
}

static zero_status gelu_erf_backward(zr_block *block, int half, int r, int s)
{
    const zr_elements all = inner_elements(block, half, r);
    zr_block_value *values = block->slices[s].value[half],
                   *in = &values[zr_block_rows(block, half)[r].in[0]];
    zr_run(queue_of(block), zr_op_gelu_erf_backward(&all, in->at, values[r].d, in->d));
    return ZERO_OK;
}

static zero_status silu_gate_forward(zr_block *block, int half, int r, int s)
{
    const zero_block_row *row = &zr_block_rows(block, half)[r];
    const zr_elements all = inner_elements(block, half, r);
    zr_block_value *values = block->slices[s].value[half];
    zr_run(queue_of(block), zr_op_silu_gate_forward(&all, values[row->in[0]].at,
                                                    values[row->in[1]].at, values[r].at));
    return ZERO_OK;
}

static zero_status silu_gate_backward(zr_block *block, int half, int r, int s)
{
    const zero_block_row *row = &zr_block_rows(block, half)[r];
    const zr_elements all = inner_elements(block, half, r);
    zr_block_value *values = block->slices[s].value[half], *gate = &values[row->in[0]],
                   *up = &values[row->in[1]];
    zr_run(queue_of(block),
           zr_op_silu_gate_backward(&all, gate->at, up->at, values[r].d, gate->d, up->d));
    return ZERO_OK;
}

// ---- rows ----

// Compute a row's value, or the gradients of what it reads, in one slice.
static const struct {
    zero_status (*forward)(zr_block *block, int half, int row, int slice);
    zero_status (*backward)(zr_block *block, int half, int row, int slice);
} kinds[ZERO_ROW_KINDS] = {
    [ZERO_ROW_LINEAR] = {linear_forward, linear_backward},
    [ZERO_ROW_GELU_LINEAR] = {linear_forward, linear_backward},
    [ZERO_ROW_HEAD_NORM] = {head_norm_forward, head_norm_backward},
    [ZERO_ROW_ROTATE] = {rotate_forward, rotate_backward},
    [ZERO_ROW_ROTATE_HEADS] = {rotate_forward, rotate_backward},
    [ZERO_ROW_ATTENTION] = {attention_forward, attention_backward},
    [ZERO_ROW_GELU_ERF] = {gelu_erf_forward, gelu_erf_backward},
    [ZERO_ROW_SILU_GATE] = {silu_gate_forward, silu_gate_backward},
};

zero_status zr_row_forward(zr_block *block, int half, int r)
{
    const zero_block_row *row = &zr_block_rows(block, half)[r];
    for (int s = 0; s < block->slice_count && zr_row_exists(block, row); s++)
        if (computes(block, row, s))
            ZERO_TRY(kinds[row->kind].forward(block, half, r, s));
    return ZERO_OK;
}

zero_status zr_row_backward(zr_block *block, int half, int r)
{
    const zero_block_row *row = &zr_block_rows(block, half)[r];
    if (!zr_row_exists(block, row) || !(zr_row_is_linear(row) || block->parts & ZR_BACKWARD_INPUT))
        return ZERO_OK;
    for (int s = 0; s < block->slice_count; s++)
        ZERO_TRY(kinds[row->kind].backward(block, half, r, s));
    return ZERO_OK;
}
