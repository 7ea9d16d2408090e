// Products of a few rows, as in decoding: bound by the memory that B comes from, so B is read once, as it lies, and not packed.
//
//   B as stored (k,n): a few rows of B at a time are added to a stretch of D's sums, which stay in the first-level cache
//   B as stored (n,k): squares of B are transposed in registers, and summed up there for as many columns of D
//
// Invariant: as in cpu_product_tile.h, and to the same bits: each sum is one chain in the order of k.
#include "compute/cpu/cpu.h"
#include "compute/cpu/cpu_product_pack.h"

#define UNIT 64          // columns of D: tasks are cut there; a multiple of 2 * LANES
#define SUMS 4096        // floats that are kept together, of all rows
#define STRETCH 2048     // columns of them, at most
#define STEPS 4          // rows of B that are added at a time
#define LEAST (1 << 15)  // elements of B that are worth a thread

typedef struct job {
    zr_operands of;
    const float *a; // (m, a_row), fp32
    int64_t a_row;
    float *sums;     // (threads, SUMS)
    int64_t stretch; // columns; a multiple of UNIT
} job;

// Sums of `rows` rows, `step` apart, get `steps` rows of B: from element `first` on, p->n apart.
INLINE void add_steps(zero_dtype type, int rows, int steps, const job *work, const float *a, int64_t first, int64_t columns,
                      float *sums)
{
    const uint16_t *half = work->of.b;
    const float *full = work->of.b;
    int64_t step = work->of.product->n;
    vf factor[2][STEPS];
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < steps; s++)
            factor[r][s] = vf_all(a[r * work->a_row + s]);
    for (int64_t c = 0; c < columns; c += LANES) {
        vf x[STEPS];
        for (int s = 0; s < steps; s++) {
            int64_t at = first + s * step + c;
            __builtin_prefetch(type == ZERO_F32 ? (const void *)(full + at + steps * step) : half + at + steps * step);
            x[s] = vf_get_as(type, work->of.b, at, columns - c);
        }
        for (int r = 0; r < rows; r++) {
            vf sum = vf_load(sums + r * work->stretch + c);
            for (int s = 0; s < steps; s++)
                sum += factor[r][s] * x[s];
            vf_store(sums + r * work->stretch + c, sum);
        }
    }
}

INLINE void sum_steps(zero_dtype type, const job *work, int64_t j, int64_t columns, float *sums)
{
    const zr_product *p = work->of.product;
    for (int64_t t = 0; t < p->k;) {
        bool several = t + STEPS <= p->k;
        for (int64_t r = 0; r < p->m; r += 2) {
            const float *a = work->a + r * work->a_row + t;
            float *at = sums + r * work->stretch;
            if (several && r + 2 <= p->m)
                add_steps(type, 2, STEPS, work, a, t * p->n + j, columns, at);
            else if (several)
                add_steps(type, 1, STEPS, work, a, t * p->n + j, columns, at);
            else
                for (int64_t one = r; one < ZR_MIN(r + 2, p->m); one++, a += work->a_row, at += work->stretch)
                    add_steps(type, 1, 1, work, a, t * p->n + j, columns, at);
        }
        t += several ? STEPS : 1;
    }
}

// Sums of `rows` rows, for groups * LANES columns: as many rows of B, of which there are `left`, from element `first` on.
INLINE void add_columns(zero_dtype type, int rows, int groups, const job *work, const float *a, int64_t first, int64_t left,
                        float *sums)
{
    int64_t k = work->of.product->k;
    vf sum[4][2];
    for (int r = 0; r < rows; r++)
        for (int g = 0; g < groups; g++)
            sum[r][g] = vf_load(sums + r * work->stretch + g * LANES);
    for (int64_t t = 0; t < k; t += LANES)
        for (int g = 0; g < groups; g++) {
            vf x[LANES];
            rows_get(type, work->of.b, first + g * LANES * k + t, k, ZR_MAX(0, left - g * LANES), k - t, x);
            transpose(x);
            if (__builtin_expect(k - t >= LANES, 1))
                for (int i = 0; i < LANES; i++)
                    for (int r = 0; r < rows; r++)
                        sum[r][g] += vf_all(a[r * work->a_row + t + i]) * x[i];
            else
                for (int64_t i = 0; i < k - t; i++)
                    for (int r = 0; r < rows; r++)
                        sum[r][g] += vf_all(a[r * work->a_row + t + i]) * x[i];
        }
    for (int r = 0; r < rows; r++)
        for (int g = 0; g < groups; g++)
            vf_store(sums + r * work->stretch + g * LANES, sum[r][g]);
}

