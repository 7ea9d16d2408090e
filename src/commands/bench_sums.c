#include "commands/bench_sums.h"
#include "base/alloc.h"
#include "base/numbers.h"
#include "base/random.h"

enum { ROUNDS = 5, DEGREE = 16 };

static const int widths[ZR_SUM_WIDTHS] = {64, 128, 256};

typedef struct sums_bench { // the columns of the matrix are the rows of x, each in one edge
    zr_queue *queue;
    const float *x; // (elements)
    int64_t elements;
    zr_neighbours of;
    int64_t *starts;     // (rows + 1)
    int32_t *neighbours; // (edges)
    float *weights;      // (edges)
    float *out;          // (rows, width)
    uint32_t read;       // what reading has summed, so that it is not left out
} sums_bench;

static zero_status sum_neighbours(void *user, zero_error *error)
{
    const sums_bench *s = user;
    zr_run(s->queue,
           zr_op_neighbour_sum(&s->of, s->starts, s->neighbours, s->weights, s->x, s->out));
    return ZERO_OK;
}

static zero_status read_rows(void *user, zero_error *error)
{
    sums_bench *s = user;
    s->read += zr_memory_gather((const uint32_t *)s->x, s->of.width, s->neighbours, s->of.edges,
                                s->queue->threads);
    return ZERO_OK;
}

static double bytes_read(const zr_neighbours *of)
{
    return (double)of->edges * (double)(sizeof(int32_t) + (size_t)of->width * sizeof(float));
}

static double bytes_summed(const zr_neighbours *of)
{
    size_t row = sizeof(int64_t) + (size_t)of->width * sizeof(float);
    return bytes_read(of) + (double)of->edges * sizeof(float) + (double)of->rows * (double)row;
}

static zero_status make_graph(sums_bench *s, int width, zero_error *error)
{
    int64_t rows = s->elements / width / DEGREE, edges = rows * DEGREE;
    s->of = (zr_neighbours){
        .dtype = ZERO_F32, .rows = rows, .columns = edges, .edges = edges, .width = width};
    s->starts = zr_alloc(((size_t)rows + 1) * sizeof *s->starts, error);
    s->neighbours = zr_alloc((size_t)edges * sizeof *s->neighbours, error);
    s->weights = zr_alloc((size_t)edges * sizeof *s->weights, error);
    s->out = zr_alloc((size_t)(rows * width) * sizeof *s->out, error);
    if (!s->starts || !s->neighbours || !s->weights || !s->out)
        return ZERO_ERR_MEMORY;
    for (int64_t r = 0; r <= rows; r++)
        s->starts[r] = r * DEGREE;
    for (int64_t e = 0; e < edges; e++) {
        s->neighbours[e] = (int32_t)zr_permute(1, (uint64_t)e, (uint64_t)edges);
        s->weights[e] = 1.0f / DEGREE;
    }
    return ZERO_OK;
}

static void free_graph(sums_bench *s)
{
    zr_free(s->starts);
    zr_free(s->neighbours);
    zr_free(s->weights);
    zr_free(s->out);
}

// Reads and sums in turn, so that other programs disturb both.
static zero_status measure_width(const zr_meter *meter, sums_bench *s, zr_sums_rates *out,
                                 zero_error *error)
{
    double reads[ROUNDS], sums[ROUNDS], seconds;
    for (int i = 0; i < ROUNDS; i++) {
        ZERO_TRY(zr_meter_time(meter, read_rows, s, &seconds, error));
        reads[i] = bytes_read(&s->of) / seconds;
        ZERO_TRY(zr_meter_time(meter, sum_neighbours, s, &seconds, error));
        sums[i] = bytes_summed(&s->of) / seconds;
    }
    *out = (zr_sums_rates){meter->threads, (int)s->of.width, zr_median(reads, ROUNDS),
                           zr_median(sums, ROUNDS)};
    return ZERO_OK;
}

zero_status zr_sums_measure(const zr_meter *meter, const float *x, int64_t elements,
                            zr_sums_rates out[ZR_SUM_WIDTHS], zero_error *error)
{
    zr_queue *queue;
    ZERO_TRY(zr_queue_open("cpu", NULL, meter->threads, &queue, error));
    zero_status status = ZERO_OK;
    for (int i = 0; i < ZR_SUM_WIDTHS && status == ZERO_OK; i++) {
        sums_bench s = {.queue = queue, .x = x, .elements = elements};
        status = make_graph(&s, widths[i], error);
        if (status == ZERO_OK)
            status = measure_width(meter, &s, &out[i], error);
        free_graph(&s);
    }
    zr_queue_close(queue);
    return status;
}
