#define _GNU_SOURCE
#include "cuda_check.h"

#include "cpu_fuses.h"

#include "base/dtype.h"
#include "cuda/cards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REGIONS = ZR_MOST_OPERANDS + 64 };

// Operands that overlap, or one alone.
typedef struct region {
    char *host; // where the caller has them
    size_t bytes;
    zr_memory kind;
    bool is_read;
    char *ref, *staged, *card; // copies: for ref, in pinned memory, on the card
} region;

typedef struct checked { // an operation, and what it has
    zr_op op;
    zr_operand operands[ZR_MOST_OPERANDS];
    int operand_count, region_count;
    region regions[MOST_REGIONS];
    const void *sources[ZR_MOST_SOURCES];
} checked;

static zr_queue *card_queue, *ref_queue, *cpu_queue;

static void end_well(zero_status status, const zero_error *error)
{
    if (status != ZERO_OK)
        fail_msg("%s", error->message);
}

void cuda_check_begin(void)
{
    zero_error error = {0};
    zr_cuda_offer();
    end_well(zr_queue_open("cuda", NULL, 1, &card_queue, &error), &error);
    ref_queue = check_queue("ref", NULL, 1);
    cpu_queue = check_queue("cpu", NULL, 1);
}

void cuda_check_end(void)
{
    zr_queue_close(card_queue);
    check_queue_close(ref_queue);
    check_queue_close(cpu_queue);
}

int cuda_check_setup(void **state)
{
    cuda_check_begin();
    return 0;
}

int cuda_check_teardown(void **state)
{
    cuda_check_end();
    return 0;
}

zr_queue *cuda_check_queue(void) { return card_queue; }

// ---- regions ----

static size_t bytes_of(const zr_operand *operand)
{
    return (size_t)operand->elements * zero_dtype_bytes(operand->storage);
}

static bool is_host_array(const zr_operand *o) { return (o->access & ZR_HOST) == ZR_HOST; }

static bool is_scratch(const zr_operand *o) { return (o->access & ZR_SCRATCH) == ZR_SCRATCH; }

static void add_region(checked *c, const void *at, size_t bytes, unsigned access)
{
    region new = {.host = (char *)at,
                  .bytes = bytes,
                  .kind = access & ZR_LENT ? ZR_MEMORY_PINNED : ZR_MEMORY_DEVICE,
                  .is_read = access & ZR_READ};
    for (int i = 0; i < c->region_count;) {
        region *old = &c->regions[i];
        if (new.host >= old->host + old->bytes || old->host >= new.host + new.bytes) {
            i++;
            continue;
        }
        char *first = ZR_MIN(new.host, old->host),
             *end = ZR_MAX(new.host + new.bytes, old->host + old->bytes);
        new = (region){first, (size_t)(end - first), new.kind, new.is_read || old->is_read};
        *old = c->regions[--c->region_count];
    }
    assert_true(c->region_count < MOST_REGIONS);
    c->regions[c->region_count++] = new;
}

static void list_regions(checked *c)
{
    for (int i = 0; i < c->operand_count; i++) {
        const zr_operand *o = &c->operands[i];
        if (o->at && bytes_of(o) && !is_host_array(o) && !is_scratch(o))
            add_region(c, o->at, bytes_of(o), o->access);
    }
    for (int i = 0; c->op.kind == ZR_OP_tree_sum && i < c->op.shape.tree.ranks; i++)
        add_region(c, c->op.at.tree_sum.sources[i], (size_t)zr_tree_source_bytes(&c->op.shape.tree),
                   ZR_READ);
}

static void *take(zr_memory kind, size_t bytes)
{
    void *at = NULL;
    zero_error error = {0};
    zr_device *device = card_queue->device;
    end_well(device->ops->reserve(device, kind, bytes, &at, &error), &error);
    return at;
}

static void give_back(zr_memory kind, void *at, size_t bytes)
{
    card_queue->device->ops->release(card_queue->device, kind, at, bytes);
}

static void make_copies(region *r)
{
    r->ref = aligned_alloc(64, ZR_ROUND_UP(r->bytes, (size_t)64));
    assert_non_null(r->ref);
    if (r->is_read)
        memcpy(r->ref, r->host, r->bytes);
    else
        memset(r->ref, 0xff, r->bytes);
    r->staged = take(ZR_MEMORY_PINNED, r->bytes);
    r->card = take(r->kind, r->bytes);
}

