// The block of Llama and its variants: its layers, what they save, and their scratch.
#include "layers/block.h"
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
        .rms = true,
    };
}

static void set_attention(const zr_lm_unit *hyper, const zr_block *b, zr_block_slice *slice)
{
    const zr_attention *attention = &slice->attention;
    int64_t width = b->width, queries = attention->heads * attention->head_dim,
            keys = attention->kv_heads * attention->head_dim;
    int i = slice->number, kv_replicas = zr_slices_kv_replicas(&hyper->slices, &hyper->shape);
    int number = zr_slices_first(&hyper->slices) + i, first = number / kv_replicas * kv_replicas;
    zr_linear *linear = slice->linear;
    linear[ZR_LLAMA_Q] = zr_block_linear(b, hyper, i, width, queries, ZR_LLAMA_Q_W, ZR_LLAMA_Q_B);
    linear[ZR_LLAMA_K] = zr_block_linear(b, hyper, i, width, keys, ZR_LLAMA_K_W, ZR_LLAMA_K_B);
    linear[ZR_LLAMA_V] = zr_block_linear(b, hyper, i, width, keys, ZR_LLAMA_V_W, ZR_LLAMA_V_B);
    linear[ZR_LLAMA_O] = zr_block_linear(b, hyper, i, queries, width, ZR_LLAMA_O_W, ZR_LLAMA_O_B);
    slice->llama.lender = ZR_MAX(first - zr_slices_first(&hyper->slices), 0);
    slice->llama.first = first == number;
    for (int l = ZR_LLAMA_K; l <= ZR_LLAMA_V; l++) {
        linear[l].is_lent = slice->llama.lender != i;
        linear[l].flows_elsewhere = !slice->llama.first;
    }
    slice->llama.norm_q = norm_of_heads(hyper, b, attention->heads);
    slice->llama.norm_k = norm_of_heads(hyper, b, attention->kv_heads);
    slice->llama.gain_q = &hyper->tensor[ZR_LLAMA_Q_NORM];
    slice->llama.gain_k = &hyper->tensor[ZR_LLAMA_K_NORM];
}

static void set_mlp(const zr_lm_unit *hyper, const zr_block *b, zr_block_slice *slice)
{
    int64_t width = b->width, inner = b->inner;
    int i = slice->number;
    zr_linear *linear = slice->linear;
    linear[ZR_LLAMA_GATE] =
        zr_block_linear(b, hyper, i, width, inner, ZR_LLAMA_GATE_W, ZR_LLAMA_GATE_B);
    linear[ZR_LLAMA_UP] = zr_block_linear(b, hyper, i, width, inner, ZR_LLAMA_UP_W, ZR_LLAMA_UP_B);
    linear[ZR_LLAMA_DOWN] =
        zr_block_linear(b, hyper, i, inner, width, ZR_LLAMA_DOWN_W, ZR_LLAMA_DOWN_B);
}

// If ranks share keys and values, each holds one head of them.
static void set_shared(const zr_lm_unit *hyper, zr_block *b)
{
    int ranks = zr_slices_sharing_ranks(&hyper->slices, &hyper->shape);
    int64_t elements = b->rows * zr_attention_shared_row(&b->slices[0].attention);
    if (ranks > 1)
        b->shared = (zero_exchange){.kind = ZERO_EXCHANGE_SUM,
                                    .backward = 1,
                                    .replicas = ranks,
                                    .elements = zr_sum_share(elements, ranks),
                                    .dtype = ZERO_F32,
                                    .calls = 1,
                                    .purpose = ZERO_EXCHANGE_FOR_shared};
}

static void set_llama_block(const zr_lm_unit *hyper, const zero_shape *shape, bool training,
                            zr_block *b)
{
    int64_t own = b->division.own;
    b->linear_count = ZR_LLAMA_LINEARS;
    b->norm1 = zr_lm_norm(hyper, b->dtype, own, &hyper->tensor[ZR_LLAMA_NORM1], NULL);
    b->norm2 = zr_lm_norm(hyper, b->dtype, own, &hyper->tensor[ZR_LLAMA_NORM2], NULL);
    for (int i = 0; i < b->slice_count; i++) {
        b->slices[i].llama.config = &hyper->config.llama;
        set_attention(hyper, b, &b->slices[i]);
        set_mlp(hyper, b, &b->slices[i]);
    }
    set_shared(hyper, b);
    const zr_llama_parts *llama = &b->slices[0].llama;
    size_t of_queries = zr_scratch_norm(shape->threads, &llama->norm_q);
    b->scratch_bytes = ZR_MAX(of_queries, zr_scratch_norm(shape->threads, &llama->norm_k));
}

