// What stands before or after a product where cuBLASLt does not do it: gelu of A, a bias, the slope
// of gelu. Eight elements a thread and round; what is left, one.
#include "gelu.h"

using namespace zr;

ZR_GLOBAL(product_gelu, 256)
{
    const int64_t whole = a.n / 8;
    for (int64_t i = thread_number(); i < whole; i += thread_count()) {
        float x[8];
        widen_eight(load_eight(a.x, a.type, 8 * i), a.type, x);
        for (int k = 0; k < 8; k++)
            x[k] = gelu_tanh(x[k]);
        store_eight(a.out, a.type, 8 * i, x);
    }
    const int64_t i = 8 * whole + thread_number();
    if (i < a.n)
        put(a.out, a.type, i, gelu_tanh(get(a.x, a.type, i)));
}

ZR_GLOBAL(product_bias, 256)
{
    const int64_t whole = a.n / 8;
    for (int64_t i = thread_number(); i < whole; i += thread_count()) {
        int64_t column = 8 * i % a.columns;
        float bias[8];
        for (int k = 0; k < 8; k++) {
            bias[k] = get(a.bias, a.bias_type, column);
            column = column + 1 < a.columns ? column + 1 : 0;
        }
        store_eight(a.d, a.d_type, 8 * i, bias);
    }
    const int64_t i = 8 * whole + thread_number();
    if (i < a.n)
        put(a.d, a.d_type, i, get(a.bias, a.bias_type, i % a.columns));
}

ZR_GLOBAL(product_slope, 256)
{
    const int64_t whole = a.n / 8;
    for (int64_t i = thread_number(); i < whole; i += thread_count()) {
        float pre[8], d[8];
        widen_eight(load_eight(a.pre, a.pre_type, 8 * i), a.pre_type, pre);
        widen_eight(load_eight(a.d, a.d_type, 8 * i), a.d_type, d);
        for (int k = 0; k < 8; k++)
            d[k] *= gelu_tanh_slope(pre[k]);
        store_eight(a.d, a.d_type, 8 * i, d);
    }
    const int64_t i = 8 * whole + thread_number();
    if (i < a.n)
        put(a.d, a.d_type, i, get(a.d, a.d_type, i) * gelu_tanh_slope(get(a.pre, a.pre_type, i)));
}
