// Weights of any source are written as Hugging Face's files: split as its writers split them, in
// the requested type, and with its names.
#include "st_files.h"
#include "array_view.h"
#include "base/dtype.h"
#include "formats/safetensors_write.h"
#include "checkpoint/states.h"

#include <math.h>
#include <sys/stat.h>

enum { TENSORS = 4, TOTAL = 40 + 300 + 2 + 0 };
static const zero_tensor_desc model[TENSORS] = {
    {.name = "wte.weight", .dims = 2, .shape = {8, 5}},
    {.name = "wpe.weight", .dims = 1, .shape = {300}},
    {.name = "ln_f.bias", .dims = 1, .shape = {2}},
    {.name = "none", .dims = 2, .shape = {0, 4}},
};
static const int64_t sizes[TENSORS] = {40, 300, 2, 0};

static float value(int i)
{
    return i == 41 ? 70000.0f : i == 42 ? -65519.0f : 0.37f * (float)(i - 100);
}

// A checkpoint of ours with the model's weights at DIR/step.
static void save(scratch *made)
{
    float values[TOTAL];
    const zero_tensor_desc *list[TENSORS];
    zr_weight_range ranges[TENSORS];
    array_view view;
    zero_comm *comm;
    zero_error error;
    int64_t at = 0;
    for (int i = 0; i < TOTAL; i++)
        values[i] = value(i);
    for (int t = 0; t < TENSORS; at += sizes[t++]) {
        list[t] = &model[t];
        ranges[t] = (zr_weight_range){.tensor = &model[t],
                                      .at = zr_rectangle_of_stretch(0, sizes[t]),
                                      .data = &values[at],
                                      .dtype = ZERO_F32};
    }
    array_view_fill(&view, list, TENSORS, ranges, TENSORS);
    json_t *facts = json_pack("{s:i}", "step", 3);
    assert_int_equal(zero_comm_self(&comm, NULL), ZERO_OK);
    assert_int_equal(
        zr_states_save(comm, scratch_path(made, "step"),
                       &(zr_state_vector){.name = "weights", .dtype = ZERO_F32, .view = view.view},
                       1, facts, &error),
        ZERO_OK);
    zero_comm_destroy(comm);
    json_decref(facts);
}

static zero_status export(scratch *made, const char *from, const char *to, zr_export *how,
                          zero_error *error)
{
    char directory[512];
    zr_source source;
    snprintf(directory, sizeof directory, "%s/%s", made->directory, to);
    assert_int_equal(mkdir(directory, 0777), 0);
    how->directory = directory;
    ZERO_TRY(zr_source_open(scratch_path(made, from), &source, error));
    zero_status status = zr_export_weights(&source, how, error);
    zr_source_close(&source);
    return status;
}

