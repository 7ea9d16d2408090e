#include "plan/counter.h"

// Before the last micro-batch, one sum waits for each bit of K - 1; the last micro-batch's goes in
// the place of the largest.
int zr_accumulators(const zr_settings *settings)
{
    return settings->exact_world && settings->accumulation > 1
               ? __builtin_ctzll((uint64_t)settings->accumulation)
               : 1;
}

// The sums that wait are the bits of k, the largest first. This micro-batch's sum is added to those
// of the trailing ones of k.
zr_sum_slots zr_sum_slots_of(const zr_settings *settings, int64_t micro_batch)
{
    if (!settings->exact_world)
        return (zr_sum_slots){.adds = micro_batch > 0};
    int adds = __builtin_ctzll(~(uint64_t)micro_batch);
    return (zr_sum_slots){.slot = __builtin_popcountll((uint64_t)micro_batch) - adds, .adds = adds};
}
