// Pieces equal those that the `tokenizers` library makes with the regular expressions themselves
// (tests/oracle/tokenizer_golden.py).
#define _GNU_SOURCE
#include "../base/scratch_directory.h"

#include "base/json.h"
#include "tokenizer/pretokenize.h"

#define WORDS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char *const expressions[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    WORDS "\\p{N}{1,3}" REST, WORDS "\\p{N}" REST};

static void check_pieces(const zr_classes *classes, zr_next_piece next, const char *text,
                         const json_t *pieces)
{
    size_t length = strlen(text), at = 0, i = 0;
    for (; at < length; i++) {
        size_t width = next(classes, text + at, length - at);
        const char *piece = json_string_value(json_array_get(pieces, i));
        if (!piece || strlen(piece) != width || memcmp(piece, text + at, width) != 0)
            fail_msg("piece %zu of \"%s\" is \"%.*s\", not \"%s\"", i, text, (int)width, text + at,
                     piece ? piece : "");
        at += width;
    }
    assert_int_equal(i, json_array_size(pieces));
}

static void the_library_cuts_the_same(void **state)
{
    json_t *cases;
    zr_classes *classes = zr_alloc(sizeof *classes, NULL);
    zr_classes_fill(classes);
    assert_int_equal(zr_json_load(TOKENIZERS "/pieces.cases", 1 << 24, &cases, NULL), ZERO_OK);
    assert_true(json_array_size(cases) > 100);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *row = json_array_get(cases, i);
        for (int e = 0; e < ZR_COUNT(expressions); e++)
            check_pieces(classes, zr_pieces_for_expression(expressions[e]),
                         json_string_value(json_array_get(row, 0)),
                         json_array_get(row, 1 + (size_t)e));
    }
    json_decref(cases);
    zr_free(classes);
}

static void digits_stand_apart(void **state)
{
    zr_classes *classes = zr_alloc(sizeof *classes, NULL);
    zr_classes_fill(classes);
    assert_int_equal(zr_piece_digit(classes, "12a", 3), 1);
    assert_int_equal(zr_piece_digits(classes, "12a", 3), 2);
    assert_int_equal(zr_piece_digit(classes,
                                    "a \xc3\xa9"
                                    "1",
                                    5),
                     4);
    assert_int_equal(zr_piece_digit(classes,
                                    "\xc2\xbd"
                                    "1",
                                    3),
                     2);
    assert_null(zr_pieces_for_expression("\\p{L}+"));
    zr_free(classes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_cuts_the_same),
        cmocka_unit_test(digits_stand_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
