// Rows of Parquet files that pyarrow has written (tests/oracle/parquet.py) are those of the lines
// of JSON next to them; damaged files are refused. With a file as its argument the program prints
// the rows as lines of JSON, for that script.
#include "base/alloc.h"
#include "base/file.h"
#include "data/parquet.h"
#include "data/parquet_codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

typedef struct content {
    char *data;
    size_t length;
} content;

static content read_file(const char *name, const char *suffix)
{
    char path[512];
    content c;
    snprintf(path, sizeof path, GOLDEN "/%s%s", name, suffix);
    assert_int_equal(zr_file_read(path, 1 << 24, &c.data, &c.length, NULL), ZERO_OK);
    return c;
}

// Takes the next line of JSON.
static json_t *next_line(const char **at)
{
    const char *end = strchr(*at, '\n');
    json_t *row = NULL;
    if (!end)
        return NULL;
    assert_int_equal(zr_json_parse(*at, (size_t)(end - *at), "golden", &row, NULL), ZERO_OK);
    *at = end + 1;
    return row;
}

static bool needs_library(zero_status status) { return status == ZERO_ERR_UNSUPPORTED; }

static void check_file(const char *name)
{
    content file = read_file(name, ".parquet"), lines = read_file(name, ".jsonl");
    const char *at = lines.data;
    zr_parquet *parquet;
    zero_error error = {0};
    if (zr_parquet_open(name, file.data, file.length, &parquet, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    int64_t rows = 0;
    for (json_t *expected; (expected = next_line(&at)) != NULL; rows++) {
        json_t *row;
        zero_status status = zr_parquet_next(parquet, "row", &row, &error);
        if (needs_library(status) && strstr(error.message, "was built without")) {
            json_decref(expected);
            break;
        }
        if (status != ZERO_OK || !json_equal(row, expected))
            fail_msg("%s, row %lld: %s", name, (long long)rows + 1,
                     status == ZERO_OK ? "another one" : error.message);
        json_decref(row);
        json_decref(expected);
    }
    if (!error.status) {
        json_t *row;
        assert_int_equal(zr_parquet_rows(parquet), rows);
        assert_int_equal(zr_parquet_next(parquet, "row", &row, NULL), ZERO_OK);
        assert_null(row);
    }
    zr_parquet_close(parquet);
    zr_free(file.data);
    zr_free(lines.data);
}

static void test_rows(void **state)
{
    static const char *const names[] = {"messages", "conversations", "types", "nested",
                                        "deltas",   "gzip",          "zstd",  "version2"};
    for (int i = 0; i < ZR_COUNT(names); i++)
        check_file(names[i]);
}

// Reads all rows of data[0..length), which need not be right.
static zero_status read_all(const char *data, size_t length, zero_error *error)
{
    char *copy =
        malloc(length ? length : 1); // of that size, so that what is read beyond it is seen
    zr_parquet *parquet;
    json_t *row = NULL;
    memcpy(copy, data, length);
    zero_status status = zr_parquet_open("f", copy, length, &parquet, error);
    for (bool more = true; status == ZERO_OK && more; json_decref(row)) {
        status = zr_parquet_next(parquet, "f: row", &row, error);
        more = row != NULL;
    }
    zr_parquet_close(parquet);
    free(copy);
    return status;
}

static void test_damaged_files(void **state)
{
    content file = read_file("messages", ".parquet");
    for (size_t length = 0; length < file.length; length++) {
        zero_error error = {0};
        assert_int_equal(read_all(file.data, length, &error), ZERO_ERR_DATA);
        assert_non_null(strstr(error.message, "f: "));
    }
    for (size_t at = 0; at < file.length; at++) {
        file.data[at] ^= 0x55;
        read_all(file.data, file.length, NULL); // is taken or refused: it does not crash
        file.data[at] ^= 0x55;
    }
    zr_free(file.data);
}

// A row group that says another number of rows than its columns have.
static void test_rows_are_counted(void **state)
{
    content file = read_file("conversations", ".parquet"); // 6 rows: Thrift's 12
    int refused = 0;
    for (size_t at = file.length / 2; at + 1 < file.length; at++) {
        zero_error error = {0};
        if (file.data[at] != 0x16 || file.data[at + 1] != 12)
            continue;
        for (int rows = 5; rows < 8; rows += 2) {
            file.data[at + 1] = (char)(2 * rows);
            if (read_all(file.data, file.length, &error) != ZERO_OK)
                refused += strstr(error.message, "have not the same rows") != NULL;
        }
        file.data[at + 1] = 12;
    }
    assert_int_equal(refused, 2);
    zr_free(file.data);
}

// A few hundred bytes that say that a row's list has five million numbers.
static void test_a_row_is_bounded(void **state)
{
    content file = read_file("endless", ".parquet");
    zero_error error = {0};
    assert_true(file.length < 8192);
    assert_int_equal(read_all(file.data, file.length, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "f: row: more than 4 Mi items"));
    zr_free(file.data);
}

static void test_no_memory(void **state)
{
    content file = read_file("nested", ".parquet");
    int64_t before = zr_alloc_count();
    assert_int_equal(read_all(file.data, file.length, NULL), ZERO_OK);
    int64_t count = zr_alloc_count() - before;
    assert_true(count > 10);
    for (int64_t nth = 1; nth <= count; nth++) {
        zr_alloc_fail_at(nth);
        assert_int_equal(read_all(file.data, file.length, NULL), ZERO_ERR_MEMORY);
        zr_alloc_fail_at(0);
    }
    zr_free(file.data);
}

static void test_snappy(void **state)
{
    static const struct {
        const char *packed;
        size_t length;
        const char *expected; // NULL: refused
    } cases[] = {
        {"\3\10abc", 5, "abc"},
        {"\5\0a\1\1", 5, "aaaaa"}, // a copy that overlaps: 4 more bytes
        {"\5\0a\16\1\0", 6, "aaaaa"},
        {"\5\0a\17\1\0\0\0", 8, "aaaaa"},
        {"\3\360\2abc", 6, "abc"}, // a length of its own byte
        {"\3\10ab", 4, NULL},
        {"\4\10abc", 5, NULL},
        {"\2\10abc", 5, NULL},
        {"\5\0a\1\2", 5, NULL}, // from before the beginning
        {"\5\0a\1\0", 5, NULL},
        {"\5\0a\16\1", 5, NULL},
        {"", 0, NULL},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        uint8_t out[8] = {0};
        size_t room = cases[i].expected ? strlen(cases[i].expected) : 5;
        assert_int_equal(
            zr_snappy_unpack((const uint8_t *)cases[i].packed, cases[i].length, out, room),
            cases[i].expected != NULL);
        if (cases[i].expected)
            assert_memory_equal(out, cases[i].expected, room);
    }
}

static int print_rows(const char *path)
{
    char *data, *line;
    size_t length;
    zr_parquet *parquet;
    json_t *row = NULL;
    zero_error error = {0};
    zero_status status = zr_file_read(path, (size_t)1 << 30, &data, &length, &error);
    if (status == ZERO_OK)
        status = zr_parquet_open(path, data, length, &parquet, &error);
    while (status == ZERO_OK &&
           (status = zr_parquet_next(parquet, path, &row, &error)) == ZERO_OK && row) {
        puts(line = json_dumps(row, JSON_COMPACT | JSON_ENSURE_ASCII));
        free(line);
        json_decref(row);
    }
    if (status != ZERO_OK)
        fprintf(stderr, "%s\n", error.message);
    return status != ZERO_OK;
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_rows_are_counted),
        cmocka_unit_test(test_a_row_is_bounded),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_snappy),
    };
    if (count > 1)
        return print_rows(arguments[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
