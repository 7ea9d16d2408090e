// The first half of Llama's block: queries, keys and values; norms of the heads, if there are any;
// rotation by position; causal attention with shared keys; the output's product. It saves q, k and
// v as their products wrote them. Backward recomputes what attention reads: normed, rotated and
// packed.
#include "compute/compute.h"
#include "layers/block.h"
#include "model/llama_model.h"

static size_t bytes_of_elements(const zr_block *block, int64_t elements)
{
    return zero_dtype_bytes(block->dtype) * (size_t)elements;
}

static char *address_of_element(const zr_block *block, void *array, int64_t element)
{
    return (char *)array + bytes_of_elements(block, element);
}

static zr_rotary rotary_of_slice(const zr_block_slice *slice, zero_dtype from, zero_dtype to)
{
    const zr_attention *attention = &slice->attention;
    zr_rotary rotary = {
        .from = from,
        .to = to,
        .batch = attention->batch,
        .seq = attention->seq,
        .head_dim = attention->head_dim,
    };
    zr_llama_frequencies(slice->llama.config, slice->llama.frequency, &rotary.factor);
    return rotary;
}

// Computes cosines and sines for every row's position; in a step of generation, the runs give the
// positions.
static void make_table(const zr_block *block, const zr_block_slice *slice, const zr_rotary *rotary)
{
    zr_queue *queue = block->context->queue;
    float *table = slice->llama.table;
    if (!block->step)
        zr_run(queue, zr_op_rotary_table(rotary, slice->llama.frequency, table));
    for (int r = 0; block->step && r < block->step->run_count; r++) {
        const zr_attention_run *run = &block->step->runs[r];
        zr_rotary of_run = *rotary;
        of_run.first = run->first;
        of_run.seq = run->rows;
        zr_run(queue, zr_op_rotary_table(&of_run, slice->llama.frequency, table));
        table += run->rows * rotary->head_dim;
    }
}

// Returns the gain of a norm over heads, in fp32.
static const float *widen_gain(const zr_block *block, const zr_block_slice *slice,
                               const zr_tensor_handle *of)
{
    zr_queue *queue = block->context->queue;
    const void *gain = zr_tensor_values(block->context, of, 0);
    if (block->dtype == ZERO_F32)
        return gain;
    zr_run(queue, zr_op_convert(&(zr_conversion){.from = block->dtype,
                                                 .to = ZERO_F32,
                                                 .n = slice->attention.head_dim},
                                gain, slice->llama.gain));
    return slice->llama.gain;
}

static void norm_heads(const zr_block *block, const zr_block_slice *slice, const zr_norm *norm,
                       const zr_tensor_handle *gain, const void *x, float *y, float *rstd)
{
    zr_queue *queue = block->context->queue;
    zr_run(queue, zr_op_norm_forward(norm, x, NULL, NULL, widen_gain(block, slice, gain), NULL, y,
                                     NULL, rstd));
}

// part: the gradient of the gain in this slice; NULL if the block is not cut.
static void norm_heads_backward(const zr_block *block, const zr_block_slice *slice,
                                const zr_norm *norm, const zr_tensor_handle *gain, float *part,
                                const float *dy, const void *x, const float *rstd, void *dx)
{
    zr_queue *queue = block->context->queue;
    int add = 0;
    float *d_gain = part ? part : zr_gains_place(block->context, &block->gains, gain, &add);
    zr_norm backward = *norm;
    backward.add_parameters = add;
    zr_run(queue, zr_op_norm_backward(&backward, dy, x, widen_gain(block, slice, gain), NULL, rstd,
                                      NULL, dx, d_gain, NULL, block->scratch));
}

// The layout of a packed row, in elements: queries, then keys, then values.
typedef struct columns {
    int64_t queries, keys, row;
} columns;

static columns column_widths(const zr_block_slice *slice)
{
    return (columns){
        .queries = slice->linear[ZR_LLAMA_Q].out,
        .keys = slice->linear[ZR_LLAMA_K].out,
        .row = zr_attention_row(&slice->attention),
    };
}

// Copies the values (R, K) between rows of other widths and a dense matrix, in either direction.
static void copy_values(const zr_block *block, int64_t keys, const void *from, int64_t from_row,
                        void *to, int64_t to_row)
{
    zr_queue *queue = block->context->queue;
    zr_run(queue,
           zr_op_copy_rows(&(zr_strided){.rows = block->rows,
                                         .bytes = (int64_t)bytes_of_elements(block, keys),
                                         .from_stride = (int64_t)bytes_of_elements(block, from_row),
                                         .to_stride = (int64_t)bytes_of_elements(block, to_row)},
                           from, to));
}

