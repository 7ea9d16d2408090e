// Backends around a queue's backend: one that records, and one that computes nothing. A queue that
// nobody wraps does not use them.
#include "base/alloc.h"
#include "compute/backends.h"

struct zr_wrapper {
    zr_backend outer; // queue->backend points to this
    const zr_backend *inner;
    zr_around around;
    void *user;
};

// Meanwhile the queue holds the backend inside, since some kernels run other operations.
static void run_wrapped(zr_queue *queue, const zr_op *op)
{
    const zr_wrapper *self = (const zr_wrapper *)queue->backend;
    queue->backend = self->inner;
    self->around(self->user, queue, op);
    queue->backend = &self->outer;
}

static size_t wrapped_scratch(zr_queue *queue, const zr_op *op)
{
    const zr_wrapper *self = (const zr_wrapper *)queue->backend;
    zr_queue plain = *queue;
    plain.backend = self->inner;
    return plain.backend->scratch(&plain, op);
}

zero_status zr_queue_wrap(zr_queue *queue, zr_around around, void *user, zr_wrapper **out,
                          zero_error *error)
{
    zr_wrapper *wrapper = zr_alloc(sizeof *wrapper, error);
    *out = wrapper;
    if (!wrapper)
        return ZERO_ERR_MEMORY;
    *wrapper = (zr_wrapper){
        .outer = *queue->backend, .inner = queue->backend, .around = around, .user = user};
    wrapper->outer.run = run_wrapped;
    wrapper->outer.scratch = wrapped_scratch;
    queue->backend = &wrapper->outer;
    return ZERO_OK;
}

void zr_queue_unwrap(zr_queue *queue, zr_wrapper *wrapper)
{
    if (!wrapper)
        return;
    queue->backend = wrapper->inner;
    zr_free(wrapper);
}

static void record_operation(void *recorder, zr_queue *queue, const zr_op *op)
{
    int64_t begin = zr_recorder_begin(recorder);
    queue->backend->run(queue, op);
    zr_recorder_add(recorder, zr_op_activity(op->kind), begin, zr_op_bytes(op), zr_op_flops(op),
                    -1);
}

zero_status zr_queue_record(zr_queue *queue, zr_recorder *recorder, zr_wrapper **out,
                            zero_error *error)
{
    return zr_queue_wrap(queue, record_operation, recorder, out, error);
}

static void check_operation(void *user, zr_queue *queue, const zr_op *op)
{
    zero_error error = {0};
    zero_status status =
        op->kind == ZR_OP_product ? zr_product_check(&op->shape.product, &error) : ZERO_OK;
    if (status != ZERO_OK)
        zr_queue_fail(queue, status, &error);
}

zero_status zr_queue_count(zr_queue *queue, zr_wrapper **out, zero_error *error)
{
    return zr_queue_wrap(queue, check_operation, NULL, out, error);
}
