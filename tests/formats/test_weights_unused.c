// Tensors of a file that the model has no place for are refused by name, left out if the caller
// asks for that, or known and ignored.
#include "array_view.h"
#include "st_files.h"

#include <stdio.h>
#include <string.h>

static void keep_message(void *user, zero_log_level level, const char *message)
{
    snprintf(user, ZERO_MESSAGE_BYTES, "%s", message);
}

// model.safetensors of one number for each name: of the last one `last`, of the others 0.
static void write_values(scratch *made, const char *const *names, int count, float last)
{
    static const int64_t one[] = {1};
    zr_st_entry entries[16];
    zr_st_layout layout;
    for (int i = 0; i < count; i++)
        entries[i] = (zr_st_entry){.name = names[i], .dtype = ZERO_F32, .dims = 1, .shape = one};
    assert_int_equal(zr_st_layout_create(entries, count, "", &layout, NULL), ZERO_OK);
    char *bytes = zr_alloc((size_t)layout.total, NULL);
    assert_non_null(bytes);
    memcpy(bytes, layout.header.data, layout.header.length);
    memcpy(bytes + layout.begin[count - 1], &last, sizeof last);
    st_write_bytes(made, "model.safetensors", bytes, (size_t)layout.total);
    zr_free(bytes);
    zr_st_layout_free(&layout);
}

static void write_tensors(scratch *made, const char *const *names, int count)
{
    write_values(made, names, count, 0);
}

// Into a model that has wte.weight and nothing else.
static zero_status load(const scratch *made, const zr_weights_options *unused, zero_error *error)
{
    static const zero_tensor_desc one = {.name = "wte.weight", .dims = 1, .shape = {1}};
    const zero_tensor_desc *tensors[] = {&one};
    float value;
    zr_weight_range range = {.tensor = &one, .at = zr_rectangle_of_stretch(0, 1), .data = &value};
    array_view view;
    zero_comm *comm;
    array_view_fill(&view, tensors, 1, &range, 1);
    assert_int_equal(zero_comm_self(&comm, NULL), ZERO_OK);
    zero_status status = zr_weights_load(comm, made->directory, &view.view, unused, error);
    zero_comm_destroy(comm);
    return status;
}

// Tensors that the model needs, buffers of old exports, a tied head, and a tensor that the model
// has no place for.
static void test_what_is_passed_over(void **state)
{
    static const char *const names[] = {"transformer.wte.weight",
                                        "transformer.h.0.attn.bias",
                                        "h.11.attn.masked_bias",
                                        "model.layers.3.self_attn.rotary_emb.inv_freq",
                                        "model.layers.0.self_attn.rotary_emb.cos_cached",
                                        "lm_head.weight",
                                        "h.1.ln_1.bias",
                                        "wte.weight"};
    const zr_weights_options plain = {0}, tied = {.tied_head = "lm_head.weight"};
    for (int count = 1; count <= ZR_COUNT(names); count++) {
        write_tensors(*state, names, count);
        assert_int_equal(load(*state, &plain, NULL), count <= 5 ? ZERO_OK : ZERO_ERR_DATA);
        assert_int_equal(load(*state, &tied, NULL), count <= 6 ? ZERO_OK : ZERO_ERR_DATA);
    }
}

static void test_what_is_said(void **state)
{
    static const char *const names[] = {"wte.weight", "h.0.attn.c_attn.bias", "b",
                                        "lm_head.weight"};
    char said[ZERO_MESSAGE_BYTES] = "";
    const zero_logger logger = {keep_message, said};
    zero_error error = {0};
    write_tensors(*state, names, ZR_COUNT(names));
    assert_int_equal(load(*state, &(zr_weights_options){.logger = &logger}, &error), ZERO_ERR_DATA);
    assert_non_null(
        strstr(error.message,
               "model.safetensors\" has 3 tensors that the model has no place for (--ignore-unused "
               "leaves them out): b, h.0.attn.c_attn.bias, lm_head.weight"));
    assert_string_equal(said, "");
    assert_int_equal(load(*state,
                          &(zr_weights_options){
                              .ignored = true, .tied_head = "lm_head.weight", .logger = &logger},
                          &error),
                     ZERO_OK);
    assert_non_null(strstr(
        said, "2 tensors left out that the model has no place for: b, h.0.attn.c_attn.bias"));
}

// A head that repeats the table is passed over, one with other values is refused or, if it is left
// out, named.
static void test_a_head_of_its_own(void **state)
{
    static const char *const names[] = {"transformer.wte.weight", "lm_head.weight"};
    char said[ZERO_MESSAGE_BYTES] = "";
    const zero_logger logger = {keep_message, said};
    zr_weights_options how = {
        .tied_head = "lm_head.weight", .table = "wte.weight", .logger = &logger};
    zero_error error = {0};
    write_values(*state, names, 2, -0.0f);
    assert_int_equal(load(*state, &how, &error), ZERO_OK);
    write_values(*state, names, 2, 1e-30f);
    assert_int_equal(load(*state, &how, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "lm_head.weight has other values than wte.weight"));
    assert_null(strstr(error.message, "uses it"));
    how.may_untie = true;
    assert_int_equal(load(*state, &how, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "false there uses it"));
    assert_string_equal(said, "");
    how.ignored = true;
    assert_int_equal(load(*state, &how, &error), ZERO_OK);
    assert_non_null(strstr(said, "lm_head.weight is left out, though it has other values"));
}

static void test_many(void **state)
{
    char text[15][24];
    const char *names[16] = {"wte.weight"};
    zero_error error = {0};
    for (int i = 0; i < 15; i++) {
        snprintf(text[i], sizeof text[i], "lora.%02d.weight", i);
        names[i + 1] = text[i];
    }
    write_tensors(*state, names, 16);
    assert_int_equal(load(*state, &(zr_weights_options){0}, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "has 15 tensors"));
    assert_non_null(strstr(error.message, "lora.00.weight, "));
    assert_non_null(strstr(error.message, ", lora.09.weight and 5 more"));
    assert_null(strstr(error.message, "lora.10"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_passed_over, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_what_is_said, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_a_head_of_its_own, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_many, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
