// Files compressed by gzip and zstd: what comes out, and what is refused. The arrays are the text
// {"text": "abc"}\n, 40 times, as Python's gzip (mtime 0) and libzstd compress it.
#include "corpus_files.h"
#include "data/unpack.h"

// clang-format off
static const unsigned char packed_gzip[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xab, 0x56, 0x2a, 0x49, 0xad, 0x28,
    0x51, 0xb2, 0x52, 0x50, 0x4a, 0x4c, 0x4a, 0x56, 0xaa, 0xe5, 0xaa, 0x1e, 0xe5, 0x8f, 0xf2, 0xe9,
    0xc8, 0x07, 0x00, 0x2a, 0xc8, 0x53, 0x8f, 0x80, 0x02, 0x00, 0x00,
};
static const unsigned char packed_zstd[] = {
    0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x68, 0xbd, 0x00, 0x00, 0x80, 0x7b, 0x22, 0x74, 0x65, 0x78, 0x74,
    0x22, 0x3a, 0x20, 0x22, 0x61, 0x62, 0x63, 0x22, 0x7d, 0x0a, 0x01, 0x00, 0xda, 0x4c, 0x35, 0x97,
    0xd7, 0x5e, 0x81, 0xc3,
};
// clang-format on

typedef struct packed {
    const char *name, *library;
    const unsigned char *bytes;
    size_t length;
    zero_status (*unpack)(const char *data, size_t length, zr_unpacked *out, zero_error *error);
} packed;

static const packed kinds[] = {
    {"gz", "zlib", packed_gzip, sizeof packed_gzip,
#ifdef ZR_DATA_ZLIB
     zr_unpack_gzip
#endif
    },
    {"zst", "libzstd", packed_zstd, sizeof packed_zstd,
#ifdef ZR_DATA_ZSTD
     zr_unpack_zstd
#endif
    },
};

static const char *make_text(int times)
{
    static char text[64 * 100];
    *text = 0;
    for (int i = 0; i < times; i++)
        strcat(text, "{\"text\": \"abc\"}\n");
    return text;
}

static zero_status unpack_bytes(const void *bytes, size_t length, zr_mapped_file *out,
                                zero_error *error)
{
    return zr_unpack("f", &(zr_mapped_file){.data = bytes, .length = length}, NULL, out, error);
}

static void check(const packed *kind, const unsigned char *bytes, size_t length,
                  const char *expected)
{
    zr_mapped_file file;
    zero_error error = {0};
    if (unpack_bytes(bytes, length, &file, &error) != ZERO_OK)
        fail_msg("%s: %s", kind->name, error.message);
    assert_int_equal(file.length, strlen(expected));
    assert_memory_equal(file.data, expected, file.length);
    zr_file_unmap(&file);
}

static void refuse(const unsigned char *bytes, size_t length, const char *words)
{
    zr_mapped_file file;
    zero_error error = {0};
    assert_int_equal(unpack_bytes(bytes, length, &file, &error), ZERO_ERR_DATA);
    assert_null(file.data);
    if (!strstr(error.message, words))
        fail_msg("\"%s\", where \"%s\" should be said", error.message, words);
}

static void test_both_kinds(void **state)
{
    for (int k = 0; k < ZR_COUNT(kinds); k++) {
        unsigned char twice[256];
        zero_error error = {0};
        zr_mapped_file file;
        assert_int_equal(zr_unpack_is_built(k ? "zstd" : "gzip"), kinds[k].unpack != NULL);
        if (!kinds[k].unpack) {
            assert_int_equal(unpack_bytes(kinds[k].bytes, kinds[k].length, &file, &error),
                             ZERO_ERR_UNSUPPORTED);
            assert_non_null(strstr(error.message, kinds[k].library));
            continue;
        }
        check(&kinds[k], kinds[k].bytes, kinds[k].length, make_text(40));
        memcpy(twice, kinds[k].bytes, kinds[k].length);
        memcpy(twice + kinds[k].length, kinds[k].bytes, kinds[k].length);
        check(&kinds[k], twice, 2 * kinds[k].length, make_text(80));
        for (size_t cut = 4; cut < kinds[k].length; cut++)
            refuse(kinds[k].bytes, cut, "it is cut off");
        twice[kinds[k].length - 6] ^= 1; // in the check sum, or in what it is of
        refuse(twice, kinds[k].length, "cannot unpack \"f\": ");
        refuse(twice, kinds[k].length + 1, "cannot unpack \"f\": ");
    }
    zr_mapped_file file;
    assert_int_equal(unpack_bytes("text", 4, &file, NULL), ZERO_OK);
    assert_null(file.data);
}

static void test_what_comes_out_is_bounded(void **state)
{
    for (int k = 0; k < ZR_COUNT(kinds); k++) {
        zr_unpacked out = {.path = "bomb", .limit = 100};
        zero_error error = {0};
        char room[100];
        if (!kinds[k].unpack)
            continue;
        out.data = room;
        out.capacity = sizeof room;
        assert_int_equal(
            kinds[k].unpack((const char *)kinds[k].bytes, kinds[k].length, &out, &error),
            ZERO_ERR_DATA);
        assert_non_null(strstr(error.message, "\"bomb\" unpacks to more than 100 bytes"));
        assert_true(out.data == room && out.length == sizeof room);
    }
}

