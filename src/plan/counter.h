// Which of a shard's accumulators takes a micro-batch's sum over the ranks (contract 4).
//
// With one accumulator, the first micro-batch's sum is put there and every later one is added.
// Under exact_world, accumulators pair as in a binary counter, so that micro-batches and ranks
// together are summed along one tree over g = k*N + r, whatever N is:
//
//   k               0        1            2               3                     4 ...
//   accumulator 0   [0]      [0+1]        [0+1]           [(0+1)+(2+3)]         [(0+1)+(2+3)]
//   accumulator 1                         [2]                                   [4]
//
// The last of K micro-batches (a power of two) leaves its sum in accumulator 0, so everything after
// it is the same in both cases.
#ifndef ZR_PLAN_COUNTER_H
#define ZR_PLAN_COUNTER_H

#include "plan/plan_settings.h"

// The sum is put into accumulator `slot`, after what that one and the next adds - 1 hold was added.
typedef struct zr_sum_slots {
    int slot, adds;
} zr_sum_slots;

int zr_accumulators(const zr_settings *settings); // of one shard
zr_sum_slots zr_sum_slots_of(const zr_settings *settings, int64_t micro_batch);

#endif
