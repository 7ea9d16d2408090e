// Where the elements of every tensor lie: stretches of bytes in the ranks' files. All values in a
// file are checked before they are used: shapes against parts, names against each other.
#include "formats/deepspeed.h"

#include "formats/name_index.h"
#include "formats/pickle.h"
#include "formats/safetensors.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FP32 ((int64_t)sizeof(float))

typedef const zr_pickle_value *value;

static zero_status add_stretch(zr_deepspeed *ds, int file, int64_t begin, int64_t bytes,
                               zero_error *error)
{
    if (ds->stretch_count > INT32_MAX / 2)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" is cut into too many parts", ds->folder);
    zr_ds_stretch *grown =
        zr_list_grow(ds->stretches, ds->stretch_count, &ds->stretch_room, sizeof *grown, error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    ds->stretches = grown;
    ds->stretches[ds->stretch_count++] = (zr_ds_stretch){file, begin, bytes};
    return ZERO_OK;
}

// Adds the stretches of elements [first, first + elements) of the concatenated parts, which must
// contain them.
static zero_status add_elements(zr_deepspeed *ds, const zr_ds_part *parts, int count, int stride,
                                int64_t first, int64_t elements, zero_error *error)
{
    for (int i = 0; i < count && elements > 0; i++) {
        const zr_ds_part *part = &parts[i * stride];
        if (first >= part->elements) {
            first -= part->elements;
            continue;
        }
        int64_t n = ZR_MIN(elements, part->elements - first);
        ZERO_TRY(add_stretch(ds, part->file, part->begin + first * FP32, n * FP32, error));
        elements -= n;
        first = 0;
    }
    assert(elements == 0);
    return ZERO_OK;
}

typedef struct shape {
    const char *name;
    int dims;
    int64_t of[ZR_PICKLE_DIMS], elements;
} shape;

static zero_status read_param_shape(const zr_deepspeed *ds, value name, value size, shape *out,
                                    zero_error *error)
{
    const char *text = zr_pickle_text(name), *path = zr_ds_path(ds, ds->ranks);
    *out = (shape){.name = text, .elements = 1};
    if (!text || !*text || !zr_pickle_is(size, ZR_PICKLE_TUPLE) ||
        size->items.count > ZR_PICKLE_DIMS)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\": param_shapes has an entry without a name or a shape", path);
    out->dims = (int)size->items.count;
    for (int d = 0; d < out->dims; d++)
        if (!zr_pickle_integer(size->items.at[d], &out->of[d]) || out->of[d] < 0 ||
            __builtin_mul_overflow(out->elements, out->of[d], &out->elements))
            return zr_fail(error, ZERO_ERR_DATA, "\"%s\": tensor \"%s\" has a shape that is none",
                           path, text);
    return out->elements <= INT64_MAX / 16
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_DATA, "\"%s\": tensor \"%s\" is too large", path, text);
}

typedef struct laying {
    zr_deepspeed *ds;
    zr_ds_vector *of;
    zr_source_vector *vector;
    int64_t offset; // elements of the flat vector, or of a rank's, already used
    zero_error *error;
} laying;

static zero_status begin_tensor(const laying *l, const shape *of, const char *dtype)
{
    int t = l->vector->tensor_count;
    ZERO_TRY(zr_source_set(&l->vector->tensors[t], of->name, dtype, of->dims, of->of, l->error));
    l->of->tensors[t] = (zr_ds_tensor){.first = l->ds->stretch_count};
    l->vector->tensor_count++;
    return ZERO_OK;
}

static void end_tensor(const laying *l)
{
    zr_ds_tensor *tensor = &l->of->tensors[l->vector->tensor_count - 1];
    tensor->count = l->ds->stretch_count - tensor->first;
}

static int64_t sum_part_elements(const zr_ds_part *parts, int count, int stride)
{
    int64_t elements = 0; // bounded by a file's bytes, so it cannot overflow
    for (int i = 0; i < count; i++)
        elements += parts[i * stride].elements;
    return elements;
}

static zero_status refuse_size(const laying *l, const char *name, int64_t needed, int64_t there)
{
    return zr_fail(l->error, ZERO_ERR_DATA,
                   "\"%s\": %s up to tensor \"%s\" need %lld elements, the ranks' files have %lld",
                   l->ds->folder, l->of->name, name, (long long)needed, (long long)there);
}

// Stages 1 and 2: lays the tensor in its group's vector, which extends over all ranks' parts.
static zero_status lay_across_group(laying *l, int group, const shape *of)
{
    const zr_ds_part *parts = &l->of->parts[group * l->ds->ranks];
    int64_t there = sum_part_elements(parts, l->ds->ranks, 1);
    if (of->elements > there - l->offset)
        return refuse_size(l, of->name, l->offset + of->elements, there);
    ZERO_TRY(begin_tensor(l, of, "F32"));
    ZERO_TRY(add_elements(l->ds, parts, l->ds->ranks, 1, l->offset, of->elements, l->error));
    end_tensor(l);
    l->offset += of->elements;
    return ZERO_OK;
}

