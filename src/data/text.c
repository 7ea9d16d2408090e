// The bytes of the data files, joined in the order given. Called by whoever trains or evaluates, before anything is tokenised.
#include "base/file.h"
#include "base/random.h"
#include "data/dataset.h"

#include <string.h>
#include <sys/stat.h>

// A wrong kind of input is bad data; what the system refuses stays an I/O error.
zero_status zr_text_map(const char *path, zr_mapped_file *out, zero_error *error)
{
    struct stat info;
    *out = (zr_mapped_file){0};
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" is %s, where a text file is needed", path,
                       S_ISDIR(info.st_mode) ? "a directory" : "no regular file");
    ZERO_TRY(zr_file_map(path, out, error));
    return out->length ? ZERO_OK : zr_fail(error, ZERO_ERR_DATA, "\"%s\" is empty, where text is needed", path);
}

static zero_status join(const zr_mapped_file *files, int count, zr_text *out, zero_error *error)
{
    size_t length = 0;
    for (int i = 0; i < count; i++)
        length += files[i].length;
    out->data = zr_alloc(length + 1, error);
    if (!out->data)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < count; i++) {
        memcpy(out->data + out->length, files[i].data, files[i].length);
        out->length += files[i].length;
    }
    out->files = count;
    out->hash = zr_hash_bytes(out->data, out->length, 0);
    return ZERO_OK;
}

zero_status zr_text_load(const char *const *paths, int count, zr_text *out, zero_error *error)
{
    *out = (zr_text){0};
    if (count < 1)
        return zr_fail(error, ZERO_ERR_USAGE, "no data file given");
    zr_mapped_file *files = zr_alloc((size_t)count * sizeof *files, error);
    if (!files)
        return ZERO_ERR_MEMORY;
    zero_status status = ZERO_OK;
    for (int i = 0; i < count && status == ZERO_OK; i++)
        status = zr_text_map(paths[i], &files[i], error);
    if (status == ZERO_OK)
        status = join(files, count, out, error);
    for (int i = 0; i < count; i++)
        zr_file_unmap(&files[i]);
    zr_free(files);
    return status;
}

void zr_text_free(zr_text *text)
{
    zr_free(text->data);
    *text = (zr_text){0};
}
