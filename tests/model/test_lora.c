// Adapters as text and as peft's file: what is read is what was written; what is wrong is refused
// with the words that help.
#include "base/file.h"
#include "model/lora_peft.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static zr_lm_config model_of(const char *spec)
{
    zr_lm_config config;
    bool given;
    assert_int_equal(zr_lm_parse_spec(spec, &config, &given, NULL), ZERO_OK);
    return config;
}

static void texts_come_back(void **state)
{
    static const struct {
        const char *model, *text, *written;
        float scale;
    } cases[] = {
        {"llama", "r=16", "r=16,alpha=32,targets=all-linear", 2},
        {"llama", "r=16,alpha=8", "r=16,alpha=8,targets=all-linear", 0.5f},
        {"llama", "r=4,rslora,alpha=8", "r=4,alpha=8,targets=all-linear,rslora", 4},
        {"llama", "r=2,dora,rslora,alpha=2", "r=2,alpha=2,targets=all-linear,rslora,dora",
         1.41421356f},
        {"qwen3", "targets=q_proj,v_proj,dropout=0.1,r=2",
         "r=2,alpha=4,targets=q_proj+v_proj,dropout=0.1", 2},
        {"llama", "r=1,targets=self_attn.o_proj+mlp.down_proj",
         "r=1,alpha=2,targets=o_proj+down_proj", 2},
        {"gpt2", "r=1,targets=c_proj", "r=1,alpha=2,targets=attn.c_proj+mlp.c_proj", 2},
        {"gpt2", "r=1,targets=attn.c_proj+c_attn", "r=1,alpha=2,targets=c_attn+attn.c_proj", 2},
        {"pythia-14m", "r=1,targets=dense", "r=1,alpha=2,targets=dense", 2},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        const zr_lm_config config = model_of(cases[i].model);
        zr_lora lora, again;
        char text[ZR_LORA_TEXT];
        assert_int_equal(zr_lora_parse(cases[i].text, "x", &config, &lora, NULL), ZERO_OK);
        zr_lora_write(&lora, &config, text, sizeof text);
        assert_string_equal(text, cases[i].written);
        assert_true(zr_lora_scale(&lora) == cases[i].scale);
        assert_int_equal(zr_lora_parse(text, "x", &config, &again, NULL), ZERO_OK);
        assert_true(again.rank == lora.rank && again.targets == lora.targets &&
                    again.alpha == lora.alpha && again.dropout == lora.dropout &&
                    again.magnitudes == lora.magnitudes);
    }
}

static void no_adapters(void **state)
{
    const zr_lm_config config = model_of("gpt2");
    zr_lora lora = {.rank = 7};
    assert_int_equal(zr_lora_parse(NULL, "x", &config, &lora, NULL), ZERO_OK);
    assert_int_equal(lora.rank, 0);
    assert_int_equal(zr_lora_parse("none", "x", &config, &lora, NULL), ZERO_OK);
    assert_int_equal(lora.rank, 0);
}

static void what_is_wrong_is_refused(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "has no rank"},
        {"alpha=3", "has no rank"},
        {"r=0", "r=0: a number from 1 to 4096"},
        {"r=5000", "r=5000: a number from 1 to 4096"},
        {"r=1.5", "r=1.5 is not a whole number"},
        {"r=", "r=: a number"},
        {"r=2,alpha=nan", "alpha=nan: a number"},
        {"r=2,dropout=1", "dropout=1: a number"},
        {"r=2,rank=3", "\"rank\" is unknown"},
        {"r=2,fast", "\"fast\" is unknown"},
        {"r=2,targets=lm_head", "no linear layer \"lm_head\""},
        {"r=2,targets=q_proj++v_proj", "no linear layer \"\""},
        {"r=2,targets=proj", "there are q_proj, k_proj, v_proj, o_proj, gate_proj"},
    };
    const zr_lm_config config = model_of("llama");
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zr_lora lora;
        zero_error error = {0};
        zero_status status = zr_lora_parse(cases[i].text, "--lora", &config, &lora, &error);
        assert_true(status == ZERO_ERR_CONFIG || status == ZERO_ERR_UNSUPPORTED);
        assert_int_equal(strncmp(error.message, "--lora: ", 8), 0);
        if (!strstr(error.message, cases[i].words))
            fail_msg("\"%s\": %s", cases[i].text, error.message);
    }
}

