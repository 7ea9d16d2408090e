#include "formats/source_gguf.h"

#include "formats/gguf_config.h"
#include "formats/gguf_tensors.h"

#include <string.h>

typedef struct opened {
    zr_gguf gguf;
    zr_lm_config config;
    zr_gguf_tensor *tensors;    // (count)
    const zr_gguf_item **items; // (count) of the file
    int count;
} opened;

const zr_gguf *zr_source_gguf(const zr_source *source) { return &((opened *)source->own)->gguf; }

const zr_lm_config *zr_source_gguf_config(const zr_source *source)
{
    return &((opened *)source->own)->config;
}

static bool is_quantised(const zr_gguf_type *type) { return type->block > 1; }

static int64_t width_of(const zr_gguf_type *type)
{
    return is_quantised(type) ? (int64_t)sizeof(float) : type->bytes;
}

// Copies elements that follow each other in the file.
static void copy_run(const zr_gguf_item *item, int64_t first, int64_t count, char *out)
{
    const zr_gguf_type *type = item->type;
    float values[ZR_GGUF_BLOCK];
    if (!is_quantised(type)) {
        memcpy(out, item->data + first * type->bytes, (size_t)(count * type->bytes));
        return;
    }
    for (int64_t done = 0, n; done < count; done += n) {
        int64_t block = (first + done) / type->block, at = (first + done) % type->block;
        n = ZR_MIN(count - done, type->block - at);
        zr_gguf_decode(type, item->data + block * type->bytes, type->block, values);
        memcpy(out + done * (int64_t)sizeof *values, values + at, (size_t)n * sizeof *values);
    }
}

// Copies elements [first, first + count) of our row-major tensor.
static void copy_elements(const zr_gguf_tensor *tensor, const zr_gguf_item *item, int64_t first,
                          int64_t count, char *out)
{
    int64_t width = width_of(item->type), of_row = tensor->columns;
    if (!tensor->transposed && tensor->order == ZR_GGUF_AS_IS) {
        copy_run(item, first, count, out);
        return;
    }
    for (int64_t done = 0, n = 1; done < count; done += n) {
        int64_t at = first + done, from;
        if (tensor->transposed) {
            from = at % tensor->rows * of_row + at / tensor->rows;
        } else {
            n = ZR_MIN(count - done, of_row - at % of_row);
            from = zr_gguf_row_of_file(tensor, at / of_row) * of_row + at % of_row;
        }
        copy_run(item, from, n, out + done * width);
    }
}

static zero_status read_gguf(zr_source *source, int vector, int tensor, int64_t first,
                             int64_t bytes, void *out, zero_error *error)
{
    const opened *own = source->own;
    int64_t width = width_of(own->items[tensor]->type);
    copy_elements(&own->tensors[tensor], own->items[tensor], first / width, bytes / width, out);
    return ZERO_OK;
}

static void close_gguf(zr_source *source)
{
    opened *own = source->own;
    zr_gguf_close(&own->gguf);
    zr_free(own->tensors);
    zr_free(own->items);
    zr_free(own);
}

static const zr_source_ops ops = {.read = read_gguf, .close = close_gguf};

static zero_status find_item(opened *own, int t, zero_error *error)
{
    const zr_gguf_tensor *tensor = &own->tensors[t];
    const zr_gguf_item *item = zr_gguf_find_tensor(&own->gguf, tensor->name);
    own->items[t] = item;
    if (!item)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" has no tensor \"%s\"", own->gguf.path,
                       tensor->name);
    if (item->dims != tensor->dims || item->sizes[0] != tensor->rows ||
        (tensor->dims == 2 && item->sizes[1] != tensor->columns))
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\": the tensor \"%s\" has not the shape that follows from the keys "
                       "(%lld x %lld)",
                       own->gguf.path, tensor->name, (long long)tensor->rows,
                       (long long)tensor->columns);
    return ZERO_OK;
}

