// A recording backend: the bits of the backend behind it, one record a call with its bytes and flops, and nothing left of it.
#include "compute_check.h"
#include "base/alloc.h"
#include "base/random.h"
#include "base/recorder.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 8, WIDTH = 64, HEADS = 2, ELEMS = ROWS * WIDTH, FLOATS = 8 * ELEMS, PARTS = 2, SCRATCH_BYTES = 1 << 20 };

typedef struct operands { // every call reads and writes these; 64-byte aligned
    _Alignas(64) float a[FLOATS], b[FLOATS], c[FLOATS], d[FLOATS], e[FLOATS];
    _Alignas(64) double sums[8];
    _Alignas(64) int32_t ids[64];
    _Alignas(64) char scratch[SCRATCH_BYTES];
} operands;

static operands *operands_new(void)
{
    operands *o = aligned_alloc(64, sizeof *o);
    assert_non_null(o);
    memset(o, 0, sizeof *o);
    float *const arrays[] = {o->a, o->b, o->c, o->d, o->e};
    for (int k = 0; k < ZR_COUNT(arrays); k++)
        for (int i = 0; i < FLOATS; i++)
            arrays[k][i] = (float)(zr_philox4x32((uint64_t)k, 1, (uint64_t)i).v[0] % 1000) * 1e-3f + 0.01f;
    for (int i = 0; i < 64; i++)
        o->ids[i] = i * 5 % WIDTH;
    return o;
}

typedef void call(zr_queue *queue, operands *o);

static void run_product(zr_queue *queue, const zr_product *product, operands *o)
{
    zero_error error = {0};
    if (queue->backend->product->run(queue, product, o->a, o->b, o->c, o->d, &error) != ZERO_OK)
        fail_msg("%s", error.message);
}

static void product(zr_queue *queue, operands *o)
{
    run_product(queue, &(zr_product){.m = ROWS, .n = WIDTH, .k = WIDTH, .epilogue = ZR_EPILOGUE_BIAS}, o);
}

static void product_bf16_added(zr_queue *queue, operands *o)
{
    run_product(queue, &(zr_product){.dtype = ZERO_BF16, .out = ZERO_F32, .m = WIDTH, .n = WIDTH, .k = ROWS, .trans_a = true, .add = true}, o);
}

static const zr_norm norm = {.rows = ROWS, .width = WIDTH, .epsilon = 1e-5f};

static void norm_forward(zr_queue *queue, operands *o)
{
    queue->backend->rows->norm_forward(queue, &norm, o->a, o->b, o->c, o->d, o->e, o->e + 64);
}

static void residual_norm_forward(zr_queue *queue, operands *o)
{
    queue->backend->rows->residual_norm_forward(queue, &norm, o->a, o->b, o->c, o->d, o->d + 64, o->e, o->e + ELEMS, o->e + ELEMS + 64);
}

static void norm_backward(zr_queue *queue, operands *o)
{
    queue->backend->rows->norm_backward(queue, &norm, o->a, o->b, o->c, o->c + 64, o->c + 128, o->d, o->d, o->e, o->e + 64, false, o->scratch);
}

static void loss(zr_queue *queue, operands *o)
{
    zr_loss loss = {.rows = ROWS, .vocab = WIDTH, .factor = 0.5f};
    queue->backend->rows->loss(queue, &loss, o->a, o->ids, o->b, true);
}

static void softmax(zr_queue *queue, operands *o)
{
    queue->backend->rows->softmax(queue, ZERO_F32, ROWS, WIDTH, o->a);
}

static const zr_attention attention = {.batch = 1, .seq = ROWS, .heads = HEADS, .kv_heads = HEADS, .head_dim = WIDTH / HEADS, .scale = 0.2f};

static void attention_forward(zr_queue *queue, operands *o)
{
    queue->backend->attention->forward(queue, &attention, o->a, o->b, o->c, o->scratch);
}

static void attention_backward(zr_queue *queue, operands *o)
{
    queue->backend->attention->backward(queue, &attention, o->a, o->b, o->c, o->d, o->e, o->scratch);
}

static void attention_decode(zr_queue *queue, operands *o)
{
    const zr_attention_cache cache = {.k = o->b, .v = o->c, .capacity = ROWS};
    const zr_attention_run run = {.first = 3, .rows = 1};
    queue->backend->attention->decode(queue, &attention, &cache, &run, 1, o->a, o->d, o->scratch);
}

static void gelu_forward(zr_queue *queue, operands *o)
{
    queue->backend->elements->gelu_forward(queue, ZERO_F32, ELEMS, o->a, o->b);
}

static void gelu_backward(zr_queue *queue, operands *o)
{
    queue->backend->elements->gelu_backward(queue, ZERO_F32, ELEMS, o->a, o->b);
}

static void add(zr_queue *queue, operands *o)
{
    queue->backend->elements->add(queue, ZERO_F32, ZERO_F32, ELEMS, o->a, o->b, o->c);
}

