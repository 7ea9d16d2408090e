// Epilogues of products where cuBLASLt does not compute them.
#include "eights.h"
#include "gelu.h"

using namespace zr;

ZR_GLOBAL(product_bias, 256)
{
    const bool whole = is_aligned(a.d);
    each_eight(a.n, [&](int64_t i, int64_t left) {
        int64_t column = i % a.columns;
        float bias[8];
        for (int k = 0; k < 8; k++) {
            bias[k] = get(a.bias, a.bias_type, column);
            column = column + 1 < a.columns ? column + 1 : 0;
        }
        store_some(a.d, a.d_type, i, left, whole, bias);
    });
}

ZR_GLOBAL(product_slope, 256)
{
    const bool whole = are_whole(a.pre, a.d);
    each_eight(a.n, [&](int64_t i, int64_t left) {
        float pre[8], d[8];
        load_some(a.pre, a.pre_type, i, left, whole, pre);
        load_some(a.d, a.d_type, i, left, whole, d);
        for (int k = 0; k < 8; k++)
            d[k] *= gelu_tanh_slope(pre[k]);
        store_some(a.d, a.d_type, i, left, whole, d);
    });
}
