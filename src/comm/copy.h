// Copies that do not load their destination into the cache, because an all-gather writes far more
// than a cache holds.
#ifndef ZR_COMM_COPY_H
#define ZR_COMM_COPY_H

#include "base/errors.h"

// Bytes in all. A smaller copy is better left in the cache, where its reader finds it.
#define ZR_STREAM_FROM (4 << 20)

// Streams copies of at least ZR_STREAM_FROM bytes.
void zr_comm_copy(void *dst, const void *src, int64_t bytes, int threads);
void zr_comm_copy_streaming(void *dst, const void *src, int64_t bytes);

#endif
