// The expressions of GPT-2, Llama 3 and Qwen 2, each as one function that takes the first
// alternative that matches, as the expressions do.
//
//   GPT-2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   Llama 3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
//            | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+                  (in one line)
//   Qwen 2   the same with \p{N} for \p{N}{1,3}
//
// Each matches something at every position, so pieces cover the text. No expression looks back:
// after the end of a piece the next one begins like a text of its own.
#include "tokenizer/pretokenize.h"

#include <string.h>

// Returns the end of the run of `class` that includes text[at], at <= length.
static size_t run_end(const zr_classes *classes, zr_class class, const char *text, size_t at,
                      size_t length)
{
    while (at < length) {
        int bytes;
        if (zr_class_at(classes, text + at, length - at, &bytes) != class)
            break;
        at += (size_t)bytes;
    }
    return at;
}

static bool is_newline(char c) { return c == '\r' || c == '\n'; }

// Matches \s+(?!\S)|\s+ in a text that begins with white space. A run that ends the text is taken
// whole. Any other run is taken without its last character, which may belong to the next word; but
// if it is the only one, it is taken.
static size_t piece_of_spaces(const zr_classes *classes, const char *text, size_t length)
{
    size_t at = 0, last = 0;
    while (at < length) {
        int bytes;
        if (zr_class_at(classes, text + at, length - at, &bytes) != ZR_SPACE)
            return last ? last : at;
        last = at;
        at += (size_t)bytes;
    }
    return at;
}

// Matches 's|'t|'re|'ve|'m|'ll|'d in a text that begins with '; returns 0 if no alternative
// matches. `fold` also accepts capitals, and the long s (U+017F), which the library treats as an s.
static size_t piece_of_contraction(const char *text, size_t length, bool fold)
{
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    for (int i = 0; i < ZR_COUNT(endings); i++) {
        size_t width = strlen(endings[i]), same = 0;
        while (same < width && 1 + same < length &&
               (text[1 + same] |
                (fold && text[1 + same] >= 'A' && text[1 + same] <= 'Z' ? 0x20 : 0)) ==
                   endings[i][same])
            same++;
        if (same == width)
            return 1 + width;
    }
    return fold && length >= 3 && memcmp(text + 1, "\xc5\xbf", 2) == 0 ? 3 : 0;
}

static size_t piece_gpt2(const zr_classes *classes, const char *text, size_t length)
{
    size_t contraction = *text == '\'' ? piece_of_contraction(text, length, false) : 0;
    if (contraction)
        return contraction;
    int bytes;
    size_t at = *text == ' ' && length > 1; // the " ?" before letters, numbers and the rest
    zr_class class = zr_class_at(classes, text + at, length - at, &bytes);
    return class == ZR_SPACE ? piece_of_spaces(classes, text, length)
                             : run_end(classes, class, text, at + (size_t)bytes, length);
}

// Matches \s*[\r\n]+|\s+(?!\S)|\s+
static size_t piece_of_lines(const zr_classes *classes, const char *text, size_t length)
{
    size_t end = run_end(classes, ZR_SPACE, text, 0, length);
    while (end > 0 && !is_newline(text[end - 1]))
        end--;
    return end ? end : piece_of_spaces(classes, text, length);
}

// Matches \p{N}{1,most}; the first number ends at `at`.
static size_t piece_of_numbers(const zr_classes *classes, const char *text, size_t at,
                               size_t length, int most)
{
    int bytes;
    for (int i = 1; i < most && at < length; i++) {
        if (zr_class_at(classes, text + at, length - at, &bytes) != ZR_NUMBER)
            break;
        at += (size_t)bytes;
    }
    return at;
}

// Matches  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
static size_t piece_of_others(const zr_classes *classes, const char *text, size_t length)
{
    int bytes;
    size_t at = *text == ' ' && length > 1;
    if (zr_class_at(classes, text + at, length - at, &bytes) != ZR_OTHER)
        return piece_of_lines(classes, text, length);
    at = run_end(classes, ZR_OTHER, text, at, length);
    while (at < length && is_newline(text[at]))
        at++;
    return at;
}

static size_t piece_llama(const zr_classes *classes, const char *text, size_t length,
                          int most_numbers)
{
    size_t contraction = *text == '\'' ? piece_of_contraction(text, length, true) : 0;
    if (contraction)
        return contraction;
    int bytes, next;
    zr_class class = zr_class_at(classes, text, length, &bytes);
    size_t at = (size_t)bytes;
    if (class == ZR_NUMBER)
        return piece_of_numbers(classes, text, at, length, most_numbers);
    bool may_precede = !is_newline(*text) && at < length; // [^\r\n\p{L}\p{N}]?\p{L}+
    if (class == ZR_LETTER ||
        (may_precede && zr_class_at(classes, text + at, length - at, &next) == ZR_LETTER))
        return run_end(classes, ZR_LETTER, text, at, length);
    return piece_of_others(classes, text, length);
}

static size_t piece_llama3(const zr_classes *classes, const char *text, size_t length)
{
    return piece_llama(classes, text, length, 3);
}

static size_t piece_qwen2(const zr_classes *classes, const char *text, size_t length)
{
    return piece_llama(classes, text, length, 1);
}

size_t zr_piece_digits(const zr_classes *classes, const char *text, size_t length)
{
    int bytes;
    if (zr_class_at(classes, text, length, &bytes) == ZR_NUMBER)
        return run_end(classes, ZR_NUMBER, text, (size_t)bytes, length);
    size_t at = (size_t)bytes;
    while (at < length && zr_class_at(classes, text + at, length - at, &bytes) != ZR_NUMBER)
        at += (size_t)bytes;
    return at;
}

size_t zr_piece_digit(const zr_classes *classes, const char *text, size_t length)
{
    int bytes;
    return zr_class_at(classes, text, length, &bytes) == ZR_NUMBER
               ? (size_t)bytes
               : zr_piece_digits(classes, text, length);
}

zr_next_piece zr_pieces_gpt2(void) { return piece_gpt2; }

zr_next_piece zr_pieces_qwen2(void) { return piece_qwen2; }

zr_next_piece zr_pieces_llama3(void) { return piece_llama3; }

#define GPT2_WORDS "'s|'t|'re|'ve|'m|'ll|'d"
#define LLAMA_WORDS "(?i:" GPT2_WORDS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define LLAMA_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *expression;
    zr_next_piece next;
} known[] = {
    {GPT2_WORDS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", piece_gpt2},
    {LLAMA_WORDS "\\p{N}{1,3}" LLAMA_REST, piece_llama3},
    {LLAMA_WORDS "\\p{N}" LLAMA_REST, piece_qwen2},
};

zr_next_piece zr_pieces_for_expression(const char *expression)
{
    for (int i = 0; i < ZR_COUNT(known); i++)
        if (strcmp(known[i].expression, expression) == 0)
            return known[i].next;
    return NULL;
}

const char *zr_expression_of_pieces(zr_next_piece next)
{
    for (int i = 0; i < ZR_COUNT(known); i++)
        if (known[i].next == next)
            return known[i].expression;
    return NULL;
}
