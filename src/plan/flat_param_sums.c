#include "plan/flat_param_sums.h"

#include "plan/counter.h"

bool zr_flat_param_collects(const zr_flat_param *flat_param) { return flat_param->grad_first >= 0; }

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
