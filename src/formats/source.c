// Code of all sources, and the choice of a source for a path.
#include "formats/source.h"

#include "base/dtype.h"
#include "base/file.h"
#include "formats/safetensors.h"
#include "formats/source_gguf.h"
#include "formats/source_merge.h"
#include "formats/source_torch.h"

#include <string.h>

zero_status zr_source_open(const char *path, zr_source *out, zero_error *error)
{
    *out = (zr_source){0};
    if (!zr_path_exists(path))
        return zr_fail(error, ZERO_ERR_IO, "\"%s\" is not there", path);
    if (zr_path_has(path, ZR_MANIFEST))
        return zr_source_open_checkpoint(path, out, error);
    if (zr_gguf_is(path))
        return zr_source_open_gguf(path, out, error);
    if (zr_deepspeed_is(path))
        return zr_deepspeed_open(path, out, error);
    return zr_source_torch_is(path) ? zr_source_open_torch(path, out, error)
                                    : zr_source_open_safetensors(path, out, error);
}

void zr_source_close(zr_source *source)
{
    if (source->ops && source->ops->close)
        source->ops->close(source);
    zr_merge_free(source->merge);
    for (int v = 0; v < source->vector_count; v++) {
        for (int t = 0; t < source->vectors[v].tensor_count; t++)
            zr_free(source->vectors[v].tensors[t].name);
        zr_free(source->vectors[v].tensors);
        zr_free(source->vectors[v].name);
    }
    zr_free(source->vectors);
    zr_free(source->path);
    json_decref(source->state);
    *source = (zr_source){0};
}

int zr_source_find(const zr_source *source, const char *vector)
{
    for (int v = 0; v < source->vector_count; v++)
        if (!strcmp(source->vectors[v].name, vector))
            return v;
    return -1;
}

zero_status zr_source_read(zr_source *source, int vector, int tensor, int64_t first, int64_t bytes,
                           void *out, zero_error *error)
{
    assert(first >= 0 && bytes >= 0 &&
           first <= source->vectors[vector].tensors[tensor].bytes - bytes);
    return source->merge && vector == 0
               ? zr_merge_read(source, tensor, first, bytes, out, error)
               : source->ops->read(source, vector, tensor, first, bytes, out, error);
}

typedef struct real {
    const char *dtype;
    zero_dtype as;
} real;
static const real reals[] = {
    {"F32", ZERO_F32}, {"BF16", ZERO_BF16}, {"F16", ZERO_F16}, {"F64", ZERO_F64}};

static const real *find_real(const char *dtype)
{
    for (int i = 0; i < ZR_COUNT(reals); i++)
        if (!strcmp(reals[i].dtype, dtype))
            return &reals[i];
    return NULL;
}

bool zr_source_is_real(const char *dtype) { return find_real(dtype) != NULL; }

void zr_source_widen(const char *dtype, const void *in, int64_t count, float *out)
{
    const real *of = find_real(dtype);
    if (of->as != ZERO_F64) {
        zr_widen(of->as, in, count, out);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double wide;
        memcpy(&wide, (const char *)in + i * (int64_t)sizeof wide, sizeof wide);
        out[i] = (float)wide;
    }
}

zero_status zr_source_add(zr_source *source, const char *name, int tensors, zr_source_vector **out,
                          zero_error *error)
{
    zr_source_vector *grown =
        zr_realloc(source->vectors, ((size_t)source->vector_count + 1) * sizeof *grown, error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    source->vectors = grown;
    zr_source_vector *made = &grown[source->vector_count];
    *made = (zr_source_vector){.name = zr_strdup(name, error),
                               .tensors =
                                   zr_alloc(((size_t)tensors + 1) * sizeof *made->tensors, error)};
    source->vector_count++;
    *out = made;
    return made->name && made->tensors ? ZERO_OK : ZERO_ERR_MEMORY;
}

zero_status zr_source_set(zr_source_tensor *tensor, const char *name, const char *dtype, int dims,
                          const int64_t *shape, zero_error *error)
{
    const zr_st_dtype *known = zr_st_dtype_find(dtype);
    *tensor = (zr_source_tensor){.dims = dims};
    if (dims < 0 || dims > ZR_COUNT(tensor->shape))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED, "tensor \"%s\" has %d dimensions, more than %d",
                       name, dims, ZR_COUNT(tensor->shape));
    if (dims)
        memcpy(tensor->shape, shape, (size_t)dims * sizeof *shape);
    if (!known || !zr_st_bytes(known, dims, shape, &tensor->bytes))
        return zr_fail(error, ZERO_ERR_DATA,
                       "tensor \"%s\" of %s has more bytes than can be counted", name, dtype);
    tensor->dtype = known->name;
    tensor->name = zr_strdup(name, error);
    return tensor->name ? ZERO_OK : ZERO_ERR_MEMORY;
}
