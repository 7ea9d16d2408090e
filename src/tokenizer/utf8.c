// UTF-8 as this room needs it: strictly valid characters, positions where text may be cut, and text
// from bytes that come one by one.
#include "tokenizer/vocabulary.h"

#include <string.h>
#include <utf8proc.h>

int zr_utf8_next(const char *text, size_t left, int32_t *code_point)
{
    unsigned char first = (unsigned char)*text;
    if (first < 0x80) {
        *code_point = first;
        return 1;
    }
    utf8proc_ssize_t bytes = utf8proc_iterate(
        (const utf8proc_uint8_t *)text, (utf8proc_ssize_t)ZR_MIN(left, (size_t)4), code_point);
    return bytes > 0 ? (int)bytes : 0;
}

static bool is_continuation(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

size_t zr_character_cut(const char *text, size_t limit, size_t length)
{
    size_t end = limit;
    if (limit >= length)
        return length;
    while (end > 0 && limit - end < 3 && is_continuation(text[end]))
        end--;
    return is_continuation(text[end]) ? limit : end;
}

// Returns the bytes of the longest beginning of an incomplete character at text[0..left); *open:
// more bytes could complete it.
static size_t incomplete_beginning(const char *text, size_t left, bool *open)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char lead = bytes[0];
    *open = false;
    if (lead < 0xc2 || lead > 0xf4)
        return 1;
    unsigned char least = lead == 0xe0   ? 0xa0
                          : lead == 0xf0 ? 0x90
                                         : 0x80,
                  most = lead == 0xed   ? 0x9f
                         : lead == 0xf4 ? 0x8f
                                        : 0xbf;
    size_t whole = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2, have = 1;
    for (; have < whole && have < left && bytes[have] >= least && bytes[have] <= most; have++) {
        least = 0x80;
        most = 0xbf;
    }
    *open = have == left;
    return have;
}

void zr_utf8_flush(zr_buffer *pending, bool last, zr_buffer *out)
{
    size_t at = 0;
    while (at < pending->length) {
        int32_t code_point;
        bool open;
        size_t bytes = (size_t)zr_utf8_next(pending->data + at, pending->length - at, &code_point);
        if (bytes) {
            zr_buffer_append(out, pending->data + at, bytes);
        } else {
            bytes = incomplete_beginning(pending->data + at, pending->length - at, &open);
            if (open && !last)
                break;
            zr_buffer_append(out, "\xef\xbf\xbd", 3);
        }
        at += bytes;
    }
    if (at)
        memmove(pending->data, pending->data + at, pending->length - at);
    pending->length -= at;
}
