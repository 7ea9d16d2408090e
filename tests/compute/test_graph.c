// Sums over neighbours: cpu compared with ref, on any number of threads with the same bits; the
// order of a sum; and the gradient, which the transposed matrix gives, compared with differences.
#include "compute/compute.h"
#include "compute_check.h"

#include <stdlib.h>
#include <string.h>

typedef struct matrix {
    int64_t rows, columns, edges;
    int64_t *starts;     // (rows + 1)
    int32_t *neighbours; // (edges)
    float *weights;      // (edges)
} matrix;

static const struct { // every degree is below `most`, but that of the row `large`
    int64_t rows, columns, width, most, large;
} sizes[] = {{1, 1, 1, 2, -1},    {5, 3, 7, 1, -1},       {40, 9, 64, 6, 0},
             {67, 130, 33, 4, 5}, {300, 200, 161, 9, 17}, {3, 50, 256, 3, 2}};

enum { LARGE = 1000 };

static int64_t degree_of(int k, int64_t row)
{
    return row == sizes[k].large
               ? LARGE
               : (int64_t)zr_philox4x32(1, (uint64_t)k, (uint64_t)row).v[0] % sizes[k].most;
}

static matrix make(int k)
{
    matrix m = {.rows = sizes[k].rows, .columns = sizes[k].columns};
    m.starts = calloc((size_t)m.rows + 1, sizeof *m.starts);
    for (int64_t r = 0; r < m.rows; r++)
        m.starts[r + 1] = m.starts[r] + degree_of(k, r);
    m.edges = m.starts[m.rows];
    m.neighbours = calloc((size_t)m.edges + 1, sizeof *m.neighbours);
    for (int64_t e = 0; e < m.edges; e++)
        m.neighbours[e] =
            (int32_t)(zr_philox4x32(2, (uint64_t)k, (uint64_t)e).v[0] % (uint64_t)m.columns);
    m.weights = floats_random(m.edges, 3, 1);
    return m;
}

static void discard(matrix *m)
{
    free(m->starts);
    free(m->neighbours);
    floats_free(m->weights);
}

static zr_op sum_of(const matrix *m, zero_dtype dtype, int64_t width, bool weighted, const void *x,
                    void *out)
{
    const zr_neighbours of = {
        .dtype = dtype, .rows = m->rows, .columns = m->columns, .edges = m->edges, .width = width};
    return zr_op_neighbour_sum(&of, m->starts, m->neighbours, weighted ? m->weights : NULL, x, out);
}

static void check_one(zr_queue *queue, zr_queue *single, zr_queue *ref, int k, zero_dtype dtype,
                      bool weighted)
{
    matrix m = make(k);
    int64_t width = sizes[k].width, n = m.rows * width;
    size_t bytes = (size_t)n * zero_dtype_bytes(dtype);
    void *x = array_random(dtype, m.columns * width, 4, 1), *out[3];
    zr_queue *const queues[] = {ref, single, queue};
    for (int q = 0; q < 3; q++) {
        out[q] = array_new(dtype, n);
        zr_run(queues[q], sum_of(&m, dtype, width, weighted, x, out[q]));
    }
    check_same_bits("threads", out[2], out[1], (int64_t)bytes);
    check_close_as("sums", dtype, out[2], out[0], n, 3e-5, 1e-3);
    for (int q = 0; q < 3; q++)
        array_free(out[q]);
    array_free(x);
    discard(&m);
}

static void check_sums(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int k = 0; k < ZR_COUNT(sizes); k++)
        for (int t = 0; t < STORAGE_TYPES; t++)
            for (int weighted = 0; weighted < 2; weighted++)
                check_one(queue, single, ref, k, storage_types[t], weighted);
}

static void sums(void **state) { check_each_kernels(check_sums); }

