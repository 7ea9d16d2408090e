// Samples the neighbourhoods of nodes. Which edges of a node are taken is a function of (seed,
// step, node): the first positions of a permutation of its edges.
#include "base/alloc.h"
#include "base/random.h"
#include "layers/graph_matrix.h"

#include <stdlib.h>

typedef struct sampling {
    const zr_graph_matrix *whole;
    const int32_t *nodes; // (count); -1: none
    int64_t count, most;
    uint64_t seed, step;
} sampling;

static zero_status check_nodes(const sampling *s, zero_error *error)
{
    if (s->count < 0 || s->most < 0 || s->most >= INT32_MAX || s->count > INT32_MAX / (1 + s->most))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "sampling %lld neighbours of each of %lld nodes: both are at least 0, and a "
                       "sample has at most 2147483647 nodes",
                       (long long)s->most, (long long)s->count);
    for (int64_t i = 0; i < s->count; i++)
        if (s->nodes[i] < -1 || s->nodes[i] >= s->whole->rows)
            return zr_fail(error, ZERO_ERR_DATA,
                           "entry %lld of %lld in the list of nodes to sample is node %d, but the "
                           "graph has %lld nodes, counted from 0 (-1: none)",
                           (long long)i, (long long)s->count, (int)s->nodes[i],
                           (long long)s->whole->rows);
    return ZERO_OK;
}

static int64_t degree(const sampling *s, int64_t node)
{
    return node < 0 ? 0 : s->whole->starts[node + 1] - s->whole->starts[node];
}

static int compare_positions(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void sort_positions(int64_t *taken, int64_t count)
{
    enum { FEW = 64 }; // insertion is faster for at most these
    if (count > FEW) {
        qsort(taken, (size_t)count, sizeof *taken, compare_positions);
        return;
    }
    for (int64_t i = 1; i < count; i++) {
        int64_t at = i, next = taken[i];
        for (; at > 0 && taken[at - 1] > next; at--)
            taken[at] = taken[at - 1];
        taken[at] = next;
    }
}

// Lists the positions of the edges that are taken, in ascending order; returns their number.
static int64_t take_edges(const sampling *s, int64_t node, int64_t *taken)
{
    const uint64_t words[] = {s->step, (uint64_t)node};
    uint64_t key = zr_hash_bytes(words, sizeof words, s->seed);
    int64_t all = degree(s, node), count = ZR_MIN(all, s->most);
    for (int64_t i = 0; i < count; i++)
        taken[i] = count < all ? (int64_t)zr_permute(key, (uint64_t)i, (uint64_t)all) : i;
    if (count < all)
        sort_positions(taken, count);
    return count;
}

// Writes the edges of a row from its start on, and where it ends.
static void sample_row(const sampling *s, int64_t row, zr_graph_matrix *matrix, int32_t *nodes,
                       int64_t *taken)
{
    int64_t node = s->nodes[row], at = matrix->starts[row], count = take_edges(s, node, taken);
    float more = count > 0 ? (float)degree(s, node) / (float)count : 0;
    nodes[row] = (int32_t)node;
    for (int64_t i = 0; i < count; i++, at++) {
        int64_t edge = s->whole->starts[node] + taken[i];
        int32_t neighbour = s->whole->neighbours[edge];
        int64_t column = neighbour == node ? row : s->count + row * s->most + i;
        matrix->neighbours[at] = (int32_t)column;
        matrix->weights[at] = more * (s->whole->weights ? s->whole->weights[edge] : 1);
        nodes[column] = neighbour;
    }
    matrix->starts[row + 1] = at;
}

// Returns the most edges that are taken of a node.
static int64_t most_taken(const sampling *s)
{
    int64_t largest = 0;
    for (int64_t i = 0; i < s->count; i++)
        largest = ZR_MAX(largest, degree(s, s->nodes[i]));
    return ZR_MIN(largest, s->most);
}

static zero_status sample_rows(const sampling *s, zero_graph *graph, int64_t *taken,
                               zero_error *error)
{
    zr_graph_matrix *matrix = &graph->sums;
    matrix->rows = s->count;
    matrix->columns = s->count * (1 + s->most);
    for (int64_t i = 0; i < s->count; i++)
        matrix->edges += ZR_MIN(degree(s, s->nodes[i]), s->most);
    ZERO_TRY(zr_graph_matrix_alloc(matrix, true, error));
    graph->nodes = zr_alloc((size_t)ZR_MAX(1, matrix->columns) * sizeof *graph->nodes, error);
    if (!graph->nodes)
        return ZERO_ERR_MEMORY;
    for (int64_t i = 0; i < matrix->columns; i++)
        graph->nodes[i] = -1;
    for (int64_t i = 0; i < s->count; i++)
        sample_row(s, i, matrix, graph->nodes, taken);
    return zr_graph_transpose(graph, error);
}

zero_status zero_graph_sample(const zero_graph *graph, const int32_t *nodes, int64_t count,
                              int64_t most, uint64_t seed, uint64_t step, zero_graph **out,
                              zero_error *error)
{
    ZR_NEED(error, out);
    *out = NULL;
    ZR_NEED(error, graph);
    ZR_NEED(error, nodes);
    const sampling s = {&graph->sums, nodes, count, most, seed, step};
    if (graph->nodes)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "sampling: the graph is itself a sample; give the one that it was made from");
    ZERO_TRY(check_nodes(&s, error));
    zero_graph *made = zr_alloc(sizeof *made, error);
    int64_t *taken = zr_alloc(((size_t)most_taken(&s) + 1) * sizeof *taken, error);
    zero_status status = made && taken ? sample_rows(&s, made, taken, error) : ZERO_ERR_MEMORY;
    zr_free(taken);
    if (status == ZERO_OK)
        *out = made;
    else
        zero_graph_destroy(made);
    return status;
}

const int32_t *zero_graph_nodes(const zero_graph *graph, int64_t *count)
{
    if (count)
        *count = graph && graph->nodes ? graph->sums.columns : 0;
    return graph ? graph->nodes : NULL;
}
