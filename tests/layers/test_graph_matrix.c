// Graphs of <zero/graph.h>: their sums and gradients with each kind of weights, samples, what is
// refused, and allocations that fail.
#include "base/alloc.h"
#include "compute/compute.h"
#include "layers/graph_matrix.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

// Node 0 has no edge, 1 an edge to itself, 3 the same edge twice.
enum { NODES = 5, EDGES = 8 };
static const int32_t to[EDGES] = {3, 1, 2, 1, 3, 4, 3, 1}, from[EDGES] = {2, 4, 3, 1, 0, 1, 2, 2};
static const int64_t starts[NODES + 1] = {0, 0, 3, 4, 7, 8};
static const int32_t in_rows[EDGES] = {4, 1, 2, 3, 2, 0, 2, 1};

static const zero_graph_options list = {
    .struct_size = sizeof list, .nodes = NODES, .edges = EDGES, .from = from, .to = to};

static zero_graph *make(zero_graph_weights weights, int self_loops)
{
    zero_graph_options options = list;
    zero_graph *graph;
    zero_error error = {0};
    options.weights = weights;
    options.self_loops = self_loops;
    if (zero_graph_create(&options, &graph, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return graph;
}

static zero_tensor matrix_of(const float *data, int64_t rows, int64_t width)
{
    return (zero_tensor){(void *)data, ZERO_F32, 2, {rows, width}};
}

static zr_queue *open_queue(void)
{
    zr_queue *queue;
    assert_int_equal(zr_queue_open("cpu", NULL, 1, &queue, NULL), ZERO_OK);
    return queue;
}

// Checks the sums of x = 1, 10, 100, ... of each node's neighbours.
static void check_sums(const zero_graph *graph, const double want[NODES])
{
    static const float x[NODES] = {1, 10, 100, 1000, 10000};
    float out[NODES];
    zr_queue *queue = open_queue();
    zero_context context = {.queue = queue};
    const zero_tensor in = matrix_of(x, NODES, 1), sums = matrix_of(out, NODES, 1);
    assert_int_equal(zero_graph_sum(&context, graph, &in, &sums), ZERO_OK);
    for (int i = 0; i < NODES; i++)
        if (fabs(out[i] - want[i]) > 1e-6 * fabs(want[i]))
            fail_msg("node %d: %.9g, not %.9g", i, out[i], want[i]);
    zr_queue_close(queue);
}

static void weights_of_edges(void **state)
{
    const double r3 = sqrt(3), r6 = sqrt(6);
    static const double sums[] = {0, 10110, 1000, 201, 10}, means[] = {0, 3370, 1000, 67, 10},
                        looped[] = {1, 10110, 1100, 1201, 10010};
    // Degrees are 0, 3, 1, 3, 1; with loops 1, 3, 2, 4, 2.
    const double symmetric[] = {0, 10000 / r3 + 10. / 3 + 100 / r3, 1000 / r3, 200 / r3, 10 / r3},
                 kipf[] = {1, 10000 / r6 + 10. / 3 + 100 / r6, 1000 / sqrt(8) + 50,
                           200 / sqrt(8) + 1. / 2 + 250, 10 / r6 + 5000};
    const struct {
        zero_graph_weights weights;
        int loops;
        const double *want;
    } cases[] = {{ZERO_GRAPH_SUM, 0, sums},
                 {ZERO_GRAPH_MEAN, 0, means},
                 {ZERO_GRAPH_SUM, 1, looped},
                 {ZERO_GRAPH_SYMMETRIC, 0, symmetric},
                 {ZERO_GRAPH_SYMMETRIC, 1, kipf}};
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zero_graph *graph = make(cases[i].weights, cases[i].loops);
        check_sums(graph, cases[i].want);
        zero_graph_destroy(graph);
    }
}

static void check_same_matrix(const zr_graph_matrix *a, const zr_graph_matrix *b)
{
    assert_true(a->rows == b->rows && a->columns == b->columns && a->edges == b->edges);
    assert_memory_equal(a->starts, b->starts, ((size_t)a->rows + 1) * sizeof *a->starts);
    assert_memory_equal(a->neighbours, b->neighbours, (size_t)a->edges * sizeof *a->neighbours);
    assert_memory_equal(a->weights, b->weights, (size_t)a->edges * sizeof *a->weights);
}

static void compressed_rows_are_the_same_graph(void **state)
{
    zero_graph_options options = list;
    zero_graph *graph = make(ZERO_GRAPH_MEAN, 1), *other;
    options.to = NULL;
    options.starts = starts;
    options.from = in_rows;
    options.weights = ZERO_GRAPH_MEAN;
    options.self_loops = 1;
    assert_int_equal(zero_graph_create(&options, &other, NULL), ZERO_OK);
    check_same_matrix(&graph->sums, &other->sums);
    check_same_matrix(&graph->gradients, &other->gradients);
    zero_graph_destroy(graph);
    zero_graph_destroy(other);
}

// Returns the sum of d_out out, in double, of the sums that the library computes.
static double weighed(zero_context *context, const zero_graph *graph, const zero_tensor *x,
                      const zero_tensor *d_out)
{
    float out[64 * 3];
    double value = 0;
    const zero_tensor sums = matrix_of(out, d_out->shape[0], d_out->shape[1]);
    assert_true(sums.shape[0] * sums.shape[1] <= ZR_COUNT(out));
    assert_int_equal(zero_graph_sum(context, graph, x, &sums), ZERO_OK);
    for (int64_t i = 0; i < sums.shape[0] * sums.shape[1]; i++)
        value += (double)((float *)d_out->data)[i] * out[i];
    return value;
}

static void check_gradient(const zero_graph *graph)
{
    enum { WIDTH = 3, MOST = 64 };
    const zr_graph_matrix *m = &graph->sums;
    float x[MOST * WIDTH], d_out[MOST * WIDTH], d_x[MOST * WIDTH];
    zr_queue *queue = open_queue();
    zero_context context = {.queue = queue};
    const zero_tensor d_sums = matrix_of(d_out, m->rows, WIDTH),
                      d_in = matrix_of(d_x, m->columns, WIDTH),
                      in = matrix_of(x, m->columns, WIDTH);
    assert_true(m->columns <= MOST);
    for (int i = 0; i < MOST * WIDTH; i++) {
        x[i] = (float)(i * 7 % 11) - 5;
        d_out[i] = (float)(i * 5 % 13) - 6;
        d_x[i] = NAN;
    }
    assert_int_equal(zero_graph_sum_backward(&context, graph, &d_sums, &d_in), ZERO_OK);
    for (int64_t i = 0; i < m->columns * WIDTH; i++) {
        float at = x[i];
        x[i] = at + 8; // a sum is linear: a long step has the slope with less rounding
        double above = weighed(&context, graph, &in, &d_sums);
        x[i] = at - 8;
        double slope = (above - weighed(&context, graph, &in, &d_sums)) / 16;
        x[i] = at;
        if (!(fabs(d_x[i] - slope) <= 1e-5 * (1 + fabs(slope))))
            fail_msg("element %lld: %g, not %g", (long long)i, d_x[i], slope);
    }
    zr_queue_close(queue);
}

static zero_graph *sample_with(const zero_graph *graph, const int32_t *nodes, int64_t count,
                               int64_t most, uint64_t seed, uint64_t step)
{
    zero_graph *made;
    zero_error error = {0};
    if (zero_graph_sample(graph, nodes, count, most, seed, step, &made, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return made;
}

static zero_graph *sample(const zero_graph *graph, const int32_t *nodes, int64_t count,
                          int64_t most, uint64_t step)
{
    return sample_with(graph, nodes, count, most, 7, step);
}

static void gradients(void **state)
{
    static const int32_t nodes[] = {3, -1, 1, 3};
    for (int way = 0; way < 6; way++) {
        zero_graph *graph = make((zero_graph_weights)(way / 2), way % 2),
                   *some = sample(graph, nodes, 4, 2, 1);
        check_gradient(graph);
        check_gradient(some);
        zero_graph_destroy(some);
        zero_graph_destroy(graph);
    }
}

static void a_sample_of_all_edges_has_their_sums(void **state)
{
    static const int32_t nodes[] = {4, 3, -1, 1, 0};
    enum { COUNT = 5, MOST = 3 };
    zero_graph *graph = make(ZERO_GRAPH_SYMMETRIC, 0), *all = sample(graph, nodes, COUNT, MOST, 1);
    int64_t columns;
    const int32_t *of = zero_graph_nodes(all, &columns);
    assert_int_equal(columns, COUNT * (1 + MOST));
    assert_memory_equal(of, nodes, sizeof nodes);
    for (int64_t r = 0; r < COUNT; r++) {
        int64_t at = all->sums.starts[r], first = nodes[r] < 0 ? 0 : graph->sums.starts[nodes[r]];
        int64_t count = nodes[r] < 0 ? 0 : graph->sums.starts[nodes[r] + 1] - first;
        assert_int_equal(all->sums.starts[r + 1] - at, count);
        for (int64_t i = 0; i < count; i++) {
            assert_int_equal(of[all->sums.neighbours[at + i]], graph->sums.neighbours[first + i]);
            assert_true(all->sums.weights[at + i] == graph->sums.weights[first + i]);
        }
    }
    assert_null(zero_graph_nodes(graph, &columns));
    assert_int_equal(columns, 0);
    zero_graph_destroy(all);
    zero_graph_destroy(graph);
}

// The edges of a node depend on neither the list nor the place in it; another step takes others;
// and their weights are multiplied by 3 / 2.
static void samples_depend_on_seed_step_and_node(void **state)
{
    static const int32_t one[] = {3, 1}, other[] = {-1, 2, 1, 3, 4};
    zero_graph *graph = make(ZERO_GRAPH_MEAN, 0);
    int steps_that_differ = 0;
    for (uint64_t step = 0; step < 20; step++) {
        zero_graph *a = sample(graph, one, 2, 2, step), *b = sample(graph, other, 5, 2, step),
                   *c = sample(graph, one, 2, 2, step + 1);
        for (int row = 0; row < 2; row++)
            for (int i = 0; i < 2; i++) {
                int64_t in_a = a->sums.starts[row] + i, in_b = b->sums.starts[row ? 2 : 3] + i;
                int32_t node = a->nodes[a->sums.neighbours[in_a]];
                assert_int_equal(node, b->nodes[b->sums.neighbours[in_b]]);
                assert_true(fabsf(a->sums.weights[in_a] - 0.5f) < 1e-6f);
                steps_that_differ += node != c->nodes[c->sums.neighbours[in_a]];
            }
        zero_graph_destroy(a);
        zero_graph_destroy(b);
        zero_graph_destroy(c);
    }
    assert_in_range(steps_that_differ, 10, 60);
    zero_graph_destroy(graph);
}

enum { STAR = 100 }; // the neighbours of node 0, the others of which have none

static zero_graph *make_star(void)
{
    int64_t all[STAR + 2];
    int32_t neighbours[STAR];
    zero_graph *graph;
    zero_graph_options options = {.struct_size = sizeof options,
                                  .nodes = STAR + 1,
                                  .edges = STAR,
                                  .from = neighbours,
                                  .starts = all};
    all[0] = 0;
    for (int i = 0; i <= STAR; i++)
        all[i + 1] = STAR;
    for (int32_t i = 0; i < STAR; i++)
        neighbours[i] = i + 1;
    assert_int_equal(zero_graph_create(&options, &graph, NULL), ZERO_OK);
    return graph;
}

// Returns how many edges of node 0 both samples take, after it has checked that those of each are
// `most` different ones in ascending order.
static int taken_by_both(const zero_graph *a, const zero_graph *b, int64_t most)
{
    const zero_graph *samples[] = {a, b};
    int times[STAR + 1] = {0}, both = 0;
    for (int s = 0; s < 2; s++) {
        const zr_graph_matrix *m = &samples[s]->sums;
        int32_t last = 0;
        assert_int_equal(m->edges, most);
        for (int64_t e = 0; e < most; e++) {
            int32_t node = samples[s]->nodes[m->neighbours[e]];
            assert_true(node > last && node <= STAR);
            last = node;
            both += ++times[node] == 2;
        }
    }
    return both;
}

// Two samples of M of 100 edges have M M / 100 in common, on average, if they are independent; the
// bounds are about 5 standard deviations from that, for the average of 50.
static void other_seeds_take_other_edges(void **state)
{
    static const struct {
        int64_t most;
        double want, bound;
    } cases[] = {{10, 1, 0.7}, {64, 40.96, 1.7}, {80, 64, 1.2}};
    static const int32_t node = 0;
    enum { STEPS = 50 };
    zero_graph *graph = make_star();
    for (int k = 0; k < ZR_COUNT(cases); k++) {
        int64_t most = cases[k].most;
        double both = 0;
        for (uint64_t step = 0; step < STEPS; step++) {
            zero_graph *a = sample_with(graph, &node, 1, most, 1, step),
                       *b = sample_with(graph, &node, 1, most, 2, step),
                       *again = sample_with(graph, &node, 1, most, 1, step);
            both += (double)taken_by_both(a, b, most) / STEPS;
            assert_int_equal(taken_by_both(a, again, most), most);
            zero_graph_destroy(a);
            zero_graph_destroy(b);
            zero_graph_destroy(again);
        }
        if (fabs(both - cases[k].want) > cases[k].bound)
            fail_msg("of %d edges, %g are the same, not %g", (int)most, both, cases[k].want);
    }
    zero_graph_destroy(graph);
}

// Writes the sums of x(node) = 1, 2, 4, ... over the edges of each row.
static void sums_of_rows(zero_context *context, const zero_graph *graph, float *out)
{
    float x[64];
    int64_t columns = graph->sums.columns;
    assert_true(columns <= ZR_COUNT(x));
    for (int64_t c = 0; c < columns; c++) {
        int32_t node = graph->nodes ? graph->nodes[c] : (int32_t)c;
        x[c] = node < 0 ? 0 : (float)(1 << node);
    }
    const zero_tensor in = matrix_of(x, columns, 1), sums = matrix_of(out, graph->sums.rows, 1);
    assert_int_equal(zero_graph_sum(context, graph, &in, &sums), ZERO_OK);
}

static void check_mean(zero_context *context, const zero_graph *graph, int64_t most)
{
    static const int32_t nodes[NODES] = {0, 1, 2, 3, 4};
    enum { STEPS = 3000 };
    double mean[NODES] = {0}, squares[NODES] = {0};
    float want[NODES], out[NODES];
    sums_of_rows(context, graph, want);
    for (uint64_t step = 0; step < STEPS; step++) {
        zero_graph *some = sample(graph, nodes, NODES, most, step);
        sums_of_rows(context, some, out);
        for (int n = 0; n < NODES; n++) {
            mean[n] += (double)out[n] / STEPS;
            squares[n] += ((double)out[n] - want[n]) * ((double)out[n] - want[n]) / STEPS;
        }
        zero_graph_destroy(some);
    }
    assert_true(squares[1] > 0.01); // some edges were not taken
    for (int n = 0; n < NODES; n++)
        if (fabs(mean[n] - want[n]) > 5 * sqrt(squares[n] / STEPS) + 1e-6)
            fail_msg("node %d, %d edges: %g on average, not %g", n, (int)most, mean[n], want[n]);
}

static void samples_have_the_sums_of_the_graph_on_average(void **state)
{
    zr_queue *queue = open_queue();
    zero_context context = {.queue = queue};
    for (int way = 0; way < 6; way++) {
        zero_graph *graph = make((zero_graph_weights)(way / 2), way % 2);
        check_mean(&context, graph, 1);
        check_mean(&context, graph, 2);
        zero_graph_destroy(graph);
    }
    zr_queue_close(queue);
}

static void a_sample_of_no_edges_has_sums_of_zero(void **state)
{
    static const int32_t nodes[] = {1, 3};
    float out[2] = {7, 7};
    zr_queue *queue = open_queue();
    zero_context context = {.queue = queue};
    zero_graph *graph = make(ZERO_GRAPH_MEAN, 1), *none = sample(graph, nodes, 2, 0, 1);
    assert_true(none->sums.columns == 2 && none->sums.edges == 0);
    sums_of_rows(&context, none, out);
    assert_true(out[0] == 0 && out[1] == 0);
    zero_graph_destroy(none);
    zero_graph_destroy(graph);
    zr_queue_close(queue);
}

static void refuses(zero_graph_options options, zero_status status, const char *words)
{
    zero_graph *graph = (zero_graph *)1;
    zero_error error = {0};
    assert_int_equal(zero_graph_create(&options, &graph, &error), status);
    assert_null(graph);
    if (!strstr(error.message, words))
        fail_msg("%s", error.message);
}

static void wrong_graphs_are_refused(void **state)
{
    static const int32_t outside[] = {3, 1, 2, 1, 3, 5, 3, 1}, below[] = {2, 4, -1, 1, 0, 1, 2, 2},
                         above[] = {2, 4, 3, 1, 0, 1, 2, 5};
    static const int64_t falls[] = {0, 4, 3, 4, 7, 8}, open_end[] = {0, 0, 3, 4, 7, 7};
    zero_graph_options options = list;
    options.to = outside;
    refuses(options, ZERO_ERR_DATA,
            "edge 5 of 8 (counted from 0): to is 5, but the graph's nodes are 0 to 4");
    options = list;
    options.from = below;
    refuses(options, ZERO_ERR_DATA, "edge 2 of 8 (counted from 0): from is -1, but");
    options.from = above;
    refuses(options, ZERO_ERR_DATA, "edge 7 of 8 (counted from 0): from is 5, but");
    options = list;
    options.starts = starts;
    refuses(options, ZERO_ERR_USAGE,
            "8 edges is given by `from` and one of `to` and `starts`; both are there");
    options.to = options.from = NULL;
    refuses(options, ZERO_ERR_USAGE, "; there is no `from`");
    options.starts = NULL;
    refuses(options, ZERO_ERR_USAGE, "; there is neither");
    options.from = from;
    options.starts = falls;
    refuses(options, ZERO_ERR_DATA, "after 4, of node 1, comes 3");
    options.starts = open_end;
    refuses(options, ZERO_ERR_DATA, "end with its 8 edges, not with 0 and 7");
    options = list;
    options.weights = (zero_graph_weights)3;
    refuses(options, ZERO_ERR_USAGE, "ZERO_GRAPH_SYMMETRIC, not 3");
    options = list;
    options.nodes = (int64_t)1 << 31;
    refuses(options, ZERO_ERR_USAGE, "a graph of 2147483648 nodes");
    options = list;
    options.nodes = 0;
    refuses(options, ZERO_ERR_USAGE, "a graph of no nodes has no edges; 8 are given");
}

static void wrong_samples_and_tensors_are_refused(void **state)
{
    static const int32_t nodes[] = {1, 5}, inside[] = {1};
    float x[2 * NODES] = {0}, out[2 * NODES];
    zero_error error = {0};
    zero_graph *graph = make(ZERO_GRAPH_SUM, 0), *some;
    assert_int_equal(zero_graph_sample(graph, nodes, 2, 3, 1, 1, &some, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "entry 1 of 2 in the list of nodes to sample is node 5"));
    assert_int_equal(zero_graph_sample(graph, nodes, 2, -1, 1, 1, &some, &error), ZERO_ERR_USAGE);
    some = sample(graph, inside, 1, 3, 1);
    zero_graph *again;
    assert_int_equal(zero_graph_sample(some, inside, 1, 3, 1, 1, &again, &error), ZERO_ERR_USAGE);
    zero_context context = {.error = &error}; // without a queue: nothing is computed
    const zero_tensor in = matrix_of(x, NODES, 2), narrow = matrix_of(out, NODES, 1),
                      few = matrix_of(x, NODES - 1, 2);
    assert_int_equal(zero_graph_sum(&context, graph, &in, &narrow), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "out has 2 dimensions, (5, 1)"));
    assert_int_equal(zero_graph_sum_backward(&context, graph, &few, &in), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "d_out has 2 dimensions, (4, 2)"));
    const zero_tensor nowhere = matrix_of(NULL, NODES, 2);
    assert_int_equal(zero_graph_sum(&context, graph, &nowhere, &in), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "the data of x, (5, 2), is NULL"));
    assert_int_equal(zero_graph_sum_backward(&context, graph, &in, &nowhere), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "the data of d_x, (5, 2), is NULL"));
    assert_int_equal(zero_graph_sum(&context, graph, &in, &in), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "x and out are in the same place"));
    zero_graph_destroy(some);
    zero_graph_destroy(graph);
}

