// Work on the shards of training: optimizer updates, sums of squares, sums over ranks. Compiled
// without fused multiply-adds but where __fmaf_rn asks for one, as on the host.
#include "kernel.h"

using namespace zr;

ZR_GLOBAL(subtract_scaled, 256)
{
    for (int64_t i = thread_number(); i < a.n; i += thread_count()) {
        const float master = a.master[i] - a.step * a.direction[i];
        a.master[i] = master;
        if (a.parameters)
            put(a.parameters, a.parameters_type, i, master);
    }
}
