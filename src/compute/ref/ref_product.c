// Matrix products, one row and some columns at a time. Every sum runs over k in order, in double,
// and is rounded once.
#include "compute/backends.h"
#include "compute/ref/ref.h"

#define COLUMNS 64

typedef struct operands {
    const zr_product *product;
    const void *a, *b, *operand;
    const float *scales; // of a B in codes
    void *d;
} operands;

static double a_get(const operands *of, int64_t i, int64_t t)
{
    const zr_product *p = of->product;
    double x = ref_get(p->dtype, of->a, p->trans_a ? t * ZR_A_STEP(p) + i : i * ZR_A_STEP(p) + t);
    uint32_t stored = 0;
    if (!p->gelu_a)
        return x;
    ref_put(p->dtype, &stored, 0, zr_ref_gelu(x));
    return ref_get(p->dtype, &stored, 0);
}

static double b_get(const operands *of, int64_t t, int64_t j)
{
    const zr_product *p = of->product;
    int64_t row = p->trans_b ? j : t, column = p->trans_b ? t : j, width = ZR_B_WIDTH(p);
    uint32_t stored = 0;
    float value;
    if (!p->format)
        return ref_get(p->dtype, of->b, row * width + column);
    zr_weight_decode(p->format, (const char *)of->b + row * zr_weight_code_bytes(p->format, width),
                     of->scales + row * zr_weight_row_scales(p->format, width), column, 1, &value);
    ref_put(p->dtype, &stored, 0, value);
    return ref_get(p->dtype, &stored, 0);
}

static double apply_epilogue(const operands *of, double sum, int64_t i, int64_t j)
{
    const zr_product *p = of->product;
    int64_t at = i * ZR_D_STEP(p) + j;
    if (p->epilogue == ZR_EPILOGUE_BIAS)
        return sum + ref_get(p->dtype, of->operand, j);
    if (p->epilogue == ZR_EPILOGUE_GELU_BACKWARD)
        return sum * zr_ref_gelu_slope(ref_get(p->dtype, of->operand, at));
    return p->add ? sum + ref_get(p->out, of->d, at) : sum;
}

static void multiply_tile(const operands *of, int64_t i, int64_t first, int64_t count)
{
    const zr_product *p = of->product;
    double sum[COLUMNS] = {0};
    for (int64_t t = 0; t < p->k; t++) {
        double x = a_get(of, i, t);
        for (int64_t j = 0; j < count; j++)
            sum[j] += x * b_get(of, t, first + j);
    }
    for (int64_t j = 0; j < count; j++)
        ref_put(p->out, of->d, i * ZR_D_STEP(p) + first + j,
                apply_epilogue(of, sum[j], i, first + j));
}

static void multiply(zr_queue *queue, const operands *of)
{
    const zr_product *product = of->product;
    zero_error error = {0};
    zero_status status = zr_product_check(product, &error);
    if (status != ZERO_OK) {
        zr_queue_fail(queue, status, &error);
        return;
    }
    for (int64_t i = 0; i < product->m; i++)
        for (int64_t j = 0; j < product->n; j += COLUMNS)
            multiply_tile(of, i, j, ZR_MIN(COLUMNS, product->n - j));
}

void zr_ref_product(zr_queue *queue, const zr_product *product, const void *a, const void *b,
                    const void *operand, void *d)
{
    multiply(queue, &(operands){.product = product, .a = a, .b = b, .operand = operand, .d = d});
}

void zr_ref_quantised_product(zr_queue *queue, const zr_product *product, const void *a,
                              const void *b, const float *scales, const void *operand, void *d)
{
    multiply(queue,
             &(operands){
                 .product = product, .a = a, .b = b, .scales = scales, .operand = operand, .d = d});
}

void zr_ref_decode_scales(zr_queue *queue, const zr_scale_codes *of, const uint8_t *codes,
                          const float *shared, float *scales)
{
    for (int64_t row = 0; row < of->rows; row++)
        zr_nf4_decode_scales(codes + row * of->blocks, shared, zr_scale_codes_first(of, row),
                             of->blocks, scales + row * of->blocks);
}