// Refuses a tensor that is not of the model; `used` is (tensor_count) of the file.
static zero_status check_used(const opened *own, bool *used, zero_error *error)
{
    const zr_gguf *gguf = &own->gguf;
    const zr_gguf_item *factors = zr_gguf_find_tensor(gguf, ZR_GGUF_FACTORS);
    if (factors)
        used[factors - gguf->tensors] = true;
    for (int t = 0; t < own->count; t++)
        used[own->items[t] - gguf->tensors] = true;
    for (int i = 0; i < gguf->tensor_count; i++)
        if (!used[i])
            return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                           "\"%s\" has the tensor \"%.*s\", which is not computed here", gguf->path,
                           (int)gguf->tensors[i].name.length, gguf->tensors[i].name.at);
    return ZERO_OK;
}

static zero_status find_items(opened *own, zero_error *error)
{
    own->items = zr_alloc(((size_t)own->count + 1) * sizeof *own->items, error);
    if (!own->items)
        return ZERO_ERR_MEMORY;
    for (int t = 0; t < own->count; t++)
        ZERO_TRY(find_item(own, t, error));
    bool *used = zr_alloc((size_t)own->gguf.tensor_count + 1, error);
    zero_status status = used ? check_used(own, used, error) : ZERO_ERR_MEMORY;
    zr_free(used);
    return status;
}

static const char *dtype_of(const zr_gguf_type *type)
{
    return !strcmp(type->name, "f16") ? "F16" : !strcmp(type->name, "bf16") ? "BF16" : "F32";
}

static zero_status list_tensors(zr_source *out, const opened *own, zero_error *error)
{
    const char *prefix = zr_architecture_of(&own->config)->file_prefix;
    zr_source_vector *weights;
    ZERO_TRY(zr_source_add(out, "weights", own->count, &weights, error));
    for (; weights->tensor_count < own->count; weights->tensor_count++) {
        int t = weights->tensor_count;
        const zr_gguf_tensor *of = &own->tensors[t];
        const int64_t shape[] = {of->transposed ? of->columns : of->rows,
                                 of->transposed ? of->rows : of->columns};
        char *name = zr_sprintf(error, "%s%s", prefix ? prefix : "", of->model);
        zero_status status =
            name ? zr_source_set(&weights->tensors[t], name, dtype_of(own->items[t]->type),
                                 of->dims, shape, error)
                 : ZERO_ERR_MEMORY;
        zr_free(name);
        if (status != ZERO_OK)
            return status;
    }
    out->file_bytes = (int64_t)own->gguf.file.length;
    return ZERO_OK;
}

static zero_status open_model(opened *own, const char *path, zero_error *error)
{
    zr_gguf_text type = {"model", 5};
    ZERO_TRY(zr_gguf_open(path, &own->gguf, error));
    ZERO_TRY(zr_gguf_get_text(&own->gguf, "general.type", &type, error));
    if (type.length != 5 || memcmp(type.at, "model", 5) != 0)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "\"%s\": \"general.type\" is \"%.*s\": only a model is read", path,
                       (int)ZR_MIN(type.length, (size_t)64), type.at);
    ZERO_TRY(zr_gguf_read_config(&own->gguf, &own->config, error));
    // A number of layers for which the file has no tensors is refused before tensors are listed.
    if (zr_lm_shape_of(&own->config).layers > own->gguf.tensor_count)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" has fewer tensors than layers", path);
    ZERO_TRY(zr_gguf_tensors_of(&own->config, &own->tensors, &own->count, error));
    return find_items(own, error);
}

zero_status zr_source_open_gguf(const char *path, zr_source *out, zero_error *error)
{
    *out = (zr_source){.kind = ZR_SOURCE_GGUF, .ops = &ops};
    opened *own = zr_alloc(sizeof *own, error);
    out->own = own;
    if (!own) {
        *out = (zr_source){0};
        return ZERO_ERR_MEMORY;
    }
    zero_status status = open_model(own, path, error);
    if (status == ZERO_OK)
        out->path = zr_strdup(path, error);
    if (status == ZERO_OK)
        status = out->path ? list_tensors(out, own, error) : ZERO_ERR_MEMORY;
    if (status != ZERO_OK)
        zr_source_close(out);
    return status;
}
