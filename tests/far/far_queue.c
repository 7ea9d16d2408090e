// The backend of far queues: to run is to submit. What an operation has of the host is copied here,
// and where its operands lie is checked, before it is queued; far_executor.c runs it.
#define _GNU_SOURCE
#include "far_state.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static bool is_product(const zr_op *op)
{
    return op->kind == ZR_OP_product || op->kind == ZR_OP_quantised_product;
}

static size_t bytes_of(const far_queue *queue, const zr_op *op, const zr_operand *operand)
{
    if ((operand->access & ZR_SCRATCH) == ZR_SCRATCH)
        return zr_op_scratch(queue->inner, *op);
    return (size_t)operand->elements * zero_dtype_bytes(operand->storage);
}

static bool is_of_host(const zr_operand *operand) { return (operand->access & ZR_HOST) == ZR_HOST; }

// ---- what the host has ----

static void refuse(far_work *work, const zero_error *error)
{
    if (work->failure)
        return;
    work->failure = far_alloc(sizeof *work->failure);
    *work->failure = (zr_queue_failure){ZERO_ERR_INTERNAL, *error};
}

static zero_status check_array(const char *op, const zr_operand *operand, size_t bytes,
                               zero_error *error)
{
    if (bytes > ZR_HOST_BYTES)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "operation %s: its operand %s is an array of the host's of %zu bytes, at "
                       "most %d are copied",
                       op, operand->name, bytes, ZR_HOST_BYTES);
    far_lock();
    const far_allocation *in = far_allocation_at(operand->at);
    bool away = far_allocation_is_reachable(in) && in->kind == ZR_MEMORY_DEVICE;
    far_unlock();
    if (away)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "operation %s: its operand %s is an array of the host's, but lies in "
                       "device memory",
                       op, operand->name);
    return ZERO_OK;
}

static void copy_array(far_work *work, int index, const zr_operand *operand, size_t bytes)
{
    zero_error error = {0};
    if (check_array(zr_op_kind_name(work->op.kind), operand, bytes, &error) != ZERO_OK) {
        refuse(work, &error);
        return;
    }
    work->arrays[index] = far_alloc(bytes);
    memcpy(work->arrays[index], operand->at, bytes);
    work->op.at.each[index] = work->arrays[index];
}

static void add_piece(far_work *work, const char *name, void **place, size_t bytes, bool writes)
{
    if (*place && bytes)
        work->pieces[work->piece_count++] = (far_piece){name, *place, bytes, writes, place};
}

static void add_sources(far_work *work, const zr_operand *operand)
{
    void **sources = work->arrays[0];
    const zr_tree *tree = &work->op.shape.tree;
    for (int i = 0; i < tree->ranks; i++)
        add_piece(work, operand->name, &sources[i], (size_t)zr_tree_source_bytes(tree), false);
}

// Copies what the host has, and lists the pieces of memory that all else lies in.
static void read_operands(far_work *work, const far_queue *queue)
{
    zr_operand operands[ZR_MOST_OPERANDS];
    int count = zr_op_operands(&work->op, operands);
    bool tree = work->op.kind == ZR_OP_tree_sum;
    size_t most = ZR_MOST_OPERANDS + 1 + (tree ? (size_t)work->op.shape.tree.ranks : 0);
    work->pieces = far_alloc(most * sizeof *work->pieces);
    for (int i = 0; i < count; i++) {
        size_t bytes = operands[i].at ? bytes_of(queue, &work->op, &operands[i]) : 0;
        if (is_of_host(&operands[i]) && bytes)
            copy_array(work, i, &operands[i], bytes);
        else if (!is_of_host(&operands[i]))
            add_piece(work, operands[i].name, &work->op.at.each[i], bytes,
                      operands[i].access & ZR_WRITTEN);
    }
    if (tree && work->arrays[0])
        add_sources(work, &operands[0]);
    if (is_product(&work->op))
        add_piece(work, "scratch", &work->scratch, work->scratch_bytes, true);
}

// ---- where it lies ----

static bool is_on_stack(const void *at)
{
    pthread_attr_t attributes;
    void *low = NULL;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return false;
    pthread_attr_getstack(&attributes, &low, &bytes);
    pthread_attr_destroy(&attributes);
    return (const char *)at >= (char *)low && (const char *)at < (char *)low + bytes;
}

static const char *what_lies_at(const far_allocation *in, const void *at)
{
    if (in && !in->live)
        return "released memory";
    return is_on_stack(at) ? "a pointer to the caller's stack" : "memory of the host";
}

