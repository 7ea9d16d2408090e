#include "formats/source_torch.h"

#include "base/file.h"

#include <string.h>

#define SAFETENSORS "model.safetensors"

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

// Reads element (r, c) of the matrix in the file to place c * rows + r, for those of row r whose
// place is in [first, first + count).
static zero_status read_row_turned(const zr_zip *zip, const zr_torch_place *at, int64_t r,
                                   int64_t first, int64_t count, int64_t width, char *out,
                                   zero_error *error)
{
    char block[4096];
    int64_t begin = first > r ? (first - r + at->rows - 1) / at->rows : 0,
            end = first + count > r ? (first + count - r + at->rows - 1) / at->rows : 0;
    for (int64_t c = begin, n; c < end; c += n) {
        n = ZR_MIN(end - c, (int64_t)sizeof block / width);
        ZERO_TRY(zr_file_pread(zip->fd, block, (size_t)(n * width),
                               at->begin + (r * at->columns + c) * width, zip->path, error));
        for (int64_t i = 0; i < n; i++)
            memcpy(out + ((c + i) * at->rows + r - first) * width, block + i * width,
                   (size_t)width);
    }
    return ZERO_OK;
}

static zero_status read_torch_bytes(zr_source *source, int vector, int tensor, int64_t first,
                                    int64_t bytes, void *out, zero_error *error)
{
    const zr_torch_source *own = source->own;
    const zr_torch_place *at = &own->places[tensor];
    int64_t width = zr_st_dtype_find(source->vectors[vector].tensors[tensor].dtype)->bits / 8;
    if (at->file < 0) {
        memset(out, 0, (size_t)bytes);
        return ZERO_OK;
    }
    const zr_zip *zip = &own->set.files[at->file].zip;
    if (!at->rows)
        return zr_file_pread(zip->fd, out, (size_t)bytes, at->begin + first, zip->path, error);
    assert(first % width == 0 && bytes % width == 0);
    for (int64_t r = 0; r < at->rows; r++)
        ZERO_TRY(read_row_turned(zip, at, r, first / width, bytes / width, width, out, error));
    return ZERO_OK;
}

static zero_status verify_torch(zr_source *source, zr_source_progress progress,
                                zr_source_damage damaged, void *user, zero_error *error)
{
    const zr_torch_source *own = source->own;
    for (int f = 0; f < own->set.file_count; f++)
        ZERO_TRY(zr_torch_verify(&own->set.files[f], progress, damaged, user, error));
    return ZERO_OK;
}

static void close_torch_source(zr_source *source)
{
    zr_torch_source *own = source->own;
    zr_torch_set_close(&own->set);
    zr_free(own->places);
    zr_free(own);
}

static const zr_source_ops ops = {
    .read = read_torch_bytes, .verify = verify_torch, .close = close_torch_source};

zero_status zr_torch_place_find(const zr_torch_set *set, int file, const zr_pickle_tensor *tensor,
                                const char *name, zr_torch_place *out, zero_error *error)
{
    char *what = zr_sprintf(error, "the tensor \"%s\"", name);
    if (!what)
        return ZERO_ERR_MEMORY;
    *out = (zr_torch_place){.file = file};
    zero_status status = zr_torch_position(&set->files[file], tensor, what, &out->begin, error);
    zr_free(what);
    return status;
}

static zero_status list_entry(zr_torch_source *own, int i, zr_source_vector *weights,
                              zero_error *error)
{
    const zr_torch_entry *entry = &own->set.entries[i];
    const zr_pickle_tensor *of = entry->tensor;
    ZERO_TRY(zr_torch_place_find(&own->set, entry->file, of, entry->name, &own->places[i], error));
    zr_source_tensor *tensor = &weights->tensors[weights->tensor_count++];
    return zr_source_set(tensor, entry->name, of->storage->dtype, of->dims, of->shape, error);
}

static zero_status list_torch_tensors(zr_source *out, zr_torch_source *own, zero_error *error)
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

static zero_status list_source(zr_torch_source *own, zr_source *out, zero_error *error)
{
    const zr_torch_set *set = &own->set;
    return set->file_count && zr_nanogpt_is(set->files[0].pickle.root)
               ? zr_nanogpt_list(own, out, error)
               : list_torch_tensors(out, own, error);
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
    zr_torch_source *own = zr_alloc(sizeof *own, error);
    if (!own)
        return ZERO_ERR_MEMORY;
    out->own = own;
    out->ops = &ops;
    out->path = zr_strdup(path, error);
    zero_status status = out->path ? zr_torch_set_open(path, &own->set, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = list_source(own, out, error);
    if (status == ZERO_OK)
        forget_entries(&own->set, out);
    else
        zr_source_close(out);
    return status;
}
