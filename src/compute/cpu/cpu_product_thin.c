// Products of one or two rows, as in decoding: bound by the memory that B comes from, so B is read once, as it lies, and not
// packed.
//
//   B as stored (k,n): a few rows of B at a time are added to a stretch of D's sums, which stay in the first-level cache
//   B as stored (n,k): squares of B are transposed in registers, and summed up there for as many columns of D
//
// Invariant: as in cpu_product_tile.h, and to the same bits: each sum is one chain in the order of k.
#include "compute/cpu/cpu.h"
#include "compute/cpu/cpu_product_pack.h"

#define UNIT (16 * LANES) // columns of D: tasks are cut there
#define STRETCH 2048      // columns of D whose sums are kept together; a multiple of UNIT
#define STEPS 4           // rows of B that are added at a time
#define GROUPS 2          // squares of B side by side
#define LEAST (1 << 15)   // elements of B that are worth a thread

typedef struct job {
    zr_operands of;
    const float *a; // one panel, as cpu_product_pack.h lays it out
    float *sums;    // (threads, THIN_ROWS, STRETCH)
} job;

// Where step t of A's row r lies; the next ones of its chunk follow.
static inline const float *a_at(const job *work, int64_t r, int64_t t)
{
    return work->a + t / LANES * MR * LANES + r * LANES + t % LANES;
}

// Sums of one vector of columns get `steps` rows of B, `step` apart: from element `at` on, of which `left` exist.
INLINE void add_vector(zero_dtype type, int rows, int steps, vf factor[THIN_ROWS][STEPS], const void *b, int64_t at,
                       int64_t step, int64_t left, float *sums)
{
    vf x[STEPS];
    for (int s = 0; s < steps; s++)
        x[s] = vf_get_as(type, b, at + s * step, left);
    for (int r = 0; r < rows; r++) {
        vf sum = vf_load(sums + r * STRETCH);
        for (int s = 0; s < steps; s++)
            sum += factor[r][s] * x[s];
        vf_store(sums + r * STRETCH, sum);
    }
}

// Sums get rows t .. t+steps-1 of B, from column j on.
INLINE void add_steps(zero_dtype type, int rows, int steps, const job *work, int64_t t, int64_t j, int64_t columns,
                      float *sums)
{
    int64_t step = work->of.product->n, at = t * step + j, c = 0;
    const void *b = work->of.b;
    vf factor[THIN_ROWS][STEPS];
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < steps; s++)
            factor[r][s] = vf_all(a_at(work, r, t)[s]);
    for (; c + LANES <= columns; c += LANES)
        add_vector(type, rows, steps, factor, b, at + c, step, LANES, sums + c);
    if (c < columns)
        add_vector(type, rows, steps, factor, b, at + c, step, columns - c, sums + c);
}

INLINE void sum_steps(zero_dtype type, int rows, const job *work, int64_t j, int64_t columns, float *sums)
{
    int64_t t = 0, k = work->of.product->k;
    for (; t + STEPS <= k; t += STEPS)
        add_steps(type, rows, STEPS, work, t, j, columns, sums);
    for (; t < k; t++)
        add_steps(type, rows, 1, work, t, j, columns, sums);
}

// Squares of B's rows j .. j+GROUPS*LANES-1, of which `left` exist, at steps t .. t+count-1.
INLINE void add_squares(zero_dtype type, int rows, const job *work, int64_t t, int64_t j, int64_t left, int64_t count,
                        vf sum[THIN_ROWS][GROUPS])
{
    int64_t k = work->of.product->k;
    for (int g = 0; g < GROUPS; g++) {
        vf x[LANES];
        rows_get(type, work->of.b, (j + g * LANES) * k + t, k, ZR_MAX(0, left - g * LANES), count, x);
        transpose(x);
        for (int i = 0; i < count; i++)
            for (int r = 0; r < rows; r++)
                sum[r][g] += vf_all(a_at(work, r, t)[i]) * x[i];
    }
}

