#include "tensor_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static int halves(int count)
{
    int half = 1;
    while (2 * half < count)
        half *= 2;
    return half;
}

static float tree(char *const *windows, int count, int64_t offset, int64_t element)
{
    if (count == 1)
        return ((float *)(void *)(windows[0] + offset))[element];
    int half = halves(count);
    float a = tree(windows, half, offset, element),
          b = tree(windows + half, count - half, offset, element);
    return a + b;
}

bool rank_makes(const rank *r, const zero_exchange *exchange)
{
    unsigned part = exchange->in_weight ? ZR_BACKWARD_WEIGHT : ZR_BACKWARD_INPUT;
    return exchange->backward ? (r->parts & part) != 0 : !r->parts;
}

// The operations must come in the order of the unit's list.
static void check_listed(rank *r, const zero_context *context, zero_exchange_kind kind,
                         int replicas, int64_t elements, zero_dtype dtype)
{
    const zero_unit_sizes *sizes = &r->net->sizes[context->unit_index];
    int at = 0, listed = r->next++;
    for (; at < sizes->exchange_count; at++) {
        const zero_exchange *e = &sizes->exchanges[at];
        if (!rank_makes(r, e))
            continue;
        if (listed < e->calls)
            break;
        listed -= e->calls;
    }
    assert_true(at < sizes->exchange_count);
    assert_int_equal(sizes->exchanges[at].kind, kind);
    assert_int_equal(sizes->exchanges[at].replicas, replicas);
    assert_int_equal(sizes->exchanges[at].elements, elements);
    assert_int_equal(sizes->exchanges[at].dtype, dtype);
}

static void sum(rank *r, char *const *windows, int count, int me, zero_exchange_kind kind,
                int64_t offset, int64_t elements, pthread_barrier_t *barrier)
{
    int64_t first = kind == ZERO_EXCHANGE_SCATTER ? me * elements : 0,
            end = kind == ZERO_EXCHANGE_SCATTER ? first + elements : count * elements;
    float *sums = malloc(sizeof *sums * (size_t)ZR_MAX(end - first, 1));
    for (int64_t i = first; i < end; i++)
        sums[i - first] = tree(windows, count, offset, i);
    pthread_barrier_wait(barrier);
    memcpy(windows[me] + offset + first * (int64_t)sizeof *sums, sums,
           sizeof *sums * (size_t)(end - first));
    free(sums);
}

zero_status rank_run(const struct zr_exchanger *self, const zero_context *context,
                     zero_exchange_kind kind, int replicas, int64_t offset, int64_t elements,
                     zero_dtype dtype)
{
    rank *r = (rank *)self;
    int count = replicas ? replicas : r->world->size, first = self->rank / count * count,
        me = self->rank - first;
    pthread_barrier_t *barrier = replicas ? &r->world->groups[first] : &r->world->all;
    char *const *windows = r->world->windows + first;
    int64_t bytes = elements * (int64_t)zero_dtype_bytes(dtype);
    check_listed(r, context, kind, replicas, elements, dtype);
    assert_true(offset + count * bytes <=
                (int64_t)r->net->sizes[context->unit_index].exchange_bytes);
    pthread_barrier_wait(barrier);
    if (kind != ZERO_EXCHANGE_GATHER)
        sum(r, windows, count, me, kind, offset, elements, barrier);
    for (int other = 0; kind == ZERO_EXCHANGE_GATHER && other < count; other++)
        if (other != me)
            memcpy(windows[me] + offset + other * bytes, windows[other] + offset + other * bytes,
                   (size_t)bytes);
    pthread_barrier_wait(barrier);
    return ZERO_OK;
}
