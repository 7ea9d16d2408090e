// What the files of the recording backend share (recording.c says what it does): how a call goes to
// the wrapped backend, and is recorded.
#ifndef ZR_COMPUTE_RECORDING_H
#define ZR_COMPUTE_RECORDING_H

#include "base/recorder.h"
#include "compute/compute.h"
#include "compute/element_ops.h"

struct zr_recording {
    zr_backend outer; // queue->backend points to this
    const zr_backend *inner;
    zr_recorder *recorder;
};

static inline const zr_recording *of(const zr_queue *queue)
{
    return (const zr_recording *)queue->backend;
}

static inline int64_t size_of(zero_dtype dtype) { return (int64_t)zero_dtype_bytes(dtype); }

// During a call the queue holds the wrapped backend, since some of its functions use others of its
// tables.
typedef struct entry {
    zr_queue *queue;
    const zr_recording *self;
    int64_t begin;
} entry;

static inline entry enter(zr_queue *queue)
{
    const zr_recording *self = of(queue);
    queue->backend = self->inner;
    return (entry){queue, self, zr_recorder_begin(self->recorder)};
}

static inline void leave(const entry *entry, zr_activity what, int64_t bytes, int64_t flops)
{
    zr_recorder_add(entry->self->recorder, what, entry->begin, bytes, flops, -1);
    entry->queue->backend = &entry->self->outer;
}

extern const zr_element_ops zr_recording_element_ops; // recording_elements.c

#endif
