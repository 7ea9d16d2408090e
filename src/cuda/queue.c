// Streams and marks, and what every operation is submitted by.
#include "cuda/queue.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "compute/backends.h"
#include "cuda/queue_ops.h"

#include <stdio.h>
#include <time.h>

// ---- failures ----

void zr_cuda_queue_fail(zr_queue *queue, const char *call, zr_cuda_result result)
{
    zr_cuda_queue *self = zr_cuda_queue_of(queue);
    zero_error cause = {0}, error = {0};
    zero_status status = zr_cuda_fail(self->card, call, result, &cause);
    zr_fail(&error, status, "operation %s: %s", zr_op_kind_name((zr_op_kind)self->last),
            cause.message);
    zr_queue_fail(queue, status, &error);
}

void zr_cuda_queue_refuse(zr_queue *queue, const char *why)
{
    zr_cuda_queue *self = zr_cuda_queue_of(queue);
    zero_error error = {0};
    zr_fail(&error, ZERO_ERR_UNSUPPORTED, "cuda:%d does not compute operation %s%s%s",
            self->card->number, zr_op_kind_name((zr_op_kind)self->last), why ? " " : "",
            why ? why : "");
    zr_queue_fail(queue, ZERO_ERR_UNSUPPORTED, &error);
}

// ---- opening ----

static zero_status make_stream(zr_cuda_queue *self, zero_error *error)
{
    zr_cuda_card *card = self->card;
    ZERO_TRY(zr_cuda_card_enter(card, error));
    ZR_CUDA_TRY(card, error, cuStreamCreate, &self->stream, ZR_CU_STREAM_NON_BLOCKING);
    for (int e = 0; e < ZR_CUDA_EVENTS; e++)
        ZR_CUDA_TRY(card, error, cuEventCreate, &self->events[e], ZR_CU_EVENT_DISABLE_TIMING);
    return ZERO_OK;
}

void zr_cuda_queue_close(zr_queue *queue)
{
    zr_cuda_queue *self = zr_cuda_queue_of(queue);
    zr_cuda_card *card = self->card;
    if (card->stuck) {
        zr_cuda_card_close(card);
        zr_free(self);
        return;
    }
    zr_cuda_card_enter(card, NULL);
    if (self->stream)
        card->cu->cuStreamSynchronize(self->stream);
    for (int e = 0; e < ZR_CUDA_EVENTS; e++)
        if (self->events[e])
            card->cu->cuEventDestroy_v2(self->events[e]);
    if (self->stream)
        card->cu->cuStreamDestroy_v2(self->stream);
    zr_cuda_card_close(card);
    zr_free(self);
}

zero_status zr_cuda_queue_open(zr_queue *queue, int number, zero_error *error)
{
    zr_cuda_queue *self = zr_alloc(sizeof *self, error);
    if (!self)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_cuda_card_open(number, &self->card, error);
    if (status != ZERO_OK)
        goto undo_alloc;
    queue->impl = self;
    queue->device = &self->card->device;
    status = make_stream(self, error);
    if (status != ZERO_OK) {
        zr_cuda_queue_close(queue);
        return status;
    }
    return ZERO_OK;

undo_alloc:
    zr_free(self);
    return status;
}

// ---- submitting ----

// Makes the queue's card the thread's; false: the queue has failed, and nothing is to be submitted.
static bool enter(zr_queue *queue)
{
    zero_error error = {0};
    if (queue->failure->status != ZERO_OK)
        return false;
    zero_status status = zr_cuda_card_enter(zr_cuda_queue_of(queue)->card, &error);
    if (status != ZERO_OK)
        zr_queue_fail(queue, status, &error);
    return status == ZERO_OK;
}

int64_t zr_cuda_blocks(zr_queue *queue, int64_t items, int threads)
{
    int64_t blocks = (items + threads - 1) / threads,
            most = 16 * (int64_t)zr_cuda_queue_of(queue)->card->multiprocessors;
    return ZR_MIN(blocks, most);
}

void zr_cuda_launch(zr_queue *queue, zr_cuda_kernel kernel, const int64_t grid[3], int threads,
                    const void *args)
{
    zr_cuda_queue *self = zr_cuda_queue_of(queue);
    void *arguments[] = {(void *)args};
    if (grid[0] < 1 || grid[1] < 1 || grid[2] < 1 || !enter(queue))
        return;
    zr_cuda_result result = self->card->cu->cuLaunchKernel(
        self->card->functions[kernel], (unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2],
        (unsigned)threads, 1, 1, 0, self->stream, arguments, NULL);
    if (result)
        zr_cuda_queue_fail(queue, "cuLaunchKernel", result);
}

