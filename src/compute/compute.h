// Arithmetic on buffers, in five tables behind a queue (contracts 3, 12; attention's in attention_ops.h, the fifth in optimizer_ops.h). ref/ is plain C and the oracle; cpu/ is oneDNN and SIMD.
//
// A queue belongs to one rank's thread and orders what is submitted to it; on the CPU every call has finished when it
// returns. All sizes in elements, all matrices dense and row-major, all pointers 64-byte aligned unless a comment says
// otherwise. Results depend on the arguments, the number of threads and the instruction set alone, never on addresses.
// Storage types: ZERO_F32, ZERO_BF16, ZERO_F16. Whatever is stored in, arithmetic and sums are fp32 (ref: double), and a result is
// rounded once, to nearest even, where it is stored; fp16 overflows to infinity.
#ifndef ZR_COMPUTE_COMPUTE_H
#define ZR_COMPUTE_COMPUTE_H

#include "compute/attention_ops.h"
#include "compute/optimizer_ops.h"

typedef struct zr_backend zr_backend;

typedef enum zr_epilogue {
    ZR_EPILOGUE_NONE,
    ZR_EPILOGUE_BIAS,          // + bias(n)
    ZR_EPILOGUE_GELU_BACKWARD, // * gelu'(pre)(m,n)
} zr_epilogue;

typedef struct zr_product { // D(m,n) = op(A)(m,k) op(B)(k,n), epilogue [+ D]; op: transposed as stored when trans_x
    zero_dtype dtype;      // of A, B, and bias or pre
    zero_dtype out;        // of D: dtype, or ZERO_F32
    int64_t m, n, k;
    bool trans_a, trans_b; // trans_a: A lies as (k,m); trans_b: B lies as (n,k)
    bool gelu_a;           // gelu(A) in A's place, rounded to dtype: what gelu_forward would have stored is never stored
    bool add;              // D += ..., where out is ZERO_F32 and the epilogue none
    zr_epilogue epilogue;
} zr_product;

typedef struct zr_product_ops {
    // Scratch bytes that run needs for this product, taken from queue->scratch; enough for one of fewer rows m as well.
    size_t (*scratch)(zr_queue *queue, const zr_product *product);
    // operand: the epilogue's bias or pre, NULL where it needs none. Creates what it caches at the first call for a shape.
    zero_status (*run)(zr_queue *queue, const zr_product *product, const void *a, const void *b, const void *operand, void *d, zero_error *error);
} zr_product_ops;

typedef struct zr_norm { // LayerNorm or RMSNorm over the last dimension; statistics in fp32
    zero_dtype dtype;  // of y, dy, gamma, beta, and of what residual_norm_forward adds
    zero_dtype stream; // of x, sum, dx: the residual stream
    int64_t rows, width;
    float epsilon;
} zr_norm;

typedef struct zr_loss { // softmax cross-entropy of rows of logits
    zero_dtype dtype; // of the logits and of the gradient that replaces them
    int64_t rows, vocab;
    float factor; // gradient = (softmax - onehot) * factor
} zr_loss;

typedef struct zr_row_ops {
    // y = (x - mean) * rstd * gamma + beta; mean, rstd (rows) may be NULL (evaluation).
    void (*norm_forward)(zr_queue *queue, const zr_norm *norm, const void *x, const void *gamma, const void *beta, void *y, float *mean, float *rstd);
    // sum = x + branch, and the norm of sum as it was rounded into y, in one pass; sum may be x, or branch where stream == dtype.
    void (*residual_norm_forward)(zr_queue *queue, const zr_norm *norm, const void *x, const void *branch, void *sum, const void *gamma, const void *beta, void *y, float *mean, float *rstd);
    // dx = [past +] gradient; past: what arrives around the norm, of the stream's type, dx itself
    // or NULL. dgamma, dbeta (width): set, or added to where add_parameters; each may be NULL,
    // where nobody wants it. scratch: norm_scratch bytes, 64-byte aligned.
    void (*norm_backward)(zr_queue *queue, const zr_norm *norm, const void *dy, const void *x, const void *gamma, const float *mean, const float *rstd, const void *past, void *dx, float *dgamma, float *dbeta, bool add_parameters, void *scratch);
    size_t (*norm_scratch)(const zr_queue *queue, const zr_norm *norm);
    // RMSNorm: y = x * rstd * gamma, rstd = 1/sqrt(mean of squares + epsilon); rstd (rows) may be NULL. Otherwise as the three above; dx
    // may be dy where stream == dtype.
    void (*rms_forward)(zr_queue *queue, const zr_norm *norm, const void *x, const void *gamma, void *y, float *rstd);
    void (*residual_rms_forward)(zr_queue *queue, const zr_norm *norm, const void *x, const void *branch, void *sum, const void *gamma, void *y, float *rstd);
    void (*rms_backward)(zr_queue *queue, const zr_norm *norm, const void *dy, const void *x, const void *gamma, const float *rstd, const void *past, void *dx, float *dgamma, bool add_parameters, void *scratch);
    // loss[i] (rows) = -log softmax(logits[i])[target[i]], in fp32; where gradient: logits are overwritten by their gradient.
    // target < 0: the row counts nothing (loss 0, gradient 0).
    void (*loss)(zr_queue *queue, const zr_loss *loss, void *logits, const int32_t *target, float *row_loss, bool gradient);
    void (*softmax)(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width, void *x); // in place
} zr_row_ops;

