// The values of a GGUF file's keys, by the key's name.
#include "formats/gguf.h"

#include <math.h>
#include <string.h>

static zero_status refuse_value(const zr_gguf *gguf, const char *name, const char *wanted,
                                zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "\"%s\": the value of \"%s\" is not %s", gguf->path, name,
                   wanted);
}

// Returns the value of an integer of any kind; -1 for one that is negative or far too large, and
// for what is no integer.
static int64_t integer_of(const zr_gguf *gguf, const zr_gguf_key *key)
{
    const char *at = gguf->file.data + key->at;
    static const unsigned char width[ZR_GGUF_KINDS] = {
        [ZR_GGUF_U8] = 1,  [ZR_GGUF_I8] = 1,  [ZR_GGUF_U16] = 2, [ZR_GGUF_I16] = 2,
        [ZR_GGUF_U32] = 4, [ZR_GGUF_I32] = 4, [ZR_GGUF_U64] = 8, [ZR_GGUF_I64] = 8};
    bool is_signed = key->kind == ZR_GGUF_I8 || key->kind == ZR_GGUF_I16 ||
                     key->kind == ZR_GGUF_I32 || key->kind == ZR_GGUF_I64;
    uint64_t value = 0;
    memcpy(&value, at, width[key->kind]);
    if (!width[key->kind] || (is_signed && value >> (8 * width[key->kind] - 1)) ||
        value > INT64_MAX)
        return -1;
    return (int64_t)value;
}

zero_status zr_gguf_get_integer(const zr_gguf *gguf, const char *name, int64_t most, int64_t *out,
                                zero_error *error)
{
    const zr_gguf_key *key = zr_gguf_find_key(gguf, name);
    int64_t value = key ? integer_of(gguf, key) : *out;
    if (key && (value < 0 || value > most))
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\": the value of \"%s\" is no whole number from 0 to %lld", gguf->path,
                       name, (long long)most);
    *out = value;
    return ZERO_OK;
}

zero_status zr_gguf_get_real(const zr_gguf *gguf, const char *name, double *out, zero_error *error)
{
    const zr_gguf_key *key = zr_gguf_find_key(gguf, name);
    float narrow;
    if (!key)
        return ZERO_OK;
    if (key->kind == ZR_GGUF_F32) {
        memcpy(&narrow, gguf->file.data + key->at, sizeof narrow);
        *out = (double)narrow;
    } else if (key->kind == ZR_GGUF_F64) {
        memcpy(out, gguf->file.data + key->at, sizeof *out);
    } else {
        return refuse_value(gguf, name, "a number with a fraction (f32, f64)", error);
    }
    return isfinite(*out) ? ZERO_OK : refuse_value(gguf, name, "finite", error);
}

zero_status zr_gguf_get_flag(const zr_gguf *gguf, const char *name, bool *out, zero_error *error)
{
    const zr_gguf_key *key = zr_gguf_find_key(gguf, name);
    if (key && key->kind != ZR_GGUF_FLAG)
        return refuse_value(gguf, name, "true or false", error);
    if (key)
        *out = gguf->file.data[key->at] != 0;
    return ZERO_OK;
}

zr_gguf_text zr_gguf_next_text(const zr_gguf *gguf, size_t *at)
{
    uint64_t length;
    memcpy(&length, gguf->file.data + *at, sizeof length);
    const zr_gguf_text text = {gguf->file.data + *at + sizeof length, (size_t)length};
    *at += sizeof length + text.length;
    return text;
}

zero_status zr_gguf_get_text(const zr_gguf *gguf, const char *name, zr_gguf_text *out,
                             zero_error *error)
{
    const zr_gguf_key *key = zr_gguf_find_key(gguf, name);
    if (key && key->kind != ZR_GGUF_TEXT)
        return refuse_value(gguf, name, "a text", error);
    if (key)
        *out = zr_gguf_next_text(gguf, &(size_t){key->at});
    return ZERO_OK;
}

zero_status zr_gguf_get_array(const zr_gguf *gguf, const char *name, zr_gguf_kind of,
                              const zr_gguf_key **out, zero_error *error)
{
    static const char *const wanted[ZR_GGUF_KINDS] = {[ZR_GGUF_TEXT] = "a list of texts",
                                                      [ZR_GGUF_FLAG] = "a list of true and false",
                                                      [ZR_GGUF_I32] = "a list of i32",
                                                      [ZR_GGUF_F32] = "a list of f32"};
    *out = zr_gguf_find_key(gguf, name);
    if (*out && ((*out)->kind != ZR_GGUF_ARRAY || (*out)->of != of))
        return refuse_value(gguf, name, wanted[of], error);
    return ZERO_OK;
}
