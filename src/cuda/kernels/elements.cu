// Elementwise work: activation functions, sums, conversions, dropout, the embedding, copies.
#include "kernel.h"

using namespace zr;

ZR_GLOBAL(add, 256)
{
    const int64_t whole = a.n / 8;
    for (int64_t i = thread_number(); i < whole; i += thread_count()) {
        const raw_eight raw_x = load_eight(a.x, a.stream_type, 8 * i);
        const raw_eight raw_branch = load_eight(a.branch, a.branch_type, 8 * i);
        float x[8], branch[8];
        widen_eight(raw_x, a.stream_type, x);
        widen_eight(raw_branch, a.branch_type, branch);
        for (int k = 0; k < 8; k++)
            x[k] += branch[k];
        store_eight(a.out, a.stream_type, 8 * i, x);
    }
    const int64_t i = 8 * whole + thread_number();
    if (i < a.n)
        put(a.out, a.stream_type, i, get(a.x, a.stream_type, i) + get(a.branch, a.branch_type, i));
}
