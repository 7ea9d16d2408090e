// A checkpoint of ours as a source. Extents are read whole and compared with their checksums. The
// last one is kept, because ranges follow each other.
#include "checkpoint/source.h"

#include "base/crc32c.h"
#include "base/file.h"
#include "checkpoint/safetensors_header.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct checkpoint {
    zr_manifest manifest;
    char **paths;          // (manifest.file_count)
    int *fds;              // (manifest.file_count); -1: not open
    int *files;            // (vector_count) numbers of the manifest's files
    const zr_extent *held; // the extent that lies in the block
    char *block;           // ZR_EXTENT_BYTES
} checkpoint;

static zero_status hold(checkpoint *own, int f, const zr_manifest_tensor *tensor,
                        const zr_extent *extent, zero_error *error)
{
    const zr_direct_extent place = zr_manifest_place(&own->manifest.files[f], tensor, extent);
    if (own->held == extent)
        return ZERO_OK;
    own->held = NULL;
    if (own->fds[f] < 0)
        ZERO_TRY(zr_file_open(own->paths[f], &own->fds[f], error));
    ZERO_TRY(zr_file_pread(own->fds[f], own->block, (size_t)place.bytes, place.offset,
                           own->paths[f], error));
    uint32_t found = zr_crc32c(0, own->block, (size_t)place.bytes);
    if (found != extent->checksum)
        return zr_manifest_damaged(own->paths[f], tensor->name, place.offset, place.bytes, found,
                                   extent->checksum, error);
    own->held = extent;
    return ZERO_OK;
}

static zero_status read_bytes(zr_source *source, int vector, int tensor, int64_t first,
                              int64_t bytes, void *out, zero_error *error)
{
    checkpoint *own = source->own;
    int f = own->files[vector];
    const zr_manifest_tensor *of = &own->manifest.files[f].tensors[tensor];
    int64_t size = (int64_t)zero_dtype_bytes(own->manifest.files[f].dtype);
    for (int64_t done = 0, n; done < bytes; done += n) {
        const zr_extent *extent = zr_manifest_extent_at(of, (first + done) / size);
        int64_t from = first + done - extent->first * size;
        ZERO_TRY(hold(own, f, of, extent, error));
        n = ZR_MIN(bytes - done, extent->count * size - from);
        memcpy((char *)out + done, own->block + from, (size_t)n);
    }
    return ZERO_OK;
}

static zero_status verify(zr_source *source, zr_source_progress progress, zr_source_damage damaged,
                          void *user, zero_error *error)
{
    const checkpoint *own = source->own;
    return zr_manifest_survey(source->path, &own->manifest, progress, damaged, user, error);
}

static void close_checkpoint(zr_source *source)
{
    checkpoint *own = source->own;
    for (int f = 0; f < own->manifest.file_count; f++) {
        if (own->fds && own->fds[f] >= 0)
            close(own->fds[f]);
        if (own->paths)
            zr_free(own->paths[f]);
    }
    zr_manifest_free(&own->manifest);
    zr_free(own->paths);
    zr_free(own->fds);
    zr_free(own->files);
    zr_free(own->block);
    zr_free(own);
}

static const zr_source_ops ops = {.read = read_bytes, .verify = verify, .close = close_checkpoint};

static zero_status list_file(zr_source *out, checkpoint *own, int f, zero_error *error)
{
    const zr_manifest_file *file = &own->manifest.files[f];
    const char *end = strstr(file->name, ".safetensors");
    char name[ZERO_MESSAGE_BYTES];
    zr_source_vector *vector;
    snprintf(name, sizeof name, "%.*s", end ? (int)(end - file->name) : (int)strlen(file->name),
             file->name);
    own->files[out->vector_count] = f;
    ZERO_TRY(zr_source_add(out, name, file->tensor_count, &vector, error));
    for (; vector->tensor_count < file->tensor_count; vector->tensor_count++) {
        const zr_manifest_tensor *of = &file->tensors[vector->tensor_count];
        ZERO_TRY(zr_source_set(&vector->tensors[vector->tensor_count], of->name,
                               zr_st_dtype_of(file->dtype)->name, of->dims, of->shape, error));
    }
    out->file_bytes += file->bytes;
    return ZERO_OK;
}

static zero_status prepare(zr_source *out, checkpoint *own, const char *path, zero_error *error)
{
    size_t count = (size_t)own->manifest.file_count + 1;
    own->paths = zr_alloc(count * sizeof *own->paths, error);
    own->fds = zr_alloc(count * sizeof *own->fds, error);
    if (own->fds)
        memset(own->fds, -1, count * sizeof *own->fds);
    own->files = zr_alloc(count * sizeof *own->files, error);
    own->block = zr_alloc((size_t)ZR_EXTENT_BYTES, error);
    out->path = zr_strdup(path, error);
    if (!own->paths || !own->fds || !own->files || !own->block || !out->path)
        return ZERO_ERR_MEMORY;
    for (int f = 0; f < own->manifest.file_count; f++)
        if (!(own->paths[f] = zr_sprintf(error, "%s/%s", path, own->manifest.files[f].name)))
            return ZERO_ERR_MEMORY;
    for (int f = 0; f < own->manifest.file_count; f++)
        ZERO_TRY(list_file(out, own, f, error));
    if (zr_source_find(out, "weights") != 0)
        return zr_fail(error, ZERO_ERR_DATA,
                       "the checkpoint \"%s\" does not begin with its weights", path);
    out->state = json_incref(own->manifest.state);
    return ZERO_OK;
}

zero_status zr_source_open_checkpoint(const char *path, zr_source *out, zero_error *error)
{
    *out = (zr_source){.kind = ZR_SOURCE_CHECKPOINT};
    checkpoint *own = zr_alloc(sizeof *own, error);
    if (!own)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_manifest_read(path, &own->manifest, error);
    out->own = own;
    out->ops = &ops;
    if (status == ZERO_OK)
        status = prepare(out, own, path, error);
    if (status != ZERO_OK)
        zr_source_close(out);
    return status;
}
