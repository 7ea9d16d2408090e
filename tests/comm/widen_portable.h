// comm/widen_blocks.c without its vectors, under another name, to be compared with them.
#ifndef TESTS_COMM_WIDEN_PORTABLE_H
#define TESTS_COMM_WIDEN_PORTABLE_H

#include "comm/treesum.h"

void widen_blocks_portable(int bits, const void *encoded, int64_t elems, zero_dtype dtype,
                           void *out, int threads);
void widen_block_range_portable(int bits, const void *encoded, int64_t first, int64_t count,
                                float *out);

#endif
