// The run record is read as it was written, to the byte; and what earlier programs left out counts
// as absent, not as an error.
#include "../base/scratch_directory.h"

#include "checkpoint/run_record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const files[] = {"a b.txt", "records.jsonl:0.5"};

static const zr_run_record whole = {
    .new_spec = "gpt2:layers=2",
    .tokenizer = "bytes",
    .data = files,
    .data_count = 2,
    .val = "held \"out\".txt",
    .field = "text",
    .chat = "chatml",
    .allow_change = "dropout",
    .backend = "cpu",
    .comm = "local processes",
    .instructions = "avx2",
    .data_hash = "68b0968bc621bda5",
    .vocabulary = 256,
    .parameters = 34688,
    .seq = 32,
    .steps = 4,
    .ranks = 2,
    .threads = 3,
};

#define WHOLE                                                                                      \
    "{\"new\": \"gpt2:layers=2\", \"tokenizer\": \"bytes\", \"tokenizer_of_model\": false, "       \
    "\"data\": [\"a b.txt\", \"records.jsonl:0.5\"], \"val\": \"held \\\"out\\\".txt\", "          \
    "\"field\": \"text\", \"chat\": \"chatml\", \"allow_change\": \"dropout\", "                   \
    "\"backend\": \"cpu\", \"comm\": \"local processes\", \"instructions\": \"avx2\", "            \
    "\"data_hash\": \"68b0968bc621bda5\", \"vocabulary\": 256, \"parameters\": 34688, "            \
    "\"seq\": 32, \"steps\": 4, \"ranks\": 2, \"threads\": 3}"

static void expect_text(const zr_run_record *record, const char *text)
{
    zr_buffer out = {0};
    zr_run_record_write(record, &out);
    assert_false(out.failed);
    assert_string_equal(out.data, text);
    zr_buffer_free(&out);
}

