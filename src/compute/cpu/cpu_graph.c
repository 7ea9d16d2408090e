// Sums over neighbours. Row r and its edges are the tasks from r + starts[r] on; the first of them
// computes the row, so that threads get about as many edges each, whatever the degrees.
// A row's sum runs in the order of its edges.
#include "compute/cpu/cpu_tables.h"

// Vectors that are summed at a time; edges between fetch and use, with which sums read rows in no
// order as fast as a loop does that only reads them (zero bench memory).
enum { WIDE = 4, AHEAD = 16 };

typedef struct neighbours_job {
    const zr_neighbours *of;
    const int64_t *starts;
    const int32_t *neighbours;
    const float *weights;
    const void *x;
    void *out;
} neighbours_job;

INLINE int64_t task_of(const neighbours_job *job, int64_t row) { return row + job->starts[row]; }

// Returns the first row whose task is `task` or a later one.
static int64_t row_from(const neighbours_job *job, int64_t task)
{
    int64_t low = 0, high = job->of->rows;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (task_of(job, middle) < task)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Asks for elements that a later edge of the list reads: which rows of x are read follows no
// pattern that the processor could find.
INLINE void fetch(zero_dtype type, const neighbours_job *job, int64_t edge, int64_t column,
                  int vectors)
{
    enum { LINE = 64 };
    if (edge >= job->of->edges)
        return;
    int64_t bytes = type == ZERO_F32 ? 4 : 2;
    const char *at =
        (const char *)job->x + (job->neighbours[edge] * job->of->width + column) * bytes;
    for (int64_t i = 0; i < vectors * LANES * bytes; i += LINE)
        __builtin_prefetch(at + i);
}

// Sums `vectors` vectors from a column on.
INLINE void sum_columns(zero_dtype type, const neighbours_job *job, int64_t row, int64_t column,
                        int vectors)
{
    int64_t width = job->of->width, left = width - column, at = row * width + column;
    vf sums[WIDE] = {{0}};
    for (int64_t e = job->starts[row]; e < job->starts[row + 1]; e++) {
        int64_t from = job->neighbours[e] * width + column;
        float weight = job->weights ? job->weights[e] : 1;
        fetch(type, job, e + AHEAD, column, vectors);
        for (int v = 0; v < vectors; v++)
            sums[v] += weight * vf_get_as(type, job->x, from + v * LANES, left - v * LANES);
    }
    for (int v = 0; v < vectors; v++, at += LANES, left -= LANES)
        vf_put_as(type, job->out, at, left, sums[v]);
}

INLINE void sum_row(zero_dtype type, const neighbours_job *job, int64_t row)
{
    int64_t width = job->of->width, column = 0;
    for (; width - column >= WIDE * LANES; column += WIDE * LANES)
        sum_columns(type, job, row, column, WIDE);
    for (; column < width; column += LANES)
        sum_columns(type, job, row, column, 1);
}

static void sum_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const neighbours_job *job = job_;
    int64_t row = row_from(job, first), end = row_from(job, last);
    for (; row < end; row++)
        WITH_TYPE(T, job->of->dtype, sum_row(T, job, row));
}

void ZR_CPU_TABLE(zr_cpu_neighbour_sum)(zr_queue *queue, const zr_neighbours *of,
                                        const int64_t *starts, const int32_t *neighbours,
                                        const float *weights, const void *x, void *out)
{
    const neighbours_job job = {.of = of,
                                .starts = starts,
                                .neighbours = neighbours,
                                .weights = weights,
                                .x = x,
                                .out = out};
    zr_cpu_for(queue, of->rows + of->edges, rows_worth(of->width), sum_rows, &job);
}
