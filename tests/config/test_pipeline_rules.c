// What schedules of pipelines ask of the batch and of other settings, what is refused, with its
// numbers, and how messages count ranks.
#include "pipeline_support.h"

static void micro_batches_of_schedules(void **state)
{
    zr_config_facts asked = {
        .world = 8, .micro_batch = 2, .parallel = {.pipeline = 4, .tensor = 2}};
    asked.parallel.schedule = "interleaved:2";
    must_fail(
        "{" STEPS(6) "}", &asked, ZERO_ERR_CONFIG,
        "--schedule interleaved:2: a step has 6 micro-batches (gradient_accumulation_steps; a "
        "batch of 12 = 2 x 6 x 1 data rank (8 ranks: 4 pipeline stages x 2 tensor)), no "
        "multiple of 4 pipeline stages; 4 or 8 would do, or 1f1b");
    must_fail("{" STEPS(1) "}", &asked, ZERO_ERR_CONFIG,
              "--schedule interleaved:2: a step has 1 micro-batch (gradient_accumulation_steps; a "
              "batch of 2 = 2 x 1 x 1 data rank (8 ranks: 4 pipeline stages x 2 tensor)), no "
              "multiple of 4 pipeline stages; 4 or 8 would do, or 1f1b");
    must_have("{" STEPS(12) "}", &asked, 4);
    asked.parallel.schedule = "2bw";
    asked.parallel.tensor = 0;
    must_fail("{" STEPS(3) "}", &asked, ZERO_ERR_CONFIG,
              "--schedule 2bw: a step has 3 micro-batches (gradient_accumulation_steps; a batch of "
              "12 = 2 x 3 x 2 data ranks (8 ranks: 4 pipeline stages)), fewer than 4 pipeline "
              "stages, so two versions of the weights are too few; 4 would do, or pipedream");
    must_have("{" STEPS(4) "}", &asked, 4);
    // Others work with fewer than there are stages.
    static const char *const any[] = {"1f1b", "gpipe", "zb-h1", "pipedream"};
    for (int i = 0; i < ZR_COUNT(any); i++) {
        asked.parallel.schedule = any[i];
        must_have("{\"gradient_clipping\": 0}", &asked, 4);
    }
}

static void what_pipedream_cannot_wait_for(void **state)
{
    zr_config_facts asked = two_stages;
    asked.parallel.schedule = "pipedream";
    must_fail("{\"gradient_clipping\": 0, \"zero_optimization\": {\"stage\": 3}}", &asked,
              ZERO_ERR_CONFIG,
              "--schedule pipedream keeps whole versions of the parameters (up to 2 on the first "
              "pipeline stage), which zero_optimization.stage 3 divides: expected 0, 1 or 2");
    must_fail("{\"gradient_clipping\": 0, \"fp16\": {\"enabled\": true}}", &asked, ZERO_ERR_CONFIG,
              "--schedule pipedream updates each pipeline stage by itself, and the dynamic loss "
              "scale of fp16 waits for all of them: a fixed fp16.loss_scale would do, or bf16");
    must_have("{\"gradient_clipping\": 0, \"fp16\": {\"enabled\": true, \"loss_scale\": 128}}",
              &asked, 2);
    must_fail("{}", &asked, ZERO_ERR_CONFIG,
              "--schedule pipedream updates each pipeline stage by itself, and clipping to a norm "
              "of 1 waits for all of them: gradient_clipping: 0 would do");
    must_fail(
        "{\"gradient_clipping\": 0, \"train_micro_batch_size_per_gpu\": 2, \"libzero\": "
        "{\"exact_world\": true}}",
        &asked, ZERO_ERR_CONFIG,
        "ds.json:1:90: libzero.exact_world cannot hold with --schedule pipedream: how old the "
        "parameters of a micro-batch are depends on how many its data rank has; 2bw can, and "
        "the synchronous schedules");
    asked.parallel.schedule = "2bw";
    must_have("{\"train_micro_batch_size_per_gpu\": 2, " STEPS(
                  2) ", \"libzero\": {\"exact_world\": true}}",
              &asked, 2);
    must_have("{\"zero_optimization\": {\"stage\": 3}, " STEPS(2) "}", &asked, 2);
}