static void every_allocation_may_fail(void **state)
{
    static const int32_t nodes[] = {1, 3};
    zero_graph_options options = list;
    options.weights = ZERO_GRAPH_MEAN;
    zero_graph *graph = make(ZERO_GRAPH_MEAN, 0), *made;
    for (int sampled = 0; sampled < 2; sampled++) {
        zero_status status = ZERO_ERR_MEMORY;
        for (int64_t nth = 1; status != ZERO_OK; nth++) {
            assert_in_range(nth, 1, 30);
            zr_alloc_fail_at(nth);
            status = sampled ? zero_graph_sample(graph, nodes, 2, 2, 1, 1, &made, NULL)
                             : zero_graph_create(&options, &made, NULL);
            zr_alloc_fail_at(0);
            assert_true(status == ZERO_OK ? made != NULL : status == ZERO_ERR_MEMORY && !made);
        }
        zero_graph_destroy(made);
    }
    zero_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_of_edges),
        cmocka_unit_test(compressed_rows_are_the_same_graph),
        cmocka_unit_test(gradients),
        cmocka_unit_test(a_sample_of_all_edges_has_their_sums),
        cmocka_unit_test(samples_depend_on_seed_step_and_node),
        cmocka_unit_test(other_seeds_take_other_edges),
        cmocka_unit_test(samples_have_the_sums_of_the_graph_on_average),
        cmocka_unit_test(a_sample_of_no_edges_has_sums_of_zero),
        cmocka_unit_test(wrong_graphs_are_refused),
        cmocka_unit_test(wrong_samples_and_tensors_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
