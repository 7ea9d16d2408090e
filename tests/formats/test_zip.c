// Archives: what torch.save wrote is read. What is truncated, damaged or contradictory is refused,
// and nothing outside the file is ever read.
#include "st_files.h"
#include "formats/torch_file.h"

#define FIXTURE                                                                                    \
    DEEPSPEED_DIR "/s2-schedule-r3/global_step3/zero_pp_rank_0_mp_rank_00_optim_states.pt"

typedef struct part {
    const char *name, *bytes;
} part;

static void put(zr_buffer *out, uint64_t value, int bytes)
{
    for (; bytes > 0; bytes--, value >>= 8)
        zr_buffer_append(out, &value, 1);
}

// As `zip -0` would make it; CRC-32s are left 0 but where the test gives one.
static zr_buffer archive(const part *parts, int count, const uint32_t *crcs)
{
    zr_buffer file = {0}, directory = {0};
    for (int i = 0; i < count; i++) {
        uint64_t at = file.length, length = strlen(parts[i].bytes), name = strlen(parts[i].name),
                 crc = crcs ? crcs[i] : 0;
        put(&file, 0x04034b50, 4), put(&file, 0, 10), put(&file, crc, 4), put(&file, length, 4),
            put(&file, length, 4), put(&file, name, 2), put(&file, 0, 2);
        zr_buffer_append(&file, parts[i].name, name);
        zr_buffer_append(&file, parts[i].bytes, length);
        put(&directory, 0x02014b50, 4), put(&directory, 0, 12), put(&directory, crc, 4),
            put(&directory, length, 4), put(&directory, length, 4), put(&directory, name, 2);
        put(&directory, 0, 12), put(&directory, at, 4);
        zr_buffer_append(&directory, parts[i].name, name);
    }
    uint64_t begin = file.length;
    zr_buffer_append(&file, directory.data, directory.length);
    put(&file, 0x06054b50, 4), put(&file, 0, 4), put(&file, (uint64_t)count, 2),
        put(&file, (uint64_t)count, 2), put(&file, directory.length, 4), put(&file, begin, 4),
        put(&file, 0, 2);
    zr_buffer_free(&directory);
    return file;
}

enum { END = 22, ENTRY = 46, HEADER = 30 };
static const part two[] = {{"x/a", "hello"}, {"x/b", "world!"}};
static const uint32_t two_crcs[] = {0x3610a686, 0x718498e8}; // of "hello", "world!"

static zero_status open_bytes(scratch *made, const zr_buffer *file, zr_zip *zip, zero_error *error)
{
    *error = (zero_error){0};
    return zr_zip_open(st_write_bytes(made, "z.pt", file->data, file->length), zip, error);
}

