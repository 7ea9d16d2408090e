// comm/blocks.c without its vectors, under another name, to be compared with them.
#ifndef TESTS_COMM_BLOCKS_PORTABLE_H
#define TESTS_COMM_BLOCKS_PORTABLE_H

#include "comm/treesum.h"

void widen_blocks_portable(int bits, const void *encoded, int64_t elems, zero_dtype dtype,
                           void *out, int threads);
void widen_block_range_portable(int bits, const void *encoded, int64_t first, int64_t count,
                                float *out);
void narrow_blocks_portable(int bits, const float *x, int64_t count, void *out);

#endif