INLINE void sum_columns(zero_dtype type, int rows, const job *work, int64_t j, int64_t columns, float *sums)
{
    int64_t k = work->of.product->k;
    for (int64_t c = 0; c < columns; c += GROUPS * LANES) {
        vf sum[THIN_ROWS][GROUPS];
        int64_t t = 0;
        for (int r = 0; r < rows; r++)
            for (int g = 0; g < GROUPS; g++)
                sum[r][g] = vf_load(sums + r * STRETCH + c + g * LANES);
        for (; t + LANES <= k; t += LANES)
            add_squares(type, rows, work, t, j + c, columns - c, LANES, sum);
        if (t < k)
            add_squares(type, rows, work, t, j + c, columns - c, k - t, sum);
        for (int r = 0; r < rows; r++)
            for (int g = 0; g < GROUPS; g++)
                vf_store(sums + r * STRETCH + c + g * LANES, sum[r][g]);
    }
}

static void sum_rows(const job *work, int64_t j, int64_t columns, float *sums)
{
    const zr_product *p = work->of.product;
    if (p->trans_b && p->m == 1)
        WITH_TYPE(TYPE, p->dtype, sum_columns(TYPE, 1, work, j, columns, sums));
    else if (p->trans_b)
        WITH_TYPE(TYPE, p->dtype, sum_columns(TYPE, 2, work, j, columns, sums));
    else if (p->m == 1)
        WITH_TYPE(TYPE, p->dtype, sum_steps(TYPE, 1, work, j, columns, sums));
    else
        WITH_TYPE(TYPE, p->dtype, sum_steps(TYPE, 2, work, j, columns, sums));
}

// Columns j .. j+columns-1 of D.
static void multiply_stretch(const job *work, int64_t j, int64_t columns, float *sums)
{
    const zr_product *p = work->of.product;
    for (int64_t r = 0; r < p->m; r++) {
        memset(sums + r * STRETCH, 0, sizeof(float) * (size_t)ZR_ROUND_UP(columns, UNIT));
        if (p->add)
            memcpy(sums + r * STRETCH, (const float *)work->of.d + r * p->n + j, sizeof(float) * (size_t)columns);
    }
    sum_rows(work, j, columns, sums);
    sums_finish(&work->of, 0, j, p->m, columns, sums, STRETCH);
}

static void multiply_units(const void *job_, int64_t first, int64_t last, int worker)
{
    const job *work = job_;
    int64_t end = ZR_MIN(last * UNIT, work->of.product->n);
    for (int64_t j = first * UNIT; j < end; j += STRETCH)
        multiply_stretch(work, j, ZR_MIN(STRETCH, end - j), work->sums + worker * THIN_ROWS * STRETCH);
}

static size_t scratch(zr_queue *queue, const zr_product *product)
{
    return sizeof(float) * (size_t)(queue->threads * THIN_ROWS * STRETCH + A_PANEL(product->k) + LANES * LANES);
}

// A is packed by the calling thread: it is small.
static zero_status run(zr_queue *queue, const zr_product *product, const void *a, const void *b, const void *operand,
                       void *d, zero_error *error)
{
    float *sums = queue->scratch, *row = sums + queue->threads * THIN_ROWS * STRETCH, *packed = row + LANES * LANES;
    job work = {.of = {.product = product, .a = a, .b = b, .operand = operand, .d = d}, .a = packed, .sums = sums};
    pack_a(&work.of, 0, product->m, 0, product->k, packed, row);
    zr_cpu_for(queue, (product->n + UNIT - 1) / UNIT, 1 + LEAST / UNIT / ZR_MAX(1, product->k), multiply_units, &work);
    return ZERO_OK;
}

const zr_product_ops ZR_CPU_TABLE(zr_cpu_thin_ops) = {
    .scratch = scratch,
    .run = run,
};
