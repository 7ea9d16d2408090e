// Tensor ranks and slices: what the keys and the flags say, how many data ranks are left, and what
// contradicts what, with its numbers.
#include "config_support.h"

#define AUTOTP(p) "\"tensor_parallel\": {\"autotp_size\": " p "}"
#define TP_SIZE(p) "\"tensor_parallel\": {\"tp\": {\"tp_size\": " p "}}"
#define EXACT(t) "\"libzero\": {\"exact_tensor\": " t "}"

static const zr_config_facts eight = {.world = 8, .micro_batch = 2};
static const zr_config_facts eight_by_flag = {
    .world = 8, .micro_batch = 2, .parallel = {.tensor = 2}};

static void must_be(const char *text, const zr_config_facts *facts, int tensor, int64_t slices)
{
    recorder log;
    zr_config *config = resolved_well(text, facts, &log);
    assert_int_equal(config->world, facts->world);
    assert_int_equal(config->tensor, tensor);
    assert_int_equal(config->ranks, facts->world / tensor);
    assert_int_equal(config->exact_tensor, slices);
    assert_int_equal(config->exact_tensor_said, strstr(text, "exact_tensor") != NULL);
    assert_int_equal(config->train_batch, 2 * config->ranks);
    zr_config_destroy(config);
}

static void must_fail(const char *text, const zr_config_facts *facts, zero_status status,
                      const char *message)
{
    zero_error error;
    recorder log;
    zr_config *config = resolved(text, facts, &log, &error);
    if (config)
        fail_msg("%s was accepted", text);
    assert_string_equal(error.message, message);
    assert_int_equal(error.status, status);
}

static void test_who_says_how_many(void **state)
{
    must_be("{}", &eight, 1, 1);
    must_be("{}", &eight_by_flag, 2, 2);
    must_be("{" AUTOTP("4") "}", &eight, 4, 4);
    must_be("{" TP_SIZE("4") "}", &eight, 4, 4);
    must_be("{\"tensor_parallel\": {\"tensor_parallel\": {\"tp_size\": 4}}}", &eight, 4, 4);
    must_be("{\"tensor_parallel\": {\"autotp_size\": 4, \"tp\": {\"tp_size\": 4}}}", &eight, 4, 4);
    must_be("{" AUTOTP("2") "}", &eight_by_flag, 2, 2);
    // DeepSpeed's defaults say nothing.
    must_be("{\"tensor_parallel\": {\"autotp_size\": 4, \"tp\": {\"tp_size\": 1}}}", &eight, 4, 4);
    must_be("{\"tensor_parallel\": {\"autotp_size\": 0, \"tp\": {\"tp_size\": 4}}}", &eight, 4, 4);
    must_be("{" AUTOTP("0") "}", &eight_by_flag, 2, 2);
    must_be("{" AUTOTP("\"auto\"") "}", &eight_by_flag, 2, 2);
    must_be("{" AUTOTP("\"auto\"") "}", &eight, 1, 1);
}

static void test_who_contradicts_whom(void **state)
{
    must_fail("{\"tensor_parallel\": {\"autotp_size\": 4,\n\"tp\": {\"tp_size\": 2}}}", &eight,
              ZERO_ERR_CONFIG,
              "tensor_parallel.tp.tp_size 2 (ds.json:2:19) contradicts tensor_parallel.autotp_size "
              "4 (ds.json:1:37): both are the number of tensor ranks");
    must_fail("{" AUTOTP("4") "}", &eight_by_flag, ZERO_ERR_USAGE,
              "--tensor 2 contradicts tensor_parallel.autotp_size 4 (ds.json:1:37): say one of "
              "them, or both alike");
    must_fail("{" AUTOTP("1") "}", &eight_by_flag, ZERO_ERR_USAGE,
              "--tensor 2 contradicts tensor_parallel.autotp_size 1 (ds.json:1:37): say one of "
              "them, or both alike");
    must_fail("{" TP_SIZE("8") "}", &eight_by_flag, ZERO_ERR_USAGE,
              "--tensor 2 contradicts tensor_parallel.tp.tp_size 8 (ds.json:1:40): say one of "
              "them, or both alike");
    must_fail("{}", &(zr_config_facts){.world = 8, .micro_batch = 2, .parallel = {.tensor = -1}},
              ZERO_ERR_USAGE,
              "--tensor: tensor_parallel.autotp_size: found -1, expected an integer from 0 to "
              "1024");
}

