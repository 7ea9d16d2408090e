// Arithmetic on buffers, in five tables behind a queue (contracts 3, 12): product_ops.h, row_ops.h,
// attention_ops.h, element_ops.h and optimizer_ops.h. Who calls a table's functions includes it.
// ref/ is plain C and the oracle; cpu/ is oneDNN and SIMD.
//
// A queue belongs to one rank's thread and orders what is submitted to it; on the CPU every call
// has finished when it returns. All sizes in elements, all matrices dense and row-major, all
// pointers 64-byte aligned unless a comment says otherwise. Results depend on the arguments, the
// number of threads and the instruction set alone, never on addresses.
// Storage types: ZERO_F32, ZERO_BF16, ZERO_F16. Whatever is stored in, arithmetic and sums are fp32
// (ref: double), and a result is rounded once, to nearest even, where it is stored; fp16 overflows
// to infinity.
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
    // instruction-set path chosen: "portable", "avx2", "avx512", "avx512_bf16", "amx"
    const char *(*path)(void);
    // multiplies and adds in registers alone, on the calling thread; returns its flops. For the
    // peak that products are measured against; NULL: not measured
    int64_t (*multiply_add)(int64_t rounds);
    zero_status (*open)(zr_queue *queue, zero_error *error);
    void (*close)(zr_queue *queue);
};

struct zr_queue {
    const zr_backend *backend;
    int threads;
    void *scratch; // of products; reserved by the caller that planned it, 64-byte aligned
    size_t scratch_bytes;
    void *impl; // backend's caches
};

// name: "ref", "cpu" for the best path that CPUID offers, or "cpu:PATH" for one of them. isa: a
// path as well, instead of one in the name;
// or NULL. Queues of different paths live in one process: a path is the queue's, oneDNN's
// instructions too. Not collective.
zero_status zr_queue_open(const char *name, const char *isa, int threads, zr_queue **out,
                          zero_error *error);
// The backend that it gets; static. Of a name or a path that is not offered: ZERO_ERR_USAGE, or
// ZERO_ERR_UNSUPPORTED for isa, naming those that are.
zero_status zr_backend_find(const char *name, const char *isa, const zr_backend **out,
                            zero_error *error);
void zr_queue_close(zr_queue *queue);
// The same queue with another scratch of products: on its thread, until it is closed or recorded.
zr_queue zr_queue_with_scratch(const zr_queue *queue, void *scratch, size_t bytes);
// Records every call of the queue's backend from here on, until zr_queue_record_end (recording.c).
// The recorder outlives that.
typedef struct zr_recording zr_recording;
typedef struct zr_recorder zr_recorder;
zero_status zr_queue_record(zr_queue *queue, zr_recorder *recorder, zr_recording **out,
                            zero_error *error);
void zr_queue_record_end(zr_queue *queue, zr_recording *recording); // NULL is allowed
// All that this build has, for tests and doctor: NULL-terminated.
const zr_backend *const *zr_backends(void);
// Their names as zr_queue_open takes them, those that this processor offers, in words.
void zr_backends_offered(char *out, size_t size);
// Whether this processor has the instructions of a backend: no function of one that it lacks may be
// called.
bool zr_backend_offered(const zr_backend *backend);

// Whether dropout keeps element `index`: a pure function, probability 1-p, the same on every
// backend.
// word = philox(key, 0, index/4).v[index%4]; kept where word >= p * 2^32.
bool zr_dropout_keep(uint64_t key, uint64_t index, float p);

#endif
