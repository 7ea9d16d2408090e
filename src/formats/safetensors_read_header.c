// Reads one safetensors header and checks everything that could make a later read fail: sizes,
// types, shapes, offsets.
//
// The invariant on which readers build: sorted by offset, the tensors cover the file from the
// header's end to its last byte without gaps or overlaps, and each has exactly the bytes that its
// shape and type imply.
#include "base/file.h"
#include "base/json.h"
#include "formats/safetensors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_DIMS ((int)(sizeof((zr_st_tensor *)0)->shape / sizeof(int64_t)))

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the format is little-endian, and so are reads and writes here");

// In the reference's order, by alignment.
static const zr_st_dtype dtypes[] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
};

const zr_st_dtype *zr_st_dtype_find(const char *name)
{
    for (int i = 0; i < ZR_COUNT(dtypes); i++) {
        if (!strcmp(dtypes[i].name, name))
            return &dtypes[i];
    }
    return NULL;
}

const zr_st_dtype *zr_st_dtype_of(zero_dtype dtype)
{
    static const char *const names[] = {
        [ZERO_F32] = "F32", [ZERO_BF16] = "BF16", [ZERO_F16] = "F16", [ZERO_I32] = "I32",
        [ZERO_I64] = "I64", [ZERO_F64] = "F64",   [ZERO_U8] = "U8",
    };
    return zr_st_dtype_find(names[dtype]);
}

bool zr_st_bytes(const zr_st_dtype *dtype, int dims, const int64_t *shape, int64_t *bytes)
{
    int64_t bits = dtype->bits;
    for (int i = 0; i < dims; i++) {
        if (__builtin_mul_overflow(bits, shape[i], &bits))
            return false;
    }
    *bytes = bits / 8;
    return bits % 8 == 0;
}

typedef struct header { // the file while its header is read
    const char *path;
    int file;
    int64_t data_begin; // absolute
    int64_t data_bytes; // from there to the end of the file
    zr_st_tensor *tensors;
    int count;
} header;

static zero_status fail_tensor(const header *head, const char *name, const char *what,
                               zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "%s: tensor \"%s\": %s", head->path, name, what);
}

// Reads a list of integers >= 0; *count of them, at most `limit`.
static bool read_integers(const json_t *list, int limit, int64_t *out, int *count)
{
    if (!json_is_array(list) || json_array_size(list) > (size_t)limit)
        return false;
    *count = (int)json_array_size(list);
    for (int i = 0; i < *count; i++) {
        const json_t *item = json_array_get(list, (size_t)i);
        if (!json_is_integer(item) || json_integer_value(item) < 0)
            return false;
        out[i] = json_integer_value(item);
    }
    return true;
}

static zero_status read_safetensors_header_shape(const header *head, const char *name,
                                                 const json_t *entry, zr_st_tensor *out,
                                                 zero_error *error)
{
    const json_t *shape = json_object_get(entry, "shape");
    if (json_array_size(shape) > (size_t)MAX_DIMS)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "%s: tensor \"%s\" has %zu dimensions, more than %d", head->path, name,
                       json_array_size(shape), MAX_DIMS);
    if (!read_integers(shape, MAX_DIMS, out->shape, &out->dims))
        return fail_tensor(head, name, "\"shape\" is not a list of integers from 0", error);
    return ZERO_OK;
}

// Reads the offsets. The header counts them from its end; in `out` they are absolute.
static zero_status read_offsets(const header *head, const char *name, const json_t *entry,
                                zr_st_tensor *out, zero_error *error)
{
    int64_t offsets[2];
    int count = 0;
    if (!read_integers(json_object_get(entry, "data_offsets"), 2, offsets, &count) || count != 2)
        return fail_tensor(head, name, "\"data_offsets\" is not a list of two integers from 0",
                           error);
    if (offsets[1] < offsets[0])
        return fail_tensor(head, name, "its data_offsets end before they begin", error);
    if (offsets[1] > head->data_bytes)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: tensor \"%s\" ends at byte %lld of the data, of which the file has "
                       "%lld: it was cut short",
                       head->path, name, (long long)offsets[1], (long long)head->data_bytes);
    out->begin = head->data_begin + offsets[0];
    out->end = head->data_begin + offsets[1];
    return ZERO_OK;
}

static zero_status read_safetensors_header_tensor(const header *head, const char *name,
                                                  const json_t *entry, zr_st_tensor *out,
                                                  zero_error *error)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    if (!type)
        return fail_tensor(head, name, "no \"dtype\"", error);
    const zr_st_dtype *dtype = zr_st_dtype_find(type);
    if (!dtype)
        return zr_fail(error, ZERO_ERR_DATA, "%s: tensor \"%s\" has the unknown dtype \"%s\"",
                       head->path, name, type);
    out->dtype = dtype->name;
    out->file = head->file;
    ZERO_TRY(read_safetensors_header_shape(head, name, entry, out, error));
    ZERO_TRY(read_offsets(head, name, entry, out, error));
    if (json_object_size(entry) != 3)
        return fail_tensor(head, name, "fields besides dtype, shape and data_offsets", error);
    int64_t bytes;
    if (!zr_st_bytes(dtype, out->dims, out->shape, &bytes))
        return fail_tensor(head, name, "its shape has too many elements, or a part of a byte",
                           error);
    if (bytes != out->end - out->begin)
        return zr_fail(
            error, ZERO_ERR_DATA,
            "%s: tensor \"%s\": shape and dtype need %lld bytes, its data_offsets hold %lld",
            head->path, name, (long long)bytes, (long long)(out->end - out->begin));
    out->name = zr_strdup(name, error);
    return out->name ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zero_status check_metadata(const header *head, json_t *metadata, zero_error *error)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return zr_fail(error, ZERO_ERR_DATA, "%s: \"__metadata__\" is no object", head->path);
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return zr_fail(error, ZERO_ERR_DATA,
                           "%s: \"__metadata__\": the value of \"%s\" is no string", head->path,
                           key);
    }
    return ZERO_OK;
}

