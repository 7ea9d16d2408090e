// Where records begin and end in lines, in objects one after another, and in arrays.
#include "base/alloc.h"
#include "data/record_split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

// Compares the records, each written as LINE:TEXT or LINE!FAULT, joined by '|'.
static void check(const char *text, const char *expected)
{
    zr_record_split split = {.text = text, .length = strlen(text)};
    zr_record_span span;
    char found[1024] = "";
    while (zr_record_split_next(&split, &span)) {
        size_t at = strlen(found);
        if (span.fault)
            snprintf(found + at, sizeof found - at, "%s%lld!%s", at ? "|" : "",
                     (long long)span.line, span.fault);
        else
            snprintf(found + at, sizeof found - at, "%s%lld:%.*s", at ? "|" : "",
                     (long long)span.line, (int)(span.end - span.start), text + span.start);
    }
    assert_string_equal(found, expected);
    assert_int_equal(split.at, split.length);
}

static void test_lines(void **state)
{
    check("", "");
    check(" \n\t\r\n", "");
    check("{\"a\": 1}\n\n {\"b\": \"}\\\"{\"}\r\n", "1:{\"a\": 1}|3:{\"b\": \"}\\\"{\"}");
    check("\xef\xbb\xbf{}\n{}", "1:{}|2:{}");
    check("5\n\"x\" y\n{}", "1:5|2:\"x\" y|3:{}");
    check("{} x\n{},\n{}", "1:{} x|2:{},|3:{}");
}

static void test_objects_one_after_another(void **state)
{
    check("{\n \"a\": [\n  {}\n ]\n}\n{\n}", "1:{\n \"a\": [\n  {}\n ]\n}|6:{\n}");
    check("{\"a\":1}{\"b\":2} {\"c\":3}\n", "1:{\"a\":1}|1:{\"b\":2}|1:{\"c\":3}");
}

// A broken object does not take the next ones with it.
static void test_brackets_that_do_not_close(void **state)
{
    check("{\"a\": 1\n{\"b\": 2}\n", "1:{\"a\": 1\n|2:{\"b\": 2}");
    check("{\"a\": \"open\n{\"b\": 2}\n", "1:{\"a\": \"open|2:{\"b\": 2}");
    check("{\"a\": [1}, 2\n{\"b\": 2}\n", "1:{\"a\": [1}, 2|2:{\"b\": 2}");
    check("{\"a\": [1,\n", "1:{\"a\": [1,\n");
    check("}\n{}", "1:}|2:{}");
}

static void test_depth_is_bounded(void **state)
{
    char text[256], expected[256];
    memset(text, '[', 65);
    snprintf(text + 65, sizeof text - 65, " x\n{}");
    text[0] = '{';
    snprintf(expected, sizeof expected, "1:%.*s|2:{}", 67, text);
    check(text, expected);
}

static void test_arrays(void **state)
{
    check("[]", "");
    check("\n [ {\"a\": 1},\n\n{\"b\": [2]} ,{} ]\n", "2:{\"a\": 1}|4:{\"b\": [2]}|4:{}");
    check("[1, \"x,]\", [2, 3]]", "1:1|1:\"x,]\"|1:[2, 3]");
    check("[{},\n{}", "1:{}|2:{}|2!the array has no end (]): the file seems to be cut off");
    check("[\n", "2!the array has no end (]): the file seems to be cut off");
    check("[{}\n{}]", "1:{}|2!a comma is missing between two records of the array");
    check("[{},]", "1:{}|1!a record is missing after a comma");
    check("[{},,{}]", "1:{}|1!a record is missing after a comma");
    check("[{}]\n[{}]", "1:{}|2!text after the end of the array");
    check("[{\"a\": }, {]",
          "1:{\"a\": }|1:{]|1!the array has no end (]): the file seems to be cut off");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_objects_one_after_another),
        cmocka_unit_test(test_brackets_that_do_not_close),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
