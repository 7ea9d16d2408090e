// The table of keys itself: every row is well formed, can be found, and is documented.
#include "config_support.h"

#include <stdlib.h>

static void test_rows_are_unique_and_found(void **state)
{
    assert_true(zr_key_count() > 200);
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_key *key = zr_key_at(i);
        assert_int_equal(zr_key_find(key->path), i);
        assert_true(strlen(key->path) + 8 < ZR_KEY_PATH_BYTES);
        assert_non_null(key->help);
    }
}

static void test_rows_say_why(void **state)
{
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_key *key = zr_key_at(i);
        if (key->treatment != ZR_KEY_HONOURED || key->allowed)
            assert_non_null(key->reason);
        assert_int_equal(key->treatment == ZR_KEY_RENAMED, key->becomes != NULL);
        assert_int_equal(key->type == ZR_KEY_ENUM, key->choices != NULL);
        if (key->needs) { // settled before this row, and by itself
            assert_in_range(zr_key_find(key->needs), 0, i - 1);
            const zr_key *needed = zr_key_at(zr_key_find(key->needs));
            assert_true((needed->type == ZR_KEY_BOOL || needed->type == ZR_KEY_ENUM) &&
                        !needed->needs && key->treatment == ZR_KEY_HONOURED);
        }
        if (key->becomes)
            assert_true(zr_key_find(key->becomes) >= 0 || zr_key_is_section(key->becomes));
    }
}

// A default must be of its own row's type, and never be what the row refuses.
static void test_defaults_fit(void **state)
{
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_key *key = zr_key_at(i);
        if (!key->standard)
            continue;
        json_t *value = zr_key_standard(key);
        if (!value)
            fail_msg("%s: the default %s does not fit its row", key->path, key->standard);
        assert_true(zr_key_allows(key, value));
        json_decref(value);
    }
}

// DeepSpeed 0.19.8's defaults of the keys whose values matter to its users.
static void test_defaults_are_deepspeeds(void **state)
{
    static const struct {
        const char *path, *standard;
    } rows[] = {
        {"gradient_clipping", "1.0"},
        {"zero_optimization.stage", "0"},
        {"zero_optimization.reduce_bucket_size", "500000000"},
        {"zero_optimization.allgather_bucket_size", "500000000"},
        {"zero_optimization.overlap_comm", "null"},
        {"zero_optimization.sub_group_size", "1000000000"},
        {"zero_optimization.stage3_prefetch_bucket_size", "50000000"},
        {"zero_optimization.stage3_param_persistence_threshold", "100000"},
        {"zero_optimization.stage3_model_persistence_threshold", "9223372036854775807"},
        {"zero_optimization.stage3_max_live_parameters", "1000000000"},
        {"zero_optimization.offload_optimizer.buffer_count", "4"},
        {"zero_optimization.offload_param.buffer_count", "5"},
        {"zero_optimization.mics_shard_size", "-1"},
        {"fp16.initial_scale_power", "16"},
        {"fp16.loss_scale_window", "1000"},
        {"fp16.hysteresis", "2"},
        {"fp16.loss_scale", "0.0"},
        {"fp16.min_loss_scale", "1.0"},
        {"fp16.consecutive_hysteresis", "false"},
        {"flops_profiler.profile_step", "1"},
        {"flops_profiler.detailed", "true"},
        {"comms_logger.prof_all", "true"},
        {"comms_logger.prof_ops", "[]"},
        {"data_types.grad_accum_dtype", "null"},
        {"communication_data_type", "null"},
        {"scheduler.params.warmup_num_steps", "1000"},
        {"scheduler.params.warmup_type", "\"log\""},
        {"scheduler.params.cycle_first_step_size", "2000"},
        {"aio.block_size", "1048576"},
        {"tensorboard.job_name", "\"DeepSpeedJobName\""},
        {"autotuning.metric", "\"throughput\""},
        {"elasticity.version", "0.2"},
        {"checkpoint.tag_validation", "\"Warn\""},
    };
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        json_t *value = zr_key_standard(zr_key_at(zr_key_find(rows[i].path)));
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        assert_string_equal(text, rows[i].standard);
        free(text);
        json_decref(value);
    }
}

static void test_prefix_of_stage3(void **state)
{
    assert_int_equal(zr_key_find("zero_optimization.max_live_parameters"),
                     zr_key_find("zero_optimization.stage3_max_live_parameters"));
    assert_int_equal(zr_key_find("max_live_parameters"), -1);
    assert_int_equal(zr_key_find("zero_optimization.stage3_stage"), -1);
}

