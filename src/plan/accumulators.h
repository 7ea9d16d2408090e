// What is added up for a flat parameter, where that goes, and how many bytes it takes. All files
// that place, write or run the program ask here, so that they agree.
//
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
#ifndef ZR_PLAN_ACCUMULATORS_H
#define ZR_PLAN_ACCUMULATORS_H

#include "plan/flat_params.h"
#include "plan/plan_settings.h"

// Says whether units contribute to the flat parameter: it is trained, or it is a buffer that its
// owner writes. Known once units are planned.
static inline bool zr_flat_param_collects(const zr_flat_param *flat_param)
{
    return flat_param->first_backward >= 0;
}

// Says whether its contributions collect in the open arena, else in the gradient window itself.
// Known once reductions are planned.
static inline bool zr_flat_param_collects_apart(const zr_flat_param *flat_param)
{
    return flat_param->gradient_dtype != ZERO_F32 || flat_param->gradient_bits ||
           flat_param->parked_first >= 0;
}

// Returns the bytes of its contributions in fp32, over all ranks' shards.
static inline int64_t zr_flat_param_open_bytes(const zr_flat_param *flat_param)
{
    return flat_param->padded * (int64_t)sizeof(float);
}

// Returns the bytes of the own shard's sum in one accumulator.
static inline int64_t zr_flat_param_sum_bytes(const zr_flat_param *flat_param)
{
    return flat_param->shard * (int64_t)zero_dtype_bytes(flat_param->accumulator_dtype);
}

// Says whether its sums go on to NVMe, through buffers in host memory.
static inline bool zr_flat_param_sums_on_nvme(const zr_flat_param *flat_param)
{
    return flat_param->kind == ZERO_TRAINABLE && flat_param->state_tier == ZERO_TIER_nvme;
}

// Returns the accumulators of one shard. Before the last micro-batch, one sum waits for each bit of
// K - 1; the last micro-batch's goes in the place of the largest.
static inline int zr_accumulators(const zr_settings *settings)
{
    return settings->exact_world && settings->accumulation > 1
               ? __builtin_ctzll((uint64_t)settings->accumulation)
               : 1;
}

// Returns the bytes of its sums in all accumulators: several, where the number of ranks may change.
static inline int64_t zr_flat_param_accumulator_bytes(const zr_settings *settings,
                                                      const zr_flat_param *flat_param)
{
    return zr_accumulators(settings) * zr_flat_param_sum_bytes(flat_param);
}

// The sum is put into accumulator `slot`, after what that one and the next adds - 1 hold was added.
typedef struct zr_sum_slots {
    int slot, adds;
} zr_sum_slots;

// The sums that wait are the bits of k, the largest first. This micro-batch's sum is added to those
// of the trailing ones of k.
static inline zr_sum_slots zr_sum_slots_of(const zr_settings *settings, int64_t micro_batch)
{
    if (!settings->exact_world)
        return (zr_sum_slots){.adds = micro_batch > 0};
    int adds = __builtin_ctzll(~(uint64_t)micro_batch);
    return (zr_sum_slots){.slot = __builtin_popcountll((uint64_t)micro_batch) - adds, .adds = adds};
}

#endif