// Stage 3: lays a part of the tensor in each rank's vector; the last part is padded.
static zero_status lay_across_ranks(laying *l, const shape *of)
{
    int ranks = l->ds->ranks;
    // Elements of each rank's part.
    int64_t part = of->elements / ranks + (of->elements % ranks != 0), left = of->elements,
            there = sum_part_elements(l->of->parts, l->ds->groups, ranks);
    if (part > there - l->offset)
        return refuse_size(l, of->name, l->offset + part, there);
    ZERO_TRY(begin_tensor(l, of, "F32"));
    for (int r = 0; r < ranks; r++) {
        int64_t n = ZR_MIN(left, part);
        ZERO_TRY(
            add_elements(l->ds, &l->of->parts[r], l->ds->groups, ranks, l->offset, n, l->error));
        left -= n;
    }
    end_tensor(l);
    l->offset += part;
    return ZERO_OK;
}

// Returns the elements of padding that DeepSpeed puts after a tensor for alignment.
static int64_t gap_after(const zr_deepspeed *ds, size_t group, size_t tensor)
{
    int64_t gap = 0;
    value gaps =
        zr_pickle_at(zr_pickle_get(zr_ds_optimizer(ds, 0), "param_alignment_paddings"), group);
    return zr_pickle_integer(zr_pickle_at(gaps, tensor), &gap) && gap > 0 ? gap : 0;
}

// Checks that only padding is left at the end, no more than DeepSpeed pads.
static zero_status check_end(const laying *l, int group)
{
    int64_t there = sum_part_elements(&l->of->parts[group * l->ds->ranks], l->ds->ranks, 1),
            unit = 2 * (int64_t)l->ds->ranks;
    if (l->offset <= there && ZR_ROUND_UP(l->offset, unit) == ZR_ROUND_UP(there, unit))
        return ZERO_OK;
    return zr_fail(
        l->error, ZERO_ERR_DATA,
        "\"%s\": the tensors of group %d have %lld elements, the ranks' parts of %s %lld",
        l->ds->folder, group, (long long)l->offset, l->of->name, (long long)there);
}

static zero_status lay_group(laying *l, size_t group, value shapes)
{
    shape of;
    if (!zr_pickle_is(shapes, ZR_PICKLE_DICT))
        return zr_fail(l->error, ZERO_ERR_DATA, "\"%s\": param_shapes is no list of shapes",
                       zr_ds_path(l->ds, l->ds->ranks));
    for (size_t i = 0; i + 1 < shapes->items.count; i += 2) {
        ZERO_TRY(
            read_param_shape(l->ds, shapes->items.at[i], shapes->items.at[i + 1], &of, l->error));
        ZERO_TRY(l->ds->stage == 3 ? lay_across_ranks(l, &of)
                                   : lay_across_group(l, (int)group, &of));
        int64_t gap = l->ds->stage == 3 ? 0 : gap_after(l->ds, group, i / 2);
        if (__builtin_add_overflow(l->offset, gap, &l->offset))
            return refuse_size(l, of.name, INT64_MAX, 0);
    }
    return ZERO_OK;
}

static zero_status lay_trained(laying *l, value groups)
{
    if (l->ds->stage != 3 && groups->items.count != (size_t)l->ds->groups)
        return zr_fail(l->error, ZERO_ERR_DATA,
                       "\"%s\" has shapes of %zu groups, the ranks have %d",
                       zr_ds_path(l->ds, l->ds->ranks), groups->items.count, l->ds->groups);
    for (size_t g = 0; g < groups->items.count; g++) {
        ZERO_TRY(lay_group(l, g, groups->items.at[g]));
        if (l->ds->stage == 3)
            continue;
        ZERO_TRY(check_end(l, (int)g));
        l->offset = 0;
    }
    int64_t there = sum_part_elements(l->of->parts, l->ds->groups, l->ds->ranks);
    if (l->ds->stage != 3 || there == l->offset)
        return ZERO_OK;
    return zr_fail(l->error, ZERO_ERR_DATA,
                   "\"%s\": the tensors need %lld elements of each rank's %s, which have %lld",
                   l->ds->folder, (long long)l->offset, l->of->name, (long long)there);
}

