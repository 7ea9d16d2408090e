// Arrays of the host's that operations get are copied when they are submitted, so none has more
// than ZR_HOST_BYTES: those whose size follows from an operation's shape are listed here, with the
// most that callers give them, and one element more is refused by name.
#include "far_harness.h"
#include "../sanitizers.h"

#include <stdalign.h>
#include <stdio.h>

typedef struct array {
    zr_op_kind kind;
    const char *name;
    int64_t most; // of what callers give it
    void (*set)(zr_op *op, int64_t count);
} array;

static void set_runs(zr_op *op, int64_t count) { op->shape.attention.run_count = (int)count; }
static void set_sources(zr_op *op, int64_t count) { op->shape.tree.ranks = (int)count; }
static void set_frequencies(zr_op *op, int64_t count) { op->shape.rotary.rotated = 2 * count; }
static void set_parts(zr_op *op, int64_t count) { op->shape.square_parts.parts = count; }

// The frequencies are those of half a head.
static const array arrays[] = {
    {ZR_OP_attention_decode, "runs", ZR_MOST_RUNS, set_runs},
    {ZR_OP_tree_sum, "sources", ZR_MOST_SOURCES, set_sources},
    {ZR_OP_rotary_table, "frequency", ZR_HOST_BYTES / sizeof(float), set_frequencies},
    {ZR_OP_square_sums_exact, "parts", ZR_MOST_SQUARE_PARTS, set_parts}};

static const array *listed(zr_op_kind kind, const char *name)
{
    for (int i = 0; i < ZR_COUNT(arrays); i++)
        if (arrays[i].kind == kind && strcmp(arrays[i].name, name) == 0)
            return &arrays[i];
    return NULL;
}

static int64_t bytes_of(const zr_op *op, int index)
{
    zr_operand operands[ZR_MOST_OPERANDS];
    zr_op_operands(op, operands);
    return operands[index].elements * (int64_t)zero_dtype_bytes(operands[index].storage);
}

// Returns a shape of this number where a number has eight bytes, or is the first of two of four.
static zr_op filled(zr_op_kind kind, int64_t number)
{
    zr_op op = {.kind = kind};
    for (size_t at = 0; at + sizeof number <= sizeof op.shape; at += sizeof number)
        memcpy((char *)&op.shape + at, &number, sizeof number);
    return op;
}

static void arrays_that_grow_are_listed(void **state)
{
    int found = 0;
    if (UNDER_ASAN) // a flag with a 2 in it is undefined, and no matter here
        skip();
    for (int kind = 0; kind < ZR_OP_KINDS; kind++) {
        const zr_op small = filled((zr_op_kind)kind, 1), large = filled((zr_op_kind)kind, 2);
        zr_operand operands[ZR_MOST_OPERANDS];
        int count = zr_op_operands(&small, operands);
        for (int i = 0; i < count; i++) {
            if ((operands[i].access & ZR_HOST) != ZR_HOST)
                continue;
            bool grows = bytes_of(&small, i) != bytes_of(&large, i);
            found += grows;
            if (grows != (listed((zr_op_kind)kind, operands[i].name) != NULL) ||
                (!grows && bytes_of(&small, i) > ZR_HOST_BYTES))
                fail_msg("%s, %s: %lld and %lld bytes", zr_op_kind_name((zr_op_kind)kind),
                         operands[i].name, (long long)bytes_of(&small, i),
                         (long long)bytes_of(&large, i));
        }
    }
    assert_int_equal(found, ZR_COUNT(arrays));
}

// Each of them is the first operand.
static void one_more_than_the_most_is_refused(void **state)
{
    static alignas(64) char data[2 * ZR_HOST_BYTES];
    for (int i = 0; i < ZR_COUNT(arrays); i++) {
        const array *a = &arrays[i];
        zr_op op = {.kind = a->kind, .at.each = {data}};
        char words[160];
        zero_error error = {0};
        a->set(&op, a->most);
        assert_true(bytes_of(&op, 0) > 0 && bytes_of(&op, 0) <= ZR_HOST_BYTES);
        a->set(&op, a->most + 1);
        snprintf(words, sizeof words,
                 "operation %s: its operand %s is an array of the host's of %lld bytes",
                 zr_op_kind_name(a->kind), a->name, (long long)bytes_of(&op, 0));
        far_begin(&(far_options){.order = FAR_LAZY});
        zr_queue *queue = far_queue_new();
        zr_run(queue, op);
        assert_int_equal(zr_mark_finish(zr_queue_mark(queue), 10, &error), ZERO_ERR_INTERNAL);
        assert_non_null(strstr(error.message, words));
        zr_queue_close(queue);
        end_clean();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(arrays_that_grow_are_listed),
                                       cmocka_unit_test(one_more_than_the_most_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
