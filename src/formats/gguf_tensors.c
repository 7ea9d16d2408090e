#include "formats/gguf_tensors.h"

#include "formats/safetensors_write.h"
#include "model/lm_build.h"

#include <stdio.h>
#include <string.h>

#define HEAD "output.weight"

const zr_lm_gguf *zr_gguf_kind_of(const zr_lm_config *config)
{
    const zr_architecture *of = zr_architecture_of(config);
    return of->gguf ? &of->gguf[zr_lm_shape_of(config).type - of->types] : NULL;
}

static bool begins(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

static bool ends(const char *name, const char *with)
{
    size_t length = strlen(name), width = strlen(with);
    return length >= width && !strcmp(name + length - width, with);
}

// Sets what follows from the tensor's description in our files.
static void set_shape(zr_gguf_tensor *out, const zero_tensor_desc *desc, bool outputs_first)
{
    out->dims = desc->dims;
    out->transposed = desc->dims == 2 && !outputs_first;
    out->rows = desc->shape[out->transposed];
    out->columns = desc->dims == 2 ? desc->shape[!out->transposed] : 1;
    out->plain = desc->dims == 1 || ends(out->name, "_norm.weight");
    out->source = -1;
}

static void set_order(zr_gguf_tensor *out, const zr_lm_config *config, const zero_tensor_row *row,
                      const char *name)
{
    const zr_lm_shape shape = zr_lm_shape_of(config);
    bool queries = begins(name, "attn_q."), keys = begins(name, "attn_k.");
    out->head_dim = shape.head_dim;
    out->heads = keys ? shape.kv_heads : shape.heads;
    if ((queries || keys) && zr_gguf_kind_of(config)->neighbours)
        out->order = ZR_GGUF_NEIGHBOURS;
    else if (row->out == ZERO_WIDE_PACKED && !(row->flags & ZERO_THREE_PARTS))
        out->order = ZR_GGUF_THREE_PARTS;
}

void zr_gguf_block_tensor(const zr_lm_config *config, int layer, int t, zr_gguf_tensor *out)
{
    const zr_architecture *of = zr_architecture_of(config);
    const zr_lm_design design = zr_lm_design_of_config(config);
    *out = (zr_gguf_tensor){.dims = 0};
    snprintf(out->name, sizeof out->name, "blk.%d.%s", layer, of->gguf_names[t]);
    snprintf(out->model, sizeof out->model, "%s%d.%s", of->tensors.layer_prefix, layer,
             of->tensors.block[t].name);
    if (!design.block[t].desc.dims)
        return;
    set_shape(out, &design.block[t].desc, of->outputs_first);
    set_order(out, config, &of->tensors.block[t], of->gguf_names[t]);
}

typedef struct ending { // a tensor of the embedding or the head
    const zr_unit_tensor *of;
    const char *name; // in GGUF
} ending;

static void add_ending(zr_gguf_tensor *out, int *count, const ending *tensor)
{
    if (!tensor->of->desc.dims)
        return;
    zr_gguf_tensor *made = &out[(*count)++];
    *made = (zr_gguf_tensor){.dims = 0};
    snprintf(made->name, sizeof made->name, "%s", tensor->name);
    snprintf(made->model, sizeof made->model, "%s", tensor->of->desc.name);
    set_shape(made, &tensor->of->desc, true);
    made->plain = made->plain || begins(tensor->name, "position");
}

static void add_endings(const zr_lm_config *config, const zr_lm_design *design, zr_gguf_tensor *out,
                        int *count)
{
    bool repeats = !design->head[ZR_LM_TABLE].desc.dims && zr_gguf_kind_of(config)->has_head;
    const ending all[] = {
        {&design->embedding[ZR_LM_TABLE], "token_embd.weight"},
        {&design->embedding[ZR_LM_POSITIONS], "position_embd.weight"},
        {&design->head[ZR_LM_GAIN], "output_norm.weight"},
        {&design->head[ZR_LM_BIAS], "output_norm.bias"},
        {repeats ? &design->embedding[ZR_LM_TABLE] : &design->head[ZR_LM_TABLE], HEAD},
    };
    for (int i = 0; i < ZR_COUNT(all); i++)
        add_ending(out, count, &all[i]);
}

static zero_status check_kind(const zr_lm_config *config, zero_error *error)
{
    const zr_lm_gguf *kind = zr_gguf_kind_of(config);
    const zr_architecture *of = zr_architecture_of(config);
    const zr_lm_shape shape = zr_lm_shape_of(config);
    if (!kind)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED, "GGUF has no architecture for this model (%s)",
                       shape.title);
    for (int t = 0; t < of->tensors.count; t++)
        if (of->tensors.block[t].only_with & shape.options & ~kind->options)
            return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                           "this model has \"%s\", which GGUF's architecture \"%s\" lacks",
                           of->tensors.block[t].name, kind->name);
    return ZERO_OK;
}

