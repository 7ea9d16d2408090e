// Reads the bytes of text files, joined in the order given. It is called before anything is
// tokenised.
#include "base/alloc.h"
#include "data/text.h"
#include "data/spill.h"
#include "data/unpack.h"
#include "tokenizer/vocabulary.h"

#include <string.h>
#include <sys/stat.h>

// A wrong kind of input is bad data; a failure of the system stays an I/O error.
// Puts what a compressed file unpacks to in the place of its own bytes.
static zero_status unpack_mapped(const char *path, const zr_watch *watch, zr_mapped_file *file,
                                 zero_error *error)
{
    zr_mapped_file unpacked;
    zero_status status = zr_unpack(path, file, watch, &unpacked, error);
    if (status == ZERO_OK && !unpacked.data)
        return ZERO_OK;
    zr_file_unmap(file);
    *file = unpacked;
    return status;
}

zero_status zr_text_map_as(const char *path, const char *what, const zr_watch *watch,
                           zr_mapped_file *out, zero_error *error)
{
    struct stat info;
    *out = (zr_mapped_file){0};
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" is %s, where a %s file is needed", path,
                       S_ISDIR(info.st_mode) ? "a directory" : "no regular file", what);
    ZERO_TRY(zr_file_map(path, out, error));
    if (out->length)
        return unpack_mapped(path, watch, out, error);
    zr_file_unmap(out);
    return zr_fail(error, ZERO_ERR_DATA, "\"%s\" is empty, where %s is needed", path, what);
}

zero_status zr_text_map(const char *path, const zr_watch *watch, zr_mapped_file *out,
                        zero_error *error)
{
    return zr_text_map_as(path, "text", watch, out, error);
}

static zero_status append_released(zr_spill *spill, const zr_mapped_file *file,
                                   const zr_watch *watch, zero_error *error)
{
    enum { AT_ONCE = 16 << 20 };
    for (size_t at = 0, count; at < file->length; at += count) {
        count = ZR_MIN(file->length - at, (size_t)AT_ONCE);
        ZERO_TRY(zr_spill_append(spill, file->data + at, count, error));
        zr_file_release(file, at, at + count);
        zr_watch_beat(watch, "joined text", at + count, file->length);
    }
    return ZERO_OK;
}

static zero_status join_in_spill(const zr_mapped_file *files, const zr_watch *watch, zr_text *out,
                                 zero_error *error)
{
    zr_spill *spill;
    zero_status status = ZERO_OK;
    ZERO_TRY(zr_spill_create("joining files of text", &spill, error));
    for (int i = 0; i < out->files && status == ZERO_OK; i++)
        status = append_released(spill, &files[i], watch, error);
    if (status == ZERO_OK)
        status = zr_spill_finish(spill, error);
    if (status == ZERO_OK)
        status = zr_spill_map(spill, &out->mapped, error);
    zr_spill_destroy(spill);
    out->data = out->mapped.data;
    out->length = out->mapped.length;
    return status;
}

static zero_status join_mapped_files(const zr_mapped_file *files, const zr_watch *watch,
                                     zr_text *out, zero_error *error)
{
    size_t length = 0;
    for (int i = 0; i < out->files; i++) {
        length += files[i].length;
        out->ends[i] = length;
    }
    if (length > ZR_SPILL_BEYOND)
        return join_in_spill(files, watch, out, error);
    out->copied = zr_alloc(length + 1, error);
    if (!out->copied)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < out->files; i++) {
        memcpy(out->copied + out->length, files[i].data, files[i].length);
        out->length += files[i].length;
    }
    out->data = out->copied;
    return ZERO_OK;
}

static zero_status load_several(const char *const *paths, const zr_watch *watch, zr_text *out,
                                zero_error *error)
{
    zr_mapped_file *files = zr_alloc((size_t)out->files * sizeof *files, error);
    if (!files)
        return ZERO_ERR_MEMORY;
    zero_status status = ZERO_OK;
    for (int i = 0; i < out->files && status == ZERO_OK; i++)
        status = zr_text_map(paths[i], watch, &files[i], error);
    if (status == ZERO_OK)
        status = join_mapped_files(files, watch, out, error);
    for (int i = 0; i < out->files; i++)
        zr_file_unmap(&files[i]);
    zr_free(files);
    return status;
}

static zero_status load_one(const char *path, const zr_watch *watch, zr_text *out,
                            zero_error *error)
{
    ZERO_TRY(zr_text_map(path, watch, &out->mapped, error));
    out->data = out->mapped.data;
    out->length = out->ends[0] = out->mapped.length;
    return ZERO_OK;
}

zero_status zr_text_load(const char *const *paths, int count, const zr_watch *watch, zr_text *out,
                         zero_error *error)
{
    *out = (zr_text){0};
    if (count < 1)
        return zr_fail(error, ZERO_ERR_USAGE, "no data file given");
    out->files = count;
    out->ends = zr_alloc((size_t)count * sizeof *out->ends, error);
    zero_status status = !out->ends   ? ZERO_ERR_MEMORY
                         : count == 1 ? load_one(paths[0], watch, out, error)
                                      : load_several(paths, watch, out, error);
    if (status != ZERO_OK)
        zr_text_free(out);
    return status;
}

void zr_text_free(zr_text *text)
{
    zr_file_unmap(&text->mapped);
    zr_free(text->copied);
    zr_free(text->ends);
    *text = (zr_text){0};
}

size_t zr_text_nine_tenths(size_t length) { return length / 10 * 9 + length % 10 * 9 / 10; }

size_t zr_text_split(const zr_text *text)
{
    return zr_character_cut(text->data, zr_text_nine_tenths(text->length), text->length);
}
