// The first half of Llama's block: queries, keys and values; norms of the heads, if there are any;
// rotation by position; causal attention with shared keys; the output's product. It saves q, k and
// v as their products wrote them. Backward recomputes what attention reads: normed, rotated and
// packed.
#include "compute/element_ops.h"
#include "layers/block.h"
#include "model/llama_model.h"

static size_t bytes_of(const zr_block *block, int64_t elements)
{
    return zero_dtype_bytes(block->dtype) * (size_t)elements;
}

static char *element_of(const zr_block *block, void *array, int64_t element)
{
    return (char *)array + bytes_of(block, element);
}

static zr_rotary rotary_of(const zr_block *block, zero_dtype from, zero_dtype to)
{
    const zr_attention *attention = &block->attention;
    zr_rotary rotary = {
        .from = from,
        .to = to,
        .batch = attention->batch,
        .seq = attention->seq,
        .head_dim = attention->head_dim,
        .frequency = block->llama.frequency,
    };
    zr_llama_frequencies(block->llama.config, block->llama.frequency, &rotary.factor);
    return rotary;
}

// Computes cosines and sines for every row's position; in a step, its runs tell the positions.
static void make_table(const zr_block *block, const zr_rotary *rotary)
{
    zr_queue *queue = block->context->queue;
    const zr_attention_ops *ops = queue->backend->attention;
    float *table = block->llama.table;
    if (!block->step)
        ops->rotary_table(queue, rotary, table);
    for (int r = 0; block->step && r < block->step->run_count; r++) {
        const zr_attention_run *run = &block->step->runs[r];
        zr_rotary of_run = *rotary;
        of_run.first = run->first;
        of_run.seq = run->rows;
        ops->rotary_table(queue, &of_run, table);
        table += run->rows * rotary->head_dim;
    }
}

// Returns the gain of a norm over heads, in fp32.
static const float *gain_of(const zr_block *block, const zr_tensor_handle *of)
{
    zr_queue *queue = block->context->queue;
    const void *gain = zr_tensor_values(block->context, of, 0);
    if (block->dtype == ZERO_F32)
        return gain;
    queue->backend->elements->convert(queue, block->dtype, ZERO_F32, block->attention.head_dim,
                                      gain, block->llama.gain);
    return block->llama.gain;
}

static void norm_heads(const zr_block *block, const zr_norm *norm, const zr_tensor_handle *gain,
                       const void *x, float *y, float *rstd)
{
    zr_queue *queue = block->context->queue;
    queue->backend->rows->rms_forward(queue, norm, x, gain_of(block, gain), y, rstd);
}

static void norm_heads_backward(const zr_block *block, const zr_norm *norm,
                                const zr_tensor_handle *gain, const float *dy, const void *x,
                                const float *rstd, void *dx)
{
    zr_queue *queue = block->context->queue;
    int add = 0;
    float *d_gain = zr_tensor_gradient(block->context, gain, 0, &add);
    queue->backend->rows->rms_backward(queue, norm, dy, x, gain_of(block, gain), rstd, NULL, dx,
                                       d_gain, add, block->scratch);
}

// The layout of a packed row: queries, then keys, then values. In elements.
typedef struct columns {
    int64_t queries, keys, row;
} columns;

static columns columns_of(const zr_block *block)
{
    return (columns){
        .queries = block->linear[ZR_LLAMA_Q].out,
        .keys = block->linear[ZR_LLAMA_K].out,
        .row = zr_attention_row(&block->attention),
    };
}

// Copies the values (R, K) between packed rows and a dense matrix, in either direction.
static void copy_values(const zr_block *block, const void *from, int64_t from_row, void *to,
                        int64_t to_row)
{
    zr_queue *queue = block->context->queue;
    int64_t bytes = (int64_t)bytes_of(block, block->linear[ZR_LLAMA_V].out);
    queue->backend->elements->copy_rows(queue, block->rows, bytes, from,
                                        (int64_t)bytes_of(block, from_row), to,
                                        (int64_t)bytes_of(block, to_row));
}

