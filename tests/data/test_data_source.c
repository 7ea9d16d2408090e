// Arguments of --data: kinds, weights, patterns, and names that look like them.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "data/data_source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char directory[] = "/tmp/zero-source-XXXXXX";

static void put(const char *name, const void *data, size_t length)
{
    assert_int_equal(zr_file_write_durable(name, data, length, NULL), ZERO_OK);
}

static int make_files(void **state)
{
    static const char *const names[] = {"a.txt",   "b.txt",   "c.jsonl", "d.bin", "e.txt:0.5",
                                        "jsonl:f", "[g].txt", "x10",     "x9"};
    const int32_t magic = 20240520;
    if (!mkdtemp(directory) || chdir(directory))
        return 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put(names[i], "text", 4);
    put("magic", &magic, sizeof magic);
    return 0;
}

static int remove_files(void **state)
{
    return chdir("/") || zr_directory_remove(directory, NULL) != ZERO_OK;
}

static void check(const char *written, const char *paths, zr_data_kind kind, zr_token_format format,
                  double weight)
{
    zr_data_source source;
    char joined[256] = "";
    assert_int_equal(zr_data_source_parse(written, &source, NULL), ZERO_OK);
    assert_string_equal(source.written, written);
    for (int i = 0; i < source.path_count; i++) {
        strcat(strcat(joined, i ? " " : ""), source.paths[i]);
        assert_int_equal(zr_data_source_kind_of(&source, source.paths[i]), kind);
    }
    assert_string_equal(joined, paths);
    assert_int_equal(source.format, format);
    assert_true(source.weight == weight);
    zr_data_source_free(&source);
}

static void test_parts_of_an_argument(void **state)
{
    check("a.txt", "a.txt", ZR_DATA_TEXT, ZR_TOKENS_DETECT, 0);
    check("a.txt:0.7", "a.txt", ZR_DATA_TEXT, ZR_TOKENS_DETECT, 0.7);
    check("a.txt:1e-3", "a.txt", ZR_DATA_TEXT, ZR_TOKENS_DETECT, 1e-3);
    check("c.jsonl:3", "c.jsonl", ZR_DATA_JSONL, ZR_TOKENS_DETECT, 3);
    check("jsonl:a.txt", "a.txt", ZR_DATA_JSONL, ZR_TOKENS_DETECT, 0);
    check("jsonl:a.txt:2", "a.txt", ZR_DATA_JSONL, ZR_TOKENS_DETECT, 2);
    check("text:c.jsonl", "c.jsonl", ZR_DATA_TEXT, ZR_TOKENS_DETECT, 0);
    check("text:d.bin:4", "d.bin", ZR_DATA_TEXT, ZR_TOKENS_DETECT, 4);
    check("d.bin", "d.bin", ZR_DATA_TOKENS, ZR_TOKENS_DETECT, 0);
    check("magic", "magic", ZR_DATA_TOKENS, ZR_TOKENS_DETECT, 0);
    check("nanogpt:a.txt", "a.txt", ZR_DATA_TOKENS, ZR_TOKENS_NANOGPT, 0);
    check("llmc:a.txt", "a.txt", ZR_DATA_TOKENS, ZR_TOKENS_LLMC, 0);
    check("megatron:a.txt", "a.txt", ZR_DATA_TOKENS, ZR_TOKENS_MEGATRON, 0);
    check("tokens:a.txt", "a.txt", ZR_DATA_TOKENS, ZR_TOKENS_DETECT, 0);
    // opening it says that it is not there
    check("absent.json", "absent.json", ZR_DATA_JSONL, ZR_TOKENS_DETECT, 0);
    check("absent.txt:soon", "absent.txt:soon", ZR_DATA_TEXT, ZR_TOKENS_DETECT, 0);
}

static void test_a_file_of_that_name_wins(void **state)
{
    check("e.txt:0.5", "e.txt:0.5", ZR_DATA_TEXT, ZR_TOKENS_DETECT, 0);
    check("e.txt:0.5:0.25", "e.txt:0.5", ZR_DATA_TEXT, ZR_TOKENS_DETECT, 0.25);
    check("text:e.txt:0.5", "e.txt:0.5", ZR_DATA_TEXT, ZR_TOKENS_DETECT, 0);
    check("jsonl:f", "jsonl:f", ZR_DATA_TEXT, ZR_TOKENS_DETECT, 0);
    check("[g].txt", "[g].txt", ZR_DATA_TEXT, ZR_TOKENS_DETECT, 0);
}

static void test_patterns(void **state)
{
    check("?.txt", "a.txt b.txt", ZR_DATA_TEXT, ZR_TOKENS_DETECT, 0);
    check("[ab].txt:0.5", "a.txt b.txt", ZR_DATA_TEXT, ZR_TOKENS_DETECT, 0.5);
    check("x*", "x10 x9", ZR_DATA_TEXT, ZR_TOKENS_DETECT, 0); // by bytes, not by numbers
    check("jsonl:*.txt", "[g].txt a.txt b.txt", ZR_DATA_JSONL, ZR_TOKENS_DETECT, 0);
}

static void refuse(const char *written, const char *words)
{
    zr_data_source source;
    zero_error error = {0};
    assert_int_equal(zr_data_source_parse(written, &source, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, words));
    assert_null(source.paths);
}

static void test_what_is_refused(void **state)
{
    refuse("nothing*.txt", "matches no file");
    refuse("a.txt:0", "above 0");
    refuse("a.txt:-1", "above 0");
    refuse("a.txt:inf", "above 0");
    refuse("a.txt:nan", "above 0");
    refuse("jsonl:", "names no file");
}

static void test_no_memory(void **state)
{
    zr_data_source source;
    int64_t before = zr_alloc_count();
    assert_int_equal(zr_data_source_parse("?.txt:0.5", &source, NULL), ZERO_OK);
    zr_data_source_free(&source);
    for (int64_t nth = 1, all = zr_alloc_count() - before; nth <= all; nth++) {
        zero_error error = {0};
        zr_alloc_fail_at(nth);
        assert_int_equal(zr_data_source_parse("?.txt:0.5", &source, &error), ZERO_ERR_MEMORY);
        zr_alloc_fail_at(0);
        assert_int_equal(error.status, ZERO_ERR_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_an_argument),
        cmocka_unit_test(test_a_file_of_that_name_wins),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
