// Added tokens: strings that are found in a text as wholes, before it is cut into pieces.
//
// As the library does it: of all that are sought the leftmost match counts, of those that begin there the longest; matches do not
// overlap. One that is then refused (single_word, or special in ordinary text) still hides what lies inside it.
#include "data/bpe.h"

#include <string.h>
#include <utf8proc.h>

const zr_added_token *zr_added_find(const zr_bpe *bpe, bool normalized, const char *text, size_t from, size_t length, size_t *at)
{
    const bool *starts = bpe->added_starts[normalized];
    for (*at = from; *at < length; ++*at) {
        if (!starts[(unsigned char)text[*at]])
            continue;
        const zr_added_token *best = NULL;
        for (int i = 0; i < bpe->added_count; i++) {
            const zr_added_token *token = &bpe->added[i];
            bool fits = token->normalized == normalized && token->length && token->length <= length - *at;
            if (fits && (!best || token->length > best->length) && memcmp(text + *at, token->sought, token->length) == 0)
                best = token;
        }
        if (best)
            return best;
    }
    return NULL;
}

// Bytes of the character before text[end], 0 where there is none.
static size_t last_character(const char *text, size_t end, int32_t *code_point)
{
    for (size_t width = 1; width <= 4 && width <= end; width++) {
        int bytes = zr_utf8_next(text + end - width, width, code_point);
        if (bytes > 0)
            return (size_t)bytes == width ? width : 0;
    }
    return 0;
}

static bool stands_alone(const char *text, size_t start, size_t stop, size_t length)
{
    int32_t code_point;
    if (last_character(text, start, &code_point) && zr_is_word(code_point))
        return false;
    return stop >= length || !zr_utf8_next(text + stop, length - stop, &code_point) || !zr_is_word(code_point);
}

static size_t spaces_before(const zr_classes *classes, const char *text, size_t start)
{
    for (;;) {
        int32_t code_point;
        size_t width = last_character(text, start, &code_point);
        if (!width || code_point >= ZR_CLASSED || classes->of[code_point] != ZR_SPACE)
            return start;
        start -= width;
    }
}

static size_t spaces_after(const zr_classes *classes, const char *text, size_t stop, size_t length)
{
    int bytes;
    while (stop < length && zr_class_at(classes, text + stop, length - stop, &bytes) == ZR_SPACE)
        stop += (size_t)bytes;
    return stop;
}

typedef struct segments { // what handles the text between added tokens
    zr_encoder *encoder;
    bool normalized;
    zero_status (*between)(zr_encoder *encoder, bool begins, const char *text, size_t length);
} segments;

static zero_status put_id(zr_encoder *encoder, int32_t id)
{
    zr_ids_append(encoder->out, id);
    return encoder->out->failed ? zr_fail(encoder->error, ZERO_ERR_MEMORY, "%s: no memory for its tokens", encoder->name) : ZERO_OK;
}

static bool refused(const zr_encoder *encoder, const zr_added_token *token, const char *text, size_t start, size_t length)
{
    if (token->special && encoder->mode == ZR_ENCODE_TEXT)
        return true;
    return token->single_word && !stands_alone(text, start, start + token->length, length);
}

// `begins`: text[0] is the first character of all that is encoded.
static zero_status cut(const segments *s, bool begins, const char *text, size_t length)
{
    const zr_bpe *bpe = s->encoder->tokenizer->bpe;
    const zr_added_token *token;
    size_t done = 0, at = 0;
    if (s->encoder->mode == ZR_ENCODE_TEXT && !bpe->ordinary_added)
        return s->between(s->encoder, begins, text, length);
    for (size_t from = 0; from < length && (token = zr_added_find(bpe, s->normalized, text, from, length, &at)); from = at + token->length) {
        size_t start = at, stop = at + token->length;
        if (refused(s->encoder, token, text, start, length))
            continue;
        if (token->lstrip)
            start = ZR_MAX(spaces_before(&bpe->classes, text, start), done);
        if (token->rstrip)
            stop = spaces_after(&bpe->classes, text, stop, length);
        if (done < start)
            ZERO_TRY(s->between(s->encoder, begins && done == 0, text + done, start - done));
        ZERO_TRY(put_id(s->encoder, token->id));
        done = stop;
    }
    return done < length ? s->between(s->encoder, begins && done == 0, text + done, length - done) : ZERO_OK;
}

static zero_status normalized_segment(zr_encoder *encoder, bool begins, const char *text, size_t length)
{
    const segments inner = {.encoder = encoder, .normalized = true, .between = zr_bpe_segment};
    // Every segment is a text of its own to the normalizer, except the one that goes on where the part before it ended.
    bool goes_on = encoder->goes_on && begins;
    ZERO_TRY(zr_normalize(encoder, !goes_on, text, length, &text, &length));
    return cut(&inner, begins, text, length);
}

zero_status zr_bpe_encode(zr_encoder *encoder, const char *text, size_t length)
{
    const segments outer = {.encoder = encoder, .normalized = false, .between = normalized_segment};
    return cut(&outer, true, text, length);
}
