// The architectures of the public interface: model/ lists their units, layers/ computes them.
#include "layers/layers.h"
#include "model/gpt2_model.h"
#include "model/llama_model.h"

zero_status zero_gpt2_create(const zero_gpt2_config *config, zero_model **out, zero_error *error)
{
    ZR_NEED(error, config);
    ZR_NEED(error, out);
    ZERO_TRY(zr_gpt2_check(config, error)); // and so its size, before it is copied
    const zr_lm_config of = {.kind = ZR_LM_GPT2, .gpt2 = *config};
    return zr_lm_create(&of, out, error);
}

void zero_gpt2_destroy(zero_model *model)
{
    zr_lm_free(model);
}

zero_status zero_llama_create(const zero_llama_config *config, zero_model **out, zero_error *error)
{
    ZR_NEED(error, config);
    ZR_NEED(error, out);
    ZERO_TRY(zr_llama_check(config, error));
    const zr_lm_config of = {.kind = ZR_LM_LLAMA, .llama = *config};
    return zr_lm_create(&of, out, error);
}

void zero_llama_destroy(zero_model *model)
{
    zr_lm_free(model);
}
