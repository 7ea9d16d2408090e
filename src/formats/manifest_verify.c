// Checks every byte of a checkpoint against its checksums. Extents are read ahead and, but for
// rectangles, past the page cache, so that a check evicts little from it.
#include "formats/manifest.h"

#include "base/file.h"
#include "memory/direct.h"

#include <errno.h>
#include <sys/stat.h>

static_assert(ZR_EXTENT_BYTES <= ZR_DIRECT_EXTENT, "an extent is read at once");

typedef struct verifying {
    char *path; // the file's
    // The file's zr_direct_extents, those of the header first.
    zr_buffer extents;
    zr_direct_reader *reader; // of these extents
    void (*progress)(void *user, int64_t bytes);
    void (*damaged)(void *user, const zero_error *what); // NULL to end at the first damage
    void *user;
    zero_error *error;
} verifying;

zero_status zr_manifest_damaged(const char *path, const char *what, int64_t begin, int64_t bytes,
                                uint32_t found, uint32_t written, zero_error *error)
{
    return zr_fail(
        error, ZERO_ERR_DATA,
        "\"%s\" is damaged: %s, %lld bytes at %lld, has the checksum %08x, written was %08x", path,
        what, (long long)bytes, (long long)begin, (unsigned)found, (unsigned)written);
}

// Reports a failure as damage, so that the check continues; returns it if damage is not reported.
static zero_status report_if_damage(const verifying *v, zero_status status)
{
    if (!v->damaged || (status != ZERO_ERR_DATA && status != ZERO_ERR_IO))
        return status;
    v->damaged(v->user, v->error);
    return ZERO_OK;
}

static void append_extent(verifying *v, zr_direct_extent extent)
{
    zr_buffer_append(&v->extents, &extent, sizeof extent);
}

static void list_extents(verifying *v, const zr_manifest_file *file)
{
    for (int64_t done = 0; done < file->header_bytes; done += ZR_EXTENT_BYTES)
        append_extent(v,
                      zr_direct_stretch(done, ZR_MIN(file->header_bytes - done, ZR_EXTENT_BYTES)));
    for (int t = 0; t < file->tensor_count; t++)
        for (int e = 0; e < file->tensors[t].extent_count; e++)
            append_extent(
                v, zr_manifest_extent_place(file, &file->tensors[t], &file->tensors[t].extents[e]));
}

static zero_status read_next_extent(const verifying *v, int64_t bytes, const char **data,
                                    uint32_t *found)
{
    zero_status status = zr_direct_reader_next(v->reader, data, found, v->error);
    if (v->progress)
        v->progress(v->user, bytes);
    return status;
}

// Verifies the header. Its checksum covers all of its extents, so all are read even after one has
// failed.
static zero_status verify_header(const verifying *v, const zr_manifest_file *file)
{
    uint32_t found = 0, of_extent;
    zero_status status = ZERO_OK;
    for (int64_t done = 0, n; done < file->header_bytes; done += n) {
        const char *data;
        n = ZR_MIN(file->header_bytes - done, ZR_EXTENT_BYTES);
        zero_status one = read_next_extent(v, n, &data, &of_extent);
        status = status == ZERO_OK ? one : status;
        if (one == ZERO_OK)
            found = zr_crc32c(found, data, (size_t)n);
    }
    if (status == ZERO_OK && found != file->header_checksum)
        status = zr_manifest_damaged(v->path, "the header", 0, file->header_bytes, found,
                                     file->header_checksum, v->error);
    return status;
}

static zero_status verify_extent(const verifying *v, const zr_manifest_file *file,
                                 const zr_manifest_tensor *tensor, const zr_extent *extent)
{
    const zr_direct_extent place = zr_manifest_extent_place(file, tensor, extent);
    int64_t bytes = zr_direct_extent_bytes(&place);
    const char *data;
    uint32_t found;
    ZERO_TRY(read_next_extent(v, bytes, &data, &found));
    return found == extent->checksum
               ? ZERO_OK
               : zr_manifest_damaged(v->path, tensor->name, place.offset, bytes, found,
                                     extent->checksum, v->error);
}

static zero_status verify_extents(const verifying *v, const zr_manifest_file *file)
{
    ZERO_TRY(report_if_damage(v, verify_header(v, file)));
    for (int t = 0; t < file->tensor_count; t++)
        for (int e = 0; e < file->tensors[t].extent_count; e++)
            ZERO_TRY(report_if_damage(
                v, verify_extent(v, file, &file->tensors[t], &file->tensors[t].extents[e])));
    return ZERO_OK;
}

static zero_status check_size(const verifying *v, const zr_manifest_file *file)
{
    struct stat info;
    if (stat(v->path, &info))
        return zr_fail_errno(v->error, ZERO_ERR_IO, errno, "cannot open \"%s\"", v->path);
    if (info.st_size != file->bytes)
        return zr_fail(v->error, ZERO_ERR_DATA, "\"%s\" has %lld bytes, the manifest says %lld",
                       v->path, (long long)info.st_size, (long long)file->bytes);
    return ZERO_OK;
}

static zero_status verify_size_and_extents(verifying *v, const zr_manifest_file *file)
{
    ZERO_TRY(check_size(v, file));
    list_extents(v, file);
    if (v->extents.failed)
        return zr_fail(v->error, ZERO_ERR_MEMORY, "no memory for the extents of \"%s\"", v->path);
    ZERO_TRY(zr_direct_reader_create(
        v->path, (const zr_direct_extent *)(const void *)v->extents.data,
        (int64_t)(v->extents.length / sizeof(zr_direct_extent)), &v->reader, v->error));
    zero_status status = verify_extents(v, file);
    zr_direct_reader_destroy(v->reader);
    return status;
}

static zero_status verify_file(verifying *v, const char *directory, const zr_manifest_file *file)
{
    v->path = zr_sprintf(v->error, "%s/%s", directory, file->name);
    v->extents = (zr_buffer){0};
    zero_status status = v->path ? verify_size_and_extents(v, file) : ZERO_ERR_MEMORY;
    zr_buffer_free(&v->extents);
    zr_free(v->path);
    return status;
}

static zero_status verify_files(verifying *v, const char *directory, const zr_manifest *manifest)
{
    zero_error local = {0};
    zero_status status = ZERO_OK;
    v->error = v->error ? v->error : &local;
    for (int f = 0; f < manifest->file_count && status == ZERO_OK; f++)
        status = report_if_damage(v, verify_file(v, directory, &manifest->files[f]));
    return status;
}

zero_status zr_manifest_verify(const char *directory, const zr_manifest *manifest,
                               void (*progress)(void *user, int64_t bytes), void *user,
                               zero_error *error)
{
    return verify_files(&(verifying){.progress = progress, .user = user, .error = error}, directory,
                        manifest);
}

zero_status zr_manifest_verify_all(const char *directory, const zr_manifest *manifest,
                                   void (*progress)(void *user, int64_t bytes),
                                   void (*damaged)(void *user, const zero_error *what), void *user,
                                   zero_error *error)
{
    return verify_files(
        &(verifying){.progress = progress, .damaged = damaged, .user = user, .error = error},
        directory, manifest);
}
