// Muon's iteration. The workspace:
//
//   [ sums fp32 (rows, cols) | gram (n, n) | factor (n, n) | q (n, n) ]   the last two: gram only
//
// sums holds a product until it is weighted, added to and rounded; X stays where the matrix lies,
// in bf16 or fp16.
#include "engine/orthogonal.h"
#include "base/dtype.h"
#include "base/numbers.h"
#include "memory/arena.h"

#include <math.h>

typedef struct iteration { // of one matrix
    zr_queue *queue;
    const zr_orthogonal *of;
    bool tall;        // X is the matrix's transpose
    bool on_gram;     // the steps are made on gram alone
    int64_t n, m;     // X (n, m)
    zero_dtype dtype; // of X and what follows
    uint16_t *x;
    float *sums;
    uint16_t *gram;   // R, or A and then B
    uint16_t *factor; // Z
    uint16_t *q;
} iteration;

static iteration describe(zr_queue *queue, const zr_orthogonal *of)
{
    return (iteration){
        .queue = queue,
        .of = of,
        .tall = of->rows > of->cols,
        .on_gram = zr_orthogonal_on_gram(of),
        .n = ZR_MIN(of->rows, of->cols),
        .m = ZR_MAX(of->rows, of->cols),
        .dtype = of->method == ZR_ORTHOGONAL_GRAM ? ZERO_F16 : ZERO_BF16,
    };
}

// ---- its products ----

// X X^T
static zr_product gram_product(const iteration *at)
{
    return (zr_product){.dtype = at->dtype,
                        .out = at->dtype,
                        .m = at->n,
                        .n = at->n,
                        .k = at->m,
                        .trans_a = at->tall,
                        .trans_b = !at->tall};
}

static zr_product square_product(const iteration *at)
{
    return (zr_product){.dtype = at->dtype, .out = ZERO_F32, .m = at->n, .n = at->n, .k = at->n};
}

// F X of a square F; of a tall matrix, which is X^T: X^T F^T.
static zr_product wide_product(const iteration *at)
{
    return (zr_product){.dtype = at->dtype,
                        .out = ZERO_F32,
                        .m = at->of->rows,
                        .n = at->of->cols,
                        .k = at->n,
                        .trans_b = at->tall};
}

size_t zr_orthogonal_scratch(zr_queue *queue, const zr_orthogonal *of)
{
    const iteration at = describe(queue, of);
    const zr_product products[] = {gram_product(&at), square_product(&at), wide_product(&at)};
    size_t most = 0;
    for (int i = 0; i < ZR_COUNT(products); i++)
        most =
            ZR_MAX(most, zr_op_scratch(queue, zr_op_product(&products[i], NULL, NULL, NULL, NULL)));
    return most;
}

static void make_gram(const iteration *at)
{
    const zr_product product = gram_product(at);
    zr_run(at->queue, zr_op_product(&product, at->x, at->x, NULL, at->gram));
}

static void multiply_squares(const iteration *at, const uint16_t *left, const uint16_t *right)
{
    const zr_product product = square_product(at);
    zr_run(at->queue, zr_op_product(&product, left, right, NULL, at->sums));
}

static void multiply_x(const iteration *at, const uint16_t *factor)
{
    const zr_product product = wide_product(at);
    zr_run(at->queue, at->tall ? zr_op_product(&product, at->x, factor, NULL, at->sums)
                               : zr_op_product(&product, factor, at->x, NULL, at->sums));
}

// ---- its steps ----

// out = of_sum * sums + of_x * x, n elements
static void mix_sums(const iteration *at, int64_t n, double of_sum, double of_x, const uint16_t *x,
                     uint16_t *out)
{
    const zr_weighted weighted = {
        .dtype = at->dtype, .n = n, .of_sum = (float)of_sum, .of_x = (float)of_x};
    zr_run(at->queue, zr_op_weighted_sum(&weighted, at->sums, x, out));
}

static void run_standard_step(const iteration *at)
{
    const zr_orthogonal *of = at->of;
    make_gram(at);
    multiply_squares(at, at->gram, at->gram);
    mix_sums(at, at->n * at->n, of->c, of->b, at->gram, at->gram);
    multiply_x(at, at->gram);
    mix_sums(at, at->n * at->m, 1, of->a, at->x, at->x);
}

