// Makes a graph from a list of edges or from compressed rows, after it has checked them, and gives
// the edges their weights.
#include "base/alloc.h"
#include "layers/graph_matrix.h"

#include <math.h>

static zero_status check_sizes(const zero_graph_options *o, zero_error *error)
{
    if (o->nodes < 0 || o->nodes > INT32_MAX || o->edges < 0 || o->edges > INT64_MAX / 64)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "a graph of %lld nodes and %lld edges: it has 0 to 2147483647 nodes, and no "
                       "fewer than 0 edges",
                       (long long)o->nodes, (long long)o->edges);
    if (o->nodes == 0 && o->edges > 0)
        return zr_fail(error, ZERO_ERR_USAGE, "a graph of no nodes has no edges; %lld are given",
                       (long long)o->edges);
    if (!o->to == !o->starts || (o->edges > 0 && !o->from))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "a graph of %lld edges is given by `from` and one of `to` and `starts`; %s",
                       (long long)o->edges,
                       !o->to == !o->starts ? o->to ? "both are there" : "there is neither"
                                            : "there is no `from`");
    if (o->weights < ZERO_GRAPH_SUM || o->weights > ZERO_GRAPH_SYMMETRIC)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "a graph's weights are ZERO_GRAPH_SUM, ZERO_GRAPH_MEAN or "
                       "ZERO_GRAPH_SYMMETRIC, not %d",
                       (int)o->weights);
    return ZERO_OK;
}

static zero_status check_starts(const zero_graph_options *o, zero_error *error)
{
    if (o->starts[0] != 0 || o->starts[o->nodes] != o->edges)
        return zr_fail(error, ZERO_ERR_DATA,
                       "a graph's starts begin with 0 and end with its %lld edges, not with %lld "
                       "and %lld",
                       (long long)o->edges, (long long)o->starts[0],
                       (long long)o->starts[o->nodes]);
    for (int64_t n = 0; n < o->nodes; n++)
        if (o->starts[n + 1] < o->starts[n])
            return zr_fail(error, ZERO_ERR_DATA,
                           "a graph's starts ascend; after %lld, of node %lld, comes %lld",
                           (long long)o->starts[n], (long long)n, (long long)o->starts[n + 1]);
    return ZERO_OK;
}

// Finds the node of every edge, whichever way the graph is given.
static zero_status list_rows(const zero_graph_options *o, int32_t *rows, zero_error *error)
{
    if (o->starts)
        ZERO_TRY(check_starts(o, error));
    for (int64_t n = 0; o->starts && n < o->nodes; n++)
        for (int64_t e = o->starts[n]; e < o->starts[n + 1]; e++)
            rows[e] = (int32_t)n;
    for (int64_t e = 0; o->to && e < o->edges; e++)
        rows[e] = o->to[e];
    return ZERO_OK;
}

static zero_status check_edges(const zero_graph_options *o, const int32_t *rows, zero_error *error)
{
    for (int64_t e = 0; e < o->edges; e++) {
        bool from = o->from[e] < 0 || o->from[e] >= o->nodes;
        if (from || rows[e] < 0 || rows[e] >= o->nodes)
            return zr_fail(error, ZERO_ERR_DATA,
                           "edge %lld of %lld (counted from 0): %s is %d, but the graph's nodes "
                           "are 0 to %lld",
                           (long long)e, (long long)o->edges, from ? "from" : "to",
                           (int)(from ? o->from[e] : rows[e]), (long long)o->nodes - 1);
    }
    return ZERO_OK;
}

// Counts the edges of each node, its loop included, at starts[node + 1]; returns all of them.
static int64_t count_edges(const zero_graph_options *o, const int32_t *rows, int64_t *starts)
{
    int64_t edges = o->edges;
    for (int64_t n = 0; o->self_loops && n < o->nodes; n++)
        starts[n + 1] = -1; // no loop has been seen
    for (int64_t e = 0; o->self_loops && e < o->edges; e++)
        if (rows[e] == o->from[e])
            starts[rows[e] + 1] = 0;
    for (int64_t n = 0; o->self_loops && n < o->nodes; n++) {
        starts[n + 1] = -starts[n + 1];
        edges += starts[n + 1];
    }
    for (int64_t e = 0; e < o->edges; e++)
        starts[rows[e] + 1]++;
    return edges;
}

// Places the edges of each node in the order of the list, and its loop after them. `next` is where
// the node's next edge goes.
static void place_edges(const zero_graph_options *o, const int32_t *rows, zr_graph_matrix *matrix,
                        int64_t *next)
{
    for (int64_t n = 0; n < o->nodes; n++)
        next[n] = matrix->starts[n];
    for (int64_t e = 0; e < o->edges; e++)
        matrix->neighbours[next[rows[e]]++] = o->from[e];
    for (int64_t n = 0; n < o->nodes; n++)
        if (next[n] < matrix->starts[n + 1])
            matrix->neighbours[next[n]] = (int32_t)n;
}

static int64_t degree(const zr_graph_matrix *matrix, int64_t node)
{
    return matrix->starts[node + 1] - matrix->starts[node];
}

static void weigh_edges(zr_graph_matrix *matrix, zero_graph_weights weights)
{
    for (int64_t n = 0; n < matrix->rows; n++)
        for (int64_t e = matrix->starts[n]; e < matrix->starts[n + 1]; e++) {
            double own = (double)degree(matrix, n);
            double other = (double)degree(matrix, matrix->neighbours[e]);
            matrix->weights[e] = weights == ZERO_GRAPH_MEAN ? (float)(1 / own)
                                 : other > 0                ? (float)(1 / sqrt(own * other))
                                                            : 0;
        }
}

// rows: (edges), next: (nodes + 1); both are free to be written.
static zero_status make_sums(const zero_graph_options *o, int32_t *rows, int64_t *next,
                             zr_graph_matrix *matrix, zero_error *error)
{
    ZERO_TRY(list_rows(o, rows, error));
    ZERO_TRY(check_edges(o, rows, error));
    matrix->rows = matrix->columns = o->nodes;
    matrix->edges = count_edges(o, rows, next);
    ZERO_TRY(zr_graph_matrix_alloc(matrix, o->weights != ZERO_GRAPH_SUM, error));
    for (int64_t n = 0; n < o->nodes; n++)
        matrix->starts[n + 1] = matrix->starts[n] + next[n + 1];
    place_edges(o, rows, matrix, next);
    if (matrix->weights)
        weigh_edges(matrix, o->weights);
    return ZERO_OK;
}

zero_status zero_graph_create(const zero_graph_options *options, zero_graph **out,
                              zero_error *error)
{
    zero_graph_options o;
    ZR_NEED(error, out);
    *out = NULL;
    ZR_NEED(error, options);
    ZERO_TRY(zr_struct_take("zero_graph_options", options,
                            ZR_STRUCT_UPTO(zero_graph_options, self_loops), &o, sizeof o, error));
    ZERO_TRY(check_sizes(&o, error));
    zero_graph *graph = zr_alloc(sizeof *graph, error);
    int32_t *rows = zr_alloc((size_t)ZR_MAX(1, o.edges) * sizeof *rows, error);
    int64_t *next = zr_alloc(((size_t)o.nodes + 1) * sizeof *next, error);
    zero_status status =
        graph && rows && next ? make_sums(&o, rows, next, &graph->sums, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = zr_graph_transpose(graph, error);
    zr_free(rows);
    zr_free(next);
    if (status == ZERO_OK)
        *out = graph;
    else
        zero_graph_destroy(graph);
    return status;
}
