// The optimizer's work among the cases of operations.
#include "op_cases.h"

static zr_update range_of(zr_update_kind kind, zero_dtype parameters)
{
    return (zr_update){
        .kind = kind, .parameters = parameters, .n = ELEMS, .epsilon = 1e-8, .weight_decay = 0.1};
}

zr_op op_case_update(operands *o)
{
    const zr_update s = range_of(ZR_UPDATE_ADAMW, ZERO_BF16);
    return zr_op_update(&s, &o->update, o->a, o->b, o->c, NULL, NULL, o->d, o->e);
}

zr_op op_case_update_lion(operands *o)
{
    zr_update s = range_of(ZR_UPDATE_LION, ZERO_F32);
    s.gradient = ZERO_F16;
    return zr_op_update(&s, &o->update, o->a, o->b, NULL, NULL, NULL, o->d, NULL);
}

zr_op op_case_update_halves(operands *o)
{
    zr_update s = range_of(ZR_UPDATE_ADAM_L2, ZERO_F16);
    s.states = s.gradient = ZERO_BF16;
    return zr_op_update(&s, &o->update, o->a, o->b, o->c, NULL, NULL, o->d, o->e);
}

zr_op op_case_update_blocks(operands *o)
{
    zr_update s = range_of(ZR_UPDATE_ADAMW, ZERO_BF16);
    s.states = ZERO_U8;
    s.gradient = ZERO_BF16;
    return zr_op_update(&s, &o->update, o->a, o->b, o->c, o->b + ELEMS, o->c + ELEMS, o->d, o->e);
}

zr_op op_case_square_sums(operands *o)
{
    const zr_squares s = {.first = ZR_SQUARES_CHUNK - 100, .count = 150};
    return zr_op_square_sums(&s, o->a, o->sums);
}

zr_op op_case_square_sums_exact(operands *o)
{
    static const zr_square_part parts[] = {{3, 40, 1}, {50, ELEMS - 47, 0}};
    const zr_square_parts s = {
        .first = 3, .count = ELEMS, .parts = 2, .sums = 2, .elements = ELEMS - 7};
    return zr_op_square_sums_exact(&s, parts, o->a, o->exact);
}

zr_op op_case_square_sums_exact_infinite(operands *o)
{
    zr_op op = op_case_square_sums_exact(o);
    op.at.square_sums_exact.g = o->e + 7 * ELEMS; // an infinity in the part of the last sum
    return op;
}

zr_op op_case_lamb_direction(operands *o)
{
    const zr_update s = range_of(ZR_UPDATE_ADAMW, ZERO_F32);
    return zr_op_lamb_direction(&s, &o->update, o->a, o->b, o->c, o->e, o->d);
}

zr_op op_case_subtract_scaled(operands *o)
{
    const zr_update s = range_of(ZR_UPDATE_ADAMW, ZERO_F32);
    return zr_op_subtract_scaled(&s, &o->factor, o->a, o->b, NULL);
}

zr_op op_case_subtract_scaled_with_copy(operands *o)
{
    const zr_update s = range_of(ZR_UPDATE_ADAMW, ZERO_F16);
    return zr_op_subtract_scaled(&s, &o->factor, o->a, o->b, o->c);
}

zr_op op_case_weighted_sum(operands *o)
{
    return zr_op_weighted_sum(&(zr_weighted){ZERO_BF16, ELEMS, 0.5f, 2}, o->a, o->b, o->c);
}

zr_op op_case_momentum_direction(operands *o)
{
    zr_update s = range_of(ZR_UPDATE_SGD, ZERO_F32);
    s.states = ZERO_BF16;
    return zr_op_momentum_direction(&s, &o->update, o->a, o->b, o->c);
}

zr_op op_case_orthogonal_update(operands *o)
{
    const zr_update s = range_of(ZR_UPDATE_SGD, ZERO_BF16);
    return zr_op_orthogonal_update(&s, o->d, o->a, o->b, o->c);
}

zr_op op_case_average(operands *o)
{
    zr_update s = range_of(ZR_UPDATE_SGD, ZERO_F32);
    s.average_decay = 0.9;
    o->update.first = false; // the first update does not read the average
    return zr_op_average(&s, &o->update, o->a, o->b);
}
