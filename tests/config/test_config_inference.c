// What evaluation and generation read from a configuration.
#include "config_support.h"
#include "config/config_ranks.h"

static const zr_config_facts facts = {.world = 3, .micro_batch = 1};

static zr_config *must_resolve_on(const char *text, const zr_config_facts *on, recorder *log)
{
    zero_error error;
    zr_config *config = parsed(text, &error);
    recorder_begin(log);
    if (!config || zr_config_keep_inference(config, &error) != ZERO_OK ||
        zr_config_find_ranks(config, on, &error) != ZERO_OK ||
        zr_config_resolve(config, on, &log->logger, &error) != ZERO_OK)
        fail_msg("%s: %s", text, error.message);
    return config;
}

static zr_config *must_resolve(const char *text, recorder *log)
{
    return must_resolve_on(text, &facts, log);
}

// Each of these sections would be refused, or warned of, by a training on three ranks.
static void test_training_is_forgotten(void **state)
{
    recorder log;
    zr_config *c =
        must_resolve("{\"train_batch_size\": 7, \"gradient_accumulation_steps\": 4, \"bf16\": "
                     "{\"enabled\": true},"
                     " \"optimizer\": {\"type\": \"SGD\", \"params\": {\"betas\": [1, 2]}},"
                     " \"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": "
                     "{\"total_num_steps\": \"auto\"}},"
                     " \"aio\": {\"block_size\": 8192}, \"activation_checkpointing\": "
                     "{\"cpu_checkpointing\": true},"
                     " \"zero_optimization\": {\"stage\": 2, \"cpu_offload\": true, "
                     "\"zero_hpz_partition_size\": 5}}",
                     &log);
    assert_true(c->stage == 3 && c->dtype == ZERO_BF16 && c->accumulation == 1 && c->kept_by == 1);
    assert_true(c->offload.parameters == ZERO_TIER_device &&
                c->offload.optimizer == ZERO_TIER_device && !c->offload.activation_checkpoints);
    assert_lacks(log.lines, "warning");
    zr_config_destroy(c);
}

static void test_parameters_keep_their_place(void **state)
{
    recorder log;
    zr_config *c =
        must_resolve("{\"libzero\": {\"device_memory\": \"2GB\", \"host_memory\": 4096},"
                     " \"aio\": {\"block_size\": 8192, \"queue_depth\": 3},"
                     " \"zero_optimization\": {\"stage\": 3, \"stage3_max_live_parameters\": 9,"
                     " \"offload_param\": {\"device\": \"nvme\", \"nvme_path\": [\"a\", \"b\"], "
                     "\"max_in_cpu\": 5},"
                     " \"offload_optimizer\": {\"device\": \"nvme\"}}}",
                     &log);
    const zr_offload_config *o = &c->offload;
    assert_true(o->parameters == ZERO_TIER_nvme && o->parameter_paths.count == 2 &&
                o->in_host == 5 && o->live == 9);
    assert_true(o->block == 8192 && o->queue_depth == 3 && o->device_memory == 2000000000 &&
                o->host_memory == 4096);
    assert_true(o->optimizer == ZERO_TIER_device && o->optimizer_paths.count == 0);
    assert_lacks(log.lines, "warning");
    zr_config_destroy(c);
}

static void test_old_name(void **state)
{
    recorder log;
    zr_config *c = must_resolve("{\"zero_optimization\": {\"cpu_offload_param\": true}}", &log);
    assert_true(c->offload.parameters == ZERO_TIER_host);
    assert_contains(log.lines, "cpu_offload_param is read as");
    zr_config_destroy(c);
}

// The flag alone says how many tensor ranks there are; a key that says another number is told so.
static void test_tensor_ranks_are_the_flags(void **state)
{
    static const char *const texts[] = {"{\"tensor_parallel\": {\"autotp_size\": 2}}",
                                        "{\"tensor_parallel\": {\"tp\": {\"tp_size\": 2}}}"};
    static const char *const lines[] = {"ds.json:1:37: no effect here: tensor_parallel.autotp_size",
                                        "ds.json:1:40: no effect here: tensor_parallel.tp.tp_size"};
    for (int i = 0; i < ZR_COUNT(texts); i++)
        for (int tensor = 0; tensor <= 4; tensor += 2) {
            const zr_config_facts on = {
                .world = 4, .parallel = {.tensor = tensor}, .micro_batch = 1};
            recorder log;
            zr_config *c = must_resolve_on(texts[i], &on, &log);
            assert_int_equal(c->tensor, tensor ? tensor : 1);
            if (tensor == 2) {
                assert_lacks(log.lines, "no effect");
            } else {
                assert_contains(log.lines, "warning: 1 key of ds.json has no effect here");
                assert_contains(log.lines, lines[i]);
                assert_contains(log.lines, "--tensor alone says how many tensor ranks there are");
            }
            zr_config_destroy(c);
        }
    for (int i = 0; i < 2; i++) {
        const zr_config_facts on = {
            .world = 4, .parallel = {.tensor = i ? -1 : 1025}, .micro_batch = 1};
        zero_error error;
        zr_config *c = parsed("{}", &error);
        assert_int_equal(zr_config_keep_inference(c, &error), ZERO_OK);
        assert_int_equal(zr_config_find_ranks(c, &on, &error), ZERO_ERR_USAGE);
        assert_contains(error.message, "expected an integer from 0 to 1024");
        zr_config_destroy(c);
    }
    recorder log;
    zr_config_destroy(must_resolve("{\"tensor_parallel\": {\"autotp_size\": \"auto\"}}", &log));
    assert_lacks(log.lines, "no effect");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_is_forgotten),
        cmocka_unit_test(test_parameters_keep_their_place),
        cmocka_unit_test(test_old_name),
        cmocka_unit_test(test_tensor_ranks_are_the_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
