// Bytes and chars: text to ids and back. plain_json.c writes and reads them.
//
// The invariant that training needs: decode(encode(text)) == text, byte for byte, or encode fails
// with the position.
#include "base/random.h"
#include "tokenizer/bpe_encode.h"

#include <utf8proc.h>

static zero_status fail_invalid(const char *text, size_t at, const char *name, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA,
                   "%s: byte %zu (0x%02x) is not valid UTF-8: the tokenizer \"chars\" needs text, "
                   "the tokenizer "
                   "\"bytes\" takes anything",
                   name, at, (unsigned char)text[at]);
}

zero_status zr_tokenizer_from_bytes(zr_tokenizer **out, zero_error *error)
{
    zr_tokenizer *tokenizer = zr_alloc(sizeof *tokenizer, error);
    if (!tokenizer)
        return ZERO_ERR_MEMORY;
    tokenizer->ops = &zr_bytes_ops;
    tokenizer->begin = tokenizer->end = -1;
    tokenizer->fingerprint = zr_hash_text("bytes");
    tokenizer->vocabulary = 256;
    *out = tokenizer;
    return ZERO_OK;
}

zero_status zr_tokenizer_from_code_points(const int32_t *code_points, int32_t count,
                                          zr_tokenizer **out, zero_error *error)
{
    zr_tokenizer *tokenizer = zr_alloc(sizeof *tokenizer, error);
    if (!tokenizer)
        return ZERO_ERR_MEMORY;
    tokenizer->ops = &zr_chars_ops;
    tokenizer->begin = tokenizer->end = -1;
    tokenizer->fingerprint =
        zr_hash_bytes(code_points, (size_t)count * sizeof *code_points, zr_hash_text("chars"));
    tokenizer->vocabulary = count;
    for (int32_t i = 0; i < count; i++)
        tokenizer->id_count = ZR_MAX(tokenizer->id_count, code_points[i] + 1);
    tokenizer->code_points = zr_alloc((size_t)count * sizeof(int32_t), error);
    if (!tokenizer->code_points)
        goto undo_tokenizer;
    tokenizer->ids = zr_alloc((size_t)tokenizer->id_count * sizeof(int32_t), error);
    if (!tokenizer->ids)
        goto undo_tokenizer;
    for (int32_t i = 0; i < count; i++) {
        tokenizer->code_points[i] = code_points[i];
        tokenizer->ids[code_points[i]] = i + 1;
    }
    *out = tokenizer;
    return ZERO_OK;

undo_tokenizer:
    zr_tokenizer_destroy(tokenizer);
    return ZERO_ERR_MEMORY;
}

// Marks seen[c] for every code point c of the text.
static zero_status scan_characters(const char *text, size_t length, const char *name,
                                   unsigned char *seen, zero_error *error)
{
    for (size_t at = 0; at < length;) {
        int32_t code_point;
        int bytes = zr_utf8_next(text + at, length - at, &code_point);
        if (!bytes)
            return fail_invalid(text, at, name, error);
        if (!code_point)
            return zr_fail(
                error, ZERO_ERR_DATA,
                "%s: byte %zu is 0, which is no text: the tokenizer \"bytes\" takes anything", name,
                at);
        seen[code_point] = 1;
        at += (size_t)bytes;
    }
    return ZERO_OK;
}

static zero_status create_from_seen(const unsigned char *seen, const char *name, zr_tokenizer **out,
                                    zero_error *error)
{
    int32_t count = 0;
    for (int32_t c = 0; c < ZR_CODE_POINTS; c++)
        count += seen[c];
    if (!count)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: no text to take the characters of the tokenizer \"chars\" from", name);
    int32_t *code_points = zr_alloc((size_t)count * sizeof(int32_t), error);
    if (!code_points)
        return ZERO_ERR_MEMORY;
    int32_t found = 0;
    for (int32_t c = 0; c < ZR_CODE_POINTS; c++) {
        if (seen[c])
            code_points[found++] = c;
    }
    zero_status status = zr_tokenizer_from_code_points(code_points, count, out, error);
    zr_free(code_points);
    return status;
}

