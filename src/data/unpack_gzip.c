// gzip by zlib: members one after another, and the zeros that tapes leave after the last one.
#include "data/unpack.h"

#include "base/alloc.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

enum { WINDOW_OF_GZIP = 15 + 16 }; // zlib: the largest window, in gzip's frame

static void *allocate(void *user, uInt items, uInt size)
{
    return zr_alloc((size_t)items * size, NULL);
}

static void release(void *user, void *memory) { zr_free(memory); }

static zero_status fail_inflate(const z_stream *s, int code, const zr_unpacked *out,
                                zero_error *error)
{
    if (code == Z_MEM_ERROR)
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for zlib to unpack \"%s\"", out->path);
    return zr_unpacked_refuse(out,
                              code == Z_BUF_ERROR ? "it is cut off"
                              : s->msg            ? s->msg
                                                  : "it is damaged",
                              error);
}

// Unpacks the member that begins at s->next_in, up to `end`.
static zero_status inflate_member(z_stream *s, const char *end, zr_unpacked *out, zero_error *error)
{
    for (int code = Z_OK; code != Z_STREAM_END;) {
        ZERO_TRY(zr_unpacked_grow(out, error));
        size_t left = (size_t)(end - (const char *)s->next_in), room = out->capacity - out->length;
        s->avail_in = (uInt)ZR_MIN(left, (size_t)INT_MAX);
        s->avail_out = (uInt)ZR_MIN(room, (size_t)INT_MAX);
        s->next_out = (Bytef *)out->data + out->length;
        code = inflate(s, Z_NO_FLUSH);
        out->left = (size_t)(end - (const char *)s->next_in);
        out->length = (size_t)((char *)s->next_out - out->data);
        if (code != Z_OK && code != Z_STREAM_END)
            return fail_inflate(s, code, out, error);
    }
    return ZERO_OK;
}

zero_status zr_unpack_gzip(const char *data, size_t length, zr_unpacked *out, zero_error *error)
{
    const char *end = data + length;
    z_stream s = {.next_in = (Bytef *)data, .zalloc = allocate, .zfree = release};
    int code = inflateInit2(&s, WINDOW_OF_GZIP);
    zero_status status = code == Z_OK ? ZERO_OK : fail_inflate(&s, code, out, error);
    while (status == ZERO_OK && (const char *)s.next_in < end) {
        if (zr_unpacked_bytes(out) && !*s.next_in) {
            s.next_in++;
            continue;
        }
        inflateReset(&s);
        status = inflate_member(&s, end, out, error);
    }
    inflateEnd(&s);
    return status;
}

zero_status zr_unpack_gzip_block(const void *data, size_t length, void *out, size_t room,
                                 const char *name, zero_error *error)
{
    z_stream s = {.next_in = (Bytef *)data,
                  .avail_in = (uInt)length,
                  .next_out = out,
                  .avail_out = (uInt)room,
                  .zalloc = allocate,
                  .zfree = release};
    int code = inflateInit2(&s, WINDOW_OF_GZIP);
    if (code == Z_OK)
        code = inflate(&s, Z_FINISH);
    inflateEnd(&s);
    if (code == Z_MEM_ERROR)
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for zlib", name);
    return code == Z_STREAM_END && !s.avail_out
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_DATA, "%s: a page is damaged (gzip)", name);
}
