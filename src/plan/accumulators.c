#include "plan/accumulators.h"

bool zr_flat_param_collects(const zr_flat_param *flat_param)
{
    return flat_param->first_backward >= 0;
}

bool zr_flat_param_collects_apart(const zr_flat_param *flat_param)
{
    return flat_param->gradient_dtype != ZERO_F32 || flat_param->parked_first >= 0;
}

int64_t zr_flat_param_open_bytes(const zr_flat_param *flat_param)
{
    return flat_param->padded * (int64_t)sizeof(float);
}

int64_t zr_flat_param_sum_bytes(const zr_flat_param *flat_param)
{
    return flat_param->shard * (int64_t)zero_dtype_bytes(flat_param->accumulator_dtype);
}

int64_t zr_flat_param_accumulator_bytes(const zr_settings *settings,
                                        const zr_flat_param *flat_param)
{
    return zr_accumulators(settings) * zr_flat_param_sum_bytes(flat_param);
}

bool zr_flat_param_sums_on_nvme(const zr_flat_param *flat_param)
{
    return flat_param->kind == ZERO_TRAINABLE && flat_param->state_tier == ZERO_TIER_nvme;
}

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
