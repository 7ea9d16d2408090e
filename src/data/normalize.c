// Normalizers: steps over a text, each from one room into the other.
//
// Invalid UTF-8 goes through unchanged: NFC works on the valid stretches between, so that byte-level tokens can still spell it.
#define _GNU_SOURCE
#include "data/bpe.h"

#include <string.h>
#include <utf8proc.h>

typedef struct normal_text { // what the steps have made so far
    const char *text;
    size_t length;
    zr_scratch *room; // where `text` lies; NULL: it is the caller's
} normal_text;

static zr_scratch *other_room(zr_encoder *encoder, const normal_text *now)
{
    return now->room == &encoder->normal ? &encoder->other : &encoder->normal;
}

static zero_status prepend(zr_encoder *encoder, const char *what, normal_text *now)
{
    size_t width = strlen(what);
    zr_scratch *room = other_room(encoder, now);
    char *to = zr_scratch_get(room, now->length + width, encoder->error);
    if (!to)
        return ZERO_ERR_MEMORY;
    memcpy(to, what, width);
    memcpy(to + width, now->text, now->length);
    *now = (normal_text){.text = to, .length = now->length + width, .room = room};
    return ZERO_OK;
}

static size_t count_of(const char *text, size_t length, const char *what, size_t width)
{
    size_t count = 0;
    for (const char *at = text; (at = memmem(at, length - (size_t)(at - text), what, width)); at += width)
        count++;
    return count;
}

static zero_status replace(zr_encoder *encoder, const zr_normal_step *step, normal_text *now)
{
    size_t from = strlen(step->from), to = strlen(step->to), count = count_of(now->text, now->length, step->from, from);
    if (!count)
        return ZERO_OK;
    zr_scratch *room = other_room(encoder, now);
    char *out = zr_scratch_get(room, now->length + count * to, encoder->error);
    if (!out)
        return ZERO_ERR_MEMORY;
    const char *at = now->text, *end = now->text + now->length;
    size_t length = 0;
    for (const char *found; (found = memmem(at, (size_t)(end - at), step->from, from)); at = found + from) {
        memcpy(out + length, at, (size_t)(found - at));
        length += (size_t)(found - at);
        memcpy(out + length, step->to, to);
        length += to;
    }
    memcpy(out + length, at, (size_t)(end - at));
    *now = (normal_text){.text = out, .length = length + (size_t)(end - at), .room = room};
    return ZERO_OK;
}

// The end of the stretch from `at` on whose bytes are all ASCII, or all of valid characters with one that is not.
static size_t stretch(const char *text, size_t at, size_t length, bool *plain, bool *valid)
{
    size_t first = at;
    while (at < length && !((unsigned char)text[at] & 0x80))
        at++;
    *plain = *valid = true;
    if (at == length)
        return at;
    if (at > first + 1) // the last one may take the mark that follows
        return at - 1;
    *plain = false;
    at = first;
    int run = 0; // of ASCII: two at the end of a stretch never change
    int32_t code_point;
    for (int bytes; at < length && run < 2 && (bytes = zr_utf8_next(text + at, length - at, &code_point)); at += (size_t)bytes)
        run = bytes == 1 ? run + 1 : 0;
    if (at > first)
        return run == 2 ? at - 1 : at;
    *valid = false;
    return at + 1;
}

static zero_status append_nfc(const char *text, size_t length, zr_buffer *out, zero_error *error)
{
    const utf8proc_option_t how = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    utf8proc_ssize_t room = (utf8proc_ssize_t)(3 * length + 1); // no character decomposes into more, counted by its bytes
    int32_t *points = zr_alloc((size_t)room * sizeof *points, error);
    if (!points)
        return ZERO_ERR_MEMORY;
    utf8proc_ssize_t count = utf8proc_decompose((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)length, points, room, how);
    assert(count <= room);
    if (count >= 0)
        count = utf8proc_normalize_utf32(points, count, how);
    for (utf8proc_ssize_t i = 0; i < count; i++) {
        utf8proc_uint8_t bytes[4];
        zr_buffer_append(out, bytes, (size_t)utf8proc_encode_char(points[i], bytes));
    }
    zr_free(points);
    return count < 0 ? zr_fail(error, ZERO_ERR_INTERNAL, "NFC of %zu bytes: %s", length, utf8proc_errmsg(count)) : ZERO_OK;
}

static zero_status make_nfc(const char *text, size_t length, zr_buffer *out, zero_error *error)
{
    for (size_t at = 0, end; at < length; at = end) {
        bool plain, valid;
        end = stretch(text, at, length, &plain, &valid);
        if (plain || !valid)
            zr_buffer_append(out, text + at, end - at);
        else
            ZERO_TRY(append_nfc(text + at, end - at, out, error));
    }
    return out->failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for %zu bytes of normalised text", length) : ZERO_OK;
}

static bool is_ascii(const char *text, size_t length)
{
    unsigned char all = 0;
    for (size_t i = 0; i < length; i++)
        all |= (unsigned char)text[i];
    return all < 0x80;
}

static zero_status nfc(zr_encoder *encoder, normal_text *now)
{
    if (is_ascii(now->text, now->length))
        return ZERO_OK;
    zr_buffer made = {0};
    zero_status status = make_nfc(now->text, now->length, &made, encoder->error);
    zr_scratch *room = other_room(encoder, now);
    char *to = status == ZERO_OK ? zr_scratch_get(room, made.length, encoder->error) : NULL;
    if (to) {
        memcpy(to, made.data, made.length);
        *now = (normal_text){.text = to, .length = made.length, .room = room};
    } else if (status == ZERO_OK) {
        status = ZERO_ERR_MEMORY;
    }
    zr_buffer_free(&made);
    return status;
}

zero_status zr_normalize(zr_encoder *encoder, bool begins, const char *text, size_t length, const char **out, size_t *out_length)
{
    const zr_bpe *bpe = encoder->tokenizer->bpe;
    normal_text now = {.text = text, .length = length};
    for (int i = 0; i < bpe->normal_count; i++) {
        const zr_normal_step *step = &bpe->normal[i];
        bool empty = now.length == 0;
        if (step->kind == ZR_NORMAL_NFC)
            ZERO_TRY(nfc(encoder, &now));
        else if (step->kind == ZR_NORMAL_REPLACE)
            ZERO_TRY(replace(encoder, step, &now));
        else if (begins && !empty)
            ZERO_TRY(prepend(encoder, step->to, &now));
    }
    *out = now.text;
    *out_length = now.length;
    return ZERO_OK;
}
