// Arithmetic on buffers, in five tables reached through a queue (contracts 3, 12): product_ops.h,
// row_ops.h, attention_ops.h, element_ops.h and optimizer_ops.h. Include the table whose functions
// you call. ref/ is plain C and the oracle; cpu/ is oneDNN and SIMD.
//
// A queue belongs to one rank's thread and orders what is submitted to it; on the CPU every call
// has finished when it returns. Unless a comment says otherwise, sizes are in elements, matrices
// are dense and row-major, and pointers are 64-byte aligned. Results depend only on the arguments,
// the number of threads and the instruction set, never on addresses.
// Storage types: ZERO_F32, ZERO_BF16, ZERO_F16. Whatever the storage type, arithmetic and sums are
// fp32 (ref: double), and a result is rounded once, to nearest even, when it is stored; fp16
// overflows to infinity.
#ifndef ZR_COMPUTE_COMPUTE_H
#define ZR_COMPUTE_COMPUTE_H

#include "base/errors.h"

typedef struct zr_queue zr_queue;
typedef struct zr_backend zr_backend;

struct zr_backend {
    const char *name; // "ref", "cpu"
    const struct zr_product_ops *product;
    const struct zr_row_ops *rows;
    const struct zr_attention_ops *attention;
    const struct zr_element_ops *elements;
    const struct zr_optimizer_ops *optimizer;
    // The instruction-set path: "portable", "avx2", "avx512", "avx512_bf16", "amx".
    const char *(*path)(void);
    // Multiplies and adds in registers only, on the calling thread, and returns its flops: this is
    // the peak that products are compared with. NULL: it is not measured.
    int64_t (*multiply_add)(int64_t rounds);
    zero_status (*open)(zr_queue *queue, zero_error *error);
    void (*close)(zr_queue *queue);
};

struct zr_queue {
    const zr_backend *backend;
    int threads;
    // For products; 64-byte aligned; reserved by the caller, who has planned it.
    void *scratch;
    size_t scratch_bytes;
    void *impl; // the backend's caches
};

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
// Records every call of the queue's backend from now until zr_queue_record_end (recording.c). The
// recorder must outlive that.
typedef struct zr_recording zr_recording;
typedef struct zr_recorder zr_recorder;
zero_status zr_queue_record(zr_queue *queue, zr_recorder *recorder, zr_recording **out,
                            zero_error *error);
void zr_queue_record_end(zr_queue *queue, zr_recording *recording); // NULL is allowed
// Returns all backends of this build, for tests and doctor; NULL-terminated.
const zr_backend *const *zr_backends(void);
// Writes the names of the backends that this processor offers, as zr_queue_open takes them.
void zr_backends_offered(char *out, size_t size);
// Returns whether this processor has the instructions of a backend. If not, its functions must not
// be called.
bool zr_backend_offered(const zr_backend *backend);

// Returns whether dropout keeps element `index`: a pure function, with probability 1-p, the same on
// every backend.
// word = philox(key, 0, index/4).v[index%4]; the element is kept where word >= p * 2^32.
bool zr_dropout_keep(uint64_t key, uint64_t index, float p);

// A backend that computes nothing: its functions touch no operand, and those that return the bytes
// of scratch call the backend that it replaces. With a recording around it (zr_queue_record) it
// lists the operations of a unit, in address space that no memory backs.
typedef struct zr_counting zr_counting;
// Puts it in place of the queue's backend until zr_queue_count_end. A recording that begins later
// ends first. ZERO_ERR_MEMORY.
zero_status zr_queue_count(zr_queue *queue, zr_counting **out, zero_error *error);
void zr_queue_count_end(zr_queue *queue, zr_counting *counting); // NULL is allowed

#endif
