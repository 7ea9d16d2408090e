// The check of a checkpoint's files: a header longer than an extent is one checksum over all of its
// extents, and a survey goes on after what is damaged or not there.
#include "../base/scratch_directory.h"
#include "base/file.h"
#include "formats/manifest.h"

enum { HEADER = 2 * (1 << 20) + 5000, FILES = 3 };
static_assert(HEADER > 2 * ZR_EXTENT_BYTES, "a header has three extents");

static char data[HEADER];

static void write_file(scratch *made, const char *name, size_t bytes)
{
    FILE *file = fopen(scratch_path(made, name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void count_bytes(void *user, int64_t bytes) { *(int64_t *)user += bytes; }

typedef struct told { // of a survey
    int64_t bytes;
    int count;
    char messages[FILES][ZERO_MESSAGE_BYTES];
} told;

static void count_told(void *user, int64_t bytes) { count_bytes(&((told *)user)->bytes, bytes); }

static void take_damage(void *user, const zero_error *what)
{
    told *t = user;
    assert_true(t->count < FILES);
    snprintf(t->messages[t->count++], sizeof t->messages[0], "%s", what->message);
}

static zr_manifest_file header_alone(char *name)
{
    return (zr_manifest_file){.name = name,
                              .bytes = HEADER,
                              .header_bytes = HEADER,
                              .header_checksum = zr_crc32c(0, data, sizeof data)};
}

static void every_extent_of_a_header_counts(void **state)
{
    static const int64_t places[] = {8, ZR_EXTENT_BYTES, 2 * ZR_EXTENT_BYTES - 1, HEADER - 1};
    scratch *made = *state;
    zero_error error = {0};
    for (int i = 0; i < HEADER; i++)
        data[i] = (char)(i * 31 + i / 4099);
    zr_manifest_file file = header_alone("long");
    const zr_manifest manifest = {.file_count = 1, .files = &file};
    int64_t bytes = 0;
    write_file(made, "long", sizeof data);
    assert_int_equal(zr_manifest_verify(made->directory, &manifest, count_bytes, &bytes, &error),
                     ZERO_OK);
    assert_int_equal(bytes, HEADER);
    for (int i = 0; i < ZR_COUNT(places); i++) {
        data[places[i]] ^= 1;
        write_file(made, "long", sizeof data);
        data[places[i]] ^= 1;
        assert_int_equal(zr_manifest_verify(made->directory, &manifest, NULL, NULL, &error),
                         ZERO_ERR_DATA);
        assert_contains(error.message, "/long\" is damaged: the header, 2102152 bytes at 0, has");
    }
}

// A file that is not there, one of another size, and one with another header.
static void a_survey_goes_on_after_damage(void **state)
{
    scratch *made = *state;
    zero_error error = {0};
    told told = {0};
    zr_manifest_file files[FILES] = {header_alone("gone"), header_alone("short"),
                                     header_alone("other")};
    const zr_manifest manifest = {.file_count = FILES, .files = files};
    write_file(made, "short", sizeof data - 1);
    write_file(made, "other", sizeof data);
    files[2].header_checksum ^= 1;
    assert_int_equal(zr_manifest_verify(made->directory, &manifest, NULL, NULL, &error),
                     ZERO_ERR_IO);
    assert_int_equal(
        zr_manifest_verify_all(made->directory, &manifest, count_told, take_damage, &told, &error),
        ZERO_OK);
    assert_int_equal(told.count, FILES);
    assert_int_equal(told.bytes, HEADER); // of the last
    assert_contains(told.messages[0], "/gone\": No such file");
    assert_contains(told.messages[1], "/short\" has 2102151 bytes, the manifest says 2102152");
    assert_contains(told.messages[2], "/other\" is damaged: the header, 2102152 bytes at 0, has");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_extent_of_a_header_counts, scratch_in_ram,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(a_survey_goes_on_after_damage, scratch_in_ram,
                                        scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
