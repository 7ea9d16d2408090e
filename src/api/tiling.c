#include "api/tiling.h"
#include "layers/layers.h"

static int64_t whole_or(int64_t tiles)
{
    return ZR_MAX(tiles, 1);
}

bool zr_tiling_apply(const zr_config *config, zero_gpt2_config *shape)
{
    const zr_offload_config *o = &config->offload;
    bool other = whole_or(shape->tiles_embedding) != o->tiles_embedding || whole_or(shape->tiles_attention) != o->tiles_attention || whole_or(shape->tiles_mlp) != o->tiles_mlp;
    shape->tiles_embedding = o->tiles_embedding;
    shape->tiles_attention = o->tiles_attention;
    shape->tiles_mlp = o->tiles_mlp;
    return other;
}

zero_status zr_tiling_check(const zr_config *config, const zero_model *model, zero_error *error)
{
    const zr_offload_config *o = &config->offload;
    bool ours = model->units[0].ops == zr_gpt2_unit_ops.embedding;
    if (o->tiles_embedding <= 1 && o->tiles_attention <= 1 && o->tiles_mlp <= 1)
        return ZERO_OK;
    zero_gpt2_config shape = ours ? *zr_gpt2_config_of(model) : (zero_gpt2_config){0};
    if (ours && !zr_tiling_apply(config, &shape))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG, "%s: libzero.tiling asks for %lld, %lld and %lld tiles of the embedding's, the attention's and the MLP's weights, but the model \"%s\" was built otherwise: "
                   "a program says it in zero_gpt2_config, or in the units of its own", config->name, (long long)o->tiles_embedding, (long long)o->tiles_attention,
                   (long long)o->tiles_mlp, model->name);
}
