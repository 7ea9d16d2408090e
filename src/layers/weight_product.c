#include "layers/weight_product.h"

#include "layers/linear.h"
#include "model/unit.h"

static bool has_scale_codes(const zr_linear *linear)
{
    return linear->quantised.format == ZR_WEIGHT_NF4;
}

static int64_t scales_of(const zr_linear *linear)
{
    return linear->out * zr_weight_row_scales(linear->quantised.format, linear->in);
}

size_t zr_weight_scratch(const zr_linear *linear)
{
    zr_carver carver = {0};
    if (has_scale_codes(linear))
        zr_carve_floats(&carver, scales_of(linear));
    return carver.used;
}

static const zero_tensor_desc *desc_of(const zero_context *context, const zr_tensor_handle *of)
{
    return &context->unit->flat_params[of->flat_param].tensors[of->tensor];
}

// Says where the scales lie in those of the whole weight.
static zr_scale_codes describe_scales(const zr_linear *linear, const zero_tensor_desc *desc,
                                      int64_t groups)
{
    const zero_tile *tile = &desc->tile;
    int64_t parts = zr_tensor_parts(desc);
    bool by_rows = tile->whole && tile->axis == 0, by_columns = tile->whole && tile->axis == 1;
    return (zr_scale_codes){
        .rows = linear->out,
        .blocks = desc->shape[1],
        .whole_blocks = by_columns ? tile->size : desc->shape[1],
        .first_block = by_columns ? tile->first : 0,
        .parts = parts,
        .part_rows = (by_rows ? tile->size : linear->out) / parts,
        .first_row = by_rows ? tile->first : 0,
        .groups = groups,
    };
}

// Returns the scales in fp32: as they lie, or decoded into the scratch.
static const float *read_scales(zero_context *context, const zr_linear *linear, float *scratch)
{
    const zr_quantised_weight *of = &linear->quantised;
    const void *scales = zr_tensor_values(context, of->scales, 0);
    if (!has_scale_codes(linear))
        return scales;
    int64_t shared = desc_of(context, of->shared)->shape[1] / (int64_t)sizeof(float);
    const zr_scale_codes how = describe_scales(linear, desc_of(context, of->scales), shared - 1);
    zr_run(context->queue,
           zr_op_decode_scales(&how, scales, zr_tensor_values(context, of->shared, 0), scratch));
    return scratch;
}

void zr_weight_multiply(zero_context *context, const zr_linear *linear, const zr_product *product,
                        const void *a, const void *operand, void *d, void *scratch)
{
    const void *weight = zr_tensor_values(context, linear->weight, 0);
    if (!product->format)
        zr_run(context->queue, zr_op_product(product, a, weight, operand, d));
    else
        zr_run(context->queue,
               zr_op_quantised_product(product, a, weight, read_scales(context, linear, scratch),
                                       operand, d));
}

void zr_weight_square_rows(zero_context *context, const zr_linear *linear, float *squares,
                           void *scratch)
{
    const zr_weight_rows rows = {.dtype = linear->dtype,
                                 .out = linear->out,
                                 .in = linear->in,
                                 .outputs_first = linear->outputs_first,
                                 .format = linear->quantised.format};
    const float *scales = rows.format ? read_scales(context, linear, scratch) : NULL;
    zr_run(context->queue, zr_op_weight_squares(&rows, zr_tensor_values(context, linear->weight, 0),
                                                scales, squares));
}

void zr_weight_read_in_backward(const zr_linear *linear, zero_unit_sizes *sizes)
{
    zr_tensor_read_in_backward(linear->weight, sizes);
    if (linear->quantised.format)
        zr_tensor_read_in_backward(linear->quantised.scales, sizes);
    if (has_scale_codes(linear))
        zr_tensor_read_in_backward(linear->quantised.shared, sizes);
}
