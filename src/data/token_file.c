// Reads token files. The header is trusted only if the file's size agrees with it, so that no later
// read leaves the mapping.
#include "base/alloc.h"
#include "data/token_file.h"

#include <string.h>
#include <sys/stat.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the formats are little-endian, and so are reads here");

static const int type_bytes[ZR_TOKEN_TYPES] = {
    [ZR_TOKEN_U8] = 1,  [ZR_TOKEN_I8] = 1,  [ZR_TOKEN_I16] = 2, [ZR_TOKEN_U16] = 2,
    [ZR_TOKEN_I32] = 4, [ZR_TOKEN_U32] = 4, [ZR_TOKEN_I64] = 8,
};

int zr_token_bytes(zr_token_type type) { return type_bytes[type]; }

bool zr_token_path_ends(const char *path, const char *suffix)
{
    size_t length = strlen(path), width = strlen(suffix);
    return length > width && strcmp(path + length - width, suffix) == 0;
}

char *zr_token_path_with(const char *path, const char *from, const char *to, zero_error *error)
{
    return zr_sprintf(error, "%.*s%s", (int)(strlen(path) - strlen(from)), path, to);
}

bool zr_token_file_is_name(const char *path)
{
    return zr_token_path_ends(path, ".bin") || zr_token_path_ends(path, ".idx");
}

static int32_t header_word(const zr_token_file *file, int index)
{
    int32_t word;
    memcpy(&word, file->ids.data + 4 * index, sizeof word);
    return word;
}

static bool begins_as_llmc(const zr_token_file *file)
{
    return file->ids.length >= sizeof(int32_t) &&
           (header_word(file, 0) == ZR_LLMC_MAGIC_16 || header_word(file, 0) == ZR_LLMC_MAGIC_32);
}

static zero_status read_llmc(zr_token_file *file, zero_error *error)
{
    if (!begins_as_llmc(file))
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" does not begin with a magic of llm.c (%d or %d)", file->path,
                       ZR_LLMC_MAGIC_16, ZR_LLMC_MAGIC_32);
    if (file->ids.length < ZR_LLMC_HEADER)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" has %zu bytes, fewer than llm.c's header of %d", file->path,
                       file->ids.length, ZR_LLMC_HEADER);
    bool small = header_word(file, 0) == ZR_LLMC_MAGIC_16;
    int version = small ? ZR_LLMC_VERSION_16 : ZR_LLMC_VERSION_32;
    if (header_word(file, 1) != version)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\": version %d of llm.c's magic %d, where %d is known", file->path,
                       header_word(file, 1), header_word(file, 0), version);
    file->format = ZR_TOKENS_LLMC;
    file->type = small ? ZR_TOKEN_U16 : ZR_TOKEN_U32;
    file->bytes = zr_token_bytes(file->type);
    file->count = header_word(file, 2);
    size_t body = file->ids.length - ZR_LLMC_HEADER;
    if (file->count < 0 || (size_t)file->count * (size_t)file->bytes != body)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\": the header counts %lld tokens of %d bytes, %zu bytes follow it",
                       file->path, (long long)file->count, file->bytes, body);
    file->tokens = file->ids.data + ZR_LLMC_HEADER;
    return ZERO_OK;
}

static zero_status read_nanogpt(zr_token_file *file, zero_error *error)
{
    if (file->ids.length % 2)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" has %zu bytes, not a multiple of 2 (uint16), and no known header",
                       file->path, file->ids.length);
    file->format = ZR_TOKENS_NANOGPT;
    file->type = ZR_TOKEN_U16;
    file->bytes = 2;
    file->count = (int64_t)(file->ids.length / 2);
    file->tokens = file->ids.data;
    return ZERO_OK;
}

// Finds out whether the other one of Megatron's two files is next to `path`.
static zero_status has_index(const char *path, bool *out, zero_error *error)
{
    *out = zr_token_path_ends(path, ".idx");
    if (*out || !zr_token_path_ends(path, ".bin"))
        return ZERO_OK;
    char *index = zr_token_path_with(path, ".bin", ".idx", error);
    if (!index)
        return ZERO_ERR_MEMORY;
    *out = zr_path_exists(index);
    zr_free(index);
    return ZERO_OK;
}

static zero_status open_one_file(const char *path, zr_token_format format, zr_token_file *file,
                                 zero_error *error)
{
    file->path = zr_strdup(path, error);
    if (!file->path)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(zr_file_map(path, &file->ids, error));
    if (!file->ids.length)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" is empty, where tokens are needed", path);
    bool llmc = format == ZR_TOKENS_LLMC || (format == ZR_TOKENS_DETECT && begins_as_llmc(file));
    return llmc ? read_llmc(file, error) : read_nanogpt(file, error);
}

zero_status zr_token_file_open(const char *path, zr_token_format format, zr_token_file *out,
                               zero_error *error)
{
    *out = (zr_token_file){0};
    bool megatron = format == ZR_TOKENS_MEGATRON;
    if (format == ZR_TOKENS_DETECT)
        ZERO_TRY(has_index(path, &megatron, error));
    zero_status status = megatron ? zr_token_megatron_open(path, out, error)
                                  : open_one_file(path, format, out, error);
    out->stored = out->count;
    out->end = -1;
    struct stat info;
    if (status == ZERO_OK && stat(out->path, &info) == 0) {
        out->device = (uint64_t)info.st_dev;
        out->inode = (uint64_t)info.st_ino;
    }
    if (status != ZERO_OK)
        zr_token_file_close(out);
    return status;
}

