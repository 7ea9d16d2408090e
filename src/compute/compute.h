// Arithmetic on buffers: operations (op.h) that a queue runs (contracts 3, 12). ref/ is plain C and
// the oracle; cpu/ is oneDNN and SIMD.
//
// A queue is used by one thread at a time and orders what is submitted to it; on the CPU every call
// has finished when it returns, and on a far device (memory/device.h) later: then marks say how far
// a queue is. Unless a comment says otherwise, sizes are in elements, matrices
// are dense and row-major, and pointers are 64-byte aligned. Results depend only on the arguments,
// the number of threads and the instruction set, never on addresses.
// Storage types: ZERO_F32, ZERO_BF16, ZERO_F16. Whatever the storage type, arithmetic and sums are
// fp32 (ref: double), and a result is rounded once, to nearest even, when it is stored; fp16
// overflows to infinity.
#ifndef ZR_COMPUTE_COMPUTE_H
#define ZR_COMPUTE_COMPUTE_H

#include "compute/op.h"
#include "memory/device.h"

typedef struct zr_queue zr_queue;
typedef struct zr_backend zr_backend;

// All that a queue was given up to a moment; zeroed: nothing. Of a queue whose calls have finished
// when they return, number is 0.
typedef struct zr_mark {
    zr_queue *queue;
    uint64_t number;
} zr_mark;

struct zr_backend {
    const char *name; // "ref", "cpu"
    void (*run)(zr_queue *queue, const zr_op *op);
    // Returns the bytes of scratch that the operation needs: of the queue's for a product,
    // otherwise of its own operand. Its operands are not looked at, and the queue need not be open,
    // except for a product.
    size_t (*scratch)(zr_queue *queue, const zr_op *op);
    // The instruction-set path: "portable", "avx2", "avx512", "avx512_bf16", "amx".
    const char *(*path)(void);
    // Multiplies and adds in registers only, on the calling thread, and returns its flops: this is
    // the peak that products are compared with. NULL: it is not measured.
    int64_t (*multiply_add)(int64_t rounds);
    zero_status (*open)(zr_queue *queue, zero_error *error);
    void (*close)(zr_queue *queue);
    // Of a far device. logit_bytes: about how many bytes of a classifier's logits are computed at
    // once. logit_step: their rows begin at multiples of this, in elements; 0: they are dense.
    // runtime_bytes: of its memory that a rank's queues and libraries take by themselves.
    int64_t logit_bytes, logit_step, runtime_bytes;
    // Of a far device; NULL where every call has finished when it returns. host: the backend that
    // computes on the host beside it. `after` is given marks of queues of the same device.
    const char *host;
    uint64_t (*mark)(zr_queue *queue);
    void (*after)(zr_queue *queue, zr_mark mark);
    zero_status (*finish)(zr_mark mark, double seconds, zero_error *error);
};

// backend: NULL stands for one of the host.
static inline bool zr_backend_is_far(const zr_backend *backend) { return backend && backend->host; }

typedef struct zr_queue_failure { // the first since it was last checked
    zero_status status;
    zero_error error;
} zr_queue_failure;

struct zr_queue {
    const zr_backend *backend;
    zr_device *device; // whose memory its operations read and write
    int threads;
    // For products; 64-byte aligned; reserved by the caller, who has planned it.
    void *scratch;
    size_t scratch_bytes;
    void *impl; // the backend's caches
    zr_queue_failure *failure;
};

// Runs an operation. If it fails, the queue remembers that, and what is run next may do nothing,
// until zr_queue_check: whoever runs operations checks before the results are used.
static inline void zr_run(zr_queue *queue, zr_op op) { queue->backend->run(queue, &op); }
static inline size_t zr_op_scratch(zr_queue *queue, zr_op op)
{
    return queue->backend->scratch(queue, &op);
}
// Returns the most bytes of scratch that a product of operands of this type can need, whatever its
// epilogue. A unit states only the shapes of its products.
size_t zr_product_scratch(zr_queue *queue, zero_dtype dtype, const zero_product_shape *shape);
// Returns the first failure since the last check, with its message.
zero_status zr_queue_check(zr_queue *queue, zero_error *error);
// For backends: remembers a failure, unless there is one already.
void zr_queue_fail(zr_queue *queue, zero_status status, const zero_error *error);

