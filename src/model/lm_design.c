// The tensors of a model of one configuration, as they follow from its architecture's rows: shapes,
// initial values, how tensor ranks cut them, and into how many tiles.
#include "model/lm_build.h"

#include <math.h>

typedef struct designing {
    const zr_lm_shape *shape;
    const zr_tiles *tiles;
} designing;

static int64_t size_of(const zr_lm_shape *shape, zero_wide wide)
{
    const int64_t head = shape->head_dim;
    const int64_t sizes[] = {
        [ZERO_WIDE_NONE] = 0,
        [ZERO_WIDE_STREAM] = shape->width,
        [ZERO_WIDE_QUERIES] = shape->heads * head,
        [ZERO_WIDE_KEYS] = shape->kv_heads * head,
        [ZERO_WIDE_PACKED] = (shape->heads + 2 * shape->kv_heads) * head,
        [ZERO_WIDE_INNER] = shape->inner,
        [ZERO_WIDE_HEAD] = head,
    };
    return sizes[wide];
}

// Every tensor rank has the whole of these.
static bool is_whole(zero_wide wide)
{
    return wide == ZERO_WIDE_STREAM || wide == ZERO_WIDE_HEAD || wide == ZERO_WIDE_NONE;
}

static zr_unit_tensor vector_of(const char *name, int64_t size, float value)
{
    return (zr_unit_tensor){.desc = {.name = name,
                                     .dims = 1,
                                     .shape = {size},
                                     .init = ZERO_INIT_CONSTANT,
                                     .init_value = value,
                                     .tp_axis = -1,
                                     .tp_parts = 1}};
}

static zr_unit_tensor matrix_of(const char *name, int64_t rows, int64_t columns, float deviation)
{
    return (zr_unit_tensor){.desc = {.name = name,
                                     .dims = 2,
                                     .shape = {rows, columns},
                                     .init = ZERO_INIT_NORMAL,
                                     .init_value = deviation,
                                     .tp_axis = -1,
                                     .tp_parts = 1}};
}

// A weight is cut, and divided into tiles, by its outputs; one whose outputs are the stream's is
// cut by its inputs.
static zr_unit_tensor weight_of(const designing *d, const zero_tensor_row *row)
{
    const zr_lm_shape *shape = d->shape;
    int outputs = shape->outputs_first ? 0 : 1;
    int64_t out = size_of(shape, row->out), in = size_of(shape, row->in);
    bool of_mlp = row->out == ZERO_WIDE_INNER || row->in == ZERO_WIDE_INNER;
    float deviation = row->flags & ZERO_DEPTH
                          ? (float)(shape->deviation / sqrt(2.0 * (double)shape->layers))
                          : shape->deviation;
    zr_unit_tensor weight = outputs == 0 ? matrix_of(row->name, out, in, deviation)
                                         : matrix_of(row->name, in, out, deviation);
    weight.tile_axis = outputs;
    weight.tiles = of_mlp ? d->tiles->mlp : d->tiles->attention;
    if (!is_whole(row->out))
        weight.desc.tp_axis = outputs;
    else if (!is_whole(row->in))
        weight.desc.tp_axis = 1 - outputs;
    return weight;
}

static zr_unit_tensor tensor_of(const designing *d, const zero_tensor_row *row)
{
    zr_unit_tensor tensor;
    if (row->in)
        tensor = weight_of(d, row);
    else
        tensor = vector_of(row->name, size_of(d->shape, row->out), row->flags & ZERO_GAIN ? 1 : 0);
    if (!row->in && !is_whole(row->out))
        tensor.desc.tp_axis = 0;
    tensor.desc.tp_parts = row->flags & ZERO_THREE_PARTS ? 3 : 1;
    tensor.split = row->out == ZERO_WIDE_KEYS ? ZR_SPLIT_BY_KEYS : ZR_SPLIT_EVENLY;
    return tensor;
}

// A has the inputs of a weight, B its outputs, both as torch's Linear has them, and each is cut
// where the weight is.
static void design_adapter(const designing *d, int t, const zero_tensor_row *row, int64_t rank,
                           zr_lm_design *design)
{
    int64_t out = size_of(d->shape, row->out), in = size_of(d->shape, row->in);
    zr_unit_tensor *a = &design->block[t + ZR_LM_LORA_A], *b = &design->block[t + ZR_LM_LORA_B];
    *a = matrix_of(row->name, rank, in, 0);
    *b = matrix_of(row->name, out, rank, 0);
    a->desc.init = ZERO_INIT_UNIFORM;
    a->desc.init_value = (float)(1 / sqrt((double)in));
    b->desc.init = ZERO_INIT_CONSTANT;
    a->ending = ZR_LORA_A;
    b->ending = ZR_LORA_B;
    if (!is_whole(row->out)) {
        b->desc.tp_axis = 0;
        b->desc.tp_parts = design->block[t].desc.tp_parts;
        b->split = design->block[t].split;
    } else if (!is_whole(row->in)) {
        a->desc.tp_axis = 1;
    }
}

// A vector of the weight's outputs, cut where these are. Its initial values are the norms that rows
// of such a weight have on average; what loads a weight sets its magnitudes
// (checkpoint/model_weights.c).
static void design_magnitude(const designing *d, int t, const zero_tensor_row *row,
                             zr_lm_design *design)
{
    double in = (double)size_of(d->shape, row->in);
    zr_unit_tensor *of = &design->block[t + ZR_LM_MAGNITUDE];
    *of = vector_of(row->name, size_of(d->shape, row->out),
                    (float)(design->block[t].desc.init_value * sqrt(in)));
    of->ending = ZR_LORA_MAGNITUDE;
    if (is_whole(row->out))
        return;
    of->desc.tp_axis = 0;
    of->desc.tp_parts = design->block[t].desc.tp_parts;
    of->split = design->block[t].split;
}

