// Turns segments into pieces and pieces into ids, and finds positions at which a text may be cut
// without changing its ids.

#include "tokenizer/spm_normalize.h"
#include "tokenizer/unigram.h"

#include <string.h>

static zero_status next_step(zr_encoder *encoder, int step, bool begins, const char *text,
                             size_t length);

static zero_status split_pieces(zr_encoder *encoder, int step, bool begins, const char *text,
                                size_t length)
{
    const zr_bpe *bpe = encoder->tokenizer->bpe;
    zr_next_piece next = bpe->split[step].next;
    bool last = step + 1 == bpe->split_count;
    for (size_t at = 0, width; at < length; at += width) {
        width = next(&bpe->classes, text + at, length - at);
        if (last)
            ZERO_TRY(zr_bpe_piece(encoder, text + at, width));
        else
            ZERO_TRY(next_step(encoder, step + 1, begins && at == 0, text + at, width));
    }
    return ZERO_OK;
}

static zero_status split_at_whitespace(zr_encoder *encoder, int step, bool begins, const char *text,
                                       size_t length)
{
    const zr_classes *classes = &encoder->tokenizer->bpe->classes;
    for (size_t at = 0, end; at < length; at = end) {
        int bytes = 0;
        bool space = zr_class_at(classes, text + at, length - at, &bytes) == ZR_SPACE;
        for (end = at + (size_t)bytes; !space && end < length; end += (size_t)bytes)
            if (zr_class_at(classes, text + end, length - end, &bytes) == ZR_SPACE)
                break;
        if (!space)
            ZERO_TRY(next_step(encoder, step + 1, begins && at == 0, text + at, end - at));
    }
    return ZERO_OK;
}

static bool begins_with(const char *text, size_t length, const char *what)
{
    size_t width = strlen(what);
    return length >= width && memcmp(text, what, width) == 0;
}

// Puts a space (or the character that stands for it) before a piece that does not begin with it.
static zero_status put_prefix(zr_encoder *encoder, int step, const char *space, const char **text,
                              size_t *length)
{
    size_t width = strlen(space);
    if (begins_with(*text, *length, space))
        return ZERO_OK;
    char *to = zr_scratch_reserve(&encoder->stripped[step], *length + width, encoder->error);
    if (!to)
        return ZERO_ERR_MEMORY;
    memcpy(to, space, width);
    memcpy(to + width, *text, *length);
    *text = to;
    *length += width;
    return ZERO_OK;
}

// Cuts before each `space`: "_a__b" becomes "_a", "_", "_b". With `each` false it cuts only where
// something else comes before the space; if words never merge this does not change the ids, and
// makes pieces repeat.
static zero_status split_at_spaces(zr_encoder *encoder, int step, const char *space, bool each,
                                   const char *text, size_t length)
{
    size_t width = strlen(space);
    for (size_t at = 0, end; at < length; at = end) {
        const char *found = text + at;
        if (each)
            found = length - at > width ? zr_find_text(text + at + 1, length - at - 1, space, width)
                                        : NULL;
        else // only where something else comes before it
            do
                found =
                    length - (size_t)(found - text) > width
                        ? zr_find_text(found + 1, length - (size_t)(found - text) - 1, space, width)
                        : NULL;
            while (found && (size_t)(found - text) >= at + width &&
                   memcmp(found - width, space, width) == 0);
        end = found ? (size_t)(found - text) : length;
        ZERO_TRY(step < 0 ? zr_bpe_piece(encoder, text + at, end - at)
                          : next_step(encoder, step + 1, false, text + at, end - at));
    }
    return ZERO_OK;
}