static void dropout(zr_queue *queue, operands *o)
{
    queue->backend->elements->dropout(queue, ZERO_F32, ZERO_F16, ELEMS, 0.3f, 42, o->a, o->b);
}

static void convert(zr_queue *queue, operands *o)
{
    queue->backend->elements->convert(queue, ZERO_F32, ZERO_BF16, ELEMS, o->a, o->b);
}

static void column_sum(zr_queue *queue, operands *o)
{
    queue->backend->elements->column_sum(queue, ZERO_F32, ROWS, WIDTH, o->a, o->b, true, o->scratch);
}

static void embedding_forward(zr_queue *queue, operands *o)
{
    queue->backend->elements->embedding_forward(queue, ZERO_F32, ZERO_F32, ROWS, 4, WIDTH, o->ids, o->a, o->b, o->c);
}

static void embedding_backward(zr_queue *queue, operands *o)
{
    queue->backend->elements->embedding_backward(queue, ZERO_F32, ROWS, 4, WIDTH, o->ids, o->a, ROWS * 8, o->b, true, 4, o->c, false);
}

static void copy(zr_queue *queue, operands *o)
{
    queue->backend->elements->copy(queue, ELEMS, o->a, o->b);
}

static void zero(zr_queue *queue, operands *o)
{
    queue->backend->elements->zero(queue, ELEMS, o->b);
}

static const zr_update adamw = {.kind = ZR_UPDATE_ADAMW, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.1,
                                .correction1 = 0.1, .correction2 = 0.01, .gradient_scale = 1};

static void update(zr_queue *queue, operands *o)
{
    zr_range_states at = {.master = o->a, .state0 = o->b, .state1 = o->c, .gradient = o->d, .parameters = o->e, .parameters_dtype = ZERO_BF16};
    queue->backend->optimizer->update(queue, &adamw, ELEMS, &at);
}

static void square_sums(zr_queue *queue, operands *o)
{
    static const int64_t first[PARTS] = {0, 128};
    static const int32_t count[PARTS] = {100, 50};
    queue->backend->optimizer->square_sums(queue, ZERO_F32, o->a, PARTS, first, count, o->sums);
}

static void lamb_direction(zr_queue *queue, operands *o)
{
    zr_range_states at = {.master = o->a, .state0 = o->b, .state1 = o->c, .direction = o->d, .gradient = o->e};
    queue->backend->optimizer->lamb_direction(queue, &adamw, ELEMS, &at);
}

static void subtract_scaled(zr_queue *queue, operands *o)
{
    zr_range_states at = {.master = o->a, .direction = o->b};
    queue->backend->optimizer->subtract_scaled(queue, ELEMS, 0.1f, &at);
}

typedef struct expected {
    const char *name;
    call *run;
    zr_activity what;
    int64_t bytes, flops;
} expected;

#define CASE(function, activity, ...) {.name = #function, .run = function, .what = ZR_ACTIVITY_##activity, __VA_ARGS__}
enum { WORD = 4, PAIRS = ROWS * (ROWS + 1) }; // twice the scores up to the diagonal, a head

static const expected cases[] = {
    CASE(product, product, .bytes = WORD * (ELEMS + WIDTH * WIDTH + ELEMS), .flops = 2 * ELEMS * WIDTH),
    CASE(product_bf16_added, product, .bytes = 2 * (2 * ELEMS) + 2 * WORD * WIDTH * WIDTH, .flops = 2 * WIDTH * WIDTH * ROWS),
    CASE(norm_forward, norm, .bytes = 2 * WORD * ELEMS),
    CASE(residual_norm_forward, norm, .bytes = 4 * WORD * ELEMS),
    CASE(norm_backward, norm, .bytes = 4 * WORD * ELEMS),
    CASE(loss, loss, .bytes = 2 * WORD * ELEMS),
    CASE(softmax, loss, .bytes = 2 * WORD * ELEMS),
    CASE(attention_forward, attention, .bytes = 4 * WORD * ELEMS, .flops = 2 * PAIRS * WIDTH),
    CASE(attention_backward, attention, .bytes = 8 * WORD * ELEMS, .flops = 5 * PAIRS * WIDTH),
    CASE(attention_decode, attention, .bytes = 2 * WORD * 4 * WIDTH),
    CASE(gelu_forward, gelu, .bytes = 2 * WORD * ELEMS),
    CASE(gelu_backward, gelu, .bytes = 3 * WORD * ELEMS),
    CASE(add, element, .bytes = 3 * WORD * ELEMS),
    CASE(dropout, element, .bytes = (WORD + 2) * ELEMS),
    CASE(convert, element, .bytes = (WORD + 2) * ELEMS),
    CASE(column_sum, column_sum, .bytes = WORD * ELEMS),
    CASE(embedding_forward, embedding, .bytes = 3 * WORD * ELEMS),
    CASE(embedding_backward, embedding, .bytes = WORD * (5 * ELEMS + 4 * WIDTH)),
    CASE(copy, element, .bytes = 2 * ELEMS),
    CASE(zero, element, .bytes = ELEMS),
    CASE(update, optimizer, .bytes = ELEMS * (3 * 2 * WORD + WORD + 2)),
    CASE(square_sums, square_sum, .bytes = WORD * 150),
    CASE(lamb_direction, optimizer, .bytes = ELEMS * 7 * WORD),
    CASE(subtract_scaled, optimizer, .bytes = ELEMS * 3 * WORD),
};

