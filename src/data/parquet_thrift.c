#include "data/parquet_thrift.h"

enum { MOST_DEPTH = 32 }; // of values that are skipped

static bool fail(zr_thrift *t)
{
    t->failed = true;
    t->at = t->end;
    return false;
}

static uint8_t take_byte(zr_thrift *t)
{
    if (t->at < t->end)
        return *t->at++;
    fail(t);
    return 0;
}

uint64_t zr_thrift_varint(zr_thrift *t)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        uint8_t byte = take_byte(t);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return t->failed ? 0 : value;
    }
    fail(t);
    return 0;
}

int64_t zr_thrift_zigzag(zr_thrift *t)
{
    uint64_t value = zr_thrift_varint(t);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

bool zr_thrift_next(zr_thrift *t, zr_thrift_field *field)
{
    uint8_t head = take_byte(t);
    field->type = (zr_thrift_type)(head & 15);
    if (t->failed || field->type == ZR_THRIFT_END)
        return false;
    if (field->type > ZR_THRIFT_STRUCT)
        return fail(t);
    int64_t id = head >> 4 ? field->id + (head >> 4) : zr_thrift_zigzag(t);
    if (id < INT16_MIN || id > INT16_MAX)
        return fail(t);
    field->id = id;
    return !t->failed;
}

static void skip_bytes(zr_thrift *t, uint64_t count)
{
    if (count > (uint64_t)(t->end - t->at))
        fail(t);
    else
        t->at += count;
}

// Reads the header of a list: the type of its items, and their number.
static uint64_t take_list(zr_thrift *t, zr_thrift_type *type)
{
    uint8_t head = take_byte(t);
    uint64_t count = head >> 4 == 15 ? zr_thrift_varint(t) : head >> 4;
    *type = (zr_thrift_type)(head & 15);
    if (count > (uint64_t)(t->end - t->at) || !*type || *type > ZR_THRIFT_STRUCT)
        fail(t);
    return t->failed ? 0 : count;
}

static void skip_value(zr_thrift *t, zr_thrift_type type, bool item, int depth);

static void skip_items(zr_thrift *t, int depth)
{
    zr_thrift_type type;
    for (uint64_t left = take_list(t, &type); left && !t->failed; left--)
        skip_value(t, type, true, depth + 1);
}

static void skip_map(zr_thrift *t, int depth)
{
    uint64_t count = zr_thrift_varint(t);
    uint8_t types = count ? take_byte(t) : 0;
    for (; count && !t->failed; count--) {
        skip_value(t, (zr_thrift_type)(types >> 4), true, depth + 1);
        skip_value(t, (zr_thrift_type)(types & 15), true, depth + 1);
    }
}

// A flag that is an item has a byte; the type of a field says its value already.
static void skip_value(zr_thrift *t, zr_thrift_type type, bool item, int depth)
{
    zr_thrift_field inner = {0};
    if (depth > MOST_DEPTH) {
        fail(t);
        return;
    }
    switch (type) {
    case ZR_THRIFT_TRUE:
    case ZR_THRIFT_FALSE: skip_bytes(t, item); break;
    case ZR_THRIFT_BYTE: skip_bytes(t, 1); break;
    case ZR_THRIFT_I16:
    case ZR_THRIFT_I32:
    case ZR_THRIFT_I64: zr_thrift_varint(t); break;
    case ZR_THRIFT_DOUBLE: skip_bytes(t, 8); break;
    case ZR_THRIFT_BINARY: skip_bytes(t, zr_thrift_varint(t)); break;
    case ZR_THRIFT_LIST:
    case ZR_THRIFT_SET: skip_items(t, depth); break;
    case ZR_THRIFT_MAP: skip_map(t, depth); break;
    case ZR_THRIFT_STRUCT:
        while (zr_thrift_next(t, &inner))
            skip_value(t, inner.type, false, depth + 1);
        break;
    default: fail(t);
    }
}

void zr_thrift_skip(zr_thrift *t, const zr_thrift_field *field)
{
    skip_value(t, field->type, false, 0);
}

int64_t zr_thrift_integer(zr_thrift *t, const zr_thrift_field *field)
{
    if (field->type == ZR_THRIFT_BYTE)
        return (int8_t)take_byte(t);
    if (field->type < ZR_THRIFT_I16 || field->type > ZR_THRIFT_I64) {
        fail(t);
        return 0;
    }
    return zr_thrift_zigzag(t);
}

bool zr_thrift_flag(zr_thrift *t, const zr_thrift_field *field)
{
    return field->type == ZR_THRIFT_TRUE || (field->type != ZR_THRIFT_FALSE && fail(t));
}

zr_thrift_text zr_thrift_binary(zr_thrift *t, const zr_thrift_field *field)
{
    uint64_t length = field->type == ZR_THRIFT_BINARY ? zr_thrift_varint(t) : UINT64_MAX;
    const char *data = (const char *)t->at;
    skip_bytes(t, length);
    return t->failed ? (zr_thrift_text){"", 0} : (zr_thrift_text){data, (size_t)length};
}

int64_t zr_thrift_list(zr_thrift *t, const zr_thrift_field *field, zr_thrift_type type)
{
    zr_thrift_type found = type;
    uint64_t count = field->type == ZR_THRIFT_LIST ? take_list(t, &found) : 0;
    if (field->type != ZR_THRIFT_LIST || (count && found != type))
        fail(t);
    return t->failed ? 0 : (int64_t)count;
}

bool zr_thrift_struct(zr_thrift *t, const zr_thrift_field *field)
{
    return field->type == ZR_THRIFT_STRUCT || fail(t);
}
