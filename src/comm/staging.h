// How many elements of each peer's shard a communicator that cannot read its peers in place has on their way at one time.
#ifndef ZR_COMM_STAGING_H
#define ZR_COMM_STAGING_H

#include "base/status.h"

// At most 65,536 elements, less where there are many ranks: two halves, one summed while the other fills, stay below 16 MiB.
static inline int64_t zr_staging_elems(int ranks)
{
    return ZR_MAX(2048, ZR_MIN(65536, (int64_t)(2 << 20) / ranks / 64 * 64));
}

static inline int64_t zr_staging_bytes(int ranks)
{
    return 2 * ranks * zr_staging_elems(ranks) * (int64_t)sizeof(float);
}

#endif
