// The architectures of the public interface: model/ lists their units, layers/ computes them.
#include "base/errors.h"
#include "layers/layers.h"
#include "model/gpt2_model.h"
#include "model/llama_model.h"

zero_status zero_gpt2_create(const zero_gpt2_config *config, zero_model **out, zero_error *error)
{
    ZR_NEED(error, config);
    ZR_NEED(error, out);
    zr_lm_config of = {.kind = ZR_LM_GPT2};
    ZERO_TRY(zr_struct_take("zero_gpt2_config", config, ZR_STRUCT_UPTO(zero_gpt2_config, tiles_mlp),
                            &of.gpt2, sizeof of.gpt2, error));
    ZERO_TRY(zr_gpt2_check(&of.gpt2, error));
    return zr_lm_create(&of, out, error);
}

void zero_gpt2_destroy(zero_model *model) { zr_lm_free(model); }

zero_status zero_llama_create(const zero_llama_config *config, zero_model **out, zero_error *error)
{
    ZR_NEED(error, config);
    ZR_NEED(error, out);
    zr_lm_config of = {.kind = ZR_LM_LLAMA};
    ZERO_TRY(zr_struct_take("zero_llama_config", config,
                            ZR_STRUCT_UPTO(zero_llama_config, tiles_mlp), &of.llama,
                            sizeof of.llama, error));
    ZERO_TRY(zr_llama_check(&of.llama, error));
    return zr_lm_create(&of, out, error);
}

void zero_llama_destroy(zero_model *model) { zr_lm_free(model); }
