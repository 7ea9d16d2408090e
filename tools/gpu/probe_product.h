// A product of row-major matrices, D = epilogue(op(A) op(B)), as the probe asks cuBLASLt for it.
// That library stores by columns, so it is asked for D^T = op(B)^T op(A)^T: its A is our B.
#ifndef ZR_GPU_PROBE_PRODUCT_H
#define ZR_GPU_PROBE_PRODUCT_H

#include "probe.h"

typedef enum probe_epilogue {
    PROBE_PLAIN,
    PROBE_BIAS,          // + bias of a column
    PROBE_GELU_AUX_BIAS, // the same, kept in aux, then GELU
    PROBE_DGELU,         // x GELU'(aux)
    PROBE_DGELU_BGRAD,   // the same, and the sums of D's columns
    PROBE_BGRADB,        // and the sums over k of op(A)
    PROBE_BGRADA,        // and the sums over k of op(B)
    PROBE_EPILOGUES
} probe_epilogue;

typedef struct probe_shape {
    const char *name;
    int64_t m, n, k; // D is (m, n)
    bool turn_a;     // A is stored as (k, m), else (m, k)
    bool turn_b;     // B is stored as (n, k), else (k, n)
    bool fp32;       // D, bias and sums; else bf16
    bool add;        // to what D is
    probe_epilogue epilogue;
} probe_shape;

// On the device. What is read is filled with the session's pattern.
typedef struct probe_matrices {
    zr_cuda_address a, b;       // read
    zr_cuda_address bias, aux;  // read
    zr_cuda_address d;          // written
    zr_cuda_address sums, kept; // written: sums, and aux of PROBE_GELU_AUX_BIAS
    zr_cuda_address work;       // of cuBLASLt
    size_t d_bytes, work_bytes;
} probe_matrices;

// Compares some elements of D, and of the sums, with the host's in double, and says how far they
// are apart; the answer fails where that is more than rounding.
bool probe_check_product(probe_session *session, const probe_shape *shape,
                         const probe_matrices *at);

#endif
