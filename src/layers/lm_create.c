// Creates models with their arithmetic.
#include "layers/block.h"
#include "layers/lm_units.h"
#include "model/pipeline_stage_cut.h"

zero_status zr_lm_create_frozen(const zr_lm_config *config, const zr_lm_frozen *frozen,
                                zero_model **out, zero_error *error)
{
    const zr_lm_ops ops = {
        .embedding = &zr_lm_embedding_ops, .block = &zr_lm_block_ops, .head = &zr_lm_head_ops};
    return zr_lm_build(config, frozen, &ops, out, error);
}

zero_status zr_lm_create(const zr_lm_config *config, zero_model **out, zero_error *error)
{
    return zr_lm_create_frozen(config, NULL, out, error);
}

const zr_lm_config *zr_lm_config_of(const zero_model *model)
{
    const zero_unit *first = &zr_pipeline_stage_origin(model)->units[0];
    return first->ops == &zr_lm_embedding_ops ? &zr_lm_unit_at(first)->config : NULL;
}

bool zr_lm_is_head(const zero_unit *unit) { return unit->ops == &zr_lm_head_ops; }

zr_norm_layer zr_lm_norm(const zr_lm_unit *of, zero_dtype dtype, int64_t rows,
                         const zr_tensor_handle *gain, const zr_tensor_handle *bias)
{
    return (zr_norm_layer){.norm = {.dtype = dtype,
                                    .stream = zr_stream_dtype(dtype),
                                    .rows = rows,
                                    .width = of->shape.width,
                                    .epsilon = of->shape.norm_epsilon,
                                    .rms = of->shape.rms},
                           .gain = gain,
                           .bias = bias};
}
