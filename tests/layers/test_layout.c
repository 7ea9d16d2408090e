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
        .norm = zr_scratch_norm(of->threads, &of->norm),
        .attention = zr_scratch_attention(of->threads, &of->attention),
        .decode = zr_scratch_decode(of->threads, &of->attention, of->capacity),
        .column_sum = zr_scratch_column_sum(of->threads, of->norm.rows, of->norm.width),
    };
}

static sizes needed(const shape *of, const zr_backend *backend)
{
    const zr_queue queue = {.backend = backend, .threads = of->threads};
    return (sizes){
        .norm = backend->rows->norm_scratch(&queue, &of->norm),
        .attention = backend->attention->scratch(&queue, &of->attention),
        .decode = backend->attention->decode_scratch(&queue, &of->attention, of->capacity),
        .column_sum = backend->elements->column_sum_scratch(&queue, of->norm.rows, of->norm.width),
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