static void refused(scratch *made, const zr_buffer *file, const char *words)
{
    zr_zip zip;
    zero_error error;
    assert_int_equal(open_bytes(made, file, &zip, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "z.pt");
    assert_contains(error.message, words);
}

static void set(zr_buffer *file, size_t at, uint64_t value, int bytes)
{
    memcpy(file->data + at, &value, (size_t)bytes);
}

static void test_archive(void **state)
{
    zr_zip zip;
    zero_error error;
    char bytes[8] = "";
    zr_buffer file = archive(two, 2, two_crcs);
    assert_int_equal(open_bytes(*state, &file, &zip, &error), ZERO_OK);
    const zr_zip_record *b = zr_zip_find(&zip, "x/b");
    assert_true(zip.count == 2 && b && b->bytes == 6 && !zr_zip_find(&zip, "x/c") &&
                !zr_zip_find(&zip, "b"));
    assert_int_equal(pread(zip.fd, bytes, 6, b->begin), 6);
    assert_string_equal(bytes, "world!");
    assert_int_equal(zr_zip_verify(&zip, NULL, NULL, &error), ZERO_OK);
    zr_zip_close(&zip);
    file.data[HEADER + 3 + 2] ^= 1; // of "hello"
    assert_int_equal(open_bytes(*state, &file, &zip, &error), ZERO_OK);
    assert_int_equal(zr_zip_verify(&zip, NULL, NULL, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "record \"x/a\", 5 bytes at 33");
    zr_zip_close(&zip);
    zr_buffer_free(&file);
    file = archive(two, 2, NULL); // torch.serialization.set_crc32_options(False)
    assert_int_equal(open_bytes(*state, &file, &zip, &error), ZERO_OK);
    assert_int_equal(zr_zip_verify(&zip, NULL, NULL, &error), ZERO_OK);
    zr_zip_close(&zip);
    zr_buffer_free(&file);
}

static void test_contradictions(void **state)
{
    static const part same[] = {{"x/a", "hello"}, {"x/a", "world!"}};
    zr_buffer file = archive(same, 2, NULL);
    refused(*state, &file, "is there twice");
    zr_buffer_free(&file);
    // entries of the directory
    const size_t first = 2 * HEADER + 6 + 11, second = first + ENTRY + 3;
    const struct {
        size_t at;
        uint64_t value;
        int bytes;
        const char *words;
    } cases[] = {
        {second + 42, 0, 4, "another header"}, // both entries at the first record
        {second + 20, 7, 4, "two sizes"},
        {first + 10, 8, 2, "compressed"},
        {8, 8, 2, "another header"},
        {first + 8, 1, 2, "encrypted"},
        {second + 42, 0x7fffffff, 4, "outside of the archive"},
        {first + 28, 0, 2, "damaged"},
        {first + 28, 60000, 2, "damaged"},
        {first + 30, 9, 2, "two sizes"},
        {26, 4, 2, "another header"},
        {HEADER, 'y', 1, "another header"},
        {28, 50000, 2, "outside of the archive"},
        {first, 0, 4, "damaged"},
        {second + ENTRY + 3 + 8, 1, 4, "volumes"},
        {second + ENTRY + 3 + 16, 0x7fffffff, 4, "outside"},
        {second + ENTRY + 3 + 12, 0x7fffffff, 4, "outside"},
        {second + ENTRY + 3 + 8, 0x00010001, 4, "longer than what it counts"},
        {second + ENTRY + 3 + 8, 0xffffffff, 4, "too small"},
        {second + ENTRY + 3 + 20, 1, 2, "does not end as one"},
        {second + ENTRY + 1, 0, 1, "damaged"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        file = archive(two, 2, NULL);
        set(&file, cases[i].at, cases[i].value, cases[i].bytes);
        refused(*state, &file, cases[i].words);
        zr_buffer_free(&file);
    }
    // The first record reaches into the second's header: both sizes, in the directory, say so.
    file = archive(two, 2, NULL);
    set(&file, first + 20, 20, 4), set(&file, first + 24, 20, 4);
    refused(*state, &file, "overlaps");
    zr_buffer_free(&file);
    file = archive(two, 2, NULL); // the second, into the directory
    set(&file, second + 20, 7, 4), set(&file, second + 24, 7, 4);
    refused(*state, &file, "outside of the archive");
    set(&file, first + 20, 1000, 4), set(&file, first + 24, 1000, 4);
    refused(*state, &file, "outside of the archive");
    // sizes in an extra field that is not there
    set(&file, first + 20, 0xffffffff, 4), set(&file, first + 24, 0xffffffff, 4);
    refused(*state, &file, "outside of the archive");
    zr_buffer_free(&file);
}

static void test_cut_and_flipped(void **state)
{
    char *data;
    size_t length;
    zr_zip zip;
    zero_error error;
    assert_int_equal(zr_file_read(FIXTURE, 1 << 20, &data, &length, NULL), ZERO_OK);
    zr_buffer file = {.data = data, .length = length};
    assert_int_equal(open_bytes(*state, &file, &zip, &error), ZERO_OK);
    assert_int_equal(zr_zip_verify(&zip, NULL, NULL, &error), ZERO_OK);
    int64_t first = INT64_MAX, last = 0;
    for (int i = 0; i < zip.count; i++) {
        first = ZR_MIN(first, zip.records[i].begin);
        last = ZR_MAX(last, zip.records[i].begin + zip.records[i].bytes);
    }
    zr_zip original = zip;
    for (size_t cut = 0; cut < length; cut += 1 + cut / 50) {
        file.length = cut;
        assert_int_equal(open_bytes(*state, &file, &zip, &error), ZERO_ERR_DATA);
    }
    file.length = length;
    // whatever opens and agrees with its checksums has the same records
    for (size_t at = 0; at<length; at += at> 4096 && at < length - 4096 ? 7 : 1) {
        data[at] ^= 0x10;
        zero_status status = open_bytes(*state, &file, &zip, &error);
        if (status == ZERO_OK) {
            bool agrees = zr_zip_verify(&zip, NULL, NULL, &error) == ZERO_OK;
            for (int i = 0; i < original.count; i++) {
                const zr_zip_record *record = &original.records[i],
                                    *found = zr_zip_find(&zip, record->name);
                assert_false(agrees && (int64_t)at >= record->begin &&
                             (int64_t)at < record->begin + record->bytes);
                assert_true(!agrees || (found && found->begin == record->begin &&
                                        found->bytes == record->bytes));
            }
            zr_zip_close(&zip);
        } else {
            assert_int_equal(status, ZERO_ERR_DATA);
        }
        data[at] ^= 0x10;
    }
    assert_true(first < last);
    zr_zip_close(&original);
    zr_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_archive, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_contradictions, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_cut_and_flipped, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
