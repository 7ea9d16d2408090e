// GPT-2 as data: parameter counts of the published models, names, shapes, splits, initialisation,
// and what is refused.
#include "no_arithmetic.h"
#include "model/gpt2_model.h"
#include "model/unit.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void counts_are_those_published(void **state)
{
    static const struct {
        const char *spec;
        int64_t parameters;
    } published[] = {{"gpt2", 124439808},
                     {"gpt2-medium", 354823168},
                     {"gpt2-large", 774030080},
                     {"gpt2-xl", 1557611200}};
    for (int i = 0; i < ZR_COUNT(published); i++) {
        assert_string_equal(zr_gpt2_architecture.presets[i].name, published[i].spec);
        zr_lm_config config;
        zero_model *model;
        bool vocab_given;
        zero_error error;
        assert_int_equal(zr_lm_parse_spec(published[i].spec, &config, &vocab_given, &error),
                         ZERO_OK);
        assert_true(vocab_given);
        assert_int_equal(zr_lm_build(&config, NULL, &ops, &model, &error), ZERO_OK);
        assert_int_equal(zr_model_check(model, &error), ZERO_OK);
        assert_int_equal(zr_model_parameters(model), published[i].parameters);
        assert_int_equal(zr_lm_parameters(&config), published[i].parameters);
        assert_string_equal(zr_lm_name(&config), model->name);
        zr_lm_free(model);
    }
    const char *more = zr_gpt2_architecture.presets[ZR_COUNT(published)].name;
    if (more)
        fail_msg("%s has no row in this test", more);
}

static zero_model *small(void)
{
    zr_lm_config config = {.kind = ZR_LM_GPT2};
    zero_model *model;
    zero_gpt2_defaults(&config.gpt2);
    config.gpt2.vocab_size = 29;
    config.gpt2.n_positions = 8;
    config.gpt2.n_embd = 16;
    config.gpt2.n_head = 2;
    config.gpt2.n_layer = 2;
    assert_int_equal(zr_lm_build(&config, NULL, &ops, &model, NULL), ZERO_OK);
    return model;
}

static const zero_tensor_desc *tensor_named(const zero_model *model, const char *name)
{
    for (int u = 0; u < model->unit_count; u++)
        for (int p = 0; p < model->units[u].flat_param_count; p++)
            for (int t = 0; t < model->units[u].flat_params[p].tensor_count; t++)
                if (strcmp(model->units[u].flat_params[p].tensors[t].name, name) == 0)
                    return &model->units[u].flat_params[p].tensors[t];
    fail_msg("no tensor \"%s\"", name);
    return NULL;
}

static void tensors_are_hugging_faces(void **state)
{
    static const struct {
        const char *name;
        int dims;
        int64_t shape[2];
        double deviation, value;
        int axis, parts;
    } expected[] = {
        {"wte.weight", 2, {29, 16}, 0.02, 0, 0, 1},
        {"wpe.weight", 2, {8, 16}, 0.02, 0, -1, 1},
        {"h.1.ln_1.weight", 1, {16}, 0, 1, -1, 1},
        {"h.1.ln_1.bias", 1, {16}, 0, 0, -1, 1},
        {"h.1.attn.c_attn.weight", 2, {16, 48}, 0.02, 0, 1, 3},
        {"h.1.attn.c_attn.bias", 1, {48}, 0, 0, 0, 3},
        {"h.1.attn.c_proj.weight", 2, {16, 16}, 0.01, 0, 0, 1},
        {"h.1.attn.c_proj.bias", 1, {16}, 0, 0, -1, 1},
        {"h.0.ln_2.weight", 1, {16}, 0, 1, -1, 1},
        {"h.0.mlp.c_fc.weight", 2, {16, 64}, 0.02, 0, 1, 1},
        {"h.0.mlp.c_fc.bias", 1, {64}, 0, 0, 0, 1},
        {"h.0.mlp.c_proj.weight", 2, {64, 16}, 0.01, 0, 0, 1},
        {"h.0.mlp.c_proj.bias", 1, {16}, 0, 0, -1, 1},
        {"ln_f.weight", 1, {16}, 0, 1, -1, 1},
        {"ln_f.bias", 1, {16}, 0, 0, -1, 1},
    };
    zero_model *model = small();
    for (int i = 0; i < ZR_COUNT(expected); i++) {
        const zero_tensor_desc *tensor = tensor_named(model, expected[i].name);
        assert_int_equal(tensor->dims, expected[i].dims);
        for (int d = 0; d < tensor->dims; d++)
            assert_int_equal(tensor->shape[d], expected[i].shape[d]);
        assert_int_equal(tensor->init,
                         expected[i].deviation > 0 ? ZERO_INIT_NORMAL : ZERO_INIT_CONSTANT);
        assert_true(fabs((double)tensor->init_value -
                         (expected[i].deviation > 0 ? expected[i].deviation : expected[i].value)) <
                    1e-9);
        assert_int_equal(tensor->tp_axis, expected[i].axis);
        assert_int_equal(tensor->tp_parts, expected[i].parts);
    }
    zr_lm_free(model);
}