zero_status zr_token_file_check_length(const zr_token_file *file, zero_error *error)
{
    struct stat info;
    bool same = stat(file->path, &info) == 0 && (uint64_t)info.st_dev == file->device &&
                (uint64_t)info.st_ino == file->inode;
    if (!same || (uint64_t)info.st_size >= file->ids.length)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_DATA,
                   "\"%s\" was made shorter while it was read: it has %lld bytes now, and had %zu; "
                   "a file that is read must not change (write another one, and rename it)",
                   file->path, (long long)info.st_size, file->ids.length);
}

void zr_token_file_close(zr_token_file *file)
{
    zr_file_unmap(&file->ids);
    zr_file_unmap(&file->index);
    zr_free(file->path);
    *file = (zr_token_file){0};
}

#define READ_AS(type)                                                                              \
    for (int64_t i = 0; i < count; i++) {                                                          \
        type id;                                                                                   \
        memcpy(&id, from + (size_t)i * sizeof id, sizeof id);                                      \
        int64_t wide = id;                                                                         \
        out[i] = wide < 0 || wide > INT32_MAX ? -1 : (int32_t)wide;                                \
    }                                                                                              \
    break

// Reads tokens of the file itself, without the ends put after documents.
static void read_stored(const zr_token_file *file, int64_t first, int64_t count, int32_t *out)
{
    assert(first >= 0 && count >= 0 && first <= file->stored - count);
    const char *from = file->tokens + (size_t)first * (size_t)file->bytes;
    switch (file->type) {
    case ZR_TOKEN_U8: READ_AS(uint8_t);
    case ZR_TOKEN_I8: READ_AS(int8_t);
    case ZR_TOKEN_I16: READ_AS(int16_t);
    case ZR_TOKEN_U16: READ_AS(uint16_t);
    case ZR_TOKEN_I32: READ_AS(int32_t);
    case ZR_TOKEN_U32: READ_AS(uint32_t);
    case ZR_TOKEN_I64: READ_AS(int64_t);
    case ZR_TOKEN_TYPES: break;
    }
}

// Finds the document to which token `at` belongs; the end after a document belongs to it. With
// ends, document d begins at its first token + d.
static int64_t document_at(const zr_token_file *file, int64_t at)
{
    int64_t low = 0, high = file->documents - 1;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2, first, count;
        zr_token_file_document(file, middle, &first, &count);
        if (first + middle <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

void zr_token_file_read(const zr_token_file *file, int64_t first, int64_t count, int32_t *out)
{
    if (file->end < 0) {
        read_stored(file, first, count, out);
        return;
    }
    assert(first >= 0 && count >= 0 && first <= file->count - count);
    for (int64_t done = 0, d = count ? document_at(file, first) : 0; done < count; d++) {
        int64_t begin, length, from = first + done;
        zr_token_file_document(file, d, &begin, &length);
        int64_t inside = from - (begin + d), run = ZR_MIN(count - done, length - inside);
        read_stored(file, begin + inside, run, out + done);
        done += run;
        if (done < count)
            out[done++] = file->end;
    }
}

void zr_token_file_end_documents(zr_token_file *file, int32_t end)
{
    enum { LOOKED_AT = 4096 };
    int64_t step = file->documents / LOOKED_AT + 1;
    for (int64_t d = 0; d < file->documents && end >= 0; d += step) {
        int64_t first, count;
        int32_t last = -1;
        zr_token_file_document(file, d, &first, &count);
        if (!count)
            continue;
        read_stored(file, first + count - 1, 1, &last);
        if (last == end)
            return;
    }
    if (!file->documents || end < 0)
        return;
    file->end = end;
    file->count = file->stored + file->documents;
}

zero_status zr_token_file_check(const zr_token_file *file, int64_t first, int64_t count,
                                int64_t vocabulary, zero_error *error)
{
    enum { PART = 4096 };
    int32_t ids[PART];
    uint32_t limit = (uint32_t)ZR_MIN(vocabulary, (int64_t)INT32_MAX);
    for (int64_t at = first; at < first + count; at += PART) {
        int64_t part = ZR_MIN((int64_t)PART, first + count - at);
        zr_token_file_read(file, at, part, ids);
        uint32_t largest = 0; // an id of -1 becomes the largest of all
        for (int64_t i = 0; i < part; i++)
            largest = ZR_MAX(largest, (uint32_t)ids[i]);
        if (part && largest < limit)
            continue;
        for (int64_t i = 0; i < part; i++)
            if ((uint32_t)ids[i] >= limit)
                return ids[i] < 0
                           ? zr_fail(error, ZERO_ERR_DATA,
                                     "\"%s\": token %lld is no id: negative, or larger than 2^31",
                                     file->path, (long long)(at + i))
                           : zr_fail(
                                 error, ZERO_ERR_DATA,
                                 "\"%s\": token %lld has the id %d, the vocabulary ends at %lld",
                                 file->path, (long long)(at + i), ids[i],
                                 (long long)vocabulary - 1);
    }
    return ZERO_OK;
}
