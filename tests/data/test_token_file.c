// Token files: what each format says is read, byte by byte; every deviation is refused; and what is
// written can be read.
#include "../base/scratch_directory.h"

#include "base/alloc.h"
#include "data/token_file.h"

typedef struct bytes { // a file while it is made
    char data[4096];
    size_t length;
} bytes;

static void put(bytes *to, const void *data, size_t length)
{
    assert_true(to->length + length <= sizeof to->data);
    memcpy(to->data + to->length, data, length);
    to->length += length;
}

static void put_number(bytes *to, int64_t number, size_t width) { put(to, &number, width); }

static const char *store(scratch *dir, const char *name, const bytes *from)
{
    const char *path = scratch_path(dir, name);
    assert_int_equal(zr_file_write_durable(path, from->data, from->length, NULL), ZERO_OK);
    return path;
}

static bytes llmc(int32_t magic, int32_t version, int32_t count, const int64_t *ids, int written,
                  size_t width)
{
    bytes made = {.length = 0};
    const int32_t head[256] = {magic, version, count};
    put(&made, head, sizeof head);
    for (int i = 0; i < written; i++)
        put_number(&made, ids[i], width);
    return made;
}

static void assert_ids(const char *path, zr_token_format format, zr_token_format found,
                       const int64_t *ids, int count)
{
    zr_token_file file;
    int32_t got[16] = {0};
    assert_int_equal(zr_token_file_open(path, format, &file, NULL), ZERO_OK);
    assert_int_equal(file.format, found);
    assert_int_equal(file.count, count);
    for (int first = 0; first <= count; first++) {
        zr_token_file_read(&file, first, count - first, got);
        for (int i = first; i < count; i++)
            assert_int_equal(got[i - first], ids[i]);
    }
    zr_token_file_close(&file);
    assert_null(file.tokens);
}

static void assert_refused(const char *path, zr_token_format format, const char *what)
{
    zr_token_file file;
    zero_error error = {0};
    assert_int_equal(zr_token_file_open(path, format, &file, &error), ZERO_ERR_DATA);
    assert_contains(error.message, what);
    assert_contains(error.message, path);
    assert_null(file.path);
}

static void llmc_in_both_widths(void **state)
{
    scratch *dir = *state;
    static const int64_t small[] = {0, 50256, 65535}, large[] = {0, 128255, 2147483647};
    bytes file = llmc(20240520, 1, 3, small, 3, 2);
    assert_ids(store(dir, "a.bin", &file), ZR_TOKENS_DETECT, ZR_TOKENS_LLMC, small, 3);
    file = llmc(20240801, 7, 3, large, 3, 4);
    assert_ids(store(dir, "a.bin", &file), ZR_TOKENS_DETECT, ZR_TOKENS_LLMC, large, 3);
    assert_ids(dir->path, ZR_TOKENS_LLMC, ZR_TOKENS_LLMC, large, 3);
}

static void llmc_that_is_not_exact(void **state)
{
    scratch *dir = *state;
    static const int64_t ids[4] = {1, 2, 3, 4};
    bytes file = llmc(20240520, 1, 3, ids, 2, 2);
    assert_refused(store(dir, "a.bin", &file), ZR_TOKENS_DETECT,
                   "counts 3 tokens of 2 bytes, 4 bytes follow");
    file = llmc(20240520, 1, 3, ids, 4, 2);
    assert_refused(store(dir, "a.bin", &file), ZR_TOKENS_DETECT, "8 bytes follow");
    file = llmc(20240520, 1, -1, ids, 0, 2);
    assert_refused(store(dir, "a.bin", &file), ZR_TOKENS_DETECT, "counts -1");
    file = llmc(20240801, 1, 1, ids, 1, 4);
    assert_refused(store(dir, "a.bin", &file), ZR_TOKENS_DETECT,
                   "version 1 of llm.c's magic 20240801, where 7");
    file.length = 900;
    assert_refused(store(dir, "a.bin", &file), ZR_TOKENS_DETECT,
                   "900 bytes, fewer than llm.c's header");
    file = llmc(7, 1, 1, ids, 1, 2);
    assert_refused(store(dir, "a.bin", &file), ZR_TOKENS_LLMC, "does not begin with a magic");
    file.length = 0;
    assert_refused(store(dir, "a.bin", &file), ZR_TOKENS_DETECT, "empty");
}

