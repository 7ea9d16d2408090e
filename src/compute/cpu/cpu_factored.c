// Adafactor's work on stretches of a matrix: one pass over the gradient, and in the update one over
// the weights. What belongs to rows and columns stays in caches.
//
// Invariant: sums are exact, so neither cuts nor threads change them. A direction depends neither
// on its place in a stretch nor on the number of threads.
#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_squares.h"

#define PANEL 1024      // columns whose sums a task collects
#define APART 64        // more columns between two sums of one, which would share a place in caches
#define UNIT 64         // elements per task of an update
#define WORTH (1 << 14) // elements worth a thread
#define AHEAD 1024      // bytes between what is fetched and what is used
#define LINE 16         // elements whose squares are summed apart

INLINE int64_t bytes_of(zero_dtype type) { return type == ZERO_F32 ? 4 : 2; }

// ---- sums of squares by rows and columns ----

typedef struct sums_job {
    const zr_factored *of;
    const zr_factored_values *values;
    const void *gradient;
    int64_t *rows, *columns;
    int64_t panels, high; // panels of a row in memory; rows of the matrix in a task
    bool shared;          // several tasks have the same columns
} sums_job;

typedef uint64_t vl __attribute__((vector_size(4 * LANES)));
typedef vl vl_loose __attribute__((aligned(8), may_alias));

// Sums of the bits of doubles, from which units_of_coarse and units_of_fine make integers.
typedef struct sum {
    vl coarse, fine;
} sum;

// Return the units that were added as bits of doubles: those of 2^52 and above are integers in
// their last 52 bits, and those around 1.5 * 2^52 in their last 51, with a sign.
INLINE int64_t units_of_coarse(uint64_t sum) { return (int64_t)(sum & ((1ull << 52) - 1)); }
INLINE int64_t units_of_fine(uint64_t sum) { return (int64_t)(sum << 13) >> 13; }

// Returns the bits of squares in coarse units, and of what rounding to them leaves in fine ones.
INLINE sum square_in_units(vf_half g, double coarse, double fine)
{
    vd x = vd_from(g), square = x * x, rounded = square + coarse,
       rest = (square - (rounded - coarse)) + fine;
    return (sum){(vl)rounded, (vl)rest};
}

INLINE void add_to(uint64_t *at, vl more) { *(vl_loose *)at += more; }

// Adds the squares of elements to the sums of their columns, and returns the sum of them all.
INLINE sum add_stretch(zero_dtype type, const sums_job *job, int64_t at, int64_t count,
                       uint64_t *coarse, uint64_t *fine)
{
    const float scale = job->values->gradient_scale;
    const double units = 0x1p52 * job->values->coarse, parts = 0x1.8p52 * job->values->fine;
    const char *g = (const char *)job->gradient + at * bytes_of(type);
    // Of panels, the next row's is not what follows.
    const int64_t ahead = ZR_MAX(job->of->width * job->of->parts * bytes_of(type), AHEAD);
    sum row = {0};
    int64_t j = 0;
    for (; j + LINE <= count; j += LINE) {
        __builtin_prefetch(g + j * bytes_of(type) + ahead);
        for (int64_t k = j; k < j + LINE; k += HALF) {
            const sum s = square_in_units(half_get_as(type, g, k) * scale, units, parts);
            row.coarse += s.coarse, row.fine += s.fine;
            add_to(coarse + k, s.coarse), add_to(fine + k, s.fine);
        }
    }
    for (; j < count; j++) {
        vf_half one = {vf_get_as(type, g, j, 1)[0]};
        const sum s = square_in_units(one * scale, units, parts);
        row.coarse[0] += s.coarse[0], row.fine[0] += s.fine[0];
        coarse[j] += s.coarse[0], fine[j] += s.fine[0];
    }
    return row;
}

INLINE uint64_t lanes_of(vl v)
{
    uint64_t all = 0;
    for (int i = 0; i < HALF; i++)
        all += v[i];
    return all;
}

// shared: other tasks add to the same sum.
INLINE void add_units(int64_t *to, uint64_t coarse, uint64_t fine, bool shared)
{
    if (shared) {
        __atomic_fetch_add(&to[0], units_of_coarse(coarse), __ATOMIC_RELAXED);
        __atomic_fetch_add(&to[1], units_of_fine(fine), __ATOMIC_RELAXED);
    } else {
        to[0] = (int64_t)((uint64_t)to[0] + (uint64_t)units_of_coarse(coarse));
        to[1] = (int64_t)((uint64_t)to[1] + (uint64_t)units_of_fine(fine));
    }
}

