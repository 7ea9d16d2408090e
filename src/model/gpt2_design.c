// GPT-2's tensors. Their names, layout (Conv1D weights are (in, out)) and initial distributions are
// those of Hugging Face.
#include "model/gpt2_model.h"
#include <math.h>

static zr_unit_tensor design_weight(const char *name, int64_t in, int64_t out, float deviation,
                                    int tp_axis, int tp_parts, int64_t tiles)
{
    return (zr_unit_tensor){.desc = zr_matrix_desc(name, in, out, deviation, tp_axis, tp_parts),
                            .tile_axis = 1,
                            .tiles = tiles};
}

static zr_unit_tensor design_vector(const char *name, int64_t size, float value, int tp_axis,
                                    int tp_parts)
{
    return (zr_unit_tensor){.desc = zr_vector_desc(name, size, value, tp_axis, tp_parts)};
}

static void design_block(const zero_gpt2_config *config, zr_unit_tensor *t)
{
    int64_t width = config->n_embd, inner = zr_gpt2_inner(config),
            attention = config->tiles_attention, mlp = config->tiles_mlp;
    float range = config->initializer_range;
    // The outputs of the c_proj layers add up along the residual stream.
    float residual = (float)(range / sqrt(2.0 * (double)config->n_layer));

    t[ZR_LN1_W] = design_vector("ln_1.weight", width, 1, -1, 1);
    t[ZR_LN1_B] = design_vector("ln_1.bias", width, 0, -1, 1);
    t[ZR_ATTN_W] = design_weight("attn.c_attn.weight", width, 3 * width, range, 1, 3, attention);
    t[ZR_ATTN_B] = design_vector("attn.c_attn.bias", 3 * width, 0, 0, 3);
    t[ZR_ATTN_PROJ_W] =
        design_weight("attn.c_proj.weight", width, width, residual, 0, 1, attention);
    t[ZR_ATTN_PROJ_B] = design_vector("attn.c_proj.bias", width, 0, -1, 1);
    t[ZR_LN2_W] = design_vector("ln_2.weight", width, 1, -1, 1);
    t[ZR_LN2_B] = design_vector("ln_2.bias", width, 0, -1, 1);
    t[ZR_FC_W] = design_weight("mlp.c_fc.weight", width, inner, range, 1, 1, mlp);
    t[ZR_FC_B] = design_vector("mlp.c_fc.bias", inner, 0, 0, 1);
    t[ZR_MLP_PROJ_W] = design_weight("mlp.c_proj.weight", inner, width, residual, 0, 1, mlp);
    t[ZR_MLP_PROJ_B] = design_vector("mlp.c_proj.bias", width, 0, -1, 1);
}

void zr_gpt2_design(const zr_lm_config *of, zr_lm_design *out)
{
    const zero_gpt2_config *config = &of->gpt2;
    int64_t width = config->n_embd;
    float range = config->initializer_range;
    *out = (zr_lm_design){.name = "gpt2",
                          .unit_prefix = "h.",
                          .layer_prefix = "h.",
                          .tensor_count = ZR_BLOCK_TENSORS};
    out->embedding[ZR_LM_TABLE] = (zr_unit_tensor){
        .desc = zr_matrix_desc("wte.weight", config->vocab_size, width, range, 0, 1),
        .split = ZR_SPLIT_BY_TOKENS,
        .tiles = config->tiles_embedding};
    out->embedding[ZR_LM_POSITIONS] = (zr_unit_tensor){
        .desc = zr_matrix_desc("wpe.weight", config->n_positions, width, range, -1, 1), .group = 1};
    out->head[ZR_LM_GAIN] = design_vector("ln_f.weight", width, 1, -1, 1);
    out->head[ZR_LM_BIAS] = design_vector("ln_f.bias", width, 0, -1, 1);
    design_block(config, out->block);
}
