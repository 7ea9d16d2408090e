// A checkpoint of ours as a source. Extents are read whole and compared with their checksums. They
// are kept until reading, which goes forward, has passed their end: one stretch, or the rectangles
// that lie next to each other.
#include "formats/source.h"

#include "base/file.h"
#include "formats/rectangle.h"
#include "formats/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// If more rectangles than this lie next to each other, they are read several times.
enum { HELD = 32 };

typedef struct held {
    const zr_extent *extent; // NULL if the block is unused
    const zr_manifest_tensor *tensor;
    char *block;  // ZR_EXTENT_BYTES; NULL until it is needed
    int64_t used; // larger if it was read from later
} held;

typedef struct checkpoint {
    zr_manifest manifest;
    char **paths; // (manifest.file_count)
    int *fds;     // (manifest.file_count); -1 if not open
    int *files;   // (vector_count) numbers of the manifest's files
    held held[HELD];
    int64_t uses;
} checkpoint;

// Returns the block for an extent of the tensor: the one that holds it; else one that is unused, or
// not needed any more because reading goes on at element `at`; else the least recently used one.
static held *block_for(checkpoint *own, const zr_manifest_tensor *tensor, const zr_extent *extent,
                       int64_t at)
{
    held *left = NULL, *oldest = &own->held[0];
    for (int i = 0; i < HELD; i++) {
        held *h = &own->held[i];
        if (h->extent == extent)
            return h;
        bool needed = h->extent && h->tensor == tensor && zr_rectangle_end(&h->extent->at) > at;
        if (!needed && (!left || (h->block && !left->block)))
            left = h;
        oldest = h->used < oldest->used ? h : oldest;
    }
    return left ? left : oldest;
}

// Reads an extent, unless a block holds it, and compares its checksum.
static zero_status load_extent_into_block(checkpoint *own, int f, held *h,
                                          const zr_manifest_tensor *tensor, const zr_extent *extent,
                                          zero_error *error)
{
    const zr_direct_extent place =
        zr_manifest_extent_place(&own->manifest.files[f], tensor, extent);
    h->used = ++own->uses;
    if (h->extent == extent)
        return ZERO_OK;
    h->extent = NULL;
    if (!h->block)
        h->block = zr_alloc((size_t)ZR_EXTENT_BYTES, error);
    if (!h->block)
        return ZERO_ERR_MEMORY;
    if (own->fds[f] < 0)
        ZERO_TRY(zr_file_open(own->paths[f], &own->fds[f], error));
    ZERO_TRY(zr_direct_read_extent(own->fds[f], own->paths[f], &place, h->block, error));
    int64_t bytes = zr_direct_extent_bytes(&place);
    uint32_t found = zr_crc32c(0, h->block, (size_t)bytes);
    if (found != extent->checksum)
        return zr_manifest_damaged(own->paths[f], tensor->name, place.offset, bytes, found,
                                   extent->checksum, error);
    h->extent = extent;
    h->tensor = tensor;
    return ZERO_OK;
}

// `wanted` is in bytes of the tensor.
static zero_status copy_wanted_of_extent(checkpoint *own, int f, const zr_manifest_tensor *tensor,
                                         const zr_extent *extent, const zr_rectangle *wanted,
                                         char *out, zero_error *error)
{
    int64_t size = (int64_t)zero_dtype_bytes(own->manifest.files[f].dtype);
    const zr_rectangle bytes = zr_rectangle_scaled(&extent->at, size);
    zr_common c = {0};
    if (!zr_rectangles_overlap(&bytes, wanted))
        return ZERO_OK;
    held *h = block_for(own, tensor, extent, ZR_MAX(wanted->first / size, extent->at.first));
    ZERO_TRY(load_extent_into_block(own, f, h, tensor, extent, error));
    while (zr_rectangles_next_common(&bytes, wanted, &c))
        memcpy(out + c.in_b, h->block + c.in_a, (size_t)c.count);
    return ZERO_OK;
}

static zero_status read_checkpoint_bytes(zr_source *source, int vector, int tensor, int64_t first,
                                         int64_t bytes, void *out, zero_error *error)
{
    checkpoint *own = source->own;
    int f = own->files[vector];
    const zr_manifest_tensor *of = &own->manifest.files[f].tensors[tensor];
    int64_t size = (int64_t)zero_dtype_bytes(own->manifest.files[f].dtype);
    const zr_rectangle wanted = zr_rectangle_of_stretch(first, bytes);
    for (int e = zr_manifest_extent_from(of, first / size);
         e < of->extent_count && of->extents[e].at.first * size < first + bytes; e++)
        ZERO_TRY(copy_wanted_of_extent(own, f, of, &of->extents[e], &wanted, out, error));
    return ZERO_OK;
}

static zero_status verify_checkpoint_source(zr_source *source, zr_source_progress progress,
                                            zr_source_damage damaged, void *user, zero_error *error)
{
    const checkpoint *own = source->own;
    return zr_manifest_verify_all(source->path, &own->manifest, progress, damaged, user, error);
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
    for (int i = 0; i < HELD; i++)
        zr_free(own->held[i].block);
    zr_free(own);
}

static const zr_source_ops ops = {
    .read = read_checkpoint_bytes, .verify = verify_checkpoint_source, .close = close_checkpoint};

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

static zero_status list_checkpoint_files(zr_source *out, checkpoint *own, const char *path,
                                         zero_error *error)
{
    size_t count = (size_t)own->manifest.file_count + 1;
    own->paths = zr_alloc(count * sizeof *own->paths, error);
    own->fds = zr_alloc(count * sizeof *own->fds, error);
    if (own->fds)
        memset(own->fds, -1, count * sizeof *own->fds);
    own->files = zr_alloc(count * sizeof *own->files, error);
    out->path = zr_strdup(path, error);
    if (!own->paths || !own->fds || !own->files || !out->path)
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
        status = list_checkpoint_files(out, own, path, error);
    if (status != ZERO_OK)
        zr_source_close(out);
    return status;
}
