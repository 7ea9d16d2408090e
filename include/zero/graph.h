// Graphs for the units of your own model: sums over the neighbours of nodes, forward and backward,
// and sampled neighbourhoods (examples/graph.c is a graph convolution network of them).
//
// A graph is a sparse matrix, made once and only read from then on; ranks that are threads may
// share it. Its sums have the same bits on any number of threads and ranks, because each is added
// in the order of the node's edges, in fp32, and rounded once. No function here is collective.
// Whoever makes a graph, or a sample, frees it with zero_graph_destroy: a sum's graph once the
// zero_backward (or zero_evaluate) of its micro-batch has returned. Where ZERO_OK is not returned,
// *out is NULL, `error`, which may be NULL, says why, and nothing is left to free.
#ifndef ZERO_GRAPH_H
#define ZERO_GRAPH_H

#include <zero/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_graph zero_graph;

typedef enum zero_graph_weights { // of the edges; a node's degree is the number of its edges
    ZERO_GRAPH_SUM,               // 1
    ZERO_GRAPH_MEAN,              // 1 / degree of the node
    // 1 / sqrt(degree of the node x degree of the neighbour), 0 where a degree is (Kipf and
    // Welling, arXiv 1609.02907)
    ZERO_GRAPH_SYMMETRIC,
} zero_graph_weights;

typedef struct zero_graph_options {
    size_t struct_size; // sizeof(zero_graph_options)
    int64_t nodes, edges;
    // Edge e is one of node to[e], its row, and points to the neighbour from[e], whose values are
    // added to the row's sum. A node's edges keep their order; an edge that is there twice counts
    // twice. Of an undirected graph, list both directions.
    const int32_t *from; // (edges)
    const int32_t *to;   // (edges), or NULL if starts says it:
    // (nodes + 1), or NULL: the edges of node n are starts[n] to starts[n+1] - 1.
    const int64_t *starts;
    zero_graph_weights weights;
    int self_loops; // 1: a node without an edge to itself gets one, after its others
} zero_graph_options;

// Makes a graph of a copy of its edges; the lists may be freed afterwards. ZERO_ERR_USAGE for
// options or out that is NULL, options of a later version, numbers below 0, more than 2147483647
// nodes, edges of no nodes or without `from`, both or neither of `to` and `starts`, other weights;
// ZERO_ERR_DATA for the first edge that points nowhere or start that does not ascend;
// ZERO_ERR_MEMORY.
ZERO_API zero_status zero_graph_create(const zero_graph_options *options, zero_graph **out,
                                       zero_error *error);
// Makes the graph of some nodes and at most `most` of the edges of each. Its rows are nodes[0] to
// nodes[count-1]; -1: a row without edges. Its columns, whose values the sums read, are count x (1
// + most): first the nodes themselves, then `most` for each of them. zero_graph_nodes says which
// node a column stands for. A node that two rows share has a column for each.
// Which edges are taken is a function of (seed, step, node) alone, whatever else is in the list and
// on whichever rank. Their weights are multiplied by the node's degree / the edges taken, so the
// expected value of a sum is the sum over all edges (for most = 0 there are none, and sums are 0).
// An edge of a node to itself is one of its edges, and may be taken or not; its column is the
// node's own. To sample neighbours of neighbours, sample the columns of a sample with another seed;
// with the same seed both samples take the same edges of a node. The sample is a copy: `graph` may
// be freed before it. ZERO_ERR_USAGE for a graph, nodes or out that is NULL, a graph that is itself
// a sample, a count or `most` below 0, and more than 2147483647 columns; ZERO_ERR_DATA for a node
// that is not in the graph, with the first of them; ZERO_ERR_MEMORY.
ZERO_API zero_status zero_graph_sample(const zero_graph *graph, const int32_t *nodes, int64_t count,
                                       int64_t most, uint64_t seed, uint64_t step, zero_graph **out,
                                       zero_error *error);
// Returns the nodes of a sample's columns (-1: none), and their number in *count, which may be
// NULL; NULL and 0 for a graph of zero_graph_create. They live as long as the sample.
ZERO_API const int32_t *zero_graph_nodes(const zero_graph *graph, int64_t *count);

// out(rows, width) = for each row the sum of weight x x(neighbour) over its edges. x(columns,
// width); both are of one type: ZERO_F32, ZERO_BF16 or ZERO_F16. For use in a unit's forward: x and
// out lie in the unit's boundaries, its micro-batch, its saved buffer or its workspace.
// x and out do not overlap. ZERO_ERR_USAGE, with nothing computed, for tensors of other types or
// shapes, data that is NULL, and one place for both.
ZERO_API zero_status zero_graph_sum(zero_context *context, const zero_graph *graph,
                                    const zero_tensor *x, const zero_tensor *out);
// Writes the gradient of x, d_x(columns, width), from that of out, d_out(rows, width): a sum over
// the edges that lead to each column, in the order of the rows that they are of. What holds for
// zero_graph_sum holds here.
ZERO_API zero_status zero_graph_sum_backward(zero_context *context, const zero_graph *graph,
                                             const zero_tensor *d_out, const zero_tensor *d_x);
ZERO_API void zero_graph_destroy(zero_graph *graph); // NULL is allowed

#ifdef __cplusplus
}
#endif
#endif