// X = Q X
static void apply_q(const iteration *at)
{
    const zr_conversion narrow = {.from = ZERO_F32, .to = at->dtype, .n = at->n * at->m};
    multiply_x(at, at->q);
    zr_run(at->queue, zr_op_convert(&narrow, at->sums, at->x));
}

// Q = a I + Z
static void begin_q(const iteration *at)
{
    const int64_t n = at->n, size = sizeof(uint16_t);
    uint16_t *a = (uint16_t *)(void *)at->sums; // which is free until the next product
    *a = zr_f32_to_f16((float)at->of->a);
    zr_run(at->queue, zr_op_fill(&(zr_bytes){n * n * size}, at->q));
    zr_run(at->queue, zr_op_copy_rows(&(zr_strided){n, size, 0, (n + 1) * size}, a, at->q));
    zr_run(at->queue, zr_op_add(&(zr_sum){at->dtype, at->dtype, n * n}, at->q, at->factor, at->q));
}

// square = a square + Z square
static void multiply_in_place(const iteration *at, uint16_t *square)
{
    multiply_squares(at, at->factor, square);
    mix_sums(at, at->n * at->n, 1, at->of->a, square, square);
}

static void run_gram_step(const iteration *at, int step)
{
    if (step == ZR_ORTHOGONAL_RESTART)
        apply_q(at);
    if (zr_orthogonal_begins(step))
        make_gram(at);
    multiply_squares(at, at->gram, at->gram);
    mix_sums(at, at->n * at->n, at->of->c, at->of->b, at->gram, at->factor);
    if (zr_orthogonal_begins(step))
        begin_q(at);
    else
        multiply_in_place(at, at->q);
    if (!zr_orthogonal_goes_on(at->of, step))
        return;
    multiply_in_place(at, at->gram);
    multiply_in_place(at, at->gram);
}

// ---- its begin and end ----

// Returns what u is multiplied by.
static double inverse_norm(const iteration *at)
{
    const zr_squares squares = {.dtype = ZERO_BF16, .count = at->n * at->m};
    double *parts = (double *)(void *)at->sums, norm;
    zr_exact total;
    zr_exact_zero(&total);
    zr_run(at->queue, zr_op_square_sums(&squares, at->x, parts));
    for (int64_t i = 0; i < zr_squares_parts(&squares); i++)
        zr_exact_add(&total, parts[i]);
    norm = sqrt(zr_exact_value(&total));
    if (at->of->method == ZR_ORTHOGONAL_GRAM)
        return 1 / (norm + at->of->eps);
    norm = norm < at->of->eps ? at->of->eps : norm; // a NaN remains one
    return 1 / (double)zr_bf16_to_f32(zr_f32_to_bf16((float)norm));
}

static void widen_x(const iteration *at, zero_dtype from)
{
    const zr_conversion widen = {.from = from, .to = ZERO_F32, .n = at->n * at->m};
    zr_run(at->queue, zr_op_convert(&widen, at->x, at->sums));
}

static void narrow_x(const iteration *at, zero_dtype to, double by)
{
    const zr_scaling scaling = {.to = to, .n = at->n * at->m, .by = (float)by};
    zr_run(at->queue, zr_op_scale(&scaling, at->sums, at->x));
}

void zr_orthogonal_run(zr_queue *queue, const zr_orthogonal *of, uint16_t *matrix, void *workspace)
{
    iteration at = describe(queue, of);
    char *squares = (char *)workspace + zr_orthogonal_sums_bytes(of);
    at.x = matrix;
    at.sums = workspace;
    at.gram = (uint16_t *)(void *)squares;
    at.factor = (uint16_t *)(void *)(squares + zr_orthogonal_square_bytes(of));
    at.q = (uint16_t *)(void *)(squares + 2 * zr_orthogonal_square_bytes(of));
    double by = inverse_norm(&at);
    widen_x(&at, ZERO_BF16);
    narrow_x(&at, at.dtype, by);
    for (int step = 0; step < of->steps; step++)
        if (at.on_gram)
            run_gram_step(&at, step);
        else
            run_standard_step(&at);
    if (at.on_gram)
        apply_q(&at);
    if (at.dtype == ZERO_BF16)
        return;
    widen_x(&at, at.dtype);
    narrow_x(&at, ZERO_BF16, 1);
}
