// The operations of magnitudes among the cases of operations.
#include "op_cases.h"

zr_op op_case_weight_squares(operands *o)
{
    const zr_weight_rows s = {.dtype = ZERO_BF16, .out = ROWS, .in = WIDTH, .outputs_first = true};
    return zr_op_weight_squares(&s, o->a, NULL, o->d);
}

zr_op op_case_column_squares(operands *o)
{
    const zr_weight_rows s = {.dtype = ZERO_F32, .out = WIDTH, .in = ROWS};
    return zr_op_weight_squares(&s, o->a, NULL, o->d);
}

// Any bytes are codes, and any numbers scales.
zr_op op_case_squares_of_codes(operands *o)
{
    const zr_weight_rows s = {
        .out = ROWS, .in = WIDTH, .outputs_first = true, .format = ZR_WEIGHT_NF4};
    return zr_op_weight_squares(&s, o->a, o->b, o->d);
}

zr_op op_case_adapted_squares(operands *o)
{
    const zr_magnitude s = {.dtype = ZERO_F32, .out = WIDTH, .rank = ROWS, .scale = 0.5f};
    return zr_op_adapted_squares(&s, o->b, o->b + ELEMS, o->c, o->d);
}

zr_op op_case_magnitude_factors(operands *o)
{
    const zr_magnitude s = {.dtype = ZERO_BF16, .out = WIDTH, .rank = ROWS, .scale = 0.5f};
    return zr_op_magnitude_factors(&s, o->a, o->b, o->d, o->e);
}

zr_op op_case_scale_columns(operands *o)
{
    const zr_column_scaling s = {.from = ZERO_BF16, .to = ZERO_BF16, .rows = ROWS, .width = WIDTH};
    return zr_op_scale_columns(&s, o->a, o->b, NULL, NULL, o->d);
}

zr_op op_case_scale_columns_of_sum(operands *o)
{
    const zr_column_scaling s = {
        .from = ZERO_F32, .to = ZERO_F32, .rows = ROWS, .width = WIDTH, .less = 1};
    return zr_op_scale_columns(&s, o->a, o->b, o->c, o->e, o->d);
}

zr_op op_case_column_products(operands *o)
{
    const zr_matrix s = {.dtype = ZERO_BF16, .rows = ROWS, .width = WIDTH, .add = true};
    return zr_op_column_products(&s, o->a, o->b, o->c, o->d);
}
