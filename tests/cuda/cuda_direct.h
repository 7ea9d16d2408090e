// Runs operations on the card whose operands lie in pinned memory, which host and card both reach.
#ifndef TESTS_CUDA_DIRECT_H
#define TESTS_CUDA_DIRECT_H

#include "cuda_check.h"

#include "base/dtype.h"

#include <string.h>

typedef struct pinned {
    char *at;
    size_t bytes;
} pinned;

static inline pinned pinned_of(const void *from, int64_t bytes)
{
    zr_device *device = cuda_check_queue()->device;
    pinned of = {.bytes = (size_t)ZR_MAX(bytes, 1)};
    void *at = NULL;
    zero_error error = {0};
    if (device->ops->reserve(device, ZR_MEMORY_PINNED, of.bytes, &at, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    of.at = at;
    memset(at, 0xff, of.bytes);
    if (from)
        memcpy(at, from, (size_t)bytes);
    return of;
}

static inline void pinned_free(pinned *of)
{
    zr_device *device = cuda_check_queue()->device;
    device->ops->release(device, ZR_MEMORY_PINNED, of->at, of->bytes);
}

// Runs it, with scratch of its own, and waits.
static inline void run_directly(zr_op op, int scratch_operand)
{
    zero_error error = {0};
    zr_queue *queue = cuda_check_queue();
    pinned scratch = pinned_of(NULL, (int64_t)zr_op_scratch(queue, op));
    if (scratch_operand >= 0)
        op.at.each[scratch_operand] = scratch.at;
    zr_run(queue, op);
    if (zr_mark_finish(zr_queue_mark(queue), 60, &error) != ZERO_OK)
        fail_msg("%s: %s", zr_op_kind_name(op.kind), error.message);
    pinned_free(&scratch);
}

#endif
