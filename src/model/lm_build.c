// Builds a whole language model: storage, then the flat parameters and handles of each unit.
// lm_cut.c makes a tensor rank's part of it.
#include "model/lm_build.h"
#include "model/unit.h"
#include <stdio.h>
#include <string.h>

int64_t zr_tile_step(int64_t size, int64_t tiles)
{
    return ZR_ROUND_UP((size + tiles - 1) / tiles, (int64_t)ZR_TILE_MULTIPLE);
}

// Returns the number of tiles of a tensor; 0 if it is not cut.
static int count_tiles(const zr_unit_tensor *tensor)
{
    int64_t size = tensor->desc.dims ? tensor->desc.shape[tensor->tile_axis] : 0;
    int64_t step = tensor->tiles > 1 ? zr_tile_step(size, tensor->tiles) : size;
    return step < size ? (int)((size + step - 1) / step) : 0;
}

static bool is_designed(const zr_unit_tensor *tensor) { return tensor->desc.dims > 0; }

const char *zr_lm_name(const zr_lm_config *config) { return zr_lm_design_of_config(config).name; }

static int64_t sum_tensor_elements(const zr_unit_tensor *tensors, int count, bool trained)
{
    int64_t elements = 0;
    for (int t = 0; t < count; t++)
        if (is_designed(&tensors[t]) && !(trained && tensors[t].frozen))
            elements += zr_tensor_parameters(zr_lm_class(&tensors[t], true), &tensors[t].desc);
    return elements;
}

static int64_t sum_model_elements(const zr_lm_config *config, bool trained)
{
    const zr_lm_design design = zr_lm_design_of_config(config);
    int64_t blocks = zr_lm_shape_of(config).layers;
    return sum_tensor_elements(design.embedding, ZR_LM_END_TENSORS, trained) +
           sum_tensor_elements(design.block, design.tensor_count, trained) * blocks +
           sum_tensor_elements(design.head, ZR_LM_END_TENSORS, trained);
}

int64_t zr_lm_parameters(const zr_lm_config *config) { return sum_model_elements(config, false); }

int64_t zr_lm_trained(const zr_lm_config *config) { return sum_model_elements(config, true); }

// Reserves storage for one description for each tensor and each tile, which is the most that can be
// needed.
static zero_status unit_reserve(zr_unit_storage *unit, const zr_unit_tensor *of, int count,
                                zero_error *error)
{
    size_t most = (size_t)count;
    for (int t = 0; t < count; t++)
        most += (size_t)count_tiles(&of[t]);
    unit->names = zr_alloc(most * sizeof *unit->names, error);
    unit->tensors = zr_alloc(most * sizeof *unit->tensors, error);
    unit->flat_params = zr_alloc(most * sizeof *unit->flat_params, error);
    return unit->names && unit->tensors && unit->flat_params ? ZERO_OK : ZERO_ERR_MEMORY;
}

static bool is_frozen(const zr_lm_storage *s, const char *name)
{
    return s->frozen && s->frozen->is_frozen(s->frozen->user, name);
}

// Writes a tensor's name in files.
static void write_name(const char *prefix, const zr_unit_tensor *of, char name[ZR_LM_NAME_BYTES])
{
    size_t length = strlen(of->desc.name), weight = sizeof ".weight" - 1;
    bool replaces =
        of->ending && length > weight && !strcmp(of->desc.name + length - weight, ".weight");
    snprintf(name, ZR_LM_NAME_BYTES, "%s%.*s%s", prefix, (int)(replaces ? length - weight : length),
             of->desc.name, of->ending ? of->ending : "");
}

// Sets the fields of a handle that do not depend on its flat parameter. A tile's own description
// has no tensor-parallel split: it is cut by elements, like any flat parameter.
static void handles_begin(const zr_lm_storage *s, zr_unit_storage *unit, const char *prefix,
                          const zr_unit_tensor *of, int count)
{
    unit->name_count = count;
    for (int t = 0; t < ZR_LM_TENSORS; t++) {
        zr_tensor_handle *handle = &unit->hyper.tensor[t];
        *handle = (zr_tensor_handle){.flat_param = -1};
        if (t >= count || !is_designed(&of[t]))
            continue;
        int64_t size = of[t].desc.shape[of[t].tile_axis];
        int tiles = count_tiles(&of[t]);
        write_name(prefix, &of[t], unit->names[t]);
        handle->tiles = ZR_MAX(tiles, 1);
        handle->step = tiles ? zr_tile_step(size, of[t].tiles) : size;
        handle->trains = !of[t].frozen && !is_frozen(s, unit->names[t]);
        handle->tp = (zr_tp_split){of[t].desc.tp_axis, of[t].desc.tp_parts};
    }
}