// Records under any name of their kind, and text; the same tokens as of the files themselves.
static void test_a_corpus_reads_them(void **state)
{
    static const char *const names[] = {"r.jsonl.%s", "jsonl:r.%s", "r.json", "r.txt.%s",
                                        "text:r.%s"};
    put_text("plain.jsonl", make_text(40));
    put_text("plain.txt", make_text(40));
    for (int k = 0; k < ZR_COUNT(kinds); k++) {
        for (int n = 0; n < ZR_COUNT(names) && kinds[k].unpack; n++) {
            char name[32];
            snprintf(name, sizeof name, names[n], kinds[k].name);
            put(strchr(name, ':') ? strchr(name, ':') + 1 : name, kinds[k].bytes, kinds[k].length);
            opened o = open_well(words, 8, true, name, NULL),
                   plain = open_well(words, 8, true, n < 3 ? "plain.jsonl" : "plain.txt", NULL);
            assert_true(zr_dataset_hash(&o.train, 0, 1, NULL) ==
                        zr_dataset_hash(&plain.train, 0, 1, NULL));
            assert_int_equal(o.held.count, plain.held.count);
            close_opened(&o);
            close_opened(&plain);
        }
    }
}

// A rank that follows another one looks into a compressed file only when it reads it.
static void test_a_rank_that_follows(void **state)
{
    const zr_reading reading = {.tokenizer = words, .vocabulary = 256, .seq = 8};
    put_text("plain.jsonl", make_text(40));
    for (int k = 0; k < ZR_COUNT(kinds); k++) {
        const char *const argument = "packed.jsonl";
        const zr_corpus_options options = {
            .arguments = &argument, .count = 1, .chat = &chat, .follows = true};
        opened o = {0};
        if (!kinds[k].unpack)
            continue;
        put(argument, kinds[k].bytes, kinds[k].length);
        opened plain = open_well(words, 8, true, "plain.jsonl", NULL);
        assert_int_equal(zr_corpus_open(&options, &o.corpus, NULL), ZERO_OK);
        assert_int_equal(zr_corpus_bytes(o.corpus), 0);
        assert_int_equal(zr_corpus_read(o.corpus, &reading, &o.train, &o.held, NULL), ZERO_OK);
        assert_int_equal(zr_corpus_bytes(o.corpus), zr_corpus_bytes(plain.corpus));
        assert_true(zr_dataset_hash(&o.train, 0, 1, NULL) ==
                    zr_dataset_hash(&plain.train, 0, 1, NULL));
        close_opened(&o);
        close_opened(&plain);
    }
}

typedef struct beats {
    int count;
    size_t done, total;
} beats;

static void count_beat(void *user, const char *name, size_t done, size_t total)
{
    beats *b = user;
    assert_string_equal(name, "p");
    assert_true(done >= b->done && done <= total);
    *b = (beats){.count = b->count + 1, .done = done, .total = total};
}

// What is large is unpacked into a file that nobody sees, with the same bytes.
static void test_much_is_unpacked_into_a_spill(void **state)
{
    enum { TIMES = 3000 };
    for (int k = 0; k < ZR_COUNT(kinds); k++) {
        size_t length = kinds[k].length * TIMES, text = 0;
        char *packed = zr_alloc(length, NULL);
        zr_mapped_file kept, spilled;
        if (!kinds[k].unpack || !packed) {
            zr_free(packed);
            continue;
        }
        for (int i = 0; i < TIMES; i++)
            memcpy(packed + (size_t)i * kinds[k].length, kinds[k].bytes, kinds[k].length);
        assert_int_equal(unpack_bytes(packed, length, &kept, NULL), ZERO_OK);
        beats heard = {0};
        const zr_watch watch = {.beat = count_beat, .user = &heard};
        const zr_mapped_file whole = {.data = packed, .length = length};
        zr_unpacked out = {.path = "p",
                           .packed = &whole,
                           .left = length,
                           .watch = &watch,
                           .limit = SIZE_MAX,
                           .most = 10000};
        assert_int_equal(kinds[k].unpack(packed, length, &out, NULL), ZERO_OK);
        assert_non_null(out.spill);
        assert_int_equal(zr_unpacked_finish(&out, &spilled, NULL), ZERO_OK);
        zr_unpacked_free(&out);
        assert_true(heard.count > 1 && heard.done == length && heard.total == length);
        text = strlen(make_text(40)) * TIMES;
        assert_int_equal(kept.length, text);
        assert_int_equal(spilled.length, text);
        assert_true(spilled.on_disk && !kept.on_disk);
        assert_memory_equal(kept.data, spilled.data, text);
        zr_file_unmap(&kept);
        zr_file_unmap(&spilled);
        zr_free(packed);
    }
}

static void test_names(void **state)
{
    zr_corpus *corpus;
    zero_error error;
    const char *const tokens = "nanogpt:ids.bin.gz";
    assert_true(zr_packed_path_ends("a.csv.gz", ".csv") && zr_packed_path_ends("a.csv", ".csv"));
    assert_true(zr_packed_path_ends("a.json.zst", ".json"));
    assert_false(zr_packed_path_ends(".json.zst", ".json") || zr_packed_path_ends("a.gz", ".json"));
    put("ids.bin.gz", packed_gzip, sizeof packed_gzip);
    assert_int_equal(
        zr_corpus_open(&(zr_corpus_options){.arguments = &tokens, .count = 1}, &corpus, &error),
        ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "\"ids.bin.gz\" is compressed by its name"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_kinds),
        cmocka_unit_test(test_what_comes_out_is_bounded),
        cmocka_unit_test(test_a_corpus_reads_them),
        cmocka_unit_test(test_a_rank_that_follows),
        cmocka_unit_test(test_much_is_unpacked_into_a_spill),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