static void test_sections(void **state)
{
    assert_true(zr_key_is_section("zero_optimization"));
    assert_true(zr_key_is_section("zero_optimization.offload_param"));
    assert_true(zr_key_is_section("checkpoint.parallel_write"));
    assert_false(zr_key_is_section("zero_optimization.stage"));
    assert_false(zr_key_is_section("zero"));
}

static void test_nearest(void **state)
{
    static const struct {
        const char *path, *nearest;
    } pairs[] = {
        {"train_batchsize", "train_batch_size"},
        {"zero_optimization.stge", "zero_optimization.stage"},
        {"zero_optimisation", "zero_optimization"},
        {"zero_optimization.offload_params", "zero_optimization.offload_param"},
        {"zero_optimization.Overlap_Comm", "zero_optimization.overlap_comm"},
        {"stage", "zero_optimization.stage"},
        {"fp16.enable", "fp16.enabled"},
        {"bf16.enable", "bf16.enabled"},
        {"optimiser", "optimizer"},
        {"scheduler.params.warmup_numsteps", "scheduler.params.warmup_num_steps"},
        {"qqqqqqqqqqqq", ""},
        {"", ""},
    };
    for (int i = 0; i < ZR_COUNT(pairs); i++) {
        char nearest[ZR_KEY_PATH_BYTES];
        zr_key_nearest(pairs[i].path, nearest);
        assert_string_equal(nearest, pairs[i].nearest);
    }
}

static void test_optimizers(void **state)
{
    assert_int_equal(zr_optimizer_find("adam", true), ZR_OPTIMIZER_ADAMW);
    assert_int_equal(zr_optimizer_find("Adam", false), ZR_OPTIMIZER_ADAM_L2);
    assert_int_equal(zr_optimizer_find("ADAMW", false), ZR_OPTIMIZER_ADAMW);
    assert_int_equal(zr_optimizer_find("lamb", true), ZR_OPTIMIZER_LAMB);
    assert_int_equal(zr_optimizer_find("muon", true), ZR_OPTIMIZER_MUON);
    assert_int_equal(zr_optimizer_find("MuAdam", true), -1);
    for (int kind = 0; kind < ZR_OPTIMIZER_KINDS; kind++) {
        const zr_optimizer_traits *traits = zr_optimizer_traits_of((zr_optimizer_kind)kind);
        bool of_tensors = kind == ZR_OPTIMIZER_LAMB || kind == ZR_OPTIMIZER_MUON ||
                          kind == ZR_OPTIMIZER_ADAFACTOR;
        assert_int_equal(traits->elementwise, !of_tensors);
        assert_int_equal(traits->standard.kind, kind);
        assert_true(traits->standard.lr > 0);
    }
    assert_int_equal(zr_optimizer_states(&(zr_optimizer_spec){.kind = ZR_OPTIMIZER_SGD}), 0);
    assert_int_equal(
        zr_optimizer_states(&(zr_optimizer_spec){.kind = ZR_OPTIMIZER_SGD, .momentum = 0.9}), 1);
    assert_int_equal(zr_optimizer_states(&(zr_optimizer_spec){.kind = ZR_OPTIMIZER_LION}), 1);
    assert_int_equal(zr_optimizer_states(&(zr_optimizer_spec){.kind = ZR_OPTIMIZER_LAMB}), 2);
    assert_int_equal(zr_optimizer_states(&(zr_optimizer_spec){.kind = ZR_OPTIMIZER_ADAFACTOR}), 0);
}

static void test_document_names_every_key(void **state)
{
    zr_buffer document = {0};
    zr_config_document(&document);
    assert_false(document.failed);
    for (int i = 0; i < zr_key_count(); i++) {
        char cell[ZR_KEY_PATH_BYTES + 8];
        snprintf(cell, sizeof cell, "\n| `%s` | ", zr_key_at(i)->path);
        const char *first = strstr(document.data, cell);
        assert_non_null(first);
        assert_null(strstr(first + 1, cell));
        if (zr_key_at(i)->reason)
            assert_contains(first, zr_key_at(i)->reason);
    }
    zr_buffer_free(&document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_unique_and_found),
        cmocka_unit_test(test_rows_say_why),
        cmocka_unit_test(test_defaults_fit),
        cmocka_unit_test(test_defaults_are_deepspeeds),
        cmocka_unit_test(test_prefix_of_stage3),
        cmocka_unit_test(test_sections),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_document_names_every_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