// Packs q, k and v, after the norms if there are any, with queries and keys rotated.
static void pack_qkv(zr_block *block, zr_block_slice *slice)
{
    zr_queue *queue = block->context->queue;
    const zr_attention *attention = &slice->attention;
    const zr_llama_parts *llama = &slice->llama;
    const columns at = column_widths(slice);
    const void *q = llama->q, *k = llama->k;
    bool normed = llama->config->qk_norm;
    zr_rotary rotary = rotary_of_slice(slice, normed ? ZERO_F32 : block->dtype, block->dtype);
    void *keys = address_of_element(block, llama->packed, at.queries);
    if (normed) {
        norm_heads(block, slice, &llama->norm_q, llama->gain_q, q, llama->heads_q, llama->rstd_q);
        norm_heads(block, slice, &llama->norm_k, llama->gain_k, k, llama->heads_k, llama->rstd_k);
        q = llama->heads_q;
        k = llama->heads_k;
    }
    make_table(block, slice, &rotary);
    rotary.heads = attention->heads, rotary.x_step = at.queries, rotary.y_step = at.row;
    zr_run(queue, zr_op_rotate(&rotary, llama->table, q, llama->packed));
    rotary.heads = attention->kv_heads, rotary.x_step = at.keys;
    zr_run(queue, zr_op_rotate(&rotary, llama->table, k, keys));
    copy_values(block, at.keys, llama->v, at.keys,
                address_of_element(block, llama->packed, at.queries + at.keys), at.row);
}

static void unpack_queries(zr_block *block, zr_block_slice *slice)
{
    zr_queue *queue = block->context->queue;
    const zr_llama_parts *llama = &slice->llama;
    const columns at = column_widths(slice);
    bool normed = llama->config->qk_norm;
    zr_rotary rotary = rotary_of_slice(slice, block->dtype, normed ? ZERO_F32 : block->dtype);
    void *d_q = normed ? llama->heads_q : llama->d_q;
    rotary.heads = slice->attention.heads, rotary.x_step = at.row, rotary.y_step = at.queries;
    rotary.back = true;
    zr_run(queue, zr_op_rotate(&rotary, llama->table, llama->d_packed, d_q));
    if (normed)
        norm_heads_backward(block, slice, &llama->norm_q, llama->gain_q, llama->d_gain_q,
                            llama->heads_q, llama->q, llama->rstd_q, llama->d_q);
}

// Turns the gradients of keys and values, in rows of `row` elements, into those of k and v as their
// products wrote them.
static void unpack_keys(zr_block *block, zr_block_slice *slice, void *packed, int64_t row)
{
    zr_queue *queue = block->context->queue;
    const zr_llama_parts *llama = &slice->llama;
    const columns at = column_widths(slice);
    bool normed = llama->config->qk_norm;
    zr_rotary rotary = rotary_of_slice(slice, block->dtype, normed ? ZERO_F32 : block->dtype);
    void *d_k = normed ? llama->heads_k : llama->d_k;
    rotary.heads = slice->attention.kv_heads, rotary.x_step = row, rotary.y_step = at.keys;
    rotary.back = true;
    zr_run(queue, zr_op_rotate(&rotary, llama->table, packed, d_k));
    copy_values(block, at.keys, address_of_element(block, packed, at.keys), row, llama->d_v,
                at.keys);
    if (normed)
        norm_heads_backward(block, slice, &llama->norm_k, llama->gain_k, llama->d_gain_k,
                            llama->heads_k, llama->k, llama->rstd_k, llama->d_k);
}

zero_status zr_llama_attention_forward_slice(zr_block *block, zr_block_slice *slice,
                                             const void **inner)
{
    zero_context *context = block->context;
    const zr_linear *linear = slice->linear;
    zr_llama_parts *llama = &slice->llama;
    const void *x = block->input;
    void *scratch = block->scratch;
    ZERO_TRY(zr_linear_forward(context, &linear[ZR_LLAMA_Q], x, llama->q, scratch));
    if (llama->lender == slice->number) {
        ZERO_TRY(zr_linear_forward(context, &linear[ZR_LLAMA_K], x, llama->k, scratch));
        ZERO_TRY(zr_linear_forward(context, &linear[ZR_LLAMA_V], x, llama->v, scratch));
    }
    pack_qkv(block, slice);
    zr_block_attend(block, slice, llama->packed);
    *inner = slice->attended;
    return ZERO_OK;
}

