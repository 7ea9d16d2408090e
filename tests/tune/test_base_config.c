// What is said and what is open: the file, its lists, the section autotuning, the space, and the
// files of candidates.
#include "base/json.h"
#include "base/file.h"
#include "setup/resolve.h"
#include "tune/tuning_settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct asked {
    zr_tuning_file file;
    zr_tuning_settings settings;
    zr_model_choice subject;
    zr_tuning_space space;
} asked;

static zero_status read_file(const char *text, const zr_tuning_flags *flags, zr_tuning_file *out,
                             zero_error *error)
{
    char path[] = "/tmp/test-tuning-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    zero_status status = zr_tuning_file_read(path, flags, out, error);
    unlink(path);
    return status;
}

static void ask(const char *text, zero_tune_options options, asked *out)
{
    zero_error error = {0};
    const zr_tuning_flags flags = {.overrides = options.overrides,
                                   .count = options.override_count,
                                   .parallel = options.parallel};
    *out = (asked){.subject = {.parameters = 1000000, .seq = 64}};
    out->subject.shape = (zr_lm_shape){.layers = 4, .heads = 4, .width = 64};
    assert_int_equal(read_file(text, &flags, &out->file, &error), ZERO_OK);
    assert_int_equal(zr_tuning_settings_read(&out->file, NULL, &out->settings, &error), ZERO_OK);
    const zr_tuning_asked of = {.options = &options,
                                .file = &out->file,
                                .settings = &out->settings,
                                .subject = &out->subject,
                                .cores = 4};
    assert_int_equal(zr_tuning_space_find(&of, &out->space, &error), ZERO_OK);
}

