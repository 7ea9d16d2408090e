// The block of Llama and its variants: its layers, what they save, and their scratch.
#include "layers/block.h"
#include "compute/element_ops.h"
#include "model/llama_model.h"

// Returns the norm over each of `heads` heads in a row of activations.
static zr_norm norm_of_heads(const zr_lm_unit *hyper, const zr_block *block, int64_t heads)
{
    return (zr_norm){
        .dtype = ZERO_F32,
        .stream = block->dtype,
        .rows = block->rows * heads,
        .width = hyper->shape.head_dim,
        .epsilon = hyper->shape.norm_epsilon,
    };
}

static void set_attention(const zr_lm_unit *hyper, zr_block *b)
{
    const zr_lm_shape *of = &hyper->shape;
    int64_t width = b->width, queries = of->heads * of->head_dim,
            keys = of->kv_heads * of->head_dim;
    b->linear[ZR_LLAMA_Q] = zr_block_linear(b, hyper, width, queries, ZR_LLAMA_Q_W, ZR_LLAMA_Q_B);
    b->linear[ZR_LLAMA_K] = zr_block_linear(b, hyper, width, keys, ZR_LLAMA_K_W, ZR_LLAMA_K_B);
    b->linear[ZR_LLAMA_V] = zr_block_linear(b, hyper, width, keys, ZR_LLAMA_V_W, ZR_LLAMA_V_B);
    b->linear[ZR_LLAMA_O] = zr_block_linear(b, hyper, queries, width, ZR_LLAMA_O_W, ZR_LLAMA_O_B);
    b->llama.norm_q = norm_of_heads(hyper, b, of->heads);
    b->llama.norm_k = norm_of_heads(hyper, b, of->kv_heads);
    b->llama.gain_q = &hyper->tensor[ZR_LLAMA_Q_NORM];
    b->llama.gain_k = &hyper->tensor[ZR_LLAMA_K_NORM];
}

static void set_mlp(const zr_lm_unit *hyper, zr_block *b)
{
    int64_t width = b->width, inner = b->inner;
    b->linear[ZR_LLAMA_GATE] =
        zr_block_linear(b, hyper, width, inner, ZR_LLAMA_GATE_W, ZR_LLAMA_GATE_B);
    b->linear[ZR_LLAMA_UP] = zr_block_linear(b, hyper, width, inner, ZR_LLAMA_UP_W, ZR_LLAMA_UP_B);
    b->linear[ZR_LLAMA_DOWN] =
        zr_block_linear(b, hyper, inner, width, ZR_LLAMA_DOWN_W, ZR_LLAMA_DOWN_B);
}

static void set(const zr_lm_unit *hyper, const zero_shape *shape, bool training, zr_block *b)
{
    b->llama.config = &hyper->config.llama;
    b->linear_count = ZR_LLAMA_LINEARS;
    b->norm1 = zr_lm_norm(hyper, b->dtype, b->rows, &hyper->tensor[ZR_LLAMA_NORM1], NULL);
    b->norm2 = zr_lm_norm(hyper, b->dtype, b->rows, &hyper->tensor[ZR_LLAMA_NORM2], NULL);
    set_attention(hyper, b);
    set_mlp(hyper, b);
    size_t of_queries = zr_scratch_norm(shape->threads, &b->llama.norm_q);
    b->scratch_bytes = ZR_MAX(of_queries, zr_scratch_norm(shape->threads, &b->llama.norm_k));
}

static void save(zr_block *block, zr_carver *carver)
{
    zr_llama_parts *llama = &block->llama;
    int64_t rows = block->rows, keys = block->linear[ZR_LLAMA_K].out;
    llama->q = zr_carve_as(carver, block->dtype, rows * block->linear[ZR_LLAMA_Q].out);
    llama->k = zr_carve_as(carver, block->dtype, rows * keys);
    llama->v = zr_carve_as(carver, block->dtype, rows * keys);
    llama->gate = zr_carve_as(carver, block->dtype, rows * block->inner);
    llama->up = zr_carve_as(carver, block->dtype, rows * block->inner);
}

