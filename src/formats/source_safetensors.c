// A Hugging Face directory or a file *.safetensors as a source of weights.
#include "formats/source.h"

#include "base/file.h"

#include <sys/stat.h>

static zero_status read_safetensors_bytes(zr_source *source, int vector, int tensor, int64_t first,
                                          int64_t bytes, void *out, zero_error *error)
{
    const zr_st_set *set = source->own;
    const zr_st_tensor *of = &set->tensors[tensor];
    return zr_file_pread(set->fds[of->file], out, (size_t)bytes, of->begin + first,
                         set->paths[of->file], error);
}

static void close_set(zr_source *source)
{
    zr_st_close(source->own);
    zr_free(source->own);
}

static const zr_source_ops ops = {.read = read_safetensors_bytes, .close = close_set};

static zero_status list_set_tensors(zr_source *out, const zr_st_set *set, zero_error *error)
{
    zr_source_vector *weights;
    ZERO_TRY(zr_source_add(out, "weights", set->tensor_count, &weights, error));
    for (; weights->tensor_count < set->tensor_count; weights->tensor_count++) {
        const zr_st_tensor *of = &set->tensors[weights->tensor_count];
        ZERO_TRY(zr_source_set(&weights->tensors[weights->tensor_count], of->name, of->dtype,
                               of->dims, of->shape, error));
    }
    for (int f = 0; f < set->file_count; f++) {
        struct stat info;
        out->file_bytes += fstat(set->fds[f], &info) ? 0 : info.st_size;
    }
    return ZERO_OK;
}

zero_status zr_source_open_safetensors(const char *path, zr_source *out, zero_error *error)
{
    *out = (zr_source){.kind = ZR_SOURCE_SAFETENSORS};
    zr_st_set *set = zr_alloc(sizeof *set, error);
    if (!set)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_st_open(path, set, error);
    if (status != ZERO_OK) {
        zr_free(set);
        return status;
    }
    out->own = set;
    out->ops = &ops;
    out->path = zr_strdup(path, error);
    status = out->path ? list_set_tensors(out, set, error) : ZERO_ERR_MEMORY;
    if (status != ZERO_OK)
        zr_source_close(out);
    return status;
}
