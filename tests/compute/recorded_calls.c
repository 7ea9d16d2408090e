#include "recorded_calls.h"

#include "base/random.h"

#include <stdlib.h>
#include <string.h>

operands *operands_new(void)
{
    operands *o = aligned_alloc(64, sizeof *o);
    assert_non_null(o);
    memset(o, 0, sizeof *o);
    float *const arrays[] = {o->a, o->b, o->c, o->d, o->e};
    for (int k = 0; k < ZR_COUNT(arrays); k++)
        for (int i = 0; i < FLOATS; i++)
            arrays[k][i] =
                (float)(zr_philox4x32((uint64_t)k, 1, (uint64_t)i).v[0] % 1000) * 1e-3f + 0.01f;
    for (int i = 0; i < 64; i++)
        o->ids[i] = i * 5 % WIDTH;
    return o;
}

// Calls a slot of the queue's backend, which is how the slot counts as covered.
#define CALL(table, slot, ...)                                                                     \
    (o->called = SLOT_CALLED(queue->backend, table, slot),                                         \
     queue->backend->table->slot(queue, __VA_ARGS__))

static void run_product(zr_queue *queue, const zr_product *product, operands *o)
{
    zero_error error = {0};
    if (CALL(product, run, product, o->a, o->b, o->c, o->d, &error) != ZERO_OK)
        fail_msg("%s", error.message);
}

static void product(zr_queue *queue, operands *o)
{
    run_product(queue,
                &(zr_product){.m = ROWS, .n = WIDTH, .k = WIDTH, .epilogue = ZR_EPILOGUE_BIAS}, o);
}

static void product_scratch(zr_queue *queue, operands *o)
{
    const zr_product product = {.m = ROWS, .n = WIDTH, .k = WIDTH, .trans_b = true};
    o->asked = CALL(product, scratch, &product);
}

static void product_bf16_added(zr_queue *queue, operands *o)
{
    run_product(queue,
                &(zr_product){.dtype = ZERO_BF16,
                              .out = ZERO_F32,
                              .m = WIDTH,
                              .n = WIDTH,
                              .k = ROWS,
                              .trans_a = true,
                              .add = true},
                o);
}

// The types differ, so that bytes of the one are not taken for bytes of the other.
static const zr_norm norm = {
    .dtype = ZERO_BF16,
    .stream = ZERO_F32,
    .rows = ROWS,
    .width = WIDTH,
    .epsilon = 1e-5f,
};

static void norm_forward(zr_queue *queue, operands *o)
{
    CALL(rows, norm_forward, &norm, o->a, o->b, o->c, o->d, o->e, o->e + 64);
}

static void residual_norm_forward(zr_queue *queue, operands *o)
{
    float *y = o->e, *mean = o->e + ELEMS, *rstd = o->e + ELEMS + 64;
    CALL(rows, residual_norm_forward, &norm, o->a, o->b, o->c, o->d, o->d + 64, y, mean, rstd);
}

static void norm_backward(zr_queue *queue, operands *o)
{
    float *mean = o->c + 64, *rstd = o->c + 128, *dbeta = o->e + 64;
    CALL(rows, norm_backward, &norm, o->a, o->b, o->c, mean, rstd, o->d, o->d, o->e, dbeta, false,
         o->scratch);
}

static void norm_scratch(zr_queue *queue, operands *o)
{
    o->asked = CALL(rows, norm_scratch, &norm);
}

static void rms_forward(zr_queue *queue, operands *o)
{
    CALL(rows, rms_forward, &norm, o->a, o->b, o->c, o->d);
}

static void residual_rms_forward(zr_queue *queue, operands *o)
{
    CALL(rows, residual_rms_forward, &norm, o->a, o->b, o->c, o->d, o->e, o->e + ELEMS);
}

static void rms_backward(zr_queue *queue, operands *o)
{
    float *rstd = o->c + 64;
    CALL(rows, rms_backward, &norm, o->a, o->b, o->c, rstd, o->d, o->d, o->e, false, o->scratch);
}

static void rms_backward_of_no_past(zr_queue *queue, operands *o)
{
    float *rstd = o->c + 64;
    CALL(rows, rms_backward, &norm, o->a, o->b, o->c, rstd, NULL, o->d, o->e, true, o->scratch);
}

