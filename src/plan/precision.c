// The precision policies (section 3.1: mixed precision keeps 16-bit parameters, activations and
// gradients next to an fp32 master, momentum and variance: 2 + 2 + 12 bytes a parameter).
#include "plan/plan_settings.h"

zr_precision zr_precision_of(zero_dtype dtype, int64_t accumulation)
{
    bool half = dtype == ZERO_BF16 || dtype == ZERO_F16;
    zero_dtype type = half ? dtype : ZERO_F32;
    return (zr_precision){.name = !half                ? "fp32"
                                  : dtype == ZERO_BF16 ? "bf16"
                                                       : "fp16",
                          .parameters = type,
                          .activations = type,
                          .gradients = type,
                          .accumulator = accumulation > 1 ? ZERO_F32 : type,
                          .master = ZERO_F32,
                          .moments = ZERO_F32};
}

bool zr_precision_has_master(const zr_precision *precision)
{
    return precision->parameters != precision->master;
}
