// Snappy's raw format (google/snappy, format_description.txt).
//
//   varint: the unpacked length; then elements, by the lowest two bits of a byte
//   00 literal    the upper 6 bits are its length - 1; 60 to 63: in 1 to 4 bytes that follow
//   01 copy       4 to 11 bytes from up to 2047 bytes before
//   10, 11 copy   1 to 64 bytes from as far before as the 2 or 4 bytes that follow say
#include "data/parquet_codec.h"
#include "data/parquet_thrift.h"

#include <string.h>

typedef struct unpacking {
    zr_thrift in;
    uint8_t *out;
    size_t length, room;
} unpacking;

static bool has_input(const unpacking *u, size_t bytes)
{
    return (size_t)(u->in.end - u->in.at) >= bytes;
}

// Takes a number of 1 to 4 bytes, the lowest first.
static bool take_number(unpacking *u, int bytes, size_t *out)
{
    *out = 0;
    if (!has_input(u, (size_t)bytes))
        return false;
    for (int i = 0; i < bytes; i++)
        *out |= (size_t)*u->in.at++ << 8 * i;
    return true;
}

static bool copy_literal(unpacking *u, uint8_t tag)
{
    size_t length = tag >> 2;
    if (length >= 60 && !take_number(u, (int)length - 59, &length))
        return false;
    length++;
    if (!has_input(u, length) || length > u->room - u->length)
        return false;
    memcpy(u->out + u->length, u->in.at, length);
    u->in.at += length;
    u->length += length;
    return true;
}

// The bytes may overlap those that are written: then they repeat.
static bool copy_earlier(unpacking *u, uint8_t tag)
{
    size_t length = (size_t)(tag >> 2) + 1, back;
    if (!take_number(u, (tag & 3) == 1 ? 1 : (tag & 3) == 2 ? 2 : 4, &back))
        return false;
    if ((tag & 3) == 1) {
        length = (size_t)(tag >> 2 & 7) + 4;
        back |= (size_t)(tag >> 5) << 8;
    }
    if (!back || back > u->length || length > u->room - u->length)
        return false;
    for (size_t i = 0; i < length; i++, u->length++)
        u->out[u->length] = u->out[u->length - back];
    return true;
}

bool zr_snappy_unpack(const uint8_t *data, size_t length, uint8_t *out, size_t room)
{
    unpacking u = {.in = {.at = data, .end = data + length}, .out = out, .room = room};
    if (zr_thrift_varint(&u.in) != room || u.in.failed)
        return false;
    while (u.in.at < u.in.end) {
        uint8_t tag = *u.in.at++;
        if (!(tag & 3 ? copy_earlier(&u, tag) : copy_literal(&u, tag)))
            return false;
    }
    return u.length == room;
}
