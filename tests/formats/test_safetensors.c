// Reading safetensors: the reference writer's file, conversions, shards by index.
// test_safetensors_refusals.c tests what is refused.
#include "st_files.h"

static void test_the_reference_writers_file(void **state)
{
    zr_st_set set;
    assert_int_equal(zr_st_open(GOLDEN_FILE, &set, NULL), ZERO_OK);
    assert_int_equal(set.tensor_count, ZR_COUNT(golden));
    for (int i = 0; i < ZR_COUNT(golden); i++) {
        const zr_st_entry *entry = &golden[i].entry;
        const zr_st_tensor *tensor = zr_st_find(&set, entry->name);
        float values[16] = {0};
        assert_non_null(tensor);
        assert_int_equal(tensor->dims, entry->dims);
        for (int d = 0; d < entry->dims; d++)
            assert_int_equal(tensor->shape[d], entry->shape[d]);
        bool integer =
            entry->dtype == ZERO_I32 || entry->dtype == ZERO_I64 || entry->dtype == ZERO_U8;
        zero_status status = zr_st_read(&set, tensor, 0, golden[i].elements, values, NULL);
        assert_int_equal(status, integer ? ZERO_ERR_UNSUPPORTED : ZERO_OK);
        for (int64_t e = 0; e < golden[i].elements && !integer; e++)
            assert_true(values[e] == (float)(e - 3) / 4);
    }
    zr_st_close(&set);
    assert_null(set.tensors);
}

static void test_tensors_are_sorted_by_name(void **state)
{
    zr_st_set set;
    assert_int_equal(zr_st_open(GOLDEN_FILE, &set, NULL), ZERO_OK);
    for (int i = 1; i < set.tensor_count; i++)
        assert_true(strcmp(set.tensors[i - 1].name, set.tensors[i].name) < 0);
    zr_st_close(&set);
}

static void test_names_with_and_without_prefix(void **state)
{
    zr_st_set set;
    assert_int_equal(zr_st_open(GOLDEN_FILE, &set, NULL), ZERO_OK);
    assert_string_equal(zr_st_find(&set, "wte.weight")->name, "transformer.wte.weight");
    assert_string_equal(zr_st_find(&set, "transformer.wte.weight")->name, "transformer.wte.weight");
    assert_string_equal(zr_st_find(&set, "h.0.ln_1.bias")->name, "transformer.h.0.ln_1.bias");
    assert_string_equal(zr_st_find(&set, "half")->name, "half");
    assert_string_equal(zr_st_find(&set, "transformer.half")->name, "half");
    assert_null(zr_st_find(&set, "wte"));
    assert_null(zr_st_find(&set, ""));
    assert_null(zr_st_find(&set, "transformer."));
    assert_null(zr_st_find(&set, "zzz"));
    zr_st_close(&set);
}

static void test_no_tensors_at_all(void **state)
{
    zr_st_set set;
    assert_int_equal(zr_st_open(st_write(*state, "none.safetensors", "{}", 0), &set, NULL),
                     ZERO_OK);
    assert_int_equal(set.tensor_count, 0);
    assert_null(zr_st_find(&set, "a"));
    zr_st_close(&set);
}

static void test_unpadded_header_and_any_order(void **state)
{
    zr_st_set set;
    static const char header[] =
        "{\"b\":{\"shape\":[2],\"data_offsets\":[3,11],\"dtype\":\"F32\"},\"a\":{\"dtype\":"
        "\"U8\",\"shape\":[3],\"data_offsets\":[0,3]} }";
    assert_int_equal(zr_st_open(st_write(*state, "odd.safetensors", header, 11), &set, NULL),
                     ZERO_OK);
    assert_int_equal(zr_st_find(&set, "b")->begin, 8 + strlen(header) + 3);
    assert_int_equal(zr_st_find(&set, "a")->end, 8 + strlen(header) + 3);
    zr_st_close(&set);
}