static void test_ranks_that_are_no_multiple(void **state)
{
    must_fail("{}", &(zr_config_facts){.world = 3, .micro_batch = 2, .parallel = {.tensor = 2}},
              ZERO_ERR_USAGE, "3 ranks are no multiple of --tensor 2: --ranks 2 or 4");
    must_fail("{}", &(zr_config_facts){.world = 1, .micro_batch = 2, .parallel = {.tensor = 2}},
              ZERO_ERR_USAGE, "1 rank is no multiple of --tensor 2: --ranks 2 or 4");
    must_fail("{" AUTOTP("3") "}", &eight, ZERO_ERR_CONFIG,
              "8 ranks are no multiple of tensor_parallel.autotp_size 3 (ds.json:1:37): 6 or 9 "
              "ranks");
}

static void test_slices(void **state)
{
    must_be("{" EXACT("4") "}", &eight, 1, 4);
    must_be("{" EXACT("4") "}", &eight_by_flag, 2, 4);
    must_be("{" EXACT("2") "}", &eight_by_flag, 2, 2);
    must_be("{" EXACT("1") "}", &eight, 1, 1);
    must_fail("{" EXACT("6") "}", &eight, ZERO_ERR_CONFIG,
              "ds.json:1:30: libzero.exact_tensor: found 6, expected a power of two: 4 or 8");
    must_fail("{" EXACT("4") ", " AUTOTP("8") "}", &eight, ZERO_ERR_CONFIG,
              "ds.json:1:30: libzero.exact_tensor 4 is no multiple of tensor_parallel.autotp_size "
              "8 (ds.json:1:69): it goes with --tensor 1, 2, 4");
    must_fail("{" EXACT("1") "}", &eight_by_flag, ZERO_ERR_CONFIG,
              "ds.json:1:30: libzero.exact_tensor 1 is no multiple of --tensor 2: it goes with "
              "--tensor 1");
    must_fail("{" EXACT("4") "}",
              &(zr_config_facts){.world = 6, .micro_batch = 2, .parallel = {.tensor = 3}},
              ZERO_ERR_CONFIG,
              "ds.json:1:30: libzero.exact_tensor 4 is no multiple of --tensor 3: it goes with "
              "--tensor 1, 2, 4");
}

// Nothing said: any number of tensor ranks is as good as a power of two.
static void test_three_tensor_ranks(void **state)
{
    must_be("{}", &(zr_config_facts){.world = 6, .micro_batch = 2, .parallel = {.tensor = 3}}, 3,
            3);
}

static void test_batches_are_of_data_ranks(void **state)
{
    recorder log;
    const zr_config_facts shared = {.world = 8, .batch = 10, .parallel = {.tensor = 2}};
    zr_config *config = resolved_well("{}", &shared, &log);
    assert_int_equal(config->micro_batch, 3); // 10 samples on 4 data ranks
    assert_int_equal(config->train_batch, 12);
    assert_contains(log.lines, "batch 12 = micro-batch 3 x accumulation 1 x 4 data ranks (8 ranks, "
                               "2 a model)\n");
    zr_config_destroy(config);
    config = resolved_well("{\"train_batch_size\": 16}", &eight_by_flag, &log);
    assert_int_equal(config->micro_batch, 4);
    zr_config_destroy(config);
    must_fail("{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4, "
              "\"gradient_accumulation_steps\": 2}",
              &eight_by_flag, ZERO_ERR_CONFIG,
              "ds.json: train_batch_size is not train_micro_batch_size_per_gpu x "
              "gradient_accumulation_steps x data ranks: 64 != 4*2*4, on 4 data ranks (8 ranks, 2 "
              "a model)");
    must_fail("{\"train_batch_size\": 2}", &eight_by_flag, ZERO_ERR_CONFIG,
              "ds.json: train_batch_size 2 over 4 data ranks (8 ranks, 2 a model) and 1 "
              "micro-batches leaves train_micro_batch_size_per_gpu 0; at least 4 samples are "
              "needed");
    must_fail("{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 4}", &eight_by_flag,
              ZERO_ERR_CONFIG,
              "ds.json: train_batch_size 8 with train_micro_batch_size_per_gpu 4 on 4 data ranks "
              "(8 ranks, 2 a model) leaves gradient_accumulation_steps 0");
}

