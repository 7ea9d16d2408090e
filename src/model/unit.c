// Models as lists of units: finding flat parameters, checking the rules of the interface, initial
// values, and keys of randomness.
// Everything here is a pure function of a model that does not change; the engine, plan/ and
// checkpoint/ call it.
#include "model/unit.h"
#include "base/alloc.h"
#include "base/random.h"
#include "model/pipeline_stage_cut.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

zero_flat_param_ref zr_unit_flat_param(const zero_model *model, int unit, int index)
{
    const zero_unit *u = &model->units[unit];
    assert(index >= 0 && index < u->flat_param_count + u->borrowed_count);
    if (index < u->flat_param_count)
        return (zero_flat_param_ref){.unit = unit, .flat_param = index};
    return u->borrowed[index - u->flat_param_count];
}

const zero_flat_param_desc *zr_flat_param_desc(const zero_model *model, zero_flat_param_ref ref)
{
    return &model->units[ref.unit].flat_params[ref.flat_param];
}

int64_t zr_tensor_desc_elements(const zero_tensor_desc *tensor)
{
    int64_t elements = 1;
    for (int d = 0; d < tensor->dims; d++)
        elements *= tensor->shape[d];
    return elements;
}

int64_t zr_flat_param_desc_elements(const zero_flat_param_desc *flat_param)
{
    int64_t elements = 0;
    for (int t = 0; t < flat_param->tensor_count; t++)
        elements += zr_tensor_desc_elements(&flat_param->tensors[t]);
    return elements;
}

int64_t zr_tensor_parameters(zero_class kind, const zero_tensor_desc *tensor)
{
    int64_t elements = zr_tensor_desc_elements(tensor);
    return kind == ZERO_BUFFER  ? 0
           : kind == ZERO_CODES ? (int64_t)((double)elements * tensor->init_value)
                                : elements;
}

static int64_t count_parameters(const zero_model *model, bool trained)
{
    int64_t parameters = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int p = 0; p < model->units[u].flat_param_count; p++) {
            const zero_flat_param_desc *of = &model->units[u].flat_params[p];
            bool counts = !trained || of->kind == ZERO_TRAINABLE;
            for (int t = 0; t < of->tensor_count && counts; t++)
                parameters += zr_tensor_parameters(of->kind, &of->tensors[t]);
        }
    return parameters;
}

int64_t zr_model_parameters(const zero_model *model) { return count_parameters(model, false); }

int64_t zr_model_trained(const zero_model *model) { return count_parameters(model, true); }

// Returns whether the dimension may be 0, because other ranks hold all of the tensor.
static bool is_empty_tile(const zero_tensor_desc *tensor, int dimension)
{
    return tensor->tile.whole && tensor->tile.axis == dimension && tensor->shape[dimension] == 0;
}

static zero_status shape_check(const zero_tensor_desc *tensor, zero_error *error)
{
    int64_t elements = 1;
    if (tensor->dims < 1 || tensor->dims > ZERO_MAX_DIMS)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "tensor \"%s\" has %d dimensions: 1 to %d are possible", tensor->name,
                       tensor->dims, ZERO_MAX_DIMS);
    for (int d = 0; d < tensor->dims; d++) {
        if (tensor->shape[d] < 1 && !is_empty_tile(tensor, d))
            return zr_fail(error, ZERO_ERR_USAGE,
                           "tensor \"%s\" is empty: its dimension %d is %lld", tensor->name, d,
                           (long long)tensor->shape[d]);
        if (__builtin_mul_overflow(elements, tensor->shape[d], &elements) ||
            elements > INT64_MAX / 8)
            return zr_fail(error, ZERO_ERR_USAGE,
                           "tensor \"%s\" has more elements than can be addressed", tensor->name);
    }
    return ZERO_OK;
}

static zero_status initialisation_check(const zero_tensor_desc *tensor, zero_error *error)
{
    bool known = tensor->init >= ZERO_INIT_CONSTANT && tensor->init <= ZERO_INIT_UNIFORM;
    if (known && isfinite(tensor->init_value))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "tensor \"%s\" has no usable initialisation (kind %d, value %g)", tensor->name,
                   (int)tensor->init, (double)tensor->init_value);
}

