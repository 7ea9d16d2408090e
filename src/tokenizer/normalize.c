// Normalizers: steps over a text, each from one scratch buffer to the other.
//
// Invalid UTF-8 goes through unchanged: NFC works on the valid stretches in between, so that
// byte-level tokens can still spell the invalid bytes.

#include "tokenizer/spm_normalize.h"

#include <string.h>
#include <utf8proc.h>

zero_status zr_normal_check_growth(const zr_encoder *encoder, const zr_normal_text *now,
                                   size_t length, size_t more)
{
    if (length <= now->most && more <= now->most - length)
        return ZERO_OK;
    return zr_fail(encoder->error, ZERO_ERR_DATA,
                   "%s: the tokenizer's normalizer makes more than %d times as many bytes of it",
                   encoder->name, ZR_MOST_GROWTH);
}

static void set_normal_text(zr_normal_text *now, const char *text, size_t length,
                            zr_bpe_scratch *room)
{
    now->text = text;
    now->length = length;
    now->room = room;
}

static zr_bpe_scratch *other_scratch(zr_encoder *encoder, const zr_normal_text *now)
{
    return now->room == &encoder->normal ? &encoder->other : &encoder->normal;
}

static zero_status prepend_text(zr_encoder *encoder, const char *what, zr_normal_text *now)
{
    size_t width = strlen(what);
    zr_bpe_scratch *room = other_scratch(encoder, now);
    ZERO_TRY(zr_normal_check_growth(encoder, now, now->length, width));
    char *to = zr_scratch_reserve(room, now->length + width, encoder->error);
    if (!to)
        return ZERO_ERR_MEMORY;
    memcpy(to, what, width);
    memcpy(to + width, now->text, now->length);
    set_normal_text(now, to, now->length + width, room);
    return ZERO_OK;
}

static size_t count_occurrences(const char *text, size_t length, const char *what, size_t width)
{
    size_t count = 0;
    for (const char *at = text; (at = zr_find_text(at, length - (size_t)(at - text), what, width));
         at += width)
        count++;
    return count;
}

static zero_status replace_occurrences(zr_encoder *encoder, const zr_normal_step *step,
                                       zr_normal_text *now)
{
    size_t from = strlen(step->from), to = strlen(step->to),
           count = count_occurrences(now->text, now->length, step->from, from);
    if (!count)
        return ZERO_OK;
    zr_bpe_scratch *room = other_scratch(encoder, now);
    size_t rest = now->length - count * from;
    ZERO_TRY(
        zr_normal_check_growth(encoder, now, rest, to > SIZE_MAX / count ? SIZE_MAX : count * to));
    char *out = zr_scratch_reserve(room, rest + count * to, encoder->error);
    if (!out)
        return ZERO_ERR_MEMORY;
    const char *at = now->text, *end = now->text + now->length;
    size_t length = 0;
    for (const char *found; (found = zr_find_text(at, (size_t)(end - at), step->from, from));
         at = found + from) {
        memcpy(out + length, at, (size_t)(found - at));
        length += (size_t)(found - at);
        memcpy(out + length, step->to, to);
        length += to;
    }
    memcpy(out + length, at, (size_t)(end - at));
    set_normal_text(now, out, length + (size_t)(end - at), room);
    return ZERO_OK;
}

// Returns whether a mark got its order, or a composition, after version 9 of Unicode. The library
// normalises by version 9, so it does not move such marks. (Its pre-tokenizers use a later version:
// pretokenize.h.)
static bool is_newer_mark(int32_t c)
{
    static const zr_code_range younger[] = {
        {0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},
        {0xc3c, 0xc3c},     {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},
        {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0x105d2, 0x105d2},
        {0x105da, 0x105da}, {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac},
        {0x10efc, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070},
        {0x1133b, 0x1133b}, {0x113b8, 0x113e2}, {0x1145e, 0x1145e}, {0x11839, 0x1183a},
        {0x11930, 0x11930}, {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0},
        {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42},
        {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x1611e, 0x1612f},
        {0x16d63, 0x16d6a}, {0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136},
        {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef},
    };
    for (int i = 0; c >= younger[0].first && i < ZR_COUNT(younger) && c >= younger[i].first; i++)
        if (c <= younger[i].last)
            return true;
    return false;
}

// Returns the end of the stretch from `at` on that is normalised as one. *fixed means that it stays
// as it is: ASCII, an invalid byte, a younger mark.
static size_t end_of_nfc_stretch(const char *text, size_t at, size_t length, bool *fixed)
{
    size_t first = at;
    while (at < length && !((unsigned char)text[at] & 0x80))
        at++;
    *fixed = true;
    if (at == length)
        return at;
    if (at > first + 1) // the last character may combine with the mark that follows
        return at - 1;
    at = first;
    int run = 0, bytes = 0; // length of the run of ASCII; at two, the first one ends the stretch
    for (int32_t c; at < length && run < 2 && (bytes = zr_utf8_next(text + at, length - at, &c)) &&
                    !is_newer_mark(c);
         at += (size_t)bytes)
        run = bytes == 1 ? run + 1 : 0;
    *fixed = at == first;
    return at > first ? at - (run == 2) : at + (size_t)ZR_MAX(bytes, 1);
}

