#include "formats/source_torch.h"

#include "base/file.h"

#include <string.h>

#define SAFETENSORS "model.safetensors"

typedef struct place { // of a tensor's elements
    int file;
    int64_t begin;
} place;

typedef struct torch_source {
    zr_torch_set set;
    place *places; // (tensors)
} torch_source;

static bool ends_with(const char *path, const char *ending)
{
    size_t length = strlen(path), tail = strlen(ending);
    return length > tail && !strcmp(path + length - tail, ending);
}

bool zr_source_torch_is(const char *path)
{
    if (!zr_path_is_directory(path))
        return ends_with(path, ".bin") || ends_with(path, ".pt") || ends_with(path, ".pth");
    return (zr_path_has(path, ZR_TORCH_WEIGHTS) || zr_path_has(path, ZR_TORCH_INDEX)) &&
           !zr_path_has(path, SAFETENSORS) && !zr_path_has(path, SAFETENSORS ".index.json");
}

static zero_status read_torch_bytes(zr_source *source, int vector, int tensor, int64_t first,
                                    int64_t bytes, void *out, zero_error *error)
{
    const torch_source *own = source->own;
    const place *at = &own->places[tensor];
    const zr_zip *zip = &own->set.files[at->file].zip;
    return zr_file_pread(zip->fd, out, (size_t)bytes, at->begin + first, zip->path, error);
}

static zero_status verify_torch(zr_source *source, zr_source_progress progress,
                                zr_source_damage damaged, void *user, zero_error *error)
{
    const torch_source *own = source->own;
    for (int f = 0; f < own->set.file_count; f++)
        ZERO_TRY(zr_torch_verify(&own->set.files[f], progress, damaged, user, error));
    return ZERO_OK;
}

static void close_torch_source(zr_source *source)
{
    torch_source *own = source->own;
    zr_torch_set_close(&own->set);
    zr_free(own->places);
    zr_free(own);
}

static const zr_source_ops ops = {
    .read = read_torch_bytes, .verify = verify_torch, .close = close_torch_source};

static zero_status list_entry(torch_source *own, int i, zr_source_vector *weights,
                              zero_error *error)
{
    const zr_torch_entry *entry = &own->set.entries[i];
    const zr_pickle_tensor *of = entry->tensor;
    char *what = zr_sprintf(error, "the tensor \"%s\"", entry->name);
    if (!what)
        return ZERO_ERR_MEMORY;
    own->places[i].file = entry->file;
    zero_status status =
        zr_torch_position(&own->set.files[entry->file], of, what, &own->places[i].begin, error);
    zr_free(what);
    ZERO_TRY(status);
    zr_source_tensor *tensor = &weights->tensors[weights->tensor_count++];
    return zr_source_set(tensor, entry->name, of->storage->dtype, of->dims, of->shape, error);
}

static zero_status list_torch_tensors(zr_source *out, torch_source *own, zero_error *error)
{
    int count = own->set.entry_count;
    zr_source_vector *weights;
    ZERO_TRY(zr_source_add(out, "weights", count, &weights, error));
    own->places = zr_alloc(((size_t)count + 1) * sizeof *own->places, error);
    if (!own->places)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < count; i++)
        ZERO_TRY(list_entry(own, i, weights, error));
    return ZERO_OK;
}

// The entries point into the pickles: they go together.
static void forget_entries(zr_torch_set *set, zr_source *out)
{
    for (int f = 0; f < set->file_count; f++) {
        out->file_bytes += set->files[f].zip.size;
        zr_pickle_free(&set->files[f].pickle);
    }
    zr_free(set->entries);
    set->entries = NULL;
    set->entry_count = 0;
}

zero_status zr_source_open_torch(const char *path, zr_source *out, zero_error *error)
{
    *out = (zr_source){.kind = ZR_SOURCE_TORCH};
    torch_source *own = zr_alloc(sizeof *own, error);
    if (!own)
        return ZERO_ERR_MEMORY;
    out->own = own;
    out->ops = &ops;
    out->path = zr_strdup(path, error);
    zero_status status = out->path ? zr_torch_set_open(path, &own->set, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = list_torch_tensors(out, own, error);
    if (status == ZERO_OK)
        forget_entries(&own->set, out);
    else
        zr_source_close(out);
    return status;
}
