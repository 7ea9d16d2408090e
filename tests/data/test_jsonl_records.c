// JSONL: what each kind of record becomes, and errors that name the line and the field.
#include "base/alloc.h"
#include "data/jsonl_records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static zr_chat chat;
static zr_text_record record;
static zr_record_map map;

static int load_chat(void **state)
{
    return zr_chat_load(NULL, "chatml", NULL, &chat, NULL) != ZERO_OK;
}

static int free_chat(void **state)
{
    zr_document_free(&record.document);
    zr_record_map_free(&map);
    zr_chat_free(&chat);
    return 0;
}

// `field` is that of --field, or the text of --map; NULL.
static zr_records records_of(const char *text, const char *field)
{
    zr_records records = zr_records_of("f.jsonl", text, strlen(text));
    zr_record_map_free(&map);
    if (field)
        assert_int_equal(zr_record_map_parse(field, &map, NULL), ZERO_OK);
    records.map = field ? &map : NULL;
    records.chat = &chat;
    return records;
}

// The one record of `text`, trained parts in [].
static void check(const char *text, const char *field, const char *expected, bool ends)
{
    zr_records records = records_of(text, field);
    char marked[512] = "";
    size_t start = 0;
    bool more;
    assert_int_equal(zr_records_next(&records, &record, &more, NULL), ZERO_OK);
    assert_true(more);
    for (int i = 0; i < record.document.count; i++) {
        const zr_document_part *part = &record.document.segments[i];
        snprintf(marked + strlen(marked), sizeof marked - strlen(marked),
                 part->trained ? "[%.*s]" : "%.*s", (int)(part->end - start),
                 record.document.text.data + start);
        start = part->end;
    }
    assert_string_equal(marked, expected);
    assert_true(record.ends == ends);
    assert_int_equal(zr_records_next(&records, &record, &more, NULL), ZERO_OK);
    assert_false(more);
}

static void test_kinds_of_records(void **state)
{
    check("{\"text\": \"caf\\u00e9 \\ud83d\\ude00\"}", NULL, "[caf\xc3\xa9 \xf0\x9f\x98\x80]",
          true);
    check("{\"id\": 1, \"body\": \"x\", \"text\": \"y\"}", "body", "[x]", true);
    check("{\"prompt\": \"2+2=\", \"completion\": \"4\"}", NULL, "2+2=[4]", true);
    check("{\"prompt\": \"\", \"completion\": \"4\"}", NULL, "[4]", true);
    check("{\"prompt\": \"a\", \"completion\": \"b\", \"text\": \"c\"}", "text", "[c]", true);
    check("{\"prompt\": \"a\", \"text\": \"c\"}", NULL, "[c]", true);
    check("{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
          "\"content\": \"a\"}], \"text\": \"t\"}",
          NULL, "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n[a<|im_end|>]\n", false);
    check("{\"prompt\": [{\"role\": \"assistant\", \"content\": \"p\"}], \"completion\": "
          "[{\"role\": \"assistant\", \"content\": \"c\"}]}",
          NULL, "<|im_start|>assistant\np<|im_end|>\n<|im_start|>assistant\n[c<|im_end|>]\n",
          false);
    check("{\"id\": 18446744073709551615, \"text\": \"a field that nobody reads\"}", NULL,
          "[a field that nobody reads]", true);
    check("\n \t\r\n{\"text\": \"after blank lines\"}\r\n\n", NULL, "[after blank lines]", true);
}

// As exports of several columns, and of many records, have them.
static void test_what_is_no_text(void **state)
{
    check("{\"messages\": null, \"prompt\": null, \"completion\": \"b\", \"text\": \"c\"}", NULL,
          "[c]", true);
    check("{\"prompt\": [], \"completion\": null, \"messages\": [{\"role\": \"assistant\", "
          "\"content\": \"a\"}]}",
          NULL, "<|im_start|>assistant\n[a<|im_end|>]\n", false);
    check("\xef\xbb\xbf{\"text\": \"after a mark\"}", NULL, "[after a mark]", true);
    zr_records records = records_of("{\"text\": \"\"}\n{\"text\": null}\n\n{\"text\": "
                                    "\"c\"}\n{\"prompt\": \"\", \"completion\": \"\"}\n",
                                    NULL);
    bool more;
    assert_int_equal(zr_records_next(&records, &record, &more, NULL), ZERO_OK);
    assert_true(more);
    assert_int_equal(records.line, 4);
    assert_int_equal(records.seen, 3);
    assert_int_equal(zr_records_next(&records, &record, &more, NULL), ZERO_OK);
    assert_false(more);
    assert_int_equal(records.seen, 4);
    assert_int_equal(records.empty, 3);
}

static void test_lines_are_counted(void **state)
{
    zr_records records =
        records_of("{\"text\": \"1\"}\n\n{\"text\": \"3\"}\n  \n{\"text\": \"5\"}", NULL);
    const int64_t lines[] = {1, 3, 5};
    bool more;
    zr_records ahead = records;
    assert_int_equal(zr_records_skip(&ahead, 1), 1); // whole lines, at least one
    assert_int_equal(zr_records_skip(&ahead, 10), 1);
    assert_int_equal(zr_records_skip(&ahead, SIZE_MAX), 1);
    assert_int_equal(zr_records_skip(&ahead, SIZE_MAX), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(zr_records_next(&records, &record, &more, NULL), ZERO_OK);
        assert_true(more);
        assert_int_equal(records.line, lines[i]);
        assert_int_equal(atoi(record.name + strlen("f.jsonl:")), lines[i]);
    }
    assert_int_equal(zr_records_next(&records, &record, &more, NULL), ZERO_OK);
    assert_false(more);
    ahead = records_of("", NULL);
    assert_int_equal(zr_records_skip(&ahead, SIZE_MAX), 0);
}

