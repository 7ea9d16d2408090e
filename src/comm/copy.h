// Copies that do not pull their destination into the cache: what an all-gather writes is far more
// than a cache holds.
#ifndef ZR_COMM_COPY_H
#define ZR_COMM_COPY_H

#include "base/errors.h"

#define ZR_STREAM_FROM (4 << 20) // bytes in all: less is better found in the cache by its reader

// streams from ZR_STREAM_FROM on
void zr_comm_copy(void *dst, const void *src, int64_t bytes, int threads);
void zr_comm_copy_streaming(void *dst, const void *src, int64_t bytes);

#endif