static void the_head_borrows_wte(void **state)
{
    zero_model *model = small();
    assert_int_equal(model->unit_count, 4);
    assert_string_equal(model->units[0].name, "embedding");
    assert_string_equal(model->units[2].name, "h.1");
    assert_string_equal(model->units[3].name, "head");
    zero_flat_param_ref ref = zr_unit_flat_param(model, 3, 1);
    assert_int_equal(ref.unit, 0);
    assert_int_equal(ref.flat_param, 0);
    assert_string_equal(zr_flat_param_desc(model, ref)->tensors[0].name, "wte.weight");
    assert_int_equal(zr_unit_flat_param(model, 3, 0).unit, 3);
    assert_int_equal(((const zr_lm_unit *)model->units[2].hyper)->layer, 1);
    assert_int_equal(((const zr_lm_unit *)model->units[2].hyper)->config.gpt2.n_embd, 16);
    zr_lm_free(model);
}

static void contradictions_are_refused(void **state)
{
    static const struct {
        size_t offset;
        int64_t value;
        const char *message;
    } sizes[] = {
        {offsetof(zero_gpt2_config, vocab_size), 0, "vocab_size is 0"},
        {offsetof(zero_gpt2_config, vocab_size), (int64_t)1 << 31, "vocab_size is 2147483648"},
        {offsetof(zero_gpt2_config, n_positions), -1, "n_positions is -1"},
        {offsetof(zero_gpt2_config, n_embd), 0, "n_embd is 0"},
        {offsetof(zero_gpt2_config, n_layer), 0, "n_layer is 0"},
        {offsetof(zero_gpt2_config, n_layer), 70000, "n_layer is 70000"},
        {offsetof(zero_gpt2_config, n_head), 0, "n_head is 0"},
        {offsetof(zero_gpt2_config, n_head), 7, "width 768 (n_embd) is not divisible by 7 heads"},
        {offsetof(zero_gpt2_config, n_inner), -4, "n_inner is -4"},
    };
    static const struct {
        size_t offset;
        float value;
        const char *message;
    } floats[] = {
        {offsetof(zero_gpt2_config, layer_norm_epsilon), 0, "layer_norm_epsilon is 0"},
        {offsetof(zero_gpt2_config, layer_norm_epsilon), NAN, "layer_norm_epsilon is nan"},
        {offsetof(zero_gpt2_config, initializer_range), -1, "initializer_range is -1"},
        {offsetof(zero_gpt2_config, initializer_range), INFINITY, "initializer_range is inf"},
        {offsetof(zero_gpt2_config, resid_pdrop), 1, "resid_pdrop is 1"},
        {offsetof(zero_gpt2_config, embd_pdrop), -0.5f, "embd_pdrop is -0.5"},
        {offsetof(zero_gpt2_config, attn_pdrop), NAN, "attn_pdrop is nan"},
    };
    zr_lm_config config = {.kind = ZR_LM_GPT2};
    zero_error error;
    for (int i = 0; i < ZR_COUNT(sizes); i++) {
        zero_gpt2_defaults(&config.gpt2);
        memcpy((char *)&config.gpt2 + sizes[i].offset, &sizes[i].value, sizeof(int64_t));
        assert_int_equal(zr_lm_check(&config, &error), ZERO_ERR_USAGE);
        assert_non_null(strstr(error.message, sizes[i].message));
    }
    for (int i = 0; i < ZR_COUNT(floats); i++) {
        zero_gpt2_defaults(&config.gpt2);
        memcpy((char *)&config.gpt2 + floats[i].offset, &floats[i].value, sizeof(float));
        assert_int_equal(zr_lm_check(&config, &error), ZERO_ERR_USAGE);
        assert_non_null(strstr(error.message, floats[i].message));
    }
}

static void each_failed_allocation_is_reported(void **state)
{
    zr_lm_config config = {.kind = ZR_LM_GPT2};
    zero_error error;
    zero_gpt2_defaults(&config.gpt2);
    for (int nth = 1; nth <= 3; nth++) {
        zero_model *model = NULL;
        zr_alloc_fail_at(nth);
        assert_int_equal(zr_lm_build(&config, NULL, &ops, &model, &error), ZERO_ERR_MEMORY);
        assert_null(model);
    }
    zr_alloc_fail_at(0);
    zr_lm_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_published),
        cmocka_unit_test(tensors_are_hugging_faces),
        cmocka_unit_test(the_head_borrows_wte),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(each_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
