// Which layers have a sliding window, by the keys of config.json: as transformers reads them, kept
// as they were read, and refused where they contradict each other.
#include "model/lm_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define SIZES                                                                                      \
    "\"vocab_size\": 64, \"max_position_embeddings\": 128, \"hidden_size\": 32, "                  \
    "\"intermediate_size\": 64, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, "            \
    "\"num_key_value_heads\": 2"
#define FULL "\"full_attention\""
#define SLIDES "\"sliding_attention\""
#define TYPES(...) "\"layer_types\": [" __VA_ARGS__ "], "

static char path[] = "/tmp/zero-sliding-XXXXXX";

static zero_status read_model(const char *type, const char *keys, zr_lm_config *out,
                              zero_error *error)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "{\"model_type\": \"%s\", %s" SIZES "}", type, keys);
    assert_int_equal(fclose(file), 0);
    return zr_lm_config_read(path, out, error);
}

static zr_lm_config read_right(const char *type, const char *keys)
{
    zr_lm_config config;
    zero_error error;
    if (read_model(type, keys, &config, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return config;
}

// Writes a configuration, and checks that the keys of windows are those of `keys`, and that reading
// it gives the same.
static void check_written(const zr_lm_config *config, const char *keys)
{
    static const char *const of_windows[] = {"use_sliding_window", "sliding_window",
                                             "max_window_layers", "layer_types"};
    json_t *written = zr_lm_config_pack(config), *wanted, *again;
    char text[512];
    zr_lm_config back;
    snprintf(text, sizeof text, "{%s\"end\": 0}", keys);
    wanted = json_loads(text, 0, NULL);
    assert_true(written && wanted);
    for (int k = 0; k < ZR_COUNT(of_windows); k++) {
        json_t *found = json_object_get(written, of_windows[k]),
               *want = json_object_get(wanted, of_windows[k]);
        if (want ? !json_equal(found, want) : found != NULL)
            fail_msg("%s: \"%s\" is %s", keys, of_windows[k], found ? "another" : "not written");
    }
    assert_int_equal(zr_lm_config_unpack(written, "written", &back, NULL), ZERO_OK);
    again = zr_lm_config_pack(&back);
    assert_true(json_equal(again, written));
    for (int layer = 0; layer < 3; layer++)
        assert_int_equal(zr_lm_window(&back, layer), zr_lm_window(config, layer));
    json_decref(again);
    json_decref(written);
    json_decref(wanted);
}

// The windows of the three layers, and the keys as they are written if not as they were read.
static void layers_have_what_the_keys_say(void **state)
{
#define USED "\"use_sliding_window\": true, "
    static const struct {
        const char *type, *keys;
        int64_t windows[3];
        const char *written;
    } cases[] = {
        {"mistral", "", {4096, 4096, 4096}, "\"sliding_window\": 4096, "},
        {"mistral", "\"sliding_window\": 5, ", {5, 5, 5}, NULL},
        {"mistral", "\"sliding_window\": null, ", {0, 0, 0}, NULL},
        {"mistral",
         "\"sliding_window\": 9223372036854775807, ",
         {INT64_MAX, INT64_MAX, INT64_MAX},
         NULL},
        {"mistral",
         "\"sliding_window\": 5, " TYPES(SLIDES ", " SLIDES ", " SLIDES),
         {5, 5, 5},
         NULL},
        {"qwen2", "", {0, 0, 0}, "\"use_sliding_window\": false, "},
        {"qwen2",
         "\"use_sliding_window\": false, \"sliding_window\": 5, \"max_window_layers\": 0, ",
         {0, 0, 0},
         NULL},
        {"qwen3",
         "\"use_sliding_window\": false, \"sliding_window\": null, " TYPES(FULL ", " FULL
                                                                                ", " FULL),
         {0, 0, 0},
         NULL},
        {"qwen2", USED "\"sliding_window\": 5, \"max_window_layers\": 1, ", {0, 5, 5}, NULL},
        {"qwen2", USED "\"sliding_window\": 5, \"max_window_layers\": 0, ", {5, 5, 5}, NULL},
        {"qwen2",
         USED "\"sliding_window\": 5, ",
         {0, 0, 0},
         USED "\"sliding_window\": 5, \"max_window_layers\": 28, "},
        {"qwen2", USED "\"sliding_window\": null, \"max_window_layers\": 1, ", {0, 0, 0}, NULL},
        {"qwen3",
         USED
         "\"sliding_window\": 7, \"max_window_layers\": 3, " TYPES(SLIDES ", " FULL ", " SLIDES),
         {7, 0, 7},
         NULL},
        {"llama", TYPES(FULL ", " FULL ", " FULL), {0, 0, 0}, ""},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        const zr_lm_config config = read_right(cases[i].type, cases[i].keys);
        for (int layer = 0; layer < 3; layer++)
            if (zr_lm_window(&config, layer) != cases[i].windows[layer])
                fail_msg("%s, %s: the window of layer %d is %lld", cases[i].type, cases[i].keys,
                         layer, (long long)zr_lm_window(&config, layer));
        assert_int_equal(zr_lm_shape_of(&config).positions, 128);
        check_written(&config, cases[i].written ? cases[i].written : cases[i].keys);
    }
}

// A program that sets the window alone gives it to every layer; a model of type llama has none in
// files, so that it is no longer than the window.
static void a_program_sets_all_layers(void **state)
{
    zr_lm_config config = {.kind = ZR_LM_LLAMA};
    zero_llama_defaults(&config.llama);
    config.llama.variant = ZERO_LLAMA_qwen2;
    config.llama.sliding_window = 6;
    assert_true(zr_lm_window(&config, 0) == 6 && zr_lm_window(&config, 11) == 6);
    assert_int_equal(zr_lm_shape_of(&config).positions, 1024);
    zr_lm_config read;
    json_t *written = zr_lm_config_pack(&config);
    assert_int_equal(zr_lm_config_unpack(written, "written", &read, NULL), ZERO_OK);
    json_decref(written);
    assert_true(zr_lm_window(&read, 0) == 6 && zr_lm_window(&read, 11) == 6);
    config.llama.variant = ZERO_LLAMA_llama;
    assert_int_equal(zr_lm_shape_of(&config).positions, 6);
}

static void enlarged_models_repeat_their_layers(void **state)
{
    zr_lm_config config =
        read_right("qwen2", USED "\"sliding_window\": 7, " TYPES(SLIDES ", " FULL ", " FULL));
    zr_lm_enlarge(&config, 2, 7);
    for (int layer = 0; layer < 7; layer++)
        assert_int_equal(zr_lm_window(&config, layer), layer % 3 ? 0 : 7);
}

static void contradictions_are_refused(void **state)
{
    static const struct {
        const char *type, *keys;
        zero_status status;
        const char *message;
    } wrong[] = {
        {"mistral", "\"sliding_window\": 0, ", ZERO_ERR_DATA, "\"sliding_window\" is 0: a window"},
        {"mistral", "\"sliding_window\": -1, ", ZERO_ERR_DATA, "\"sliding_window\" is -1"},
        {"mistral", "\"sliding_window\": \"5\", ", ZERO_ERR_DATA,
         "\"sliding_window\" is not a whole number"},
        {"mistral", "\"sliding_window\": 5, " TYPES(SLIDES ", " FULL ", " SLIDES),
         ZERO_ERR_UNSUPPORTED, "\"full_attention\" for layer 1: a model of type mistral"},
        {"mistral", "\"sliding_window\": null, " TYPES(SLIDES ", " SLIDES ", " SLIDES),
         ZERO_ERR_UNSUPPORTED, "\"sliding_attention\" for layer 0: \"sliding_window\" is null"},
        {"qwen2", USED "\"sliding_window\": 0, ", ZERO_ERR_DATA, "\"sliding_window\" is 0"},
        {"qwen2", USED "\"max_window_layers\": -1, ", ZERO_ERR_DATA, "\"max_window_layers\" is -1"},
        {"qwen2", "\"use_sliding_window\": 1, ", ZERO_ERR_DATA,
         "\"use_sliding_window\" is neither true nor false"},
        {"qwen2", TYPES(SLIDES ", " FULL ", " FULL), ZERO_ERR_UNSUPPORTED,
         "\"sliding_attention\" for layer 0: \"use_sliding_window\" is not true"},
        {"qwen2", USED TYPES(SLIDES ", " FULL), ZERO_ERR_DATA,
         "\"layer_types\" has 2 types, \"num_hidden_layers\" is 3"},
        {"qwen2", USED TYPES(SLIDES ", " FULL ", " FULL ", " FULL), ZERO_ERR_DATA,
         "\"layer_types\" has 4 types"},
        {"qwen2", USED "\"layer_types\": \"sliding\", ", ZERO_ERR_DATA,
         "\"layer_types\" is not a list"},
        {"qwen3", USED TYPES(FULL ", \"chunked_attention\", " FULL), ZERO_ERR_UNSUPPORTED,
         "\"chunked_attention\" for layer 1: only"},
        {"qwen3", USED TYPES(FULL ", " FULL ", 3"), ZERO_ERR_UNSUPPORTED,
         "\"?\" for layer 2: only"},
        {"llama", TYPES(FULL ", " SLIDES ", " FULL), ZERO_ERR_UNSUPPORTED,
         "\"sliding_attention\" for layer 1: a model of type llama"},
    };
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zr_lm_config config;
        zero_error error = {.status = ZERO_OK};
        zero_status status = read_model(wrong[i].type, wrong[i].keys, &config, &error);
        if (status != wrong[i].status || !strstr(error.message, wrong[i].message) ||
            !strstr(error.message, path))
            fail_msg("%s: \"%s\" does not say \"%s\" and the file", wrong[i].keys, error.message,
                     wrong[i].message);
    }
}

// More types than can be read, which are as many as the layers.
static void a_longer_list_is_refused(void **state)
{
    enum { LAYERS = ZR_MOST_LAYER_TYPES + 1 };
    zr_lm_config config = {.kind = ZR_LM_LLAMA}, back;
    zero_error error = {.status = ZERO_OK};
    zero_llama_defaults(&config.llama);
    config.llama.variant = ZERO_LLAMA_qwen2;
    config.llama.n_layer = LAYERS;
    json_t *object = zr_lm_config_pack(&config), *types = json_array();
    for (int layer = 0; layer < LAYERS; layer++)
        json_array_append_new(types, json_string("full_attention"));
    json_object_set_new(object, "layer_types", types);
    assert_int_equal(zr_lm_config_unpack(object, "long", &back, &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "long: \"layer_types\" has 1025 types: at most 1024"));
    json_decref(object);
}

// A window, and where it is, changes the model; keys of one that is not used do not.
static void windows_are_compared(void **state)
{
    static const char *const used[] = {
        USED "\"sliding_window\": 5, \"max_window_layers\": 1, ",
        USED "\"sliding_window\": 6, \"max_window_layers\": 1, ",
        USED "\"sliding_window\": 5, \"max_window_layers\": 2, ",
        USED "\"sliding_window\": 5, " TYPES(SLIDES ", " FULL ", " FULL),
        "\"use_sliding_window\": false, ",
    };
    static const char *const unused[] = {
        "", "\"use_sliding_window\": false, \"sliding_window\": 5, \"max_window_layers\": 1, ",
        "\"sliding_window\": null, " TYPES(FULL ", " FULL ", " FULL)};
    zr_lm_difference found;
    for (int i = 0; i < ZR_COUNT(used); i++)
        for (int j = 0; j < ZR_COUNT(used); j++) {
            const zr_lm_config a = read_right("qwen2", used[i]), b = read_right("qwen2", used[j]);
            assert_int_equal(zr_lm_compare(&a, &b, 0, &found, NULL), ZERO_OK);
            assert_int_equal(found.found, i != j);
        }
    for (int i = 0; i < ZR_COUNT(unused); i++)
        for (int j = 0; j < ZR_COUNT(unused); j++) {
            const zr_lm_config a = read_right("qwen2", unused[i]),
                               b = read_right("qwen2", unused[j]);
            assert_int_equal(zr_lm_compare(&a, &b, 0, &found, NULL), ZERO_OK);
            assert_false(found.found);
        }
}

static int setup(void **state) { return close(mkstemp(path)); }

static int teardown(void **state) { return unlink(path); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_have_what_the_keys_say),
        cmocka_unit_test(a_program_sets_all_layers),
        cmocka_unit_test(enlarged_models_repeat_their_layers),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(a_longer_list_is_refused),
        cmocka_unit_test(windows_are_compared),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
