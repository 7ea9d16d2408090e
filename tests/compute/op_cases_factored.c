// Adafactor's operations among the cases of operations.
#include "op_cases.h"

static const zr_factored stretch = {.gradient = ZERO_BF16,
                                    .parameters = ZERO_F16,
                                    .width = WIDTH,
                                    .stride = WIDTH,
                                    .parts = 1,
                                    .count = ELEMS};
static const zr_factored_values values = {
    .gradient_scale = 1, .most = 1e6f, .keep = 1, .step = 0.1f, .coarse = 0x1p-40, .fine = 0x1p-80};

zr_op op_case_factor_sums(operands *o)
{
    return zr_op_factor_sums(&stretch, &values, o->a, (int64_t *)(void *)o->b,
                             (int64_t *)(void *)o->c);
}

zr_op op_case_factor_sums_of_vector(operands *o)
{
    zr_factored vector = stretch;
    vector.width = vector.stride = ELEMS;
    return zr_op_factor_sums(&vector, &values, o->a, NULL, (int64_t *)(void *)o->c);
}

zr_op op_case_factored_squares(operands *o)
{
    return zr_op_factored_squares(&stretch, &values, o->a, o->b, o->c, o->sums);
}

zr_op op_case_factored_update(operands *o)
{
    return zr_op_factored_update(&stretch, &values, o->a, o->b, o->c, o->d, o->e);
}