// Marks all that the queue was given so far.
static inline zr_mark zr_queue_mark(zr_queue *queue)
{
    return (zr_mark){queue, queue->backend->mark ? queue->backend->mark(queue) : 0};
}
// What the queue is given from now on begins when the mark's queue has done what it was given then.
static inline void zr_queue_after(zr_queue *queue, zr_mark mark)
{
    if (mark.number && mark.queue != queue)
        queue->backend->after(queue, mark);
}
// Waits until a mark's queue has done what it was given then, at most `seconds`; nothing else of
// the host waits for a queue. Returns what zr_queue_check does: submitting cannot fail, so the
// first failure comes here. ZERO_ERR_TIMEOUT names the operation that has not ended.
zero_status zr_mark_finish(zr_mark mark, double seconds, zero_error *error);

// Opens a queue. Not collective. `name` is "ref", "cpu" for the best path that the processor
// offers, or "cpu:PATH" for a certain one. `isa`, if not NULL, names the path instead. Queues of
// different paths may live in one process, because the path (that of oneDNN's products, too)
// belongs to the queue.
zero_status zr_queue_open(const char *name, const char *isa, int threads, zr_queue **out,
                          zero_error *error);
// Finds the (static) backend that such a queue gets. ZERO_ERR_USAGE for a name or path that is not
// offered, ZERO_ERR_UNSUPPORTED for such an isa; the message names those that are.
zero_status zr_backend_find(const char *name, const char *isa, const zr_backend **out,
                            zero_error *error);
void zr_queue_close(zr_queue *queue);
// Returns the same queue with another scratch for products. Use it on the queue's thread, until the
// queue is closed or recorded.
zr_queue zr_queue_with_scratch(const zr_queue *queue, void *scratch, size_t bytes);
// A backend around the queue's: it is given every operation that the queue runs, and decides what
// is run in its place (queue->backend->run(queue, op) runs the operation itself). Sizes of scratch
// remain those of the backend inside.
typedef void (*zr_around)(void *user, zr_queue *queue, const zr_op *op);
typedef struct zr_wrapper zr_wrapper;
// Puts it in place of the queue's backend, until zr_queue_unwrap; what was wrapped later ends
// first. ZERO_ERR_MEMORY: nothing has changed, and *out is NULL.
zero_status zr_queue_wrap(zr_queue *queue, zr_around around, void *user, zr_wrapper **out,
                          zero_error *error);
void zr_queue_unwrap(zr_queue *queue, zr_wrapper *wrapper); // NULL is allowed
// Returns the same queue without what is wrapped around its backend now.
zr_queue zr_queue_inside(const zr_queue *queue);
// Records every operation: how long it took, and what it moved; one of a far device is waited for.
// The recorder must outlive that.
zero_status zr_queue_record(zr_queue *queue, zr_recorder *recorder, zr_wrapper **out,
                            zero_error *error);
// Computes nothing: no operand is touched. With a recording around it, it lists the operations of a
// unit, in address space that no memory backs.
zero_status zr_queue_count(zr_queue *queue, zr_wrapper **out, zero_error *error);

enum { ZR_MOST_RESERVED = 48 };
typedef struct zr_bounds { // memory that operands may lie in
    const char *unit;      // for whom it is reserved, for messages; NULL: nothing is checked
    int count;
    struct {
        const char *name; // "workspace"
        const void *at;
        size_t bytes;
    } reserved[ZR_MOST_RESERVED];
} zr_bounds;
// Checks every operation before it runs: an operand, unless it is lent or an array of the host's,
// that does not lie in one piece of reserved memory, with its whole extent, fails with
// ZERO_ERR_INTERNAL and is not touched. The message names operation, operand and unit. The caller
// may change the bounds in between.
zero_status zr_queue_bound(zr_queue *queue, const zr_bounds *bounds, zr_wrapper **out,
                           zero_error *error);
// Returns a cpu backend that every processor runs. Its copies and sums over ranks are those of all
// paths: whoever runs nothing else needs no queue that was opened.
const zr_backend *zr_backend_portable(void);
// Returns all backends of the host in this build, for tests and doctor; NULL-terminated.
const zr_backend *const *zr_backends(void);
// Offers the backends of devices, too, by their names and paths; NULL-terminated, and never freed.
// Any thread; the last call counts.
void zr_backends_offer(const zr_backend *const *devices);
// Writes the names of the backends that this processor offers, as zr_queue_open takes them.
void zr_backends_offered(char *out, size_t size);
// Returns whether this processor has the instructions of a backend. If not, its functions must not
// be called.
bool zr_backend_offered(const zr_backend *backend);

// Returns whether dropout keeps element `index`: a pure function, with probability 1-p, the same on
// every backend.
// word = philox(key, 0, index/4).v[index%4]; the element is kept where word >= p * 2^32.
bool zr_dropout_keep(uint64_t key, uint64_t index, float p);

#endif