// Packs q, k and v, after the norms if there are any, with queries and keys rotated.
static void pack(zr_block *block)
{
    zr_queue *queue = block->context->queue;
    const zr_attention *attention = &block->attention;
    const zr_attention_ops *ops = queue->backend->attention;
    const zr_llama_parts *llama = &block->llama;
    const columns at = columns_of(block);
    const void *q = llama->q, *k = llama->k;
    bool normed = llama->config->qk_norm;
    const zr_rotary rotary = rotary_of(block, normed ? ZERO_F32 : block->dtype, block->dtype);
    void *keys = element_of(block, llama->packed, at.queries);
    if (normed) {
        norm_heads(block, &llama->norm_q, llama->gain_q, q, llama->heads_q, llama->rstd_q);
        norm_heads(block, &llama->norm_k, llama->gain_k, k, llama->heads_k, llama->rstd_k);
        q = llama->heads_q;
        k = llama->heads_k;
    }
    make_table(block, &rotary);
    ops->rotate(queue, &rotary, attention->heads, llama->table, false, q, at.queries, llama->packed,
                at.row);
    ops->rotate(queue, &rotary, attention->kv_heads, llama->table, false, k, at.keys, keys, at.row);
    copy_values(block, llama->v, at.keys, element_of(block, llama->packed, at.queries + at.keys),
                at.row);
}

// Turns the gradient of what was packed into those of q, k and v as their products wrote them. Uses
// the table that pack has made.
static void unpack_gradient(zr_block *block)
{
    zr_queue *queue = block->context->queue;
    const zr_attention *attention = &block->attention;
    const zr_attention_ops *ops = queue->backend->attention;
    const zr_llama_parts *llama = &block->llama;
    const columns at = columns_of(block);
    bool normed = llama->config->qk_norm;
    const zr_rotary rotary = rotary_of(block, block->dtype, normed ? ZERO_F32 : block->dtype);
    const void *keys = element_of(block, llama->d_packed, at.queries);
    void *d_q = normed ? llama->heads_q : llama->d_q, *d_k = normed ? llama->heads_k : llama->d_k;
    ops->rotate(queue, &rotary, attention->heads, llama->table, true, llama->d_packed, at.row, d_q,
                at.queries);
    ops->rotate(queue, &rotary, attention->kv_heads, llama->table, true, keys, at.row, d_k,
                at.keys);
    copy_values(block, element_of(block, llama->d_packed, at.queries + at.keys), at.row, llama->d_v,
                at.keys);
    if (normed) {
        norm_heads_backward(block, &llama->norm_q, llama->gain_q, llama->heads_q, llama->q,
                            llama->rstd_q, llama->d_q);
        norm_heads_backward(block, &llama->norm_k, llama->gain_k, llama->heads_k, llama->k,
                            llama->rstd_k, llama->d_k);
    }
}

zero_status zr_llama_attention_forward(zr_block *block, const void **branch)
{
    zero_context *context = block->context;
    const zr_linear *linear = block->linear;
    zr_llama_parts *llama = &block->llama;
    void *scratch = block->scratch;
    ZERO_TRY(zr_linear_forward(context, &linear[ZR_LLAMA_Q], block->normed, llama->q, scratch));
    ZERO_TRY(zr_linear_forward(context, &linear[ZR_LLAMA_K], block->normed, llama->k, scratch));
    ZERO_TRY(zr_linear_forward(context, &linear[ZR_LLAMA_V], block->normed, llama->v, scratch));
    pack(block);
    zr_block_attend(block, llama->packed);
    *branch = block->narrow;
    return zr_linear_forward(context, &linear[ZR_LLAMA_O], block->attended, block->narrow, scratch);
}

zero_status zr_llama_attention_backward(zr_block *block, const void *x, const void *d,
                                        const void **dy)
{
    zero_context *context = block->context;
    zr_queue *queue = context->queue;
    const zr_linear *linear = block->linear;
    zr_llama_parts *llama = &block->llama;
    void *scratch = block->scratch, *normed = block->normed;
    void *d_attended = llama->d_q; // until the gradients of q, k and v take its place
    pack(block);
    ZERO_TRY(zr_linear_backward(context, &linear[ZR_LLAMA_O], block->attended,
                                zr_llama_narrow(block, d), d_attended, scratch));
    queue->backend->attention->backward(queue, &block->attention, llama->packed, block->attended,
                                        block->lse, d_attended, llama->d_packed, NULL, scratch);
    unpack_gradient(block);
    zr_norm_forward(context, &block->norm1, x, normed, NULL, NULL);
    ZERO_TRY(zr_linear_backward_sum(context, &linear[ZR_LLAMA_V], normed, llama->d_v, llama->sum,
                                    false, scratch));
    ZERO_TRY(zr_linear_backward_sum(context, &linear[ZR_LLAMA_K], normed, llama->d_k, llama->sum,
                                    true, scratch));
    ZERO_TRY(zr_linear_backward_sum(context, &linear[ZR_LLAMA_Q], normed, llama->d_q, llama->sum,
                                    true, scratch));
    *dy = zr_llama_narrow(block, llama->sum);
    return ZERO_OK;
}
