// The I/O engine: asynchronous reads and writes in bulk between aligned buffers and scratch files
// (ZeRO-Infinity section 6.3).
//
//   rank's thread   zr_io_start ──> queue of requests            zr_io_wait
//                                     │ cut into transfers, one an extent   ^
//   lanes (threads)                   └──> io_uring, or pread/pwrite ───────┘
//                                          every completion checked, checksums compared
//
// A lane has queue_depth transfers under way in its own io_uring, with registered files and
// buffers. Where io_uring is refused, queue_depth threads stand for a lane, each with one pread or
// pwrite under way. Which of the two runs is decided when the engine is created (zr_io_description
// says which). Nothing is allocated after that.
//
// A short transfer is continued where it stopped; EINTR, EAGAIN and a full queue are tried again.
// Any other failure ends its request, and the request's message names file, offset and bytes.
// Requests begin in the order in which they were started.
// Each extent that is written gets a CRC32C, and each extent that is read is compared with it. An
// extent that was never written is zeros, and is read without a transfer.
#ifndef ZR_MEMORY_IO_H
#define ZR_MEMORY_IO_H

#include "memory/scratch.h"

typedef struct zr_io zr_io;

// A vector's place in a scratch, cut into the extents in which it moves: bytes [bounds[i],
// bounds[i+1]) of the vector, which lie at place + bounds[i]. An extent is at most a block, crosses
// no stripe, and is read and written as a whole.
typedef struct zr_io_extents {
    const zr_scratch *scratch;
    int64_t place; // of the vector's byte 0, in the scratch
    int count;
    int64_t *bounds;     // (count+1), multiples of ZR_IO_ALIGN
    uint32_t *checksums; // (count) of what was last written
    uint8_t *written;    // (count) 1 once the extent was written
} zr_io_extents;

// Cuts a vector of `bytes` at `place` of the scratch: at every cuts[i] (sorted bytes of the vector,
// multiples of ZR_IO_ALIGN), and wherever an absolute multiple of `block` lies. block: the stripe,
// or a divisor of it. ZERO_ERR_MEMORY.
zero_status zr_io_extents_create(const zr_scratch *scratch, int64_t place, int64_t bytes,
                                 const int64_t *cuts, int cut_count, int64_t block,
                                 zr_io_extents *out, zero_error *error);
void zr_io_extents_destroy(zr_io_extents *extents); // zeroed ones are fine
// Finds the extents that make up bytes [first, first+bytes) of the vector. ZERO_ERR_INTERNAL: one
// of the ends is no bound.
zero_status zr_io_extents_find(const zr_io_extents *extents, int64_t first, int64_t bytes,
                               int *begin, int *count, zero_error *error);

typedef struct zr_io_request { // stays where it is until zr_io_wait
    bool write;
    zr_io_extents *extents;
    int begin, count; // extents [begin, begin+count)
    // Address for the first extent's first byte, aligned to ZR_IO_ALIGN; the caller does not touch
    // the buffer until the wait.
    char *buffer;
    // The engine's own fields:
    int64_t began, ended; // nanoseconds of base/clock.h
    bool started;         // it has been started and not yet waited for
    int next, unfinished; // extents: the next to begin; number not yet done
    zero_status status;
    char message[192];           // of the first failure
    struct zr_io_request *later; // in the queue
} zr_io_request;

typedef struct zr_io_buffer {
    void *base;
    size_t bytes;
} zr_io_buffer;

typedef struct zr_io_options {
    int64_t block;      // most bytes of a transfer
    int queue_depth;    // transfers under way in a lane at one time
    int lanes;          // aio.intra_op_parallelism
    bool single_submit; // one transfer a system call; else as many as are ready
    // A transfer begins as soon as one ends; else, when all that are under way have ended.
    bool overlap_events;
    bool threads_only; // pread and pwrite even where io_uring works
    double timeout;    // seconds that a wait may last without any transfer ending; 0: no limit
    // (scratch_count) the scratches of all requests; they outlive the engine.
    const zr_scratch *const *scratches;
    int scratch_count;
    // (buffer_count) in which the buffers of all requests lie. A buffer that cannot be registered
    // still works.
    const zr_io_buffer *buffers;
    int buffer_count;
    const zr_io_faults *faults; // NULL, or they outlive the engine
} zr_io_options;

// Creates one rank's engine. ZERO_ERR_MEMORY; ZERO_ERR_USAGE: an option is out of range. Except for
// zr_io_start and zr_io_wait, its functions are called only from that rank's thread.
zero_status zr_io_create(const zr_io_options *options, zr_io **out, zero_error *error);
void zr_io_destroy(zr_io *io); // ends what is under way first; NULL is allowed
// Returns, for example, "io_uring, O_DIRECT, registered buffers" or "8 threads with pread and
// pwrite (io_uring: Operation not permitted), page cache".
const char *zr_io_description(const zr_io *io);

// Starts a request and returns at once. Several threads may call this and zr_io_wait, but one
// request belongs to one thread. Two requests under way may have an extent in common only if both
// read. ZERO_ERR_INTERNAL: the request is under way, or its buffer is not aligned.
zero_status zr_io_start(zr_io *io, zr_io_request *request, zero_error *error);
// Waits until the request has ended; returns at once if it was not started. ZERO_ERR_IO names file,
// offset and bytes. After ZERO_ERR_TIMEOUT the request is still under way.
zero_status zr_io_wait(zr_io *io, zr_io_request *request, zero_error *error);

// Bytes of the extents that were transferred.
typedef struct zr_io_counts {
    int64_t read, written;
} zr_io_counts;
zr_io_counts zr_io_counted(const zr_io *io);

#endif
