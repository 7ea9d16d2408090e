// GPT-2 of the public interface: model/ lists its units, layers/ computes them.
#include "layers/layers.h"

zero_status zero_gpt2_create(const zero_gpt2_config *config, zero_model **out, zero_error *error)
{
    return zr_gpt2_build(config, &zr_gpt2_unit_ops, out, error);
}

void zero_gpt2_destroy(zero_model *model)
{
    zr_gpt2_free(model);
}