static void loss(zr_queue *queue, operands *o)
{
    zr_loss loss = {.rows = ROWS, .vocab = WIDTH, .factor = 0.5f};
    CALL(rows, loss, &loss, o->a, o->ids, o->b, true);
}

static void loss_parts(zr_queue *queue, operands *o)
{
    zr_loss loss = {.rows = ROWS, .vocab = WIDTH};
    CALL(rows, loss_parts, &loss, o->a, o->ids, (zr_loss_part *)o->b);
}

static void loss_finish(zr_queue *queue, operands *o)
{
    zr_loss loss = {.rows = ROWS, .vocab = WIDTH, .factor = 0.5f};
    CALL(rows, loss_finish, &loss, 2, (zr_loss_part *)o->b, ROWS, o->ids, o->a, o->c, true);
}

static void softmax(zr_queue *queue, operands *o)
{
    CALL(rows, softmax, ZERO_F32, ROWS, WIDTH, o->a);
}

static const zr_attention attention = {.batch = 1,
                                       .seq = ROWS,
                                       .heads = HEADS,
                                       .kv_heads = HEADS,
                                       .head_dim = WIDTH / HEADS,
                                       .scale = 0.2f};

static void attention_forward(zr_queue *queue, operands *o)
{
    CALL(attention, forward, &attention, o->a, o->b, o->c, o->scratch);
}

static void attention_backward(zr_queue *queue, operands *o)
{
    CALL(attention, backward, &attention, o->a, o->b, o->c, o->d, o->e, NULL, o->scratch);
}

static void attention_decode(zr_queue *queue, operands *o)
{
    const zr_attention_cache cache = {.k = o->b, .v = o->c, .capacity = ROWS};
    const zr_attention_run run = {.first = 3, .rows = 1};
    CALL(attention, decode, &attention, &cache, &run, 1, o->a, o->d, o->scratch);
}

static void attention_scratch(zr_queue *queue, operands *o)
{
    o->asked = CALL(attention, scratch, &attention);
}

static void attention_decode_scratch(zr_queue *queue, operands *o)
{
    o->asked = CALL(attention, decode_scratch, &attention, ROWS);
}

static const zr_rotary rotary = {
    .from = ZERO_F32,
    .to = ZERO_BF16,
    .batch = 1,
    .seq = ROWS,
    .head_dim = WIDTH / HEADS,
    .factor = 1.5f,
};

static void rotary_table(zr_queue *queue, operands *o)
{
    zr_rotary by = rotary;
    by.frequency = o->a;
    CALL(attention, rotary_table, &by, o->b);
}

static void rotate(zr_queue *queue, operands *o)
{
    CALL(attention, rotate, &rotary, HEADS, o->c, false, o->a, WIDTH, o->b, WIDTH);
}

static void gelu_forward(zr_queue *queue, operands *o)
{
    CALL(elements, gelu_forward, ZERO_F32, ELEMS, o->a, o->b);
}

static void gelu_backward(zr_queue *queue, operands *o)
{
    CALL(elements, gelu_backward, ZERO_F32, ELEMS, o->a, o->b);
}

static void silu_gate_forward(zr_queue *queue, operands *o)
{
    CALL(elements, silu_gate_forward, ZERO_F32, ELEMS, o->a, o->b, o->c);
}

static void silu_gate_backward(zr_queue *queue, operands *o)
{
    CALL(elements, silu_gate_backward, ZERO_F32, ELEMS, o->a, o->b, o->c, o->d, o->e);
}

static void add(zr_queue *queue, operands *o)
{
    CALL(elements, add, ZERO_F32, ZERO_BF16, ELEMS, o->a, o->b, o->c);
}

static void dropout(zr_queue *queue, operands *o)
{
    CALL(elements, dropout, ZERO_F32, ZERO_F16, ELEMS, 0.3f, 42, 3, o->a, o->b);
}

static void add_bias(zr_queue *queue, operands *o)
{
    CALL(elements, add_bias, ZERO_BF16, ROWS, WIDTH, o->a, o->b, o->c);
}