void zr_cuda_fill_bytes(zr_queue *queue, void *to, uint8_t value, int64_t bytes)
{
    zr_cuda_queue *self = zr_cuda_queue_of(queue);
    if (bytes < 1 || !enter(queue))
        return;
    zr_cuda_result result =
        self->card->cu->cuMemsetD8Async((uintptr_t)to, value, (size_t)bytes, self->stream);
    if (result)
        zr_cuda_queue_fail(queue, "cuMemsetD8Async", result);
}

void zr_cuda_copy_bytes(zr_queue *queue, const void *from, void *to, int64_t bytes)
{
    zr_cuda_queue *self = zr_cuda_queue_of(queue);
    if (bytes < 1 || from == to || !enter(queue))
        return;
    zr_cuda_result result =
        self->card->cu->cuMemcpyAsync((uintptr_t)to, (uintptr_t)from, (size_t)bytes, self->stream);
    if (result)
        zr_cuda_queue_fail(queue, "cuMemcpyAsync", result);
}

// ---- marks ----

uint64_t zr_cuda_queue_mark(zr_queue *queue)
{
    zr_cuda_queue *self = zr_cuda_queue_of(queue);
    uint64_t number = self->marks + 1;
    zero_error error = {0};
    zero_status status = zr_cuda_card_enter(self->card, &error);
    if (status != ZERO_OK) {
        zr_queue_fail(queue, status, &error);
        return 0;
    }
    zr_cuda_result result =
        self->card->cu->cuEventRecord(self->events[number % ZR_CUDA_EVENTS], self->stream);
    if (result)
        zr_cuda_queue_fail(queue, "cuEventRecord", result);
    self->marks = number;
    return number;
}

void zr_cuda_queue_after(zr_queue *queue, zr_mark mark)
{
    zr_cuda_queue *self = zr_cuda_queue_of(queue), *other = zr_cuda_queue_of(mark.queue);
    if (mark.number <= other->done || !enter(queue))
        return;
    zr_cuda_result result = self->card->cu->cuStreamWaitEvent(
        self->stream, other->events[mark.number % ZR_CUDA_EVENTS], 0);
    if (result)
        zr_cuda_queue_fail(queue, "cuStreamWaitEvent", result);
}

static zero_status fail_late(zr_cuda_queue *self, double seconds, zero_error *error)
{
    self->card->stuck = true;
    return zr_fail(error, ZERO_ERR_TIMEOUT,
                   "cuda:%d has not ended what it was given within %g s; the last operation was %s",
                   self->card->number, seconds, zr_op_kind_name((zr_op_kind)self->last));
}

// What has ended by then is told at once; else this asks more and more seldom.
zero_status zr_cuda_queue_finish(zr_mark mark, double seconds, zero_error *error)
{
    enum { FIRST_PAUSE = 2000, LAST_PAUSE = 200000 }; // nanoseconds
    zr_cuda_queue *self = zr_cuda_queue_of(mark.queue);
    zr_cuda_event event = self->events[mark.number % ZR_CUDA_EVENTS];
    const double began = zr_clock_seconds();
    struct timespec pause = {.tv_nsec = FIRST_PAUSE};
    zr_cuda_result result = ZR_CUDA_ERROR_NOT_READY;
    if (mark.number <= self->done)
        return ZERO_OK;
    ZERO_TRY(zr_cuda_card_enter(self->card, error));
    while ((result = self->card->cu->cuEventQuery(event)) == ZR_CUDA_ERROR_NOT_READY) {
        if (seconds > 0 && zr_clock_seconds() - began > seconds)
            return fail_late(self, seconds, error);
        nanosleep(&pause, NULL);
        pause.tv_nsec = ZR_MIN(pause.tv_nsec + pause.tv_nsec / 4, LAST_PAUSE);
    }
    if (result)
        zr_cuda_queue_fail(mark.queue, "cuEventQuery", result);
    else
        self->done = ZR_MAX(self->done, mark.number);
    return ZERO_OK;
}
