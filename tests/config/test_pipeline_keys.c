// Pipelines: what the keys and the flags say, how many data ranks are left, and what is refused,
// with its numbers.
#include "pipeline_support.h"

static void who_says_how_many_stages(void **state)
{
    must_have("{}", &eight, 1);
    must_have("{}", &two_stages, 2);
    must_have("{" STAGES("4") "}", &eight, 4);
    must_have("{" STAGES("2") "}", &two_stages, 2);
    // These say nothing.
    must_have("{" STAGES("1") "}", &two_stages, 2);
    must_have("{" STAGES("\"auto\"") "}", &two_stages, 2);
    must_have("{" STAGES("null") "}", &two_stages, 2);
    must_have("{" STAGES("\"auto\"") "}", &eight, 1);
    must_have("{" STAGES("null") "}", &eight, 1);
    must_have("{" STAGES("2") ", " TENSOR("2") "}", &eight, 2);
    must_fail("{" STAGES("4") "}", &two_stages, ZERO_ERR_USAGE,
              "--pipeline 2 contradicts pipeline.stages 4 (ds.json:1:25): say one of them, or both "
              "alike");
    must_fail("{" STAGES("4") "}",
              &(zr_config_facts){.world = 8, .micro_batch = 2, .parallel = {.pipeline = 1}},
              ZERO_ERR_USAGE,
              "--pipeline 1 contradicts pipeline.stages 4 (ds.json:1:25): say one of them, or both "
              "alike");
    must_fail("{}", &(zr_config_facts){.world = 8, .micro_batch = 2, .parallel = {.pipeline = -1}},
              ZERO_ERR_USAGE,
              "--pipeline: pipeline.stages: found -1, expected an integer above 0 to 256 or null");
    must_fail("{" STAGES("257") "}", &eight, ZERO_ERR_CONFIG,
              "ds.json:1:25: pipeline.stages: found 257, expected an integer above 0 to 256 or "
              "null");
}

static void ranks_that_are_no_multiple(void **state)
{
    const zr_config_facts six = {
        .world = 6, .micro_batch = 2, .parallel = {.pipeline = 2, .tensor = 2}};
    must_fail("{}", &(zr_config_facts){.world = 3, .micro_batch = 2, .parallel = {.pipeline = 2}},
              ZERO_ERR_USAGE, "3 ranks are no multiple of --pipeline 2: --ranks 2 or 4");
    must_fail("{}", &(zr_config_facts){.world = 1, .micro_batch = 2, .parallel = {.pipeline = 4}},
              ZERO_ERR_USAGE, "1 rank is no multiple of --pipeline 4: --ranks 4 or 8");
    must_fail("{" STAGES("3") "}", &eight, ZERO_ERR_CONFIG,
              "8 ranks are no multiple of pipeline.stages 3 (ds.json:1:25): 6 or 9 ranks");
    must_fail("{}", &six, ZERO_ERR_USAGE,
              "6 ranks are no multiple of --pipeline 2 x --tensor 2, which is 4: --ranks 4 or 8");
    must_fail("{" STAGES("2") ", " TENSOR("3") "}", &eight, ZERO_ERR_CONFIG,
              "8 ranks are no multiple of pipeline.stages 2 (ds.json:1:25) x "
              "tensor_parallel.autotp_size 3 (ds.json:1:64), which is 6: 6 or 12 ranks");
}

static void schedule_is(const char *text, const zr_config_facts *facts, zr_pipeline_kind kind,
                        int chunks)
{
    recorder log;
    zr_config *config = must_be(text, facts, 2, &log);
    assert_int_equal(config->pipeline.kind, kind);
    assert_int_equal(config->pipeline.chunks, chunks);
    zr_config_destroy(config);
}

