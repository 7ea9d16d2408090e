// Reads and writes tensors by name. A tiled tensor is put together from its tiles, and a split one
// from those of all tensor ranks.
#include "base/alloc.h"
#include "base/dtype.h"
#include "comm/agreement.h"
#include "engine/step.h"
#include "plan/accumulators.h"

#include <string.h>

typedef struct part { // a tensor of the plan: the wanted one, or a tile of it
    int flat_param;
    const zr_plan_tensor *tensor;
} part;

typedef struct wanted { // the tensor that the caller named
    const char *name;
    // Of a part of a model: zr_plan_tensor.number; else, or if it is a tile, -1.
    int number;
    int64_t count; // elements; 0: there is no such tensor
} wanted;

// Says whether the tensor is a tile of the wanted one, not the wanted one itself: its elements lie
// at their places of the whole. A tile may have its whole's name, so its own says nothing.
static bool is_tile_of(const zr_plan_tensor *tensor, const wanted *what)
{
    const zero_tile *tile = &tensor->desc->tile;
    return tile->whole && (what->number >= 0 ? tensor->number == what->number
                                             : strcmp(tile->whole, what->name) == 0);
}

static bool is_part_of_wanted(const zr_plan_tensor *tensor, const wanted *what)
{
    if (what->number >= 0)
        return tensor->number == what->number;
    return is_tile_of(tensor, what) || strcmp(tensor->desc->name, what->name) == 0;
}

// Finds the next part after *at and returns true; false after the last. *at begins as {-1, NULL}.
static bool next_part(const zr_plan *plan, const wanted *what, part *at)
{
    for (int p = ZR_MAX(at->flat_param, 0); p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        int first = p == at->flat_param ? (int)(at->tensor - flat_param->tensors) + 1 : 0;
        for (int t = first; t < flat_param->tensor_count; t++)
            if (is_part_of_wanted(&flat_param->tensors[t], what)) {
                *at = (part){p, &flat_param->tensors[t]};
                return true;
            }
    }
    return false;
}

// Finds a tensor of the whole model by its name; parts of it have other names on other ranks. Or
// finds a tile of the whole model by its own name, which pipeline stages know, too.
static void find_in_whole(const zero_model *whole, wanted *what)
{
    for (zr_tensor_walk w = zr_tensors_of(whole); w.desc; zr_tensors_next(&w))
        if (strcmp(zr_tensor_name(w.desc), what->name) == 0) {
            const zero_tensor_desc tensor = zr_tensor_whole(w.desc);
            what->number = w.number;
            what->count = zr_tensor_desc_elements(&tensor);
            return;
        }
    for (int u = 0; u < whole->unit_count; u++)
        for (int p = 0; p < whole->units[u].flat_param_count; p++) {
            const zero_flat_param_desc *flat_param = &whole->units[u].flat_params[p];
            for (int t = 0; t < flat_param->tensor_count; t++)
                if (strcmp(flat_param->tensors[t].name, what->name) == 0)
                    what->count = zr_tensor_desc_elements(&flat_param->tensors[t]);
        }
}

// All ranks of a job find the same, also those that have nothing of the tensor.
static wanted find_wanted_tensor(const zr_plan *plan, const char *name)
{
    wanted what = {.name = name, .number = -1};
    if (!plan->model->whole)
        for (part at = {.flat_param = -1}; next_part(plan, &what, &at);)
            what.count += at.tensor->count;
    else
        find_in_whole(plan->model->whole, &what);
    return what;
}

static zero_status find_tensor(const zero_engine *engine, const char *call, const char *name,
                               const float *buffer, int64_t elements, wanted *out,
                               zero_error *error)
{
    if (!name || !buffer)
        return zr_fail(error, ZERO_ERR_USAGE, "%s: the %s is missing (NULL)", call,
                       name ? "buffer" : "name");
    *out = find_wanted_tensor(engine->plan, name);
    if (!out->count)
        return zr_fail(error, ZERO_ERR_USAGE, "%s: the model %s has no tensor \"%s\"", call,
                       engine->plan->model->name, name);
    if (elements != out->count)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s: tensor \"%s\" has %lld elements, the buffer %lld", call, name,
                       (long long)out->count, (long long)elements);
    return ZERO_OK;
}

