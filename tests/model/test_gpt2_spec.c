// The text that names a new model, and every mistake in it.
#include "model/gpt2_model.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static zero_status parse(const char *spec, zero_gpt2_config *config, bool *vocab_given,
                         zero_error *error)
{
    zr_lm_config parsed;
    ZERO_TRY(zr_lm_parse_spec(spec, &parsed, vocab_given, error));
    assert_int_equal(parsed.kind, ZR_LM_GPT2);
    *config = parsed.gpt2;
    return ZERO_OK;
}

static void presets(void **state)
{
    static const struct {
        const char *spec;
        int64_t layers, heads, width;
    } known[] = {{"gpt2", 12, 12, 768},
                 {"gpt2-medium", 24, 16, 1024},
                 {"gpt2-large", 36, 20, 1280},
                 {"gpt2-xl", 48, 25, 1600}};
    for (int i = 0; i < ZR_COUNT(known); i++) {
        zero_gpt2_config config = {0};
        bool vocab_given = false;
        assert_int_equal(parse(known[i].spec, &config, &vocab_given, NULL), ZERO_OK);
        assert_true(vocab_given);
        assert_int_equal(config.n_layer, known[i].layers);
        assert_int_equal(config.n_head, known[i].heads);
        assert_int_equal(config.n_embd, known[i].width);
        assert_int_equal(config.vocab_size, 50257);
        assert_int_equal(config.n_positions, 1024);
        assert_true(config.resid_pdrop == 0 && config.embd_pdrop == 0 && config.attn_pdrop == 0);
    }
}

static void fields(void **state)
{
    zero_gpt2_config config = {0};
    bool vocab_given = true;
    assert_int_equal(
        parse("gpt2:layers=4,heads=8,width=128,context=64", &config, &vocab_given, NULL), ZERO_OK);
    assert_false(vocab_given);
    assert_int_equal(config.n_layer, 4);
    assert_int_equal(config.n_head, 8);
    assert_int_equal(config.n_embd, 128);
    assert_int_equal(config.n_positions, 64);
    assert_int_equal(parse("gpt2-xl:dropout=0.25,vocab=65", &config, &vocab_given, NULL), ZERO_OK);
    assert_true(vocab_given);
    assert_int_equal(config.vocab_size, 65);
    assert_int_equal(config.n_layer, 48);
    assert_true(config.resid_pdrop == 0.25f && config.embd_pdrop == 0.25f &&
                config.attn_pdrop == 0.25f);
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *spec, *message;
    } wrong[] = {
        {"", "there is no preset \"\""},
        {"gpt3", "did you mean \"gpt2\"?"},
        {"gpt2-lrge", "did you mean \"gpt2-large\"?"},
        {"gpt2-mediumgpt2-mediumgpt2-mediumgpt2-medium", "there is no preset"},
        {"gpt2:", "\"\" is not a field"},
        {"gpt2:layers=4,", "\"\" is not a field"},
        {"gpt2:layers", "\"layers\" is not a field: name=value is expected"},
        {"gpt2:layer=4", "there is no field \"layer\"; did you mean \"layers\"?"},
        {"gpt2:widht=4", "did you mean \"width\"?"},
        {"gpt2:contextcontextcontextcontextcontextcontext=4", "there is no field"},
        {"gpt2:layers=4,layers=5", "layers is given twice"},
        {"gpt2:layers=00000000000000000000000000000012", "the value of layers has 32 characters"},
        {"gpt2:layers=", "layers=\"\" is not a whole number"},
        {"gpt2:layers=four", "layers=\"four\" is not a whole number"},
        {"gpt2:layers=4x", "layers=\"4x\" is not a whole number"},
        {"gpt2:layers=-4", "layers=\"-4\" is not a whole number"},
        {"gpt2:layers=99999999999999999999", "is not a whole number"},
        {"gpt2:layers=0", "n_layer is 0"},
        {"gpt2:heads=7", "width 768 (n_embd) is not divisible by 7 heads"},
        {"gpt2:dropout=x", "dropout=\"x\" is not a number"},
        {"gpt2:dropout=", "dropout=\"\" is not a number"},
        {"gpt2:dropout=1", "resid_pdrop is 1"},
        {"gpt2:dropout=nan", "resid_pdrop is nan"},
    };
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zero_gpt2_config config = {.n_layer = 77};
        bool vocab_given = false;
        zero_error error = {.status = ZERO_OK};
        assert_int_equal(parse(wrong[i].spec, &config, &vocab_given, &error), ZERO_ERR_USAGE);
        assert_int_equal(error.status, ZERO_ERR_USAGE);
        if (!strstr(error.message, wrong[i].message))
            fail_msg("\"%s\": \"%s\" does not say \"%s\"", wrong[i].spec, error.message,
                     wrong[i].message);
        assert_non_null(strstr(error.message, wrong[i].spec));
        assert_int_equal(config.n_layer, 77); // untouched
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets),
        cmocka_unit_test(fields),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
