// Sums over neighbours among the cases of operations: half as many nodes as rows.
#include "op_cases.h"

static const int64_t starts[ROWS + 1] = {0, 3, 3, 4, 6, 7, 8, 9, EDGES};
static const int32_t neighbours[EDGES] = {1, 0, 3, 2, 2, 1, 0, 3, 3, 1};

static zr_neighbours shape_of(zero_dtype dtype)
{
    return (zr_neighbours){
        .dtype = dtype, .rows = ROWS, .columns = ROWS / 2, .edges = EDGES, .width = WIDTH};
}

zr_op op_case_neighbour_sum(operands *o)
{
    const zr_neighbours s = shape_of(ZERO_BF16);
    return zr_op_neighbour_sum(&s, starts, neighbours, o->a, o->b, o->d);
}

zr_op op_case_sum_without_weights(operands *o)
{
    const zr_neighbours s = shape_of(ZERO_F32);
    return zr_op_neighbour_sum(&s, starts, neighbours, NULL, o->b, o->d);
}
