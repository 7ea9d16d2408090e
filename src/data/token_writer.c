// Writes llm.c's token files. The header comes last, because it counts what was written.
#include "base/alloc.h"
#include "data/token_file.h"

#include <string.h>

enum { ROOM = 1 << 16 }; // bytes

zero_status zr_token_writer_open(const char *path, int64_t vocabulary, zr_token_writer *out,
                                 zero_error *error)
{
    *out = (zr_token_writer){.file = {.fd = -1},
                             .bytes = vocabulary <= UINT16_MAX + 1 ? 2 : 4,
                             .room = zr_alloc(ROOM, error)};
    zero_status status = out->room ? zr_durable_open(path, &out->file, error) : ZERO_ERR_MEMORY;
    if (status != ZERO_OK)
        zr_token_writer_discard(out);
    return status;
}

static void narrow_ids(const int32_t *ids, int64_t count, int bytes, char *out)
{
    if (bytes == 4) {
        memcpy(out, ids, (size_t)count * 4);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        uint16_t id = (uint16_t)ids[i];
        memcpy(out + 2 * i, &id, sizeof id);
    }
}

zero_status zr_token_writer_append(zr_token_writer *writer, const int32_t *ids, int64_t count,
                                   zero_error *error)
{
    int64_t most = ROOM / writer->bytes;
    if (count > INT32_MAX - writer->count)
        return zr_fail(
            error, ZERO_ERR_DATA,
            "\"%s\": %lld tokens and more, where the header counts to %d: write several files",
            writer->file.path, (long long)(writer->count + count), INT32_MAX);
    for (int64_t at = 0; at < count; at += most) {
        int64_t part = ZR_MIN(most, count - at);
        narrow_ids(ids + at, part, writer->bytes, writer->room);
        ZERO_TRY(zr_file_pwrite(writer->file.fd, writer->room, (size_t)(part * writer->bytes),
                                ZR_LLMC_HEADER + writer->count * writer->bytes, writer->file.path,
                                error));
        writer->count += part;
    }
    return ZERO_OK;
}

zero_status zr_token_writer_commit(zr_token_writer *writer, zero_error *error)
{
    bool small = writer->bytes == 2;
    int32_t header[ZR_LLMC_HEADER / 4] = {small ? ZR_LLMC_MAGIC_16 : ZR_LLMC_MAGIC_32,
                                          small ? ZR_LLMC_VERSION_16 : ZR_LLMC_VERSION_32,
                                          (int32_t)writer->count};
    zero_status status =
        zr_file_pwrite(writer->file.fd, header, sizeof header, 0, writer->file.path, error);
    if (status == ZERO_OK)
        status = zr_durable_commit(&writer->file, error);
    zr_token_writer_discard(writer);
    return status;
}

void zr_token_writer_discard(zr_token_writer *writer)
{
    if (writer->file.path)
        zr_durable_discard(&writer->file);
    zr_free(writer->room);
    *writer = (zr_token_writer){.file = {.fd = -1}};
}
