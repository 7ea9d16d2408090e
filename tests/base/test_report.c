// A report is built once: its text, its Markdown and its JSON say the same.
#include "scratch_directory.h"

#include "base/report.h"

static const zr_heading columns[] = {
    {"stage", "stage", .width = 5},
    {"bytes.states", "states", ZR_UNIT_BYTES, .width = 8},
    {"bytes.sums.all", "sums", ZR_UNIT_BYTES},
    {"share", "share", ZR_UNIT_SHARE, .json_decimals = 4},
    {"first", NULL},
    {NULL, "units", .left = true},
};

static zr_report *example(void)
{
    zr_report *r = zr_report_create(NULL);
    assert_non_null(r);
    zr_report_labels(r, 9);
    zr_report_field(r, &(zr_heading){"ranks", "ranks"}, zr_integer(4));
    zr_report_field(r, &(zr_heading){"seconds", "step", ZR_UNIT_SECONDS}, zr_real(0.5));
    zr_report_line(r, "fits", "yes,\nwith %d GB", 80);
    zr_report_words(r, "\n");
    zr_report_indent(r, 2);
    zr_report_table(r, "stages", columns, ZR_COUNT(columns));
    for (int stage = 0; stage < 2; stage++) {
        zr_report_row(r);
        zr_report_cell(r, zr_integer(stage));
        zr_report_cell(r, zr_integer(1500 * (stage + 1)));
        zr_report_cell(r, stage ? zr_absent() : zr_integer(7));
        zr_report_cell(r, zr_real(0.25));
        zr_report_cell(r, zr_integer(10 * stage));
        zr_report_cell(r, zr_text(stage ? "h.1" : "wte, h.0"));
    }
    zr_report_end_table(r);
    zr_report_begin(r, "forecast");
    zr_report_json_only(r, "guessed", zr_flag(false));
    zr_report_begin_list(r, "steps");
    zr_report_json_only(r, NULL, zr_real(1.5));
    zr_report_end(r);
    zr_report_end(r);
    return r;
}

static void assert_written(const zr_report *r, zr_report_kind kind, int width, const char *expected)
{
    zr_buffer out = {0};
    assert_int_equal(zr_report_write(r, kind, width, &out, NULL), ZERO_OK);
    assert_string_equal(out.data, expected);
    zr_buffer_free(&out);
}

static void one_report_is_written_three_ways(void **state)
{
    zr_report *r = example();
    assert_written(r, ZR_REPORT_TEXT, 0,
                   "ranks    4\n"
                   "step     500 ms\n"
                   "fits     yes,\n"
                   "         with 80 GB\n"
                   "\n"
                   "  stage    states  sums  share  units\n"
                   "      0   1.50 kB   7 B    25%  wte, h.0\n"
                   "      1   3.00 kB          25%  h.1\n");
    assert_written(r, ZR_REPORT_MARKDOWN, 0,
                   "- ranks: 4\n"
                   "- step: 500 ms\n"
                   "- fits: yes,\n"
                   "         with 80 GB\n"
                   "\n"
                   "| stage | states   | sums | share | units    |\n"
                   "|-------|----------|------|-------|----------|\n"
                   "| 0     | 1.50 kB  | 7 B  | 25%   | wte, h.0 |\n"
                   "| 1     | 3.00 kB  |      | 25%   | h.1      |\n");
    assert_written(r, ZR_REPORT_JSON, 0,
                   "{\"ranks\":4,\"seconds\":0.5,\"stages\":["
                   "{\"stage\":0,\"bytes\":{\"states\":1500,\"sums\":{\"all\":7}},"
                   "\"share\":0.2500,\"first\":0},"
                   "{\"stage\":1,\"bytes\":{\"states\":3000},\"share\":0.2500,\"first\":10}],"
                   "\"forecast\":{\"guessed\":false,\"steps\":[1.5]}}");
    zr_report_destroy(r);
}

static void print_into(void *user, const char *text) { zr_buffer_printf(user, "<%s>", text); }

