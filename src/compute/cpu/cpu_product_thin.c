// Products of up to eight rows, as in decoding. They are bound by the memory from which B comes, so
// B is read once, as it lies, and is not packed. Rows are computed one, two, four or eight at a
// time; the rows that fill up are zeros.
//
// B stored as (k,n): a few rows of B at a time are added to a stretch of D's sums, which stay in
// the first-level cache.
// B stored as (n,k): squares of B are transposed in registers and summed there, for as many columns
// of D. If B is in codes, the rows of some columns are widened first, some elements at a time.
//
// Invariant: as in cpu_product_tile.h, with the same bits: each sum is one chain in the order of k.
#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_product_codes.h"
#include "compute/cpu/cpu_product_finish.h"
#include "compute/cpu/cpu_product_pack.h"

#define UNIT (16 * LANES)                 // columns of D; tasks are cut at multiples
#define SUMS 4096                         // sums that are kept together
#define STRETCH 2048                      // columns of D in a stretch, at most; a multiple of UNIT
#define STEPS 4                           // rows of B that are added at a time
#define GROUPS(rows) ((rows) > 4 ? 1 : 2) // squares of B next to each other
#define LEAST (1 << 15)                   // elements of B worth a thread
#define WIDE 512                          // elements of a row that are widened at a time

// Floats of a worker into which rows of a B in codes are widened.
static int64_t wide_floats(const zr_product *p) { return p->format ? 2 * LANES * WIDE : 0; }

typedef struct job {
    zr_operands of;
    const float *a;  // panels as in cpu_product_pack.h
    float *sums;     // (threads, SUMS)
    float *wide;     // (threads, 2 * LANES, WIDE) if B is in codes
    int rows;        // 1, 2, 4 or 8
    int64_t stretch; // columns of sums
} job;

// Returns where word t of A's row r lies; the next words of its chunk follow.
static inline const float *a_at(const job *work, int64_t r, int64_t t)
{
    return work->a + r / MR * A_PANEL(steps_of(work->of.product)) + t / LANES * MR * LANES +
           r % MR * LANES + t % LANES;
}

// Adds `steps` words of B's columns to the sums of one vector of columns. The first begins at
// element `at`; `left` columns exist, and `depth` rows.
INLINE void add_vector(zero_dtype type, bool pairs, int rows, int steps,
                       vf factor[THIN_ROWS][STEPS], const job *work, int64_t at, int64_t left,
                       int64_t depth, float *sums)
{
    int64_t stretch = work->stretch, step = work->of.product->n, of_word = pairs ? 2 : 1;
    vf x[STEPS];
    for (int s = 0; s < steps; s++)
        x[s] = words_across(type, pairs, 0, work->of.b, at + s * of_word * step, step, left,
                            depth - s * of_word);
    for (int r = 0; r < rows; r++) {
        vf sum = vf_load(sums + r * stretch);
        for (int s = 0; s < steps; s++)
            sum = vf_add_product(pairs, sum, factor[r][s], x[s]);
        vf_store(sums + r * stretch, sum);
    }
}

// Adds words t .. t+steps-1 of B, from column j on, to the sums.
INLINE void add_steps(zero_dtype type, bool pairs, int rows, int steps, const job *work, int64_t t,
                      int64_t j, int64_t columns, float *sums)
{
    int64_t row = t * (pairs ? 2 : 1), depth = work->of.product->k - row,
            at = row * work->of.product->n + j, c = 0;
    vf factor[THIN_ROWS][STEPS];
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < steps; s++)
            factor[r][s] = vf_all(a_at(work, r, t)[s]);
    for (; c + LANES <= columns; c += LANES)
        add_vector(type, pairs, rows, steps, factor, work, at + c, LANES, depth, sums + c);
    if (c < columns)
        add_vector(type, pairs, rows, steps, factor, work, at + c, columns - c, depth, sums + c);
}

INLINE void sum_steps(zero_dtype type, bool pairs, int rows, const job *work, int64_t j,
                      int64_t columns, float *sums)
{
    int64_t t = 0, words = steps_of(work->of.product);
    for (; t + STEPS <= words; t += STEPS)
        add_steps(type, pairs, rows, STEPS, work, t, j, columns, sums);
    for (; t < words; t++)
        add_steps(type, pairs, rows, 1, work, t, j, columns, sums);
}

typedef struct b_rows { // rows of B: element t of row r is at `at`[r * step + t - first]
    const void *at;
    int64_t first, step;
    int64_t rows, end; // those that exist; the elements before `end` do
} b_rows;

// Adds squares of B's next GROUPS*LANES rows at words t .. t+count-1.
INLINE void add_squares(zero_dtype type, bool pairs, int rows, const job *work, const b_rows *b,
                        int64_t t, int64_t count, vf sum[THIN_ROWS][2])
{
    int64_t from = t * (pairs ? 2 : 1);
    for (int g = 0; g < GROUPS(rows); g++) {
        vf x[LANES];
        word_rows_get(type, pairs, b->at, g * LANES * b->step + from - b->first, b->step,
                      ZR_MAX(0, b->rows - g * LANES), b->end - from, x);
        transpose(x);
        for (int i = 0; i < count; i++)
            for (int r = 0; r < rows; r++)
                sum[r][g] = vf_add_product(pairs, sum[r][g], vf_all(a_at(work, r, t)[i]), x[i]);
    }
}

// Adds the words from t to `end` of B's next rows.
INLINE void add_rows(zero_dtype type, bool pairs, int rows, const job *work, const b_rows *b,
                     int64_t t, int64_t end, vf sum[THIN_ROWS][2])
{
    for (; t + LANES <= end; t += LANES)
        add_squares(type, pairs, rows, work, b, t, LANES, sum);
    if (t < end)
        add_squares(type, pairs, rows, work, b, t, end - t, sum);
}