static zero_status check_piece(const char *op, const far_piece *piece, zero_error *error)
{
    const far_allocation *in = far_allocation_at(piece->at);
    if (!far_allocation_is_reachable(in))
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "operation %s: its operand %s, %zu bytes at %p, is %s; a queue of a far "
                       "device reaches device and pinned memory",
                       op, piece->name, piece->bytes, (void *)piece->at,
                       what_lies_at(in, piece->at));
    size_t before = (size_t)(piece->at - in->at);
    if (before > in->bytes || piece->bytes > in->bytes - before)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "operation %s: its operand %s, %zu bytes at %p, ends %zu bytes after "
                       "allocation %d, %zu bytes of %s memory",
                       op, piece->name, piece->bytes, (void *)piece->at,
                       before + piece->bytes - in->bytes, in->number, in->bytes,
                       zr_memory_name(in->kind));
    return ZERO_OK;
}

static void check_pieces(far_work *work)
{
    zero_error error = {0};
    for (int i = 0; i < work->piece_count && !work->failure; i++)
        if (check_piece(zr_op_kind_name(work->op.kind), &work->pieces[i], &error) != ZERO_OK)
            refuse(work, &error);
    if (work->failure)
        work->piece_count = 0;
}

void far_work_translate(far_work *work, zr_queue_failure *failure)
{
    for (int i = 0; i < work->piece_count && failure->status == ZERO_OK; i++) {
        const far_piece *piece = &work->pieces[i];
        const far_allocation *in = far_allocation_at(piece->at);
        failure->status = check_piece(zr_op_kind_name(work->op.kind), piece, &failure->error);
        if (failure->status == ZERO_OK)
            *piece->place = in->real + (piece->at - in->at);
        else
            far_violate("%s", failure->error.message);
    }
}

void far_work_destroy(far_work *work)
{
    for (int i = 0; i < ZR_MOST_OPERANDS; i++)
        free(work->arrays[i]);
    free(work->pieces);
    free(work->failure);
    free(work);
}

// ---- the backend ----

// Says that the thread submits to the queue; returns the one that does so already, or -1.
static int enter(far_queue *queue, int host)
{
    return atomic_exchange(&queue->inside, host + 1) - 1;
}

// A queue is used by one thread at a time: the next one waits until a finish has covered all.
static void check_threads(const far_queue *queue, int host, int inside)
{
    const far_work *last = queue->count ? queue->works[queue->count - 1] : NULL;
    if (inside >= 0 && inside != host)
        far_violate("threads %d and %d are inside of queue %d at once", inside, host, queue->index);
    if (last && last->host != host)
        far_violate("thread %d submits to queue %d, and no finish has covered what thread %d "
                    "submitted",
                    host, queue->index, last->host);
}

static void leave(far_queue *queue)
{
    far_unlock();
    atomic_store(&queue->inside, 0);
}

static void submit(zr_queue *queue, const zr_op *op)
{
    far_queue *self = queue->impl;
    far_work *work = far_alloc(sizeof *work);
    *work = (far_work){.host = far_host(),
                       .op = *op,
                       .scratch = queue->scratch,
                       .scratch_bytes = queue->scratch_bytes};
    int inside = enter(self, work->host);
    read_operands(work, self);
    far_touch_note(op->kind);
    far_lock();
    check_threads(self, work->host, inside);
    check_pieces(work);
    far_counts()->submitted++;
    far_work_give(self, work);
    leave(self);
}

static uint64_t mark(zr_queue *queue)
{
    far_queue *self = queue->impl;
    int host = far_host();
    far_lock();
    uint64_t number = far_progress_of(self->index)->given;
    far_record(
        &(far_row){
            .kind = FAR_MARK, .host = host, .mark_queue = self->index, .mark_number = number},
        NULL, 0);
    far_unlock();
    return number;
}

static void order_after(zr_queue *queue, zr_mark mark)
{
    int place;
    if (!far_makes_wait(&place))
        return;
    far_queue *self = queue->impl;
    const far_queue *other = mark.queue->impl;
    far_work *work = far_alloc(sizeof *work);
    *work = (far_work){.host = far_host(), .waits = true};
    int inside = enter(self, work->host);
    far_lock();
    check_threads(self, work->host, inside);
    far_join_mark(self->clock, other, mark.number);
    far_record(&(far_row){.kind = FAR_AFTER,
                          .host = work->host,
                          .queue = self->index,
                          .number = far_progress_of(self->index)->given + 1,
                          .mark_queue = other->index,
                          .mark_number = mark.number,
                          .place = place},
               NULL, 0);
    far_work_give(self, work);
    leave(self);
}