static void nanogpt_has_no_header(void **state)
{
    scratch *dir = *state;
    static const int64_t ids[] = {50256, 0, 198};
    bytes file = {.length = 0};
    for (int i = 0; i < 3; i++)
        put_number(&file, ids[i], 2);
    assert_ids(store(dir, "train.bin", &file), ZR_TOKENS_DETECT, ZR_TOKENS_NANOGPT, ids, 3);
    put_number(&file, 0, 1);
    assert_refused(store(dir, "train.bin", &file), ZR_TOKENS_DETECT,
                   "7 bytes, not a multiple of 2 (uint16)");
    zr_token_file none;
    assert_int_equal(
        zr_token_file_open(scratch_path(dir, "absent.bin"), ZR_TOKENS_DETECT, &none, NULL),
        ZERO_ERR_IO);
    assert_true(zr_token_file_is_name("x.bin") && zr_token_file_is_name("d/x.idx"));
    assert_false(zr_token_file_is_name("x.txt") || zr_token_file_is_name(".bin") ||
                 zr_token_file_is_name("bin"));
}

typedef struct megatron { // an index to be spoilt
    const char *magic;
    int64_t version, dtype, sequences, marks;
    int64_t lengths[4], pointers[4], first[4];
} megatron;

static void store_megatron(scratch *dir, const megatron *m, const int64_t *ids, int count,
                           size_t width, size_t cut)
{
    bytes index = {.length = 0}, body = {.length = 0};
    put(&index, m->magic, 9);
    put_number(&index, m->version, 8);
    put_number(&index, m->dtype, 1);
    put_number(&index, m->sequences, 8);
    put_number(&index, m->marks, 8);
    for (int i = 0; i < 3; i++)
        put_number(&index, m->lengths[i], 4);
    for (int i = 0; i < 3; i++)
        put_number(&index, m->pointers[i], 8);
    for (int i = 0; i < 3; i++)
        put_number(&index, m->first[i], 8);
    index.length -= cut;
    for (int i = 0; i < count; i++)
        put_number(&body, ids[i], width);
    store(dir, "m.idx", &index);
    store(dir, "m.bin", &body);
}

// Three sequences of 2, 0 and 3 tokens; documents {0, 1} and {2}.
static const megatron sound = {.magic = "MMIDIDX\0",
                               .version = 1,
                               .dtype = 4,
                               .sequences = 3,
                               .marks = 3,
                               .lengths = {2, 0, 3},
                               .pointers = {0, 8, 8},
                               .first = {0, 2, 3}};
static const int64_t five[] = {10, 70000, 30, 40, 50};

static void megatron_tells_documents_apart(void **state)
{
    scratch *dir = *state;
    static const struct {
        int64_t dtype;
        size_t width;
    } types[] = {{1, 1}, {2, 1}, {3, 2}, {8, 2}, {4, 4}, {5, 8}};
    static const int64_t modest[] = {10, 127, 30, 40, 50};
    for (int i = 0; i < ZR_COUNT(types); i++) {
        megatron m = sound;
        m.dtype = types[i].dtype;
        m.pointers[1] = m.pointers[2] = 2 * (int64_t)types[i].width;
        store_megatron(dir, &m, modest, 5, types[i].width, 0);
        assert_ids(scratch_path(dir, "m.bin"), ZR_TOKENS_DETECT, ZR_TOKENS_MEGATRON, modest, 5);
        assert_ids(scratch_path(dir, "m.idx"), ZR_TOKENS_DETECT, ZR_TOKENS_MEGATRON, modest, 5);
    }
    store_megatron(dir, &sound, five, 5, 4, 0);
    zr_token_file file;
    int64_t first, count;
    assert_int_equal(zr_token_file_open(scratch_path(dir, "m"), ZR_TOKENS_MEGATRON, &file, NULL),
                     ZERO_OK);
    assert_int_equal(file.documents, 2);
    zr_token_file_document(&file, 0, &first, &count);
    assert_true(first == 0 && count == 2);
    zr_token_file_document(&file, 1, &first, &count);
    assert_true(first == 2 && count == 3);
    zr_token_file_close(&file);
}

static void assert_read(const zr_token_file *file, const int32_t *expected, int64_t count)
{
    int32_t ids[16];
    assert_int_equal(file->count, count);
    for (int64_t first = 0; first <= count; first++)
        for (int64_t n = 0; first + n <= count; n++) {
            zr_token_file_read(file, first, n, ids);
            assert_memory_equal(ids, expected + first, (size_t)n * sizeof *ids);
        }
}

