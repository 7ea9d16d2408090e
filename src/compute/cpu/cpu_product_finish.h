// How finished sums of our own products become elements of D.
#ifndef ZR_COMPUTE_CPU_PRODUCT_FINISH_H
#define ZR_COMPUTE_CPU_PRODUCT_FINISH_H

#include "compute/cpu/cpu_product_tile.h"

// Turns finished sums into elements of D, of type `out`. The products of pairs take subnormals for
// zero, and so does what is stored of them.
INLINE void sums_become(zero_dtype in, zero_dtype out, zr_epilogue how, const zr_operands *of,
                        int64_t i, int64_t j, int64_t rows, int64_t columns, const float *sums,
                        int64_t step)
{
    for (int64_t c = 0; c < columns; c += LANES) {
        int64_t left = columns - c, at = i * of->product->n + j + c;
        vf bias = how == ZR_EPILOGUE_BIAS ? vf_get_as(in, of->operand, j + c, left) : (vf){0};
        for (int64_t r = 0; r < rows; r++, at += of->product->n) {
            vf x = vf_load(sums + r * step + c);
            if (how == ZR_EPILOGUE_BIAS)
                x += bias;
            if (how == ZR_EPILOGUE_GELU_BACKWARD)
                x *= vf_gelu_slope(vf_get_as(in, of->operand, at, left));
            if (out == ZERO_BF16 && in_pairs(of->product))
                halves_put(of->d, at, left, vf_to_factor(x));
            else
                vf_put_as(out, of->d, at, left, x);
        }
    }
}

INLINE void sums_become_typed(zero_dtype in, zero_dtype out, const zr_operands *of, int64_t i,
                              int64_t j, int64_t rows, int64_t columns, const float *sums,
                              int64_t step)
{
    if (of->product->epilogue == ZR_EPILOGUE_BIAS)
        sums_become(in, out, ZR_EPILOGUE_BIAS, of, i, j, rows, columns, sums, step);
    else if (of->product->epilogue == ZR_EPILOGUE_GELU_BACKWARD)
        sums_become(in, out, ZR_EPILOGUE_GELU_BACKWARD, of, i, j, rows, columns, sums, step);
    else
        sums_become(in, out, ZR_EPILOGUE_NONE, of, i, j, rows, columns, sums, step);
}

// Turns finished sums into rows i .. i+rows-1, columns j .. j+columns-1 of D. The rows of sums are
// `step` apart and may be D's own; whole vectors of them are read.
static inline void sums_finish(const zr_operands *of, int64_t i, int64_t j, int64_t rows,
                               int64_t columns, const float *sums, int64_t step)
{
    if (of->product->out == ZERO_F32)
        WITH_TYPE(TYPE, of->product->dtype,
                  sums_become_typed(TYPE, ZERO_F32, of, i, j, rows, columns, sums, step));
    else
        WITH_TYPE(TYPE, of->product->dtype,
                  sums_become_typed(TYPE, TYPE, of, i, j, rows, columns, sums, step));
}

#endif
