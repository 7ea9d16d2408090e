// Backends around a queue's backend: one that records, one that computes nothing, and one that
// checks where operands lie. A queue that nobody wraps does not use them.
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

zr_queue zr_queue_inside(const zr_queue *queue)
{
    zr_queue inside = *queue;
    while (inside.backend->run == run_wrapped)
        inside.backend = ((const zr_wrapper *)inside.backend)->inner;
    return inside;
}

enum { SECONDS_OF_AN_OPERATION = 600 }; // more than any takes: then the device hangs

// Waits until a far device has done it. A failure comes later, with the finish of whoever needs it.
static void end_operation(zr_queue *queue)
{
    zero_error error = {0};
    zero_status status = zr_mark_finish(zr_queue_mark(queue), SECONDS_OF_AN_OPERATION, &error);
    if (status != ZERO_OK)
        zr_queue_fail(queue, status, &error);
}

static void record_operation(void *recorder, zr_queue *queue, const zr_op *op)
{
    int64_t begin = zr_recorder_begin(recorder);
    queue->backend->run(queue, op);
    if (zr_backend_is_far(queue->backend) && queue->failure->status == ZERO_OK)
        end_operation(queue);
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
    zero_status status = op->kind == ZR_OP_product || op->kind == ZR_OP_quantised_product
                             ? zr_product_check(&op->shape.product, &error)
                             : ZERO_OK;
    if (status != ZERO_OK)
        zr_queue_fail(queue, status, &error);
}

zero_status zr_queue_count(zr_queue *queue, zr_wrapper **out, zero_error *error)
{
    return zr_queue_wrap(queue, check_operation, NULL, out, error);
}

static int64_t operand_bytes(zr_queue *queue, const zr_op *op, const zr_operand *operand)
{
    if ((operand->access & ZR_SCRATCH) == ZR_SCRATCH)
        return (int64_t)queue->backend->scratch(queue, op);
    return operand->elements * (int64_t)zero_dtype_bytes(operand->storage);
}

// Returns the piece of reserved memory in which the operand begins; -1 if there is none.
static int piece_of(const zr_bounds *bounds, const char *at)
{
    for (int i = 0; i < bounds->count; i++) {
        const char *begin = bounds->reserved[i].at;
        if (begin && at >= begin && at < begin + bounds->reserved[i].bytes)
            return i;
    }
    return -1;
}

static zero_status check_operand(const zr_bounds *bounds, zr_op_kind kind,
                                 const zr_operand *operand, int64_t bytes, zero_error *error)
{
    int piece = piece_of(bounds, operand->at);
    if (piece < 0)
        return zr_fail(
            error, ZERO_ERR_INTERNAL,
            "unit \"%s\", operation %s: its operand %s, %lld bytes, lies in no memory that "
            "the plan reserved for the unit",
            bounds->unit, zr_op_kind_name(kind), operand->name, (long long)bytes);
    int64_t before = (const char *)operand->at - (const char *)bounds->reserved[piece].at,
            room = (int64_t)bounds->reserved[piece].bytes - before;
    if (bytes > room)
        return zr_fail(
            error, ZERO_ERR_INTERNAL,
            "unit \"%s\", operation %s: its operand %s, %lld bytes from byte %lld of its "
            "%s, ends %lld bytes behind what the plan reserved",
            bounds->unit, zr_op_kind_name(kind), operand->name, (long long)bytes, (long long)before,
            bounds->reserved[piece].name, (long long)(bytes - room));
    return ZERO_OK;
}

static void check_bounds(void *user, zr_queue *queue, const zr_op *op)
{
    const zr_bounds *bounds = user;
    zr_operand operands[ZR_MOST_OPERANDS];
    int count = bounds->unit ? zr_op_operands(op, operands) : 0;
    zero_error error = {0};
    zero_status status = ZERO_OK;
    for (int i = 0; i < count && status == ZERO_OK; i++) {
        bool of_host = (operands[i].access & ZR_HOST) == ZR_HOST,
             placed = operands[i].at && !of_host && !(operands[i].access & ZR_LENT);
        int64_t bytes = placed ? operand_bytes(queue, op, &operands[i]) : 0;
        if (bytes > 0)
            status = check_operand(bounds, op->kind, &operands[i], bytes, &error);
    }
    if (status == ZERO_OK)
        queue->backend->run(queue, op);
    else
        zr_queue_fail(queue, status, &error);
}

zero_status zr_queue_bound(zr_queue *queue, const zr_bounds *bounds, zr_wrapper **out,
                           zero_error *error)
{
    return zr_queue_wrap(queue, check_bounds, (void *)bounds, out, error);
}
