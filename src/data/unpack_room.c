// The memory into which a file is unpacked.
#define _GNU_SOURCE
#include "data/unpack.h"

#include <errno.h>
#include <sys/mman.h>

enum { FIRST_BYTES = 1 << 20 }; // of the mapping

zero_status zr_unpacked_refuse(const zr_unpacked *out, const char *what, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "cannot unpack \"%s\": %s, after %zu bytes", out->path,
                   what, out->length);
}

zero_status zr_unpacked_grow(zr_unpacked *out, zero_error *error)
{
    if (out->length < out->capacity)
        return ZERO_OK;
    if (out->length >= out->limit)
        return zr_fail(
            error, ZERO_ERR_DATA,
            "\"%s\" unpacks to more than %zu bytes, which is more than %d times its size "
            "and than text has: it is refused",
            out->path, out->limit, ZR_UNPACKED_TIMES);
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