// A run whose config.json says this of itself, read.
static zr_run_config_file read_back(scratch *made, const char *libzero)
{
    char text[2048];
    zr_run_config_file config;
    zero_error error = {0};
    snprintf(text, sizeof text,
             "{\"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": 4, \"libzero\": %s}",
             libzero);
    scratch_write(made, "config.json", text);
    if (zr_run_config_read(made->directory, &config, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return config;
}

static void test_what_is_written_is_read(void **state)
{
    scratch *made = *state;
    expect_text(&whole, WHOLE);
    zr_run_config_file config = read_back(made, "{\"loss_mean\": \"targets\", \"run\": " WHOLE "}");
    assert_int_equal(zr_run_config_check(&config, NULL), ZERO_OK);
    assert_int_equal(config.train_batch, 16);
    assert_int_equal(config.micro_batch, 4);
    assert_false(config.of_earlier_program);
    assert_null(config.run.model);
    assert_string_equal(config.run.data[1], files[1]);
    assert_string_equal(config.run.comm, whole.comm);
    assert_string_equal(config.run.data_hash, whole.data_hash);
    expect_text(&config.run, WHOLE); // every field
    assert_true(zr_run_config_is_at(config.path));

    zr_run_before before;
    zr_run_before_read(made->directory, &before);
    assert_int_equal(before.batch, 16);
    assert_int_equal(before.micro_batch, 4);
    assert_int_equal(before.ranks, 2);
    zr_run_config_free(&config);
}

static void test_data_that_are_no_names(void **state)
{
    scratch *made = *state;
    zr_run_config_file config;
    zero_error error = {0};
    scratch_write(made, "config.json", "{\"libzero\": {\"run\": {\"data\": [\"a\", 1]}}}");
    assert_int_equal(zr_run_config_read(made->directory, &config, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "config.json\": item 1 of libzero.run.data is no text"));
    zr_run_config_free(&config);
}

// Tensor ranks are part of the job's ranks; a run without any writes nothing of them.
static void test_tensor_ranks(void **state)
{
    scratch *made = *state;
    zr_run_config_file config =
        read_back(made, "{\"run\": {\"ranks\": 8, \"tensor\": 4, \"threads\": 1}}");
    zr_run_before before;
    zr_run_before_read(made->directory, &before);
    assert_int_equal(config.run.ranks, 8);
    assert_int_equal(config.run.tensor, 4);
    assert_int_equal(before.ranks, 2); // data ranks
    zr_run_config_free(&config);
    config = read_back(made, "{\"run\": {\"ranks\": 8, \"tensor\": 4294967296}}");
    zr_run_before_read(made->directory, &before);
    assert_int_equal(before.ranks, 0); // such a run is not known
    zr_run_config_free(&config);

    zr_run_record four = whole;
    four.ranks = 8;
    four.tensor = 4;
    zr_buffer out = {0};
    zr_run_record_write(&four, &out);
    assert_non_null(strstr(out.data, "\"ranks\": 8, \"tensor\": 4, \"threads\": 3}"));
    zr_buffer_free(&out);

    zr_run_state facts, written = {.data_hash = "x", .ranks = 8, .tensor = 4, .best = INFINITY};
    json_t *packed = zr_run_state_pack(&written);
    assert_true(zr_run_state_read(packed, &facts));
    assert_true(facts.ranks == 8 && facts.tensor == 4);
    json_decref(packed);
    written.tensor = 1;
    packed = zr_run_state_pack(&written);
    assert_null(json_object_get(json_object_get(packed, "train"), "tensor"));
    assert_true(zr_run_state_read(packed, &facts) && facts.tensor == 1);
    json_decref(packed);
}

// Likewise pipeline stages.
static void test_pipeline_stages(void **state)
{
    scratch *made = *state;
    zr_run_config_file config = read_back(
        made, "{\"run\": {\"ranks\": 8, \"tensor\": 2, \"pipeline\": 2, \"threads\": 1}}");
    zr_run_before before;
    zr_run_before_read(made->directory, &before);
    assert_int_equal(config.run.stages, 2);
    assert_int_equal(before.stages, 2);
    assert_int_equal(before.ranks, 2); // data ranks
    zr_run_config_free(&config);

    zr_run_record two = whole;
    two.stages = 2;
    zr_buffer out = {0};
    zr_run_record_write(&two, &out);
    assert_non_null(strstr(out.data, "\"pipeline\": 2, \"threads\": 3}"));
    zr_buffer_free(&out);

    zr_run_state facts, written = {.data_hash = "x", .ranks = 8, .stages = 2, .best = INFINITY};
    json_t *packed = zr_run_state_pack(&written);
    assert_true(zr_run_state_read(packed, &facts));
    assert_true(facts.stages == 2 && facts.tensor == 1);
    json_decref(packed);
    written.stages = 1;
    packed = zr_run_state_pack(&written);
    assert_null(json_object_get(json_object_get(packed, "train"), "pipeline"));
    json_decref(packed);
}

static void test_the_last_tenth_is_the_default(void **state)
{
    zr_run_record record = whole;
    zr_buffer text = {0}, libzero = {0};
    record.val = NULL;
    zr_run_record_write(&record, &text);
    assert_non_null(strstr(text.data, "\"val\": \"the last tenth\""));
    zr_buffer_printf(&libzero, "{\"run\": %s}", text.data);
    zr_run_config_file config = read_back(*state, libzero.data);
    assert_null(config.run.val);
    zr_run_config_free(&config);
    zr_buffer_free(&text);
    zr_buffer_free(&libzero);

    config = read_back(*state, "{\"run\": {\"val\": \"none\"}}");
    assert_string_equal(config.run.val, "none");
    zr_run_config_free(&config);
}

static void test_what_an_earlier_program_left_out(void **state)
{
    zero_error error = {0};
    zr_run_config_file config = read_back(*state, "{\"run\": {\"model\": \"m\", \"data\": [\"a\"], "
                                                  "\"steps\": 1, \"ranks\": 1, \"threads\": 1}}");
    assert_int_equal(zr_run_config_check(&config, &error), ZERO_OK);
    assert_true(config.of_earlier_program);
    assert_null(config.run.instructions);
    assert_null(config.run.val);
    zr_run_config_free(&config);

    const char *const without[] = {
        "{}",
        "{\"run\": {\"data\": [\"a\"], \"steps\": 1, \"ranks\": 1, \"threads\": 1}}",
        "{\"run\": {\"new\": \"m\", \"data\": [], \"steps\": 1, \"ranks\": 1, \"threads\": 1}}",
        "{\"run\": {\"new\": \"m\", \"data\": [\"a\"], \"ranks\": 1, \"threads\": 1}}",
        "{\"run\": {\"new\": \"m\", \"data\": [\"a\"], \"steps\": 1, \"threads\": 1}}",
        "{\"run\": {\"new\": \"m\", \"data\": [\"a\"], \"steps\": 1, \"ranks\": 1}}",
    };
    for (int i = 0; i < ZR_COUNT(without); i++) {
        config = read_back(*state, without[i]);
        assert_int_equal(zr_run_config_check(&config, &error), ZERO_ERR_DATA);
        assert_int_equal(zr_run_config_is_at(config.path), i > 0);
        zr_run_config_free(&config);
    }
}

static void expect_state(const zr_run_state *state, const char *text)
{
    json_t *object = zr_run_state_pack(state);
    char *found = json_dumps(object, JSON_COMPACT);
    assert_string_equal(found, text);
    free(found);

    zr_run_state back;
    assert_true(zr_run_state_read(object, &back));
    assert_string_equal(back.data_hash, state->data_hash);
    assert_int_equal(back.seq, state->seq);
    assert_int_equal(back.lines, state->lines);
    assert_int_equal(back.micro_batch, state->micro_batch);
    assert_int_equal(back.ranks, state->ranks);
    assert_int_equal(back.resumed_from, state->resumed_from);
    assert_int_equal(back.owed, state->owed);
    assert_int_equal(back.keeps_weight_decay, state->keeps_weight_decay);
    assert_true(back.best == state->best);
    assert_int_equal(back.best_windows, state->best_windows);
    json_decref(object);
}

#define NUMBERS "\"data\":\"12\",\"seq\":32,\"lines\":7,\"micro_batch\":2,\"ranks\":3"

static void test_the_state_of_a_checkpoint(void **state)
{
    zr_run_state now = {
        .data_hash = "12",
        .seq = 32,
        .lines = 7,
        .micro_batch = 2,
        .ranks = 3,
        .best = INFINITY,
    };
    expect_state(&now, "{\"train\":{" NUMBERS "}}");
    now.resumed_from = 5;
    now.owed = now.keeps_weight_decay = true;
    now.best = 1.5;
    now.best_windows = 9;
    expect_state(&now, "{\"train\":{" NUMBERS ",\"resumed_from\":5,\"owed\":true,"
                       "\"keeps_weight_decay\":true,\"best\":1.5,\"best_windows\":9}}");
    json_t *other = json_pack("{s:i}", "step", 3);
    assert_false(zr_run_state_read(other, &now));
    assert_true(isinf(now.best));
    assert_null(now.data_hash);
    json_decref(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_written_is_read, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_data_that_are_no_names, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_tensor_ranks, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_pipeline_stages, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_the_last_tenth_is_the_default, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(test_what_an_earlier_program_left_out, scratch_open,
                                        scratch_close),
        cmocka_unit_test(test_the_state_of_a_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
