// compute/coded_sums.c without its vectors, under other names, to be compared with them. Where
// BLOCKS_PORTABLE is defined this comes before that file, and takes them from it.
#ifndef TESTS_COMM_BLOCKS_PORTABLE_H
#define TESTS_COMM_BLOCKS_PORTABLE_H

#include "base/blocks.h"
#include "base/dtype.h"
#include "base/errors.h"
#include "compute/tree_sum.h"

void widen_blocks_portable(int bits, const void *encoded, int64_t elems, zero_dtype dtype,
                           void *out, int threads);
void widen_block_range_portable(int bits, const void *encoded, int64_t first, int64_t count,
                                float *out);
void narrow_blocks_portable(int bits, const float *x, int64_t count, void *out);

#ifdef BLOCKS_PORTABLE
#undef __x86_64__
#undef __SSE2__
#define zr_widen_blocks widen_blocks_portable
#define zr_widen_block_range widen_block_range_portable
#define zr_narrow_blocks narrow_blocks_portable
#endif

#endif
