// What evaluation and generation read from a configuration.
#include "config_support.h"

static const zr_config_facts facts = {.world = 3, .micro_batch = 1};

static zr_config *must_resolve(const char *text, recorder *log)
{
    zero_error error;
    zr_config *config = parsed(text, &error);
    recorder_begin(log);
    if (!config || zr_config_keep_inference(config, &error) != ZERO_OK ||
        zr_config_resolve(config, &facts, &log->logger, &error) != ZERO_OK)
        fail_msg("%s: %s", text, error.message);
    return config;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_is_forgotten),
        cmocka_unit_test(test_parameters_keep_their_place),
        cmocka_unit_test(test_old_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