// Replaces spaces by `space`; the same memory has room for the prefix.
static zero_status split_metaspace(zr_encoder *encoder, int step, bool begins, const char *text,
                                   size_t length)
{
    const zr_split_step *how = &encoder->tokenizer->bpe->split[step];
    size_t width = strlen(how->space), out = 0;
    char *to = zr_scratch_reserve(&encoder->stripped[step], (length + 1) * ZR_MAX(width, (size_t)1),
                                  encoder->error);
    if (!to)
        return ZERO_ERR_MEMORY;
    bool first = how->prefix == ZR_PREFIX_ALWAYS
                     ? !(begins && encoder->goes_on)
                     : how->prefix == ZR_PREFIX_FIRST && begins && !encoder->goes_on;
    if (first && *text != ' ' && !begins_with(text, length, how->space)) {
        memcpy(to, how->space, width);
        out = width;
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] == ' ') {
            memcpy(to + out, how->space, width);
            out += width;
        } else {
            to[out++] = text[i];
        }
    }
    if (how->splits)
        return split_at_spaces(encoder, step, how->space, true, to, out);
    return next_step(encoder, step + 1, begins, to, out);
}

// The last step of the pre-tokenizer: encodes the text that is left as one piece. A long piece of
// SentencePiece is cut at positions that no merge can cross.
static zero_status end_of_steps(zr_encoder *encoder, const char *text, size_t length)
{
    if (encoder->tokenizer->bpe->words_apart && !encoder->rounds)
        return split_at_spaces(encoder, -1, ZR_METASPACE, false, text, length);
    return zr_bpe_piece(encoder, text, length);
}

static zero_status next_step(zr_encoder *encoder, int step, bool begins, const char *text,
                             size_t length)
{
    const zr_bpe *bpe = encoder->tokenizer->bpe;
    if (step == bpe->split_count)
        return end_of_steps(encoder, text, length);
    const zr_split_step *how = &bpe->split[step];
    if (how->kind == ZR_SPLIT_PIECES)
        return split_pieces(encoder, step, begins, text, length);
    if (how->kind == ZR_SPLIT_WHITESPACE)
        return split_at_whitespace(encoder, step, begins, text, length);
    if (how->kind == ZR_SPLIT_METASPACE)
        return split_metaspace(encoder, step, begins, text, length);
    if (!(begins && encoder->goes_on))
        ZERO_TRY(put_prefix(encoder, step, " ", &text, &length));
    return next_step(encoder, step + 1, begins, text, length);
}

zero_status zr_bpe_segment(zr_encoder *encoder, bool begins, const char *text, size_t length)
{
    return length ? next_step(encoder, 0, begins, text, length) : ZERO_OK;
}

// ---- cuts ---------------------------------------------------------------------------------------

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Returns whether an added token covers the position, or can reach it by stripping spaces or by
// looking at its neighbours.
static bool is_near_added_token(const zr_bpe *bpe, const char *text, size_t at, size_t length)
{
    for (int i = 0; i < bpe->added_count; i++) {
        const char *content = bpe->added[i].content;
        size_t width = strlen(content), last = ZR_MIN(at + 1, length >= width ? length - width : 0);
        for (size_t from = at > width ? at - width - 1 : 0;
             width && from <= last && from + width <= length; from++)
            if (memcmp(text + from, content, width) == 0)
                return true;
    }
    return false;
}

// Returns whether an added token that is looked for in normalised text may be at a cut in a form
// that is_near_added_token does not know: it has white space or the character that replaces a
// space, or it strips the white space next to it and may be composed from other characters.
static bool may_hide_added_token(const zr_bpe *bpe)
{
    for (int i = 0; i < bpe->added_count; i++) {
        const zr_added_token *token = &bpe->added[i];
        bool hides = token->normalized &&
                     ((bpe->normal_count && strpbrk(token->content, " \n")) || bpe->rules);
        for (int n = 0; n < bpe->normal_count && token->normalized; n++) {
            const zr_normal_step *step = &bpe->normal[n];
            hides |= step->kind == ZR_NORMAL_NFC && (token->lstrip || token->rstrip);
            hides |= step->kind == ZR_NORMAL_REPLACE && strstr(token->content, step->to);
            hides |= step->kind == ZR_NORMAL_CHARSMAP || step->kind == ZR_NORMAL_RUNS ||
                     step->kind == ZR_NORMAL_STRIP;
        }
        if (hides)
            return true;
    }
    return false;
}

