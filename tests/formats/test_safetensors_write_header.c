// The header that we write equals the reference writer's, byte for byte.
#include "base/dtype.h"
#include "st_files.h"

static void put_element(char *out, zero_dtype dtype, int64_t i)
{
    float value = (float)(i - 3) / 4;
    switch (dtype) {
    case ZERO_F32: memcpy(out, &value, 4); break;
    case ZERO_F64: memcpy(out, &(double){value}, 8); break;
    case ZERO_F16: memcpy(out, &(uint16_t){zr_f32_to_f16(value)}, 2); break;
    case ZERO_BF16: memcpy(out, &(uint16_t){zr_f32_to_bf16(value)}, 2); break;
    case ZERO_I32: memcpy(out, &(int32_t){(int32_t)i - 3}, 4); break;
    case ZERO_I64: memcpy(out, &(int64_t){i - 3}, 8); break;
    case ZERO_U8: *out = (char)i; break;
    }
}

static void test_the_reference_writers_bytes(void **state)
{
    zr_st_entry entries[ZR_COUNT(golden)];
    zr_st_layout layout;
    size_t length;
    for (int i = 0; i < ZR_COUNT(golden); i++)
        entries[i] = golden[i].entry;
    assert_int_equal(zr_st_layout_create(entries, ZR_COUNT(golden), "", &layout, NULL), ZERO_OK);
    char *expected = golden_read(&length), *written = zr_alloc((size_t)layout.total, NULL);
    assert_int_equal(layout.total, length);
    memcpy(written, layout.header.data, layout.header.length);
    for (int i = 0; i < ZR_COUNT(golden); i++) {
        for (int64_t e = 0; e < golden[i].elements; e++) {
            zero_dtype dtype = golden[i].entry.dtype;
            put_element(written + layout.begin[i] + e * (int64_t)zero_dtype_bytes(dtype), dtype, e);
        }
    }
    assert_memory_equal(written, expected, length);
    zr_free(written);
    zr_free(expected);
    zr_st_layout_free(&layout);
    assert_null(layout.begin);
}

static void test_prefix_and_escapes(void **state)
{
    const zr_st_entry entries[] = {
        {"wte.weight", ZERO_F32, 2, (const int64_t[]){2, 3}},
        {"a\"\\\n\xc3\xa9", ZERO_F32, 1, (const int64_t[]){1}},
    };
    static const char expected[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"transformer.a\\\"\\\\\\n\xc3\xa9\":{\"dtype\":"
        "\"F32\",\"shape\":[1],"
        "\"data_offsets\":[0,4]},"
        "\"transformer.wte.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]}}";
    zr_st_layout layout;
    uint64_t header_bytes;
    assert_int_equal(zr_st_layout_create(entries, 2, "transformer.", &layout, NULL), ZERO_OK);
    memcpy(&header_bytes, layout.header.data, 8);
    assert_int_equal(header_bytes, layout.header.length - 8);
    assert_int_equal(header_bytes % 8, 0);
    assert_memory_equal(layout.header.data + 8, expected, sizeof expected - 1);
    for (size_t i = 8 + sizeof expected - 1; i < layout.header.length; i++)
        assert_int_equal(layout.header.data[i], ' ');
    // in the order given, not the file's
    assert_int_equal(layout.begin[0], (int64_t)layout.header.length + 4);
    assert_int_equal(layout.begin[1], layout.header.length);
    assert_int_equal(layout.total, layout.header.length + 28);
    zr_st_layout_free(&layout);
}

// A head of labels has what is peft's of a prefix, and its place in the file by its whole name.
static void test_heads_of_labels_stand_next_to_the_model(void **state)
{
    const zr_st_entry entries[] = {
        {"h.0.weight", ZERO_F32, 1, (const int64_t[]){1}},
        {"score.weight", ZERO_F32, 1, (const int64_t[]){1}},
    };
    static const struct {
        const char *prefix, *score, *other;
    } cases[] = {
        {"base_model.model.transformer.", "\"base_model.model.score.weight\"",
         "\"base_model.model.transformer.h.0.weight\""},
        {"transformer.", "\"score.weight\"", "\"transformer.h.0.weight\""},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zr_st_layout layout;
        assert_int_equal(zr_st_layout_create(entries, 2, cases[i].prefix, &layout, NULL), ZERO_OK);
        zr_buffer_append(&layout.header, "", 1);
        const char *score = strstr(layout.header.data + 8, cases[i].score),
                   *other = strstr(layout.header.data + 8, cases[i].other);
        assert_true(score && other && score < other);
        assert_true(layout.begin[1] < layout.begin[0]);
        zr_st_layout_free(&layout);
    }
}

static void test_no_tensors(void **state)
{
    zr_st_layout layout;
    assert_int_equal(zr_st_layout_create(NULL, 0, "", &layout, NULL), ZERO_OK);
    assert_memory_equal(layout.header.data + 8, "{\"__metadata__\":{\"format\":\"pt\"}}", 32);
    assert_int_equal(layout.total, 40);
    zr_st_layout_free(&layout);
}

static void test_sizes_that_overflow(void **state)
{
    const int64_t huge[] = {INT64_C(1) << 31, INT64_C(1) << 31}, half[] = {INT64_C(1) << 57};
    const zr_st_entry one[] = {{"huge", ZERO_F32, 2, huge}};
    zr_st_entry many[64];
    zr_st_layout layout;
    zero_error error;
    assert_int_equal(zr_st_layout_create(one, 1, "", &layout, &error), ZERO_ERR_USAGE);
    assert_contains(error.message, "\"huge\"");
    assert_null(layout.header.data);
    for (int i = 0; i < 64; i++) // each fits, their sum does not
        many[i] = (zr_st_entry){"half", ZERO_U8, 1, half};
    assert_int_equal(zr_st_layout_create(many, 64, "", &layout, &error), ZERO_ERR_USAGE);
}

static void test_every_allocation_may_fail(void **state)
{
    zero_status status = ZERO_ERR_MEMORY;
    for (int nth = 1; status != ZERO_OK; nth++) {
        zr_st_layout layout;
        zero_error error = {0};
        zr_alloc_fail_at(nth);
        status = zr_st_layout_create(&golden[0].entry, 1, "transformer.", &layout, &error);
        zr_alloc_fail_at(0);
        assert_int_equal(status, error.status);
        assert_true(status == ZERO_OK || status == ZERO_ERR_MEMORY);
        assert_true(nth < 100);
        zr_st_layout_free(&layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_reference_writers_bytes),
        cmocka_unit_test(test_prefix_and_escapes),
        cmocka_unit_test(test_heads_of_labels_stand_next_to_the_model),
        cmocka_unit_test(test_no_tensors),
        cmocka_unit_test(test_sizes_that_overflow),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
