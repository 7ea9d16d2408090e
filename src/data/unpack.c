#include "data/unpack.h"
#include "data/token_file.h"

#include <string.h>

static const struct packing {
    const char *begins;
    size_t width;
    const char *suffix, *name, *library, *program;
    zero_status (*unpack)(const char *data, size_t length, zr_unpacked *out, zero_error *error);
} packings[] = {
    {"\x1f\x8b\x08", 3, ".gz", "gzip", "zlib", "gunzip",
#ifdef ZR_DATA_ZLIB
     zr_unpack_gzip
#endif
    },
    {"\x28\xb5\x2f\xfd", 4, ".zst", "zstd", "libzstd", "unzstd",
#ifdef ZR_DATA_ZSTD
     zr_unpack_zstd
#endif
    },
};

bool zr_unpack_is_built(const char *name)
{
    for (int i = 0; i < ZR_COUNT(packings); i++)
        if (!strcmp(packings[i].name, name))
            return packings[i].unpack != NULL;
    return false;
}

bool zr_packed_path_ends(const char *path, const char *suffix)
{
    size_t length = strlen(path);
    for (int i = 0; i < ZR_COUNT(packings); i++)
        if (zr_token_path_ends(path, packings[i].suffix))
            length -= strlen(packings[i].suffix);
    size_t width = strlen(suffix);
    return length > width && !strncmp(path + length - width, suffix, width);
}

static zero_status unpack_as(const struct packing *as, const char *path,
                             const zr_mapped_file *packed, const zr_watch *watch,
                             zr_mapped_file *file, zero_error *error)
{
    size_t length = packed->length,
           times = length < SIZE_MAX / ZR_UNPACKED_TIMES ? length * ZR_UNPACKED_TIMES : SIZE_MAX;
    zr_unpacked out = {.path = path,
                       .packed = packed,
                       .left = length,
                       .watch = watch,
                       .limit = ZR_MAX(ZR_UNPACKED_BYTES, times)};
    if (!as->unpack)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "\"%s\" is compressed by %s, and this program was built without %s: unpack "
                       "it first (%s), or build with that library",
                       path, as->name, as->library, as->program);
    zero_status status = as->unpack(packed->data, length, &out, error);
    if (status == ZERO_OK)
        status = zr_unpacked_finish(&out, file, error);
    zr_unpacked_free(&out);
    return status;
}

static const struct packing *find_packing(const char *data, size_t length)
{
    for (int i = 0; i < ZR_COUNT(packings); i++)
        if (length >= packings[i].width && !memcmp(data, packings[i].begins, packings[i].width))
            return &packings[i];
    return NULL;
}

bool zr_is_packed(const char *path)
{
    char head[5];
    return find_packing(head, zr_file_head(path, head, sizeof head)) != NULL;
}

zero_status zr_unpack(const char *path, const zr_mapped_file *packed, const zr_watch *watch,
                      zr_mapped_file *out, zero_error *error)
{
    const struct packing *as = find_packing(packed->data, packed->length);
    *out = (zr_mapped_file){0};
    return as ? unpack_as(as, path, packed, watch, out, error) : ZERO_OK;
}
