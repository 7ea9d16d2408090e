// Turns a document's parts into tokens, each marked as a target or not.
#include "tokenizer/document.h"

#include <string.h>

void zr_document_clear(zr_document *document)
{
    document->text.length = 0;
    document->count = 0;
    document->special = false;
}

void zr_document_free(zr_document *document)
{
    zr_buffer_free(&document->text);
    zr_free(document->segments);
    *document = (zr_document){0};
}

static bool make_room_for_segment(zr_document *document)
{
    zr_document_part *segments = zr_list_grow(document->segments, document->count,
                                              &document->capacity, sizeof *segments, NULL);
    document->text.failed |= !segments;
    if (!segments)
        return false;
    document->segments = segments;
    return true;
}

void zr_document_add(zr_document *document, const char *text, size_t length, bool trained)
{
    zr_document_part *last = document->count ? &document->segments[document->count - 1] : NULL;
    if (!length)
        return;
    zr_buffer_append(&document->text, text, length);
    if (last && last->trained == trained && !last->seam)
        last->end = document->text.length;
    else if (make_room_for_segment(document))
        document->segments[document->count++] =
            (zr_document_part){.end = document->text.length, .trained = trained};
}

void zr_document_add_seam(zr_document *document)
{
    if (document->count)
        document->segments[document->count - 1].seam = true;
}

void zr_document_train_rest(zr_document *document)
{
    for (int i = 1; i < document->count; i++)
        document->segments[i].trained |= document->segments[i - 1].trained;
}

zero_status zr_encoding_begin(const zr_tokenizer *tokenizer, zr_encoding *out, zero_error *error)
{
    *out = (zr_encoding){.tokenizer = tokenizer};
    return zr_encoder_create(tokenizer, &out->encoder, error);
}

void zr_encoding_free(zr_encoding *encoding)
{
    zr_encoder_destroy(encoding->encoder);
    zr_ids_free(&encoding->ids);
    zr_ids_free(&encoding->scratch);
    for (int i = 0; i < ZR_COUNT(encoding->work); i++)
        zr_buffer_free(&encoding->work[i]);
    *encoding = (zr_encoding){0};
}

typedef struct unit { // the text between two seams
    const zr_document *document;
    int first, last; // its segments [first, last)
    size_t start;    // position in the text
    int64_t at;      // position of its first token
    const char *name;
} unit;

static zero_status encode_unit_up_to(zr_encoding *encoding, const unit *u, size_t end, zr_ids *out,
                                     zero_error *error)
{
    zr_encode_mode mode = u->document->special ? ZR_ENCODE_SPECIAL : ZR_ENCODE_TEXT;
    return zr_encoder_append(encoding->encoder, mode, u->document->text.data, u->start, end,
                             u->name, out, error);
}

static int32_t strip_target_mark(int32_t id) { return id < 0 ? ~id : id; }

// Counts the tokens of `whole` that lie before the end of the text of `part`; *across: whether the
// next one crosses that end. Both lists spell the same text, which ends earlier in `part`. If they
// differ in what they spell, the result is 0 and *across is true, because the position is unknown.
static int64_t count_within(const zr_encoding *encoding, const int32_t *whole, int64_t count,
                            const int32_t *part, int64_t part_count, bool *across, zr_buffer *work)
{
    zr_buffer *text = &work[0], *piece = &work[1];
    text->length = 0;
    for (int64_t i = 0; i < part_count; i++)
        zr_tokenizer_decode(encoding->tokenizer, part[i], text);
    *across = part_count > 0 && count > 0;
    size_t at = 0;
    int64_t within = 0;
    for (; within < count && at < text->length; within++) {
        piece->length = 0;
        zr_tokenizer_decode(encoding->tokenizer, strip_target_mark(whole[within]), piece);
        if (piece->length &&
            memcmp(text->data + at, piece->data, ZR_MIN(piece->length, text->length - at)) != 0)
            return 0;
        if (piece->length > text->length - at)
            return within;
        at += piece->length;
    }
    *across = at < text->length && within < count;
    return within;
}

// Finds the token of the unit at which segment s ends. As long as the tokens of the text up to
// there agree with those of the whole unit they can be counted; after that, their spelling decides.
static zero_status find_border(zr_encoding *encoding, const unit *u, int s, int64_t *border,
                               zero_error *error)
{
    const zr_document_part *segment = &u->document->segments[s];
    const int32_t *whole = encoding->ids.at + u->at;
    const zr_ids *part = &encoding->scratch;
    int64_t count = encoding->ids.count - u->at, same = 0;
    bool across;
    if (s + 1 == u->last) {
        *border = count;
        return ZERO_OK;
    }
    encoding->scratch.count = 0;
    ZERO_TRY(encode_unit_up_to(encoding, u, segment->end, &encoding->scratch, error));
    while (same < count && same < part->count && strip_target_mark(whole[same]) == part->at[same])
        same++;
    *border = same + count_within(encoding, whole + same, count - same, part->at + same,
                                  part->count - same, &across, encoding->work);
    *border += across && segment->trained;
    bool failed = encoding->work[0].failed || encoding->work[1].failed;
    return failed ? zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for the text of its tokens",
                            u->name)
                  : ZERO_OK;
}

static zero_status add_unit(zr_encoding *encoding, const unit *u, zero_error *error)
{
    int64_t from = 0, border = 0;
    ZERO_TRY(encode_unit_up_to(encoding, u, u->document->segments[u->last - 1].end, &encoding->ids,
                               error));
    for (int s = u->first; s < u->last; s++, from = border) {
        ZERO_TRY(find_border(encoding, u, s, &border, error));
        for (int64_t i = from; i < border && !u->document->segments[s].trained; i++)
            encoding->ids.at[u->at + i] = ~encoding->ids.at[u->at + i];
    }
    return ZERO_OK;
}

zero_status zr_encoding_add(zr_encoding *encoding, const zr_document *document, const char *name,
                            zero_error *error)
{
    unit u = {.document = document, .name = name};
    if (document->text.failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for a document of %zu bytes", name,
                       document->text.length);
    for (int s = 0; s < document->count; s++) {
        if (s + 1 < document->count && !document->segments[s].seam)
            continue;
        u.last = s + 1;
        u.at = encoding->ids.count;
        ZERO_TRY(add_unit(encoding, &u, error));
        u.first = s + 1;
        u.start = document->segments[s].end;
    }
    return ZERO_OK;
}

zero_status zr_encoding_end(zr_encoding *encoding, bool record, const char *name, zero_error *error)
{
    int32_t end = zr_tokenizer_end(encoding->tokenizer);
    if (end < 0)
        return record ? zr_encoder_append(encoding->encoder, ZR_ENCODE_TEXT, "\n", 0, 1, name,
                                          &encoding->ids, error)
                      : ZERO_OK;
    zr_ids_append(&encoding->ids, end);
    return encoding->ids.failed ? zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for %lld tokens",
                                          name, (long long)encoding->ids.count)
                                : ZERO_OK;
}
