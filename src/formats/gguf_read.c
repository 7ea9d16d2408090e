// Opens a GGUF file: everything that its head says is checked before anything uses it. Numbers of
// entries are bounded by the bytes that the file has for them.
#include "formats/gguf.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_KEY = 8 + 4 + 1, LEAST_TENSOR = 8 + 4 + 4 + 8, MOST_NAME = 256 }; // in bytes
enum { MOST_ENTRIES = 1 << 24 };

typedef struct reading {
    zr_gguf *out;
    size_t at;
    zero_error *error;
} reading;

static zero_status damaged(const reading *r, const char *what)
{
    return zr_fail(r->error, ZERO_ERR_DATA, "\"%s\", offset %zu: %s", r->out->path, r->at, what);
}

static bool take_bytes(reading *r, void *out, size_t bytes)
{
    if (bytes > r->out->file.length - r->at)
        return false;
    memcpy(out, r->out->file.data + r->at, bytes);
    r->at += bytes;
    return true;
}

static bool take_text(reading *r, zr_gguf_text *out)
{
    uint64_t length;
    if (!take_bytes(r, &length, sizeof length) || length > r->out->file.length - r->at)
        return false;
    *out = (zr_gguf_text){r->out->file.data + r->at, (size_t)length};
    r->at += (size_t)length;
    return true;
}

static size_t bytes_of_kind(zr_gguf_kind kind) // 0: a text or an array
{
    static const unsigned char bytes[ZR_GGUF_KINDS] = {
        [ZR_GGUF_U8] = 1,  [ZR_GGUF_I8] = 1,  [ZR_GGUF_U16] = 2, [ZR_GGUF_I16] = 2,
        [ZR_GGUF_U32] = 4, [ZR_GGUF_I32] = 4, [ZR_GGUF_F32] = 4, [ZR_GGUF_FLAG] = 1,
        [ZR_GGUF_U64] = 8, [ZR_GGUF_I64] = 8, [ZR_GGUF_F64] = 8};
    return bytes[kind];
}

static zero_status take_name(reading *r, const char *of, zr_gguf_text *out)
{
    if (!take_text(r, out))
        return damaged(r, "the file ends within a name");
    return out->length && out->length <= MOST_NAME && !memchr(out->at, 0, out->length)
               ? ZERO_OK
               : zr_fail(r->error, ZERO_ERR_DATA,
                         "\"%s\", offset %zu: the name of a %s has %zu bytes, of 1 to %d that may "
                         "not be 0",
                         r->out->path, r->at, of, out->length, MOST_NAME);
}

static zero_status take_kind(reading *r, const zr_gguf_key *key, zr_gguf_kind *out)
{
    uint32_t kind;
    if (!take_bytes(r, &kind, sizeof kind))
        return damaged(r, "the file ends within a key");
    *out = (zr_gguf_kind)kind;
    return kind < ZR_GGUF_KINDS
               ? ZERO_OK
               : zr_fail(r->error, ZERO_ERR_DATA,
                         "\"%s\", offset %zu: the value of \"%.*s\" is of kind %u: there are %d",
                         r->out->path, r->at, (int)key->name.length, key->name.at, kind,
                         ZR_GGUF_KINDS);
}

// Steps over the value, whose kind is known, or over all items of an array.
static zero_status skip_value(reading *r, const zr_gguf_key *key)
{
    zr_gguf_text unused;
    bool listed = key->kind == ZR_GGUF_ARRAY;
    size_t left = r->out->file.length - r->at, width = bytes_of_kind(listed ? key->of : key->kind);
    uint64_t count = listed ? key->count : 1;
    bool fits = width ? count <= left / width : count <= left / sizeof(uint64_t);
    if (fits && width)
        r->at += (size_t)count * width;
    for (uint64_t i = 0; i < count && fits && !width; i++)
        fits = take_text(r, &unused);
    return fits ? ZERO_OK
                : zr_fail(r->error, ZERO_ERR_DATA,
                          "\"%s\", offset %zu: the file ends within the value of \"%.*s\"",
                          r->out->path, r->at, (int)key->name.length, key->name.at);
}

static zero_status take_key(reading *r, zr_gguf_key *key)
{
    ZERO_TRY(take_name(r, "key", &key->name));
    ZERO_TRY(take_kind(r, key, &key->kind));
    if (key->kind == ZR_GGUF_ARRAY) {
        ZERO_TRY(take_kind(r, key, &key->of));
        if (key->of == ZR_GGUF_ARRAY)
            return zr_fail(r->error, ZERO_ERR_DATA,
                           "\"%s\", offset %zu: \"%.*s\" is a list of lists", r->out->path, r->at,
                           (int)key->name.length, key->name.at);
        if (!take_bytes(r, &key->count, sizeof key->count))
            return damaged(r, "the file ends within a key");
    }
    key->at = r->at;
    return skip_value(r, key);
}