// 1 is lost next to 2^24 in fp32 if it is added to it, and is not if the large values cancel first.
// With weights, the values that are added are 2^24, 1 / 4 and -2^24.
static void check_order(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t starts[] = {0, 3, 6, 6};
    static const int32_t neighbours[] = {0, 1, 2, 0, 2, 1};
    static const float weights[] = {2, 0.5f, 2, 2, 2, 0.5f}, large[2] = {16777216, 8388608};
    static const int64_t widths[] = {1, 15, 17, 64, 128, 161, 1024};
    matrix m = {3, 3, 6, (int64_t *)starts, (int32_t *)neighbours, (float *)weights};
    for (int k = 0; k < 2 * ZR_COUNT(widths); k++) {
        int weighted = k % 2;
        int64_t width = widths[k / 2];
        float *x = floats_new(3 * width), *out = floats_new(3 * width), small = weighted ? 0.5f : 1;
        for (int64_t j = 0; j < width; j++) {
            x[j] = large[weighted];
            x[width + j] = small;
            x[2 * width + j] = -large[weighted];
        }
        zr_run(queue, sum_of(&m, ZERO_F32, width, weighted, x, out));
        for (int64_t j = 0; j < width; j++)
            if (out[j] != 0 || out[width + j] != small * small || out[2 * width + j] != 0)
                fail_msg("column %lld of %lld: %g, %g, %g", (long long)j, (long long)width, out[j],
                         out[width + j], out[2 * width + j]);
        floats_free(x);
        floats_free(out);
    }
}

static void order(void **state) { check_each_kernels(check_order); }

static matrix transposed(const matrix *m)
{
    matrix t = {.rows = m->columns, .columns = m->rows, .edges = m->edges};
    int64_t at = 0;
    t.starts = calloc((size_t)t.rows + 1, sizeof *t.starts);
    t.neighbours = calloc((size_t)t.edges + 1, sizeof *t.neighbours);
    t.weights = floats_new(t.edges);
    for (int64_t c = 0; c < t.rows; t.starts[++c] = at)
        for (int64_t r = 0; r < m->rows; r++)
            for (int64_t e = m->starts[r]; e < m->starts[r + 1]; e++)
                if (m->neighbours[e] == c) {
                    t.weights[at] = m->weights[e];
                    t.neighbours[at++] = (int32_t)r;
                }
    return t;
}

typedef struct weighed { // the sum of d(out) out, of which out is computed on the queue
    zr_queue *queue;
    const matrix *m;
    int64_t width;
    const float *x, *d_out;
    float *out;
} weighed;

static double value_of(void *argument)
{
    const weighed *w = argument;
    double value = 0;
    zr_run(w->queue, sum_of(w->m, ZERO_F32, w->width, true, w->x, w->out));
    for (int64_t i = 0; i < w->m->rows * w->width; i++)
        value += (double)w->d_out[i] * w->out[i];
    return value;
}

static void check_gradient(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    enum { K = 3 };
    matrix m = make(K), t = transposed(&m);
    int64_t width = sizes[K].width;
    float *x = floats_random(m.columns * width, 1, 1), *d_x = floats_new(m.columns * width),
          *d_out = floats_random(m.rows * width, 2, 1), *out = floats_new(m.rows * width);
    weighed w = {queue, &m, width, x, d_out, out};
    zr_run(queue, sum_of(&t, ZERO_F32, width, true, d_out, d_x));
    for (int64_t i = 0; i < m.columns * width; i += 37) {
        double want = check_slope(value_of, &w, &x[i], 0.25f);
        if (fabs(d_x[i] - want) > 1e-4 * (1 + fabs(want)))
            fail_msg("element %lld: %g, not %g", (long long)i, d_x[i], want);
    }
    floats_free(out);
    floats_free(d_out);
    floats_free(d_x);
    floats_free(x);
    discard(&t);
    discard(&m);
}

static void gradient(void **state) { check_each_kernels(check_gradient); }

static void check_nothing(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t starts[4] = {0};
    matrix none = {.starts = (int64_t *)starts}, empty = {.rows = 3, .starts = (int64_t *)starts};
    float out[3] = {7, 7, 7};
    zr_run(queue, sum_of(&none, ZERO_F32, 5, true, NULL, NULL));
    zr_run(queue, sum_of(&empty, ZERO_F32, 1, false, NULL, out));
    assert_true(out[0] == 0 && out[1] == 0 && out[2] == 0);
}

static void nothing(void **state) { check_each_kernels(check_nothing); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(order),
        cmocka_unit_test(gradient),
        cmocka_unit_test(nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
