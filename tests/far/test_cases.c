// Every case of every operation gives the bits of ref at once, when a far queue runs it in device
// memory, in each order. Copies bring its operands there and back on queues of their own, and what
// the host had is overwritten right after the submit.
#include "far_harness.h"
#include "op_cases.h"

#include <stdlib.h>

typedef struct place { // the operands of a case, on the device
    operands *pinned, *device;
    zr_queue *up, *compute, *down;
} place;

static void place_begin(place *p, const far_options *options)
{
    far_begin(options);
    p->pinned = take(ZR_MEMORY_PINNED, sizeof *p->pinned);
    p->device = take(ZR_MEMORY_DEVICE, sizeof *p->device);
    p->up = far_queue_new();
    p->compute = far_queue_new();
    p->down = far_queue_new();
}

static void place_end(place *p)
{
    zr_queue_close(p->up);
    zr_queue_close(p->compute);
    zr_queue_close(p->down);
    give_back(ZR_MEMORY_PINNED, p->pinned, sizeof *p->pinned);
    give_back(ZR_MEMORY_DEVICE, p->device, sizeof *p->device);
    end_clean();
}

typedef struct lent { // what a case has outside of its operands
    void *pinned[ZR_MOST_OPERANDS + 8];
    size_t bytes[ZR_MOST_OPERANDS + 8];
    int count;
    void *arrays[ZR_MOST_OPERANDS]; // copies of the arrays of the host
    size_t array_bytes[ZR_MOST_OPERANDS];
} lent;

static void lend(lent *l, const void *at, size_t bytes)
{
    for (int i = 0; i < l->count; i++)
        if (l->pinned[i] == at)
            return;
    l->pinned[l->count] = (void *)at;
    l->bytes[l->count++] = bytes;
    assert_int_equal(far_device()->ops->pin(far_device(), (void *)at, bytes, NULL), ZERO_OK);
}

static void move_array(lent *l, zr_op *op, int index, size_t bytes)
{
    l->arrays[index] = malloc(bytes);
    l->array_bytes[index] = bytes;
    assert_non_null(l->arrays[index]);
    memcpy(l->arrays[index], op->at.each[index], bytes);
    op->at.each[index] = l->arrays[index];
}

// Moves each operand from `from` to the same place in `to`; others are lent.
static void move_operands(lent *l, zr_op *op, const operands *from, operands *to)
{
    zr_operand list[ZR_MOST_OPERANDS];
    int count = zr_op_operands(op, list);
    *l = (lent){0};
    for (int i = 0; i < count; i++) {
        const char *at = list[i].at;
        size_t bytes = (size_t)list[i].elements * zero_dtype_bytes(list[i].storage);
        if (!at)
            continue;
        if ((list[i].access & ZR_HOST) == ZR_HOST)
            move_array(l, op, i, bytes);
        else if (at >= (const char *)from && at < (const char *)(from + 1))
            op->at.each[i] = (char *)to + (at - (const char *)from);
        else
            lend(l, at, bytes);
    }
    for (int i = 0; op->kind == ZR_OP_tree_sum && i < op->shape.tree.ranks; i++)
        lend(l, op->at.tree_sum.sources[i], (size_t)zr_tree_source_bytes(&op->shape.tree));
}

static void overwrite_arrays(lent *l)
{
    for (int i = 0; i < ZR_MOST_OPERANDS; i++)
        if (l->arrays[i])
            memset(l->arrays[i], 0xee, l->array_bytes[i]);
}

static void end_lent(lent *l)
{
    for (int i = 0; i < l->count; i++)
        far_device()->ops->unpin(far_device(), l->pinned[i], l->bytes[i]);
    for (int i = 0; i < ZR_MOST_OPERANDS; i++)
        free(l->arrays[i]);
}

static void run_far(place *p, zr_queue *ref, const op_case *c, operands *o)
{
    lent l;
    memcpy(p->pinned, o, sizeof *o);
    zr_op op = c->make(o);
    move_operands(&l, &op, o, p->device);
    assert_int_equal(zr_op_scratch(p->compute, op), zr_op_scratch(ref, op));
    far_copy(p->up, p->pinned, p->device, sizeof *o);
    zr_queue_after(p->compute, zr_queue_mark(p->up));
    zr_run(p->compute, op);
    overwrite_arrays(&l);
    zr_queue_after(p->down, zr_queue_mark(p->compute));
    far_copy(p->down, p->device, p->pinned, sizeof *o);
    finish_all(p->down);
    finish_all(p->compute);
    end_lent(&l);
}

static void check_case(place *p, zr_queue *ref, const op_case *c)
{
    operands *plain = operands_new(), *o = operands_new();
    zr_run(ref, c->make(plain));
    run_far(p, ref, c, o);
    p->pinned->update = plain->update; // an array of the host's, which one case changes
    if (memcmp(plain, p->pinned, offsetof(operands, scratch)))
        fail_msg("%s: on the far device its results differ", c->name);
    free(plain);
    free(o);
}

static void check_cases(const far_options *options)
{
    place p;
    zr_queue *ref = check_queue("ref", NULL, 1);
    place_begin(&p, options);
    for (const op_case *c = op_case_next(NULL); c; c = op_case_next(c))
        check_case(&p, ref, c);
    place_end(&p);
    check_queue_close(ref);
}

static void each_case_eager(void **state) { check_cases(&(far_options){.order = FAR_EAGER}); }

static void each_case_lazy(void **state) { check_cases(&(far_options){.order = FAR_LAZY}); }

static void each_case_in_random_orders(void **state)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        check_cases(&(far_options){.order = FAR_RANDOM, .seed = seed});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_case_eager),
        cmocka_unit_test(each_case_lazy),
        cmocka_unit_test(each_case_in_random_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