static void a_sentence_is_made_of_phrases(void **state)
{
    for (int json = 0; json < 2; json++) {
        zr_buffer printed = {0};
        zr_report *r = zr_report_create(NULL);
        zr_report_phrase(r, &(zr_heading){"name", "\""}, zr_text("a\n\x1b[2m"));
        zr_report_phrase(r, &(zr_heading){"differing", "\": ", ZR_UNIT_GROUPED}, zr_integer(2000));
        zr_report_phrase(r, &(zr_heading){"lost", " and ", ZR_UNIT_GROUPED}, zr_integer(-123456));
        zr_report_phrase(r, &(zr_heading){"few", " and ", ZR_UNIT_GROUPED}, zr_integer(12));
        zr_report_phrase(r, &(zr_heading){"most", ", ", ZR_UNIT_DIGITS, 3}, zr_real(1.0 / 1024));
        zr_report_phrase(r, &(zr_heading){"hidden", NULL}, zr_flag(true));
        zr_report_words(r, " at most\n");
        zr_report_phrase(r, &(zr_heading){"text", "["}, zr_verbatim("x\n\0y", 4));
        zr_report_phrase(r, &(zr_heading){NULL, "]"}, zr_verbatim("", 0));
        assert_int_equal(zr_report_print(r, json, print_into, &printed, NULL), ZERO_OK);
        // A write callback gets a string, which ends at the 0 byte.
        assert_string_equal(
            printed.data,
            json ? "<{\"name\":\"a\\n\\u001b[2m\",\"differing\":2000,\"lost\":-123456,\"few\":12,"
                   "\"most\":0.0009765625,\"hidden\":true,\"text\":\"x\\n\\u0000y\"}\n>"
                 : "<\"a\\n\\x1b[2m\": 2,000 and -123,456 and 12, 0.000977 at most\n[x\n>");
        zr_buffer_free(&printed);
    }
}

static zr_report *sentences(void)
{
    zr_report *r = zr_report_create(NULL), *rest = zr_report_create(NULL);
    zr_report_labels(r, 8);
    ZR_SENTENCE(r, "memory", "{bytes:.2G} GB of {all:B}[, {lent:B} lent to {lender}] ({reason})",
                zr_integer(24680000000), zr_real(3e10), zr_absent(), zr_text("nobody"),
                zr_text("a\nb"));
    ZR_SENTENCE(r, NULL, "[{disk.seconds:s}, {disk.share:.1%}; ]{} thread{}", zr_real(0.5),
                zr_real(0.125), zr_integer(2), zr_plural(2));
    zr_report_begin_list(rest, "models");
    for (int i = 0; i < 2; i++) {
        zr_report_begin(rest, NULL);
        ZR_SENTENCE(rest, "", "{name:-6}|{count:3}|{rate:.3gG}|{size:6.2}|",
                    zr_text(i ? "b" : "\u00e9"), zr_integer(7 * i), zr_real(1234567890),
                    zr_real(i + 0.125));
        zr_report_end(rest);
    }
    zr_report_end(rest);
    zr_report_append(r, rest);
    return r;
}

static void a_sentence_has_places_for_values(void **state)
{
    zr_report *r = sentences();
    assert_written(r, ZR_REPORT_TEXT, 0,
                   "memory  24.68 GB of 30.0 GB (a\\nb)\n"
                   "500 ms, 12.5%; 2 threads\n"
                   "        \u00e9     |  0|1.23|  0.12|\n"
                   "        b     |  7|1.23|  1.12|\n");
    assert_written(r, ZR_REPORT_MARKDOWN, 0,
                   "- memory: 24.68 GB of 30.0 GB (a\\nb)\n"
                   "500 ms, 12.5%; 2 threads\n"
                   "- : \u00e9     |  0|1.23|  0.12|\n"
                   "- : b     |  7|1.23|  1.12|\n");
    assert_written(
        r, ZR_REPORT_JSON, 0,
        "{\"bytes\":24680000000,\"all\":30000000000.0,\"lender\":\"nobody\",\"reason\":\"a\\nb\","
        "\"disk\":{\"seconds\":0.5,\"share\":0.125},\"models\":["
        "{\"name\":\"\u00e9\",\"count\":0,\"rate\":1234567890.0,\"size\":0.125},"
        "{\"name\":\"b\",\"count\":7,\"rate\":1234567890.0,\"size\":1.125}]}");
    zr_report_destroy(r);
}