// A task is a panel of columns of some rows of the matrix.
static void sum_task(const sums_job *job, int64_t task)
{
    const zr_factored *s = job->of;
    _Alignas(64) uint64_t sums[2 * PANEL + APART] = {0}, *coarse = sums,
                                           *fine = sums + PANEL + APART;
    int64_t panel = task % job->panels, part = task / job->panels % s->parts,
            row = task / job->panels / s->parts * job->high,
            end = ZR_MIN(row + job->high, zr_factored_rows(s)), column = panel * PANEL,
            wide = ZR_MIN(s->width - column, (int64_t)PANEL);
    for (; row < end; row++) {
        int64_t begin = (row * s->parts + part) * s->width + column, from = ZR_MAX(begin, s->first),
                to = ZR_MIN(begin + wide, s->first + s->count);
        sum all = {0};
        if (from >= to)
            continue;
        WITH_TYPE(TYPE, s->gradient,
                  all = add_stretch(TYPE, job, from - s->first, to - from, coarse + (from - begin),
                                    fine + (from - begin)));
        if (job->rows)
            add_units(&job->rows[2 * row], lanes_of(all.coarse), lanes_of(all.fine),
                      job->panels * s->parts > 1);
    }
    for (int64_t j = 0; j < wide; j++)
        add_units(&job->columns[2 * (part * s->stride + column + j)], coarse[j], fine[j],
                  job->shared);
}

static void sum_tasks(const void *job, int64_t first, int64_t last, int worker)
{
    for (int64_t task = first; task < last; task++)
        sum_task(job, task);
}

void ZR_CPU_TABLE(zr_cpu_factor_sums)(zr_queue *queue, const zr_factored *s,
                                      const zr_factored_values *values, const void *gradient,
                                      int64_t *rows, int64_t *columns)
{
    int64_t panels = (s->width + PANEL - 1) / PANEL, rows_of = zr_factored_rows(s),
            of_columns = panels * s->parts,
            blocks = ZR_MIN((2 * queue->threads + of_columns - 1) / of_columns, rows_of),
            high = queue->threads > 1 ? (rows_of + blocks - 1) / blocks : rows_of;
    const sums_job job = {.of = s,
                          .values = values,
                          .gradient = gradient,
                          .rows = rows,
                          .columns = columns,
                          .panels = panels,
                          .high = high,
                          .shared = high < rows_of};
    int64_t tasks = (rows_of + high - 1) / high * of_columns;
    zr_cpu_for(queue, tasks, ZR_MAX(tasks * WORTH / ZR_MAX(s->count, 1), 1), sum_tasks, &job);
}

// ---- directions ----

typedef struct direction_job {
    const zr_factored *of;
    const zr_factored_values *values;
    const void *gradient;
    const float *rows, *columns;
    double *sums;  // of squares
    float *master; // of an update
    void *parameters;
} direction_job;

// What directions of a piece need. It is copied, because what is written might be what a job points
// to.
typedef struct by_piece {
    const char *gradient;
    const float *columns;
    float *master;
    char *parameters;
    int64_t count;
    float row, scale, most, keep, step;
} by_piece;

INLINE char *copy_at(const direction_job *job, int64_t at)
{
    return job->parameters ? (char *)job->parameters + at * (int64_t)sizeof(uint16_t) : NULL;
}

// Returns the piece that begins at an element and ends before `end`.
INLINE by_piece piece_at(zero_dtype type, const direction_job *job, int64_t at, int64_t end)
{
    const zr_factored_piece piece = zr_factored_piece_at(job->of, at, end);
    return (by_piece){.gradient = (const char *)job->gradient + at * bytes_of(type),
                      .columns = job->columns + piece.column,
                      .master = job->master ? job->master + at : NULL,
                      .parameters = copy_at(job, at),
                      .count = piece.count,
                      .row = job->rows ? job->rows[piece.row] : 1,
                      .scale = job->values->gradient_scale,
                      .most = job->values->most,
                      .keep = job->values->keep,
                      .step = job->values->step};
}

// Returns the directions of elements j .. j+left-1.
INLINE vf direction(zero_dtype type, const by_piece *of, int64_t j, int64_t left)
{
    vf g = vf_get_as(type, of->gradient, j, left) * of->scale;
    return g * vf_min(vf_get(of->columns + j, left) * of->row, vf_all(of->most));
}

typedef struct lanes { // double k sums every sixteenth element of a piece, beginning with k
    vd part[LINE / HALF];
} lanes;

