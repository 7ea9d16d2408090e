// Added tokens: strings that are found in a text as wholes, before it is cut into pieces.
//
// As in the library, the leftmost match counts, the longest one if several begin there, and matches
// do not overlap. A match that is then refused (single_word, or special in ordinary text) still
// hides what lies inside it.
#include "base/alloc.h"
#include "tokenizer/bpe_encode.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

// Orders by bytes, with a prefix before what it begins; equal ones in the order in which they were
// given.
static int by_sought(const void *a, const void *b)
{
    const zr_added_token *x = *(const zr_added_token *const *)a,
                         *y = *(const zr_added_token *const *)b;
    int order = memcmp(x->sought, y->sought, ZR_MIN(x->length, y->length));
    if (order || x->length != y->length)
        return order ? order : x->length < y->length ? -1 : 1;
    return (x > y) - (x < y);
}

static int by_content(const void *a, const void *b)
{
    return strcmp((*(const zr_added_token *const *)a)->content,
                  (*(const zr_added_token *const *)b)->content);
}

static zero_status refuse_twice(const zr_added_token **all, int count, const char *name,
                                zero_error *error)
{
    if (count)
        qsort(all, (size_t)count, sizeof *all, by_content);
    for (int i = 1; i < count; i++)
        if (!strcmp(all[i - 1]->content, all[i]->content))
            return zr_fail(error, ZERO_ERR_DATA, "%s: the added token \"%.100s\" is given twice",
                           name, all[i]->content);
    return ZERO_OK;
}

zero_status zr_added_sort(zr_bpe *bpe, const char *name, zero_error *error)
{
    for (int normalized = 0; normalized < 2; normalized++) {
        const zr_added_token **order =
            zr_alloc(((size_t)bpe->added_count + 1) * sizeof *order, error);
        bpe->added_order[normalized] = order;
        if (!order)
            return ZERO_ERR_MEMORY;
        for (int i = 0; i < bpe->added_count && !normalized; i++)
            order[i] = &bpe->added[i];
        if (!normalized)
            ZERO_TRY(refuse_twice(order, bpe->added_count, name, error));
        int *count = &bpe->added_sought[normalized];
        for (int i = *count = 0; i < bpe->added_count; i++)
            if (bpe->added[i].normalized == normalized && bpe->added[i].length)
                order[(*count)++] = &bpe->added[i];
        if (*count)
            qsort(order, (size_t)*count, sizeof *order, by_sought);
    }
    return ZERO_OK;
}

// Returns the first of order[low..high) whose byte after the first `depth` bytes is at least
// `byte`. All of them have the first `depth` bytes in common.
static int first_with(const zr_added_token *const *order, int low, int high, size_t depth, int byte)
{
    while (low < high) {
        int middle = low + (high - low) / 2;
        bool before =
            order[middle]->length == depth || (unsigned char)order[middle]->sought[depth] < byte;
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Returns the longest token with which text[0..length) begins; NULL if there is none.
static const zr_added_token *longest_added_token(const zr_bpe *bpe, bool normalized,
                                                 const char *text, size_t length)
{
    const zr_added_token *const *order = bpe->added_order[normalized], *best = NULL;
    int low = 0, high = bpe->added_sought[normalized];
    for (size_t depth = 0; low < high; depth++) { // all of [low, high) begin with text[0..depth)
        if (order[low]->length == depth)
            best = order[low];
        if (depth == length)
            break;
        int byte = (unsigned char)text[depth];
        low = first_with(order, low, high, depth, byte);
        high = first_with(order, low, high, depth, byte + 1);
    }
    return best;
}

const zr_added_token *zr_added_find(const zr_bpe *bpe, bool normalized, const char *text,
                                    size_t from, size_t length, size_t *at)
{
    const bool *starts = bpe->added_starts[normalized];
    for (*at = from; *at < length; ++*at) {
        if (!starts[(unsigned char)text[*at]])
            continue;
        const zr_added_token *best = longest_added_token(bpe, normalized, text + *at, length - *at);
        if (best)
            return best;
    }
    return NULL;
}

// Returns the bytes of the character before text[end]; 0 if there is none.
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
    return stop >= length || !zr_utf8_next(text + stop, length - stop, &code_point) ||
           !zr_is_word(code_point);
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

typedef struct segments { // what encodes the text between added tokens
    zr_encoder *encoder;
    bool normalized;
    zero_status (*between)(zr_encoder *encoder, bool begins, const char *text, size_t length);
} segments;

static zero_status append_token_id(zr_encoder *encoder, int32_t id)
{
    zr_ids_append(encoder->out, id);
    return encoder->out->failed ? zr_fail(encoder->error, ZERO_ERR_MEMORY,
                                          "%s: no memory for its tokens", encoder->name)
                                : ZERO_OK;
}

static bool is_match_refused(const zr_encoder *encoder, const zr_added_token *token,
                             const char *text, size_t start, size_t length)
{
    if (token->special && encoder->mode == ZR_ENCODE_TEXT)
        return true;
    return token->single_word && !stands_alone(text, start, start + token->length, length);
}

// Encodes a text with its added tokens. `begins` means that text[0] is the first character of all
// that is encoded.
static zero_status encode_with_added_tokens(const segments *s, bool begins, const char *text,
                                            size_t length)
{
    const zr_bpe *bpe = s->encoder->tokenizer->bpe;
    const zr_added_token *token;
    size_t done = 0, at = 0;
    if (s->encoder->mode == ZR_ENCODE_TEXT && !bpe->ordinary_added)
        return s->between(s->encoder, begins, text, length);
    for (size_t from = 0;
         from < length && (token = zr_added_find(bpe, s->normalized, text, from, length, &at));
         from = at + token->length) {
        size_t start = at, stop = at + token->length;
        if (is_match_refused(s->encoder, token, text, start, length))
            continue;
        if (token->lstrip)
            start = ZR_MAX(spaces_before(&bpe->classes, text, start), done);
        if (token->rstrip)
            stop = spaces_after(&bpe->classes, text, stop, length);
        if (done < start)
            ZERO_TRY(s->between(s->encoder, begins && done == 0, text + done, start - done));
        ZERO_TRY(append_token_id(s->encoder, token->id));
        done = stop;
    }
    return done < length ? s->between(s->encoder, begins && done == 0, text + done, length - done)
                         : ZERO_OK;
}

static zero_status normalized_segment(zr_encoder *encoder, bool begins, const char *text,
                                      size_t length)
{
    const segments inner = {.encoder = encoder, .normalized = true, .between = zr_bpe_segment};
    // To the normalizer every segment is a text of its own, except one that continues where the
    // previous part ended.
    bool goes_on = encoder->goes_on && begins;
    ZERO_TRY(zr_normalize(encoder, !goes_on, text, length, &text, &length));
    return encode_with_added_tokens(&inner, begins, text, length);
}

zero_status zr_bpe_encode(zr_encoder *encoder, const char *text, size_t length)
{
    const segments outer = {.encoder = encoder, .normalized = false, .between = normalized_segment};
    return encode_with_added_tokens(&outer, true, text, length);
}
