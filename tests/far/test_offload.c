// Optimizer states, parameters and activation checkpoints that lie off a far device, on the host or
// on NVMe, have the bits of "ref" in each order in which its queues may work.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/recorder.h"
#include "engine/engine_api.h"
#include "far_training.h"
#include <zero/memory.h>

#include <stdio.h>

static const far_case trainings[] = {
    {"fp32, AdamW", {.accumulation = 1}},
    {"bf16, two micro-batches", {.accumulation = 2, .precision = "\"bf16\": {\"enabled\": true}"}},
    {"LAMB, clipped", {.accumulation = 1, .optimizer = "LAMB", .clipping = 0.1}},
    {"fp16, a step is skipped",
     {.accumulation = 1,
      .precision = "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 24}"}},
    {"exact_world, SGD",
     {.accumulation = 2, .optimizer = "SGD", .precision = "\"libzero\": {\"exact_world\": true}"}},
};

static void check_orders(const harness_case *run, const char *name, const char *where)
{
    static harness_result want;
    harness_run(run, &want);
    for (int i = 0; i < FAR_WAYS; i++) {
        char what[200];
        snprintf(what, sizeof what, "%s, %s, stage %d, %d ranks, order %d", name, where, run->stage,
                 run->ranks, i);
        far_train(run, &far_ways[i].options, &want, what);
    }
}

// States on a tier at stages from 1 on, parameters at stage 3.
static void check_tiers(zero_tier states, zero_tier parameters, int first_stage)
{
    static const char *const names[] = {"device", "host", "NVMe"};
    char where[80];
    snprintf(where, sizeof where, "states on %s, parameters on %s", names[states],
             names[parameters]);
    for (int stage = first_stage; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 2; ranks++)
            for (int i = 0; i < ZR_COUNT(trainings); i++) {
                harness_case run = far_case_at(&trainings[i], stage, ranks);
                run.tiers = harness_tiers((int)states, (int)parameters);
                check_orders(&run, trainings[i].name, where);
            }
}

static void states_on_the_host(void **state) { check_tiers(ZERO_TIER_host, ZERO_TIER_device, 1); }

static void states_on_nvme(void **state) { check_tiers(ZERO_TIER_nvme, ZERO_TIER_device, 1); }

static void parameters_on_the_host(void **state) { check_tiers(ZERO_TIER_host, ZERO_TIER_host, 3); }

static void parameters_on_nvme(void **state)
{
    check_tiers(ZERO_TIER_host, ZERO_TIER_nvme, 3);
    check_tiers(ZERO_TIER_nvme, ZERO_TIER_nvme, 3);
}

typedef struct far_tiering {
    const char *name;
    harness_case run;
    const char *tiers, *precision; // of zero_optimization, and of the configuration; %1$s: a path
} far_tiering;

#define HOST "\"device\": \"cpu\""
#define NVME "\"device\": \"nvme\", \"nvme_path\": \"%1$s\""
#define ON(states, parameters)                                                                     \
    "\"offload_optimizer\": {" states "}, \"offload_param\": {" parameters "}"
#define SMALL ", \"sub_group_size\": 3000, \"stage3_param_persistence_threshold\": 0"
#define BF16 "\"bf16\": {\"enabled\": true}"
#define DELAYED "\"delayed_update\": {\"start_step\": 1}"
#define KEPT(count, device)                                                                        \
    "\"activation_checkpointing\": {\"number_checkpoints\": " count "}, \"libzero\": "             \
    "{\"checkpoints\": {" device "}}"