zero_status zr_gguf_tensors_of(const zr_lm_config *config, zr_gguf_tensor **out, int *count,
                               zero_error *error)
{
    ZERO_TRY(check_kind(config, error));
    const zr_architecture *of = zr_architecture_of(config);
    const zr_lm_design design = zr_lm_design_of_config(config);
    int64_t layers = zr_lm_shape_of(config).layers;
    size_t most = 2 * ZR_LM_END_TENSORS + (size_t)layers * (size_t)of->tensors.count;
    *count = 0;
    *out = zr_alloc(most * sizeof **out, error);
    if (!*out)
        return ZERO_ERR_MEMORY;
    add_endings(config, &design, *out, count);
    for (int layer = 0; layer < layers; layer++)
        for (int t = 0; t < of->tensors.count; t++)
            if (design.block[t].desc.dims)
                zr_gguf_block_tensor(config, layer, t, &(*out)[(*count)++]);
    return ZERO_OK;
}

int64_t zr_gguf_row_of_model(const zr_gguf_tensor *tensor, int64_t row)
{
    int64_t dim = tensor->head_dim, half = dim / 2, all = tensor->heads * dim;
    if (tensor->order == ZR_GGUF_NEIGHBOURS)
        return row / dim * dim + row % 2 * half + row % dim / 2;
    if (tensor->order == ZR_GGUF_THREE_PARTS)
        return (row % all / dim * 3 + row / all) * dim + row % dim;
    return row;
}

int64_t zr_gguf_row_of_file(const zr_gguf_tensor *tensor, int64_t row)
{
    int64_t dim = tensor->head_dim, half = dim / 2, all = tensor->heads * dim;
    if (tensor->order == ZR_GGUF_NEIGHBOURS)
        return row / dim * dim + row % half * 2 + row % dim / half;
    if (tensor->order == ZR_GGUF_THREE_PARTS)
        return row / dim % 3 * all + row / dim / 3 * dim + row % dim;
    return row;
}

const zr_gguf_type *zr_gguf_type_for(const zr_gguf_tensor *tensor, const zr_gguf_type *wanted)
{
    if (tensor->plain)
        return zr_gguf_type_find("f32");
    return tensor->columns % wanted->block ? zr_gguf_type_find("f16") : wanted;
}

static bool has_shape(const zr_gguf_tensor *tensor, const zr_source_tensor *found)
{
    int first = tensor->transposed;
    return found->dims == tensor->dims && found->shape[first] == tensor->rows &&
           (tensor->dims == 1 || found->shape[!first] == tensor->columns);
}

// Returns the tensor's number in the source; -1 if the source has none of this name.
static int find_source(char *const *names, int count, const zr_lm_config *config, const char *name)
{
    bool is_head = !strcmp(name, zr_architecture_of(config)->tensors.head);
    for (int t = 0; t < count; t++)
        if (names[t] && !strcmp(names[t], name))
            return t;
    return is_head && strcmp(name, "lm_head.weight") != 0
               ? find_source(names, count, config, "lm_head.weight")
               : -1;
}

static zero_status check_source(const zr_gguf_tensor *tensor, const zr_source *source,
                                zero_error *error)
{
    if (tensor->source < 0)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" has no tensor \"%s\", which its config.json needs", source->path,
                       tensor->model);
    const zr_source_tensor *found = &source->vectors[0].tensors[tensor->source];
    if (!has_shape(tensor, found))
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\": the tensor \"%s\" has not the shape that follows from its "
                       "config.json (%lld x %lld)",
                       source->path, found->name, (long long)tensor->rows,
                       (long long)tensor->columns);
    return zr_source_is_real(found->dtype)
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_UNSUPPORTED, "\"%s\": the tensor \"%s\" is of %s",
                         source->path, found->name, found->dtype);
}

// A head that repeats the table is the table; buffers are computed again.
static zero_status check_unused(const zr_lm_config *config, const zr_source *source,
                                char *const *names, const bool *used, zero_error *error)
{
    const char *head = zr_architecture_of(config)->tensors.head;
    for (int t = 0; t < source->vectors[0].tensor_count; t++) {
        bool repeats = names[t] && zr_lm_shape_of(config).tied &&
                       (!strcmp(names[t], head) || !strcmp(names[t], "lm_head.weight"));
        if (names[t] && !used[t] && !repeats && !zr_tensor_is_buffer(names[t]))
            return zr_fail(error, ZERO_ERR_DATA,
                           "\"%s\" has the tensor \"%s\", which is not part of the model that its "
                           "config.json describes: a GGUF file would lose it",
                           source->path, source->vectors[0].tensors[t].name);
    }
    return ZERO_OK;
}

static zero_status match_sources(const zr_lm_config *config, const zr_source *source,
                                 char *const *names, zr_gguf_tensor *tensors, int count, bool *used,
                                 zero_error *error)
{
    for (int i = 0; i < count; i++) {
        if (tensors[i].values)
            continue;
        tensors[i].source =
            find_source(names, source->vectors[0].tensor_count, config, tensors[i].model);
        ZERO_TRY(check_source(&tensors[i], source, error));
        used[tensors[i].source] = true;
    }
    return check_unused(config, source, names, used, error);
}

zero_status zr_gguf_find_sources(const zr_lm_config *config, const zr_source *source,
                                 zr_gguf_tensor *tensors, int count, zero_error *error)
{
    const zr_source_vector *weights = &source->vectors[0];
    char **names = NULL;
    bool *used = zr_alloc((size_t)weights->tensor_count + 1, error);
    zero_status status =
        used ? zr_tensor_names(source, weights, ZR_NAMES_OURS, &names, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = match_sources(config, source, names, tensors, count, used, error);
    zr_tensor_names_free(names, weights->tensor_count);
    zr_free(used);
    return status;
}
