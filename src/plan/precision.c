// The precision policies, one in a row (section 3.1: mixed precision keeps 16-bit parameters,
// activations and gradients next to an fp32 master, momentum and variance: 2 + 2 + 12 bytes a
// parameter).
#include "plan/plan_settings.h"

static const zr_precision policies[] = {
    {.name = "fp32",
     .parameters = ZERO_F32,
     .activations = ZERO_F32,
     .gradients = ZERO_F32,
     .accumulator = ZERO_F32,
     .master = ZERO_F32,
     .moments = ZERO_F32},
    {.name = "bf16",
     .parameters = ZERO_BF16,
     .activations = ZERO_BF16,
     .gradients = ZERO_BF16,
     .accumulator = ZERO_BF16,
     .master = ZERO_F32,
     .moments = ZERO_F32},
    {.name = "fp16",
     .parameters = ZERO_F16,
     .activations = ZERO_F16,
     .gradients = ZERO_F16,
     .accumulator = ZERO_F16,
     .master = ZERO_F32,
     .moments = ZERO_F32},
};

zr_precision zr_precision_of(zero_dtype dtype, int64_t accumulation)
{
    zr_precision found = policies[0];
    for (int i = 0; i < ZR_COUNT(policies); i++)
        if (policies[i].parameters == dtype)
            found = policies[i];
    if (accumulation > 1)
        found.accumulator = ZERO_F32;
    return found;
}

bool zr_precision_has_master(const zr_precision *precision)
{
    return precision->parameters != precision->master;
}
