#include "commands/bench_sums.h"
#include "base/alloc.h"
#include "base/numbers.h"
#include "base/random.h"

enum { ROUNDS = 5, DEGREE = 16 };

const int zr_sum_widths[ZR_SUM_WIDTHS] = {64, 128, 256};

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

static zero_status read_in_order(void *user, zero_error *error)
{
    sums_bench *s = user;
    s->read += zr_memory_read((const uint32_t *)s->x, s->elements, s->queue->threads);
    return ZERO_OK;
}

static double bytes_of(const zr_neighbours *of)
{
    double edge = sizeof(int32_t) + sizeof(float), row = (double)of->width * sizeof(float);
    return (double)of->edges * (edge + row) + (double)of->rows * (sizeof(int64_t) + row);
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
static zero_status measure_width(const zr_meter *meter, sums_bench *s, double *read, double *sums,
                                 zero_error *error)
{
    double reads[ROUNDS], rates[ROUNDS], seconds;
    for (int i = 0; i < ROUNDS; i++) {
        ZERO_TRY(zr_meter_time(meter, read_in_order, s, &seconds, error));
        reads[i] = (double)s->elements * sizeof(float) / seconds;
        ZERO_TRY(zr_meter_time(meter, sum_neighbours, s, &seconds, error));
        rates[i] = bytes_of(&s->of) / seconds;
    }
    *read = zr_median(reads, ROUNDS);
    *sums = zr_median(rates, ROUNDS);
    return ZERO_OK;
}

zero_status zr_sums_measure(const zr_meter *meter, const float *x, int64_t elements,
                            zr_sums_rates *out, zero_error *error)
{
    double reads[ZR_SUM_WIDTHS];
    sums_bench s = {.x = x, .elements = elements};
    ZERO_TRY(zr_queue_open("cpu", NULL, meter->threads, &s.queue, error));
    zero_status status = ZERO_OK;
    for (int i = 0; i < ZR_SUM_WIDTHS && status == ZERO_OK; i++) {
        status = make_graph(&s, zr_sum_widths[i], error);
        if (status == ZERO_OK)
            status = measure_width(meter, &s, &reads[i], &out->sums[i], error);
        free_graph(&s);
    }
    zr_queue_close(s.queue);
    if (status == ZERO_OK)
        out->read = zr_median(reads, ZR_SUM_WIDTHS);
    return status;
}
