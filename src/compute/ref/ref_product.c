// Matrix products, a tile of one row and some columns at a time. Every sum runs over k in order, in double, and is rounded once.
#include "compute/ref/ref.h"

#define COLUMNS 64

static void tile(const zr_product *product, const float *a, const float *b, const float *bias, float *d, int64_t i,
                 int64_t first, int64_t count)
{
    int64_t a_step = product->trans_a ? product->m : 1;
    int64_t b_row = product->trans_b ? 1 : product->n, b_column = product->trans_b ? product->k : 1;
    const float *a_row = product->trans_a ? a + i : a + i * product->k;
    float *out = d + i * product->n + first;
    double sum[COLUMNS];
    for (int64_t j = 0; j < count; j++)
        sum[j] = (bias ? bias[first + j] : 0.0) + (product->add ? out[j] : 0.0);
    for (int64_t p = 0; p < product->k; p++) {
        const float *b_at = b + p * b_row + first * b_column;
        for (int64_t j = 0; j < count; j++)
            sum[j] += (double)a_row[p * a_step] * b_at[j * b_column];
    }
    for (int64_t j = 0; j < count; j++)
        out[j] = (float)sum[j];
}

static zero_status run(zr_queue *queue, const zr_product *product, const void *a, const void *b, const float *bias,
                       void *d, zero_error *error)
{
    if (product->dtype != ZERO_F32)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED, "matrix product: backend \"ref\" multiplies fp32 only");
    const float *used_bias = product->epilogue == ZR_EPILOGUE_BIAS ? bias : NULL;
    for (int64_t i = 0; i < product->m; i++)
        for (int64_t j = 0; j < product->n; j += COLUMNS)
            tile(product, a, b, used_bias, d, i, j, ZR_MIN(COLUMNS, product->n - j));
    return ZERO_OK;
}

static size_t scratch(zr_queue *queue, const zr_product *product)
{
    return 0;
}

const zr_product_ops zr_ref_product_ops = {
    .scratch = scratch,
    .run = run,
};