// Returns the part of the tensor that a rank owns, as elements of the flat parameter.
static zr_span owned_part(const zr_flat_param *flat_param, const zr_plan_tensor *tensor, int rank)
{
    int64_t first = ZR_MAX(tensor->first, rank * flat_param->shard);
    int64_t end = ZR_MIN(tensor->first + tensor->count, (rank + 1) * flat_param->shard);
    return (zr_span){first, ZR_MAX(0, end - first)};
}

typedef struct copying { // between a buffer in fp32 and the part of a tensor that this rank owns
    const zr_plan_tensor *tensor;
    zr_span own;
    float *out;      // not NULL: from the shard to the tensor's elements
    const float *in; // else: into the shard, from those of the tensor that is asked for
    bool tile;       // this tensor is a tile of that one
} copying;

static zero_status copy_portion(void *user, const zr_portion *portion, zero_error *error)
{
    const copying *c = user;
    const zr_span *span = &portion->span;
    int64_t first = ZR_MAX(span->first, c->own.first),
            end = ZR_MIN(span->first + span->count, c->own.first + c->own.count);
    for (int64_t stretch, at; first < end; first += stretch) {
        char *stored = zr_portion_at(portion, first);
        int64_t element = first - c->tensor->first;
        stretch = end - first;
        if (c->out) {
            zr_widen(portion->dtype, stored, stretch, c->out + element);
            continue;
        }
        at = element;
        if (c->tile)
            stretch = zr_tile_stretch(c->tensor->desc, element, stretch, &at);
        zr_narrow(portion->dtype, c->in + at, stretch, stored);
    }
    return ZERO_OK;
}

// Reads what this rank owns of a part, and broadcasts each owner's to all ranks. out begins with
// the tensor's first element.
static zero_status read_and_share_part(zero_engine *engine, zr_vector vector, const part *part,
                                       float *out, zero_error *error)
{
    zero_comm *data = engine->grid.data;
    const zr_flat_param *flat_param = &engine->plan->flat_params[part->flat_param];
    copying copying = {.tensor = part->tensor,
                       .own = owned_part(flat_param, part->tensor, data->rank),
                       .out = out};
    ZERO_TRY(zr_engine_vector_each(engine, part->flat_param, vector, ZR_PORTIONS_READ, copy_portion,
                                   &copying, error));
    for (int r = 0; r < data->size; r++) {
        zr_span owned = owned_part(flat_param, part->tensor, r);
        if (owned.count > 0)
            ZERO_TRY(zr_comm_broadcast(data, out + (owned.first - part->tensor->first),
                                       owned.count * (int64_t)sizeof *out, r, error));
    }
    return ZERO_OK;
}

static zero_status read_tile(zero_engine *engine, zr_vector vector, const part *part, float *whole,
                             zero_error *error)
{
    float *tile = zr_alloc((size_t)part->tensor->count * sizeof *tile, error);
    if (!tile)
        return ZERO_ERR_MEMORY;
    zero_status status = read_and_share_part(engine, vector, part, tile, error);
    for (int64_t done = 0, stretch, at; status == ZERO_OK && done < part->tensor->count;
         done += stretch) {
        stretch = zr_tile_stretch(part->tensor->desc, done, part->tensor->count - done, &at);
        memcpy(whole + at, tile + done, (size_t)stretch * sizeof *tile);
    }
    zr_free(tile);
    return status;
}

// Puts a tensor together from the ranks of a group, each of which has the elements of the flat
// parameters that count by it, and zeroes. Bits are added as integers, so that every value comes as
// it is.
static zero_status sum_disjoint_parts(zero_comm *group, float *out, int64_t elements,
                                      zero_error *error)
{
    enum { AT_ONCE = ZR_COMM_SMALL_BYTES / sizeof(int64_t) };
    int64_t *words = zr_alloc(AT_ONCE * sizeof *words, error);
    zero_status status = words ? ZERO_OK : ZERO_ERR_MEMORY;
    for (int64_t done = 0, n; done < elements && status == ZERO_OK; done += n) {
        n = ZR_MIN(elements - done, 2 * AT_ONCE);
        words[(n - 1) / 2] = 0; // an odd number of elements leaves half a word
        memcpy(words, out + done, (size_t)n * sizeof *out);
        status = zr_comm_all_reduce_small(group, words, (n + 1) / 2, ZERO_I64, ZR_SUM, error);
        memcpy(out + done, words, (size_t)n * sizeof *out);
    }
    zr_free(words);
    return status;
}

