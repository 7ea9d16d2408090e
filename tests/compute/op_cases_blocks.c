// The operations on numbers in blocks among the cases of operations.
#include "op_cases.h"

static const zr_blocks of_bytes = {
    .bits = 8, .dtype = ZERO_F16, .n = BLOCK_ELEMS, .err_beta = 0.8f};
static const zr_blocks of_halves = {
    .bits = 4, .dtype = ZERO_BF16, .n = BLOCK_ELEMS, .err_beta = 0.8f};

zr_op op_case_blocks_encode(operands *o)
{
    return zr_op_blocks_encode(&of_bytes, o->a, NULL, o->d);
}

zr_op op_case_blocks_encode_carried(operands *o)
{
    return zr_op_blocks_encode(&of_halves, o->a, o->b, o->d);
}

// Any bytes can be decoded.
zr_op op_case_blocks_decode(operands *o) { return zr_op_blocks_decode(&of_bytes, o->a, o->d); }

zr_op op_case_blocks_decode_halves(operands *o)
{
    return zr_op_blocks_decode(&of_halves, o->a, o->d);
}

zr_op op_case_blocks_add(operands *o) { return zr_op_blocks_add(&of_halves, o->a, o->d); }

zr_op op_case_blocks_round(operands *o) { return zr_op_blocks_round(&of_halves, o->a, o->d); }