static void what_2bw_cannot_wait_for(void **state)
{
    zr_config_facts asked = two_stages;
    asked.parallel.schedule = "2bw";
    must_fail("{\"fp16\": {\"enabled\": true}, " STEPS(2) "}", &asked, ZERO_ERR_CONFIG,
              "--schedule 2bw begins a step before the norm of the step before it is known, from "
              "which the dynamic loss scale of fp16 follows: a fixed fp16.loss_scale would do, or "
              "bf16");
    must_have("{\"fp16\": {\"enabled\": true, \"loss_scale\": 128}, " STEPS(2) "}", &asked, 2);
    must_have("{\"bf16\": {\"enabled\": true}, " STEPS(2) "}", &asked, 2);
}

static void versions_stay_on_the_device(void **state)
{
    static const char kept[] =
        "{\"zero_optimization\": {\"stage\": 3, \"zero_hpz_partition_size\": 2}, " STEPS(2) "}";
    static const char offloaded[] =
        "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}}, " STEPS(
            2) "}";
    zr_config_facts asked = two_stages;
    must_have(kept, &asked, 2);
    must_have(offloaded, &asked, 2);
    asked.parallel.schedule = "2bw";
    must_fail(kept, &asked, ZERO_ERR_CONFIG,
              "--schedule 2bw reads versions of the parameters in turn, and "
              "zero_optimization.zero_hpz_partition_size 2 (ds.json:1:63) keeps on each machine "
              "what was gathered of one: expected 1, or a synchronous schedule (1f1b)");
    must_fail(offloaded, &asked, ZERO_ERR_CONFIG,
              "--schedule 2bw keeps several versions of the parameters, all of them on the device, "
              "and zero_optimization.offload_param.device \"cpu\" (ds.json:1:64) would keep them "
              "elsewhere: expected none; offload_optimizer would do, or a synchronous schedule "
              "(1f1b)");
    // Without stage 3 nothing is gathered.
    must_have("{\"zero_optimization\": {\"zero_hpz_partition_size\": 2}, " STEPS(2) "}", &asked, 2);
}

static void an_asynchronous_schedule_is_delay_enough(void **state)
{
    static const char text[] =
        "{\"gradient_clipping\": 0, \"zero_optimization\": {\"stage\": 1, \"offload_optimizer\": "
        "{\"device\": \"cpu\"}}, " STEPS(2) ", \"libzero\": {\"delayed_update\": {\"start_step\": "
                                            "1}}}";
    zr_config_facts asked = two_stages;
    must_have(text, &asked, 2);
    asked.parallel.schedule = "2bw";
    must_fail(
        text, &asked, ZERO_ERR_CONFIG,
        "--schedule 2bw and libzero.delayed_update.start_step 1 (ds.json:1:180) both say with "
        "how old parameters a step computes (2bw: one update old, as a delayed update): keep "
        "one of them");
    asked.parallel.schedule = "pipedream";
    must_fail(text, &asked, ZERO_ERR_CONFIG,
              "--schedule pipedream and libzero.delayed_update.start_step 1 (ds.json:1:180) both "
              "say with how old parameters a step computes (2bw: one update old, as a delayed "
              "update): keep one of them");
}

static void drains(const zr_config *config, int64_t every, const char *message)
{
    zero_error error = {0};
    zero_status status = zr_config_check_drain(config, "--save-every", every, &error);
    assert_int_equal(status, message ? ZERO_ERR_CONFIG : ZERO_OK);
    assert_string_equal(error.message, message ? message : "");
}

static void saves_come_where_the_pipeline_drains(void **state)
{
    zr_config_facts asked = two_stages;
    recorder log;
    zr_config *config = must_be("{" STEPS(2) "}", &asked, 2, &log);
    drains(config, 5, NULL);
    zr_config_destroy(config);
    asked.parallel.schedule = "2bw";
    config = must_be("{" STEPS(2) "}", &asked, 2, &log);
    static const int64_t good[] = {-1, 0, 8, 16};
    for (int i = 0; i < ZR_COUNT(good); i++)
        drains(config, good[i], NULL);
    drains(config, 20,
           "--save-every 20: with --schedule 2bw steps overlap, and only every 8 steps "
           "(libzero.pipeline.flush_every) the pipeline drains: 16 or 24 would do");
    drains(config, 5,
           "--save-every 5: with --schedule 2bw steps overlap, and only every 8 steps "
           "(libzero.pipeline.flush_every) the pipeline drains: 8, or "
           "libzero.pipeline.flush_every 5 would do");
    zr_config_destroy(config);
}