static void test_exact_world_counts_data_ranks(void **state)
{
    static const char text[] =
        "{\"train_micro_batch_size_per_gpu\": 2, \"libzero\": {\"exact_world\": true}}";
    recorder log;
    const zr_config_facts six = {.world = 6, .parallel = {.tensor = 3}},
                          twelve = {.world = 12, .parallel = {.tensor = 4}};
    zr_config_destroy(resolved_well(text, &six, &log)); // two models of three ranks
    must_fail(text, &twelve, ZERO_ERR_CONFIG,
              "ds.json:1:66: libzero.exact_world on 3 data ranks (12 ranks, 4 a model): found 3, "
              "expected a power of two (1, 2, 4, ...)");
}

static void test_the_resolved_file_says_the_same(void **state)
{
    static const char *const texts[] = {"{}", "{" EXACT("8") "}", "{" TP_SIZE("2") "}"};
    for (int i = 0; i < ZR_COUNT(texts); i++) {
        recorder log;
        zr_config_facts facts = {
            .world = 8, .micro_batch = 2, .parallel = {.tensor = 2, .sequence_parallel = true}};
        zr_config *config = resolved_well(texts[i], &facts, &log);
        zr_buffer text = {0};
        zr_config_write(config, &text);
        zr_config *again = resolved_well(text.data, &eight, &log); // without a flag
        assert_int_equal(again->tensor, 2);
        assert_int_equal(again->exact_tensor, config->exact_tensor);
        assert_int_equal(again->exact_tensor_said, config->exact_tensor_said);
        assert_true(config->sequence_parallel && again->sequence_parallel);
        zr_config_destroy(again);
        zr_config_destroy(config);
        zr_buffer_free(&text);
    }
}

// What a run without tensor ranks writes says nothing about them, so a later flag may.
static void test_a_resolved_file_leaves_it_to_a_flag(void **state)
{
    recorder log;
    const zr_config_facts facts = {
        .world = 8, .micro_batch = 2, .parallel = {.tensor = 2, .sequence_parallel = true}};
    zr_config *config = resolved_well("{\"train_micro_batch_size_per_gpu\": 2, "
                                      "\"gradient_accumulation_steps\": 2}",
                                      &(zr_config_facts){.world = 4}, &log);
    zr_buffer text = {0};
    zr_config_write(config, &text);
    zr_config *again = resolved_well(text.data, &facts, &log);
    assert_int_equal(again->tensor, 2);
    assert_true(again->sequence_parallel);
    zr_config_destroy(again);
    zr_config_destroy(config);
    zr_buffer_free(&text);
}

