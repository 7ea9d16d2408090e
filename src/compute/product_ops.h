// The table of matrix products, with the work that is done on a result before it is stored.
// compute.h states what holds for all tables.
#ifndef ZR_COMPUTE_PRODUCT_OPS_H
#define ZR_COMPUTE_PRODUCT_OPS_H

#include "base/errors.h"
#include <zero/model.h>
#include <zero/tensor.h>

typedef struct zr_queue zr_queue;

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

typedef struct zr_product_ops {
    // Returns the bytes of queue->scratch that run needs for this product; they suffice for a
    // product with fewer rows m, too.
    size_t (*scratch)(zr_queue *queue, const zr_product *product);
    // operand: the bias or pre of the epilogue, NULL if it needs none. The first call for a shape
    // creates what is cached.
    zero_status (*run)(zr_queue *queue, const zr_product *product, const void *a, const void *b,
                       const void *operand, void *d, zero_error *error);
} zr_product_ops;

// Returns the most bytes of scratch that a product of operands of this type can need, whatever its
// epilogue. A unit states only the shapes of its products.
size_t zr_product_scratch(zr_queue *queue, zero_dtype dtype, const zero_product_shape *shape);

#endif