static void take_keys(zr_block *block, zr_block_slice *slice, zr_carver *carver)
{
    zr_llama_parts *llama = &slice->llama;
    const zr_llama_parts *lender = &block->slices[llama->lender].llama;
    int64_t elements = block->rows * slice->linear[ZR_LLAMA_K].out;
    bool own = llama->lender == slice->number;
    llama->k = own ? zr_carve_as(carver, block->dtype, elements) : lender->k;
    llama->v = own ? zr_carve_as(carver, block->dtype, elements) : lender->v;
}

static void carve_llama_saved(zr_block *block, zr_carver *carver)
{
    int64_t rows = block->rows;
    for (int i = 0; i < block->slice_count; i++) {
        zr_block_slice *slice = &block->slices[i];
        zr_llama_parts *llama = &slice->llama;
        llama->q = zr_carve_as(carver, block->dtype, rows * slice->linear[ZR_LLAMA_Q].out);
        take_keys(block, slice, carver);
        llama->gate = zr_carve_as(carver, block->dtype, rows * block->inner);
        llama->up = zr_carve_as(carver, block->dtype, rows * block->inner);
    }
}

static void work_of_heads(const zr_block *block, zr_block_slice *slice, zr_carver *carver)
{
    zr_llama_parts *llama = &slice->llama;
    const zr_attention *attention = &slice->attention;
    int64_t rows = block->rows;
    llama->heads_q = zr_carve_floats(carver, rows * slice->linear[ZR_LLAMA_Q].out);
    llama->heads_k = zr_carve_floats(carver, rows * slice->linear[ZR_LLAMA_K].out);
    llama->rstd_q = zr_carve_floats(carver, rows * attention->heads);
    llama->rstd_k = zr_carve_floats(carver, rows * attention->kv_heads);
    llama->gain = zr_carve_floats(carver, attention->head_dim);
}

static void work_of_slice(const zr_block *block, zr_block_slice *slice, zr_carver *carver)
{
    zr_llama_parts *llama = &slice->llama;
    int64_t rows = block->rows, row = zr_attention_row(&slice->attention);
    int64_t queries = slice->linear[ZR_LLAMA_Q].out, keys = slice->linear[ZR_LLAMA_K].out;
    size_t packed_bytes = zero_dtype_bytes(block->dtype) * (size_t)(rows * row);
    llama->packed = zr_carve_as(carver, block->dtype, rows * row);
    llama->d_packed = zr_carve(carver, packed_bytes + 2 * 64); // or q, k and v, each aligned
    llama->d_q = zr_carve_as(carver, block->dtype, rows * queries);
    llama->d_k = zr_carve_as(carver, block->dtype, rows * keys);
    llama->d_v = zr_carve_as(carver, block->dtype, rows * keys);
    if (llama->config->qk_norm)
        work_of_heads(block, slice, carver);
}

// The gradients of shared keys and values of all slices lie one after another, to be summed.
static void work_of_shared(zr_block *block, zr_carver *carver)
{
    const zr_attention *attention = &block->slices[0].attention;
    int64_t elements = block->rows * zr_attention_shared_row(attention);
    float *shared = zr_carve_floats(carver, block->slice_count * zr_spare_floats(elements));
    for (int i = 0; i < block->slice_count; i++) {
        zr_llama_parts *llama = &block->slices[i].llama;
        llama->d_shared = shared ? shared + i * zr_spare_floats(elements) : NULL;
        llama->d_keys = zr_carve_as(carver, block->dtype, elements);
    }
}

static size_t work_of_attention(zr_block *block, zr_carver carver)
{
    for (int i = 0; i < block->slice_count; i++)
        work_of_slice(block, &block->slices[i], &carver);
    if (block->kv_replicas > 1)
        work_of_shared(block, &carver);
    return carver.used;
}

static size_t work_of_mlp(zr_block *block, zr_carver carver)
{
    int64_t elements = block->rows * block->inner;
    for (int i = 0; i < block->slice_count; i++) {
        zr_llama_parts *llama = &block->slices[i].llama;
        llama->product = zr_carve_as(&carver, block->dtype, elements);
        llama->d_product = zr_carve_as(&carver, block->dtype, elements);
        llama->d_gate = llama->d_product;
        llama->d_up = llama->product;
    }
    return carver.used;
}

