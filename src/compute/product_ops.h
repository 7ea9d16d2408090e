// Matrix products, with the work that is done on a result before it is stored. compute.h states
// what holds for all operations, op.h how they are declared.
#ifndef ZR_COMPUTE_PRODUCT_OPS_H
#define ZR_COMPUTE_PRODUCT_OPS_H

#include "base/quantised.h"
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
    zr_weight_format format; // of B in a quantised product, otherwise plain
    // Elements from a row of A as it lies, and of D, to the next; 0: as many as the row has. More
    // than that: only without gelu_a, epilogue and codes, and only on "ref" and on cards.
    int64_t a_step, d_step;
} zr_product;

#define ZR_A_ROWS(s) ((s)->trans_a ? (s)->k : (s)->m)
#define ZR_A_WIDTH(s) ((s)->trans_a ? (s)->m : (s)->k)
#define ZR_A_STEP(s) ((s)->a_step ? (s)->a_step : ZR_A_WIDTH(s))
#define ZR_D_STEP(s) ((s)->d_step ? (s)->d_step : (s)->n)
#define ZR_IS_DENSE(s) (ZR_A_STEP(s) == ZR_A_WIDTH(s) && ZR_D_STEP(s) == (s)->n)

// operand: the bias or pre of the epilogue, NULL if it needs none. The scratch is the queue's; what
// is enough for a product is enough for one with fewer rows m, too. The first product of a shape
// creates what is cached. It fails (zr_queue_check) for types that no backend multiplies, and for
// too little scratch.
#define ZR_OPERANDS_product(AT)                                                                    \
    AT(a, const void *, ZR_READ, s->dtype, ZR_A_ROWS(s) * ZR_A_STEP(s))                            \
    AT(b, const void *, ZR_READ, s->dtype, s->k * s->n)                                            \
    AT(operand, const void *, ZR_READ | ZR_AUX, s->dtype,                                          \
       s->n * (s->epilogue == ZR_EPILOGUE_GELU_BACKWARD ? s->m : 1))                               \
    AT(d, void *, s->add || ZR_D_STEP(s) > s->n ? ZR_BOTH : ZR_WRITTEN, s->out, s->m * ZR_D_STEP(s))

// The same where B is a weight in codes, whose rows B has as they lie: b and scales are those of
// all of its rows. A product widens the part of B that it is about to read, rounded to dtype, so
// that it has the bits of a product with the weight as it was decoded. Not with trans_a.
#define ZR_B_ROWS(s) ((s)->trans_b ? (s)->n : (s)->k)
#define ZR_B_WIDTH(s) ((s)->trans_b ? (s)->k : (s)->n)
#define ZR_OPERANDS_quantised_product(AT)                                                          \
    AT(a, const void *, ZR_READ, s->dtype, s->m * s->k)                                            \
    AT(b, const void *, ZR_READ, ZERO_U8,                                                          \
       ZR_B_ROWS(s) * zr_weight_code_bytes(s->format, ZR_B_WIDTH(s)))                              \
    AT(scales, const float *, ZR_READ, ZERO_F32,                                                   \
       ZR_B_ROWS(s) * zr_weight_row_scales(s->format, ZR_B_WIDTH(s)))                              \
    AT(operand, const void *, ZR_READ | ZR_AUX, s->dtype,                                          \
       s->n * (s->epilogue == ZR_EPILOGUE_GELU_BACKWARD ? s->m : 1))                               \
    AT(d, void *, s->add ? ZR_BOTH : ZR_WRITTEN, s->out, s->m * s->n)

// Makes the scales of a weight (rows, blocks) from their codes. The weight may be a tile of a whole
// one, whose rows have whole_blocks: the tile begins at first_block of each row, or at first_row of
// each of `parts` equal parts of the whole's rows, which lie part_rows apart.
typedef struct zr_scale_codes {
    int64_t rows, blocks;
    int64_t whole_blocks, first_block;
    int64_t parts, part_rows, first_row;
    int64_t groups; // of the whole
} zr_scale_codes;

// Returns the number, in the whole weight, of the first block of a row.
static inline int64_t zr_scale_codes_first(const zr_scale_codes *of, int64_t row)
{
    int64_t each = of->rows / of->parts, part = row / each;
    return (part * of->part_rows + of->first_row + row % each) * of->whole_blocks + of->first_block;
}

#define ZR_OPERANDS_decode_scales(AT)                                                              \
    AT(codes, const uint8_t *, ZR_READ, ZERO_U8, s->rows * s->blocks)                              \
    AT(shared, const float *, ZR_READ | ZR_AUX, ZERO_F32, 1 + s->groups)                           \
    AT(scales, float *, ZR_WRITTEN, ZERO_F32, s->rows * s->blocks)

#define ZR_PRODUCT_OPS(OP)                                                                         \
    OP(product, product, product, 2 * s->m * s->n * s->k, 0)                                       \
    OP(quantised_product, product, product, 2 * s->m * s->n * s->k, 0)                             \
    OP(decode_scales, scale_codes, element, 0, 0)

#endif
