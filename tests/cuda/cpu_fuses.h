// Says whether this build of "cpu" fuses multiplies and additions in updates, as a card does:
// optimised ones for processors that can. Only such a host and a card have the same bits.
#ifndef TESTS_CPU_FUSES_H
#define TESTS_CPU_FUSES_H

#include "compute/compute.h"

static inline bool cpu_fuses(zr_queue *cpu)
{
    // 1 - (1 + 2^-12)^2, whose last bit is lost if the product is rounded.
    const float by = 1 + 0x1p-12f;
    _Alignas(64) float master[16] = {1}, direction[16] = {by};
    const zr_update of = {.n = 1};
    zr_run(cpu, zr_op_subtract_scaled(&of, &by, master, direction, NULL));
    return master[0] == -(0x1p-11f + 0x1p-24f);
}

#endif