static void hinted(const char *schedule, int stages, const char *text, const char *line)
{
    zr_config_facts asked = {
        .world = 8, .micro_batch = 2, .parallel = {.pipeline = stages, .schedule = schedule}};
    recorder log;
    zr_config *config = must_be(text, &asked, stages, &log);
    if (line)
        assert_contains(log.lines, line);
    else
        assert_lacks(log.lines, "bubble");
    zr_config_destroy(config);
}

static void few_micro_batches_have_a_hint(void **state)
{
    hinted(NULL, 4, "{" STEPS(8) "}",
           "pipeline: 8 micro-batches in flight on 4 pipeline stages cost a bubble of 27% of the "
           "time (1f1b); gradient_accumulation_steps 16 instead of 8 would leave 16%\n");
    hinted("gpipe", 4, "{" STEPS(1) "}",
           "pipeline: 1 micro-batch in flight on 4 pipeline stages costs a bubble of 75% of the "
           "time (gpipe); gradient_accumulation_steps 16 instead of 1 would leave 16%\n");
    hinted("interleaved:2", 4, "{" STEPS(8) "}", "a bubble of 16% of the time (interleaved)");
    hinted("zb-h1", 4, "{" STEPS(8) "}", "a bubble of 11% of the time (zb-h1)");
    hinted("1f1b", 4, "{" STEPS(15) "}", "instead of 15 would leave 16%");
    hinted("1f1b", 4, "{" STEPS(16) "}", NULL);
    hinted("1f1b", 2, "{" STEPS(8) "}", NULL);
    // Asynchronous ones are empty once a window.
    hinted("2bw", 4, "{" STEPS(4) "}", NULL);
    hinted("2bw", 4, "{" STEPS(4) ", \"libzero\": {\"pipeline\": {\"flush_every\": 2}}}",
           "pipeline: 8 micro-batches in flight on 4 pipeline stages cost a bubble of 27% of the "
           "time (2bw); gradient_accumulation_steps 8 instead of 4 would leave 16%\n");
}

static void each_stage_would_need_a_placement(void **state)
{
    must_fail("{" STEPS(8) ", \"libzero\": {\"offload\": \"auto\"}}", &two_stages, ZERO_ERR_CONFIG,
              "libzero.offload \"auto\" (ds.json:1:59) chooses one place for the states of a whole "
              "model, and with --pipeline 2 its parts need different ones: offload_optimizer and "
              "offload_param say one for all pipeline stages (zero plan shows what each needs)");
    must_have("{" STEPS(8) ", \"libzero\": {\"offload\": \"auto\"}}", &eight, 1);
}

static void batches_are_of_data_ranks(void **state)
{
    const zr_config_facts asked = {
        .world = 8, .batch = 10, .parallel = {.tensor = 2, .pipeline = 2}};
    recorder log;
    zr_config *config = must_be("{" STEPS(4) "}", &asked, 2, &log);
    assert_int_equal(config->micro_batch, 5); // 10 samples on 2 data ranks
    assert_contains(log.lines, "batch 40 = micro-batch 5 x accumulation 4 x 2 data ranks (8 ranks: "
                               "2 pipeline stages x 2 tensor)\n");
    zr_config_destroy(config);
    must_fail("{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4, " STEPS(2) "}",
              &two_stages, ZERO_ERR_CONFIG,
              "ds.json: train_batch_size is not train_micro_batch_size_per_gpu x "
              "gradient_accumulation_steps x data ranks: 64 != 4*2*4, on 4 data ranks (8 ranks: 2 "
              "pipeline stages)");
}

