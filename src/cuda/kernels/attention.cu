// Causal attention, and the rotation of queries and keys by their positions.
#include "kernel.h"

using namespace zr;

ZR_GLOBAL(rotary_table, 256)
{
    const int64_t half = a.rotated / 2, all = a.seq * half;
    for (int64_t i = thread_number(); i < all; i += thread_count()) {
        const int64_t row = i / half, at = i % half;
        const float angle = (float)(a.first + row) * a.frequency[at];
        a.table[row * a.rotated + at] = a.factor * cosf(angle);
        a.table[row * a.rotated + half + at] = a.factor * sinf(angle);
    }
}
