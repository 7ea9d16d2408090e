// Sums over the neighbours of the nodes of a graph: a sparse matrix (CSR) times a dense one.
// compute.h states what holds for all operations, op.h how they are declared.
#ifndef ZR_COMPUTE_GRAPH_OPS_H
#define ZR_COMPUTE_GRAPH_OPS_H

#include "compute/operand.h"

typedef struct zr_neighbours {
    zero_dtype dtype;             // of x and out
    int64_t rows, columns, edges; // of the matrix: out has `rows`, x has `columns`
    int64_t width;                // of x and out
} zr_neighbours;

// out(rows, width) = for each row r the sum of weights[e] x[neighbours[e]] over its edges
// e, starts[r] to starts[r+1] - 1, added in this order. starts begin at 0, ascend, and
// end at `edges`; neighbours are at least 0 and below `columns`: nothing checks that here. weights:
// NULL: all are 1. A row without edges is 0. The gradient of x is the same operation with the
// transposed matrix, so that no two threads add to one row.
#define ZR_OPERANDS_neighbour_sum(AT)                                                              \
    AT(starts, const int64_t *, ZR_READ | ZR_LENT, ZERO_I64, s->rows + 1)                          \
    AT(neighbours, const int32_t *, ZR_READ | ZR_LENT, ZERO_I32, s->edges)                         \
    AT(weights, const float *, ZR_READ | ZR_LENT, ZERO_F32, s->edges)                              \
    AT(x, const void *, ZR_READ, s->dtype, s->columns * s->width)                                  \
    AT(out, void *, ZR_WRITTEN, s->dtype, s->rows * s->width)

#define ZR_GRAPH_OPS(OP) OP(neighbour_sum, neighbours, element, 0, 0)

#endif