// Tensors of the four floating types, longer than the reader's block, read in pieces that meet
// nowhere.
static void test_ranges_of_every_floating_type(void **state)
{
    enum { COUNT = 5000 };
    static const struct {
        const char *dtype;
        size_t bytes;
    } types[] = {{"F32", 4}, {"F64", 8}, {"F16", 2}, {"BF16", 2}};
    for (int t = 0; t < ZR_COUNT(types); t++) {
        char header[128];
        double value = 0;
        zr_buffer file = {0};
        snprintf(header, sizeof header,
                 "{\"x\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[0,%zu]}}",
                 types[t].dtype, COUNT, COUNT * types[t].bytes);
        zr_buffer_append(&file, &(uint64_t){strlen(header)}, 8);
        zr_buffer_append(&file, header, strlen(header));
        for (int i = 0; i < COUNT; i++) {
            value = i % 251;
            float narrow = (float)value;
            uint32_t bits;
            memcpy(&bits, &narrow, 4);
            int exponent = narrow > 0 ? (int)(bits >> 23) - 127 : -15;
            uint16_t half = (uint16_t)((exponent + 15) << 10 | (bits >> 13 & 0x3ff)),
                     brain = (uint16_t)(bits >> 16);
            const void *stored = t == 0   ? (void *)&narrow
                                 : t == 1 ? (void *)&value
                                 : t == 2 ? (void *)&half
                                          : (void *)&brain;
            zr_buffer_append(&file, stored, types[t].bytes);
        }
        zr_st_set set;
        float out[COUNT];
        assert_int_equal(
            zr_st_open(st_write_bytes(*state, "x.safetensors", file.data, file.length), &set, NULL),
            ZERO_OK);
        for (int64_t first = 0; first < COUNT; first += 617) {
            int64_t count = first % 2 ? COUNT - first : (COUNT - first) / 2;
            assert_int_equal(zr_st_read(&set, set.tensors, first, count, out, NULL), ZERO_OK);
            for (int64_t i = 0; i < count; i++)
                assert_true(out[i] == (float)((first + i) % 251));
        }
        assert_int_equal(zr_st_read(&set, set.tensors, COUNT, 0, out, NULL), ZERO_OK);
        zr_st_close(&set);
        zr_buffer_free(&file);
    }
}

static void test_special_values(void **state)
{
    static const char header[] =
        "{\"d\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[0,24]},\"h\":{\"dtype\":"
        "\"F16\",\"shape\":[4],\"data_offsets\":[24,32]}}";
    zr_buffer file = {0};
    zr_buffer_append(&file, &(uint64_t){sizeof header - 1}, 8);
    zr_buffer_append(&file, header, sizeof header - 1);
    zr_buffer_append(&file, (double[]){1e300, -0.0, 1.0 / 3}, 24);
    zr_buffer_append(&file, (uint16_t[]){0x7c00, 0xfc00, 0x7e00, 0x0001}, 8);
    zr_st_set set;
    float out[4];
    assert_int_equal(
        zr_st_open(st_write_bytes(*state, "s.safetensors", file.data, file.length), &set, NULL),
        ZERO_OK);
    assert_int_equal(zr_st_read(&set, zr_st_find(&set, "d"), 0, 3, out, NULL), ZERO_OK);
    assert_true(out[0] == __builtin_inff() && out[1] == 0 && __builtin_signbit(out[1]) &&
                out[2] == 1.0f / 3);
    assert_int_equal(zr_st_read(&set, zr_st_find(&set, "h"), 0, 4, out, NULL), ZERO_OK);
    assert_true(out[0] == __builtin_inff() && out[1] == -__builtin_inff() && out[2] != out[2] &&
                out[3] == 0x1p-24f);
    zr_st_close(&set);
    zr_buffer_free(&file);
}

#define SHARD(name, bytes)                                                                         \
    "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[" bytes "],\"data_offsets\":[0," bytes "]}}"

static void write_shards(scratch *made, const char *index)
{
    st_write(made, "model-00001-of-00002.safetensors", SHARD("b", "3"), 3);
    st_write(made, "model-00002-of-00002.safetensors", SHARD("a", "5"), 5);
    scratch_write(made, "model.safetensors.index.json", index);
}

static void test_shards_by_their_index(void **state)
{
    scratch *made = *state;
    zr_st_set set;
    write_shards(made, "{\"metadata\":{\"total_size\":8},\"weight_map\":{\"a\":\"model-00002-of-"
                       "00002.safetensors\","
                       "\"b\":\"model-00001-of-00002.safetensors\"}}");
    assert_int_equal(zr_st_open(made->directory, &set, NULL), ZERO_OK);
    assert_int_equal(set.file_count, 2);
    assert_int_equal(set.tensor_count, 2);
    assert_int_equal(zr_st_find(&set, "a")->shape[0], 5);
    assert_non_null(strstr(set.paths[zr_st_find(&set, "b")->file], "model-00001-of-00002"));
    zr_st_close(&set);
    st_write(made, "model.safetensors", SHARD("c", "1"), 1); // one whole file goes first
    assert_int_equal(zr_st_open(made->directory, &set, NULL), ZERO_OK);
    assert_int_equal(set.tensor_count, 1);
    zr_st_close(&set);
    remove(scratch_path(made, "model.safetensors"));
}

