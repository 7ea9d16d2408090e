// The backends of this build, and the threshold of dropout that they share. Only compute/ includes
// this.
#ifndef ZR_COMPUTE_BACKENDS_H
#define ZR_COMPUTE_BACKENDS_H

#include "compute/compute.h"
#include "compute/product_ops.h"

extern const zr_backend zr_ref_backend;
extern const zr_backend zr_cpu_backend_portable;
extern const zr_backend zr_cpu_backend_avx2;        // in builds for x86-64
extern const zr_backend zr_cpu_backend_avx512;      // likewise
extern const zr_backend zr_cpu_backend_avx512_bf16; // likewise
// The kernels of avx512_bf16, with oneDNN's products in bf16, which use tiles; in builds with
// oneDNN.
extern const zr_backend zr_cpu_backend_amx;

// Refuses a product that no backend computes; the message says why.
zero_status zr_product_check(const zr_product *product, zero_error *error);

// Returns the threshold below which a random word drops its element: the least integer >= p * 2^32,
// so that comparing with it is the same as comparing with the real number.
static inline uint64_t zr_dropout_threshold(float p)
{
    double exact = (double)p * 4294967296.0;
    uint64_t whole = (uint64_t)exact;
    return whole + ((double)whole < exact);
}

// Returns what a kept element is multiplied by.
static inline float zr_dropout_factor(float p) { return p < 1 ? 1 / (1 - p) : 0; }

#endif