static const far_tiering tierings[] = {
    {"half of the states on the host",
     {.stage = 3, .ranks = 2, .accumulation = 2},
     "\"offload_optimizer\": {" HOST ", \"ratio\": 0.5}, \"sub_group_size\": 3000",
     BF16},
    {"half of the states on the host, LAMB",
     {.stage = 3, .ranks = 2, .accumulation = 1, .optimizer = "LAMB"},
     "\"offload_optimizer\": {" HOST ", \"ratio\": 0.5}, \"sub_group_size\": 3000"},
    {"half of the states on NVMe, one buffer",
     {.stage = 3, .ranks = 1, .accumulation = 2},
     "\"offload_optimizer\": {" NVME ", \"ratio\": 0.5, \"pipeline_read\": false, "
     "\"pipeline_write\": false}, \"sub_group_size\": 3000"},
    {"parameters alone on the host",
     {.stage = 3, .ranks = 2, .accumulation = 1},
     "\"offload_param\": {" HOST "}, \"stage3_param_persistence_threshold\": 0"},
    {"parameters alone on NVMe",
     {.stage = 3, .ranks = 2, .accumulation = 1},
     "\"offload_param\": {" NVME "}, \"stage3_param_persistence_threshold\": 0",
     BF16},
    {"delayed",
     {.stage = 2, .ranks = 2, .accumulation = 2},
     ON(HOST, "\"device\": \"none\"") SMALL,
     BF16 ", \"libzero\": {" DELAYED "}"},
    {"delayed, fp32",
     {.stage = 1, .ranks = 1, .accumulation = 1},
     ON(HOST, "\"device\": \"none\"") SMALL,
     "\"libzero\": {" DELAYED "}"},
    {"delayed, NVMe",
     {.stage = 3, .ranks = 2, .accumulation = 1},
     ON(NVME, NVME) SMALL,
     BF16 ", \"libzero\": {" DELAYED "}"},
    {"tiles of an embedding that both ends use, NVMe",
     {.stage = 3,
      .ranks = 2,
      .accumulation = 2,
      .layers = 1,
      .width = 32,
      .vocabulary = 128,
      .tiles_embedding = 2,
      .tiles_mlp = 2},
     ON(NVME, NVME) SMALL,
     BF16},
    {"tiles, host",
     {.stage = 3, .ranks = 1, .accumulation = 1, .tiles_embedding = 3},
     ON(HOST, HOST) SMALL},
    {"pipeline stages with states on the host",
     {.stage = 1, .ranks = 2, .accumulation = 4, .stages = 2},
     "\"offload_optimizer\": {" HOST "}, \"sub_group_size\": 3000",
     BF16},
    {"pipeline stages with states on NVMe, activation checkpoints there",
     {.stage = 1, .ranks = 1, .accumulation = 4, .layers = 4, .stages = 2, .schedule = "zb-h1"},
     "\"offload_optimizer\": {" NVME "}, \"sub_group_size\": 3000",
     KEPT("3", NVME)},
    {"pipeline stages with all on NVMe",
     {.stage = 3, .ranks = 2, .accumulation = 2, .stages = 2},
     ON(NVME, NVME) SMALL,
     BF16},
    {"pipeline stages with all on the host",
     {.stage = 3, .ranks = 1, .accumulation = 2, .stages = 2},
     ON(HOST, HOST) SMALL},
    {"2bw, states on the host",
     {.stage = 1, .ranks = 2, .accumulation = 4, .stages = 2, .schedule = "2bw"},
     "\"offload_optimizer\": {" HOST "}, \"sub_group_size\": 3000",
     BF16},
    {"pipedream, states on the host",
     {.stage = 1, .ranks = 1, .accumulation = 2, .stages = 2, .schedule = "pipedream"},
     "\"offload_optimizer\": {" HOST "}, \"sub_group_size\": 3000"},
    {"activation checkpoints on NVMe",
     {.stage = 0, .ranks = 1, .accumulation = 2, .layers = 4},
     NULL,
     KEPT("3", NVME)},
    {"activation checkpoints and states on NVMe",
     {.stage = 3, .ranks = 2, .accumulation = 1, .layers = 4},
     ON(NVME, NVME) SMALL,
     BF16 ", " KEPT("5", NVME)},
    {"partitioned activation checkpoints on NVMe",
     {.stage = 1, .ranks = 1, .accumulation = 1, .layers = 4, .slices = 2, .tensor = 2},
     NULL,
     "\"activation_checkpointing\": {\"number_checkpoints\": 3, \"partition_activations\": true}, "
     "\"libzero\": {\"checkpoints\": {" NVME "}}"},
    {"partitioned activation checkpoints on the host",
     {.stage = 3, .ranks = 2, .accumulation = 1, .layers = 4, .slices = 2, .tensor = 2},
     ON(HOST, HOST) SMALL,
     "\"activation_checkpointing\": {\"number_checkpoints\": 3, \"partition_activations\": true, "
     "\"cpu_checkpointing\": true}"},
};

static const char *with_path(const char *text, char *out, size_t size)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (text)
        snprintf(out, size, text, harness_scratch());
#pragma GCC diagnostic pop
    return text ? out : NULL;
}

static void other_tierings_have_the_bits_of_ref(void **state)
{
    for (int i = 0; i < ZR_COUNT(tierings); i++) {
        char tiers[500], precision[500];
        harness_case run = tierings[i].run;
        run.batch = FAR_BATCH;
        run.tiers = with_path(tierings[i].tiers, tiers, sizeof tiers);
        run.precision = with_path(tierings[i].precision, precision, sizeof precision);
        check_orders(&run, tierings[i].name, "mixed");
    }
}

// ---- recording ----

static zr_recorder *recorder;
static zr_activity_sum sums[ZR_ACTIVITY_COUNT];

// Records the second step of one rank.
static zero_status record_a_step(zero_engine *engine, int step, zero_error *error)
{
    if (step == 0)
        return zr_engine_record(engine, recorder, error);
    if (step == 1)
        zr_recorder_sum(recorder, 0, sums);
    return step == 1 ? zr_engine_record(engine, NULL, error) : ZERO_OK;
}

static zr_activity_sum recorded_updates(const harness_case *run)
{
    static harness_result out;
    assert_int_equal(zr_recorder_create(1 << 14, &recorder, NULL), ZERO_OK);
    harness_run(run, &out);
    zr_recorder_destroy(recorder);
    return sums[ZR_ACTIVITY_optimizer];
}

static void updates_on_the_host_are_recorded(void **state)
{
    harness_case run = far_case_at(&trainings[1], 2, 1);
    run.tiers = harness_tiers(ZERO_TIER_host, ZERO_TIER_device);
    run.after = record_a_step;
    const zr_activity_sum want = recorded_updates(&run);
    run.backend = "far";
    far_begin(&(far_options){.order = FAR_LAZY});
    const zr_activity_sum got = recorded_updates(&run);
    far_end_clean("recorded");
    assert_true(want.calls > 0 && want.bytes > 0);
    assert_int_equal(got.calls, want.calls);
    assert_int_equal(got.bytes, want.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(states_on_the_host),
                                       cmocka_unit_test(states_on_nvme),
                                       cmocka_unit_test(parameters_on_the_host),
                                       cmocka_unit_test(parameters_on_nvme),
                                       cmocka_unit_test(other_tierings_have_the_bits_of_ref),
                                       cmocka_unit_test(updates_on_the_host_are_recorded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
