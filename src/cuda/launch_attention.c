// Attention and rotation: kernels of attention.cu; of 16-bit types and most head sizes those of
// attention_mma.cu and attention_backward.cu.
#include "cuda/launch.h"

enum {
    MOST_DIM = 256,     // of a head, in any type
    MOST_MMA_DIM = 128, // on tensor cores, in multiples of 8, which lie on 16 bytes
    PLAIN_ROWS = 4,     // of a block
    MMA_ROWS = 64,
    DELTA_ROWS = 4,
    THREADS = 128,
    DECODE_THREADS = 256
};

size_t zr_cuda_attention_scratch(const zr_attention *s, zr_op_kind kind)
{
    return kind == ZR_OP_attention_backward ? sizeof(float) * (size_t)(s->batch * s->heads * s->seq)
                                            : 0;
}

static bool refuses(zr_queue *queue, const zr_attention *s)
{
    bool refused = s->head_dim > MOST_DIM;
    if (refused)
        zr_cuda_queue_refuse(queue, "of heads of more than 256 elements");
    return refused;
}

static bool is_on_tensor_cores(const zr_attention *s)
{
    return s->dtype != ZERO_F32 && s->head_dim <= MOST_MMA_DIM && s->head_dim % 8 == 0;
}

// The one of three kernels that a shape has.
#define KERNEL_OF(s, name)                                                                         \
    (!is_on_tensor_cores(s) ? ZR_KERNEL_##name                                                     \
     : (s)->head_dim <= 64  ? ZR_KERNEL_##name##_64                                                \
                            : ZR_KERNEL_##name##_128)

static int64_t blocks_of(const zr_attention *s, int64_t heads)
{
    int64_t rows = is_on_tensor_cores(s) ? MMA_ROWS : PLAIN_ROWS;
    return s->batch * heads * ((s->seq + rows - 1) / rows);
}

static uint64_t threshold_of(const zr_attention *s)
{
    return s->dropout > 0 ? zr_dropout_threshold(s->dropout) : 0;
}

#define ATTENTION_SHAPE(s, values)                                                                 \
    .batch = (s)->batch, .seq = (s)->seq, .heads = (s)->heads, .kv_heads = (s)->kv_heads,          \
    .head_dim = (s)->head_dim, .window = (s)->window, .first_head = (s)->first_head,               \
    .all_heads = (s)->all_heads, .scale = (s)->scale, .type = (int)(s)->dtype,                     \
    .key = (s)->dropout > 0 ? zr_mask_key(&(s)->mask, values) : 0, .threshold = threshold_of(s),   \
    .kept = (s)->dropout > 0 ? zr_dropout_factor((s)->dropout) : 1

ZR_KERNEL(zr_cuda_attention_forward, attention_forward, attention)
{
    if (refuses(queue, shape))
        return;
    const zr_attention_forward_args args = {
        .qkv = qkv, .out = out, .lse = lse, .starts = starts, ATTENTION_SHAPE(shape, values)};
    zr_cuda_launch(queue, KERNEL_OF(shape, attention_forward),
                   (const int64_t[3]){blocks_of(shape, shape->heads), 1, 1}, THREADS, &args);
}

ZR_KERNEL(zr_cuda_attention_backward, attention_backward, attention)
{
    float *delta = scratch;
    int64_t rows = shape->batch * shape->seq * shape->heads;
    if (refuses(queue, shape))
        return;
    ZR_LAUNCH(queue, attention_delta, THREADS, (rows + DELTA_ROWS - 1) / DELTA_ROWS, 1, .out = out,
              .dout = dout, .delta = delta, .batch = shape->batch, .seq = shape->seq,
              .heads = shape->heads, .head_dim = shape->head_dim, .type = (int)shape->dtype);
    const zr_attention_keys_args args = {.qkv = qkv,
                                         .dout = dout,
                                         .lse = lse,
                                         .delta = delta,
                                         .dqkv = dqkv,
                                         .d_shared = d_shared,
                                         .starts = starts,
                                         ATTENTION_SHAPE(shape, values)};
    zr_cuda_launch(queue, KERNEL_OF(shape, attention_keys),
                   (const int64_t[3]){blocks_of(shape, shape->kv_heads), 1, 1}, THREADS, &args);
    zr_cuda_launch(queue, KERNEL_OF(shape, attention_queries),
                   (const int64_t[3]){blocks_of(shape, shape->heads), 1, 1}, THREADS, &args);
}

// As many runs as a structure holds: the cache first, which each row reads.
static void decode_some(zr_queue *queue, const zr_attention_append_args *args)
{
    int64_t rows = args->begin[args->runs] - args->begin[0];
    int64_t elements = rows * args->kv_heads * args->head_dim;
    zr_cuda_launch(queue, ZR_KERNEL_attention_append,
                   (const int64_t[3]){zr_cuda_blocks(queue, elements, DECODE_THREADS), 1, 1},
                   DECODE_THREADS, args);
    zr_cuda_launch(queue, ZR_KERNEL_attention_decode, (const int64_t[3]){rows, args->heads, 1},
                   DECODE_THREADS, args);
}

ZR_KERNEL(zr_cuda_attention_decode, attention_decode, attention)
{
    zr_attention_append_args args = {.qkv = qkv,
                                     .out = out,
                                     .k = k,
                                     .v = v,
                                     .heads = shape->heads,
                                     .kv_heads = shape->kv_heads,
                                     .head_dim = shape->head_dim,
                                     .window = shape->window,
                                     .capacity = shape->capacity,
                                     .scale = shape->scale,
                                     .type = (int)shape->dtype};
    if (refuses(queue, shape))
        return;
    for (int r = 0; r < shape->run_count; r++) {
        args.sequence[args.runs] = runs[r].sequence;
        args.first[args.runs] = runs[r].first;
        args.begin[args.runs + 1] = args.begin[args.runs] + runs[r].rows;
        args.runs++;
        if (args.runs == ZR_ATTENTION_RUNS || r + 1 == shape->run_count) {
            decode_some(queue, &args);
            args.begin[0] = args.begin[args.runs];
            args.runs = 0;
        }
    }
}

ZR_KERNEL(zr_cuda_rotary_table, rotary_table, rotary)
{
    zr_rotary_table_args args = {.table = table,
                                 .seq = shape->seq,
                                 .rotated = shape->rotated,
                                 .first = shape->first,
                                 .factor = shape->factor,
                                 .count = (int)(shape->rotated / 2)};
    if (shape->rotated / 2 > ZR_COUNT(args.frequency)) {
        zr_cuda_queue_refuse(queue, "of more than 1024 rotated elements");
        return;
    }
    if (shape->rotated)
        memcpy(args.frequency, frequency, sizeof(float) * (size_t)args.count);
    zr_cuda_launch(queue, ZR_KERNEL_rotary_table,
                   (const int64_t[3]){zr_cuda_blocks(queue, shape->seq * args.count, 256), 1, 1},
                   256, &args);
}

static bool is_in_eights(const zr_rotary *s, const void *x, const void *y)
{
    int64_t all = s->x_step | s->y_step | s->x_head | s->y_head | s->rotated / 2 | s->rest;
    return all % 8 == 0 && ((uintptr_t)x | (uintptr_t)y) % 16 == 0;
}

ZR_KERNEL(zr_cuda_rotate, rotate, rotary)
{
    bool eights = is_in_eights(shape, x, y);
    int64_t rows = shape->batch * shape->seq,
            pieces = (shape->rotated / 2 + shape->rest) / (eights ? 8 : 1);
    ZR_LAUNCH(queue, rotate, 256, zr_cuda_blocks(queue, rows * shape->heads * pieces, 256), 1,
              .table = table, .x = x, .y = y, .rows = rows, .seq = shape->seq,
              .rotated = shape->rotated, .rest = shape->rest, .heads = shape->heads,
              .x_step = shape->x_step, .y_step = shape->y_step, .x_head = shape->x_head,
              .y_head = shape->y_head, .sign = shape->back ? -1.0f : 1.0f, .eights = eights,
              .from_type = (int)shape->from, .to_type = (int)shape->to);
}