static void check_case(const expected *want, zr_queue *queue, zr_recorder *recorder)
{
    operands *plain = operands_new(), *recorded = operands_new();
    zr_recording *recording;
    const zr_backend *backend = queue->backend;
    want->run(queue, plain);
    zr_recorder_clear(recorder);
    assert_int_equal(zr_queue_record(queue, recorder, &recording, NULL), ZERO_OK);
    want->run(queue, recorded);
    assert_ptr_not_equal(queue->backend, backend); // still recording after the call
    zr_queue_record_end(queue, recording);
    assert_ptr_equal(queue->backend, backend);
    if (memcmp(plain, recorded, offsetof(operands, scratch)))
        fail_msg("%s: recorded, its results differ", want->name);
    if (recorder->count != 1)
        fail_msg("%s: %lld records", want->name, (long long)recorder->count);
    const zr_record *got = &recorder->records[0];
    if (got->what != want->what || got->bytes != want->bytes || got->flops != want->flops || got->slot != -1 || got->unit != 9 || got->end < got->begin)
        fail_msg("%s: recorded as %s, %lld bytes and %lld flops, not %s, %lld and %lld", want->name, zr_activity_name(got->what), (long long)got->bytes,
                 (long long)got->flops, zr_activity_name(want->what), (long long)want->bytes, (long long)want->flops);
    free(plain);
    free(recorded);
}

static void check_queue_cases(zr_queue *queue)
{
    zr_recorder *recorder;
    assert_int_equal(zr_recorder_create(16, &recorder, NULL), ZERO_OK);
    recorder->unit = 9;
    for (int i = 0; i < ZR_COUNT(cases); i++)
        check_case(&cases[i], queue, recorder);
    zr_recorder_destroy(recorder);
}

static void cpu_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    check_queue_cases(queue);
}

static void every_call_on_cpu(void **state)
{
    check_each_cpu(cpu_body);
}

static void every_call_on_ref(void **state)
{
    zr_queue *queue = check_queue("ref", NULL, 1);
    check_queue_cases(queue);
    check_queue_close(queue);
}

// Sizes of scratch are asked of the backend behind, and leave no record.
static void scratch_sizes(void **state)
{
    zr_queue *queue = check_queue("cpu", NULL, 2);
    const zr_backend *b = queue->backend;
    zr_recorder *recorder;
    zr_recording *recording;
    zr_product product = {.m = ROWS, .n = WIDTH, .k = WIDTH, .trans_b = true};
    size_t of_product = b->product->scratch(queue, &product), of_norm = b->rows->norm_scratch(queue, &norm);
    size_t of_attention = b->attention->scratch(queue, &attention), of_columns = b->elements->column_sum_scratch(queue, ROWS, WIDTH);
    assert_true(of_product < SCRATCH_BYTES && of_norm < SCRATCH_BYTES && of_attention < SCRATCH_BYTES && of_columns < SCRATCH_BYTES);
    assert_int_equal(zr_recorder_create(4, &recorder, NULL), ZERO_OK);
    assert_int_equal(zr_queue_record(queue, recorder, &recording, NULL), ZERO_OK);
    const zr_backend *r = queue->backend;
    assert_int_equal(r->product->scratch(queue, &product), of_product);
    assert_int_equal(r->rows->norm_scratch(queue, &norm), of_norm);
    assert_int_equal(r->attention->scratch(queue, &attention), of_attention);
    assert_int_equal(r->elements->column_sum_scratch(queue, ROWS, WIDTH), of_columns);
    assert_ptr_equal(queue->backend, r);
    assert_int_equal(recorder->count, 0);
    assert_string_equal(r->name, b->name);
    assert_string_equal(r->path(), b->path());
    zr_queue_record_end(queue, recording);
    zr_recorder_destroy(recorder);
    check_queue_close(queue);
}

static void no_memory_changes_nothing(void **state)
{
    zr_queue *queue = check_queue("ref", NULL, 1);
    const zr_backend *before = queue->backend;
    zr_recording *recording;
    zr_alloc_fail_at(1);
    assert_int_equal(zr_queue_record(queue, NULL, &recording, NULL), ZERO_ERR_MEMORY);
    zr_alloc_fail_at(0);
    zr_queue_record_end(queue, recording);
    assert_ptr_equal(queue->backend, before);
    check_queue_close(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_on_cpu),
        cmocka_unit_test(every_call_on_ref),
        cmocka_unit_test(scratch_sizes),
        cmocka_unit_test(no_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