static void refuse(const char *line, const char *field, const char *words)
{
    char text[512];
    zero_error error = {0};
    bool more;
    snprintf(text, sizeof text, "{\"text\": \"fine\", \"body\": \"fine\"}\n%s\n", line);
    zr_records records = records_of(text, field);
    assert_int_equal(zr_records_next(&records, &record, &more, NULL), ZERO_OK);
    assert_int_equal(zr_records_next(&records, &record, &more, &error), ZERO_ERR_DATA);
    if (strncmp(error.message, "f.jsonl:2:", 10) || !strstr(error.message, words))
        fail_msg("\"%s\" is said of %s, where \"%s\" should be", error.message, line, words);
}

static void test_bad_lines_are_named(void **state)
{
    refuse("{\"text\": \"open", NULL, "f.jsonl:2:");
    refuse("{\"text\": \"\xff\"}", NULL, "f.jsonl:2:");
    refuse("{\"text\": nonsense}", NULL, "f.jsonl:2:10: nonsense is no value");
    refuse("{\"text\": \"a\", \"text\": \"b\"}", NULL, "given twice");
    refuse("{\"text\": \"a\"} x", NULL, "f.jsonl:2:");
    refuse("[\"text\"]", NULL, "a list, where an object is needed");
    refuse("\"text\"", NULL, "expected");
    refuse("{\"text\": 5}", NULL, "the field \"text\" is a number");
    refuse("{\"prompt\": \"a\", \"completion\": null, \"text\": 5}", NULL,
           "the field \"text\" is a number");
    refuse("{\"body\": null, \"id\": 1}", NULL, "it has \"id\"");
    refuse("{\"text\": \"a\\u0000\"}", NULL, "f.jsonl:2:10: the character \\u0000");
    refuse("{\"text\": \"\\ud800\"}", NULL, "f.jsonl:2:10: half of a pair of surrogates");
    refuse("{\"Text\": \"a\", \"id\": 1}", NULL, "it has \"Text\", \"id\"");
    refuse("{\"prompt\": \"a\"}", NULL,
           "neither \"messages\", \"conversations\", \"conversation\", \"prompt\" with "
           "\"completion\"");
    refuse("{}", NULL, "it has nothing");
    refuse("{\"text\": \"a\"}", "body", "no field \"body\"");
    refuse("{\"prompt\": \"a\", \"completion\": 1}", NULL, "the field \"completion\" is a number");
    refuse("{\"prompt\": [], \"completion\": \"a\"}", NULL, "the field \"prompt\" is a list");
    refuse("{\"messages\": 1}", NULL, "must be a list");
    refuse("{\"messages\": [{\"role\": \"user\"}]}", NULL, "\"content\" is undefined");
}

// An error of the parser is where it is in the file, not in the record.
static void test_places_in_records(void **state)
{
    static const char *const cases[][2] = {
        {"{\n \"text\": [\n  nonsense\n ]}", "f.jsonl:3:3: nonsense is no value"},
        {"[\n {\"text\": \"a\"}, {\"text\":\n  nonsense}]", "f.jsonl:3:3: nonsense is no value"},
        {"[\n {\"text\": \"\xc3\xa9\"}, {\"text\": nonsense}]", "f.jsonl:2:26: nonsense"},
        {"[{\"text\": \"a\"}\n", "f.jsonl:2: the array has no end"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zr_records records = records_of(cases[i][0], NULL);
        zero_error error = {0};
        bool more = true;
        while (more && zr_records_next(&records, &record, &more, &error) == ZERO_OK)
            ;
        assert_int_equal(error.status, ZERO_ERR_DATA);
        if (strncmp(error.message, cases[i][1], strlen(cases[i][1])))
            fail_msg("\"%s\", where \"%s\" should be said", error.message, cases[i][1]);
    }
}

static void test_a_record_is_bounded(void **state)
{
    size_t length = ZR_RECORD_BYTES + 1;
    char *text = zr_alloc(length + 1, NULL);
    zero_error error;
    bool more;
    memset(text, 'x', length);
    zr_records records = zr_records_of("long.jsonl", text, length);
    assert_int_equal(zr_records_next(&records, &record, &more, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "long.jsonl:1: a record of 67108865 bytes"));
    zr_free(text);
}

static void test_no_template(void **state)
{
    zr_chat none = {0};
    const char *text = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}";
    zr_records records = zr_records_of("f", text, strlen(text));
    records.chat = &none;
    zero_error error;
    bool more;
    assert_int_equal(zr_records_next(&records, &record, &more, &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "f:1: messages need a chat template"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_of_records),    cmocka_unit_test(test_lines_are_counted),
        cmocka_unit_test(test_bad_lines_are_named), cmocka_unit_test(test_what_is_no_text),
        cmocka_unit_test(test_places_in_records),   cmocka_unit_test(test_a_record_is_bounded),
        cmocka_unit_test(test_no_template),
    };
    return cmocka_run_group_tests(tests, load_chat, free_chat);
}