// A set whose documents have no end token gets one behind each; one that has them is left as it is.
static void documents_of_megatron_end(void **state)
{
    static const int64_t ended[] = {11, 9, 12, 13, 9};
    scratch *dir = *state;
    zr_token_file file;
    store_megatron(dir, &sound, five, 5, 4, 0);
    assert_int_equal(zr_token_file_open(scratch_path(dir, "m.bin"), ZR_TOKENS_DETECT, &file, NULL),
                     ZERO_OK);
    int32_t plain[5];
    for (int i = 0; i < 5; i++)
        plain[i] = (int32_t)five[i];
    zr_token_file_end_documents(&file, -1);
    assert_read(&file, plain, 5);
    zr_token_file_end_documents(&file, 9);
    assert_read(&file, (int32_t[]){plain[0], plain[1], 9, plain[2], plain[3], plain[4], 9}, 7);
    zr_token_file_close(&file);
    store_megatron(dir, &sound, ended, 5, 4, 0);
    assert_int_equal(zr_token_file_open(dir->path, ZR_TOKENS_DETECT, &file, NULL), ZERO_OK);
    zr_token_file_end_documents(&file, 9);
    assert_read(&file, (int32_t[]){11, 9, 12, 13, 9}, 5);
    zr_token_file_close(&file);
}

