// oneDNN's matmul primitives by shape, for cpu_dnnl.c only. Nothing of oneDNN's API appears here.
#ifndef ZR_COMPUTE_CPU_DNNL_MATMUL_H
#define ZR_COMPUTE_CPU_DNNL_MATMUL_H

#include "compute/cpu/cpu_kernels.h"

enum { ZR_CPU_MATMUL_HANDLES = 5 }; // A, B, the bias, D, scratch

typedef struct zr_cpu_matmul zr_cpu_matmul;   // the primitive of one shape
typedef struct zr_cpu_matmuls zr_cpu_matmuls; // all of a queue

zero_status zr_cpu_matmuls_open(zr_cpu_dnnl_use use, zr_cpu_matmuls **out, zero_error *error);
void zr_cpu_matmuls_close(zr_cpu_matmuls *of); // NULL is allowed

// Finds the primitive for `product`, and creates it at the first call. It is valid until the next
// call.
zero_status zr_cpu_matmul_find_or_create(zr_cpu_matmuls *of, int threads, const zr_product *product,
                                         zr_cpu_matmul **out, zero_error *error);
bool zr_cpu_matmul_exists(const zr_cpu_matmul *entry);    // false: oneDNN has none
size_t zr_cpu_matmul_scratch(const zr_cpu_matmul *entry); // bytes
zero_status zr_cpu_matmul_run(const zr_cpu_matmuls *of, int threads, zr_cpu_matmul *entry,
                              const void *const handle[ZR_CPU_MATMUL_HANDLES], zero_error *error);

// Finds the bytes of scratch that oneDNN wants for `product` without creating the primitive; 0 if
// that cannot be found out. Returns false if oneDNN has no primitive for it.
bool zr_cpu_matmul_query_scratch(const zr_cpu_matmuls *of, int threads, const zr_product *product,
                                 size_t *bytes);

// Returns whether one primitive serves both products.
bool zr_cpu_matmul_same(const zr_product *x, const zr_product *y);

#endif