zero_status zr_tokenizer_create(zr_tokenizer_kind kind, const char *text, size_t length,
                                const char *name, zr_tokenizer **out, zero_error *error)
{
    if (kind == ZR_TOKENIZER_BYTES)
        return zr_tokenizer_from_bytes(out, error);
    unsigned char *seen = zr_alloc(ZR_CODE_POINTS, error);
    if (!seen)
        return ZERO_ERR_MEMORY;
    zero_status status = scan_characters(text, length, name, seen, error);
    if (status == ZERO_OK)
        status = create_from_seen(seen, name, out, error);
    zr_free(seen);
    return status;
}

static zero_status fail_memory(const zr_encoder *encoder, size_t bytes)
{
    return zr_fail(encoder->error, ZERO_ERR_MEMORY, "%s: no memory for the tokens of %zu bytes",
                   encoder->name, bytes);
}

static zero_status encode_chars(zr_encoder *encoder, const char *text, size_t first, size_t end)
{
    const zr_tokenizer *tokenizer = encoder->tokenizer;
    if (!zr_ids_reserve(encoder->out, (int64_t)(end - first)))
        return fail_memory(encoder, end - first);
    for (size_t at = first; at < end;) {
        int32_t code_point;
        int bytes = zr_utf8_next(text + at, end - at, &code_point);
        if (!bytes)
            return fail_invalid(text, at, encoder->name, encoder->error);
        int32_t id = code_point < tokenizer->id_count ? tokenizer->ids[code_point] : 0;
        if (!id)
            return zr_fail(
                encoder->error, ZERO_ERR_DATA,
                "%s: byte %zu: the character U+%04X is not among the %d of this tokenizer",
                encoder->name, at, (unsigned)code_point, (int)tokenizer->vocabulary);
        zr_ids_append(encoder->out, id - 1);
        at += (size_t)bytes;
    }
    return ZERO_OK;
}

static zero_status encode_bytes(zr_encoder *encoder, const char *text, size_t first, size_t end)
{
    if (!zr_ids_reserve(encoder->out, (int64_t)(end - first)))
        return fail_memory(encoder, end - first);
    for (size_t i = first; i < end; i++)
        zr_ids_append(encoder->out, (unsigned char)text[i]);
    return ZERO_OK;
}

static size_t cut_plain(const zr_tokenizer *tokenizer, const char *text, size_t first, size_t limit,
                        size_t length)
{
    size_t end = zr_character_cut(text, limit, length);
    return end > first ? end : zr_character_cut(text, ZR_MIN(first + 4, length), length);
}

static void decode_bytes(const zr_tokenizer *tokenizer, int32_t id, zr_buffer *out)
{
    unsigned char byte = (unsigned char)id;
    if (id >= 0 && id < 256)
        zr_buffer_append(out, &byte, 1);
    else
        zr_buffer_append(out, "\xef\xbf\xbd", 3);
}

static void decode_chars(const zr_tokenizer *tokenizer, int32_t id, zr_buffer *out)
{
    bool known = id >= 0 && id < tokenizer->vocabulary;
    utf8proc_uint8_t text[4];
    utf8proc_ssize_t bytes =
        utf8proc_encode_char(known ? tokenizer->code_points[id] : 0xfffd, text);
    zr_buffer_append(out, text, (size_t)bytes);
}

static void push(zr_decoder *decoder, int32_t id, bool last, zr_buffer *out)
{
    if (!last)
        decoder->tokenizer->ops->decode(decoder->tokenizer, id, &decoder->pending);
    zr_utf8_flush(&decoder->pending, last, out);
}

static void free_chars(zr_tokenizer *tokenizer)
{
    zr_free(tokenizer->code_points);
    zr_free(tokenizer->ids);
}

const zr_tokenizer_ops zr_bytes_ops = {
    .kind = ZR_TOKENIZER_BYTES,
    .encode = encode_bytes,
    .cut = cut_plain,
    .decode = decode_bytes,
    .push = push,
    .save = zr_plain_save,
    .free = free_chars,
};

const zr_tokenizer_ops zr_chars_ops = {
    .kind = ZR_TOKENIZER_CHARS,
    .encode = encode_chars,
    .cut = cut_plain,
    .decode = decode_chars,
    .push = push,
    .save = zr_plain_save,
    .free = free_chars,
};