static void ranks_have_words(void **state)
{
    static const struct {
        zr_job_grid grid;
        const char *ranks, *kind, *words;
    } rows[] = {
        {{1, 4, 1}, "4 ranks", "ranks", ""},
        {{1, 2, 2}, "2 data ranks (4 ranks, 2 a model)", "data ranks", "2 data x 2 tensor"},
        {{4, 1, 1},
         "1 data rank (4 ranks: 4 pipeline stages)",
         "data ranks",
         "4 pipeline stages x 1 data"},
        {{2, 2, 2},
         "2 data ranks (8 ranks: 2 pipeline stages x 2 tensor)",
         "data ranks",
         "2 pipeline stages x 2 data x 2 tensor"},
        {{256, 1048576, 1024},
         "1048576 data ranks (274877906944 ranks: 256 pipeline stages x 1024 tensor)",
         "data ranks",
         "256 pipeline stages x 1048576 data x 1024 tensor"},
    };
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        zr_ranks_words words = zr_ranks_in_words(rows[i].grid);
        assert_string_equal(words.text, rows[i].ranks);
        assert_string_equal(words.kind, rows[i].kind);
        assert_string_equal(zr_grid_in_words(rows[i].grid).text, rows[i].words);
    }
}

#define ELASTIC(more)                                                                              \
    "{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 2000, \"micro_batch_sizes\": " \
    "[2, 4, 6], \"num_gpus_per_node\": 4" more "}}"

// The ranks of a model are those of all of its pipeline stages.
static void elasticity_counts_data_ranks(void **state)
{
    static const char text[] =
        "{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 2000, "
        "\"micro_batch_sizes\": [2, 4, 6], \"num_gpus_per_node\": 8, \"min_gpus\": 16, "
        "\"max_gpus\": 42, \"model_parallel_size\": 4}}";
    const zr_config_facts whole = {.world = 16, .parallel = {.tensor = 4}},
                          piped = {.world = 16, .parallel = {.tensor = 2, .pipeline = 2}};
    recorder other;
    zr_config *a = must_be(text, &whole, 1, &other), *b = must_be(text, &piped, 2, &other);
    assert_int_equal(a->train_batch, b->train_batch);
    assert_int_equal(a->micro_batch, b->micro_batch);
    assert_int_equal(a->elastic->count, b->elastic->count);
    assert_int_equal(a->elastic->ranks[0], b->elastic->ranks[0]);
    zr_config_destroy(a);
    zr_config_destroy(b);
    const zr_config_facts asked = {.world = 8, .parallel = {.pipeline = 2, .tensor = 2}};
    recorder log;
    zr_config *config = must_be(ELASTIC(", \"model_parallel_size\": 4"), &asked, 2, &log);
    assert_int_equal(config->ranks, 2);
    assert_contains(log.lines, " x 2 data ranks (8 ranks: 2 pipeline stages x 2 tensor) "
                               "(elasticity; numbers of data ranks: ");
    zr_config_destroy(config);
    must_fail(ELASTIC(", \"model_parallel_size\": 2"), &asked, ZERO_ERR_CONFIG,
              "ds.json:1:143: elasticity.model_parallel_size is 2, but a model has 4 ranks "
              "(pipeline.stages x tensor_parallel.autotp_size); expected 4");
    must_fail(
        ELASTIC(", \"model_parallel_size\": 4, \"version\": 0.1"), &asked, ZERO_ERR_CONFIG,
        "ds.json:1:157: elasticity.version 0.1 counts no ranks of a model, and a model has 4; "
        "expected 0.2");
    must_fail("{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 2000, "
              "\"micro_batch_sizes\": [2], \"model_parallel_size\": 4, \"num_gpus_per_node\": 6}}",
              &asked, ZERO_ERR_CONFIG,
              "ds.json:1:137: elasticity.num_gpus_per_node: found 6, expected a multiple of the 4 "
              "ranks of a model (4, 8, ...)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_of_schedules),
        cmocka_unit_test(what_pipedream_cannot_wait_for),
        cmocka_unit_test(what_2bw_cannot_wait_for),
        cmocka_unit_test(versions_stay_on_the_device),
        cmocka_unit_test(an_asynchronous_schedule_is_delay_enough),
        cmocka_unit_test(saves_come_where_the_pipeline_drains),
        cmocka_unit_test(few_micro_batches_have_a_hint),
        cmocka_unit_test(each_stage_would_need_a_placement),
        cmocka_unit_test(batches_are_of_data_ranks),
        cmocka_unit_test(ranks_have_words),
        cmocka_unit_test(elasticity_counts_data_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
