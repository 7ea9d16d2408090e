// Into which of a shard's accumulators a micro-batch's sum over the ranks goes (contract 4).
//
// One accumulator: the first micro-batch's sum is put there, every later one added. Under
// exact_world they pair as in a binary counter, so that micro-batches and ranks together are summed
// along one tree over g = k*N + r, whatever N is:
//
//   k               0        1            2               3                     4 ...
//   accumulator 0   [0]      [0+1]        [0+1]           [(0+1)+(2+3)]         [(0+1)+(2+3)]
//   accumulator 1                         [2]                                   [4]
//
// The last of K (a power of two) leaves its sum in accumulator 0: to everything after it the two
// are the same.
#ifndef ZR_PLAN_COUNTER_H
#define ZR_PLAN_COUNTER_H

#include "plan/plan_settings.h"

// put into this accumulator, with what it and the adds - 1 after it hold
typedef struct zr_sum_slots {
    int slot, adds;
} zr_sum_slots;

int zr_accumulators(const zr_settings *settings); // of a shard
zr_sum_slots zr_sum_slots_of(const zr_settings *settings, int64_t micro_batch);

#endif