// Returns whether the normalizer may look across "a b" or puts something after a text.
static bool normalizer_joins_words(const zr_bpe *bpe)
{
    bool joins = !zr_charsmap_keeps_words(&bpe->charsmap) || (bpe->rules && bpe->rules->suffix);
    for (int i = 0; i < bpe->normal_count; i++) {
        const zr_normal_step *step = &bpe->normal[i];
        joins |= step->kind == ZR_NORMAL_REPLACE && strcmp(step->from, " ") != 0;
        joins |= step->kind == ZR_NORMAL_RUNS && !step->least;
    }
    return joins;
}

typedef enum cut_kind { CUT_NOWHERE, CUT_WORDS, CUT_WORDS_AND_LINES } cut_kind;

// Returns the kinds of positions at which a text may be cut. "a b" may be cut before the space, and
// "a\nx" after the newline, because every pre-tokenizer known here ends a piece there and no
// normalizer looks across: both neighbours of the first are ASCII, and the second follows a
// character that composes with nothing. A text may not be cut at a newline that follows other white
// space, because GPT-2 takes the white space that ends a text as one piece.
static cut_kind find_cut_kind(const zr_bpe *bpe)
{
    bool pieces = false, prefix_later = false;
    if (may_hide_added_token(bpe) || normalizer_joins_words(bpe))
        return CUT_NOWHERE;
    for (int i = 0; i < bpe->split_count; i++) {
        const zr_split_step *how = &bpe->split[i];
        prefix_later |= how->kind == ZR_SPLIT_PREFIX && i > 0;
        pieces |= how->kind == ZR_SPLIT_PIECES && how->next != zr_piece_digit &&
                  how->next != zr_piece_digits;
    }
    if (prefix_later)
        return CUT_NOWHERE;
    return pieces ? CUT_WORDS_AND_LINES : bpe->words_apart ? CUT_WORDS : CUT_NOWHERE;
}

static bool may_cut_before(const zr_bpe *bpe, cut_kind cuts, const char *text, size_t first,
                           size_t at, size_t length)
{
    if (at <= first || at + 1 >= length)
        return false;
    bool word = is_letter(text[at - 1]) && text[at] == ' ' && is_letter(text[at + 1]);
    if (!word && cuts == CUT_WORDS_AND_LINES && text[at - 1] == '\n') {
        int bytes;
        size_t before = at - 1;
        while (before > first && at - before < 5 && ((unsigned char)text[--before] & 0xc0) == 0x80)
            continue;
        word = before < at - 1 &&
               zr_class_at(&bpe->classes, text + before, at - 1 - before, &bytes) != ZR_SPACE &&
               zr_class_at(&bpe->classes, text + at, length - at, &bytes) != ZR_SPACE;
    }
    return word && !is_near_added_token(bpe, text, at, length);
}

size_t zr_bpe_cut(const zr_tokenizer *tokenizer, const char *text, size_t first, size_t limit,
                  size_t length)
{
    const zr_bpe *bpe = tokenizer->bpe;
    cut_kind cuts = find_cut_kind(bpe);
    bool rounds = bpe->unigram && bpe->unigram->fp32 && first == 0;
    size_t least = rounds ? ZR_UNIGRAM_ROUNDED : first; // a shorter text is one of its own
    limit = ZR_MAX(limit, least);
    if (limit >= length || cuts == CUT_NOWHERE)
        return length;
    for (size_t at = limit; at > least; at--)
        if (may_cut_before(bpe, cuts, text, first, at, length))
            return at;
    for (size_t at = limit + 1; at < length; at++)
        if (may_cut_before(bpe, cuts, text, first, at, length))
            return at;
    return length;
}
