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

#include "compute/attention_ops.h"
#include "compute/backends.h"
#include "compute/element_ops.h"
#include "compute/optimizer_ops.h"
#include "compute/product_ops.h"
#include "compute/row_ops.h"

#ifdef ZR_CPU_ISA
#define ZR_CPU_JOIN_(base, isa) base##_##isa
#define ZR_CPU_JOIN(base, isa) ZR_CPU_JOIN_(base, isa)
#define ZR_CPU_TABLE(base) ZR_CPU_JOIN(base, ZR_CPU_ISA)

extern const zr_row_ops ZR_CPU_TABLE(zr_cpu_row_ops);
extern const zr_attention_ops ZR_CPU_TABLE(zr_cpu_attention_ops);
extern const zr_element_ops ZR_CPU_TABLE(zr_cpu_element_ops);
extern const zr_optimizer_ops ZR_CPU_TABLE(zr_cpu_optimizer_ops);
extern const zr_product_ops ZR_CPU_TABLE(zr_cpu_product_ops);
// Products of up to THIN_ROWS rows, for zr_cpu_product_ops.
extern const zr_product_ops ZR_CPU_TABLE(zr_cpu_thin_ops);
#endif

// oneDNN's products, with their caches in queue->impl, in builds with oneDNN. `otherwise` computes
// the products that oneDNN does not. To request more than the processor has is harmless.
typedef enum zr_cpu_dnnl_use {
    ZR_CPU_DNNL_F32,  // products in fp32
    ZR_CPU_DNNL_BF16, // in bf16 as well
} zr_cpu_dnnl_use;
extern const zr_product_ops zr_cpu_dnnl_ops;
zero_status zr_cpu_dnnl_open(zr_queue *queue, const zr_product_ops *otherwise, zr_cpu_dnnl_use use,
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
