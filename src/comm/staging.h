// How much of each peer's shard is on its way at one time, in a communicator that cannot read its
// peers in place.
#ifndef ZR_COMM_STAGING_H
#define ZR_COMM_STAGING_H

#include "base/errors.h"

// Returns bytes, whatever the type: at most 256 KiB, and less where there are many ranks, so that
// two halves, one summed while the other fills, stay below 16 MiB.
static inline int64_t zr_staging_part(int ranks)
{
    return ZR_MAX(8 << 10, ZR_MIN(256 << 10, (int64_t)(8 << 20) / ranks / 256 * 256));
}

static inline int64_t zr_staging_bytes(int ranks) { return 2 * ranks * zr_staging_part(ranks); }

#endif
