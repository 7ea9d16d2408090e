#include "plan/piece_sums.h"

#include "plan/counter.h"

bool zr_piece_collects(const zr_piece *piece) { return piece->grad_first >= 0; }

int64_t zr_piece_open_bytes(const zr_piece *piece)
{
    return piece->padded * (int64_t)sizeof(float);
}

int64_t zr_piece_sum_bytes(const zr_piece *piece)
{
    return piece->shard * (int64_t)zero_dtype_bytes(piece->accumulator_dtype);
}

int64_t zr_piece_accumulator_bytes(const zr_settings *settings, const zr_piece *piece)
{
    return zr_accumulators(settings) * zr_piece_sum_bytes(piece);
}

bool zr_piece_sums_on_nvme(const zr_piece *piece)
{
    return piece->kind == ZERO_TRAINABLE && piece->state_tier == ZERO_TIER_nvme;
}