static void free_copies(region *r)
{
    free(r->ref);
    give_back(ZR_MEMORY_PINNED, r->staged, r->bytes);
    give_back(r->kind, r->card, r->bytes);
}

typedef enum side { REF, CARD } side;

// Returns where an address of the caller's lies on a side.
static void *address_on(const checked *c, const void *at, side which)
{
    for (int i = 0; i < c->region_count; i++) {
        const region *r = &c->regions[i];
        const char *byte = at;
        if (byte >= r->host && byte < r->host + r->bytes)
            return (which == REF ? r->ref : r->card) + (byte - r->host);
    }
    return (void *)at;
}

// Returns the operation with its operands on a side.
static zr_op op_on(checked *c, side which, void *scratch)
{
    zr_op op = c->op;
    for (int i = 0; i < c->operand_count; i++) {
        if (is_scratch(&c->operands[i]))
            op.at.each[i] = scratch;
        else if (!is_host_array(&c->operands[i]))
            op.at.each[i] = address_on(c, op.at.each[i], which);
    }
    for (int i = 0; op.kind == ZR_OP_tree_sum && i < op.shape.tree.ranks; i++)
        c->sources[i] = address_on(c, c->op.at.tree_sum.sources[i], which);
    if (op.kind == ZR_OP_tree_sum)
        op.at.tree_sum.sources = c->sources;
    return op;
}

// ---- running ----

static void run_host(checked *c, zr_queue *queue)
{
    zero_error error = {0};
    size_t bytes = zr_op_scratch(queue, c->op);
    void *scratch = bytes ? aligned_alloc(64, ZR_ROUND_UP(bytes, (size_t)64)) : NULL;
    end_well(check_run(queue, op_on(c, REF, scratch), &error), &error);
    free(scratch);
}

static void copy(const void *from, void *to, size_t bytes)
{
    zr_run(card_queue, zr_op_copy(&(zr_bytes){.bytes = (int64_t)bytes}, from, to));
}

static void finish(const char *what)
{
    zero_error error = {0};
    if (zr_mark_finish(zr_queue_mark(card_queue), 60, &error) != ZERO_OK)
        fail_msg("%s: %s", what, error.message);
}

static void send(checked *c)
{
    for (int i = 0; i < c->region_count; i++) {
        region *r = &c->regions[i];
        if (r->is_read)
            memcpy(r->staged, r->host, r->bytes);
        else
            memset(r->staged, 0xff, r->bytes);
        copy(r->staged, r->card, r->bytes);
    }
}

static void run_card(checked *c, const char *what, void *scratch, size_t bytes)
{
    send(c);
    zr_run(card_queue, zr_op_fill(&(zr_bytes){.bytes = (int64_t)bytes, .value = 0xff}, scratch));
    zr_queue with = zr_queue_with_scratch(card_queue, scratch, bytes);
    zr_run(&with, op_on(c, CARD, scratch));
    for (int i = 0; i < c->region_count; i++)
        copy(c->regions[i].card, c->regions[i].staged, c->regions[i].bytes);
    finish(what);
}

// ---- comparing ----

static const void *on_card(const checked *c, const void *at)
{
    for (int i = 0; i < c->region_count; i++) {
        const region *r = &c->regions[i];
        const char *byte = at;
        if (byte >= r->host && byte < r->host + r->bytes)
            return r->staged + (byte - r->host);
    }
    return NULL;
}

static void check_doubles(const char *what, const double *got, const double *want, int64_t count,
                          cuda_tolerance t)
{
    for (int64_t i = 0; i < count; i++) {
        bool same = isnan(want[i])
                        ? isnan(got[i])
                        : got[i] == want[i] ||
                              fabs(got[i] - want[i]) <= t.relative * fabs(want[i]) + t.absolute;
        if (!same)
            fail_msg("%s: [%lld] is %.17g, not %.17g", what, (long long)i, got[i], want[i]);
    }
}

