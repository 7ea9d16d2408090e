// What the engine (io.c), the life of a transfer (io_transfer.c) and the two kinds of lanes
// (io_uring.c, io_threads.c) share.
//
//   zr_io_take ──> zr_io_next_bytes ──> system call ──> zr_io_moved ── true ──> zr_io_end
//                      ^                              │
//                      └── once more, or the rest ────┘ false
//
//   zr_io_sum of a write: at any time before the end; of a read: between moved and end
//
// The lock protects everything in zr_io and in requests, unless a comment says otherwise. From take
// to end, a transfer belongs to its lane alone.
#ifndef ZR_MEMORY_IO_INTERNAL_H
#define ZR_MEMORY_IO_INTERNAL_H

#include "memory/io.h"

#include <pthread.h>
#include <stdatomic.h>

#define ZR_IO_FOUND_BYTES 96

typedef struct zr_io_transfer { // of one extent
    zr_io_request *request;     // NULL: the transfer is free
    int extent;
    bool write, zeros;     // zeros: it was never written, so nothing moves
    bool moved, summed;    // it has ended on the disk, or failed; its checksum is known
    const char *name;      // of the file
    int file, fd;          // file: in zr_io.files
    int64_t place, offset; // in the scratch, in the file
    char *data;
    int64_t bytes, done; // done: a multiple of ZR_IO_ALIGN, or all
    int64_t limit;       // most bytes that the next system call may move
    uint32_t checksum;   // of what was last written, or is being written
    // Number of results in a row that moved nothing, and of those among them that moved less than
    // ZR_IO_ALIGN.
    int vain, stubs;
    double begun, vain_since; // zr_clock_seconds
    zero_status status;
    char found[ZR_IO_FOUND_BYTES]; // where it failed, as text
    struct zr_io_transfer *next;   // in its list
} zr_io_transfer;

typedef struct zr_io_list {
    zr_io_transfer *first, *last;
} zr_io_list;

typedef struct zr_io_ops {
    const char *name;
    // Starts the threads and describes them in io->kind and io->extras. If the kernel refuses,
    // *refused becomes an errno.
    zero_status (*create)(zr_io *io, int *refused, zero_error *error);
    // Called when there is something to take, or when io->ending is set.
    void (*wake)(zr_io *io);
    // Called after io->ending is set, without the lock; returns when all threads have ended.
    void (*destroy)(zr_io *io);
} zr_io_ops;

extern const zr_io_ops zr_io_threads; // never refused
extern const zr_io_ops zr_io_uring;

struct zr_io {
    // This field and the four after it are constant. Its scratches and buffers are the engine's own
    // copies.
    zr_io_options options;
    int *files, file_count; // descriptors of all scratches
    const zr_io_ops *ops;
    void *lanes; // belongs to ops
    char kind[80], extras[120], description[240];
    pthread_mutex_t lock;
    pthread_cond_t work, ended;  // work: something to take, or the end; ended: a request has ended
    zr_io_request *first, *last; // those with extents that have not begun
    zr_io_transfer *transfers;   // (transfer_count) all of them
    int transfer_count;
    zr_io_list free;
    double ended_at; // when a transfer last ended
    zr_io_counts counts;
    atomic_bool ending; // written under the lock
};

// Returns how many transfers a lane may have taken and not ended.
int zr_io_transfers_of_a_lane(const zr_io_options *options);
// Returns an errno. The thread gets no signals.
int zr_io_start_thread(pthread_t *thread, void *(*serve)(void *), void *argument);

void zr_io_push(zr_io_list *list, zr_io_transfer *transfer);
zr_io_transfer *zr_io_pop(zr_io_list *list); // NULL: empty
void zr_io_remove(zr_io_list *list, zr_io_transfer *transfer);

// Returns the transfer that is to begin next, or NULL. Called with the lock, which is released
// while extents that are zeros are cleared.
zr_io_transfer *zr_io_take(zr_io *io);
// Returns the bytes of the next system call, from data + done to offset + done; or the -errno that
// replaces its result.
int64_t zr_io_next_bytes(zr_io *io, zr_io_transfer *transfer);
// Records a result. Returns whether the transfer is done or has failed; else the rest is to be
// moved.
bool zr_io_moved(zr_io *io, zr_io_transfer *transfer, int64_t result);
void zr_io_sum(zr_io *io, zr_io_transfer *transfer); // of a read: compares it, too
void zr_io_end(zr_io *io, zr_io_transfer *transfer); // called with the lock
// Gives up the extents of the request that have not begun; called with the lock.
void zr_io_abandon(zr_io *io, zr_io_request *request);

#endif
