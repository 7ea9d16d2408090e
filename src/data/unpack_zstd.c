// zstd by libzstd: frames one after another, also those that are to be skipped.
#include "data/unpack.h"

#include <zstd.h>
#include <zstd_errors.h>

static zero_status fail_frame(size_t code, const zr_unpacked *out, zero_error *error)
{
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation)
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for libzstd to unpack \"%s\"", out->path);
    return zr_unpacked_refuse(out, ZSTD_getErrorName(code), error);
}

static zero_status decompress(ZSTD_DStream *stream, ZSTD_inBuffer *in, zr_unpacked *out,
                              zero_error *error)
{
    for (size_t code = 1; in->pos < in->size || code;) {
        ZERO_TRY(zr_unpacked_grow(out, error));
        size_t before = in->pos;
        ZSTD_outBuffer room = {.dst = out->data, .size = out->capacity, .pos = out->length};
        code = ZSTD_decompressStream(stream, &room, in);
        bool moved = in->pos > before || room.pos > out->length;
        out->length = room.pos;
        out->left = in->size - in->pos;
        if (ZSTD_isError(code))
            return fail_frame(code, out, error);
        if (!moved && code)
            return zr_unpacked_refuse(out, "it is cut off", error);
    }
    return ZERO_OK;
}

zero_status zr_unpack_zstd(const char *data, size_t length, zr_unpacked *out, zero_error *error)
{
    ZSTD_DStream *stream = ZSTD_createDStream();
    if (!stream)
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for libzstd to unpack \"%s\"", out->path);
    ZSTD_inBuffer in = {.src = data, .size = length};
    zero_status status = decompress(stream, &in, out, error);
    ZSTD_freeDStream(stream);
    return status;
}

zero_status zr_unpack_zstd_block(const void *data, size_t length, void *out, size_t room,
                                 const char *name, zero_error *error)
{
    size_t code = ZSTD_decompress(out, room, data, length);
    if (ZSTD_isError(code) && ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation)
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for libzstd", name);
    return code == room ? ZERO_OK
                        : zr_fail(error, ZERO_ERR_DATA, "%s: a page is damaged (zstd: %s)", name,
                                  ZSTD_isError(code) ? ZSTD_getErrorName(code) : "too short");
}
