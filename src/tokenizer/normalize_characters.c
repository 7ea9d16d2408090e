// The normalizer Precompiled, as the library `tokenizers` has it: a charsmap is asked for a
// grapheme of less than 6 bytes as a whole, and then for each of its characters, and of the keys
// with which that begins the shortest one counts, in place of the whole.
#include "tokenizer/bpe_encode.h"

#include <string.h>
#include <utf8proc.h>

enum { SHORT_GRAPHEME = 6 }; // bytes; a longer one is no key

static bool append_replaced(const zr_charsmap *map, const char *text, size_t length, zr_buffer *out)
{
    size_t unused;
    const char *made = zr_charsmap_find(map, false, text, length, &unused);
    if (made)
        zr_buffer_append(out, made, strlen(made));
    return made;
}

static void append_grapheme(const zr_charsmap *map, const char *text, size_t length, zr_buffer *out)
{
    if (length < SHORT_GRAPHEME && append_replaced(map, text, length, out))
        return;
    for (size_t at = 0, bytes; at < length; at += bytes) {
        int32_t unused;
        bytes = (size_t)ZR_MAX(zr_utf8_next(text + at, length - at, &unused), 1);
        if (!append_replaced(map, text + at, bytes, out))
            zr_buffer_append(out, text + at, bytes);
    }
}

// Returns the bytes of the grapheme at text[0]. A byte that is no UTF-8 is one.
static size_t grapheme_bytes(const char *text, size_t length)
{
    utf8proc_int32_t state = 0;
    int32_t last, next;
    int bytes = zr_utf8_next(text, length, &last);
    size_t at = (size_t)ZR_MAX(bytes, 1);
    while (bytes && at < length && (bytes = zr_utf8_next(text + at, length - at, &next)) &&
           !utf8proc_grapheme_break_stateful(last, next, &state)) {
        at += (size_t)bytes;
        last = next;
    }
    return at;
}

// Returns how many bytes from text[0] on are graphemes of one byte that stay as they are.
static size_t plain_bytes(const zr_charsmap *map, const char *text, size_t length)
{
    size_t at = 0;
    while (at + 1 < length && !(text[at] & 0x80) && !(text[at + 1] & 0x80) && text[at] != '\r' &&
           map->plain[(unsigned char)text[at]])
        at++;
    return at;
}

zero_status zr_normal_charsmap(zr_encoder *encoder, zr_normal_text *now)
{
    const zr_charsmap *map = &encoder->tokenizer->bpe->charsmap;
    zr_buffer made = {0};
    for (size_t at = 0, bytes; at < now->length; at += bytes) {
        bytes = plain_bytes(map, now->text + at, now->length - at);
        if (bytes) {
            zr_buffer_append(&made, now->text + at, bytes);
            continue;
        }
        bytes = grapheme_bytes(now->text + at, now->length - at);
        append_grapheme(map, now->text + at, bytes, &made);
        if (made.length > now->most)
            break;
    }
    return zr_normal_take(encoder, &made, now);
}