static zero_status finish_mark(zr_mark mark, double seconds, zero_error *error)
{
    int place;
    if (!far_makes_wait(&place))
        return ZERO_OK;
    far_queue *self = mark.queue->impl;
    const far_row row = {.kind = FAR_FINISH,
                         .host = far_host(),
                         .mark_queue = self->index,
                         .mark_number = mark.number,
                         .place = place};
    far_lock();
    far_count_finish(row.host);
    far_run_some();
    zero_status status = far_reach(self, mark.number, seconds, error);
    if (status == ZERO_OK) {
        far_cover(self, mark.number);
        far_record(&row, NULL, 0);
        status = self->failed.status;
        if (status != ZERO_OK && error)
            *error = self->failed.error;
        self->failed.status = ZERO_OK;
    }
    far_unlock();
    return status;
}

static size_t scratch_of(zr_queue *queue, const zr_op *op)
{
    const far_queue *self = queue->impl;
    zr_queue ref = {.threads = queue->threads};
    if (self)
        return zr_op_scratch(self->inner, *op);
    zr_backend_find("ref", NULL, &ref.backend, NULL);
    return zr_op_scratch(&ref, *op);
}

static const char *path(void) { return "portable"; }

static zero_status refuse_open(zr_queue *queue, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_INTERNAL, "a far queue is opened by zr_queue_open");
}

// All that it was given runs first.
static void close_queue(zr_queue *queue)
{
    far_queue *self = queue->impl;
    zero_error error = {0};
    far_lock();
    far_progress *own = far_progress_of(self->index);
    if (far_reach(self, own->given, 0, &error) != ZERO_OK)
        far_violate("closing a queue: %s", error.message);
    far_cover(self, own->given);
    own->executed = own->given; // what could not run is given up
    own->queue = NULL;
    far_unlock();
    zr_queue_close(self->inner);
    free(self->works);
    free(self);
}

static const zr_backend far_backend = {
    .name = "far",
    .host = "ref",
    .logit_bytes = FAR_LOGIT_BYTES,
    .logit_step = 8,
    .runtime_bytes = FAR_RUNTIME_BYTES,
    .run = submit,
    .scratch = scratch_of,
    .path = path,
    .open = refuse_open,
    .close = close_queue,
    .mark = mark,
    .after = order_after,
    .finish = finish_mark,
};

// ---- opening ----

zero_status __real_zr_queue_open(const char *name, const char *isa, int threads, zr_queue **out,
                                 zero_error *error);
zero_status __wrap_zr_queue_open(const char *name, const char *isa, int threads, zr_queue **out,
                                 zero_error *error);

static int free_place(void)
{
    for (int i = 0; i < FAR_MOST_QUEUES; i++)
        if (!far_progress_of(i)->queue)
            return i;
    return -1;
}

static zero_status place(far_queue *queue, zero_error *error)
{
    far_lock();
    queue->index = free_place();
    if (queue->index >= 0)
        far_progress_of(queue->index)->queue = queue;
    far_unlock();
    return queue->index >= 0
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_UNSUPPORTED, "%d far queues are open", FAR_MOST_QUEUES);
}

// The queue itself is one of "ref", of which only the failure is used.
static zero_status open_far(const char *isa, int threads, zr_queue **out, zero_error *error)
{
    far_queue *new = far_alloc(sizeof *new);
    zr_queue *outer = NULL;
    zero_status status = __real_zr_queue_open("ref", isa, threads, &outer, error);
    if (status == ZERO_OK)
        status = __real_zr_queue_open("ref", isa, threads, &new->inner, error);
    if (status == ZERO_OK)
        status = place(new, error);
    if (status != ZERO_OK)
        goto undo_queues;
    outer->backend = &far_backend;
    outer->device = far_device();
    outer->impl = new;
    *out = outer;
    return ZERO_OK;

undo_queues:
    zr_queue_close(new->inner);
    zr_queue_close(outer);
    free(new);
    return status;
}

zero_status __wrap_zr_queue_open(const char *name, const char *isa, int threads, zr_queue **out,
                                 zero_error *error)
{
    if (strcmp(name, "far") == 0 && far_has_begun())
        return open_far(isa, threads, out, error);
    return __real_zr_queue_open(name, isa, threads, out, error);
}