static zero_status refuse_tensor(const reading *r, const zr_gguf_item *tensor, zero_status status,
                                 const char *what)
{
    return zr_fail(r->error, status, "\"%s\", offset %zu: the tensor \"%.*s\" %s", r->out->path,
                   r->at, (int)tensor->name.length, tensor->name.at, what);
}

static zero_status take_sizes(reading *r, zr_gguf_item *tensor)
{
    uint32_t dims;
    uint64_t size;
    if (!take_bytes(r, &dims, sizeof dims))
        return damaged(r, "the file ends within a tensor's sizes");
    if (dims < 1 || dims > ZR_GGUF_DIMS)
        return refuse_tensor(r, tensor, ZERO_ERR_DATA, "has not 1 to 4 dimensions");
    tensor->dims = (int)dims;
    tensor->elements = 1;
    for (int d = tensor->dims - 1; d >= 0; d--) {
        if (!take_bytes(r, &size, sizeof size))
            return damaged(r, "the file ends within a tensor's sizes");
        tensor->sizes[d] = (int64_t)size;
        if (size < 1 || size > INT64_MAX / 64 ||
            __builtin_mul_overflow(tensor->elements, tensor->sizes[d], &tensor->elements) ||
            tensor->elements > INT64_MAX / 64)
            return refuse_tensor(r, tensor, ZERO_ERR_DATA,
                                 "has a size of 0, or more elements than can be counted");
    }
    return ZERO_OK;
}

static zero_status take_type(reading *r, zr_gguf_item *tensor)
{
    uint32_t code;
    if (!take_bytes(r, &code, sizeof code))
        return damaged(r, "the file ends within a tensor's type");
    tensor->type = zr_gguf_type_of(code);
    if (!tensor->type)
        return zr_fail(r->error, ZERO_ERR_UNSUPPORTED,
                       "\"%s\", offset %zu: the tensor \"%.*s\" is of GGML's type %u: f32 (0), f16 "
                       "(1), bf16 (30), q8_0 (8) and q4_0 (2) are read",
                       r->out->path, r->at, (int)tensor->name.length, tensor->name.at, code);
    return tensor->sizes[tensor->dims - 1] % tensor->type->block == 0
               ? ZERO_OK
               : refuse_tensor(r, tensor, ZERO_ERR_DATA,
                               "has rows that are no whole number of blocks of 32");
}

// The data's place is known only after the last tensor: until then `data` is its offset.
static zero_status take_tensor(reading *r, zr_gguf_item *tensor, uint64_t *offset)
{
    ZERO_TRY(take_name(r, "tensor", &tensor->name));
    ZERO_TRY(take_sizes(r, tensor));
    ZERO_TRY(take_type(r, tensor));
    return take_bytes(r, offset, sizeof *offset)
               ? ZERO_OK
               : damaged(r, "the file ends within a tensor's offset");
}

static zero_status place_tensor(reading *r, zr_gguf_item *tensor, uint64_t offset, size_t begin,
                                uint64_t alignment)
{
    size_t room = r->out->file.length - begin;
    uint64_t bytes = (uint64_t)zr_gguf_bytes(tensor->type, tensor->elements);
    if (offset % alignment)
        return refuse_tensor(r, tensor, ZERO_ERR_DATA,
                             "begins at no multiple of general.alignment");
    if (offset > room || bytes > room - offset)
        return refuse_tensor(r, tensor, ZERO_ERR_DATA, "reaches beyond the end of the file");
    tensor->data = r->out->file.data + begin + offset;
    return ZERO_OK;
}

