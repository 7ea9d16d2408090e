// Llama's tensors. Their names, layout (Linear's weights are (out, in)) and initial distributions
// are those of Hugging Face.
#include "model/llama_model.h"

static zr_unit_tensor design_weight(const char *name, int64_t out, int64_t in, float deviation,
                                    int tp_axis, int64_t tiles)
{
    return (zr_unit_tensor){.desc = zr_matrix_desc(name, out, in, deviation, tp_axis, 1),
                            .tile_axis = 0,
                            .tiles = tiles};
}

// there: true if this configuration has the tensor.
static zr_unit_tensor design_vector(bool there, const char *name, int64_t size, float value,
                                    int tp_axis)
{
    return there ? (zr_unit_tensor){.desc = zr_vector_desc(name, size, value, tp_axis, 1)}
                 : (zr_unit_tensor){.desc.dims = 0};
}

static void design_block(const zero_llama_config *c, zr_unit_tensor *t)
{
    int64_t width = c->hidden_size, inner = c->intermediate_size, head = zr_llama_head_dim(c);
    int64_t queries = c->n_head * head, keys = zr_llama_kv_heads(c) * head;
    float range = c->initializer_range;

    t[ZR_LLAMA_NORM1] = design_vector(true, "input_layernorm.weight", width, 1, -1);
    t[ZR_LLAMA_Q_W] =
        design_weight("self_attn.q_proj.weight", queries, width, range, 0, c->tiles_attention);
    t[ZR_LLAMA_Q_B] = design_vector(c->qkv_bias, "self_attn.q_proj.bias", queries, 0, 0);
    t[ZR_LLAMA_K_W] =
        design_weight("self_attn.k_proj.weight", keys, width, range, 0, c->tiles_attention);
    t[ZR_LLAMA_K_B] = design_vector(c->qkv_bias, "self_attn.k_proj.bias", keys, 0, 0);
    t[ZR_LLAMA_V_W] =
        design_weight("self_attn.v_proj.weight", keys, width, range, 0, c->tiles_attention);
    t[ZR_LLAMA_V_B] = design_vector(c->qkv_bias, "self_attn.v_proj.bias", keys, 0, 0);
    for (int i = ZR_LLAMA_K_W; i <= ZR_LLAMA_V_B; i++)
        t[i].split = ZR_SPLIT_BY_KEYS;
    t[ZR_LLAMA_Q_NORM] = design_vector(c->qk_norm, "self_attn.q_norm.weight", head, 1, -1);
    t[ZR_LLAMA_K_NORM] = design_vector(c->qk_norm, "self_attn.k_norm.weight", head, 1, -1);
    t[ZR_LLAMA_O_W] =
        design_weight("self_attn.o_proj.weight", width, queries, range, 1, c->tiles_attention);
    t[ZR_LLAMA_O_B] = design_vector(c->output_bias, "self_attn.o_proj.bias", width, 0, -1);
    t[ZR_LLAMA_NORM2] = design_vector(true, "post_attention_layernorm.weight", width, 1, -1);
    t[ZR_LLAMA_GATE_W] =
        design_weight("mlp.gate_proj.weight", inner, width, range, 0, c->tiles_mlp);
    t[ZR_LLAMA_GATE_B] = design_vector(c->mlp_bias, "mlp.gate_proj.bias", inner, 0, 0);
    t[ZR_LLAMA_UP_W] = design_weight("mlp.up_proj.weight", inner, width, range, 0, c->tiles_mlp);
    t[ZR_LLAMA_UP_B] = design_vector(c->mlp_bias, "mlp.up_proj.bias", inner, 0, 0);
    t[ZR_LLAMA_DOWN_W] =
        design_weight("mlp.down_proj.weight", width, inner, range, 1, c->tiles_mlp);
    t[ZR_LLAMA_DOWN_B] = design_vector(c->mlp_bias, "mlp.down_proj.bias", width, 0, -1);
}

static zr_unit_tensor design_table(const zero_llama_config *config, const char *name)
{
    return (zr_unit_tensor){.desc = zr_matrix_desc(name, config->vocab_size, config->hidden_size,
                                                   config->initializer_range, 0, 1),
                            .group = 1,
                            .split = ZR_SPLIT_BY_TOKENS,
                            .tiles = config->tiles_embedding};
}

void zr_llama_design(const zr_lm_config *of, zr_lm_design *out)
{
    const zero_llama_config *config = &of->llama;
    *out = (zr_lm_design){
        .name = zr_llama_variant_name(config->variant),
        .unit_prefix = "layers.",
        .layer_prefix = "model.layers.",
        .tensor_count = ZR_LLAMA_TENSORS,
    };
    out->embedding[ZR_LM_TABLE] = design_table(config, "model.embed_tokens.weight");
    out->head[ZR_LM_GAIN] = design_vector(true, "model.norm.weight", config->hidden_size, 1, -1);
    if (!config->tied)
        out->head[ZR_LM_TABLE] = design_table(config, "lm_head.weight");
    design_block(config, out->block);
}