INLINE void add_squares_of(vf u, vd *sum) // two of HALF
{
    vf_half half[2];
    memcpy(half, &u, sizeof half);
    for (int k = 0; k < 2; k++)
        sum[k] += vd_from(half[k]) * vd_from(half[k]);
}

INLINE void add_directions(zero_dtype type, const direction_job *job, int64_t at, int64_t end,
                           lanes *total)
{
    lanes sum = *total;
    for (int64_t count; at < end; at += count) {
        const by_piece of = piece_at(type, job, at, end);
        int64_t j = 0;
        count = of.count;
        for (; j + LINE <= count; j += LINE) {
            __builtin_prefetch(of.gradient + j * bytes_of(type) + 4 * AHEAD);
            for (int k = 0; k < LINE / LANES; k++)
                add_squares_of(direction(type, &of, j + k * LANES, LANES), &sum.part[2 * k]);
        }
        for (int k = 0; j < count; j += LANES, k++)
            add_squares_of(direction(type, &of, j, count - j), &sum.part[2 * k]);
    }
    *total = sum;
}

// Adds as a tree: lane i and lane i + half.
INLINE double sum_of_lanes(const lanes *sum)
{
    double lane[LINE];
    memcpy(lane, sum, sizeof lane);
    for (int half = LINE / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

static void square_tasks(const void *job_, int64_t first, int64_t last, int worker)
{
    const direction_job *job = job_;
    const zr_squares chunks = zr_factored_chunks(job->of);
    for (int64_t k = first; k < last; k++) {
        lanes sum = {0};
        WITH_TYPE(TYPE, job->of->gradient,
                  add_directions(TYPE, job, zr_squares_part(&chunks, k),
                                 zr_squares_part(&chunks, k + 1), &sum));
        job->sums[k] = sum_of_lanes(&sum);
    }
}

void ZR_CPU_TABLE(zr_cpu_factored_squares)(zr_queue *queue, const zr_factored *s,
                                           const zr_factored_values *values, const void *gradient,
                                           const float *rows, const float *columns, double *sums)
{
    const direction_job job = {.of = s,
                               .values = values,
                               .gradient = gradient,
                               .rows = rows,
                               .columns = columns,
                               .sums = sums};
    zr_cpu_for(queue, zr_factored_sums(s), WORTH / ZR_SQUARES_CHUNK, square_tasks, &job);
}

// ---- updates ----

INLINE void update_vector(zero_dtype type, zero_dtype copy, const by_piece *of, int64_t j,
                          int64_t left)
{
    vf p = vf_get(of->master + j, left) * of->keep - direction(type, of, j, left) * of->step;
    vf_put(of->master + j, left, p);
    if (copy != ZERO_F32)
        vf_put_as(copy, of->parameters, j, left, p);
}

INLINE void update_stretch(zero_dtype type, zero_dtype copy, const direction_job *job, int64_t at,
                           int64_t end)
{
    for (int64_t count; at < end; at += count) {
        const by_piece of = piece_at(type, job, at, end);
        int64_t j = 0;
        count = of.count;
        for (; j + LINE <= count; j += LINE) {
            __builtin_prefetch((const char *)(of.master + j) + AHEAD, 1);
            __builtin_prefetch(of.gradient + j * bytes_of(type) + AHEAD);
            for (int64_t k = j; k < j + LINE; k += LANES)
                update_vector(type, copy, &of, k, LANES);
        }
        for (; j < count; j += LANES)
            update_vector(type, copy, &of, j, count - j);
    }
}

static void update_tasks(const void *job_, int64_t first, int64_t last, int worker)
{
    const direction_job *job = job_;
    int64_t end = ZR_MIN(last * UNIT, job->of->count);
    zero_dtype copied = job->parameters ? job->of->parameters : ZERO_F32;
    WITH_TYPE(TYPE, job->of->gradient,
              WITH_TYPE(COPY, copied, update_stretch(TYPE, COPY, job, first * UNIT, end)));
}

void ZR_CPU_TABLE(zr_cpu_factored_update)(zr_queue *queue, const zr_factored *s,
                                          const zr_factored_values *values, float *master,
                                          const void *gradient, const float *rows,
                                          const float *columns, void *parameters)
{
    const direction_job job = {.of = s,
                               .values = values,
                               .gradient = gradient,
                               .rows = rows,
                               .columns = columns,
                               .master = master,
                               .parameters = parameters};
    assert(!parameters || s->parameters != ZERO_F32);
    zr_cpu_for(queue, (s->count + UNIT - 1) / UNIT, WORTH / UNIT, update_tasks, &job);
}
