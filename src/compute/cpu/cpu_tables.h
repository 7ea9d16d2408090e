// How much work on rows and elements is worth a thread.
#ifndef ZR_COMPUTE_CPU_TABLES_H
#define ZR_COMPUTE_CPU_TABLES_H

#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_math.h"

#define WORTH (1 << 14) // elements worth a thread

static inline int64_t rows_worth(int64_t width) // rows that are worth a thread
{
    return ZR_MAX(1, 8192 / ZR_MAX(1, width));
}

#endif
