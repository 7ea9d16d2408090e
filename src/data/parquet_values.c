// The values of a page, by its encoding.
#include "data/parquet_internal.h"

#include <string.h>

static bool take_bytes(zr_parquet_values *v, void *out, size_t bytes)
{
    if ((size_t)(v->end - v->at) < bytes)
        return false;
    memcpy(out, v->at, bytes); // little-endian, as this machine is
    v->at += bytes;
    return true;
}

static bool take_text(zr_parquet_values *v, size_t length, zr_thrift_text *out)
{
    if ((size_t)(v->end - v->at) < length)
        return false;
    *out = (zr_thrift_text){.data = (const char *)v->at, .length = length};
    v->at += length;
    return true;
}

// ---- PLAIN --------------------------------------------------------------------------------------

static bool next_plain_flag(zr_parquet_values *v, zr_parquet_value *out)
{
    if (v->at == v->end)
        return false;
    out->integer = *v->at >> v->bit & 1;
    v->bit = (v->bit + 1) % 8;
    v->at += !v->bit;
    return true;
}

static bool next_plain(zr_parquet_values *v, zr_parquet_value *out)
{
    int32_t narrow = 0;
    uint32_t length = 0;
    int64_t wide = 0;
    float single = 0;
    bool taken;
    switch (v->type) {
    case ZR_PARQUET_BOOLEAN: return next_plain_flag(v, out);
    case ZR_PARQUET_INT32:
        taken = take_bytes(v, &narrow, sizeof narrow);
        out->integer = narrow;
        return taken;
    case ZR_PARQUET_INT64:
        taken = take_bytes(v, &wide, sizeof wide);
        out->integer = wide;
        return taken;
    case ZR_PARQUET_FLOAT:
        taken = take_bytes(v, &single, sizeof single);
        out->real = single;
        return taken;
    case ZR_PARQUET_DOUBLE: return take_bytes(v, &out->real, sizeof out->real);
    case ZR_PARQUET_BINARY:
        return take_bytes(v, &length, sizeof length) && take_text(v, length, &out->text);
    default: return false;
    }
}

// ---- other encodings ----------------------------------------------------------------------------

// Booleans in runs have their length before them.
static bool begin_flags_in_runs(zr_parquet_values *v)
{
    uint32_t length;
    if (v->type != ZR_PARQUET_BOOLEAN || !take_bytes(v, &length, sizeof length) ||
        length > (size_t)(v->end - v->at))
        return false;
    v->runs = zr_runs_of(v->at, length, 1);
    return true;
}

static bool begin_indices(zr_parquet_values *v)
{
    uint8_t width = 0;
    if (v->at == v->end) // a page of nulls alone may have no width
        width = 0;
    else if (!take_bytes(v, &width, 1) || width > 32)
        return false;
    v->runs = zr_runs_of(v->at, (size_t)(v->end - v->at), width);
    return true;
}

// Begins with deltas; what comes after them is at v->at.
static bool begin_deltas(zr_parquet_values *v, zr_deltas *deltas)
{
    *deltas = zr_deltas_of(v->at, (size_t)(v->end - v->at));
    v->at = zr_deltas_end(*deltas);
    return v->at != NULL;
}

bool zr_parquet_values_begin(zr_parquet_values *v, int encoding, const uint8_t *at,
                             const uint8_t *end)
{
    bool integers = v->type == ZR_PARQUET_INT32 || v->type == ZR_PARQUET_INT64;
    v->encoding = encoding;
    v->at = at;
    v->end = end;
    v->bit = 0;
    v->text.length = 0;
    switch (encoding) {
    case ZR_PARQUET_PLAIN_ENCODING: return true;
    case ZR_PARQUET_PLAIN_DICTIONARY:
    case ZR_PARQUET_RLE_DICTIONARY: return begin_indices(v);
    case ZR_PARQUET_RLE: return begin_flags_in_runs(v);
    case ZR_PARQUET_DELTA_BINARY_PACKED: return integers && begin_deltas(v, &v->deltas);
    case ZR_PARQUET_DELTA_LENGTH_BYTE_ARRAY:
        return v->type == ZR_PARQUET_BINARY && begin_deltas(v, &v->deltas);
    case ZR_PARQUET_DELTA_BYTE_ARRAY:
        return v->type == ZR_PARQUET_BINARY && begin_deltas(v, &v->prefixes) &&
               begin_deltas(v, &v->deltas);
    default: return false;
    }
}

static bool next_text_by_length(zr_parquet_values *v, zr_thrift_text *out)
{
    int64_t length;
    return zr_deltas_next(&v->deltas, &length) && length >= 0 && take_text(v, (size_t)length, out);
}

// A text that begins as the one before it.
static bool next_text_by_prefix(zr_parquet_values *v, zr_thrift_text *out)
{
    int64_t prefix;
    zr_thrift_text rest;
    if (!zr_deltas_next(&v->prefixes, &prefix) || prefix < 0 || (size_t)prefix > v->text.length ||
        !next_text_by_length(v, &rest) || (size_t)prefix + rest.length > ZR_PARQUET_TEXT)
        return false;
    v->text.length = (size_t)prefix;
    zr_buffer_append(&v->text, rest.data, rest.length);
    *out = (zr_thrift_text){v->text.data ? v->text.data : "", v->text.length};
    return true;
}

bool zr_parquet_values_next(zr_parquet_values *v, zr_parquet_value *out)
{
    uint32_t index;
    int64_t integer;
    *out = (zr_parquet_value){.text = {"", 0}};
    switch (v->encoding) {
    case ZR_PARQUET_PLAIN_ENCODING: return next_plain(v, out);
    case ZR_PARQUET_DELTA_BINARY_PACKED:
        if (!zr_deltas_next(&v->deltas, &integer))
            return false;
        out->integer = v->type == ZR_PARQUET_INT32 ? (int32_t)integer : integer;
        return true;
    case ZR_PARQUET_DELTA_LENGTH_BYTE_ARRAY: return next_text_by_length(v, &out->text);
    case ZR_PARQUET_DELTA_BYTE_ARRAY: return next_text_by_prefix(v, &out->text);
    default: // a boolean, or an index
        if (!zr_runs_next(&v->runs, &index))
            return false;
        out->integer = index;
        return true;
    }
}

void zr_parquet_values_free(zr_parquet_values *v)
{
    zr_buffer_free(&v->text);
    *v = (zr_parquet_values){0};
}