static void check(scratch *made, const char *path, const char *prefix, float (*as)(float x))
{
    zr_st_set set;
    zero_error error = {0};
    char name[64];
    int at = 0;
    if (zr_st_open(scratch_path(made, path), &set, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_int_equal(set.tensor_count, TENSORS);
    for (int t = 0; t < TENSORS; t++) {
        float found[300];
        snprintf(name, sizeof name, "%s%s", prefix, model[t].name);
        const zr_st_tensor *tensor = zr_st_find(&set, name);
        assert_true(tensor && !strcmp(tensor->name, name));
        assert_int_equal(zr_st_read(&set, tensor, 0, sizes[t], found, &error), ZERO_OK);
        for (int64_t i = 0; i < sizes[t]; i++, at++)
            assert_true(found[i] == as(value(at)));
    }
    zr_st_close(&set);
}

static float same(float x) { return x; }
static float as_bf16(float x) { return zr_bf16_to_f32(zr_f32_to_bf16(x)); }
static float as_f16(float x) { return zr_f16_to_f32(zr_f32_to_f16(x)); }

static void test_one_file(void **state)
{
    zero_error error = {0};
    zr_export how = {.dtype = ZERO_F32};
    save(*state);
    assert_int_equal(export(*state, "step", "hf", &how, &error), ZERO_OK);
    assert_true(how.files == 1 && how.tensors == TENSORS && how.bytes == 4 * TOTAL &&
                !how.overflowed);
    check(*state, "hf", "transformer.", same);
    // Names of a model directory are left as they are; so are its types.
    how = (zr_export){.keeps_dtypes = true};
    assert_int_equal(export(*state, "hf", "again", &how, &error), ZERO_OK);
    check(*state, "again", "transformer.", same);
    how = (zr_export){.dtype = ZERO_BF16};
    assert_int_equal(export(*state, "hf", "narrow", &how, &error), ZERO_OK);
    assert_true(how.bytes == 2 * TOTAL && !how.overflowed);
    check(*state, "narrow", "transformer.", as_bf16);
    how = (zr_export){.dtype = ZERO_F16};
    assert_int_equal(export(*state, "step", "half", &how, &error), ZERO_OK);
    assert_int_equal(how.overflowed, 1);
    check(*state, "half", "transformer.", as_f16);
}

static void test_shards(void **state)
{
    zero_error error = {0};
    // 160 | 1200, too large by itself | 8 with the first
    zr_export how = {.dtype = ZERO_F32, .shard_bytes = 200};
    save(*state);
    assert_int_equal(export(*state, "step", "hf", &how, &error), ZERO_OK);
    assert_int_equal(how.files, 2);
    check(*state, "hf", "transformer.", same);
    json_t *index;
    const char *wte, *wpe, *bias;
    json_int_t total, parameters;
    assert_int_equal(zr_json_load(scratch_path(*state, "hf/model.safetensors.index.json"), 1 << 16,
                                  &index, &error),
                     ZERO_OK);
    assert_int_equal(json_unpack(index, "{s:{s:I, s:I}, s:{s:s, s:s, s:s}}", "metadata",
                                 "total_size", &total, "total_parameters", &parameters,
                                 "weight_map", "transformer.wte.weight", &wte,
                                 "transformer.wpe.weight", &wpe, "transformer.ln_f.bias", &bias),
                     0);
    assert_true(total == 4 * TOTAL && parameters == TOTAL);
    assert_string_equal(wte, "model-00001-of-00002.safetensors");
    assert_string_equal(wpe, "model-00002-of-00002.safetensors");
    assert_string_equal(bias, wte);
    json_decref(index);
    how = (zr_export){.dtype = ZERO_F32, .shard_bytes = 164}; // the last does not go with the first
    assert_int_equal(export(*state, "step", "three", &how, &error), ZERO_OK);
    assert_int_equal(how.files, 3);
    check(*state, "three", "transformer.", same);
    how = (zr_export){.dtype = ZERO_F32, .shard_bytes = 1};
    assert_int_equal(export(*state, "step", "each", &how, &error), ZERO_OK);
    check(*state, "each", "transformer.", same);
}

static void test_damage_is_found(void **state)
{
    zero_error error = {0};
    zr_export how = {.dtype = ZERO_F32};
    save(*state);
    int fd = open(scratch_path(*state, "step/weights.safetensors"), O_RDWR);
    char byte;
    assert_int_equal(pread(fd, &byte, 1, lseek(fd, 0, SEEK_END) - 500), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, lseek(fd, 0, SEEK_END) - 500), 1);
    close(fd);
    assert_int_equal(export(*state, "step", "hf", &how, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "is damaged: w");
}

// Types that have no conversion stay what they are.
static void test_other_types(void **state)
{
    zero_error error = {0};
    zr_st_set before, after;
    zr_export how = {.dtype = ZERO_BF16};
    size_t length;
    char *golden_bytes = golden_read(&length);
    st_write_bytes(*state, "model.safetensors", golden_bytes, length);
    zr_free(golden_bytes);
    assert_int_equal(export(*state, "", "out", &how, &error), ZERO_OK);
    assert_int_equal(zr_st_open(scratch_path(*state, "model.safetensors"), &before, &error),
                     ZERO_OK);
    assert_int_equal(zr_st_open(scratch_path(*state, "out"), &after, &error), ZERO_OK);
    assert_int_equal(after.tensor_count, before.tensor_count);
    for (int t = 0; t < before.tensor_count; t++) {
        const zr_st_tensor *x = &before.tensors[t], *y = &after.tensors[t];
        assert_string_equal(x->name, y->name);
        bool real = zr_source_is_real(x->dtype);
        assert_string_equal(y->dtype, real ? "BF16" : x->dtype);
        for (int64_t i = 0; i < 5 && real && i < (y->end - y->begin) / 2; i++) {
            float a, b;
            assert_int_equal(zr_st_read(&before, x, i, 1, &a, &error), ZERO_OK);
            assert_int_equal(zr_st_read(&after, y, i, 1, &b, &error), ZERO_OK);
            assert_true(as_bf16(a) == b);
        }
    }
    zr_st_close(&before);
    zr_st_close(&after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_file, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_shards, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_damage_is_found, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_other_types, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
