// The products among the cases of operations.
#include "op_cases.h"

zr_op op_case_product(operands *o)
{
    const zr_product s = {.m = ROWS, .n = WIDTH, .k = WIDTH, .epilogue = ZR_EPILOGUE_BIAS};
    return zr_op_product(&s, o->a, o->b, o->c, o->d);
}

zr_op op_case_product_bf16_added(operands *o)
{
    const zr_product s = {.dtype = ZERO_BF16,
                          .out = ZERO_F32,
                          .m = WIDTH,
                          .n = WIDTH,
                          .k = ROWS,
                          .trans_a = true,
                          .add = true};
    return zr_op_product(&s, o->a, o->b, NULL, o->d);
}

zr_op op_case_product_sloped(operands *o)
{
    const zr_product s = {
        .m = ROWS, .n = WIDTH, .k = WIDTH, .trans_b = true, .epilogue = ZR_EPILOGUE_GELU_BACKWARD};
    return zr_op_product(&s, o->a, o->b, o->c, o->d);
}

// Any bytes are codes, and any numbers scales.
zr_op op_case_quantised_product(operands *o)
{
    const zr_product s = {
        .m = ROWS, .n = WIDTH, .k = WIDTH, .trans_b = true, .format = ZR_WEIGHT_NF4};
    return zr_op_quantised_product(&s, o->a, o->b, o->c, NULL, o->d);
}

zr_op op_case_quantised_product_int8(operands *o)
{
    const zr_product s = {
        .m = ROWS, .n = WIDTH, .k = WIDTH, .format = ZR_WEIGHT_INT8, .epilogue = ZR_EPILOGUE_BIAS};
    return zr_op_quantised_product(&s, o->a, o->b, o->c, o->e, o->d);
}

zr_op op_case_decode_scales(operands *o)
{
    const zr_scale_codes s = {
        .rows = ROWS, .blocks = 4, .whole_blocks = 4, .parts = 1, .groups = 1};
    return zr_op_decode_scales(&s, (const uint8_t *)o->a, o->b, o->d);
}