static void who_says_which_schedule(void **state)
{
    zr_config_facts asked = two_stages;
    schedule_is("{}", &two_stages, ZR_PIPELINE_1F1B, 1);
    schedule_is("{" SCHEDULE("\"gpipe\"") "}", &two_stages, ZR_PIPELINE_GPIPE, 1);
    schedule_is("{" SCHEDULE("null") "}", &two_stages, ZR_PIPELINE_1F1B, 1);
    schedule_is("{" SCHEDULE("\"auto\"") "}", &two_stages, ZR_PIPELINE_1F1B, 1);
    asked.parallel.schedule = "zb-h1";
    schedule_is("{}", &asked, ZR_PIPELINE_ZB_H1, 1);
    schedule_is("{" SCHEDULE("\"zb-h1\"") "}", &asked, ZR_PIPELINE_ZB_H1, 1);
    asked.parallel.schedule = "interleaved";
    schedule_is("{" STEPS(8) "}", &asked, ZR_PIPELINE_INTERLEAVED, 2);
    schedule_is("{" STEPS(8) ", " SCHEDULE("\"interleaved:2\"") "}", &asked,
                ZR_PIPELINE_INTERLEAVED, 2);
    asked.parallel.schedule = "interleaved:4";
    schedule_is("{" STEPS(8) "}", &asked, ZR_PIPELINE_INTERLEAVED, 4);
    asked.parallel.schedule = NULL;
    schedule_is("{" STEPS(8) ", " SCHEDULE("\"interleaved\"") "}", &asked, ZR_PIPELINE_INTERLEAVED,
                2);
    asked.parallel.schedule = "2bw";
    schedule_is("{" STEPS(8) "}", &asked, ZR_PIPELINE_2BW, 1);
    asked.parallel.schedule = "pipedream";
    schedule_is("{" STEPS(8) ", \"gradient_clipping\": 0}", &asked, ZR_PIPELINE_PIPEDREAM, 1);
}

#define KINDS "one of 1f1b, gpipe, interleaved:CHUNKS (2 to 8), zb-h1, pipedream, 2bw"

static void schedules_that_are_none_or_differ(void **state)
{
    zr_config_facts asked = two_stages;
    must_fail("{" SCHEDULE("\"1F1B\"") "}", &eight, ZERO_ERR_CONFIG,
              "ds.json:1:39: libzero.pipeline.schedule: found \"1F1B\", expected " KINDS);
    asked.parallel.schedule = "zero-bubble";
    must_fail("{}", &asked, ZERO_ERR_USAGE, "--schedule zero-bubble: expected " KINDS);
    asked.parallel.schedule = "gpipe";
    must_fail("{" SCHEDULE("\"1f1b\"") "}", &asked, ZERO_ERR_USAGE,
              "--schedule gpipe contradicts libzero.pipeline.schedule \"1f1b\" (ds.json:1:39): say "
              "one of them, or both alike");
    asked.parallel.schedule = "interleaved:4";
    must_fail("{" STEPS(8) ", " SCHEDULE("\"interleaved\"") "}", &asked, ZERO_ERR_USAGE,
              "--schedule interleaved:4 contradicts libzero.pipeline.schedule \"interleaved\" "
              "(ds.json:1:73): say one of them, or both alike");
}

