// The scratch that layers plan suffices for every backend of this processor, and no byte of it is
// superfluous.
#include "compute/compute.h"
#include "layers/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

typedef struct sizes {
    size_t norm, attention, decode, column_sum;
} sizes;

typedef struct shape {
    int threads;
    zr_norm norm;
    zr_attention attention;
    int64_t capacity;
} shape;

static const shape shapes[] = {
    {1,
     {.rows = 1, .width = 1},
     {.batch = 1, .seq = 1, .heads = 1, .kv_heads = 1, .head_dim = 2},
     1},
    {2,
     {.rows = 37, .width = 100},
     {.batch = 2, .seq = 19, .heads = 4, .kv_heads = 2, .head_dim = 24},
     64},
    {3,
     {.rows = 4096, .width = 768},
     {.batch = 4, .seq = 1024, .heads = 12, .kv_heads = 12, .head_dim = 64},
     2048},
};

static sizes planned(const shape *of)
{
    return (sizes){
        .norm = zr_scratch_norm(NULL, of->threads, &of->norm),
        .attention = zr_scratch_attention(NULL, of->threads, &of->attention),
        .decode = zr_scratch_decode(NULL, of->threads, &of->attention, of->capacity),
        .column_sum = zr_scratch_column_sum(NULL, of->threads, of->norm.rows, of->norm.width),
    };
}

static sizes needed(const shape *of, const zr_backend *backend)
{
    zr_queue queue = {.backend = backend, .threads = of->threads};
    const zr_matrix matrix = {.rows = of->norm.rows, .width = of->norm.width};
    zr_attention decode = of->attention;
    decode.capacity = of->capacity;
    const zr_op norm = {.kind = ZR_OP_norm_backward, .shape.norm = of->norm},
                column_sum = {.kind = ZR_OP_column_sum, .shape.matrix = matrix},
                forward = {.kind = ZR_OP_attention_forward, .shape.attention = of->attention},
                backward = {.kind = ZR_OP_attention_backward, .shape.attention = of->attention},
                decoding = {.kind = ZR_OP_attention_decode, .shape.attention = decode};
    return (sizes){
        .norm = zr_op_scratch(&queue, norm),
        .attention = ZR_MAX(zr_op_scratch(&queue, forward), zr_op_scratch(&queue, backward)),
        .decode = zr_op_scratch(&queue, decoding),
        .column_sum = zr_op_scratch(&queue, column_sum),
    };
}

static void what_is_planned_is_the_most_that_any_needs(void **state)
{
    for (int i = 0; i < ZR_COUNT(shapes); i++) {
        sizes all = planned(&shapes[i]), most = {0};
        for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
            if (!zr_backend_offered(*backend))
                continue;
            sizes own = needed(&shapes[i], *backend);
            most.norm = ZR_MAX(most.norm, own.norm);
            most.attention = ZR_MAX(most.attention, own.attention);
            most.decode = ZR_MAX(most.decode, own.decode);
            most.column_sum = ZR_MAX(most.column_sum, own.column_sum);
        }
        assert_memory_equal(&all, &most, sizeof all);
        assert_true(all.attention > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_planned_is_the_most_that_any_needs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