int64_t zr_tensor_parts(const zero_tensor_desc *tensor) { return ZR_MAX(tensor->tp_parts, 1); }

static bool lies_in_whole(const zero_tensor_desc *tensor)
{
    const zero_tile *tile = &tensor->tile;
    if (tile->axis < 0 || tile->axis >= tensor->dims)
        return false;
    int64_t parts = zr_tensor_parts(tensor), here = tensor->shape[tile->axis];
    if (tile->first < 0 || tile->size > INT64_MAX / 8 || here % parts || tile->size % parts)
        return false;
    return tile->first <= (tile->size - here) / parts;
}

static zero_status tile_check(const zero_tensor_desc *tensor, zero_error *error)
{
    const zero_tile *tile = &tensor->tile;
    if (!tile->whole || lies_in_whole(tensor))
        return ZERO_OK;
    bool has_axis = tile->axis >= 0 && tile->axis < tensor->dims;
    return zr_fail(
        error, ZERO_ERR_USAGE,
        "tensor \"%s\" is no part of \"%s\": %lld from %lld on of %lld along dimension %d",
        tensor->name, tile->whole, has_axis ? (long long)tensor->shape[tile->axis] : 0LL,
        (long long)tile->first, (long long)tile->size, tile->axis);
}

static zero_status split_check(const zero_tensor_desc *tensor, zero_error *error)
{
    int axis = tensor->tp_axis, parts = tensor->tp_parts;
    if (axis < -1 || axis >= tensor->dims)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "tensor \"%s\" is split on axis %d, but has %d dimensions (-1: not split)",
                       tensor->name, axis, tensor->dims);
    if (axis >= 0 && parts > 1 && tensor->shape[axis] % parts != 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "tensor \"%s\": %lld on axis %d is not divisible into %d parts",
                       tensor->name, (long long)tensor->shape[axis], axis, parts);
    return ZERO_OK;
}

static zero_status tensor_check(const zero_unit *unit, const zero_tensor_desc *tensor,
                                zero_error *error)
{
    if (!tensor->name || !tensor->name[0])
        return zr_fail(error, ZERO_ERR_USAGE, "unit \"%s\" has a tensor without a name",
                       unit->name);
    ZERO_TRY(shape_check(tensor, error));
    ZERO_TRY(initialisation_check(tensor, error));
    ZERO_TRY(tile_check(tensor, error));
    return split_check(tensor, error);
}

static zero_status borrowed_check(const zero_model *model, int index, zero_error *error)
{
    const zero_unit *unit = &model->units[index];
    for (int b = 0; b < unit->borrowed_count; b++) {
        zero_flat_param_ref ref = unit->borrowed[b];
        if (ref.unit < 0 || ref.unit >= index)
            return zr_fail(
                error, ZERO_ERR_USAGE,
                "unit \"%s\" (number %d) borrows from unit number %d: only earlier units can lend",
                unit->name, index, ref.unit);
        if (ref.flat_param < 0 || ref.flat_param >= model->units[ref.unit].flat_param_count)
            return zr_fail(error, ZERO_ERR_USAGE,
                           "unit \"%s\" borrows flat parameter %d of unit \"%s\", which owns %d",
                           unit->name, ref.flat_param, model->units[ref.unit].name,
                           model->units[ref.unit].flat_param_count);
        for (int other = 0; other < b; other++)
            if (unit->borrowed[other].unit == ref.unit &&
                unit->borrowed[other].flat_param == ref.flat_param)
                return zr_fail(error, ZERO_ERR_USAGE,
                               "unit \"%s\" borrows flat parameter %d of unit \"%s\" twice",
                               unit->name, ref.flat_param, model->units[ref.unit].name);
    }
    return ZERO_OK;
}

