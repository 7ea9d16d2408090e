// What of a piece is added up, where that goes, and in how many bytes: asked by all that places,
// writes or runs the program, so that all of them mean the same.
#ifndef ZR_PLAN_PIECE_SUMS_H
#define ZR_PLAN_PIECE_SUMS_H

#include "plan/pieces.h"

// Units contribute to it: it is trained, or a buffer that its owner writes. Known once reductions
// are planned.
bool zr_piece_collects(const zr_piece *piece);
// of its contributions in fp32, all ranks' shards
int64_t zr_piece_open_bytes(const zr_piece *piece);
int64_t zr_piece_sum_bytes(const zr_piece *piece); // of the own shard's sum, in one accumulator
// Its sums go on to NVMe, through buffers in host memory.
bool zr_piece_sums_on_nvme(const zr_piece *piece);

#endif