static void test_sequence_parallel(void **state)
{
    static const char yes[] = "{\"libzero\": {\"sequence_parallel\": true}}",
                      no[] = "{\"libzero\": {\"sequence_parallel\": false}}";
    zr_config_facts asked = eight_by_flag;
    recorder log;
    asked.parallel.sequence_parallel = true;
    zr_config *config = resolved_well(yes, &eight_by_flag, &log);
    assert_true(config->sequence_parallel);
    assert_lacks(log.lines, "no effect");
    zr_config_destroy(config);
    config = resolved_well("{}", &asked, &log);
    assert_true(config->sequence_parallel);
    zr_config_destroy(config);
    config = resolved_well("{}", &eight_by_flag, &log);
    assert_false(config->sequence_parallel);
    zr_config_destroy(config);
    must_fail(no, &asked, ZERO_ERR_USAGE,
              "--sequence-parallel contradicts libzero.sequence_parallel false (ds.json:1:35): "
              "say one of them, or both alike");
    config = resolved_well(yes, &eight, &log);
    assert_false(config->sequence_parallel);
    assert_contains(log.lines, "ds.json:1:35: no effect here: libzero.sequence_parallel: there are "
                               "no tensor-parallel ranks, among which rows could be divided\n");
    zr_config_destroy(config);
    asked.parallel.tensor = 0;
    config = resolved_well("{}", &asked, &log);
    assert_contains(log.lines, "warning: --sequence-parallel: no effect here: "
                               "libzero.sequence_parallel: there are no tensor-parallel ranks");
    assert_lacks(log.lines, "--explain");
    zr_config_destroy(config);
    // A flag and a key without effect: one is said, the other counted.
    config = resolved_well("{\"dump_state\": true}", &asked, &log);
    assert_contains(log.lines, "warning: --sequence-parallel: no effect here: ");
    assert_contains(log.lines, "warning: 1 key of ds.json has no effect here (--explain)\n");
    zr_config_destroy(config);
    config = resolved_well(no, &eight, &log);
    assert_lacks(log.lines, "no effect");
    zr_config_destroy(config);
}

static void test_partitioned_activations(void **state)
{
#define PARTITIONED(more)                                                                          \
    "{\"activation_checkpointing\": {" more "\"partition_activations\": true}}"
    recorder log;
    zr_config *config =
        resolved_well(PARTITIONED("\"number_checkpoints\": 2, "), &eight_by_flag, &log);
    assert_true(config->partition_activations);
    assert_lacks(log.lines, "no effect");
    zr_config_destroy(config);
    config = resolved_well(PARTITIONED("\"number_checkpoints\": 2, "), &eight, &log);
    assert_false(config->partition_activations);
    assert_contains(log.lines, "activation_checkpointing.partition_activations: there are no "
                               "tensor-parallel ranks, among which checkpoints could be divided\n");
    zr_config_destroy(config);
    config = resolved_well(PARTITIONED(""), &eight_by_flag, &log);
    assert_contains(log.lines, "activation_checkpointing.partition_activations: "
                               "activation_checkpointing.number_checkpoints keeps none\n");
    zr_config_destroy(config);
    config = resolved_well(PARTITIONED("\"cpu_checkpointing\": true, "), &eight_by_flag, &log);
    assert_true(config->partition_activations);
    assert_lacks(log.lines, "no effect");
    zr_config_destroy(config);
    zr_config_facts rows = eight_by_flag;
    rows.parallel.sequence_parallel = true;
    config = resolved_well(PARTITIONED("\"number_checkpoints\": 2, "), &rows, &log);
    assert_false(config->partition_activations);
    assert_contains(log.lines, "activation_checkpointing.partition_activations: with rows divided "
                               "(libzero.sequence_parallel), each rank keeps its own rows\n");
    zr_config_destroy(config);
}

static void test_tiles_and_slices(void **state)
{
    must_fail("{\"libzero\": {\"tiling\": {\"mlp\": 4}}}", &eight_by_flag, ZERO_ERR_CONFIG,
              "libzero.tiling.mlp 4 (ds.json:1:32) cuts weights into tiles, --tensor 2 the model "
              "into slices: keep one of them");
    must_fail("{\"libzero\": {\"tiling\": 4, \"exact_tensor\": 2}}", &eight, ZERO_ERR_CONFIG,
              "libzero.tiling.all 4 (ds.json:1:24) cuts weights into tiles, libzero.exact_tensor 2 "
              "(ds.json:1:43) the model into slices: keep one of them");
    must_be("{\"libzero\": {\"tiling\": {\"all\": 1, \"mlp\": 1}}}", &eight_by_flag, 2, 2);
}