static void freeze(zr_unit_tensor *tensors, int count)
{
    for (int t = 0; t < count; t++)
        tensors[t].frozen = true;
}

// A head of labels trains as a whole next to the adapters.
static void design_adapters(const designing *d, const zr_lm_tensors *of, const zr_lora *lora,
                            bool scores, zr_lm_design *design)
{
    freeze(design->embedding, ZR_LM_END_TENSORS);
    freeze(design->head, ZR_LM_END_TENSORS);
    design->head[ZR_LM_TABLE].frozen = !scores;
    freeze(design->block, of->count);
    design->tensor_count = ZR_LM_TENSORS;
    for (int t = 0; t < of->count; t++)
        if (lora->targets >> t & 1) {
            design_adapter(d, t, &of->block[t], lora->rank, design);
            if (lora->magnitudes)
                design_magnitude(d, t, &of->block[t], design);
        }
}

// Makes a tensor of bytes; each stands for a number of parameters.
static zr_unit_tensor bytes_of(const zr_unit_tensor *weight, int64_t rows, int64_t columns,
                               float parameters)
{
    zr_unit_tensor bytes = *weight;
    bytes.codes = bytes.frozen = true;
    bytes.desc.shape[0] = rows;
    bytes.desc.shape[1] = columns;
    bytes.desc.init = ZERO_INIT_CONSTANT;
    bytes.desc.init_value = parameters;
    return bytes;
}

// Replaces a weight by its codes, scales, and what these share. Codes and scales are cut where the
// weight is; the scale of a row in int8 is whole where rows are cut.
static void quantise(zr_weight_format format, int t, zr_lm_design *design)
{
    zr_unit_tensor *weight = &design->block[t], *scales = &design->block[t + ZR_LM_SCALES],
                   *shared = &design->block[t + ZR_LM_SHARED];
    int64_t out = weight->desc.shape[0], in = weight->desc.shape[1],
            codes = zr_weight_code_bytes(format, in),
            of_all = zr_weight_shared_bytes(format, out, in);
    *scales = bytes_of(weight, out, zr_weight_scale_bytes(format, in), 0);
    scales->ending = ZR_WEIGHT_SCALES;
    if (format == ZR_WEIGHT_INT8 && scales->desc.tp_axis == 1)
        scales->desc.tp_axis = -1;
    if (of_all) {
        *shared = bytes_of(weight, 1, of_all, 0);
        shared->ending = ZR_WEIGHT_SHARED;
        shared->desc.tp_axis = -1;
        shared->desc.tp_parts = 1;
    }
    *weight = bytes_of(weight, out, codes, (float)in / (float)codes);
}

static void quantise_weights(const zr_lm_config *config, zr_lm_design *design)
{
    uint32_t weights = zr_lora_all_targets(config);
    design->tensor_count = ZR_LM_TENSORS;
    for (int t = 0; t < ZR_LM_LORA_A; t++)
        if (weights >> t & 1)
            quantise(config->base, t, design);
}

// The table and what else a unit at an end has are flat parameters of their own.
static zr_unit_tensor table_of(const designing *d, const char *name)
{
    zr_unit_tensor table = matrix_of(name, d->shape->vocab, d->shape->width, d->shape->deviation);
    table.desc.tp_axis = 0;
    table.split = ZR_SPLIT_BY_TOKENS;
    table.tiles = d->tiles->embedding;
    return table;
}

// The head of a model that classifies texts, which is too small for tiles.
static zr_unit_tensor score_of(const designing *d)
{
    zr_unit_tensor score =
        matrix_of(ZR_SCORE_WEIGHT, d->shape->outputs, d->shape->width, d->shape->deviation);
    score.desc.tp_axis = 0;
    score.split = ZR_SPLIT_BY_TOKENS;
    return score;
}

zr_lm_design zr_lm_design_of_config(const zr_lm_config *config)
{
    const zr_lm_tensors *of = &zr_architecture_of(config)->tensors;
    const zr_lm_shape shape = zr_lm_shape_of(config);
    const zr_tiles tiles = zr_lm_tiles(config);
    const designing d = {&shape, &tiles};
    zr_lm_design design = {.name = shape.type->name,
                           .unit_prefix = of->unit_prefix,
                           .layer_prefix = of->layer_prefix,
                           .tensor_count = of->count};
    design.embedding[ZR_LM_TABLE] = table_of(&d, of->table);
    if (of->positions) {
        design.embedding[ZR_LM_POSITIONS] =
            matrix_of(of->positions, shape.positions, shape.width, shape.deviation);
        design.embedding[ZR_LM_POSITIONS].group = 1;
    }
    design.head[ZR_LM_GAIN] = vector_of(of->gain, shape.width, 1);
    if (of->bias)
        design.head[ZR_LM_BIAS] = vector_of(of->bias, shape.width, 0);
    if (config->labels.count) {
        design.head[ZR_LM_TABLE] = score_of(&d);
        design.head[ZR_LM_TABLE].group = 1;
    } else if (!shape.tied) {
        design.head[ZR_LM_TABLE] = table_of(&d, of->head);
        design.head[ZR_LM_TABLE].group = 1;
    }
    for (int t = 0; t < of->count; t++)
        if ((of->block[t].only_with & ~shape.options) == 0)
            design.block[t] = tensor_of(&d, &of->block[t]);
    if (config->lora.rank)
        design_adapters(&d, of, &config->lora, config->labels.count > 0, &design);
    if (config->base)
        quantise_weights(config, &design);
    return design;
}
