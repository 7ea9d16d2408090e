// The place into which a file is unpacked: memory first, then a spill.
#define _GNU_SOURCE
#include "data/unpack.h"

#include "base/alloc.h"

#include <errno.h>
#include <sys/mman.h>

enum { FIRST_BYTES = 1 << 20 }; // of the mapping

size_t zr_unpacked_bytes(const zr_unpacked *out)
{
    return out->length + (out->spill ? (size_t)zr_spill_bytes(out->spill) : 0);
}

zero_status zr_unpacked_refuse(const zr_unpacked *out, const char *what, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "cannot unpack \"%s\": %s, after %zu bytes", out->path,
                   what, zr_unpacked_bytes(out));
}

// Moves what is in memory to the end of the spill.
static zero_status spill_bytes(zr_unpacked *out, zero_error *error)
{
    if (!out->spill) {
        char *what = zr_sprintf(error, "unpacking \"%s\"", out->path);
        zero_status status = what ? zr_spill_create(what, &out->spill, error) : ZERO_ERR_MEMORY;
        zr_free(what);
        ZERO_TRY(status);
    }
    ZERO_TRY(zr_spill_append(out->spill, out->data, out->length, error));
    if (out->packed) {
        zr_file_release(out->packed, 0, out->packed->length);
        zr_watch_beat(out->watch, out->path, out->packed->length - out->left, out->packed->length);
    }
    out->length = 0;
    return ZERO_OK;
}

zero_status zr_unpacked_grow(zr_unpacked *out, zero_error *error)
{
    if (out->length < out->capacity)
        return ZERO_OK;
    if (zr_unpacked_bytes(out) >= out->limit)
        return zr_fail(
            error, ZERO_ERR_DATA,
            "\"%s\" unpacks to more than %zu bytes, which is more than %d times its size "
            "and than text has: it is refused",
            out->path, out->limit, ZR_UNPACKED_TIMES);
    if (out->capacity >= (out->most ? out->most : (size_t)ZR_SPILL_BEYOND))
        return spill_bytes(out, error);
    size_t capacity = out->capacity ? 2 * out->capacity : FIRST_BYTES;
    void *data = out->data ? mremap(out->data, out->capacity, capacity, MREMAP_MAYMOVE)
                           : mmap(NULL, capacity, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, errno, "no %zu bytes to unpack \"%s\"",
                             capacity, out->path);
    out->data = data;
    out->capacity = capacity;
    return ZERO_OK;
}

// Gives the mapping to *file, without the pages that it does not need.
static zero_status keep_memory(zr_unpacked *out, zr_mapped_file *file, zero_error *error)
{
    void *data = mremap(out->data, out->capacity, out->length, MREMAP_MAYMOVE);
    if (data == MAP_FAILED)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, errno, "cannot keep the %zu bytes of \"%s\"",
                             out->length, out->path);
    *file = (zr_mapped_file){.data = data, .length = out->length};
    out->data = NULL;
    return ZERO_OK;
}

zero_status zr_unpacked_finish(zr_unpacked *out, zr_mapped_file *file, zero_error *error)
{
    if (!zr_unpacked_bytes(out))
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" unpacks to nothing", out->path);
    if (!out->spill)
        return keep_memory(out, file, error);
    ZERO_TRY(spill_bytes(out, error));
    ZERO_TRY(zr_spill_finish(out->spill, error));
    return zr_spill_map(out->spill, file, error);
}

void zr_unpacked_free(zr_unpacked *out)
{
    if (out->data)
        munmap(out->data, out->capacity);
    zr_spill_destroy(out->spill);
}