// Lays the part of a tensor that model file m has. *dtype is that of the earlier parts; NULL before
// the first.
static zero_status lay_part(laying *l, int m, const shape *of, value part, const char **dtype,
                            int64_t *left)
{
    const zr_torch_file *file = &l->ds->model[m];
    int64_t begin;
    if (!zr_pickle_is(part, ZR_PICKLE_TENSOR) ||
        (*dtype && strcmp(*dtype, part->tensor.storage->dtype)))
        return zr_fail(l->error, ZERO_ERR_DATA, "\"%s\" lacks its part of tensor \"%s\"",
                       file->zip.path, of->name);
    if (!*dtype)
        ZERO_TRY(begin_tensor(l, of, *dtype = part->tensor.storage->dtype));
    int64_t n = ZR_MIN(*left, part->tensor.elements), size = zr_st_dtype_find(*dtype)->bits / 8;
    ZERO_TRY(zr_torch_position(file, &part->tensor, of->name, &begin, l->error));
    if (n)
        ZERO_TRY(add_stretch(l->ds, l->ds->ranks + m, begin, n * size, l->error));
    *left -= n;
    return ZERO_OK;
}

// Lays a frozen tensor: whole, or at stage 3 in parts. `parts` (models) has those of each file.
static zero_status lay_fragments(laying *l, const shape *of, const zr_pickle_keys *parts)
{
    int64_t left = of->elements;
    const char *dtype = NULL;
    for (int m = 0; m < l->ds->models && (left > 0 || !m); m++)
        ZERO_TRY(lay_part(l, m, of, zr_pickle_keys_find(&parts[m], of->name), &dtype, &left));
    end_tensor(l);
    return left ? refuse_size(l, of->name, of->elements, of->elements - left) : ZERO_OK;
}

static zero_status lay_all_frozen(laying *l, value shapes, const zr_pickle_keys *parts)
{
    shape of;
    for (size_t i = 0; zr_pickle_is(shapes, ZR_PICKLE_DICT) && i + 1 < shapes->items.count;
         i += 2) {
        ZERO_TRY(
            read_param_shape(l->ds, shapes->items.at[i], shapes->items.at[i + 1], &of, l->error));
        ZERO_TRY(lay_fragments(l, &of, parts));
    }
    return ZERO_OK;
}

static zero_status lay_frozen(laying *l, value shapes)
{
    int models = l->ds->models, made = 0;
    zr_pickle_keys *parts = zr_alloc((size_t)models * sizeof *parts, l->error);
    zero_status status = parts ? ZERO_OK : ZERO_ERR_MEMORY;
    for (; made < models && status == ZERO_OK; made++)
        status = zr_pickle_keys_create(
            zr_pickle_get(l->ds->model[made].pickle.root, "frozen_param_fragments"), &parts[made],
            l->error);
    if (status == ZERO_OK)
        status = lay_all_frozen(l, shapes, parts);
    while (made > 0)
        zr_pickle_keys_free(&parts[--made]);
    zr_free(parts);
    return status;
}

// Lays a tensor that every rank has a whole copy of; rank 0's copy is used.
static zero_status lay_module_tensor(laying *l, const char *name, value tensor)
{
    shape of = {.name = name, .dims = tensor->tensor.dims, .elements = tensor->tensor.elements};
    int64_t left = of.elements;
    const char *dtype = NULL;
    memcpy(of.of, tensor->tensor.shape, sizeof of.of);
    ZERO_TRY(lay_part(l, 0, &of, tensor, &dtype, &left));
    end_tensor(l);
    return ZERO_OK;
}

static zero_status lay_buffers_of(laying *l, value names, const zr_pickle_keys *module)
{
    for (size_t i = 0; zr_pickle_at(names, i); i++) {
        const char *name = zr_pickle_text(zr_pickle_at(names, i));
        value tensor = name ? zr_pickle_keys_find(module, name) : NULL;
        if (zr_pickle_is(tensor, ZR_PICKLE_TENSOR)) // not so if the model was saved without it
            ZERO_TRY(lay_module_tensor(l, name, tensor));
    }
    return ZERO_OK;
}

static zero_status lay_buffers(laying *l, value root)
{
    zr_pickle_keys module;
    ZERO_TRY(zr_pickle_keys_create(zr_pickle_get(root, "module"), &module, l->error));
    zero_status status = lay_buffers_of(l, zr_pickle_get(root, "buffer_names"), &module);
    zr_pickle_keys_free(&module);
    return status;
}

static void add_names(value of, zr_buffer *names)
{
    size_t step = zr_pickle_is(of, ZR_PICKLE_DICT) ? 2 : 1;
    bool has = step == 2 || zr_pickle_at(of, 0);
    for (size_t i = 0; has && i < of->items.count; i += step) {
        const char *name = zr_pickle_text(of->items.at[i]);
        if (name)
            zr_buffer_append(names, &name, sizeof name);
    }
}

static const char *name_at(const void *user, int number)
{
    return ((const char *const *)user)[number];
}

