// Safetensors files that must be refused: each rule of the format is broken once, then a good file
// is truncated at every length and changed in every byte.
#include "st_files.h"

#define X "{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":"

static const struct refusal {
    const char *header;
    size_t data_bytes;
    const char *says;
} refusals[] = {
    {"", 0, "does not begin with {"},
    {" {}", 0, "does not begin with {"},
    {"[]", 0, "does not begin with {"},
    {"{", 0, "x.safetensors"},
    {"{}}", 0, "x.safetensors"},
    {"{\"x\":\"\xff\"}", 0, "x.safetensors"},
    {"{\"x\":NaN}", 0, "x.safetensors"},
    {"{\"x\":1}", 0, "\"x\": no \"dtype\""},
    {"{\"x\":{}}", 0, "\"x\": no \"dtype\""},
    {"{\"x\":{\"dtype\":8,\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "no \"dtype\""},
    {"{\"x\":{\"dtype\":\"U9\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "unknown dtype \"U9\""},
    {"{\"x\":{\"dtype\":\"u8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "unknown dtype \"u8\""},
    {"{\"x\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", 4, "\"shape\" is not"},
    {"{\"x\":{\"dtype\":\"U8\",\"shape\":4,\"data_offsets\":[0,4]}}", 4, "\"shape\" is not"},
    {"{\"x\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}", 4, "\"shape\" is not"},
    {"{\"x\":{\"dtype\":\"U8\",\"shape\":[4.0],\"data_offsets\":[0,4]}}", 4, "\"shape\" is not"},
    {"{\"x\":{\"dtype\":\"U8\",\"shape\":[\"4\"],\"data_offsets\":[0,4]}}", 4, "\"shape\" is not"},
    {"{\"x\":{\"dtype\":\"U8\",\"shape\":[9223372036854775808],\"data_offsets\":[0,4]}}", 4,
     "x.safetensors"},
    {"{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
     "x.safetensors"},
    {"{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"x\":{\"dtype\":\"U8\","
     "\"shape\":[4],\"data_"
     "offsets\":[4,8]}}",
     8, "x.safetensors"},
    {"{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"more\":1}}", 4,
     "fields besides"},
    {"{\"x\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, "\"data_offsets\" is not"},
    {X "[]}}", 4, "\"data_offsets\" is not"},
    {X "[4]}}", 4, "\"data_offsets\" is not"},
    {X "[0,4,8]}}", 4, "\"data_offsets\" is not"},
    {X "[-4,0]}}", 4, "\"data_offsets\" is not"},
    {X "[0,4.0]}}", 4, "\"data_offsets\" is not"},
    {X "[8,4]}}", 8, "end before they begin"},
    {X "[0,5]}}", 4, "ends at byte 5 of the data, of which the file has 4"},
    {X "[9223372036854775803,9223372036854775807]}}", 4, "of which the file has 4"},
    {X "[0,3]}}", 3, "need 4 bytes, its data_offsets hold 3"},
    {X "[0,5]}}", 5, "need 4 bytes, its data_offsets hold 5"},
    {X "[1,5]}}", 5, "begins at byte 1 of the data, where the one before ends at 0"},
    {X "[0,4]}}", 5, "the file at byte"},
    {X "[0,4]}}", 3, "of which the file has 3"},
    {X "[0,4]},\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[5,7]}}", 7,
     "\"y\" begins at byte 5 of the data, where the one before ends at 4"},
    {X "[0,4]},\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}", 5,
     "\"y\" begins at byte 3 of the data, where the one before ends at 4"},
    {"{\"x\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "part of a byte"},
    {"{\"x\":{\"dtype\":\"F6_E2M3\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "part of a byte"},
    {"{\"x\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
     "too many elements"},
    {"{\"x\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0,
     "too many elements"},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":[3037000500,3037000500,2],\"data_offsets\":[0,0]}}", 0,
     "too many elements"},
    {"{\"__metadata__\":[]}", 0, "\"__metadata__\" is no object"},
    {"{\"__metadata__\":{\"format\":1}}", 0, "\"format\" is no string"},
    {"{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, "\"a\" is no string"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "x.safetensors"},
};

static void test_each_rule_of_the_format(void **state)
{
    for (int i = 0; i < ZR_COUNT(refusals); i++) {
        zr_st_set set;
        zero_error error = {0};
        zero_status status = zr_st_open(
            st_write(*state, "x.safetensors", refusals[i].header, refusals[i].data_bytes), &set,
            &error);
        if (status != ZERO_ERR_DATA || !strstr(error.message, refusals[i].says))
            fail_msg("%s\ngave %s: %s", refusals[i].header, zero_status_name(status),
                     error.message);
        assert_contains(error.message, "x.safetensors");
        assert_null(set.tensors);
    }
}

static void test_what_the_format_allows(void **state)
{
    static const struct {
        const char *header;
        size_t data_bytes;
    } allowed[] = {
        {"{\"x\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1},
        {"{\"x\":{\"dtype\":\"F6_E3M2\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3},
        {"{\"x\":{\"dtype\":\"C64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8},
        {"{\"x\":{\"dtype\":\"BOOL\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1},
        {"{\"y\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]},\"z\":{\"dtype\":\"U8\","
         "\"shape\":[0,9],"
         "\"data_offsets\":[0,0]},\"x\":{\"dtype\":\"U8\","
         "\"shape\":[4],\"data_offsets\":[0,4]}}",
         4},
        {"{\"__metadata__\":{\"format\":\"pt\",\"\":\"\"}}\n\t  ", 0},
        {"{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1},
    };
    for (int i = 0; i < ZR_COUNT(allowed); i++) {
        zr_st_set set;
        zero_error error = {0};
        if (zr_st_open(st_write(*state, "x.safetensors", allowed[i].header, allowed[i].data_bytes),
                       &set, &error) != ZERO_OK)
            fail_msg("%s\nis legal, but gave: %s", allowed[i].header, error.message);
        zr_st_close(&set);
    }
}

static void test_more_dimensions_than_we_hold(void **state)
{
    static const char header[] =
        "{\"x\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}";
    zr_st_set set;
    zero_error error;
    assert_int_equal(zr_st_open(st_write(*state, "x.safetensors", header, 1), &set, &error),
                     ZERO_ERR_UNSUPPORTED);
    assert_contains(error.message, "\"x\" has 9 dimensions");
}

static void expect_refused(scratch *made, const void *bytes, size_t length, const char *says)
{
    zr_st_set set;
    zero_error error = {0};
    assert_int_equal(zr_st_open(st_write_bytes(made, "x.safetensors", bytes, length), &set, &error),
                     ZERO_ERR_DATA);
    assert_contains(error.message, says);
    assert_contains(error.message, "x.safetensors");
}

static void test_lengths_that_cannot_be(void **state)
{
    expect_refused(*state, "", 0, "0 bytes, fewer than the 8");
    expect_refused(*state, "\2\0\0\0\0\0\0", 7, "7 bytes, fewer than the 8");
    expect_refused(*state, "\0\0\0\0\0\0\0\0", 8, "does not begin with {");
    expect_refused(*state, "\3\0\0\0\0\0\0\0{}", 10, "a header of 3 bytes in a file of 10");
    expect_refused(*state, "\1\xe1\xf5\5\0\0\0\0{}", 10,
                   "a header of 100000001 bytes, more than the 100000000");
    expect_refused(*state, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10,
                   "a header of 18446744073709551615 bytes");
    expect_refused(*state, "\xf8\xff\xff\xff\xff\xff\xff\xff{}", 10, "more than the 100000000");
}

static void test_a_directory_of_that_name(void **state)
{
    zr_st_set set;
    zero_error error;
    const char *path = scratch_path(*state, "x.safetensors");
    assert_int_equal(zr_directory_create(path, NULL), ZERO_OK);
    assert_int_equal(zr_st_open(path, &set, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "a directory");
}

static void test_a_zero_behind_a_number(void **state)
{
    static const char file[] = "\x3a\0\0\0\0\0\0\0{\"x\":{\"dtype\":\"U8\",\"shape\":[4\0],\"data_"
                               "offsets\":[0,4]}}    data";
    expect_refused(*state, file, sizeof file - 1, "byte 29 of the header is 0");
}

static void test_nesting(void **state)
{
    char header[4096] = "{\"x\":";
    memset(header + 5, '[', 4000);
    zr_st_set set;
    zero_error error;
    assert_int_equal(zr_st_open(st_write(*state, "x.safetensors", header, 0), &set, &error),
                     ZERO_ERR_DATA);
    assert_contains(error.message, "x.safetensors");
}

static void test_every_truncation(void **state)
{
    size_t length;
    char *data = golden_read(&length);
    for (size_t cut = 0; cut < length; cut++) {
        zr_st_set set;
        zero_error error;
        assert_int_equal(
            zr_st_open(st_write_bytes(*state, "x.safetensors", data, cut), &set, &error),
            ZERO_ERR_DATA);
        assert_null(set.tensors);
    }
    zr_free(data);
}

// Whatever is accepted must be readable from end to end: sizes, types and offsets that fit the
// file.
static void read_everything(const zr_st_set *set)
{
    float values[64];
    for (int i = 0; i < set->tensor_count; i++) {
        const zr_st_tensor *tensor = &set->tensors[i];
        int64_t elements = 1;
        for (int d = 0; d < tensor->dims; d++)
            elements *= tensor->shape[d];
        assert_in_range(elements, 0, 64);
        zero_status status = zr_st_read(set, tensor, 0, elements, values, NULL);
        assert_true(status == ZERO_OK || status == ZERO_ERR_UNSUPPORTED);
    }
}

static void test_every_changed_byte(void **state)
{
    static const unsigned char changes[] = {0,   ' ',  '"', ',', '-', '0', '1',  '9', ':',
                                            '[', '\\', ']', 'e', '{', '}', 0x80, 0xff};
    size_t length;
    char *data = golden_read(&length);
    uint64_t header_bytes;
    memcpy(&header_bytes, data, 8);
    int accepted = 0;
    for (size_t at = 0; at < 8 + header_bytes; at++) {
        char kept = data[at];
        for (int c = 0; c < ZR_COUNT(changes); c++) {
            zr_st_set set;
            zero_error error = {0};
            data[at] = (char)changes[c];
            if (zr_st_open(st_write_bytes(*state, "x.safetensors", data, length), &set, &error) ==
                ZERO_OK) {
                read_everything(&set);
                zr_st_close(&set);
                accepted++;
            } else {
                assert_contains(error.message, "x.safetensors");
            }
        }
        data[at] = kept;
    }
    assert_true(accepted > 0); // names and padding may change
    zr_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_rule_of_the_format, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_what_the_format_allows, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_more_dimensions_than_we_hold, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(test_lengths_that_cannot_be, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_a_directory_of_that_name, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_a_zero_behind_a_number, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_nesting, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_every_truncation, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_every_changed_byte, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