static zero_status flat_param_check(const zero_unit *unit, int index, zero_error *error)
{
    const zero_flat_param_desc *flat_param = &unit->flat_params[index];
    if (flat_param->kind < ZERO_TRAINABLE || flat_param->kind > ZERO_CODES)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "flat parameter %d of unit \"%s\" is of no known class (%d)", index,
                       unit->name, (int)flat_param->kind);
    if (flat_param->tensor_count < 1 || !flat_param->tensors)
        return zr_fail(error, ZERO_ERR_USAGE, "flat parameter %d of unit \"%s\" has no tensors",
                       index, unit->name);
    if (flat_param->streamed && (flat_param->kind >= ZERO_BUFFER || flat_param->tensor_count != 1))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "flat parameter %d of unit \"%s\" is streamed: it must be one trainable or "
                       "frozen tensor",
                       index, unit->name);
    for (int t = 0; t < flat_param->tensor_count; t++)
        ZERO_TRY(tensor_check(unit, &flat_param->tensors[t], error));
    return ZERO_OK;
}

// Checks that few flat parameters stay during a whole call, because their numbers are bits of
// zero_unit_sizes.backward_reads.
static zero_status resident_check(const zero_model *model, const zero_unit *unit, int index,
                                  zero_error *error)
{
    int resident = 0;
    for (int i = 0; i < unit->flat_param_count + unit->borrowed_count; i++) {
        bool streamed = zr_flat_param_is_streamed(model, zr_unit_flat_param(model, index, i));
        resident += !streamed;
        if (!streamed && i >= 32)
            return zr_fail(
                error, ZERO_ERR_USAGE,
                "unit \"%s\": flat parameter %d is not streamed: it must be among the first 32",
                unit->name, i);
    }
    if (resident > ZERO_MAX_FLAT_PARAMS)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "unit \"%s\" owns and borrows %d flat parameters that are not streamed: at "
                       "most %d together",
                       unit->name, resident, ZERO_MAX_FLAT_PARAMS);
    return ZERO_OK;
}

static zero_status functions_check(const zero_model *model, int index, zero_error *error)
{
    const zero_unit *unit = &model->units[index];
    const zero_unit_ops *ops = unit->ops;
    if (!ops || !ops->kind || !ops->sizes || !ops->forward || !ops->backward)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "unit \"%s\" lacks one of kind, sizes, forward, backward", unit->name);
    if (ops->forward_backward && index != model->unit_count - 1)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "unit \"%s\" offers forward_backward, which only the last unit may",
                       unit->name);
    if (!ops->backward_input != !ops->backward_weight)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "unit \"%s\" has %s without %s: a backward in two parts needs both",
                       unit->name, ops->backward_input ? "backward_input" : "backward_weight",
                       ops->backward_input ? "backward_weight" : "backward_input");
    return ZERO_OK;
}

static zero_status counts_check(const zero_unit *unit, zero_error *error)
{
    int owned = unit->flat_param_count, borrowed = unit->borrowed_count;
    if (owned < 0 || borrowed < 0 ||
        (int64_t)owned + borrowed > ZERO_MAX_FLAT_PARAMS + ZERO_MAX_STREAMED)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "unit \"%s\" owns %d and borrows %d flat parameters: at most %d together, "
                       "and %d streamed ones",
                       unit->name, owned, borrowed, ZERO_MAX_FLAT_PARAMS, ZERO_MAX_STREAMED);
    if ((owned && !unit->flat_params) || (borrowed && !unit->borrowed))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "unit \"%s\" announces flat parameters and does not describe them",
                       unit->name);
    return ZERO_OK;
}