// Indexes the names of all tensors that are placed in other ways: second names, buffers, trained
// parameters. zr_free *index (*count) before `names`.
static zero_status index_known(value root, zr_buffer *names, zr_named **index, int *count,
                               zero_error *error)
{
    value groups = zr_pickle_get(root, "param_shapes"),
          shared = zr_pickle_get(root, "shared_params");
    add_names(zr_pickle_is(shared, ZR_PICKLE_OBJECT) ? shared->object.attributes : shared, names);
    add_names(zr_pickle_get(root, "buffer_names"), names);
    for (size_t g = 0; zr_pickle_at(groups, g); g++)
        add_names(zr_pickle_at(groups, g), names);
    zr_buffer_append(names, "", 0);
    if (names->failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for the names of a checkpoint's tensors");
    *count = (int)(names->length / sizeof(const char *));
    return zr_name_index_create(name_at, names->data, *count, index, error);
}

// At stage 1 DeepSpeed lists no frozen tensors: they are whatever else the model has, except second
// names of other tensors.
static zero_status lay_unlisted(laying *l, value root)
{
    value module = zr_pickle_get(root, "module");
    zr_buffer names = {0};
    zr_named *known = NULL;
    int count = 0;
    zero_status status = index_known(root, &names, &known, &count, l->error);
    for (size_t i = 0;
         zr_pickle_is(module, ZR_PICKLE_DICT) && i + 1 < module->items.count && status == ZERO_OK;
         i += 2) {
        const char *name = zr_pickle_text(module->items.at[i]);
        if (name && *name && zr_pickle_is(module->items.at[i + 1], ZR_PICKLE_TENSOR) &&
            zr_name_index_find(known, count, name) < 0)
            status = lay_module_tensor(l, name, module->items.at[i + 1]);
    }
    zr_free(known);
    zr_buffer_free(&names);
    return status;
}

static size_t count_shapes(value shapes)
{
    return zr_pickle_is(shapes, ZR_PICKLE_DICT) ? shapes->items.count / 2 : 0;
}

static int compare_tensor_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static zero_status check_names(const zr_deepspeed *ds, const zr_source_vector *vector,
                               zero_error *error)
{
    const char **names = zr_alloc(((size_t)vector->tensor_count + 1) * sizeof *names, error),
               *twice = NULL;
    if (!names)
        return ZERO_ERR_MEMORY;
    for (int t = 0; t < vector->tensor_count; t++)
        names[t] = vector->tensors[t].name;
    qsort(names, (size_t)vector->tensor_count, sizeof *names, compare_tensor_names);
    for (int t = 1; t < vector->tensor_count; t++)
        twice = strcmp(names[t - 1], names[t]) ? twice : names[t];
    zr_free(names);
    return twice ? zr_fail(error, ZERO_ERR_DATA, "\"%s\": tensor \"%s\" is there twice",
                           zr_ds_path(ds, ds->ranks), twice)
                 : ZERO_OK;
}

static zero_status lay_vector(zr_deepspeed *ds, int v, zr_source *out, zero_error *error)
{
    value root = ds->model[0].pickle.root, groups = zr_pickle_get(root, "param_shapes"),
          frozen = zr_pickle_get(root, "frozen_param_shapes");
    bool unlisted = ds->whole && !zr_pickle_is(frozen, ZR_PICKLE_DICT);
    size_t count = 0;
    if (!zr_pickle_at(groups, 0))
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" has no param_shapes: it is not of a run with ZeRO, or of a "
                       "DeepSpeed before 0.3.8",
                       zr_ds_path(ds, ds->ranks));
    for (size_t g = 0; g < groups->items.count; g++)
        count += count_shapes(groups->items.at[g]);
    if (v == 0) {
        value names = zr_pickle_get(root, "buffer_names");
        count += count_shapes(frozen) + (zr_pickle_at(names, 0) ? names->items.count : 0) +
                 (unlisted ? count_shapes(zr_pickle_get(root, "module")) : 0);
    }
    if (count > INT32_MAX / 2)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" has too many tensors",
                       zr_ds_path(ds, ds->ranks));
    laying l = {.ds = ds, .of = &ds->vectors[v], .error = error};
    l.of->tensors = zr_alloc((count + 1) * sizeof *l.of->tensors, error);
    if (!l.of->tensors)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(zr_source_add(out, l.of->name, (int)count, &l.vector, error));
    if (v == 0) {
        ZERO_TRY(lay_buffers(&l, root));
        ZERO_TRY(unlisted ? lay_unlisted(&l, root) : lay_frozen(&l, frozen));
    }
    ZERO_TRY(lay_trained(&l, groups));
    return check_names(ds, l.vector, error);
}

zero_status zr_ds_lay_out(zr_deepspeed *ds, zr_source *out, zero_error *error)
{
    ZERO_TRY(zr_ds_read_parts(ds, error));
    for (int v = 0; v < ds->vector_count; v++)
        ZERO_TRY(lay_vector(ds, v, out, error));
    return ZERO_OK;
}