zero_status zr_llama_attention_backward_slice(zr_block *block, zr_block_slice *slice, const void *d)
{
    zr_queue *queue = block->context->queue;
    zr_llama_parts *llama = &slice->llama;
    void *d_attended = llama->d_q; // until the gradients of q, k and v take its place
    bool input = block->parts & ZR_BACKWARD_INPUT;
    if (input)
        pack_qkv(block, slice);
    ZERO_TRY(zr_linear_backward(block->context, &slice->linear[ZR_LLAMA_O], block->parts,
                                slice->attended, d, d_attended, block->scratch));
    if (input)
        zr_run(queue,
               zr_op_attention_backward(&slice->attention, llama->packed, slice->attended,
                                        slice->lse, d_attended, llama->d_packed, llama->d_shared,
                                        block->context->values, block->scratch));
    return ZERO_OK;
}

// Sums the gradients of the keys and values that slices [first, first + count) share, also with
// slices of other ranks if those share them; then rounds them once.
static zero_status sum_shared(zr_block *block, int first, int count)
{
    zr_queue *queue = block->context->queue;
    const zr_llama_parts *llama = &block->slices[first].llama;
    int64_t size = block->rows * zr_attention_shared_row(&block->slices[first].attention),
            bytes = size * (int64_t)sizeof(float);
    zr_rows_add(queue, count, zr_spare_floats(size), llama->d_shared);
    if (block->shared.elements) {
        zr_run(queue, zr_op_copy(&(zr_bytes){bytes}, llama->d_shared, block->place));
        ZERO_TRY(zr_exchange(block->context, &block->shared, 0));
        zr_run(queue, zr_op_copy(&(zr_bytes){bytes}, block->place, llama->d_shared));
    }
    zr_run(queue, zr_op_convert(&(zr_conversion){.from = ZERO_F32, .to = block->dtype, .n = size},
                                llama->d_shared, llama->d_keys));
    return ZERO_OK;
}

static zero_status share_keys(zr_block *block)
{
    for (int i = 0, end; i < block->slice_count; i = end) {
        for (end = i + 1; end < block->slice_count && block->slices[end].llama.lender == i;)
            end++;
        ZERO_TRY(sum_shared(block, i, end - i));
    }
    return ZERO_OK;
}

// The gradient of a shared key's gain counts once, in the first of the slices that share it.
static void keep_gain(zr_block *block, zr_block_slice *slice)
{
    zr_queue *queue = block->context->queue;
    zr_llama_parts *llama = &slice->llama;
    int64_t bytes = slice->attention.head_dim * (int64_t)sizeof *llama->d_gain_k;
    if (llama->d_gain_k && !llama->first)
        zr_run(queue, zr_op_zero(&(zr_bytes){bytes}, llama->d_gain_k));
}

static void unpack_gradients(zr_block *block, zr_block_slice *slice)
{
    zr_llama_parts *llama = &slice->llama;
    const columns at = column_widths(slice);
    bool shared = llama->d_shared, lends = llama->lender == slice->number;
    unpack_queries(block, slice);
    if (lends)
        unpack_keys(block, slice,
                    shared ? llama->d_keys : address_of_element(block, llama->d_packed, at.queries),
                    shared ? 2 * at.keys : at.row);
    keep_gain(block, slice);
}

// Lists the gradients of v, k and q, in the order in which they are summed.
static void list_inputs(zr_block_slice *slice)
{
    const zr_llama_parts *llama = &slice->llama;
    unsigned parts = llama->first ? ZR_BACKWARD_WHOLE : ZR_BACKWARD_WEIGHT;
    if (llama->lender == slice->number) {
        zr_block_add_input(slice, ZR_LLAMA_V, llama->d_v, parts);
        zr_block_add_input(slice, ZR_LLAMA_K, llama->d_k, parts);
    }
    zr_block_add_input(slice, ZR_LLAMA_Q, llama->d_q, ZR_BACKWARD_WHOLE);
}

static void add_gains(zr_block *block, const zr_tensor_handle *gain, float *parts)
{
    zr_queue *queue = block->context->queue;
    int64_t dim = block->slices[0].attention.head_dim;
    float *sum = zr_gains_sum(&block->gains, gain);
    if (!parts || !sum)
        return;
    zr_rows_add(queue, block->slice_count, zr_spare_floats(dim), parts);
    zr_run(queue, zr_op_copy(&(zr_bytes){dim * (int64_t)sizeof *sum}, parts, sum));
}

zero_status zr_llama_attention_finish(zr_block *block)
{
    const zr_llama_parts *llama = &block->slices[0].llama;
    for (int i = 0; i < block->slice_count; i++)
        list_inputs(&block->slices[i]);
    if (!(block->parts & ZR_BACKWARD_INPUT))
        return ZERO_OK;
    if (block->kv_replicas > 1)
        ZERO_TRY(share_keys(block));
    for (int i = 0; i < block->slice_count; i++)
        unpack_gradients(block, &block->slices[i]);
    add_gains(block, llama->gain_q, llama->d_gain_q);
    add_gains(block, llama->gain_k, llama->d_gain_k);
    return ZERO_OK;
}