static void megatron_that_is_not_exact(void **state)
{
    scratch *dir = *state;
    static const struct {
        size_t offset; // of the number in `megatron` that is spoilt
        int64_t value;
        const char *what;
    } cases[] = {
        {offsetof(megatron, version), 2, "version 2"},
        {offsetof(megatron, dtype), 6, "data type 6"},
        {offsetof(megatron, dtype), 0, "data type 0"},
        {offsetof(megatron, dtype), 8, "where the one before ends at 4"},
        {offsetof(megatron, sequences), 4, "its tables need"},
        {offsetof(megatron, sequences), INT64_MAX, "sequences"},
        {offsetof(megatron, marks), 0, "0 marks"},
        {offsetof(megatron, marks), -1, "marks"},
        {offsetof(megatron, lengths[0]), 3,
         "sequence 1 has 0 tokens from byte 8 on, where the one before ends at 12"},
        {offsetof(megatron, lengths[2]), 4, "have 24"},
        {offsetof(megatron, lengths[2]), -3, "sequence 2 has -3"},
        {offsetof(megatron, pointers[0]), 4, "sequence 0"},
        {offsetof(megatron, pointers[2]), INT64_MIN, "sequence 2"},
        {offsetof(megatron, first[0]), 1, "document 0 begins at sequence 1"},
        {offsetof(megatron, first[1]), 4, "document 1 begins at sequence 4"},
        {offsetof(megatron, first[2]), 2, "document 2 begins at sequence 2"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        megatron m = sound;
        memcpy((char *)&m + cases[i].offset, &cases[i].value, sizeof(int64_t));
        store_megatron(dir, &m, five, 5, 4, 0);
        assert_refused(scratch_path(dir, "m.idx"), ZR_TOKENS_DETECT, cases[i].what);
    }
    megatron m = sound;
    m.magic = "MMIDIDY\0";
    store_megatron(dir, &m, five, 5, 4, 0);
    assert_refused(scratch_path(dir, "m.idx"), ZR_TOKENS_DETECT, "does not begin as an index");
    for (size_t cut = 1; cut < 34 + 60; cut += 7) {
        store_megatron(dir, &sound, five, 5, 4, cut);
        assert_refused(scratch_path(dir, "m.idx"), ZR_TOKENS_DETECT, "m.idx");
    }
    zr_token_file file;
    assert_int_equal(zr_directory_remove(dir->directory, NULL) |
                         zr_directory_create(dir->directory, NULL),
                     ZERO_OK);
    scratch_write(dir, "m.idx", "MMIDIDX");
    // no m.bin
    assert_int_equal(zr_token_file_open(scratch_path(dir, "m.idx"), ZR_TOKENS_DETECT, &file, NULL),
                     ZERO_ERR_IO);
}

static void ids_above_the_vocabulary_are_named(void **state)
{
    scratch *dir = *state;
    zr_token_file file;
    zero_error error = {0};
    store_megatron(dir, &sound, five, 5, 4, 0);
    assert_int_equal(zr_token_file_open(scratch_path(dir, "m.bin"), ZR_TOKENS_DETECT, &file, NULL),
                     ZERO_OK);
    assert_int_equal(zr_token_file_check(&file, 0, 5, 70001, NULL), ZERO_OK);
    assert_int_equal(zr_token_file_check(&file, 0, 5, 70000, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "token 1 has the id 70000, the vocabulary ends at 69999");
    assert_int_equal(zr_token_file_check(&file, 2, 3, 51, NULL), ZERO_OK);
    assert_int_equal(zr_token_file_check(&file, 2, 3, 50, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "token 4 ");
    zr_token_file_close(&file);
    static const int64_t wide[] = {1, -1, 1ll << 31, 1ll << 32, 5};
    megatron m = sound;
    m.dtype = 5;
    m.pointers[1] = m.pointers[2] = 16;
    store_megatron(dir, &m, wide, 5, 8, 0);
    assert_int_equal(zr_token_file_open(scratch_path(dir, "m.bin"), ZR_TOKENS_DETECT, &file, NULL),
                     ZERO_OK);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(zr_token_file_check(&file, i, 5 - i, INT64_MAX, &error), ZERO_ERR_DATA);
        assert_contains(error.message, "is no id");
    }
    assert_int_equal(zr_token_file_check(&file, 4, 1, INT64_MAX, NULL), ZERO_OK);
    zr_token_file_close(&file);
}

static void assert_written(scratch *dir, int64_t vocabulary, int expected_bytes)
{
    enum { COUNT = 100000 };
    char name[32];
    snprintf(name, sizeof name, "%lld.bin", (long long)vocabulary);
    int32_t *ids = zr_alloc(COUNT * sizeof *ids, NULL),
            *back = zr_alloc(COUNT * sizeof *back, NULL);
    zr_token_writer writer;
    zr_token_file file;
    for (int i = 0; i < COUNT; i++)
        ids[i] = (int32_t)((i * 7919ll) % vocabulary);
    ids[COUNT - 1] = (int32_t)vocabulary - 1;
    assert_int_equal(zr_token_writer_open(scratch_path(dir, name), vocabulary, &writer, NULL),
                     ZERO_OK);
    for (int at = 0, part = 1; at < COUNT; at += part, part = ZR_MIN(3 * part, COUNT - at))
        assert_int_equal(zr_token_writer_append(&writer, ids + at, part, NULL), ZERO_OK);
    assert_false(zr_path_exists(dir->path));
    assert_int_equal(zr_token_writer_commit(&writer, NULL), ZERO_OK);
    assert_int_equal(zr_token_file_open(dir->path, ZR_TOKENS_DETECT, &file, NULL), ZERO_OK);
    assert_int_equal(file.format, ZR_TOKENS_LLMC);
    assert_int_equal(file.count, COUNT);
    assert_int_equal(file.bytes, expected_bytes);
    zr_token_file_read(&file, 0, COUNT, back);
    assert_memory_equal(ids, back, COUNT * sizeof *ids);
    assert_int_equal(zr_token_file_check(&file, 0, COUNT, vocabulary - 1, NULL), ZERO_ERR_DATA);
    zr_token_file_close(&file);
    zr_free(ids);
    zr_free(back);
}

static void what_is_written_comes_back(void **state)
{
    assert_written(*state, 50257, 2);
    assert_written(*state, 65536, 2);
    assert_written(*state, 65537, 4);
}

static void nothing_is_there_before_the_end(void **state)
{
    scratch *dir = *state;
    static const int32_t ids[] = {1, 2};
    zr_token_writer writer;
    scratch_write(dir, "out.bin", "old");
    assert_int_equal(zr_token_writer_open(dir->path, 10, &writer, NULL), ZERO_OK);
    assert_int_equal(zr_token_writer_append(&writer, ids, 2, NULL), ZERO_OK);
    writer.count = INT32_MAX - 1; // as if so many were there
    zero_error error = {0};
    assert_int_equal(zr_token_writer_append(&writer, ids, 2, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "write several files");
    zr_token_writer_discard(&writer);
    zr_token_writer_discard(&writer);
    char *text;
    size_t length;
    assert_int_equal(zr_file_read(dir->path, 10, &text, &length, NULL), ZERO_OK);
    assert_string_equal(text, "old");
    zr_free(text);
    for (int nth = 1; nth <= 3; nth++) {
        zr_alloc_fail_at(nth);
        assert_int_equal(zr_token_writer_open(dir->path, 10, &writer, NULL), ZERO_ERR_MEMORY);
        zr_alloc_fail_at(0);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)
    const struct CMUnitTest tests[] = {
        CASE(llmc_in_both_widths),
        CASE(llmc_that_is_not_exact),
        CASE(nanogpt_has_no_header),
        CASE(megatron_tells_documents_apart),
        CASE(documents_of_megatron_end),
        CASE(megatron_that_is_not_exact),
        CASE(ids_above_the_vocabulary_are_named),
        CASE(what_is_written_comes_back),
        CASE(nothing_is_there_before_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
