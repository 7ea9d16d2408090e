// What libzero.exact_world requires of a configuration: powers of two, a micro-batch that does not
// follow from the ranks, and sums in fp32.
#include "config_support.h"

#define FILE_OF(more)                                                                              \
    "{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 2, \"libzero\": "              \
    "{\"exact_world\": true}" more "}"

static const zr_config_facts four = {FACTS};

static void must_fail_on(int ranks, const char *text, const char *part)
{
    zero_error error;
    recorder log;
    zr_config_facts facts = {.world = ranks, .micro_batch = 2};
    zr_config *config = resolved(text, &facts, &log, &error);
    if (config)
        fail_msg("%s was accepted on %d ranks", text, ranks);
    assert_contains(error.message, part);
    assert_int_equal(error.status, ZERO_ERR_CONFIG);
}

static void must_fail(const char *text, const char *part) { must_fail_on(four.world, text, part); }

// One file, and always 16 micro-batches of two samples.
static void test_one_file_for_any_power_of_two(void **state)
{
    for (int ranks = 1; ranks <= 16; ranks *= 2) {
        zero_error error;
        recorder log;
        zr_config *config = resolved(FILE_OF(", \"bf16\": {\"enabled\": true}"),
                                     &(zr_config_facts){.world = ranks}, &log, &error);
        if (!config)
            fail_msg("%s", error.message);
        assert_true(config->exact_world && config->micro_batch == 2 &&
                    config->accumulation * ranks == 16);
        zr_config_destroy(config);
    }
    zero_error error;
    recorder log;
    zr_config *config = resolved(
        "{\"train_batch_size\": 24, \"libzero\": {\"exact_world\": false}}", &four, &log, &error);
    assert_true(config && !config->exact_world);
    zr_config_destroy(config);
}

static void test_powers_of_two(void **state)
{
    static const char *const six =
        "{\"train_micro_batch_size_per_gpu\": 2,\n \"gradient_accumulation_steps\": 6, "
        "\"libzero\": {\"exact_world\": true}}";
    must_fail_on(3, "{\"train_micro_batch_size_per_gpu\": 2, \"libzero\": {\"exact_world\": true}}",
                 "libzero.exact_world on 3 ranks: found 3, expected a power of two");
    must_fail(
        six,
        "gradient_accumulation_steps 6 (a batch of 48 = 2 x 6 x 4 ranks): expected a power of two");
    must_fail(six, "ds.json:2:");
}

static void test_a_micro_batch_that_is_given(void **state)
{
    must_fail("{\"libzero\": {\"exact_world\": true}}", "the 2 that follow from 4 ranks");
    must_fail("{\"train_batch_size\": 32, \"libzero\": {\"exact_world\": true}}",
              "the 8 that follow from 4 ranks");
    must_fail("{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": \"auto\", "
              "\"libzero\": {\"exact_world\": true}}",
              "train_micro_batch_size_per_gpu (--micro-batch)");
    zero_error error;
    zr_config *config =
        parsed("{\"train_batch_size\": 32, \"libzero\": {\"exact_world\": true}}", &error);
    assert_int_equal(zr_config_override(config, "train_micro_batch_size_per_gpu", "4",
                                        "--micro-batch", false, NULL, &error),
                     ZERO_OK);
    assert_int_equal(zr_config_resolve(config, &four, NULL, &error), ZERO_OK);
    assert_int_equal(config->accumulation, 2);
    zr_config_destroy(config);
}

static void test_sums_in_fp32(void **state)
{
    zero_error error;
    recorder log;
    must_fail(FILE_OF(",\n\"communication_data_type\": \"bf16\""), "ds.json:2:");
    must_fail(FILE_OF(", \"communication_data_type\": \"fp16\""),
              "communication_data_type is fp16, but with libzero.exact_world gradients are "
              "exchanged in fp32");
    must_fail(FILE_OF(", \"data_types\": {\"grad_accum_dtype\": \"bf16\"}"),
              "data_types.grad_accum_dtype is bf16");
    zr_config *config = resolved(FILE_OF(", \"communication_data_type\": \"fp32\", \"data_types\": "
                                         "{\"grad_accum_dtype\": \"fp32\"}"),
                                 &four, &log, &error);
    assert_non_null(config);
    zr_config_destroy(config);
}

static void test_reductions_once_a_step(void **state)
{
    must_fail("{\"train_micro_batch_size_per_gpu\": 2, \"libzero\": {\"exact_world\": true, "
              "\"reduce\": \"per_step\"}}",
              "libzero.reduce per_step sums those of a rank first; keep one of them");
}

static void test_it_is_written(void **state)
{
    zero_error error;
    recorder log;
    zr_buffer out = {0};
    zr_config *config = resolved(FILE_OF(""), &four, &log, &error);
    zr_config_write(config, &out);
    assert_contains(out.data, "\"exact_world\": true");
    zr_config *again = resolved(out.data, &four, &log, &error);
    assert_true(again && again->exact_world);
    zr_config_destroy(again);
    zr_config_destroy(config);
    zr_buffer_free(&out);
}

// Nothing is summed where nothing is trained.
static void test_inference_forgets_it(void **state)
{
    zero_error error;
    zr_config *config = parsed(FILE_OF(""), &error);
    assert_int_equal(zr_config_keep_inference(config, &error), ZERO_OK);
    assert_int_equal(
        zr_config_resolve(config, &(zr_config_facts){.world = 3, .micro_batch = 1}, NULL, &error),
        ZERO_OK);
    assert_false(config->exact_world);
    zr_config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_file_for_any_power_of_two), cmocka_unit_test(test_powers_of_two),
        cmocka_unit_test(test_a_micro_batch_that_is_given),   cmocka_unit_test(test_sums_in_fp32),
        cmocka_unit_test(test_reductions_once_a_step),        cmocka_unit_test(test_it_is_written),
        cmocka_unit_test(test_inference_forgets_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
