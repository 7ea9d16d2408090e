// Work on rows: norms, softmax and the loss.
#include "kernel.h"

using namespace zr;

ZR_GLOBAL(local_ids, 256)
{
    for (int64_t i = thread_number(); i < a.n; i += thread_count()) {
        const int64_t id = a.ids[i], local = id - a.first;
        a.out[i] = id < 0 ? a.none : local >= 0 && local < a.count ? (int32_t)local : -1;
    }
}
