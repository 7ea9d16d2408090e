// Sums over ranks among the cases of operations.
#include "op_cases.h"

static const float contributions[3][ELEMS] = {{1, 2, 3}, {0.5f, -2, 1e-4f}, {7, 1, 0.1f}};
static const void *const sources[] = {contributions[0], contributions[1], contributions[2]};

zr_op op_case_tree_sum(operands *o)
{
    const zr_tree s = {.dtype = ZERO_BF16, .ranks = 3, .count = ELEMS, .to = {.dtype = ZERO_F16}};
    return zr_op_tree_sum(&s, sources, o->d);
}

zr_op op_case_tree_sum_added(operands *o)
{
    const zr_tree s = {.ranks = 3, .count = ELEMS, .to = {.adds = 2, .stride = ELEMS + 3}};
    return zr_op_tree_sum(&s, sources, o->d);
}

zr_op op_case_tree_sum_of_codes(operands *o)
{
    const zr_tree s = {
        .source_bits = 4, .ranks = 3, .count = 2 * ZR_BLOCK, .to = {.bits = 8, .dtype = ZERO_F32}};
    return zr_op_tree_sum(&s, sources, o->d);
}
