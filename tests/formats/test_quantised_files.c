// Weights in codes out of files: made of plain weights in any pieces, with the bytes that the whole
// weight has; read as transformers saves them; what does not fit is refused by name.
#include "st_files.h"
#include "base/dtype.h"
#include "base/dynamic_map.h"
#include "formats/quantised_files.h"

#include <math.h>
#include <stdio.h>

#define NAME "h.0.weight"
enum { OUT = 6, IN = 192, BLOCKS = OUT * IN / ZR_NF4_BLOCK, MOST_BYTES = 1 << 16 };

typedef struct whole { // a weight in both formats
    float values[OUT * IN];
    uint8_t nf4[OUT * IN / 2], scales[BLOCKS];
    float shared[2], rows[OUT];
    int8_t int8[OUT * IN];
} whole;

static void make_whole(whole *w)
{
    float exact[BLOCKS];
    for (int i = 0; i < OUT * IN; i++)
        w->values[i] = (float)((i * 7919 + 13) % 2003 - 1001) / 1024;
    for (int b = 0; b < BLOCKS; b++) {
        exact[b] = zr_nf4_scale(w->values + b * ZR_NF4_BLOCK);
        zr_nf4_encode(w->values + b * ZR_NF4_BLOCK, w->nf4 + b * ZR_NF4_BLOCK / 2);
    }
    zr_nf4_encode_scales(exact, BLOCKS, w->scales, w->shared);
    for (int r = 0; r < OUT; r++)
        w->rows[r] = zr_int8_encode(w->values + r * IN, IN, w->int8 + r * IN);
}

typedef struct file_tensor {
    const char *name, *stored; // stored: a dtype that zero_dtype does not have
    zero_dtype dtype;
    int64_t rows, columns;
    const void *data;
} file_tensor;

static void write_file(scratch *made, const char *name, const file_tensor *tensors, int count)
{
    static char data[MOST_BYTES];
    zr_st_entry entries[8];
    int64_t shapes[8][2];
    zr_st_layout layout;
    for (int t = 0; t < count; t++) {
        shapes[t][0] = tensors[t].rows;
        shapes[t][1] = tensors[t].columns;
        entries[t] = (zr_st_entry){.name = tensors[t].name,
                                   .dtype = tensors[t].dtype,
                                   .dims = 2,
                                   .shape = shapes[t],
                                   .stored = tensors[t].stored};
    }
    assert_int_equal(zr_st_layout_create(entries, count, "", &layout, NULL), ZERO_OK);
    assert_true(layout.total <= MOST_BYTES);
    memcpy(data, layout.header.data, layout.header.length);
    for (int t = 0; t < count; t++)
        memcpy(data + layout.begin[t], tensors[t].data,
               (size_t)(tensors[t].rows * tensors[t].columns) *
                   (tensors[t].stored ? 1 : zero_dtype_bytes(tensors[t].dtype)));
    st_write_bytes(made, name, data, (size_t)layout.total);
    zr_st_layout_free(&layout);
}

static const char *const endings[] = {"", ".absmax", ".nested_absmax"};

// The tensor of a view that has a part of the weight.
static zero_tensor_desc view_tensor(zr_weight_format format, int part, char name[64])
{
    snprintf(name, 64, "%s%s", NAME, endings[part]);
    int64_t bytes = part == 0   ? zr_weight_code_bytes(format, IN)
                    : part == 1 ? zr_weight_scale_bytes(format, IN)
                                : zr_weight_shared_bytes(format, OUT, IN);
    return (zero_tensor_desc){.name = name, .dims = 2, .shape = {part == 2 ? 1 : OUT, bytes}};
}

static const void *expected(const whole *w, zr_weight_format format, int part)
{
    if (format == ZR_WEIGHT_INT8)
        return part ? (const void *)w->rows : w->int8;
    return part == 0 ? (const void *)w->nf4 : part == 1 ? (const void *)w->scales : w->shared;
}