static size_t work_of_attention(zr_block *block, zr_carver carver)
{
    zr_llama_parts *llama = &block->llama;
    const zr_attention *attention = &block->attention;
    int64_t rows = block->rows, row = zr_attention_row(attention);
    int64_t queries = block->linear[ZR_LLAMA_Q].out, keys = block->linear[ZR_LLAMA_K].out;
    size_t packed_bytes = zero_dtype_bytes(block->dtype) * (size_t)(rows * row);
    llama->packed = zr_carve_as(&carver, block->dtype, rows * row);
    llama->d_packed = zr_carve(&carver, packed_bytes + 2 * 64); // or q, k and v, each aligned
    llama->d_q = zr_carve_as(&carver, block->dtype, rows * queries);
    llama->d_k = zr_carve_as(&carver, block->dtype, rows * keys);
    llama->d_v = zr_carve_as(&carver, block->dtype, rows * keys);
    if (llama->config->qk_norm) {
        llama->heads_q = zr_carve_floats(&carver, rows * queries);
        llama->heads_k = zr_carve_floats(&carver, rows * keys);
        llama->rstd_q = zr_carve_floats(&carver, rows * attention->heads);
        llama->rstd_k = zr_carve_floats(&carver, rows * attention->kv_heads);
        llama->gain = zr_carve_floats(&carver, attention->head_dim);
    }
    return carver.used;
}

static size_t work_of_mlp(zr_block *block, zr_carver carver)
{
    block->llama.product = zr_carve_as(&carver, block->dtype, block->rows * block->inner);
    block->llama.d_product = zr_carve_as(&carver, block->dtype, block->rows * block->inner);
    return carver.used;
}

static size_t work(zr_block *block, zr_carver carver)
{
    const zr_attention *attention = &block->attention;
    block->llama.sum = zr_carve_floats(&carver, block->rows * block->width);
    block->llama.frequency = zr_carve_floats(&carver, attention->head_dim / 2);
    block->llama.table = zr_carve_floats(&carver, attention->seq * attention->head_dim);
    size_t first = work_of_attention(block, carver), second = work_of_mlp(block, carver);
    return ZR_MAX(first, second);
}

// Without backward, q, k and v take the place of d_packed, attention's output that of d_q, and the
// gate is overwritten by its product with up.
static void alias(zr_block *block)
{
    zr_llama_parts *llama = &block->llama;
    zr_carver carver = {.base = llama->d_packed};
    int64_t rows = block->rows, keys = block->linear[ZR_LLAMA_K].out;
    block->attended = llama->d_q;
    llama->gate = llama->product;
    llama->up = llama->d_product;
    llama->q = zr_carve_as(&carver, block->dtype, rows * block->linear[ZR_LLAMA_Q].out);
    llama->k = zr_carve_as(&carver, block->dtype, rows * keys);
    llama->v = zr_carve_as(&carver, block->dtype, rows * keys);
}

static void read_in_backward(const zr_block *block, zero_unit_sizes *sizes)
{
    if (!block->llama.config->qk_norm)
        return;
    zr_tensor_read_in_backward(block->llama.gain_q, sizes);
    zr_tensor_read_in_backward(block->llama.gain_k, sizes);
}

const void *zr_llama_narrow(const zr_block *block, const float *wide)
{
    zr_queue *queue = block->context->queue;
    if (block->dtype == ZERO_F32)
        return wide;
    queue->backend->elements->convert(queue, ZERO_F32, block->dtype, block->rows * block->width,
                                      wide, block->narrow);
    return block->narrow;
}

const zr_block_layers zr_llama_block_layers = {
    .outputs_first = true,
    .set = set,
    .save = save,
    .work = work,
    .alias = alias,
    .read_in_backward = read_in_backward,
    .attention_forward = zr_llama_attention_forward,
    .attention_backward = zr_llama_attention_backward,
    .mlp_forward = zr_llama_mlp_forward,
    .mlp_backward = zr_llama_mlp_backward,
};
