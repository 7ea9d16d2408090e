// Copies that do not pull their destination into the cache: what an all-gather writes is far more than a cache holds.
#ifndef ZR_COMM_COPY_H
#define ZR_COMM_COPY_H

#include "base/status.h"

void zr_comm_copy(void *dst, const void *src, int64_t bytes);

#endif