static char path[] = "/tmp/zero-lora-XXXXXX";

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void files_come_back(void **state)
{
    zr_lm_config config = model_of("gpt2");
    zr_buffer text = {0};
    zr_lora_file file;
    char *base;
    assert_int_equal(zr_lora_parse("r=3,alpha=5,rslora,dora,dropout=0.25,targets=c_proj", "x",
                                   &config, &config.lora, NULL),
                     ZERO_OK);
    zr_lora_write_peft(&config, "models/one \"two\"", &text);
    assert_false(text.failed);
    write_file(text.data);
    assert_int_equal(zr_lora_read_peft(path, &config, &file, NULL), ZERO_OK);
    assert_string_equal(file.base, "models/one \"two\"");
    const zr_lora *lora = &file.lora;
    assert_true(lora->rank == 3 && lora->alpha == 5 && lora->rank_root && lora->magnitudes &&
                lora->dropout == 0.25f && lora->targets == config.lora.targets);
    assert_false(file.scores);
    zr_lora_file_free(&file);
    assert_int_equal(zr_lora_read_base(path, &base, NULL), ZERO_OK);
    assert_string_equal(base, "models/one \"two\"");
    zr_free(base);
    zr_buffer_free(&text);
}

// An adapter of a model with labels has their head as a whole.
static void heads_of_labels_come_back(void **state)
{
    zr_lm_config config = model_of("llama:layers=2");
    zr_buffer text = {0};
    zr_lora_file file;
    assert_int_equal(zr_lora_parse("r=3", "x", &config, &config.lora, NULL), ZERO_OK);
    assert_int_equal(zr_labels_number(&config.labels, 3, NULL), ZERO_OK);
    zr_lora_write_peft(&config, "models/one", &text);
    assert_false(text.failed);
    assert_non_null(strstr(text.data, "\"task_type\": \"SEQ_CLS\""));
    write_file(text.data);
    assert_int_equal(zr_lora_read_peft(path, &config, &file, NULL), ZERO_OK);
    assert_true(file.scores && file.lora.targets == config.lora.targets);
    zr_lora_file_free(&file);
    zr_buffer_free(&text);
}

#define HEAD_OF "{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": "
#define HEAD "{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": [\"q_proj\"]"

static void files_of_others(void **state)
{
    static const struct {
        const char *text, *words; // words: NULL if it is read
    } cases[] = {
        {HEAD "}", NULL},
        {HEAD ", \"rank_pattern\": {}, \"use_dora\": false, \"modules_to_save\": null}", NULL},
        {HEAD_OF "[\"model.layers.0.mlp.up_proj\", \"model.layers.1.mlp.up_proj\"]}", NULL},
        {HEAD_OF "[\"model.layers.1.mlp.up_proj\"]}", "names layers of some blocks alone"},
        {HEAD_OF "[\"model.layers.1.mlp.over_proj\"]}", "\"model.layers.1.mlp.over_proj\""},
        {"{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": \"all-linear\"}", NULL},
        {HEAD ", \"rank_pattern\": {\"q_proj\": 4}}", "\"rank_pattern\" is set"},
        {HEAD ", \"modules_to_save\": [\"lm_head\"]}", "\"modules_to_save\" is set"},
        {HEAD ", \"modules_to_save\": [\"score\", 3]}", "\"modules_to_save\" is set"},
        {HEAD ", \"modules_to_save\": \"score\"}", "\"modules_to_save\" is set"},
        {HEAD ", \"modules_to_save\": [\"classifier\", \"score\"]}", NULL},
        {HEAD ", \"bias\": \"all\"}", "the key bias"},
        {HEAD ", \"lora_alpha\": \"x\"}", "\"lora_alpha\" must be a number"},
        {"{\"peft_type\": \"IA3\"}", "\"peft_type\" is \"IA3\""},
        {"{\"peft_type\": \"LORA\", \"r\": 0, \"target_modules\": [\"q_proj\"]}", "\"r\" must be"},
        {"{\"peft_type\": \"LORA\", \"r\": 1, \"target_modules\": [\"c_attn\"]}", "\"c_attn\""},
        {"{\"peft_type\": \"LORA\", \"r\": 1, \"target_modules\": [3]}", "is no text"},
        {"{\"peft_type\": \"LORA\", \"r\": 1}", "names no layers"},
        {"[]", "holds no object"},
    };
    const zr_lm_config config = model_of("llama:layers=2");
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zero_error error = {0};
        zr_lora_file file;
        write_file(cases[i].text);
        zero_status status = zr_lora_read_peft(path, &config, &file, &error);
        assert_null(file.base);
        if ((status == ZERO_OK) != !cases[i].words ||
            (cases[i].words && !strstr(error.message, cases[i].words)))
            fail_msg("%s: %s", cases[i].text, error.message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_come_back),           cmocka_unit_test(no_adapters),
        cmocka_unit_test(what_is_wrong_is_refused),  cmocka_unit_test(files_come_back),
        cmocka_unit_test(heads_of_labels_come_back), cmocka_unit_test(files_of_others)};
    close(mkstemp(path));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