static void test_index_and_shards_that_disagree(void **state)
{
    static const struct {
        const char *index, *says;
        zero_status status;
    } cases[] = {
        {"{", "model.safetensors.index.json", ZERO_ERR_DATA},
        {"{}", "no object \"weight_map\"", ZERO_ERR_DATA},
        {"{\"weight_map\":[]}", "no object \"weight_map\"", ZERO_ERR_DATA},
        {"{\"weight_map\":{\"a\":1}}", "\"a\" is no string", ZERO_ERR_DATA},
        {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}",
         "\"../x.safetensors\" is not the name of a file next to it", ZERO_ERR_DATA},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "not the name of a file", ZERO_ERR_DATA},
        {"{\"weight_map\":{\"a\":\"..\"}}", "not the name of a file", ZERO_ERR_DATA},
        {"{\"weight_map\":{\"a\":\"\"}}", "not the name of a file", ZERO_ERR_DATA},
        {"{\"weight_map\":{\"a\":\"absent.safetensors\"}}", "absent.safetensors", ZERO_ERR_IO},
        {"{\"weight_map\":{\"b\":\"model-00002-of-00002.safetensors\"}}",
         "\"b\" should lie in model-00002", ZERO_ERR_DATA},
        {"{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\",\"b\":\"model-00002-of-00002."
         "safetensors\"}}",
         "where it does not", ZERO_ERR_DATA},
        {"{\"weight_map\":{\"b\":\"model-00001-of-00002.safetensors\",\"c\":\"model-00001-of-00002."
         "safetensors\"}}",
         "\"c\" should lie", ZERO_ERR_DATA},
        {"{\"weight_map\":{\"a\":\"twice.safetensors\",\"b\":\"model-00002-of-00002.safetensors\"}"
         "}",
         "tensor \"a\" lies in", ZERO_ERR_DATA},
        {"{\"weight_map\":{\"a\":\"model-00002-of-00002.safetensors\",\"d\":\"more.safetensors\"}}",
         "does not name the tensor \"e\"", ZERO_ERR_DATA},
    };
    scratch *made = *state;
    st_write(made, "twice.safetensors", SHARD("a", "5"), 5);
    st_write(made, "more.safetensors",
             "{\"d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"e\":{\"dtype\":"
             "\"U8\",\"shape\":[0],"
             "\"data_offsets\":[0,0]}}",
             0);
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zr_st_set set;
        zero_error error = {0};
        write_shards(made, cases[i].index);
        assert_int_equal(zr_st_open(made->directory, &set, &error), cases[i].status);
        assert_contains(error.message, cases[i].says);
        assert_null(set.paths);
    }
}

static void test_directories_without_a_model(void **state)
{
    zr_st_set set;
    zero_error error;
    assert_int_equal(zr_st_open("/nonexistent", &set, &error), ZERO_ERR_IO);
    assert_contains(error.message, "/nonexistent");
    assert_int_equal(zr_st_open("/nonexistent/x.safetensors", &set, &error), ZERO_ERR_IO);
    assert_contains(error.message, "/nonexistent/x.safetensors");
}

static void test_every_allocation_may_fail(void **state)
{
    scratch *made = *state;
    zero_status status = ZERO_ERR_MEMORY;
    write_shards(made, "{\"weight_map\":{\"a\":\"model-00002-of-00002.safetensors\",\"b\":\"model-"
                       "00001-of-00002.safetensors\"}}");
    for (int nth = 1; status != ZERO_OK; nth++) {
        zr_st_set set;
        zero_error error = {0};
        zr_alloc_fail_at(nth);
        status = zr_st_open(made->directory, &set, &error);
        zr_alloc_fail_at(0);
        assert_int_equal(status, error.status);
        assert_true(status == ZERO_OK || status == ZERO_ERR_MEMORY);
        assert_true(nth < 200);
        zr_st_close(&set); // also after a failure: it is empty then
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_reference_writers_file),
        cmocka_unit_test(test_tensors_are_sorted_by_name),
        cmocka_unit_test(test_names_with_and_without_prefix),
        cmocka_unit_test_setup_teardown(test_no_tensors_at_all, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_unpadded_header_and_any_order, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(test_ranges_of_every_floating_type, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(test_special_values, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_shards_by_their_index, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_index_and_shards_that_disagree, scratch_open,
                                        scratch_close),
        cmocka_unit_test(test_directories_without_a_model),
        cmocka_unit_test_setup_teardown(test_every_allocation_may_fail, scratch_open,
                                        scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