static void test_types_on_the_wire(void **state)
{
    static const char path[] = "seq_parallel_communication_data_type", *const types[] = {
                                                                           "\"bf16\"", "\"fp16\"",
                                                                           "\"fp32\"", "\"auto\"",
                                                                           "null"};
    char text[256], message[256];
    recorder log;
    for (int i = 0; i < ZR_COUNT(types); i++) {
        nest(path, types[i], text, sizeof text);
        zr_config_destroy(resolved_well(text, &eight, &log));
        snprintf(message, sizeof message,
                 "seq_parallel_communication_data_type %s (ds.json:1:42) is refused with --tensor "
                 "2: sums of slices are fp32; expected fp32",
                 types[i]);
        if (i < 2)
            must_fail(text, &eight_by_flag, ZERO_ERR_UNSUPPORTED, message);
        else
            zr_config_destroy(resolved_well(text, &eight_by_flag, &log));
    }
}

#define ELASTIC(more)                                                                              \
    "{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 2000, \"micro_batch_sizes\": " \
    "[2, 4, 6]" more "}}"

// 8 ranks on machines of 4, 2 a model, are 4 data ranks on machines of 2. The numbers are those of
// DeepSpeed 0.19.6.
static void test_elasticity_counts_data_ranks(void **state)
{
    recorder log;
    zr_config *config = resolved_well(
        ELASTIC(", \"num_gpus_per_node\": 4, \"model_parallel_size\": 2, \"max_gpus\": 21"),
        &eight_by_flag, &log);
    assert_int_equal(config->train_batch, 1920);
    assert_int_equal(config->micro_batch, 6);
    assert_int_equal(config->accumulation, 80);
    assert_contains(log.lines, "batch 1920 = micro-batch 6 x accumulation 80 x 4 data ranks (8 "
                               "ranks, 2 a model) (elasticity; numbers of data ranks: 2, 4, 6, 8, "
                               "10)\n");
    zr_config_destroy(config);
}

static void test_elasticity_says_the_same_ranks(void **state)
{
    must_fail(ELASTIC(", \"num_gpus_per_node\": 4"), &eight_by_flag, ZERO_ERR_CONFIG,
              "ds.json: elasticity.model_parallel_size is 1, but a model has 2 tensor ranks "
              "(tensor_parallel.autotp_size, --tensor); expected 2");
    must_fail(ELASTIC(", \"model_parallel_size\": 2"), &eight_by_flag, ZERO_ERR_CONFIG,
              "ds.json: elasticity.num_gpus_per_node: found 1, expected a multiple of the 2 tensor "
              "ranks of a model (2, 4, ...)");
    must_fail(ELASTIC(", \"model_parallel_size\": 2, \"version\": 0.1"), &eight_by_flag,
              ZERO_ERR_CONFIG,
              "ds.json:1:133: elasticity.version 0.1 counts no tensor ranks, and a model has 2; "
              "expected 0.2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_says_how_many),
        cmocka_unit_test(test_who_contradicts_whom),
        cmocka_unit_test(test_ranks_that_are_no_multiple),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_three_tensor_ranks),
        cmocka_unit_test(test_batches_are_of_data_ranks),
        cmocka_unit_test(test_exact_world_counts_data_ranks),
        cmocka_unit_test(test_the_resolved_file_says_the_same),
        cmocka_unit_test(test_a_resolved_file_leaves_it_to_a_flag),
        cmocka_unit_test(test_sequence_parallel),
        cmocka_unit_test(test_partitioned_activations),
        cmocka_unit_test(test_tiles_and_slices),
        cmocka_unit_test(test_types_on_the_wire),
        cmocka_unit_test(test_elasticity_counts_data_ranks),
        cmocka_unit_test(test_elasticity_says_the_same_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