static zero_status read_tensors(header *head, json_t *root, zero_error *error)
{
    const char *name;
    json_t *entry;
    if (json_object_size(root) > INT32_MAX)
        return zr_fail(error, ZERO_ERR_DATA, "%s: too many tensors", head->path);
    head->tensors = zr_alloc(json_object_size(root) * sizeof *head->tensors, error);
    if (!head->tensors)
        return ZERO_ERR_MEMORY;
    json_object_foreach(root, name, entry)
    {
        if (!strcmp(name, "__metadata__")) {
            ZERO_TRY(check_metadata(head, entry, error));
            continue;
        }
        ZERO_TRY(
            read_safetensors_header_tensor(head, name, entry, &head->tensors[head->count], error));
        head->count++;
    }
    return ZERO_OK;
}

static int by_offset(const void *a, const void *b)
{
    const zr_st_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static zero_status check_cover(header *head, zero_error *error)
{
    qsort(head->tensors, (size_t)head->count, sizeof *head->tensors, by_offset);
    int64_t at = head->data_begin, file_end = head->data_begin + head->data_bytes;
    for (int i = 0; i < head->count; i++) {
        const zr_st_tensor *tensor = &head->tensors[i];
        if (tensor->begin != at)
            return zr_fail(error, ZERO_ERR_DATA,
                           "%s: tensor \"%s\" begins at byte %lld of the data, where the one "
                           "before ends at %lld",
                           head->path, tensor->name, (long long)(tensor->begin - head->data_begin),
                           (long long)(at - head->data_begin));
        at = tensor->end;
    }
    if (at != file_end)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: the tensors end at byte %lld, the file at byte %lld", head->path,
                       (long long)at, (long long)file_end);
    return ZERO_OK;
}

// Reads the JSON into a new string (zr_free), and fills in the members that follow from the file's
// size.
static zero_status read_json_text(int fd, header *head, char **text, size_t *length,
                                  zero_error *error)
{
    struct stat info;
    uint64_t declared;
    if (fstat(fd, &info))
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot look at \"%s\"", head->path);
    if (!S_ISREG(info.st_mode))
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" is %s, where a safetensors file is needed",
                       head->path, S_ISDIR(info.st_mode) ? "a directory" : "no regular file");
    if (info.st_size < 8)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: %lld bytes, fewer than the 8 that a safetensors file begins with",
                       head->path, (long long)info.st_size);
    ZERO_TRY(zr_file_pread(fd, &declared, 8, 0, head->path, error));
    if (declared > ZR_ST_HEADER_LIMIT)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: a header of %llu bytes, more than the %d that the format allows: is "
                       "this a safetensors file?",
                       head->path, (unsigned long long)declared, ZR_ST_HEADER_LIMIT);
    if ((int64_t)declared > info.st_size - 8)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: a header of %llu bytes in a file of %lld: it was cut short", head->path,
                       (unsigned long long)declared, (long long)info.st_size);
    *length = (size_t)declared;
    head->data_begin = 8 + (int64_t)declared;
    head->data_bytes = info.st_size - head->data_begin;
    *text = zr_alloc(*length + 1, error);
    return *text ? zr_file_pread(fd, *text, *length, 8, head->path, error) : ZERO_ERR_MEMORY;
}

static zero_status parse_text(header *head, const char *text, size_t length, zero_error *error)
{
    json_t *root = NULL;
    if (*text != '{')
        return zr_fail(error, ZERO_ERR_DATA, "%s: the header does not begin with {", head->path);
    if (memchr(text, 0, length)) // jansson 2.14 takes a byte 0 after a number for its end
        return zr_fail(error, ZERO_ERR_DATA, "%s: byte %zu of the header is 0", head->path,
                       strlen(text));
    zero_status status = zr_json_parse(text, length, head->path, &root, error);
    if (status == ZERO_OK)
        status = read_tensors(head, root, error);
    json_decref(root);
    return status == ZERO_OK ? check_cover(head, error) : status;
}

zero_status zr_st_header_read(int fd, const char *path, int file, zr_st_tensor **tensors,
                              int *count, zero_error *error)
{
    header head = {.path = path, .file = file};
    char *text = NULL;
    size_t length = 0;
    zero_status status = read_json_text(fd, &head, &text, &length, error);
    if (status == ZERO_OK)
        status = parse_text(&head, text, length, error);
    zr_free(text);
    if (status != ZERO_OK) {
        for (int i = 0; i < head.count; i++)
            zr_free(head.tensors[i].name);
        zr_free(head.tensors);
        return status;
    }
    *tensors = head.tensors;
    *count = head.count;
    return ZERO_OK;
}