static void a_wrong_sentence_fails(void **state)
{
    static const char *const words[] = {"{a}{b}", "none", "{a", "{a:", "{a:3x}", "{a:G"};
    for (int i = 0; i < ZR_COUNT(words); i++) {
        zr_buffer out = {0};
        zr_report *r = zr_report_create(NULL);
        ZR_SENTENCE(r, "label", words[i], zr_integer(1));
        assert_int_equal(zr_report_write(r, ZR_REPORT_TEXT, 0, &out, NULL), ZERO_ERR_USAGE);
        zr_report_destroy(r);
        zr_report *whole = zr_report_create(NULL), *part = zr_report_create(NULL);
        zr_report_begin(part, "open");
        zr_report_append(whole, part);
        assert_int_equal(zr_report_write(whole, ZR_REPORT_TEXT, 0, &out, NULL), ZERO_ERR_USAGE);
        zr_report_destroy(whole);
        zr_buffer_free(&out);
    }
    ZR_SENTENCE(NULL, "label", "{a}", zr_integer(1)); // a rank that writes nothing
}

static void a_wide_table_is_written_in_blocks(void **state)
{
    zr_report *r = example();
    zr_buffer out = {0};
    assert_int_equal(zr_report_write(r, ZR_REPORT_TEXT, 24, &out, NULL), ZERO_OK);
    const char *table = strstr(out.data, "  stage");
    assert_string_equal(table, "  stage    states  sums\n"
                               "      0   1.50 kB   7 B\n"
                               "      1   3.00 kB\n"
                               "\n"
                               "  stage  share  units\n"
                               "      0    25%  wte, h.0\n"
                               "      1    25%  h.1\n");
    zr_buffer_free(&out);
    zr_report_destroy(r);
}

static void a_report_that_is_built_wrongly_fails(void **state)
{
    for (int mistake = 0; mistake < 4; mistake++) {
        zr_report *r = zr_report_create(NULL);
        if (mistake == 0)
            zr_report_begin(r, "open");
        if (mistake == 1)
            zr_report_end(r);
        if (mistake >= 2)
            zr_report_table(r, "rows", columns, 1);
        if (mistake == 3)
            zr_report_row(r);
        for (int cell = 0; mistake >= 2 && cell < mistake - 1; cell++)
            zr_report_cell(r, zr_none());
        if (mistake >= 2)
            zr_report_end_table(r);
        zr_buffer out = {0};
        zero_error error;
        assert_int_equal(zr_report_write(r, ZR_REPORT_JSON, 0, &out, &error), ZERO_ERR_USAGE);
        zr_buffer_free(&out);
        zr_report_destroy(r);
    }
    assert_int_equal(zr_report_write(NULL, ZR_REPORT_TEXT, 0, NULL, NULL), ZERO_ERR_MEMORY);
}

static void a_report_without_memory_fails(void **state)
{
    int failures = 0;
    for (int64_t nth = 1; nth < 200; nth++) {
        zr_buffer out = {0};
        zero_status status = ZERO_ERR_MEMORY;
        zr_alloc_fail_at(nth);
        zr_report *r = zr_report_create(NULL);
        zr_report_field(r, &(zr_heading){"ranks", "ranks"}, zr_integer(4));
        zr_report_table(r, "stages", columns, ZR_COUNT(columns));
        zr_report_row(r);
        zr_report_cell(r, zr_text("many"));
        zr_report_end_table(r);
        if (r)
            status = zr_report_write(r, nth % 2 ? ZR_REPORT_TEXT : ZR_REPORT_JSON, 0, &out, NULL);
        zr_alloc_fail_at(0);
        failures += status == ZERO_ERR_MEMORY;
        assert_true(status == ZERO_OK || status == ZERO_ERR_MEMORY);
        zr_buffer_free(&out);
        zr_report_destroy(r);
    }
    assert_in_range(failures, 5, 60); // and all later ones are not reached
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_report_is_written_three_ways),
        cmocka_unit_test(a_sentence_is_made_of_phrases),
        cmocka_unit_test(a_sentence_has_places_for_values),
        cmocka_unit_test(a_wrong_sentence_fails),
        cmocka_unit_test(a_wide_table_is_written_in_blocks),
        cmocka_unit_test(a_report_that_is_built_wrongly_fails),
        cmocka_unit_test(a_report_without_memory_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