static zero_status append_nfc(const char *text, size_t length, zr_buffer *out, zero_error *error)
{
    const utf8proc_option_t how = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    // No character decomposes into more code points than this, counted by its bytes.
    utf8proc_ssize_t room = (utf8proc_ssize_t)(3 * length + 1);
    int32_t *points = zr_alloc((size_t)room * sizeof *points, error);
    if (!points)
        return ZERO_ERR_MEMORY;
    utf8proc_ssize_t count = utf8proc_decompose((const utf8proc_uint8_t *)text,
                                                (utf8proc_ssize_t)length, points, room, how);
    assert(count <= room);
    if (count >= 0)
        count = utf8proc_normalize_utf32(points, count, how);
    for (utf8proc_ssize_t i = 0; i < count; i++) {
        utf8proc_uint8_t bytes[4];
        zr_buffer_append(out, bytes, (size_t)utf8proc_encode_char(points[i], bytes));
    }
    zr_free(points);
    return count < 0 ? zr_fail(error, ZERO_ERR_INTERNAL, "NFC of %zu bytes: %s", length,
                               utf8proc_errmsg(count))
                     : ZERO_OK;
}

static zero_status make_nfc(const char *text, size_t length, zr_buffer *out, zero_error *error)
{
    for (size_t at = 0, end; at < length; at = end) {
        bool fixed;
        end = end_of_nfc_stretch(text, at, length, &fixed);
        if (fixed)
            zr_buffer_append(out, text + at, end - at);
        else
            ZERO_TRY(append_nfc(text + at, end - at, out, error));
    }
    return ZERO_OK;
}

static bool is_ascii(const char *text, size_t length)
{
    unsigned char all = 0;
    for (size_t i = 0; i < length; i++)
        all |= (unsigned char)text[i];
    return all < 0x80;
}

zero_status zr_normal_take(zr_encoder *encoder, zr_buffer *made, zr_normal_text *now)
{
    zero_status status = made->failed
                             ? zr_fail(encoder->error, ZERO_ERR_MEMORY,
                                       "no memory for %zu bytes of normalised text", now->length)
                             : zr_normal_check_growth(encoder, now, made->length, 0);
    zr_bpe_scratch *room = other_scratch(encoder, now);
    char *to =
        status == ZERO_OK ? zr_scratch_reserve(room, made->length + 1, encoder->error) : NULL;
    if (to) {
        if (made->length)
            memcpy(to, made->data, made->length);
        set_normal_text(now, to, made->length, room);
    } else if (status == ZERO_OK) {
        status = ZERO_ERR_MEMORY;
    }
    zr_buffer_free(made);
    return status;
}

static zero_status normalize_nfc(zr_encoder *encoder, zr_normal_text *now)
{
    if (is_ascii(now->text, now->length))
        return ZERO_OK;
    zr_buffer made = {0};
    zero_status status = make_nfc(now->text, now->length, &made, encoder->error);
    if (status == ZERO_OK)
        return zr_normal_take(encoder, &made, now);
    zr_buffer_free(&made);
    return status;
}

static zero_status normalize_step(zr_encoder *encoder, const zr_normal_step *step, bool begins,
                                  zr_normal_text *now)
{
    switch (step->kind) {
    case ZR_NORMAL_NFC: return normalize_nfc(encoder, now);
    case ZR_NORMAL_REPLACE: return replace_occurrences(encoder, step, now);
    case ZR_NORMAL_CHARSMAP: return zr_normal_charsmap(encoder, now);
    case ZR_NORMAL_RUNS: return zr_normal_runs(encoder, step, begins, now);
    case ZR_NORMAL_STRIP: zr_normal_strip(encoder, step, begins, now); return ZERO_OK;
    case ZR_NORMAL_PREPEND: break;
    }
    return begins && now->length ? prepend_text(encoder, step->to, now) : ZERO_OK;
}

zero_status zr_normalize(zr_encoder *encoder, bool begins, const char *text, size_t length,
                         const char **out, size_t *out_length)
{
    const zr_bpe *bpe = encoder->tokenizer->bpe;
    if (bpe->rules)
        return zr_spm_normalize(encoder, begins, text, length, out, out_length);
    zr_normal_text now = {
        .text = text,
        .length = length,
        .most = length < SIZE_MAX / ZR_MOST_GROWTH - 1 ? ZR_MOST_GROWTH * (length + 1) : SIZE_MAX};
    for (int i = 0; i < bpe->normal_count; i++)
        ZERO_TRY(normalize_step(encoder, &bpe->normal[i], begins, &now));
    *out = now.text;
    *out_length = now.length;
    return ZERO_OK;
}