static void split_is(const char *text, const zr_config_facts *facts, int count, const int *split)
{
    recorder log;
    zr_config *config = must_be(text, facts, facts->parallel.pipeline, &log);
    assert_int_equal(config->pipeline.split_count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(config->pipeline.split[i], split[i]);
    assert_lacks(log.lines, "no effect");
    zr_config_destroy(config);
}

static void who_says_where_it_is_cut(void **state)
{
    const int halves[] = {0, 6}, quarters[] = {0, 3, 6, 14};
    zr_config_facts asked = two_stages;
    split_is("{}", &two_stages, 0, NULL);
    split_is("{" SPLIT("null") "}", &two_stages, 0, NULL);
    split_is("{" SPLIT("[0, 6]") "}", &two_stages, 2, halves);
    split_is("{" SPLIT("[6]") "}", &two_stages, 2, halves);
    asked.parallel.split = "0,6";
    split_is("{}", &asked, 2, halves);
    split_is("{" SPLIT("[0, 6]") "}", &asked, 2, halves);
    split_is("{" SPLIT("[6]") "}", &asked, 2, halves);
    asked.parallel.split = "6";
    split_is("{" SPLIT("[0, 6]") "}", &asked, 2, halves);
    asked.parallel.split = "3,6,14";
    asked.parallel.schedule = "interleaved:2";
    split_is("{" STEPS(8) "}", &asked, 4, quarters);
    asked.parallel.pipeline = 4;
    asked.parallel.schedule = NULL;
    split_is("{" STEPS(16) "}", &asked, 4, quarters);
}

static void flag_must_fail(const char *split, const char *message)
{
    zr_config_facts asked = two_stages;
    asked.parallel.split = split;
    must_fail("{}", &asked, ZERO_ERR_USAGE, message);
}

#define WANTED "expected first units of chunks in ascending order from 0, such as "

static void splits_that_are_none_or_differ(void **state)
{
    zr_config_facts asked = two_stages;
    flag_must_fail("6,0", "--split 6,0: " WANTED "0,6");
    flag_must_fail("0,6,6", "--split 0,6,6: " WANTED "0,6");
    flag_must_fail("0,6,", "--split 0,6,: " WANTED "0,6");
    flag_must_fail("0;6", "--split 0;6: " WANTED "0,6");
    flag_must_fail("-1,6", "--split -1,6: " WANTED "0,6");
    flag_must_fail("0, 6", "--split 0, 6: " WANTED "0,6");
    flag_must_fail("0,99999999999999999999", "--split 0,99999999999999999999: " WANTED "0,6");
    flag_must_fail("2,6",
                   "--split 2,6 does not begin with unit 0, with which the first of 2 chunks "
                   "begins");
    flag_must_fail("0,6,9",
                   "--split 0,6,9 begins 3 chunks, and there are 2: 2 pipeline stages of 1 chunk");
    flag_must_fail("3,6,9",
                   "--split 3,6,9 begins 4 chunks, and there are 2: 2 pipeline stages of 1 chunk");
    asked.parallel.pipeline = 0;
    asked.parallel.split = "0,6";
    must_fail("{}", &asked, ZERO_ERR_USAGE,
              "--split 0,6 begins 2 chunks, and there is 1: 1 pipeline stage of 1 chunk");
    asked = two_stages;
    asked.parallel.schedule = "interleaved:2";
    asked.parallel.split = "0";
    must_fail("{}", &asked, ZERO_ERR_USAGE,
              "--split 0 begins 1 chunk, and there are 4: 2 pipeline stages of 2 chunks");
    must_fail("{" SPLIT("[6, 0]") "}", &two_stages, ZERO_ERR_CONFIG,
              "libzero.pipeline.split [6,0] (ds.json:1:36): " WANTED "[0, 6]");
    must_fail("{" SPLIT("[]") "}", &two_stages, ZERO_ERR_CONFIG,
              "libzero.pipeline.split [] (ds.json:1:36): " WANTED "[0, 6]");
    must_fail("{" SPLIT("[0, 1.5]") "}", &two_stages, ZERO_ERR_CONFIG,
              "libzero.pipeline.split [0,1.5] (ds.json:1:36): " WANTED "[0, 6]");
    must_fail("{" SPLIT("[0, 3, 6]") "}", &two_stages, ZERO_ERR_CONFIG,
              "libzero.pipeline.split [0,3,6] (ds.json:1:36) begins 3 chunks, and there are 2: 2 "
              "pipeline stages of 1 chunk");
    asked = two_stages;
    asked.parallel.split = "0,4";
    must_fail("{" SPLIT("[0, 6]") "}", &asked, ZERO_ERR_USAGE,
              "--split 0,4 contradicts libzero.pipeline.split [0,6] (ds.json:1:36): say one of "
              "them, or both alike");
}

// More first units than there can be chunks do not overrun anything.
static void a_split_has_an_end(void **state)
{
    zr_config_facts asked = two_stages;
    zr_buffer text = {0};
    for (int i = 0; i <= ZR_MOST_PIPELINE_STAGES * ZR_MOST_CHUNKS; i++)
        zr_buffer_printf(&text, "%s%d", i ? "," : "", i);
    asked.parallel.split = text.data;
    zero_error error;
    recorder log;
    assert_null(resolved("{}", &asked, &log, &error));
    assert_contains(error.message, "expected first units of chunks");
    zr_buffer_free(&text);
}

static void method_is(const char *value, zr_split_method method, const char *regex)
{
    recorder log;
    char text[256];
    nest("pipeline.partition", value, text, sizeof text);
    zr_config *config = must_be(text, &two_stages, 2, &log);
    assert_int_equal(config->pipeline.method, method);
    if (regex)
        assert_string_equal(config->pipeline.regex, regex);
    else
        assert_null(config->pipeline.regex);
    assert_lacks(log.lines, "no effect");
    zr_config_destroy(config);
}

static void partitions(void **state)
{
    static const char wanted[] = ", expected best, uniform, parameters or type:REGEX";
    char message[256];
    method_is("\"best\"", ZR_SPLIT_BEST, NULL);
    method_is("\"auto\"", ZR_SPLIT_BEST, NULL);
    method_is("\"uniform\"", ZR_SPLIT_UNIFORM, NULL);
    method_is("\"Parameters\"", ZR_SPLIT_PARAMETERS, NULL);
    method_is("\"type:block|head\"", ZR_SPLIT_TYPE, "block|head");
    method_is("\"TYPE:^H\"", ZR_SPLIT_TYPE, "^H");
    snprintf(message, sizeof message, "ds.json:1:28: pipeline.partition: found \"profile\"%s%s",
             wanted, " (DeepSpeed itself has no profile)");
    must_fail("{\"pipeline\": {\"partition\": \"profile\"}}", &two_stages, ZERO_ERR_CONFIG,
              message);
    snprintf(message, sizeof message, "ds.json:1:28: pipeline.partition: found \"type:\"%s",
             wanted);
    must_fail("{\"pipeline\": {\"partition\": \"type:\"}}", &two_stages, ZERO_ERR_CONFIG, message);
    must_fail("{\"pipeline\": {\"partition\": \"type:(h\"}}", &two_stages, ZERO_ERR_CONFIG,
              "ds.json:1:28: pipeline.partition: \"(h\" is no regular expression: Unmatched ( or "
              "\\(");
}

static void other_keys(void **state)
{
    recorder log;
    zr_config *config =
        must_be("{\"pipeline\": {\"stages\": 2, \"activation_checkpoint_interval\": 3, "
                "\"pipe_partitioned\": true, \"grad_partitioned\": true}, \"libzero\": "
                "{\"exact_pipeline\": true, \"pipeline\": {\"schedule\": \"2bw\", \"flush_every\": "
                "4}}, " STEPS(8) "}",
                &eight, 2, &log);
    assert_int_equal(config->pipeline.checkpoint_interval, 3);
    assert_int_equal(config->pipeline.flush_every, 4);
    assert_true(config->pipeline.exact);
    assert_lacks(log.lines, "no effect");
    zr_config_destroy(config);
    config = must_be("{}", &two_stages, 2, &log);
    assert_int_equal(config->pipeline.checkpoint_interval, 0);
    assert_int_equal(config->pipeline.flush_every, 8);
    assert_false(config->pipeline.exact);
    zr_config_destroy(config);
    config = must_be("{\"libzero\": {\"exact_pipeline\": true}}", &eight, 1, &log);
    assert_true(config->pipeline.exact); // one sum is two without a pipeline, too
    assert_lacks(log.lines, "no effect");
    zr_config_destroy(config);
    must_fail(
        "{\"pipeline\": {\"pipe_partitioned\": false}}", &two_stages, ZERO_ERR_UNSUPPORTED,
        "ds.json:1:35: pipeline.pipe_partitioned false is refused: tensor ranks always divide "
        "by rows what they pass on to the next pipeline stage");
    must_fail(
        "{\"pipeline\": {\"grad_partitioned\": false}}", &two_stages, ZERO_ERR_UNSUPPORTED,
        "ds.json:1:35: pipeline.grad_partitioned false is refused: tensor ranks always divide "
        "by rows what they pass on to the next pipeline stage");
    must_fail("{\"pipeline\": {\"activation_checkpoint_interval\": 2}, "
              "\"activation_checkpointing\": {\"number_checkpoints\": 3}}",
              &two_stages, ZERO_ERR_CONFIG,
              "pipeline.activation_checkpoint_interval 2 (ds.json:1:49) and "
              "activation_checkpointing.number_checkpoints 3 (ds.json:1:104) both cut the units "
              "into segments: keep one of them");
}

static void explained(const char *text, const zr_config_facts *facts, const char *line)
{
    recorder log;
    zr_config *config = resolved_well(text, facts, &log);
    if (line)
        assert_contains(log.lines, line);
    else
        assert_lacks(log.lines, "no effect");
    zr_config_destroy(config);
}

static void keys_that_decide_nothing(void **state)
{
    zr_config_facts asked = eight;
    explained("{\"pipeline\": {\"seed_layers\": true, \"stages\": 2}}", &eight,
              "pipeline.seed_layers: every element of every layer has random bits of its own\n");
    explained("{\"pipeline\": {\"use_reentrant\": false, \"stages\": 2}}", &eight,
              "pipeline.use_reentrant: there is one implementation of activation checkpoints\n");
    explained("{\"pipeline\": {\"partition\": \"uniform\"}}", &eight,
              "pipeline.partition: there is no pipeline\n");
    explained("{" SCHEDULE("\"gpipe\"") "}", &eight,
              "libzero.pipeline.schedule: there is no pipeline\n");
    explained("{" SPLIT("[0, 6]") "}", &eight, "libzero.pipeline.split: there is no pipeline\n");
    asked.parallel.schedule = "gpipe";
    explained("{}", &asked,
              "warning: --schedule: no effect here: libzero.pipeline.schedule: there is no "
              "pipeline\n");
    explained("{\"libzero\": {\"pipeline\": {\"flush_every\": 2}}}", &two_stages,
              "libzero.pipeline.flush_every: a synchronous schedule drains the pipeline after each "
              "step\n");
    explained("{\"pipeline\": {\"partition\": \"uniform\"}, " SPLIT("[0, 6]") "}", &two_stages,
              "pipeline.partition: libzero.pipeline.split says where the model is cut\n");
    // What asks for no more than the defaults is not spoken of.
    explained("{\"pipeline\": {\"stages\": \"auto\", \"partition\": \"best\", "
              "\"pipe_partitioned\": true, \"activation_checkpoint_interval\": 0}}",
              &eight, NULL);
}

static void the_resolved_file_says_the_same(void **state)
{
    static const char text[] = "{\"pipeline\": {\"partition\": \"type:h\", "
                               "\"activation_checkpoint_interval\": 2}, " STEPS(
                                   8) ", \"libzero\": {\"exact_pipeline\": true}}";
    zr_config_facts asked = two_stages;
    asked.parallel.schedule = "interleaved";
    asked.parallel.split = "3,6,9";
    recorder log;
    zr_config *config = must_be(text, &asked, 2, &log);
    zr_buffer out = {0}, again = {0};
    zr_config_write(config, &out);
    assert_contains(out.data, "\"schedule\": \"interleaved:2\"");
    zr_config *other = must_be(out.data, &eight, 2, &log); // without a flag
    const zr_pipeline_spec *a = &config->pipeline, *b = &other->pipeline;
    assert_true(b->kind == ZR_PIPELINE_INTERLEAVED && b->chunks == 2);
    assert_true(b->method == ZR_SPLIT_TYPE && b->split_count == 4);
    assert_string_equal(b->regex, "h");
    assert_memory_equal(a->split, b->split, 4 * sizeof *a->split);
    assert_int_equal(b->checkpoint_interval, 2);
    assert_true(b->exact);
    zr_config_write(other, &again);
    assert_string_equal(out.data, again.data);
    zr_config_destroy(other);
    zr_config_destroy(must_be(out.data, &asked, 2, &log)); // with the same flags
    zr_config_destroy(config);
    zr_buffer_free(&again);
    zr_buffer_free(&out);
}

// What a run without a pipeline writes says nothing about one, so later flags may.
static void a_resolved_file_leaves_it_to_flags(void **state)
{
    zr_config_facts asked = {.world = 8,
                             .parallel = {.pipeline = 2, .schedule = "gpipe", .split = "0,6"}};
    recorder log;
    zr_config *config = must_be("{\"train_micro_batch_size_per_gpu\": 2, " STEPS(2) "}",
                                &(zr_config_facts){.world = 4}, 1, &log);
    zr_buffer text = {0};
    zr_config_write(config, &text);
    zr_config_destroy(must_be(text.data, &(zr_config_facts){.world = 4}, 1, &log));
    assert_lacks(log.lines, "there is no pipeline");
    zr_config *again = must_be(text.data, &asked, 2, &log);
    assert_int_equal(again->pipeline.kind, ZR_PIPELINE_GPIPE);
    assert_int_equal(again->pipeline.split_count, 2);
    zr_config_destroy(again);
    zr_config_destroy(config);
    zr_buffer_free(&text);
}

// A caller that finds the ranks before it resolves gets the same.
static void ranks_may_be_found_before(void **state)
{
    zr_config_facts asked = {.micro_batch = 2,
                             .parallel = {.pipeline = 2, .tensor = 2, .schedule = "gpipe"}};
    zero_error error;
    zr_config *config = parsed("{}", &error);
    asked.parallel.split = "0,6";
    assert_int_equal(zr_config_find_ranks(config, &asked, &error), ZERO_OK); // of any job
    assert_int_equal(zr_config_model_ranks(config), 4);
    assert_int_equal(config->ranks, 0);
    asked.world = 8;
    for (int i = 0; i < 2; i++)
        assert_int_equal(zr_config_find_ranks(config, &asked, &error), ZERO_OK);
    assert_int_equal(zr_config_resolve(config, &asked, NULL, &error), ZERO_OK);
    const zr_job_grid grid = zr_config_grid(config);
    assert_true(grid.stages == 2 && grid.data == 2 && grid.tensor == 2);
    assert_int_equal(config->pipeline.kind, ZR_PIPELINE_GPIPE);
    assert_int_equal(config->pipeline.split[1], 6);
    zr_config_destroy(config);
}

static zero_status infer(const char *text, int pipeline, recorder *log, zero_error *error)
{
    const zr_config_facts facts = {
        .world = 3, .micro_batch = 1, .parallel = {.pipeline = pipeline}};
    zr_config *config = parsed(text, error);
    recorder_begin(log);
    zero_status status = zr_config_keep_inference(config, error);
    if (status == ZERO_OK)
        status = zr_config_resolve(config, &facts, &log->logger, error);
    if (status == ZERO_OK)
        assert_int_equal(config->pipeline.stages, 1);
    zr_config_destroy(config);
    return status;
}

// Evaluation and generation run whole models, whatever the file of the training says.
static void inference_has_no_pipeline(void **state)
{
    zero_error error;
    recorder log;
    assert_int_equal(infer("{" STAGES("2") ", " SCHEDULE("\"pipedream\"") "}", 0, &log, &error),
                     ZERO_OK);
    assert_contains(log.lines, "no effect here: pipeline.stages: where nothing is trained there is "
                               "no pipeline\n");
    assert_lacks(log.lines, "libzero.pipeline");
    assert_int_equal(infer("{" STAGES("\"auto\"") "}", 1, &log, &error), ZERO_OK);
    assert_lacks(log.lines, "no effect");
    assert_int_equal(infer("{}", 2, &log, &error), ZERO_ERR_USAGE);
    assert_string_equal(error.message,
                        "--pipeline 2: evaluation and generation need a run without a pipeline");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_says_how_many_stages),
        cmocka_unit_test(ranks_that_are_no_multiple),
        cmocka_unit_test(who_says_which_schedule),
        cmocka_unit_test(schedules_that_are_none_or_differ),
        cmocka_unit_test(who_says_where_it_is_cut),
        cmocka_unit_test(splits_that_are_none_or_differ),
        cmocka_unit_test(a_split_has_an_end),
        cmocka_unit_test(partitions),
        cmocka_unit_test(other_keys),
        cmocka_unit_test(keys_that_decide_nothing),
        cmocka_unit_test(the_resolved_file_says_the_same),
        cmocka_unit_test(a_resolved_file_leaves_it_to_flags),
        cmocka_unit_test(ranks_may_be_found_before),
        cmocka_unit_test(inference_has_no_pipeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