// Reads every part whole, and in pieces of a size that divides nothing.
static void check_parts(scratch *made, const char *file, const whole *w, zr_weight_format format)
{
    zr_st_set set;
    zr_codes *codes;
    assert_int_equal(zr_st_open(scratch_path(made, file), &set, NULL), ZERO_OK);
    assert_int_equal(zr_codes_open(&set, format, &codes, NULL), ZERO_OK);
    for (int part = 0; part < (format == ZR_WEIGHT_NF4 ? 3 : 2); part++) {
        char name[64], read[OUT * IN];
        const zero_tensor_desc tensor = view_tensor(format, part, name);
        int64_t all = tensor.shape[0] * tensor.shape[1];
        assert_int_equal(zr_codes_check(codes, file, &tensor, NULL), ZERO_OK);
        assert_int_equal(zr_codes_read(codes, &tensor, 0, all, read, NULL), ZERO_OK);
        assert_memory_equal(read, expected(w, format, part), (size_t)all);
        memset(read, 0x55, sizeof read);
        for (int64_t at = 0, n; at < all; at += n) {
            n = ZR_MIN((int64_t)7, all - at);
            assert_int_equal(zr_codes_read(codes, &tensor, at, n, read + at, NULL), ZERO_OK);
        }
        assert_memory_equal(read, expected(w, format, part), (size_t)all);
    }
    for (int t = 0; t < set.tensor_count; t++)
        assert_true(!strcmp(set.tensors[t].name, NAME) ||
                    zr_codes_uses(codes, set.tensors[t].name));
    assert_false(zr_codes_uses(codes, "h.1.weight.absmax"));
    zr_codes_close(codes);
    zr_st_close(&set);
}

static void test_made_of_plain(void **state)
{
    scratch *made = *state;
    whole w;
    make_whole(&w);
    write_file(made, "plain.safetensors",
               (file_tensor[]){{NAME, NULL, ZERO_F32, OUT, IN, w.values}}, 1);
    check_parts(made, "plain.safetensors", &w, ZR_WEIGHT_NF4);
    check_parts(made, "plain.safetensors", &w, ZR_WEIGHT_INT8);
}

static void write_saved_nf4(scratch *made, const char *file, const whole *w, const char *state,
                            const float *map)
{
    const file_tensor tensors[] = {
        {NAME, NULL, ZERO_U8, OUT * IN / 2, 1, w->nf4},
        {NAME ".absmax", NULL, ZERO_U8, BLOCKS, 1, w->scales},
        {NAME ".nested_absmax", NULL, ZERO_F32, 1, 1, w->shared + 1},
        {NAME ".quant_map", NULL, ZERO_F32, 1, ZR_NF4_LEVELS, zr_nf4_levels},
        {NAME ".nested_quant_map", NULL, ZERO_F32, 1, ZR_DYNAMIC_CODES, map},
        {NAME ".quant_state.bitsandbytes__nf4", NULL, ZERO_U8, 1, (int64_t)strlen(state), state},
    };
    write_file(made, file, tensors, ZR_COUNT(tensors));
}

static void write_state(const whole *w, int block, char out[256])
{
    snprintf(out, 256,
             "{\"quant_type\": \"nf4\", \"blocksize\": %d, \"nested_blocksize\": 256, "
             "\"nested_offset\": %.17g}",
             block, (double)w->shared[0]);
}

static void test_saved_by_transformers(void **state)
{
    scratch *made = *state;
    whole w;
    char text[256];
    make_whole(&w);
    write_state(&w, ZR_NF4_BLOCK, text);
    write_saved_nf4(made, "nf4.safetensors", &w, text, zr_signed_map);
    check_parts(made, "nf4.safetensors", &w, ZR_WEIGHT_NF4);
    const file_tensor int8[] = {{NAME, "I8", ZERO_U8, OUT, IN, w.int8},
                                {"h.0.SCB", NULL, ZERO_F32, OUT, 1, w.rows},
                                {"h.0.weight_format", NULL, ZERO_U8, 1, 1, "\0"}};
    write_file(made, "int8.safetensors", int8, ZR_COUNT(int8));
    check_parts(made, "int8.safetensors", &w, ZR_WEIGHT_INT8);
}

// Checks the three parts, then reads them; *message is that of the first refusal.
static zero_status try_file(scratch *made, const char *file, zr_weight_format format,
                            zero_error *error)
{
    zr_st_set set;
    zr_codes *codes;
    zero_status status = ZERO_OK;
    assert_int_equal(zr_st_open(scratch_path(made, file), &set, NULL), ZERO_OK);
    assert_int_equal(zr_codes_open(&set, format, &codes, NULL), ZERO_OK);
    for (int part = 0; part < (format == ZR_WEIGHT_NF4 ? 3 : 2) && status == ZERO_OK; part++) {
        char name[64], read[OUT * IN];
        const zero_tensor_desc tensor = view_tensor(format, part, name);
        status = zr_codes_check(codes, file, &tensor, error);
        if (status == ZERO_OK)
            status =
                zr_codes_read(codes, &tensor, 0, tensor.shape[0] * tensor.shape[1], read, error);
    }
    zr_codes_close(codes);
    zr_st_close(&set);
    return status;
}

static void refused(scratch *made, const char *file, zr_weight_format format, zero_status code,
                    const char *words)
{
    zero_error error = {0};
    assert_int_equal(try_file(made, file, format, &error), code);
    if (!strstr(error.message, words))
        fail_msg("\"%s\" is not in: %s", words, error.message);
}

