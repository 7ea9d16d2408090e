// What took time in a step: a buffer of records of fixed size. One rank's thread fills it as it
// computes, communicates and waits; the thread of a delayed update and transfers add overlapped
// records only. The rank's thread reads it for `zero bench step`, --profile and the breakdowns of
// the configuration.
//
// A run that records nothing pays nothing: its queue then holds the backend itself instead of the
// one that records around it (compute/wrappers.c), and its communicator and engine hold a NULL
// pointer. A full buffer counts the records that it drops.
#ifndef ZR_BASE_RECORDER_H
#define ZR_BASE_RECORDER_H

#include "base/errors.h"

#include <stdatomic.h>

typedef enum zr_track {
    ZR_TRACK_PHASE,
    ZR_TRACK_COMPUTE,
    ZR_TRACK_COMM,
    ZR_TRACK_DISK,
    ZR_TRACK_OVERLAPPED,
    ZR_TRACK_COUNT
} zr_track;

// name, what people read, track
#define ZR_ACTIVITIES(X)                                                                           \
    X(forward, "forward", PHASE)                                                                   \
    X(backward, "backward", PHASE)                                                                 \
    X(weight, "backward of weights", PHASE)                                                        \
    X(step, "step", PHASE)                                                                         \
    X(product, "matrix products", COMPUTE)                                                         \
    X(attention, "attention", COMPUTE)                                                             \
    X(norm, "norms", COMPUTE)                                                                      \
    X(loss, "softmax and loss", COMPUTE)                                                           \
    X(gelu, "gelu", COMPUTE)                                                                       \
    X(element, "add, dropout, convert, copy", COMPUTE)                                             \
    X(column_sum, "bias gradients", COMPUTE)                                                       \
    X(embedding, "embedding", COMPUTE)                                                             \
    X(square_sum, "gradient norm", COMPUTE)                                                        \
    X(optimizer, "optimizer", COMPUTE)                                                             \
    X(delayed_wait, "waiting for the delayed update", COMPUTE)                                     \
    X(checkpoint_wait, "waiting for the checkpoint", COMPUTE)                                      \
    X(reduce_scatter, "reduce-scatter", COMM)                                                      \
    X(all_gather, "all-gather", COMM)                                                              \
    X(all_reduce, "all-reduce of scalars", COMM)                                                   \
    X(broadcast, "broadcast", COMM)                                                                \
    X(exchange, "exchanges of tensor ranks", COMM)                                                 \
    X(send, "messages to pipeline stages", COMM)                                                   \
    X(wait, "waiting for other ranks", COMM)                                                       \
    X(disk_wait, "waiting for NVMe", DISK)                                                         \
    X(disk_read, "reading from NVMe", DISK)                                                        \
    X(disk_write, "writing to NVMe", DISK)                                                         \
    X(delayed_update, "update overlapped with the next step", OVERLAPPED)

typedef enum zr_activity {
#define ZR_ACTIVITY_ENUM(name, text, track) ZR_ACTIVITY_##name,
    ZR_ACTIVITIES(ZR_ACTIVITY_ENUM)
#undef ZR_ACTIVITY_ENUM
        ZR_ACTIVITY_COUNT
} zr_activity;

// Returns whether other threads do it, so that its records may overlap all others.
bool zr_activity_is_overlapped(zr_activity what);
const char *zr_activity_name(zr_activity what); // "product", for traces
const char *zr_activity_text(zr_activity what); // "matrix products", for people
zr_track zr_activity_track(zr_activity what);

typedef struct zr_record {
    int64_t begin, end; // nanoseconds of zr_clock_nanoseconds
    // Bytes read and written, counted as the operands are stored; for comm, those fetched from
    // other ranks.
    int64_t bytes;
    int64_t flops; // of products and attention
    int32_t unit;  // whose forward or backward was under way; -1 if none was
    // For comm, the window's slot; for a phase of a pipeline, its action (zr_record_action); else
    // -1.
    int32_t slot;
    zr_activity what;
} zr_record;

// What a pipeline does in a phase: which micro-batch, and which chunk of the stage.
enum { ZR_RECORD_CHUNKS = 8 };
static inline int32_t zr_record_action(int64_t micro_batch, int chunk)
{
    return (int32_t)(micro_batch * ZR_RECORD_CHUNKS + chunk);
}

typedef struct zr_recorder {
    int64_t capacity, dropped;
    _Atomic int64_t count; // records below it are complete
    atomic_flag appending;
    int32_t unit;        // to which the next records belong
    zr_record records[]; // (capacity)
} zr_recorder;

// Allocates a buffer of `capacity` records and touches it, so that recording neither allocates nor
// faults. Free it with zr_recorder_destroy.
zero_status zr_recorder_create(int64_t capacity, zr_recorder **out, zero_error *error);
void zr_recorder_destroy(zr_recorder *recorder); // NULL is allowed
void zr_recorder_clear(zr_recorder *recorder);
// Appends what began at `begin` and ends now. Does nothing if `recorder` is NULL.
void zr_recorder_add(zr_recorder *recorder, zr_activity what, int64_t begin, int64_t bytes,
                     int64_t flops, int32_t slot);
// The same for work of other threads, from begin to end, such as transfers; it belongs to no unit.
void zr_recorder_add_overlapped(zr_recorder *recorder, zr_activity what, int64_t begin, int64_t end,
                                int64_t bytes);
int64_t zr_recorder_begin(const zr_recorder *recorder); // now; 0 if recorder is NULL

// Returns whether record i, which stands before `around`, began inside of it. An overlapped
// record counts as inside, so that a walk back over the records passes it.
bool zr_recorder_is_within(const zr_recorder *recorder, int64_t i, const zr_record *around);
// Returns the nanoseconds of record i; those of a collective exclude the waits inside of it.
// Records before `first` are not looked at.
int64_t zr_recorder_own_time(const zr_recorder *recorder, int64_t first, int64_t i);

typedef struct zr_activity_sum {
    int64_t calls, nanoseconds, bytes, flops;
} zr_activity_sum;
// Sums the records [first, count) by activity, with their own times.
void zr_recorder_sum(const zr_recorder *recorder, int64_t first,
                     zr_activity_sum sums[ZR_ACTIVITY_COUNT]);

#endif