zero_class zr_lm_class(const zr_unit_tensor *tensor, bool trains)
{
    return tensor->codes ? ZERO_CODES : trains ? ZERO_TRAINABLE : ZERO_FROZEN;
}

// Adds a flat parameter with the whole tensors of a group that are of a class. If there is no such
// tensor, no flat parameter is added.
static void flat_param_add(zr_unit_storage *unit, const zr_unit_tensor *of, int count, int group,
                           zero_class kind)
{
    zero_flat_param_desc *flat_param = &unit->flat_params[unit->flat_param_count];
    *flat_param =
        (zero_flat_param_desc){.kind = kind, .tensors = &unit->tensors[unit->tensor_count]};
    for (int t = 0; t < count; t++) {
        zr_tensor_handle *handle = &unit->hyper.tensor[t];
        if (!is_designed(&of[t]) || handle->tiles > 1 || of[t].group != group ||
            zr_lm_class(&of[t], handle->trains) != kind)
            continue;
        handle->flat_param = unit->flat_param_count;
        handle->tensor = flat_param->tensor_count++;
        zero_tensor_desc *tensor = &unit->tensors[unit->tensor_count++];
        *tensor = of[t].desc;
        tensor->name = unit->names[t];
    }
    unit->flat_param_count += flat_param->tensor_count > 0;
}

// Adds a flat parameter for each tile of a tensor along its axis.
static void tiles_add(zr_unit_storage *unit, const char *prefix, const zr_unit_tensor *of,
                      int number)
{
    zr_tensor_handle *handle = &unit->hyper.tensor[number];
    int64_t size = of->desc.shape[of->tile_axis];
    handle->flat_param = unit->flat_param_count;
    for (int i = 0; i < handle->tiles; i++) {
        char *name = unit->names[unit->name_count++];
        zero_tensor_desc *tensor = &unit->tensors[unit->tensor_count++];
        snprintf(name, ZR_LM_NAME_BYTES, "%s%s[%d]", prefix, of->desc.name, i);
        *tensor = of->desc;
        tensor->name = name;
        tensor->shape[of->tile_axis] = ZR_MIN(handle->step, size - i * handle->step);
        tensor->tp_axis = -1;
        tensor->tp_parts = 1;
        tensor->tile = (zero_tile){.whole = unit->names[number],
                                   .axis = of->tile_axis,
                                   .first = i * handle->step,
                                   .size = size};
        unit->flat_params[unit->flat_param_count++] =
            (zero_flat_param_desc){.kind = zr_lm_class(of, handle->trains),
                                   .tensor_count = 1,
                                   .tensors = tensor,
                                   .streamed = 1};
    }
}

// Makes the flat parameters and handles of one unit's tensors.
static zero_status lay_out_unit(const zr_lm_storage *s, zr_unit_storage *unit, const char *prefix,
                                const zr_unit_tensor *of, int count, zero_error *error)
{
    ZERO_TRY(unit_reserve(unit, of, count, error));
    handles_begin(s, unit, prefix, of, count);
    for (int group = 0; group < ZR_LM_GROUPS; group++) {
        flat_param_add(unit, of, count, group, ZERO_TRAINABLE);
        flat_param_add(unit, of, count, group, ZERO_FROZEN);
        flat_param_add(unit, of, count, group, ZERO_CODES);
    }
    for (int t = 0; t < count; t++)
        if (unit->hyper.tensor[t].tiles > 1)
            tiles_add(unit, prefix, &of[t], t);
    return ZERO_OK;
}

static zero_unit unit_of_storage(const zr_unit_storage *unit, const zero_unit_ops *ops)
{
    return (zero_unit){.name = unit->name,
                       .ops = ops,
                       .hyper = &unit->hyper,
                       .flat_param_count = unit->flat_param_count,
                       .flat_params = unit->flat_params};
}

static zero_status embedding_build(zr_lm_storage *s, const zero_unit_ops *ops, zero_error *error)
{
    zr_unit_storage *unit = &s->storage[0];
    snprintf(unit->name, ZR_LM_NAME_BYTES, "embedding");
    ZERO_TRY(lay_out_unit(s, unit, "", s->design.embedding, ZR_LM_END_TENSORS, error));
    s->units[0] = unit_of_storage(unit, ops);
    return ZERO_OK;
}

static zero_status block_build(zr_lm_storage *s, const zero_unit_ops *ops, int layer,
                               zero_error *error)
{
    zr_unit_storage *unit = &s->storage[layer + 1];
    char prefix[ZR_LM_NAME_BYTES];
    snprintf(unit->name, ZR_LM_NAME_BYTES, "%s%d", s->design.unit_prefix, layer);
    snprintf(prefix, ZR_LM_NAME_BYTES, "%s%d.", s->design.layer_prefix, layer);
    unit->hyper.layer = layer;
    unit->hyper.window = zr_lm_window(&unit->hyper.config, layer);
    ZERO_TRY(lay_out_unit(s, unit, prefix, s->design.block, s->design.tensor_count, error));
    s->units[layer + 1] = unit_of_storage(unit, ops);
    return ZERO_OK;
}