static void add_positions(zr_queue *queue, operands *o)
{
    CALL(elements, add_positions, ZERO_BF16, ROWS, 4, 2, WIDTH, o->b, o->a);
}

static void convert(zr_queue *queue, operands *o)
{
    CALL(elements, convert, ZERO_F32, ZERO_BF16, ELEMS, o->a, o->b);
}

static void column_sum(zr_queue *queue, operands *o)
{
    CALL(elements, column_sum, ZERO_F32, ROWS, WIDTH, o->a, o->b, true, o->scratch);
}

static void column_sum_scratch(zr_queue *queue, operands *o)
{
    o->asked = CALL(elements, column_sum_scratch, ROWS, WIDTH);
}

static void embedding_forward(zr_queue *queue, operands *o)
{
    CALL(elements, embedding_forward, ZERO_BF16, ZERO_F32, ROWS, 4, WIDTH, o->ids, o->a, o->b,
         o->c);
}

static void embedding_backward(zr_queue *queue, operands *o)
{
    CALL(elements, embedding_backward, ZERO_F32, ROWS, 4, WIDTH, o->ids, o->a, ROWS * 8, o->b, true,
         4, o->c, false);
}

static void copy(zr_queue *queue, operands *o) { CALL(elements, copy, ELEMS, o->a, o->b); }

static void copy_rows(zr_queue *queue, operands *o)
{
    CALL(elements, copy_rows, ROWS, WIDTH, o->a, 2 * WIDTH, o->b, 3 * WIDTH);
}

static void zero(zr_queue *queue, operands *o) { CALL(elements, zero, ELEMS, o->b); }

static const zr_update adamw = {.kind = ZR_UPDATE_ADAMW,
                                .lr = 0.1,
                                .beta1 = 0.9,
                                .beta2 = 0.99,
                                .epsilon = 1e-8,
                                .weight_decay = 0.1,
                                .correction1 = 0.1,
                                .correction2 = 0.01,
                                .gradient_scale = 1};

static void update(zr_queue *queue, operands *o)
{
    zr_range_states at = {.master = o->a,
                          .state0 = o->b,
                          .state1 = o->c,
                          .gradient = o->d,
                          .parameters = o->e,
                          .parameters_dtype = ZERO_BF16};
    CALL(optimizer, update, &adamw, ELEMS, &at);
}

static void square_sums(zr_queue *queue, operands *o)
{
    static const int64_t first[PARTS] = {0, 128};
    static const int32_t count[PARTS] = {100, 50};
    CALL(optimizer, square_sums, ZERO_F32, o->a, PARTS, first, count, o->sums);
}

static void lamb_direction(zr_queue *queue, operands *o)
{
    zr_range_states at = {
        .master = o->a, .state0 = o->b, .state1 = o->c, .direction = o->d, .gradient = o->e};
    CALL(optimizer, lamb_direction, &adamw, ELEMS, &at);
}

static void subtract_scaled(zr_queue *queue, operands *o)
{
    zr_range_states at = {.master = o->a, .direction = o->b};
    CALL(optimizer, subtract_scaled, ELEMS, 0.1f, &at);
}

#define CASE(function, activity, ...)                                                              \
    {                                                                                              \
        .name = #function, .run = function, .what = ZR_ACTIVITY_##activity, __VA_ARGS__            \
    }
// Sizes of scratch leave no record.
#define ASKS(function)                                                                             \
    {                                                                                              \
        .name = #function, .run = function, .what = ZR_ACTIVITY_COUNT                              \
    }
// PAIRS: twice the scores up to the diagonal, a head.
enum { WORD = 4, HALF = 2, PAIRS = ROWS * (ROWS + 1) };