static int compare_texts(const zr_gguf_text *a, const zr_gguf_text *b)
{
    int order = memcmp(a->at, b->at, ZR_MIN(a->length, b->length));
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

static int by_key(const void *a, const void *b)
{
    return compare_texts(&((const zr_gguf_key *)a)->name, &((const zr_gguf_key *)b)->name);
}

static int by_tensor(const void *a, const void *b)
{
    return compare_texts(&((const zr_gguf_item *)a)->name, &((const zr_gguf_item *)b)->name);
}

static zero_status refuse_twice(const reading *r, const char *what, const zr_gguf_text *name)
{
    return zr_fail(r->error, ZERO_ERR_DATA, "\"%s\": the %s \"%.*s\" is there twice", r->out->path,
                   what, (int)name->length, name->at);
}

static zero_status read_keys(reading *r, uint64_t count)
{
    zr_gguf *out = r->out;
    if (count > MOST_ENTRIES || count > (out->file.length - r->at) / LEAST_KEY)
        return damaged(r, "it has more keys than bytes for them");
    out->keys = zr_alloc(((size_t)count + 1) * sizeof *out->keys, r->error);
    if (!out->keys)
        return ZERO_ERR_MEMORY;
    for (; (uint64_t)out->key_count < count; out->key_count++)
        ZERO_TRY(take_key(r, &out->keys[out->key_count]));
    qsort(out->keys, (size_t)out->key_count, sizeof *out->keys, by_key);
    for (int k = 1; k < out->key_count; k++)
        if (!by_key(&out->keys[k - 1], &out->keys[k]))
            return refuse_twice(r, "key", &out->keys[k].name);
    return ZERO_OK;
}

static zero_status read_alignment(reading *r, uint64_t *out)
{
    int64_t alignment = ZR_GGUF_ALIGNMENT;
    ZERO_TRY(zr_gguf_get_integer(r->out, "general.alignment", 1 << 20, &alignment, r->error));
    *out = (uint64_t)alignment;
    return ZR_IS_POWER_OF_TWO(alignment)
               ? ZERO_OK
               : zr_fail(r->error, ZERO_ERR_DATA,
                         "\"%s\": \"general.alignment\" is %lld, which is no power of two",
                         r->out->path, (long long)alignment);
}

static zero_status list_tensors(reading *r, uint64_t count, uint64_t *offsets)
{
    zr_gguf *out = r->out;
    uint64_t alignment = 0;
    for (; (uint64_t)out->tensor_count < count; out->tensor_count++)
        ZERO_TRY(take_tensor(r, &out->tensors[out->tensor_count], &offsets[out->tensor_count]));
    ZERO_TRY(read_alignment(r, &alignment));
    size_t begin = ZR_ROUND_UP(r->at, (size_t)alignment);
    if (count && begin > out->file.length)
        return damaged(r, "the file ends before its tensors begin");
    for (int t = 0; t < out->tensor_count; t++)
        ZERO_TRY(place_tensor(r, &out->tensors[t], offsets[t], begin, alignment));
    qsort(out->tensors, (size_t)out->tensor_count, sizeof *out->tensors, by_tensor);
    for (int t = 1; t < out->tensor_count; t++)
        if (!by_tensor(&out->tensors[t - 1], &out->tensors[t]))
            return refuse_twice(r, "tensor", &out->tensors[t].name);
    return ZERO_OK;
}

static zero_status read_tensors(reading *r, uint64_t count)
{
    zr_gguf *out = r->out;
    if (count > MOST_ENTRIES || count > (out->file.length - r->at) / LEAST_TENSOR)
        return damaged(r, "it has more tensors than bytes for them");
    out->tensors = zr_alloc(((size_t)count + 1) * sizeof *out->tensors, r->error);
    uint64_t *offsets = zr_alloc(((size_t)count + 1) * sizeof *offsets, r->error);
    zero_status status =
        out->tensors && offsets ? list_tensors(r, count, offsets) : ZERO_ERR_MEMORY;
    zr_free(offsets);
    return status;
}

static zero_status read_head(reading *r)
{
    char magic[4];
    uint32_t version;
    uint64_t tensors, keys;
    if (!take_bytes(r, magic, sizeof magic) || memcmp(magic, "GGUF", sizeof magic) != 0)
        return damaged(r, "this is no GGUF file: it does not begin with GGUF");
    if (!take_bytes(r, &version, sizeof version) || !take_bytes(r, &tensors, sizeof tensors) ||
        !take_bytes(r, &keys, sizeof keys))
        return damaged(r, "the file ends within its head");
    if (version != ZR_GGUF_VERSION && version != ZR_GGUF_VERSION - 1)
        return zr_fail(r->error, ZERO_ERR_UNSUPPORTED,
                       "\"%s\" has version %u of GGUF: 2 and 3 are read, little-endian",
                       r->out->path, version);
    ZERO_TRY(read_keys(r, keys));
    return read_tensors(r, tensors);
}

zero_status zr_gguf_open(const char *path, zr_gguf *out, zero_error *error)
{
    *out = (zr_gguf){.path = zr_strdup(path, error)};
    reading r = {.out = out, .error = error};
    zero_status status = out->path ? zr_file_map(path, &out->file, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = read_head(&r);
    if (status != ZERO_OK)
        zr_gguf_close(out);
    return status;
}

void zr_gguf_close(zr_gguf *gguf)
{
    zr_file_unmap(&gguf->file);
    zr_free(gguf->path);
    zr_free(gguf->keys);
    zr_free(gguf->tensors);
    *gguf = (zr_gguf){0};
}

bool zr_gguf_is(const char *path)
{
    char head[8];
    return zr_file_head(path, head, sizeof head) >= 4 && !memcmp(head, "GGUF", 4);
}

const zr_gguf_key *zr_gguf_find_key(const zr_gguf *gguf, const char *name)
{
    const zr_gguf_key key = {.name = {name, strlen(name)}};
    return gguf->key_count ? bsearch(&key, gguf->keys, (size_t)gguf->key_count, sizeof key, by_key)
                           : NULL;
}

const zr_gguf_item *zr_gguf_find_tensor(const zr_gguf *gguf, const char *name)
{
    const zr_gguf_item tensor = {.name = {name, strlen(name)}};
    return gguf->tensor_count ? bsearch(&tensor, gguf->tensors, (size_t)gguf->tensor_count,
                                        sizeof tensor, by_tensor)
                              : NULL;
}