static zero_status unit_check(const zero_model *model, int index, zero_error *error)
{
    const zero_unit *unit = &model->units[index];
    if (!unit->name || !unit->name[0])
        return zr_fail(error, ZERO_ERR_USAGE, "unit number %d has no name", index);
    ZERO_TRY(functions_check(model, index, error));
    ZERO_TRY(counts_check(unit, error));
    for (int p = 0; p < unit->flat_param_count; p++)
        ZERO_TRY(flat_param_check(unit, p, error));
    ZERO_TRY(borrowed_check(model, index, error));
    return resident_check(model, unit, index, error);
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static zero_status names_unique(const char **names, int64_t count, const char *what,
                                zero_error *error)
{
    qsort(names, (size_t)count, sizeof(*names), name_compare);
    for (int64_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return zr_fail(error, ZERO_ERR_USAGE,
                           "two %s are named \"%s\": names must be unique in a model", what,
                           names[i]);
    return ZERO_OK;
}

// Counts the tensors, and lists their names unless `names` is NULL. Tied copies are left out,
// because they have the names of their owners.
static int64_t tensor_names(const zero_model *model, const char **names)
{
    int64_t count = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int p = 0; p < model->units[u].flat_param_count; p++) {
            const zero_flat_param_desc *flat_param = &model->units[u].flat_params[p];
            bool tied_copy = zr_pipeline_stage_tied_copy_at(model, (zero_flat_param_ref){u, p});
            for (int t = 0; t < flat_param->tensor_count && !tied_copy; t++, count++)
                if (names)
                    names[count] = flat_param->tensors[t].name;
        }
    return count;
}

static zero_status names_check(const zero_model *model, zero_error *error)
{
    int64_t tensors = tensor_names(model, NULL);
    const char **names =
        zr_alloc(sizeof(*names) * (size_t)ZR_MAX(tensors, model->unit_count), error);
    if (!names)
        return ZERO_ERR_MEMORY;
    for (int u = 0; u < model->unit_count; u++)
        names[u] = model->units[u].name;
    zero_status status = names_unique(names, model->unit_count, "units", error);
    if (status == ZERO_OK) {
        tensor_names(model, names);
        status = names_unique(names, tensors, "tensors", error);
    }
    zr_free(names);
    return status;
}

zero_status zr_model_check(const zero_model *model, zero_error *error)
{
    if (!model || model->unit_count < 1 || !model->units)
        return zr_fail(error, ZERO_ERR_USAGE, "the model has no units");
    for (int u = 0; u < model->unit_count; u++)
        ZERO_TRY(unit_check(model, u, error));
    return names_check(model, error);
}

bool zr_flat_param_is_streamed(const zero_model *model, zero_flat_param_ref ref)
{
    return zr_flat_param_desc(model, ref)->streamed;
}

static void fill_initial_values(const zero_tensor_desc *tensor, uint64_t key, int64_t start,
                                int64_t count, float *out)
{
    switch (tensor->init) {
    case ZERO_INIT_NORMAL: zr_random_normal(key, start, count, tensor->init_value, out); break;
    case ZERO_INIT_UNIFORM: zr_random_uniform(key, start, count, tensor->init_value, out); break;
    case ZERO_INIT_CONSTANT:
        for (int64_t i = 0; i < count; i++)
            out[i] = tensor->init_value;
        break;
    }
}

// A tile is rows of `width` elements that lie `stride` elements apart in the whole, from element
// `first` on; `parts` matrices next to each other are as many rows.
typedef struct tile_rows {
    int64_t first, width, stride;
} tile_rows;

static tile_rows rows_of_tile(const zero_tensor_desc *tensor)
{
    const zero_tile *tile = &tensor->tile;
    int64_t inner = 1, parts = zr_tensor_parts(tensor);
    for (int d = tile->axis + 1; d < tensor->dims; d++)
        inner *= tensor->shape[d];
    return (tile_rows){.first = tile->first * inner,
                       .width = tensor->shape[tile->axis] / parts * inner,
                       .stride = tile->size / parts * inner};
}

int64_t zr_tile_rectangle(const zero_tensor_desc *tensor, int64_t start, int64_t count,
                          zr_rectangle *out)
{
    if (!tensor->tile.whole || count == 0) {
        *out = (zr_rectangle){.first = start, .width = count, .stride = count, .rows = 1};
        return count;
    }
    const tile_rows tile = rows_of_tile(tensor);
    int64_t row = start / tile.width, column = start % tile.width, left = tile.width - column;
    *out = (zr_rectangle){.first = tile.first + row * tile.stride + column,
                          .width = ZR_MIN(count, left),
                          .stride = tile.stride,
                          .rows = column ? 1 : ZR_MAX(count / tile.width, 1)};
    return out->rows * out->width;
}

int64_t zr_tile_stretch(const zero_tensor_desc *tensor, int64_t start, int64_t count,
                        int64_t *whole_start)
{
    zr_rectangle rectangle;
    zr_tile_rectangle(tensor, start, count, &rectangle);
    *whole_start = rectangle.first;
    return rectangle.width;
}

void zr_tensor_initialise(const zero_tensor_desc *tensor, uint64_t seed, int64_t start,
                          int64_t count, float *out)
{
    const char *name = zr_tensor_name(tensor);
    uint64_t key = zr_hash_bytes(name, strlen(name), seed);
    for (int64_t done = 0, stretch, at; done < count; done += stretch) {
        stretch = zr_tile_stretch(tensor, start + done, count - done, &at);
        fill_initial_values(tensor, key, at, stretch, out + done);
    }
}

uint64_t zr_context_key(const zero_context *context, uint32_t site)
{
    return zr_site_key(context->seed, context->step, context->micro_batch,
                       (uint64_t)context->unit_index, site);
}

uint64_t zero_random(const zero_context *context, uint32_t site, uint64_t element)
{
    if (!context)
        return 0;
    zr_philox bits = zr_philox4x32(zr_context_key(context, site), 0, element);
    return (uint64_t)bits.v[1] << 32 | bits.v[0];
}

// If the step's mean is over targets, each target contributes 1/positions here; the engine divides
// by the share of positions that are targets.
double zero_loss_factor(zero_context *context, int64_t targets)
{
    if (!context)
        return 0;
    struct zr_loss_weight *weight = context->weight;
    bool by_position = weight && !weight->of_micro_batches;
    if (by_position)
        weight->targets = targets;
    return targets > 0
               ? (double)context->loss_factor / (double)(by_position ? weight->positions : targets)
               : 0;
}

zero_status zero_flat_param_begin(zero_context *context, int flat_param)
{
    return !context ? ZERO_ERR_USAGE
                    : context->accessor->begin(context->accessor, context, flat_param);
}

zero_status zero_flat_param_end(zero_context *context, int flat_param)
{
    return !context ? ZERO_ERR_USAGE
                    : context->accessor->end(context->accessor, context, flat_param);
}

zero_status zero_piece_begin(zero_context *context, int flat_param)
{
    return zero_flat_param_begin(context, flat_param);
}

zero_status zero_piece_end(zero_context *context, int flat_param)
{
    return zero_flat_param_end(context, flat_param);
}

const void *zero_parameter(const zero_context *context, int flat_param, int tensor)
{
    return !context ? NULL
                    : context->accessor->parameter(context->accessor, context, flat_param, tensor);
}

float *zero_gradient(zero_context *context, int flat_param, int tensor, int *add)
{
    return !context || !add
               ? NULL
               : context->sink->gradient(context->sink, context, flat_param, tensor, add);
}

zero_status zero_tensor_sum(zero_context *context, float *data, int64_t elements)
{
    if (!context || (!data && elements > 0) || elements < 0)
        return zr_fail(context ? context->error : NULL, ZERO_ERR_USAGE,
                       "zero_tensor_sum: context or data is missing (NULL), or there are %lld "
                       "elements",
                       (long long)elements);
    const struct zr_exchanger *exchanger = context->exchanger;
    if (!exchanger || exchanger->size == 1)
        return ZERO_OK;
    int64_t share = (elements + exchanger->size - 1) / exchanger->size;
    size_t bytes = (size_t)elements * sizeof *data,
           needed = (size_t)(share * exchanger->size) * sizeof *data;
    if (needed > (size_t)exchanger->bytes)
        return zr_fail(context->error, ZERO_ERR_USAGE,
                       "unit \"%s\": zero_tensor_sum of %lld elements; the exchange_bytes of its "
                       "sizes are too few for %zu bytes",
                       context->unit->name, (long long)elements, needed);
    memcpy(exchanger->window, data, bytes);
    memset(exchanger->window + bytes, 0, needed - bytes);
    ZERO_TRY(exchanger->run(exchanger, context, ZERO_EXCHANGE_SUM, 0, 0, share, ZERO_F32));
    memcpy(data, exchanger->window, bytes);
    return ZERO_OK;
}