// The same of rows j .. j+GROUPS*LANES-1 (`left` exist) of a B in codes.
INLINE void add_code_rows(zero_dtype type, bool pairs, int rows, const job *work, int64_t j,
                          int64_t left, float *wide, vf sum[THIN_ROWS][2])
{
    int64_t k = work->of.product->k, of_word = pairs ? 2 : 1;
    b_rows b = {.at = wide, .rows = ZR_MIN(left, (int64_t)GROUPS(rows) * LANES)};
    for (int64_t t = 0; t < k; t += WIDE) {
        b.first = t;
        b.step = ZR_MIN((int64_t)WIDE, k - t);
        b.end = t + b.step;
        codes_widen(type, &work->of, j, b.rows, t, b.step, wide);
        add_rows(type, pairs, rows, work, &b, t / of_word, words_of(pairs, b.end), sum);
    }
}

INLINE void sum_columns(zero_dtype type, bool pairs, int rows, const job *work, int64_t j,
                        int64_t columns, float *sums, float *wide)
{
    const zr_product *p = work->of.product;
    for (int64_t c = 0; c < columns; c += GROUPS(rows) * LANES) {
        vf sum[THIN_ROWS][2];
        for (int r = 0; r < rows; r++)
            for (int g = 0; g < GROUPS(rows); g++)
                sum[r][g] = vf_load(sums + r * work->stretch + c + g * LANES);
        const b_rows b = {.at = work->of.b,
                          .first = -(j + c) * p->k,
                          .step = p->k,
                          .rows = columns - c,
                          .end = p->k};
        if (p->format)
            add_code_rows(type, pairs, rows, work, j + c, columns - c, wide, sum);
        else
            add_rows(type, pairs, rows, work, &b, 0, steps_of(p), sum);
        for (int r = 0; r < rows; r++)
            for (int g = 0; g < GROUPS(rows); g++)
                vf_store(sums + r * work->stretch + c + g * LANES, sum[r][g]);
    }
}

INLINE void sum_as(zero_dtype type, bool pairs, int rows, const job *work, int64_t j,
                   int64_t columns, float *sums, float *wide)
{
    if (work->of.product->trans_b)
        sum_columns(type, pairs, rows, work, j, columns, sums, wide);
    else
        sum_steps(type, pairs, rows, work, j, columns, sums);
}

INLINE void sum_rows_of(int rows, const job *work, int64_t j, int64_t columns, float *sums,
                        float *wide)
{
    const zr_product *p = work->of.product;
    if (HAS_PAIRS && in_pairs(p))
        sum_as(ZERO_BF16, true, rows, work, j, columns, sums, wide);
    else
        WITH_TYPE(TYPE, p->dtype, sum_as(TYPE, false, rows, work, j, columns, sums, wide));
}

static void sum_rows(const job *work, int64_t j, int64_t columns, float *sums, float *wide)
{
    if (work->rows == 1)
        sum_rows_of(1, work, j, columns, sums, wide);
    else if (work->rows == 2)
        sum_rows_of(2, work, j, columns, sums, wide);
    else if (work->rows == 4)
        sum_rows_of(4, work, j, columns, sums, wide);
    else
        sum_rows_of(8, work, j, columns, sums, wide);
}

// Computes columns j .. j+columns-1 of D.
static void multiply_stretch(const job *work, int64_t j, int64_t columns, int worker)
{
    float *sums = work->sums + worker * SUMS,
          *wide = work->wide + worker * wide_floats(work->of.product);
    const zr_product *p = work->of.product;
    for (int64_t r = 0; r < work->rows; r++) {
        memset(sums + r * work->stretch, 0, sizeof(float) * (size_t)ZR_ROUND_UP(columns, UNIT));
        if (p->add && r < p->m)
            memcpy(sums + r * work->stretch, (const float *)work->of.d + r * p->n + j,
                   sizeof(float) * (size_t)columns);
    }
    sum_rows(work, j, columns, sums, wide);
    sums_finish(&work->of, 0, j, p->m, columns, sums, work->stretch);
}

static void multiply_units(const void *job_, int64_t first, int64_t last, int worker)
{
    const job *work = job_;
    int64_t end = ZR_MIN(last * UNIT, work->of.product->n);
    for (int64_t j = first * UNIT; j < end; j += work->stretch)
        multiply_stretch(work, j, ZR_MIN(work->stretch, end - j), worker);
}

size_t ZR_CPU_TABLE(zr_cpu_thin_scratch)(const zr_queue *queue, const zr_product *product)
{
    return sizeof(float) * (size_t)(queue->threads * (SUMS + wide_floats(product)) +
                                    ZR_ROUND_UP(product->m, MR) / MR * A_PANEL(product->k) +
                                    LANES * ZR_ROUND_UP(THIN_ROWS, LANES));
}

void ZR_CPU_TABLE(zr_cpu_thin_product)(zr_queue *queue, const zr_operands *of)
{
    const zr_product *product = of->product;
    float *sums = queue->scratch, *wide = sums + queue->threads * SUMS,
          *row = wide + queue->threads * wide_floats(product),
          *packed = row + LANES * ZR_ROUND_UP(THIN_ROWS, LANES);
    int rows = product->m > 4 ? 8 : product->m > 2 ? 4 : (int)product->m;
    job work = {.of = *of,
                .a = packed,
                .sums = sums,
                .wide = wide,
                .rows = rows,
                .stretch = ZR_MIN(STRETCH, SUMS / rows)};
    pack_a(&work.of, 0, product->m, 0, product->k, packed, row);
    zr_cpu_for(queue, (product->n + UNIT - 1) / UNIT, 1 + LEAST / UNIT / ZR_MAX(1, product->k),
               multiply_units, &work);
}