typedef struct zr_element_ops {
    void (*gelu_forward)(zr_queue *queue, zero_dtype dtype, int64_t n, const void *pre, void *out);              // gelu_new (tanh); out may be pre
    void (*gelu_backward)(zr_queue *queue, zero_dtype dtype, int64_t n, const void *pre, void *d);               // d *= gelu'(pre), in place
    // out = silu(gate) * up, silu(x) = x / (1 + e^-x); out may be gate or up. Backward: the gradients of both from d, of out; d_gate and d_up
    // may be d, gate or up each, and not each other.
    void (*silu_gate_forward)(zr_queue *queue, zero_dtype dtype, int64_t n, const void *gate, const void *up, void *out);
    void (*silu_gate_backward)(zr_queue *queue, zero_dtype dtype, int64_t n, const void *gate, const void *up, const void *d, void *d_gate, void *d_up);
    // out = x + branch; stream: of x and out, dtype: of branch. out may be x.
    void (*add)(zr_queue *queue, zero_dtype stream, zero_dtype dtype, int64_t n, const void *x, const void *branch, void *out);
    // 1/(1-p) x where kept, else 0; from: of x, to: of out. p = 0 converts. out may be x where the types are the same.
    void (*dropout)(zr_queue *queue, zero_dtype from, zero_dtype to, int64_t n, float p, uint64_t key, const void *x, void *out);
    void (*convert)(zr_queue *queue, zero_dtype from, zero_dtype to, int64_t n, const void *x, void *out);       // out must not overlap x
    void (*column_sum)(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width, const void *x, float *out, bool add, void *scratch); // bias gradients
    size_t (*column_sum_scratch)(const zr_queue *queue, int64_t rows, int64_t width);
    // out(rows, width) = tokens[ids[i]] + positions[i % seq]; positions may be NULL. dtype: of the tables, stream: of out. A row whose id is
    // negative stays as it is: its token is in another tile of the table.
    void (*embedding_forward)(zr_queue *queue, zero_dtype dtype, zero_dtype stream, int64_t rows, int64_t seq, int64_t width, const int32_t *ids, const void *tokens, const void *positions, void *out);
    // d_tokens(vocab, width) [set: zeroed first, or added to] += rows of d by id, in the order of rows, without those of negative ids;
    // d_positions(max_seq, width) likewise, of all rows. Either may be NULL.
    void (*embedding_backward)(zr_queue *queue, zero_dtype stream, int64_t rows, int64_t seq, int64_t width, const int32_t *ids, const void *d, int64_t vocab, float *d_tokens, bool add_tokens, int64_t max_seq, float *d_positions, bool add_positions);
    void (*copy)(zr_queue *queue, int64_t bytes, const void *from, void *to);
    // `bytes` of each row; strides in bytes: between columns of a matrix and a dense one.
    void (*copy_rows)(zr_queue *queue, int64_t rows, int64_t bytes, const void *from, int64_t from_stride, void *to, int64_t to_stride);
    void (*zero)(zr_queue *queue, int64_t bytes, void *to);
} zr_element_ops;

struct zr_backend {
    const char *name; // "ref", "cpu"
    const zr_product_ops *product;
    const zr_row_ops *rows;
    const zr_attention_ops *attention;
    const zr_element_ops *elements;
    const zr_optimizer_ops *optimizer;
    const char *(*path)(void); // instruction-set path chosen: "portable", "avx2", "avx512", "avx512_bf16", "amx"
    int64_t (*multiply_add)(int64_t rounds); // multiplies and adds in registers alone, on the calling thread; returns its flops. For the
                                             // peak that products are measured against; NULL: not measured
    zero_status (*open)(zr_queue *queue, zero_error *error);
    void (*close)(zr_queue *queue);
};

struct zr_queue {
    const zr_backend *backend;
    int threads;
    void *scratch; // of products; reserved by whoever planned it, 64-byte aligned
    size_t scratch_bytes;
    void *impl; // backend's caches
};

// name: "ref", "cpu" for the best path that CPUID offers, or "cpu:PATH" for one of them. isa: a path as well, instead of one in the name;
// or NULL. Queues of different paths live in one process: a path is the queue's, oneDNN's instructions too. Not collective.
zero_status zr_queue_open(const char *name, const char *isa, int threads, zr_queue **out, zero_error *error);
// The backend that it gets; static. Of a name or a path that is not offered: ZERO_ERR_USAGE, or ZERO_ERR_UNSUPPORTED for isa, naming those
// that are.
zero_status zr_backend_find(const char *name, const char *isa, const zr_backend **out, zero_error *error);
void zr_queue_close(zr_queue *queue);
// The same queue with another scratch of products: on its thread, until it is closed or recorded.
zr_queue zr_queue_with_scratch(const zr_queue *queue, void *scratch, size_t bytes);
// Records every call of the queue's backend from here on, until zr_queue_record_end (recording.c). The recorder outlives that.
typedef struct zr_recording zr_recording;
typedef struct zr_recorder zr_recorder;
zero_status zr_queue_record(zr_queue *queue, zr_recorder *recorder, zr_recording **out, zero_error *error);
void zr_queue_record_end(zr_queue *queue, zr_recording *recording); // NULL is allowed
// All that this build has, for tests and doctor: NULL-terminated.
const zr_backend *const *zr_backends(void);
// Their names as zr_queue_open takes them, those that this processor offers, in words.
void zr_backends_offered(char *out, size_t size);
// Whether this processor has the instructions of a backend: no function of one that it lacks may be called.
bool zr_backend_offered(const zr_backend *backend);

// Whether dropout keeps element `index`: a pure function, probability 1-p, the same on every backend.
// word = philox(key, 0, index/4).v[index%4]; kept where word >= p * 2^32.
bool zr_dropout_keep(uint64_t key, uint64_t index, float p);

#endif
