// Base64: three bytes are four characters of 6 bits; '=' fills the last four.
#include "base/base64.h"

#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void zr_base64_write(const void *bytes, size_t count, zr_buffer *out)
{
    const unsigned char *from = bytes;
    for (size_t at = 0; at < count; at += 3) {
        size_t left = ZR_MIN(count - at, (size_t)3);
        uint32_t bits = (uint32_t)from[at] << 16 | (left > 1 ? (uint32_t)from[at + 1] << 8 : 0) |
                        (left > 2 ? from[at + 2] : 0);
        char four[4];
        for (size_t i = 0; i < 4; i++)
            four[i] = i <= left ? alphabet[bits >> (18 - 6 * i) & 63] : '=';
        zr_buffer_append(out, four, 4);
    }
}

static void fill_values(signed char *values)
{
    memset(values, -1, 256);
    for (int i = 0; i < 64; i++)
        values[(unsigned char)alphabet[i]] = (signed char)i;
}

bool zr_base64_read(const char *text, size_t length, zr_buffer *out)
{
    signed char values[256];
    size_t filled = 0;
    fill_values(values);
    while (filled < 2 && filled < length && text[length - 1 - filled] == '=')
        filled++;
    if (length % 4)
        return false;
    for (size_t at = 0; at < length; at += 4) {
        size_t known = at + 4 == length ? 4 - filled : 4;
        uint32_t bits = 0;
        for (size_t i = 0; i < 4; i++) {
            int value = i < known ? values[(unsigned char)text[at + i]] : 0;
            if (value < 0)
                return false;
            bits = bits << 6 | (uint32_t)value;
        }
        const unsigned char three[] = {(unsigned char)(bits >> 16), (unsigned char)(bits >> 8),
                                       (unsigned char)bits};
        zr_buffer_append(out, three, known - 1);
    }
    return true;
}
