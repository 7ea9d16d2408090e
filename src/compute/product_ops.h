// Matrix products, with the work that is done on a result before it is stored. compute.h states
// what holds for all operations, op.h how they are declared.
#ifndef ZR_COMPUTE_PRODUCT_OPS_H
#define ZR_COMPUTE_PRODUCT_OPS_H

#include "compute/operand.h"
#include <zero/model.h>

typedef enum zr_epilogue {
    ZR_EPILOGUE_NONE,
    ZR_EPILOGUE_BIAS,          // + bias(n)
    ZR_EPILOGUE_GELU_BACKWARD, // * gelu'(pre)(m,n)
} zr_epilogue;

// D(m,n) = op(A)(m,k) op(B)(k,n), epilogue [+ D]; op transposes what is stored if trans_x.
typedef struct zr_product {
    zero_dtype dtype; // of A, B, and bias or pre
    zero_dtype out;   // of D: dtype, or ZERO_F32
    int64_t m, n, k;
    bool trans_a, trans_b; // trans_a: A lies as (k,m); trans_b: B lies as (n,k)
    // Uses gelu(A), rounded to dtype, in place of A: what gelu_forward would have stored is never
    // stored.
    bool gelu_a;
    bool add; // D += ...; only if out is ZERO_F32 and the epilogue is none
    zr_epilogue epilogue;
} zr_product;

// operand: the bias or pre of the epilogue, NULL if it needs none. The scratch is the queue's; what
// is enough for a product is enough for one with fewer rows m, too. The first product of a shape
// creates what is cached. It fails (zr_queue_check) for types that no backend multiplies, and for
// too little scratch.
#define ZR_OPERANDS_product(AT)                                                                    \
    AT(a, const void *, ZR_READ, s->dtype, s->m * s->k)                                            \
    AT(b, const void *, ZR_READ, s->dtype, s->k * s->n)                                            \
    AT(operand, const void *, ZR_READ | ZR_AUX, s->dtype,                                          \
       s->n * (s->epilogue == ZR_EPILOGUE_GELU_BACKWARD ? s->m : 1))                               \
    AT(d, void *, s->add ? ZR_BOTH : ZR_WRITTEN, s->out, s->m * s->n)

#define ZR_PRODUCT_OPS(OP) OP(product, product, product, 2 * s->m * s->n * s->k, 0)

#endif