const expected recorded_calls[] = {
    ASKS(product_scratch),
    CASE(product, product, .bytes = WORD * (ELEMS + WIDTH * WIDTH + ELEMS),
         .flops = 2 * ELEMS * WIDTH),
    CASE(product_bf16_added, product, .bytes = HALF * (2 * ELEMS) + 2 * WORD * WIDTH * WIDTH,
         .flops = 2 * WIDTH * WIDTH * ROWS),
    CASE(norm_forward, norm, .bytes = (WORD + HALF) * ELEMS),
    CASE(residual_norm_forward, norm, .bytes = 2 * (WORD + HALF) * ELEMS),
    CASE(norm_backward, norm, .bytes = (3 * WORD + HALF) * ELEMS),
    ASKS(norm_scratch),
    CASE(rms_forward, norm, .bytes = (WORD + HALF) * ELEMS),
    CASE(residual_rms_forward, norm, .bytes = 2 * (WORD + HALF) * ELEMS),
    CASE(rms_backward, norm, .bytes = (3 * WORD + HALF) * ELEMS),
    CASE(rms_backward_of_no_past, norm, .bytes = (2 * WORD + HALF) * ELEMS),
    CASE(loss, loss, .bytes = 2 * WORD * ELEMS),
    CASE(loss_parts, loss, .bytes = WORD * ELEMS + 16 * ROWS),
    CASE(loss_finish, loss, .bytes = 2 * WORD * ELEMS + 2 * 16 * ROWS),
    CASE(softmax, loss, .bytes = 2 * WORD * ELEMS),
    ASKS(attention_scratch),
    CASE(attention_forward, attention, .bytes = 4 * WORD * ELEMS, .flops = 2 * PAIRS * WIDTH),
    CASE(attention_backward, attention, .bytes = 8 * WORD * ELEMS, .flops = 5 * PAIRS * WIDTH),
    CASE(attention_decode, attention, .bytes = 2 * WORD * 4 * WIDTH, .flops = 4 * 4 * WIDTH),
    ASKS(attention_decode_scratch),
    CASE(rotary_table, element, .bytes = WORD * ROWS * WIDTH / HEADS),
    CASE(rotate, element, .bytes = (WORD + HALF) * ELEMS),
    CASE(gelu_forward, gelu, .bytes = 2 * WORD * ELEMS),
    CASE(gelu_backward, gelu, .bytes = 3 * WORD * ELEMS),
    CASE(silu_gate_forward, element, .bytes = 3 * WORD * ELEMS),
    CASE(silu_gate_backward, element, .bytes = 5 * WORD * ELEMS),
    CASE(add, element, .bytes = (2 * WORD + HALF) * ELEMS),
    CASE(dropout, element, .bytes = (WORD + HALF) * ELEMS),
    CASE(add_bias, element, .bytes = (WORD + HALF) * ELEMS),
    CASE(add_positions, embedding, .bytes = (2 * WORD + HALF) * ELEMS),
    CASE(convert, element, .bytes = (WORD + HALF) * ELEMS),
    CASE(column_sum, column_sum, .bytes = WORD * ELEMS),
    ASKS(column_sum_scratch),
    CASE(embedding_forward, embedding, .bytes = (WORD + 2 * HALF) * ELEMS),
    CASE(embedding_backward, embedding, .bytes = WORD * (5 * ELEMS + 4 * WIDTH)),
    CASE(copy, element, .bytes = 2 * ELEMS),
    CASE(copy_rows, element, .bytes = 2 * ELEMS),
    CASE(zero, element, .bytes = ELEMS),
    CASE(update, optimizer, .bytes = ELEMS * (3 * 2 * WORD + WORD + HALF)),
    CASE(square_sums, square_sum, .bytes = WORD * 150),
    CASE(lamb_direction, optimizer, .bytes = ELEMS * 7 * WORD),
    CASE(subtract_scaled, optimizer, .bytes = ELEMS * 3 * WORD),
};

const int recorded_call_count = ZR_COUNT(recorded_calls);

void check_record(const expected *want, const zr_recorder *recorder)
{
    int records = want->what == ZR_ACTIVITY_COUNT ? 0 : 1;
    if (recorder->count != records)
        fail_msg("%s: %lld records, not %d", want->name, (long long)recorder->count, records);
    if (!records)
        return;
    const zr_record *got = &recorder->records[0];
    if (got->what != want->what || got->bytes != want->bytes || got->flops != want->flops)
        fail_msg("%s: recorded as %s, %lld bytes and %lld flops, not %s, %lld and %lld", want->name,
                 zr_activity_name(got->what), (long long)got->bytes, (long long)got->flops,
                 zr_activity_name(want->what), (long long)want->bytes, (long long)want->flops);
    assert_true(got->slot == -1 && got->unit == 9 && got->end >= got->begin);
}
