// Inside of the cpu backend. Kernels are compiled once for each instruction set, with ZR_CPU_ISA =
// portable, avx2 or avx512 in their tables' names; what must exist once (threads, oneDNN) is
// compiled without it.
//
// Invariant: a kernel's work is cut into tasks (rows, blocks of rows, ranges of columns) that do
// not depend on the number of threads, and each task's result depends on its own inputs alone. So
// all results here are equal at any number of threads;
// only oneDNN's products are not bound to that.
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
// of up to THIN_ROWS rows, for zr_cpu_product_ops
extern const zr_product_ops ZR_CPU_TABLE(zr_cpu_thin_ops);
#endif

// oneDNN's products, and the caches behind queue->impl; where oneDNN is built in. otherwise: for
// what oneDNN is not asked.
typedef enum zr_cpu_dnnl_use { // what oneDNN is asked for; more than the processor has is harmless
    ZR_CPU_DNNL_F32,           // products in fp32
    ZR_CPU_DNNL_BF16,          // in bf16 too, without tiles
    ZR_CPU_DNNL_TILES,         // and with them
} zr_cpu_dnnl_use;
extern const zr_product_ops zr_cpu_dnnl_ops;
zero_status zr_cpu_dnnl_open(zr_queue *queue, const zr_product_ops *otherwise, zr_cpu_dnnl_use use,
                             zero_error *error);
void zr_cpu_dnnl_close(zr_queue *queue);

// Tasks [first, last) of a job, on worker `worker` (0 .. threads-1).
typedef void zr_cpu_body(const void *job, int64_t first, int64_t last, int worker);

// Runs tasks 0..count-1, cut into one contiguous range a thread; on the calling thread alone where
// there are fewer than 2*least tasks (least: what is worth waking a thread for, at least 1).
void zr_cpu_for(const zr_queue *queue, int64_t count, int64_t least, zr_cpu_body *body,
                const void *job);

#endif
