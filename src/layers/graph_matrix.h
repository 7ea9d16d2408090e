// A graph of <zero/graph.h>: the matrix of its sums, and the transposed one, which gives gradients.
#ifndef ZR_LAYERS_GRAPH_MATRIX_H
#define ZR_LAYERS_GRAPH_MATRIX_H

#include "base/errors.h"
#include <zero/graph.h>

typedef struct zr_graph_matrix { // compressed rows; what neighbour_sum (compute/graph_ops.h) reads
    int64_t rows, columns, edges;
    int64_t *starts;     // (rows + 1)
    int32_t *neighbours; // (edges) columns
    float *weights;      // (edges); NULL: all are 1
} zr_graph_matrix;

struct zero_graph {
    zr_graph_matrix sums, gradients;
    int32_t *nodes; // (sums.columns) of a sample; NULL: the graph is whole
};

// Allocates a matrix of these sizes, of zeros. What is there of it on failure, zr_graph_matrix_free
// frees.
zero_status zr_graph_matrix_alloc(zr_graph_matrix *matrix, bool weighted, zero_error *error);
void zr_graph_matrix_free(zr_graph_matrix *matrix);
// Makes graph->gradients of graph->sums.
zero_status zr_graph_transpose(zero_graph *graph, zero_error *error);

#endif