static void test_refusals(void **state)
{
    scratch *made = *state;
    whole w;
    char text[256];
    float other[ZR_DYNAMIC_CODES];
    make_whole(&w);
    write_file(made, "narrow.safetensors",
               (file_tensor[]){{NAME, NULL, ZERO_F32, OUT, IN / 3, w.values}}, 1);
    refused(made, "narrow.safetensors", ZR_WEIGHT_NF4, ZERO_ERR_DATA,
            "the tensor \"h.0.weight\" has 2 dimensions, 6 x 64");
    refused(made, "narrow.safetensors", ZR_WEIGHT_INT8, ZERO_ERR_DATA, "the model needs 6 x 192");
    write_file(made, "none.safetensors",
               (file_tensor[]){{"h.1.weight", NULL, ZERO_F32, OUT, IN, w.values}}, 1);
    refused(made, "none.safetensors", ZR_WEIGHT_NF4, ZERO_ERR_DATA,
            "the tensor \"h.0.weight\" is missing");
    write_file(made, "alone.safetensors",
               (file_tensor[]){{NAME, NULL, ZERO_U8, OUT * IN / 2, 1, w.nf4}}, 1);
    refused(made, "alone.safetensors", ZR_WEIGHT_NF4, ZERO_ERR_UNSUPPORTED,
            "its \"absmax\" is missing");
    write_state(&w, 128, text);
    write_saved_nf4(made, "wide.safetensors", &w, text, zr_signed_map);
    refused(made, "wide.safetensors", ZR_WEIGHT_NF4, ZERO_ERR_UNSUPPORTED, "has blocks of 128");
    write_saved_nf4(made, "broken.safetensors", &w, "{\"blocksize\": 64", zr_signed_map);
    refused(made, "broken.safetensors", ZR_WEIGHT_NF4, ZERO_ERR_DATA, "is no JSON");
    memcpy(other, zr_signed_map, sizeof other);
    other[7] += 0.25f;
    write_state(&w, ZR_NF4_BLOCK, text);
    write_saved_nf4(made, "map.safetensors", &w, text, other);
    refused(made, "map.safetensors", ZR_WEIGHT_NF4, ZERO_ERR_UNSUPPORTED, "at place 7");
    write_file(made, "scb.safetensors", (file_tensor[]){{NAME, "I8", ZERO_U8, OUT, IN, w.int8}}, 1);
    refused(made, "scb.safetensors", ZR_WEIGHT_INT8, ZERO_ERR_UNSUPPORTED,
            "its \"SCB\" is missing");
}

// What a format has no code for is refused where it is read, in whichever part of the weight.
static void refused_value(scratch *made, zr_weight_format format, const char *words)
{
    zr_st_set set = {0};
    zr_codes *codes = NULL;
    assert_int_equal(zr_st_open(scratch_path(made, "values.safetensors"), &set, NULL), ZERO_OK);
    assert_int_equal(zr_codes_open(&set, format, &codes, NULL), ZERO_OK);
    for (int part = 0; part < (format == ZR_WEIGHT_NF4 ? 3 : 2); part++) {
        char name[64], read[OUT * IN];
        zero_error error = {0};
        const zero_tensor_desc tensor = view_tensor(format, part, name);
        zero_status status =
            zr_codes_read(codes, &tensor, 0, tensor.shape[0] * tensor.shape[1], read, &error);
        assert_int_equal(status, words ? ZERO_ERR_DATA : ZERO_OK);
        if (words && !strstr(error.message, words))
            fail_msg("\"%s\" is not in: %s", words, error.message);
    }
    zr_codes_close(codes);
    zr_st_close(&set);
}

static void test_values_without_code(void **state)
{
    static const struct {
        float value;
        const char *nf4, *int8; // what is said
    } cases[] = {
        {NAN, "nan as element 200, for which nf4", "nan as element 200, for which int8"},
        {-INFINITY, "the value -inf", "the value -inf"},
        {70000, NULL,
         "has the value 70000 as element 200, for which int8 has no code: values are "
         "finite and at most 65504"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        whole w;
        make_whole(&w);
        w.values[200] = cases[i].value;
        write_file(*state, "values.safetensors",
                   (file_tensor[]){{NAME, NULL, ZERO_F32, OUT, IN, w.values}}, 1);
        refused_value(*state, ZR_WEIGHT_NF4, cases[i].nf4);
        refused_value(*state, ZR_WEIGHT_INT8, cases[i].int8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_made_of_plain, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_saved_by_transformers, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_refusals, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_values_without_code, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