// Lets the head borrow the embedding's table; the borrowed flat parameters follow those that the
// head owns.
static zero_status table_borrow(const zr_lm_storage *s, zr_unit_storage *head, zero_unit *unit,
                                zero_error *error)
{
    const zr_tensor_handle *lent = &s->storage[0].hyper.tensor[ZR_LM_TABLE];
    zr_tensor_handle *table = &head->hyper.tensor[ZR_LM_TABLE];
    head->borrowed = zr_alloc((size_t)lent->tiles * sizeof *head->borrowed, error);
    if (!head->borrowed)
        return ZERO_ERR_MEMORY;
    for (int t = 0; t < lent->tiles; t++)
        head->borrowed[t] = (zero_flat_param_ref){.unit = 0, .flat_param = lent->flat_param + t};
    *table = *lent;
    table->flat_param = head->flat_param_count;
    unit->borrowed_count = lent->tiles;
    unit->borrowed = head->borrowed;
    return ZERO_OK;
}

static zero_status head_build(zr_lm_storage *s, const zero_unit_ops *ops, zero_error *error)
{
    int last = s->model.unit_count - 1;
    zr_unit_storage *unit = &s->storage[last];
    snprintf(unit->name, ZR_LM_NAME_BYTES, "head");
    ZERO_TRY(lay_out_unit(s, unit, "", s->design.head, ZR_LM_END_TENSORS, error));
    s->units[last] = unit_of_storage(unit, ops);
    return zr_tensor_exists(&unit->hyper.tensor[ZR_LM_TABLE])
               ? ZERO_OK
               : table_borrow(s, unit, &s->units[last], error);
}

static zero_status units_build(zr_lm_storage *s, const zr_lm_config *config, const zr_lm_ops *ops,
                               zero_error *error)
{
    int count = s->model.unit_count;
    s->units = zr_alloc(sizeof *s->units * (size_t)count, error);
    s->storage = zr_alloc(sizeof *s->storage * (size_t)count, error);
    if (!s->units || !s->storage)
        return ZERO_ERR_MEMORY;
    for (int u = 0; u < count; u++) {
        zr_lm_unit *hyper = &s->storage[u].hyper;
        *hyper = (zr_lm_unit){.config = *config,
                              .shape = zr_lm_shape_of(config),
                              .slices = {.count = 1, .ranks = 1},
                              .layer = -1};
        if (hyper->shape.rotated)
            zr_lm_frequencies(config, hyper->frequency, &hyper->rotary_factor);
    }
    ZERO_TRY(embedding_build(s, ops->embedding, error));
    for (int layer = 0; layer < count - 2; layer++)
        ZERO_TRY(block_build(s, ops->block, layer, error));
    return head_build(s, ops->head, error);
}

const zr_unit_tensor *zr_lm_design_of(const zr_lm_storage *s, int unit, int *count)
{
    *count = ZR_LM_END_TENSORS;
    if (unit == 0)
        return s->design.embedding;
    if (unit == s->model.unit_count - 1)
        return s->design.head;
    *count = s->design.tensor_count;
    return s->design.block;
}

zero_status zr_lm_build(const zr_lm_config *config, const zr_lm_frozen *frozen,
                        const zr_lm_ops *ops, zero_model **out, zero_error *error)
{
    ZERO_TRY(zr_lm_check(config, error));
    zr_lm_storage *s = zr_alloc(sizeof(*s), error);
    if (!s)
        return ZERO_ERR_MEMORY;
    s->design = zr_lm_design_of_config(config);
    s->model =
        (zero_model){.name = s->design.name, .unit_count = (int)zr_lm_shape_of(config).layers + 2};
    s->frozen = frozen;
    zero_status status = units_build(s, config, ops, error);
    s->frozen = NULL; // it belongs to the caller, and is only valid during this call
    if (status != ZERO_OK) {
        zr_lm_free(&s->model);
        return status;
    }
    s->model.units = s->units;
    *out = &s->model;
    return ZERO_OK;
}

void zr_lm_free(zero_model *model)
{
    zr_lm_storage *s = (zr_lm_storage *)model;
    if (!s)
        return;
    for (int u = 0; s->storage && u < s->model.unit_count; u++) {
        zr_free(s->storage[u].names);
        zr_free(s->storage[u].tensors);
        zr_free(s->storage[u].flat_params);
        zr_free(s->storage[u].borrowed);
        zr_free(s->storage[u].hyper.sliced);
    }
    zr_free(s->storage);
    zr_free(s->units);
    zr_free(s);
}
