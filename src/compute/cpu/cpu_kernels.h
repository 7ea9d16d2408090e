// Internal to the cpu backend. Kernels are compiled once per instruction set, with ZR_CPU_ISA =
// portable, avx2, avx512 or avx512_bf16 in the names of their tables; code that must exist once
// (threads, oneDNN) is compiled without it.
//
// Invariant: a kernel's work is cut into tasks (rows, blocks of rows, ranges of columns) that do
// not depend on the number of threads, and each task's result depends only on its own inputs. So
// all results here are the same with any number of threads; only oneDNN's products are exempt from
// this.
#ifndef ZR_COMPUTE_CPU_KERNELS_H
#define ZR_COMPUTE_CPU_KERNELS_H

#include "compute/backends.h"

#ifdef ZR_CPU_ISA
#define ZR_CPU_JOIN_(base, isa) base##_##isa
#define ZR_CPU_JOIN(base, isa) ZR_CPU_JOIN_(base, isa)
#define ZR_CPU_TABLE(base) ZR_CPU_JOIN(base, ZR_CPU_ISA)

// zr_cpu_KIND: the kernel of each kind of operation but the plain product.
#define ZR_CPU_KERNEL(kind, shape, ...) ZR_KERNEL(ZR_CPU_TABLE(zr_cpu_##kind), kind, shape);
ZR_CPU_KERNEL(quantised_product, product)
ZR_CPU_KERNEL(decode_scales, scale_codes)
ZR_ROW_OPS(ZR_CPU_KERNEL)
ZR_ATTENTION_OPS(ZR_CPU_KERNEL)
ZR_ELEMENT_OPS(ZR_CPU_KERNEL)
ZR_GRAPH_OPS(ZR_CPU_KERNEL)
ZR_MAGNITUDE_OPS(ZR_CPU_KERNEL)
ZR_OPTIMIZER_OPS(ZR_CPU_KERNEL)
ZR_FACTORED_OPS(ZR_CPU_KERNEL)
// cpu_states.c: an update with states of ZERO_U8.
void ZR_CPU_TABLE(zr_cpu_update_blocks)(zr_queue *queue, const zr_update *update,
                                        const zr_update_values *values, const zr_range_states *at);
ZR_BLOCK_OPS(ZR_CPU_KERNEL)
ZR_TREE_OPS(ZR_CPU_KERNEL)
// Return the bytes of scratch of kernels that have some.
size_t ZR_CPU_TABLE(zr_cpu_norm_scratch)(const zr_norm *norm);
size_t ZR_CPU_TABLE(zr_cpu_column_sum_scratch)(const zr_matrix *matrix);
size_t ZR_CPU_TABLE(zr_cpu_attention_scratch)(const zr_queue *queue, const zr_attention *attention);
size_t ZR_CPU_TABLE(zr_cpu_decode_scratch)(const zr_queue *queue, const zr_attention *attention);
#endif

typedef struct zr_cpu_products { // a way to multiply
    // Returns the bytes of the queue's scratch that run needs for this product.
    size_t (*scratch)(zr_queue *queue, const zr_product *product);
    zero_status (*run)(zr_queue *queue, const zr_product *product, const void *a, const void *b,
                       const void *operand, void *d, zero_error *error);
} zr_cpu_products;

#ifdef ZR_CPU_ISA
extern const zr_cpu_products ZR_CPU_TABLE(zr_cpu_own_products);
#endif

// oneDNN's products, with their caches in queue->impl, in builds with oneDNN. `otherwise` computes
// the products that oneDNN does not. To request more than the processor has is harmless.
typedef enum zr_cpu_dnnl_use {
    ZR_CPU_DNNL_F32,  // products in fp32
    ZR_CPU_DNNL_BF16, // in bf16 as well
} zr_cpu_dnnl_use;
extern const zr_cpu_products zr_cpu_dnnl_products;
zero_status zr_cpu_dnnl_open(zr_queue *queue, const zr_cpu_products *otherwise, zr_cpu_dnnl_use use,
                             zero_error *error);
void zr_cpu_dnnl_close(zr_queue *queue);

// Does tasks [first, last) of a job, as worker `worker` (0 .. threads-1).
typedef void zr_cpu_body(const void *job, int64_t first, int64_t last, int worker);

// Runs tasks 0..count-1, one contiguous range per thread. The calling thread alone runs them if
// there are fewer than 2*least, because waking a thread pays only for `least` tasks (at least 1)
// or more.
void zr_cpu_for(const zr_queue *queue, int64_t count, int64_t least, zr_cpu_body *body,
                const void *job);

#endif