static zero_status read_tensor_shards(zero_engine *engine, zr_vector vector, const wanted *what,
                                      float *out, zero_error *error)
{
    zero_comm *tensor = engine->grid.tensor, *pipeline = engine->grid.pipeline;
    if (tensor || pipeline)
        memset(out, 0, (size_t)what->count * sizeof *out);
    for (part at = {.flat_param = -1}; next_part(engine->plan, what, &at);) {
        bool tile = is_tile_of(at.tensor, what);
        if (engine->plan->flat_params[at.flat_param].counted && at.tensor->count > 0)
            ZERO_TRY((tile ? read_tile : read_and_share_part)(engine, vector, &at, out, error));
    }
    if (tensor)
        ZERO_TRY(sum_disjoint_parts(tensor, out, what->count, error));
    return pipeline ? sum_disjoint_parts(pipeline, out, what->count, error) : ZERO_OK;
}

zero_status zero_read_parameter(zero_engine *engine, const char *name, float *out, int64_t elements,
                                zero_error *error)
{
    ZR_NEED(error, engine);
    ZERO_TRY(zr_engine_between_steps(engine, "zero_read_parameter", error));
    wanted what;
    ZERO_TRY(find_tensor(engine, "zero_read_parameter", name, out, elements, &what, error));
    return zr_step_end_waits(
        engine, read_tensor_shards(engine, ZR_VECTOR_MASTER, &what, out, error), error);
}

enum { COLLECTS_NOTHING, COLLECTS_VALUES, COLLECTS_GRADIENTS }; // of buffers, of what trains

// Finds out what is added up for the tensor. Pipeline stages that do not have it hear it of the one
// that has.
static zero_status find_collected(zero_engine *engine, const wanted *what, int64_t *out,
                                  zero_error *error)
{
    *out = COLLECTS_NOTHING;
    for (part at = {.flat_param = -1}; next_part(engine->plan, what, &at);) {
        const zr_flat_param *flat_param = &engine->plan->flat_params[at.flat_param];
        if (zr_flat_param_collects(flat_param))
            *out = flat_param->kind == ZERO_TRAINABLE ? COLLECTS_GRADIENTS : COLLECTS_VALUES;
    }
    return engine->grid.pipeline ? zr_comm_agree_on_largest(engine->grid.pipeline, out, error)
                                 : ZERO_OK;
}

zero_status zero_read_gradient(zero_engine *engine, const char *name, float *out, int64_t elements,
                               zero_error *error)
{
    ZR_NEED(error, engine);
    ZERO_TRY(zr_engine_between_steps(engine, "zero_read_gradient", error));
    wanted what;
    ZERO_TRY(find_tensor(engine, "zero_read_gradient", name, out, elements, &what, error));
    int64_t collected;
    ZERO_TRY(zr_step_end_waits(engine, find_collected(engine, &what, &collected, error), error));
    if (collected == COLLECTS_NOTHING)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_read_gradient: tensor \"%s\" has no gradient",
                       name);
    ZERO_TRY(zr_step_end_waits(
        engine, read_tensor_shards(engine, ZR_VECTOR_GRADIENT, &what, out, error), error));
    float factor =
        collected == COLLECTS_GRADIENTS ? (float)(1 / engine->progress.gradient_scale) : 1;
    for (int64_t i = 0; i < elements; i++)
        out[i] *= factor;
    return ZERO_OK;
}

static zero_status write_tensor_shards(zero_engine *engine, const wanted *what, const float *in,
                                       zero_error *error)
{
    ZERO_TRY(zr_engine_await_readers(engine, error));
    for (part at = {.flat_param = -1}; next_part(engine->plan, what, &at);) {
        copying copying = {.tensor = at.tensor,
                           .own = owned_part(&engine->plan->flat_params[at.flat_param], at.tensor,
                                             engine->grid.data->rank),
                           .in = in,
                           .tile = is_tile_of(at.tensor, what)};
        ZERO_TRY(zr_engine_vector_each(engine, at.flat_param, ZR_VECTOR_MASTER, ZR_PORTIONS_CHANGED,
                                       copy_portion, &copying, error));
    }
    return zr_engine_parameters_changed(engine, error);
}

zero_status zero_write_parameter(zero_engine *engine, const char *name, const float *in,
                                 int64_t elements, zero_error *error)
{
    ZR_NEED(error, engine);
    ZERO_TRY(zr_engine_may_change(engine, "zero_write_parameter", error));
    wanted what;
    ZERO_TRY(find_tensor(engine, "zero_write_parameter", name, in, elements, &what, error));
    return zr_step_end_waits(engine, write_tensor_shards(engine, &what, in, error), error);
}
