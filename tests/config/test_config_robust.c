// Garbage is refused without a crash, and every allocation in turn may fail.
#include "config_support.h"
#include "base/random.h"

#include <stdlib.h>

static const char whole[] = "{ // remark\n \"train_batch_size\": 64, "
                            "\"gradient_accumulation_steps\": \"auto\", \"fp16\": {\"enabled\": "
                            "\"auto\", \"loss_scale\": 0},\n"
                            " \"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": 5e8, "
                            "\"offload_param\": {\"device\": \"none\"}, "
                            "\"max_live_parameters\": 1e9},\n"
                            " \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 1e-3, "
                            "\"betas\": [0.9, 0.95], \"eps\": 1e-8}},\n"
                            " \"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": "
                            "{\"total_num_steps\": 100, \"warmup_max_lr\": null}},\n"
                            " /* two */ \"aio\": {\"block_size\": 1}, \"compile\": {\"a\": [1, "
                            "{\"b\": null}]}, \"comms_logger\": {\"enabled\": true, "
                            "\"prof_ops\": [\"send\"]}, \"flops_profiler\": {\"enabled\": true, "
                            "\"output_file\": \"f\"}, \"bfloat16\": {\"enabled\": "
                            "false}, }";

static const zr_config_facts facts = {FACTS, .total_steps = 100, .hidden = 8, .lr = 1e-3};

// All that is done to a configuration, once.
static zero_status run_through(const char *text, size_t length, zero_error *error)
{
    zr_config *config;
    zr_buffer out = {0};
    ZERO_TRY(zr_config_parse(text, length, "ds.json", &config, error));
    zero_status status =
        zr_config_override(config, "zero_optimization.stage", "3", "--stage", false, NULL, error);
    if (status == ZERO_OK)
        status = zr_config_override(config, "libzero.dtype", "fp16", "--dtype", false, NULL, error);
    if (status == ZERO_OK)
        status = zr_config_defaults_apply(config, &facts, NULL, error);
    if (status == ZERO_OK)
        status = zr_config_resolve(config, &facts, NULL, error);
    if (status == ZERO_OK)
        zr_config_write(config, &out);
    if (out.failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "writing");
    if (status == ZERO_OK)
        assert_int_equal(out.data[0], '{');
    zr_buffer_free(&out);
    zr_config_destroy(config);
    return status;
}

static void test_mutations(void **state)
{
    int accepted = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        char text[sizeof whole];
        size_t length = sizeof whole - 1;
        memcpy(text, whole, sizeof whole);
        zr_philox r = zr_philox4x32(1, 0, i);
        for (uint32_t k = 0; k <= r.v[0] % 4; k++) {
            zr_philox at = zr_philox4x32(2, k, i);
            static const char marks[] = "{}[]\",:0e-n/\\\0\xff.";
            text[at.v[0] % length] =
                at.v[1] % 2 ? marks[at.v[2] % (sizeof marks - 1)] : (char)at.v[3];
        }
        if (r.v[1] % 3 == 0)
            length = r.v[2] % length;
        zero_error error = {ZERO_OK, ""};
        zero_status status = run_through(text, length, &error);
        assert_int_equal(status, error.status);
        assert_int_equal(status == ZERO_OK, error.message[0] == 0);
        accepted += status == ZERO_OK;
    }
    assert_in_range(accepted, 10, 19990); // both ways were taken
}

static void test_random_bytes(void **state)
{
    for (uint64_t i = 0; i < 5000; i++) {
        uint32_t words[64];
        for (int k = 0; k < 16; k++)
            memcpy(words + 4 * k, zr_philox4x32(3, (uint64_t)k, i).v, 16);
        zero_error error = {ZERO_OK, ""};
        zero_status status = run_through((const char *)words, i % sizeof words, &error);
        assert_int_not_equal(status, ZERO_OK);
    }
}

static void test_each_allocation_fails_in_turn(void **state)
{
    int64_t failures = 0;
    zero_status status = ZERO_ERR_MEMORY;
    zero_error error;
    for (int64_t nth = 1; status != ZERO_OK && nth < 10000; nth++) {
        error = (zero_error){ZERO_OK, ""};
        zr_alloc_fail_at(nth);
        status = run_through(whole, sizeof whole - 1, &error);
        zr_alloc_fail_at(0);
        if (status != ZERO_OK)
            assert_int_equal(status, ZERO_ERR_MEMORY);
        failures += status != ZERO_OK;
    }
    assert_int_equal(status, ZERO_OK);
    assert_true(failures > 4);
}

static int64_t jansson_fails_at; // the nth allocation from now, 0: none

// jansson's own parser takes some of these failures for wrong syntax: refused is refused, nothing
// crashes or leaks.
static void *failing_malloc(size_t bytes)
{
    return jansson_fails_at && --jansson_fails_at == 0 ? NULL : malloc(bytes);
}

static void test_each_allocation_of_jansson_fails_in_turn(void **state)
{
    zero_status status = ZERO_ERR_MEMORY;
    zero_error error;
    json_malloc_t old_malloc;
    json_free_t old_free;
    json_get_alloc_funcs(&old_malloc, &old_free);
    json_set_alloc_funcs(failing_malloc, free);
    bool failed = true;
    int64_t nth = 1;
    for (; failed && nth < 10000; nth++) {
        error = (zero_error){ZERO_OK, ""};
        jansson_fails_at = nth;
        status = run_through(whole, sizeof whole - 1, &error);
        failed = jansson_fails_at == 0;
        jansson_fails_at = 0;
        assert_int_equal(error.status, status);
    }
    json_set_alloc_funcs(old_malloc, old_free);
    assert_false(failed);
    assert_int_equal(status, ZERO_OK);
    assert_true(nth > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_each_allocation_fails_in_turn),
        cmocka_unit_test(test_each_allocation_of_jansson_fails_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
