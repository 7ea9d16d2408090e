// Matrices of graphs, the transposed one, and the sums that a unit asks for.
#include "layers/graph_matrix.h"
#include "base/alloc.h"
#include "compute/compute.h"

zero_status zr_graph_matrix_alloc(zr_graph_matrix *matrix, bool weighted, zero_error *error)
{
    size_t edges = (size_t)ZR_MAX(1, matrix->edges);
    matrix->starts = zr_alloc(((size_t)matrix->rows + 1) * sizeof *matrix->starts, error);
    matrix->neighbours =
        matrix->starts ? zr_alloc(edges * sizeof *matrix->neighbours, error) : NULL;
    if (!matrix->neighbours)
        return ZERO_ERR_MEMORY;
    if (weighted && !(matrix->weights = zr_alloc(edges * sizeof *matrix->weights, error)))
        return ZERO_ERR_MEMORY;
    return ZERO_OK;
}

void zr_graph_matrix_free(zr_graph_matrix *matrix)
{
    zr_free(matrix->starts);
    zr_free(matrix->neighbours);
    zr_free(matrix->weights);
}

void zero_graph_destroy(zero_graph *graph)
{
    if (!graph)
        return;
    zr_graph_matrix_free(&graph->sums);
    zr_graph_matrix_free(&graph->gradients);
    zr_free(graph->nodes);
    zr_free(graph);
}

// Places the edges, row by row, at the ends of the lists of their columns.
static void place_edges(const zr_graph_matrix *from, zr_graph_matrix *to, int64_t *next)
{
    for (int64_t row = 0; row < from->rows; row++)
        for (int64_t e = from->starts[row]; e < from->starts[row + 1]; e++) {
            int64_t at = next[from->neighbours[e]]++;
            to->neighbours[at] = (int32_t)row;
            if (from->weights)
                to->weights[at] = from->weights[e];
        }
}

zero_status zr_graph_transpose(zero_graph *graph, zero_error *error)
{
    const zr_graph_matrix *from = &graph->sums;
    zr_graph_matrix *to = &graph->gradients;
    *to = (zr_graph_matrix){.rows = from->columns, .columns = from->rows, .edges = from->edges};
    ZERO_TRY(zr_graph_matrix_alloc(to, from->weights != NULL, error));
    int64_t *next = zr_alloc(((size_t)to->rows + 1) * sizeof *next, error);
    if (!next)
        return ZERO_ERR_MEMORY;
    for (int64_t e = 0; e < from->edges; e++)
        to->starts[from->neighbours[e] + 1]++;
    for (int64_t row = 0; row < to->rows; row++) {
        to->starts[row + 1] += to->starts[row];
        next[row] = to->starts[row];
    }
    place_edges(from, to, next);
    zr_free(next);
    return ZERO_OK;
}

static zero_status check_tensor(const zr_graph_matrix *matrix, const char *name,
                                const zero_tensor *tensor, int64_t rows, const zero_tensor *like,
                                zero_error *error)
{
    bool known =
        tensor->dtype == ZERO_F32 || tensor->dtype == ZERO_BF16 || tensor->dtype == ZERO_F16;
    if (known && tensor->dims == 2 && tensor->shape[0] == rows && tensor->shape[1] >= 0 &&
        tensor->shape[1] == like->shape[1] && tensor->dtype == like->dtype) {
        if (tensor->data || rows == 0 || tensor->shape[1] == 0)
            return ZERO_OK;
        return zr_fail(error, ZERO_ERR_USAGE,
                       "sum over %lld edges of a graph: the data of %s, (%lld, %lld), is NULL",
                       (long long)matrix->edges, name, (long long)rows,
                       (long long)tensor->shape[1]);
    }
    return zr_fail(error, ZERO_ERR_USAGE,
                   "sum over %lld edges of a graph: %s has %d dimensions, (%lld, %lld) of type %d; "
                   "it has to be (%lld, the width of the other tensor), both fp32, bf16 or fp16",
                   (long long)matrix->edges, name, tensor->dims, (long long)tensor->shape[0],
                   (long long)tensor->shape[1], (int)tensor->dtype, (long long)rows);
}

static zero_status sum_edges(zero_context *context, const zr_graph_matrix *matrix,
                             const char *const names[2], const zero_tensor *x,
                             const zero_tensor *out)
{
    const zr_neighbours of = {.dtype = x->dtype,
                              .rows = matrix->rows,
                              .columns = matrix->columns,
                              .edges = matrix->edges,
                              .width = x->shape[1]};
    ZERO_TRY(check_tensor(matrix, names[0], x, matrix->columns, x, context->error));
    ZERO_TRY(check_tensor(matrix, names[1], out, matrix->rows, x, context->error));
    if (x->data && x->data == out->data)
        return zr_fail(context->error, ZERO_ERR_USAGE,
                       "sum over %lld edges of a graph: %s and %s are in the same place; each row "
                       "is read after others are written, so they have to be apart",
                       (long long)matrix->edges, names[0], names[1]);
    zr_run(context->queue, zr_op_neighbour_sum(&of, matrix->starts, matrix->neighbours,
                                               matrix->weights, x->data, out->data));
    return ZERO_OK;
}

zero_status zero_graph_sum(zero_context *context, const zero_graph *graph, const zero_tensor *x,
                           const zero_tensor *out)
{
    static const char *const names[] = {"x", "out"};
    ZR_NEED(NULL, context);
    ZR_NEED(context->error, graph);
    ZR_NEED(context->error, x);
    ZR_NEED(context->error, out);
    return sum_edges(context, &graph->sums, names, x, out);
}

zero_status zero_graph_sum_backward(zero_context *context, const zero_graph *graph,
                                    const zero_tensor *d_out, const zero_tensor *d_x)
{
    static const char *const names[] = {"d_out", "d_x"};
    ZR_NEED(NULL, context);
    ZR_NEED(context->error, graph);
    ZR_NEED(context->error, d_out);
    ZR_NEED(context->error, d_x);
    return sum_edges(context, &graph->gradients, names, d_out, d_x);
}