static void check_parts(const char *what, const zr_loss_part *got, const zr_loss_part *want,
                        int64_t count, cuda_tolerance t)
{
    for (int64_t i = 0; i < count; i++) {
        check_close(what, &got[i].largest, &want[i].largest, 1, t.relative, t.absolute);
        check_close(what, &got[i].aimed, &want[i].aimed, 1, t.relative, t.absolute);
        check_doubles(what, &got[i].sum, &want[i].sum, 1, t);
    }
}

static bool is_exact(cuda_tolerance t) { return t.relative == 0 && t.absolute == 0; }

static void check_operand(const checked *c, const char *what, const zr_operand *o, cuda_tolerance t)
{
    const void *got = on_card(c, o->at), *want = address_on(c, o->at, REF);
    char name[200];
    snprintf(name, sizeof name, "%s, operand %s", what, o->name);
    if (c->op.kind == ZR_OP_loss_parts && o->storage == ZERO_F32)
        check_parts(name, got, want, o->elements / 4, t);
    else if (o->storage == ZERO_F64)
        check_doubles(name, got, want, o->elements, t);
    else if (is_exact(t) || o->storage > ZERO_F16)
        check_same_bits(name, got, want, (int64_t)bytes_of(o));
    else
        check_close_as(name, o->storage, got, want, o->elements, t.relative, t.absolute);
}

static void check_results(const checked *c, const char *what, cuda_tolerance t, int operand,
                          cuda_tolerance its)
{
    for (int i = 0; i < c->operand_count; i++) {
        const zr_operand *o = &c->operands[i];
        if (o->at && bytes_of(o) && (o->access & ZR_WRITTEN) && !is_scratch(o))
            check_operand(c, what, o, i == operand ? its : t);
    }
}

// Returns a copy of what all regions hold after a run on the card.
static char *results_new(const checked *c, size_t *bytes)
{
    *bytes = 0;
    for (int i = 0; i < c->region_count; i++)
        *bytes += c->regions[i].bytes;
    char *all = malloc(*bytes + 1), *at = all;
    assert_non_null(all);
    for (int i = 0; i < c->region_count; i++) {
        memcpy(at, c->regions[i].staged, c->regions[i].bytes);
        at += c->regions[i].bytes;
    }
    return all;
}

static void check_orders(checked *c, const char *what)
{
    static const char *const orders[] = {"backward", "drawn", "forward"};
    char *first = NULL;
    size_t bytes, scratch_bytes = zr_op_scratch(card_queue, c->op);
    void *scratch = scratch_bytes ? take(ZR_MEMORY_DEVICE, scratch_bytes) : NULL;
    for (int i = 0; i < ZR_COUNT(orders); i++) {
        setenv("EMULATED_ORDER", orders[i], 1);
        run_card(c, what, scratch, scratch_bytes);
        char *now = results_new(c, &bytes);
        if (first && memcmp(first, now, bytes))
            fail_msg("%s: orders %s and %s of threads give other bits", what, orders[0], orders[i]);
        if (first)
            free(now);
        else
            first = now;
    }
    free(first);
    if (scratch)
        give_back(ZR_MEMORY_DEVICE, scratch, scratch_bytes);
}

// Compares with what a queue of the host's computes.
static void check_against(zr_queue *host, const char *what, zr_op op, cuda_tolerance tolerance,
                          int operand, cuda_tolerance its)
{
    checked *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->op = op;
    c->operand_count = zr_op_operands(&op, c->operands);
    list_regions(c);
    for (int i = 0; i < c->region_count; i++)
        make_copies(&c->regions[i]);
    run_host(c, host);
    check_orders(c, what);
    check_results(c, what, tolerance, operand, its);
    for (int i = 0; i < c->region_count; i++)
        free_copies(&c->regions[i]);
    free(c);
}

void cuda_check_one(const char *what, zr_op op, cuda_tolerance tolerance, int operand,
                    cuda_tolerance its)
{
    check_against(ref_queue, what, op, tolerance, operand, its);
}

void cuda_check(const char *what, zr_op op, cuda_tolerance tolerance)
{
    cuda_check_one(what, op, tolerance, -1, tolerance);
}

void cuda_check_as_cpu(const char *what, zr_op op)
{
    const cuda_tolerance exact = {0, 0};
    if (cpu_fuses(cpu_queue))
        check_against(cpu_queue, what, op, exact, -1, exact);
}