INLINE void sum_columns(zero_dtype type, const job *work, int64_t j, int64_t columns, float *sums)
{
    const zr_product *p = work->of.product;
    for (int64_t c = 0; c < columns; c += 2 * LANES)
        for (int64_t r = 0; r < p->m;) {
            int64_t rows = p->m - r, first = (j + c) * p->k;
            const float *a = work->a + r * work->a_row;
            float *at = sums + r * work->stretch + c;
            if (rows >= 4) {
                add_columns(type, 4, 1, work, a, first, columns - c, at);
                add_columns(type, 4, 1, work, a, first + LANES * p->k, columns - c - LANES, at + LANES);
                r += 4;
            } else if (rows >= 2) {
                add_columns(type, 2, 2, work, a, first, columns - c, at);
                r += 2;
            } else {
                add_columns(type, 1, 2, work, a, first, columns - c, at);
                r += 1;
            }
        }
}

// Columns j .. j+columns-1 of D.
static void multiply_stretch(const job *work, int64_t j, int64_t columns, float *sums)
{
    const zr_product *p = work->of.product;
    for (int64_t r = 0; r < p->m; r++) {
        float *row = sums + r * work->stretch;
        memset(row, 0, sizeof(float) * (size_t)work->stretch);
        if (p->add)
            memcpy(row, (const float *)work->of.d + r * p->n + j, sizeof(float) * (size_t)columns);
    }
    if (p->trans_b)
        WITH_TYPE(TYPE, p->dtype, sum_columns(TYPE, work, j, columns, sums));
    else
        WITH_TYPE(TYPE, p->dtype, sum_steps(TYPE, work, j, columns, sums));
    for (int64_t r = 0; r < p->m; r++)
        sums_finish(&work->of, r, j, columns, sums + r * work->stretch);
}

static void multiply_units(const void *job_, int64_t first, int64_t last, int worker)
{
    const job *work = job_;
    int64_t end = ZR_MIN(last * UNIT, work->of.product->n);
    for (int64_t j = first * UNIT; j < end; j += work->stretch)
        multiply_stretch(work, j, ZR_MIN(work->stretch, end - j), work->sums + worker * SUMS);
}

#define A_ROW(k) ZR_ROUND_UP(k, 16)

INLINE void pack_a_straight(zero_dtype type, int gelu, const zr_product *p, const void *a, float *to)
{
    for (int64_t r = 0; r < p->m; r++)
        for (int64_t t = 0; t < p->k; t += LANES)
            vf_store(to + r * A_ROW(p->k) + t, packed_a(type, gelu, a, r * p->k + t, p->k - t));
}

// A as stored (k,m), to rows.
INLINE void pack_a_columns(zero_dtype type, int gelu, const zr_product *p, const void *a, float *to)
{
    for (int64_t t = 0; t < p->k; t++)
        for (int64_t r = 0; r < p->m; r += LANES) {
            vf x = packed_a(type, gelu, a, t * p->m + r, p->m - r);
            for (int64_t i = 0; i < ZR_MIN(LANES, p->m - r); i++)
                to[(r + i) * A_ROW(p->k) + t] = x[i];
        }
}

static void pack_a(const zr_operands *of, float *to)
{
    const zr_product *p = of->product;
    if (p->trans_a && p->gelu_a)
        WITH_TYPE(TYPE, p->dtype, pack_a_columns(TYPE, 1, p, of->a, to));
    else if (p->trans_a)
        WITH_TYPE(TYPE, p->dtype, pack_a_columns(TYPE, 0, p, of->a, to));
    else if (p->gelu_a)
        WITH_TYPE(TYPE, p->dtype, pack_a_straight(TYPE, 1, p, of->a, to));
    else
        WITH_TYPE(TYPE, p->dtype, pack_a_straight(TYPE, 0, p, of->a, to));
}

static size_t scratch(zr_queue *queue, const zr_product *product)
{
    return sizeof(float) * (size_t)(queue->threads * SUMS + product->m * A_ROW(product->k));
}

// A is packed by the calling thread: it is small.
static zero_status run(zr_queue *queue, const zr_product *product, const void *a, const void *b, const void *operand,
                       void *d, zero_error *error)
{
    float *sums = queue->scratch, *packed = sums + queue->threads * SUMS;
    job work = {.of = {.product = product, .a = a, .b = b, .operand = operand, .d = d},
                .a = packed,
                .a_row = A_ROW(product->k),
                .sums = sums,
                .stretch = ZR_MIN(STRETCH, SUMS / product->m / UNIT * UNIT)};
    pack_a(&work.of, packed);
    zr_cpu_for(queue, (product->n + UNIT - 1) / UNIT, 1 + LEAST / UNIT / ZR_MAX(1, product->k), multiply_units, &work);
    return ZERO_OK;
}

const zr_product_ops ZR_CPU_TABLE(zr_cpu_thin_ops) = {
    .scratch = scratch,
    .run = run,
};