// Puts the gradients of linears that train in the held buffer. The gradients of shared keys and
// values belong to the slice that lends them.
static void hold_llama_gradients(zr_block *block, zr_carver *held)
{
    for (int i = 0; i < block->slice_count; i++) {
        const zr_linear *linear = block->slices[i].linear;
        zr_llama_parts *llama = &block->slices[i].llama;
        llama->d_q = zr_linear_hold(&linear[ZR_LLAMA_Q], held, llama->d_q);
        if (llama->lender == i) {
            llama->d_k = zr_linear_hold(&linear[ZR_LLAMA_K], held, llama->d_k);
            llama->d_v = zr_linear_hold(&linear[ZR_LLAMA_V], held, llama->d_v);
        }
        llama->d_gate = zr_linear_hold(&linear[ZR_LLAMA_GATE], held, llama->d_gate);
        llama->d_up = zr_linear_hold(&linear[ZR_LLAMA_UP], held, llama->d_up);
    }
}

// The gradients of heads' gains have a part for each slice, one after another, to be summed.
static void work_of_gain_parts(zr_block *block, int64_t step, zr_carver *work)
{
    float *of_q = zr_carve_floats(work, block->slice_count * step),
          *of_k = zr_carve_floats(work, block->slice_count * step);
    for (int i = 0; i < block->slice_count && of_q; i++) {
        block->slices[i].llama.d_gain_q = of_q + i * step;
        block->slices[i].llama.d_gain_k = of_k + i * step;
    }
}

static void gains_of_heads(zr_block *block, zr_carver *work, zr_carver *sums)
{
    const zr_llama_parts *llama = &block->slices[0].llama;
    int64_t dim = block->slices[0].attention.head_dim;
    bool cut = zr_block_is_cut(block);
    if (!llama->config->qk_norm)
        return;
    if (cut)
        work_of_gain_parts(block, zr_spare_floats(dim), work);
    zr_gains_carve(&block->gains, sums, llama->gain_q, dim, cut);
    zr_gains_carve(&block->gains, sums, llama->gain_k, dim, cut);
}

static size_t carve_llama_workspace(zr_block *block, zr_carver carver)
{
    const zr_attention *attention = &block->slices[0].attention;
    if (!zr_block_is_cut(block))
        block->sum = zr_carve_floats(&carver, block->rows * block->width);
    float *frequency = zr_carve_floats(&carver, attention->head_dim / 2),
          *table = zr_carve_floats(&carver, attention->seq * attention->head_dim);
    for (int i = 0; i < block->slice_count; i++) {
        block->slices[i].llama.frequency = frequency;
        block->slices[i].llama.table = table;
    }
    size_t first = work_of_attention(block, carver), second = work_of_mlp(block, carver);
    return ZR_MAX(first, second);
}

// Without backward, q, k and v use the memory of d_packed, attention's output uses that of d_q, and
// the gate is overwritten by its product with up.
static void alias_saved_to_workspace(zr_block *block)
{
    int64_t rows = block->rows;
    for (int i = 0; i < block->slice_count; i++) {
        zr_block_slice *slice = &block->slices[i];
        zr_llama_parts *llama = &slice->llama;
        zr_carver carver = {.base = llama->d_packed};
        slice->attended = llama->d_q;
        llama->gate = llama->product;
        llama->up = llama->d_product;
        llama->q = zr_carve_as(&carver, block->dtype, rows * slice->linear[ZR_LLAMA_Q].out);
        take_keys(block, slice, &carver);
    }
}

static void read_in_backward(const zr_block *block, zero_unit_sizes *sizes)
{
    const zr_llama_parts *llama = &block->slices[0].llama;
    if (!llama->config->qk_norm)
        return;
    zr_tensor_read_in_backward(llama->gain_q, sizes);
    zr_tensor_read_in_backward(llama->gain_k, sizes);
}

const zr_block_layers zr_llama_block_layers = {
    .outputs_first = true,
    .set = set_llama_block,
    .save = carve_llama_saved,
    .work = carve_llama_workspace,
    .hold = hold_llama_gradients,
    .alias = alias_saved_to_workspace,
    .gains = gains_of_heads,
    .read_in_backward = read_in_backward,
    .halves =
        {
            {
                .out = ZR_LLAMA_O,
                .site = ZR_SITE_ATTENTION_RESIDUAL,
                .forward = zr_llama_attention_forward_slice,
                .backward = zr_llama_attention_backward_slice,
                .finish = zr_llama_attention_finish,
            },
            {
                .out = ZR_LLAMA_DOWN,
                .site = ZR_SITE_MLP_RESIDUAL,
                .forward = zr_llama_mlp_forward,
                .backward = zr_llama_mlp_backward,
            },
        },
};