static void expect_list(const zr_space_list *list, int count, const int64_t *values)
{
    assert_int_equal(list->count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(list->at[i], values[i]);
}
#define EXPECT(list, ...)                                                                          \
    expect_list(&(list), sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                       \
                (int64_t[]){__VA_ARGS__})

static void test_nothing_said_leaves_all_open(void **state)
{
    asked a;
    ask("{\"train_batch_size\": \"auto\", \"zero_optimization\": {\"stage\": \"auto\"}}",
        (zero_tune_options){0}, &a);
    EXPECT(a.space.ranks, 1, 2, 4);
    EXPECT(a.space.tensor, 1, 2, 4);
    EXPECT(a.space.pipeline, 1, 2, 4);
    EXPECT(a.space.stages, 0, 1, 2, 3);
    EXPECT(a.space.batches, 16); // 13 samples, which 4 ranks share
    assert_int_equal(a.space.schedules.count, 3);
    assert_true(a.space.vary_checkpoints && a.space.vary_optimizer && a.space.vary_tiles);
    assert_false(a.space.nvme || a.space.budgets || a.space.batch_follows);
    zr_tuning_file_free(&a.file);
}

static void test_what_is_said_stays(void **state)
{
    asked a;
    const zero_override stage = {"zero_optimization.stage", "2", "--stage"};
    ask("{\"train_batch_size\": 24, \"gradient_accumulation_steps\": 2,"
        " \"activation_checkpointing\": {\"number_checkpoints\": 3},"
        " \"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\"}},"
        " \"libzero\": {\"nvme_path\": \"/tmp\", \"device_memory\": \"1GB\","
        " \"tiling\": {\"mlp\": 2}}}",
        (zero_tune_options){.ranks = 2,
                            .overrides = &stage,
                            .override_count = 1,
                            .parallel = {.pipeline = 2, .schedule = "gpipe"}},
        &a);
    EXPECT(a.space.ranks, 2);
    EXPECT(a.space.stages, 2);
    EXPECT(a.space.batches, 24);
    EXPECT(a.space.pipeline, 2);
    EXPECT(a.space.schedules, ZR_PIPELINE_GPIPE);
    assert_int_equal(a.space.accumulation, 2);
    assert_int_equal(a.space.as_said.checkpoints, 3);
    assert_int_equal(a.space.as_said.optimizer, ZERO_TIER_host);
    assert_false(a.space.vary_checkpoints || a.space.vary_optimizer || a.space.vary_tiles);
    assert_true(a.space.nvme && a.space.budgets && a.space.vary_parameters);
    zr_tuning_file_free(&a.file);
}

static void test_lists_say_what_may_be_tried(void **state)
{
    asked a;
    zero_error error = {0};
    const zr_tuning_flags none = {0};
    zr_tuning_file file;
    ask("{\"train_micro_batch_size_per_gpu\": [1, 4], \"zero_optimization\": {\"stage\": [1, 3]},"
        " \"autotuning\": {\"enabled\": true}}",
        (zero_tune_options){0}, &a);
    EXPECT(a.space.stages, 1, 3);
    EXPECT(a.space.micro_batches, 1, 4);
    zr_tuning_file_free(&a.file);
    ask("{\"zero_optimization\": {\"stage\": \"all\"}}", (zero_tune_options){0}, &a);
    EXPECT(a.space.stages, 0, 1, 2, 3);
    zr_tuning_file_free(&a.file);
    assert_int_equal(
        read_file("{\"zero_optimization\": {\"stage\": [1, 4]}}", &none, &file, &error),
        ZERO_ERR_CONFIG);
    assert_non_null(strstr(error.message, "integers from 0 to 3"));
    zr_tuning_file_free(&file);
}

// Returns why there is no space.
static zero_status refused_space(const char *text, zero_tune_options options, const char *why)
{
    zero_error error = {0};
    asked a = {.subject = {.parameters = 1000000, .seq = 64}};
    const zr_tuning_flags none = {.parallel = options.parallel};
    a.subject.shape = (zr_lm_shape){.layers = 4, .heads = 4, .width = 64};
    assert_int_equal(read_file(text, &none, &a.file, &error), ZERO_OK);
    assert_int_equal(zr_tuning_settings_read(&a.file, NULL, &a.settings, &error), ZERO_OK);
    const zr_tuning_asked of = {.options = &options,
                                .file = &a.file,
                                .settings = &a.settings,
                                .subject = &a.subject,
                                .cores = 4};
    zero_status status = zr_tuning_space_find(&of, &a.space, &error);
    if (!strstr(error.message, why))
        fail_msg("\"%s\" in place of \"%s\"", error.message, why);
    zr_tuning_file_free(&a.file);
    return status;
}

static void test_a_flag_wins_over_a_list(void **state)
{
    asked a;
    const zero_override flags[] = {{"zero_optimization.stage", "2", "--stage"},
                                   {"train_micro_batch_size_per_gpu", "8", "--micro-batch"}};
    ask("{\"train_micro_batch_size_per_gpu\": [1, 4],"
        " \"zero_optimization\": {\"stage\": [1, 2, 3]}}",
        (zero_tune_options){.overrides = flags, .override_count = 2}, &a);
    EXPECT(a.space.stages, 2);
    EXPECT(a.space.micro_batches, 8);
    zr_tuning_file_free(&a.file);
}

// Ranks follow from what is said of the grid.
static void test_ranks_are_a_multiple_of_the_grid(void **state)
{
    static const struct {
        const char *text;
        zero_tune_options options;
        int64_t ranks;
    } cases[] = {
        {"{\"autotuning\": {\"enabled\": true, \"mp_size\": 2}}", {0}, 2},
        {"{\"autotuning\": {\"enabled\": true}, \"pipeline\": {\"stages\": 2}}", {0}, 2},
        {"{}", {.parallel = {.tensor = 4, .pipeline = 2}}, 8}, // of 4 cores
        {"{}", {.threads = 4, .parallel = {.pipeline = 2}}, 2},
        {"{}", {.parallel = {.tensor = 3}}, 3},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        asked a;
        ask(cases[i].text, cases[i].options, &a);
        EXPECT(a.space.ranks, cases[i].ranks);
        zr_tuning_file_free(&a.file);
    }
    asked a;
    ask("{}", (zero_tune_options){.parallel = {.tensor = 2}}, &a);
    EXPECT(a.space.ranks, 2, 4);
    zr_tuning_file_free(&a.file);
    assert_int_equal(
        refused_space("{}", (zero_tune_options){.ranks = 3, .parallel = {.tensor = 2}},
                      "3 ranks cannot be divided into 2 tensor ranks x 1 pipeline stage"),
        ZERO_ERR_CONFIG);
}

static void test_large_numbers_are_refused(void **state)
{
    zero_error error = {0};
    const zr_tuning_flags none = {0};
    zr_tuning_file file;
    assert_int_equal(read_file("{\"autotuning\": {\"mp_size\": 4294967296}}", &none, &file, &error),
                     ZERO_ERR_CONFIG);
    zr_tuning_file_free(&file);
    static const char *const texts[] = {
        "{\"train_micro_batch_size_per_gpu\": 4611686018427387904}",
        "{\"gradient_accumulation_steps\": 4611686018427387904}",
        "{\"train_batch_size\": 1000000000039}",
        "{\"train_micro_batch_size_per_gpu\": 1048576, \"gradient_accumulation_steps\": 1048576}",
    };
    for (int i = 0; i < ZR_COUNT(texts); i++)
        assert_int_equal(refused_space(texts[i], (zero_tune_options){0}, "zero tune tries"),
                         ZERO_ERR_CONFIG);
    asked a;
    ask("{\"autotuning\": {\"max_train_batch_size\": 9223372036854775807}}", (zero_tune_options){0},
        &a);
    assert_int_equal(a.space.batches.count, ZR_SPACE_MOST);
    zr_tuning_file_free(&a.file);
}

static void test_the_section_is_honoured(void **state)
{
    asked a;
    ask("{\"autotuning\": {\"enabled\": true, \"metric\": \"latency\", \"tuner_type\": \"random\","
        " \"start_profile_step\": 4, \"end_profile_step\": 9, \"tuner_early_stopping\": 2,"
        " \"tuner_num_trials\": 7, \"num_tuning_micro_batch_sizes\": 2,"
        " \"max_train_batch_size\": 48, \"min_train_batch_size\": 6, \"results_dir\": \"r\","
        " \"max_train_micro_batch_size_per_gpu\": 6, \"overwrite\": false, \"exps_dir\": \"e\"}}",
        (zero_tune_options){.ranks = 2}, &a);
    const zr_tuning_settings *s = &a.settings;
    assert_true(s->fast && !s->overwrite);
    assert_int_equal(s->metric, ZR_METRIC_LATENCY);
    assert_int_equal(s->order, ZR_ORDER_RANDOM);
    assert_true(s->first_step == 4 && s->last_step == 9 && s->early_stopping == 2);
    assert_true(s->trials == 7 && s->micro_batches == 2 && s->most_micro_batch == 6);
    assert_string_equal(s->results_dir, "r");
    assert_string_equal(s->exps_dir, "e");
    EXPECT(a.space.batches, 14, 28, 7);
    EXPECT(a.space.tensor, 1);
    EXPECT(a.space.pipeline, 1);
    assert_false(a.space.vary_checkpoints || a.space.vary_optimizer || a.space.vary_delayed);
    zr_tuning_file_free(&a.file);
    ask("{\"autotuning\": {\"enabled\": true, \"fast\": false}}", (zero_tune_options){0}, &a);
    assert_true(!a.settings.fast && a.space.vary_checkpoints);
    zr_tuning_file_free(&a.file);
}

// What libzero.offload auto chooses stays open, and what else a fast search leaves alone does not.
static void test_a_fast_search_chooses_what_is_left_to_the_program(void **state)
{
    asked a;
    ask("{\"autotuning\": {\"enabled\": true}, \"libzero\": {\"offload\": \"auto\","
        " \"device_memory\": \"1GB\"}}",
        (zero_tune_options){0}, &a);
    assert_true(a.settings.fast && a.space.budgets);
    assert_true(a.space.vary_optimizer && a.space.vary_parameters);
    assert_true(a.space.vary_sub_group && a.space.vary_tiles);
    assert_false(a.space.vary_delayed || a.space.vary_checkpoints);
    EXPECT(a.space.tensor, 1);
    zr_tuning_file_free(&a.file);
    ask("{\"autotuning\": {\"enabled\": true}, \"libzero\": {\"offload\": \"auto\"},"
        " \"zero_optimization\": {\"offload_optimizer\": {\"device\": \"none\"}}}",
        (zero_tune_options){0}, &a);
    assert_true(!a.space.vary_optimizer && a.space.vary_parameters);
    zr_tuning_file_free(&a.file);
    ask("{\"autotuning\": {\"enabled\": true}, \"libzero\": {\"offload\": \"given\"}}",
        (zero_tune_options){0}, &a);
    assert_false(a.space.vary_optimizer || a.space.vary_parameters || a.space.vary_tiles);
    zr_tuning_file_free(&a.file);
}

static void test_contradicting_steps_are_refused(void **state)
{
    zero_error error = {0};
    zr_tuning_file file;
    zr_tuning_settings settings;
    const zr_tuning_flags none = {0};
    assert_int_equal(
        read_file("{\"autotuning\": {\"start_profile_step\": 9}}", &none, &file, &error), ZERO_OK);
    assert_int_equal(zr_tuning_settings_read(&file, NULL, &settings, &error), ZERO_ERR_CONFIG);
    assert_non_null(strstr(error.message, "comes before start_profile_step 9"));
    zr_tuning_file_free(&file);
    assert_int_equal(
        read_file("{\"autotuning\": {\"end_profile_step\": 257}}", &none, &file, &error), ZERO_OK);
    assert_int_equal(zr_tuning_settings_read(&file, NULL, &settings, &error), ZERO_ERR_CONFIG);
    assert_non_null(strstr(error.message, "a trial makes at most 256 steps"));
    zr_tuning_file_free(&file);
    assert_int_equal(read_file("{}", &none, &file, &error), ZERO_OK);
    assert_int_equal(zr_tuning_settings_read(&file, "speed", &settings, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "\"speed\": throughput, latency or flops"));
    zr_tuning_file_free(&file);
    assert_int_equal(read_file("{\"autotuning\": {\"fats\": 9}}", &none, &file, &error),
                     ZERO_ERR_CONFIG);
    zr_tuning_file_free(&file);
}

static zr_config *resolve(const char *text, int ranks)
{
    zero_error error = {0};
    zr_config *config = NULL;
    zr_resolution how = {.text = text,
                         .length = strlen(text),
                         .facts = zr_resolve_facts(&(zr_run_outline){
                             .ranks = ranks, .parameters = 1000000, .steps = 100})};
    how.facts.batch = 12;
    if (zr_resolve(&how, &config, &error) != ZERO_OK)
        fail_msg("%s in %s", error.message, text);
    return config;
}

static void test_files_of_candidates_resolve_to_them(void **state)
{
    asked a;
    ask("{\"zero_optimization\": {\"stage\": 1}, \"optimizer\": {\"type\": \"AdamW\"},"
        " \"csv_monitor\": {\"enabled\": true}, \"libzero\": {\"offload\": \"auto\"}}",
        (zero_tune_options){0}, &a);
    const zr_run_candidate c = {
        .ranks = 4,
        .threads = 1,
        .tensor = 2,
        .stages = 2,
        .chunks = 1,
        .schedule = ZR_PIPELINE_ZB_H1,
        .stage = 1,
        .micro_batch = 3,
        .accumulation = 4,
        .checkpoints = 2,
        .optimizer = ZERO_TIER_host,
    };
    char *loud = zr_tuning_file_of(&a.file, &c, false, NULL);
    char *quiet = zr_tuning_file_of(&a.file, &c, true, NULL);
    assert_non_null(strstr(loud, "csv_monitor"));
    assert_null(strstr(quiet, "csv_monitor"));
    zr_config *config = resolve(quiet, 4);
    assert_true(config->stage == 1 && config->tensor == 2 && config->pipeline.stages == 2);
    assert_int_equal(config->pipeline.kind, ZR_PIPELINE_ZB_H1);
    assert_true(config->micro_batch == 3 && config->accumulation == 4 && config->train_batch == 12);
    assert_int_equal(config->offload.activation_checkpoints, 2);
    assert_int_equal(config->offload.optimizer, ZERO_TIER_host);
    assert_int_equal(config->offload.automatic, 0);
    zr_config_destroy(config);
    zr_free(quiet);
    zr_tuning_file_free(&a.file);
    // Tuned again, everything is said, but tiles, which are only tried where nothing else fits.
    ask(loud, (zero_tune_options){.ranks = 4}, &a);
    EXPECT(a.space.stages, 1);
    EXPECT(a.space.tensor, 2);
    EXPECT(a.space.pipeline, 2);
    EXPECT(a.space.schedules, ZR_PIPELINE_ZB_H1);
    EXPECT(a.space.micro_batches, 3);
    assert_true(a.space.accumulation == 4 && a.space.as_said.checkpoints == 2);
    assert_false(a.space.vary_checkpoints || a.space.vary_optimizer || a.space.vary_parameters ||
                 a.space.vary_delayed);
    zr_free(loud);
    zr_tuning_file_free(&a.file);
}

// What travels says its sub-groups, so that they are not open when it is tuned again.
static void test_sub_groups_are_written_where_they_travel(void **state)
{
    asked a;
    zr_run_candidate c = {.ranks = 1,
                          .threads = 1,
                          .tensor = 1,
                          .stages = 1,
                          .chunks = 1,
                          .stage = 1,
                          .micro_batch = 12,
                          .accumulation = 1,
                          .optimizer = ZERO_TIER_nvme};
    static const int64_t written[] = {0, 1 << 18};
    for (int i = 0; i < ZR_COUNT(written); i++) {
        ask("{\"libzero\": {\"nvme_path\": \"/tmp\"}}", (zero_tune_options){0}, &a);
        c.sub_group = written[i];
        char *text = zr_tuning_file_of(&a.file, &c, true, NULL);
        zr_tuning_file_free(&a.file);
        ask(text, (zero_tune_options){0}, &a);
        assert_false(a.space.vary_sub_group);
        assert_int_equal(zr_tuning_file_number(&a.file, ZR_TUNING_SUB_GROUP),
                         written[i] ? written[i] : 1000000000);
        zr_free(text);
        zr_tuning_file_free(&a.file);
    }
}

// A trial ends long before step 100, and its steps have to be those that are predicted.
static void test_trials_are_quiet_and_delayed_at_once(void **state)
{
    asked a;
    const zr_run_candidate c = {.ranks = 1,
                                .threads = 1,
                                .tensor = 1,
                                .stages = 1,
                                .chunks = 1,
                                .stage = 1,
                                .micro_batch = 12,
                                .accumulation = 1,
                                .optimizer = ZERO_TIER_host,
                                .delayed = true};
    static const int64_t starts[] = {100, 1};
    for (int quiet = 0; quiet < 2; quiet++) {
        json_t *root;
        ask("{\"wall_clock_breakdown\": true, \"zero_optimization\": {\"stage\": 1, "
            "\"offload_optimizer\": {\"device\": \"cpu\"}}, "
            "\"libzero\": {\"delayed_update\": {\"start_step\": 100}}}",
            (zero_tune_options){0}, &a);
        char *text = zr_tuning_file_of(&a.file, &c, quiet, NULL);
        assert_int_equal(zr_json_parse(text, strlen(text), "a file", &root, NULL), ZERO_OK);
        assert_int_equal(json_integer_value(zr_json_get(root, ZR_TUNING_DELAYED)), starts[quiet]);
        assert_int_equal(zr_json_get(root, "wall_clock_breakdown") != NULL, !quiet);
        json_decref(root);
        zr_free(text);
        zr_tuning_file_free(&a.file);
    }
}

static void test_what_is_said_is_not_overwritten(void **state)
{
    asked a;
    const zr_run_candidate c = {.ranks = 1,
                                .threads = 1,
                                .tensor = 1,
                                .stages = 1,
                                .chunks = 1,
                                .stage = 1,
                                .micro_batch = 12,
                                .accumulation = 1};
    ask("{\"zero_optimization\": {\"stage\": 2, \"cpu_offload\": true}}", (zero_tune_options){0},
        &a);
    char *text = zr_tuning_file_of(&a.file, &c, true, NULL);
    zr_config *config = resolve(text, 1);
    assert_int_equal(config->stage, 2);
    assert_int_equal(config->offload.optimizer, ZERO_TIER_host);
    zr_config_destroy(config);
    zr_free(text);
    zr_tuning_file_free(&a.file);
}

static void test_tilings_are_written(void **state)
{
    asked a;
    const zr_run_candidate c = {.ranks = 1,
                                .threads = 1,
                                .tensor = 1,
                                .stages = 1,
                                .chunks = 1,
                                .micro_batch = 12,
                                .accumulation = 1,
                                .tiling = 4};
    ask("{}", (zero_tune_options){0}, &a);
    char *text = zr_tuning_file_of(&a.file, &c, true, NULL);
    zr_config *config = resolve(text, 1);
    assert_true(config->offload.tiles_embedding == 16 && config->offload.tiles_mlp == 4);
    zr_config_destroy(config);
    zr_free(text);
    zr_tuning_file_free(&a.file);
}

static void test_a_type_by_flag_replaces_the_files(void **state)
{
    asked a;
    const zero_override dtype = {"libzero.dtype", "fp32", "--dtype"};
    ask("{\"bf16\": {\"enabled\": true}}",
        (zero_tune_options){.overrides = &dtype, .override_count = 1}, &a);
    const zr_run_candidate c = {.ranks = 1,
                                .threads = 1,
                                .tensor = 1,
                                .stages = 1,
                                .chunks = 1,
                                .micro_batch = 12,
                                .accumulation = 1};
    char *text = zr_tuning_file_of(&a.file, &c, true, NULL);
    zr_config *config = resolve(text, 1);
    assert_int_equal(config->dtype, ZERO_F32);
    zr_config_destroy(config);
    zr_free(text);
    zr_tuning_file_free(&a.file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_said_leaves_all_open),
        cmocka_unit_test(test_what_is_said_stays),
        cmocka_unit_test(test_lists_say_what_may_be_tried),
        cmocka_unit_test(test_a_flag_wins_over_a_list),
        cmocka_unit_test(test_ranks_are_a_multiple_of_the_grid),
        cmocka_unit_test(test_large_numbers_are_refused),
        cmocka_unit_test(test_the_section_is_honoured),
        cmocka_unit_test(test_a_fast_search_chooses_what_is_left_to_the_program),
        cmocka_unit_test(test_contradicting_steps_are_refused),
        cmocka_unit_test(test_files_of_candidates_resolve_to_them),
        cmocka_unit_test(test_sub_groups_are_written_where_they_travel),
        cmocka_unit_test(test_trials_are_quiet_and_delayed_at_once),
        cmocka_unit_test(test_what_is_said_is_not_overwritten),
        cmocka_unit_test(test_tilings_are_written),
        cmocka_unit_test(test_a_type_by_flag_replaces_the_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
