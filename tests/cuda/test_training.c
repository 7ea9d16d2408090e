// Trainings on the emulated card: all stages, numbers of ranks and tiers of states give the same
// weights, in every order in which its streams may work; and the losses are near to the CPU's.
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "../engine/harness.h"
#include "cpu_fuses.h"
#include "base/errors.h"
#include "cuda/cards.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zero/memory.h>

#define BF16 "\"bf16\": {\"enabled\": true}"
#define EXACT "\"libzero\": {\"exact_world\": true}"

typedef struct training {
    const char *name;
    harness_case run;
    double near; // how far a loss may be from the CPU's
} training;

static const training trainings[] = {
    {"fp32", {.ranks = 1, .accumulation = 2, .batch = 2}, 1e-5},
    {"bf16, heads of 64, dropout, two ranks",
     {.ranks = 2,
      .accumulation = 1,
      .batch = 1,
      .width = 64,
      .heads = 1,
      .layers = 1,
      .precision = BF16,
      .dropout = 0.1f},
     1e-2},
    {"LAMB, clipped",
     {.ranks = 1, .accumulation = 1, .batch = 2, .optimizer = "LAMB", .clipping = 0.1},
     1e-4},
    {"fp16, a step is skipped",
     {.ranks = 2,
      .accumulation = 1,
      .batch = 2,
      .precision = "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 24}"},
     1e-2},
    {"masked targets, tiles, SGD",
     {.ranks = 1,
      .accumulation = 2,
      .batch = 2,
      .masked = true,
      .optimizer = "SGD",
      .tiles_embedding = 3,
      .tiles_attention = 2,
      .tiles_mlp = 2},
     1e-4},
};

// Where all is tried, all of them, else the first four.
// Where states lie; the device comes first.
static const zero_tier state_tiers[] = {ZERO_TIER_device, ZERO_TIER_host, ZERO_TIER_nvme};

static const char *const schedules[] = {"eager",    "lazy",     "random:1", "random:2",
                                        "random:3", "random:4", "random:5"};
enum { FEW_SCHEDULES = 4 };

static bool all; // by the argument --all, or ZERO_TEST_ALL=1: each combination, not a sample

static void train(const harness_case *c, const char *schedule, harness_result *out)
{
    harness_case run = *c;
    run.backend = "cuda";
    setenv("EMULATED_SCHEDULE", schedule, 1);
    harness_run(&run, out);
    harness_expect_held(out);
}

// How many of the tiers of states have the device's bits: all, unless the host rounds otherwise.
static int tiers_of_states(void)
{
    zr_queue *cpu = NULL;
    assert_int_equal(zr_queue_open("cpu", NULL, 1, &cpu, NULL), ZERO_OK);
    bool fuses = cpu_fuses(cpu);
    zr_queue_close(cpu);
    return fuses ? ZR_COUNT(state_tiers) : 1;
}

static void check_same(const char *what, const harness_result *got, const harness_result *want)
{
    if (!harness_equal(got, want) || got->skipped != want->skipped)
        fail_msg("%s: other bits: losses %a and %a, norms %a and %a", what, got->loss[1],
                 want->loss[1], got->norm[1], want->norm[1]);
}

static void check_near(const training *t, const harness_result *got)
{
    static harness_result cpu;
    harness_case run = t->run;
    run.backend = "cpu";
    harness_run(&run, &cpu);
    assert_int_equal(got->skipped, cpu.skipped);
    for (int s = 0; s < HARNESS_STEPS; s++)
        if (!(fabs(got->loss[s] - cpu.loss[s]) <= t->near))
            fail_msg("%s: loss %d is %g, on the CPU %g", t->name, s, got->loss[s], cpu.loss[s]);
}

static void stages_and_orders_have_the_same_bits(void **state)
{
    static harness_result want, got;
    for (int i = 0; i < ZR_COUNT(trainings); i++) {
        harness_case run = trainings[i].run;
        train(&run, schedules[0], &want);
        check_near(&trainings[i], &want);
        for (run.stage = 0; run.stage <= 3; run.stage++)
            for (int s = 0; s < (all ? ZR_COUNT(schedules) : FEW_SCHEDULES); s++) {
                char what[160];
                if (!all && (run.stage + s + i) % 4 != 0)
                    continue;
                snprintf(what, sizeof what, "%s, stage %d, %s", trainings[i].name, run.stage,
                         schedules[s]);
                train(&run, schedules[s], &got);
                check_same(what, &got, &want);
            }
    }
}

// With exact_world, when each rank has its part of the same samples: fp32 and bf16, 1 to 4 ranks,
// each stage, states on each tier that the stage can put them on.
static void numbers_of_ranks_have_the_same_bits(void **state)
{
    static harness_result want, got;
    const int tiers = tiers_of_states();
    for (int precision = 0; precision < 2; precision++) {
        harness_case run = {.ranks = 1, .accumulation = 4, .batch = 1};
        run.precision = precision ? BF16 ", " EXACT : EXACT;
        train(&run, "eager", &want);
        for (run.ranks = 1; run.ranks <= 4; run.ranks *= 2)
            for (run.stage = 0; run.stage <= 3; run.stage++)
                for (int t = 0; t < (run.stage ? tiers : 1); t++) {
                    char what[80];
                    if (!all && (run.ranks + run.stage + t + precision) % 4 != 0)
                        continue;
                    snprintf(what, sizeof what, "%s, %d ranks, stage %d, states on tier %d",
                             precision ? "bf16" : "fp32", run.ranks, run.stage, t);
                    run.accumulation = 4 / run.ranks;
                    run.tiers =
                        run.stage ? harness_tiers((int)state_tiers[t], ZERO_TIER_device) : NULL;
                    train(&run, run.stage % 2 ? "lazy" : "random:3", &got);
                    check_same(what, &got, &want);
                }
    }
}

static void states_on_every_tier_have_the_same_bits(void **state)
{
    static harness_result want, got;
    const int tiers = tiers_of_states();
    for (int precision = 0; precision < 2; precision++) {
        harness_case run = {.ranks = 2, .accumulation = 1, .batch = 2};
        run.precision = precision ? BF16 : NULL;
        train(&run, "eager", &want);
        for (run.stage = 1; run.stage <= 3; run.stage++)
            for (int t = 0; t < tiers; t++) {
                char what[80];
                if (!all && (run.stage + t + precision) % 2 != 0)
                    continue;
                run.tiers = harness_tiers((int)state_tiers[t], ZERO_TIER_device);
                snprintf(what, sizeof what, "states on tier %d, stage %d", t, run.stage);
                train(&run, t % 2 ? "lazy" : "random:1", &got);
                check_same(what, &got, &want);
            }
    }
}

// A pipeline of two stages, and neighbours that divide the model.
static void divided_models_train(void **state)
{
    static harness_result want, got;
    harness_case tensor = {.ranks = 1, .accumulation = 1, .batch = 2, .slices = 2, .tensor = 2},
                 pipeline = {.ranks = 1, .accumulation = 2, .batch = 1, .stages = 2};
    const harness_case *const each[] = {&tensor, &pipeline};
    for (int i = 0; i < ZR_COUNT(each); i++) {
        train(each[i], "eager", &want);
        train(each[i], "lazy", &got);
        check_same(i ? "pipeline" : "tensor", &got, &want);
    }
}

// A launch that never ends is told as such on one rank, as another rank's failure on the other, and
// nothing waits for it then. In a process of its own, because that gives nothing back.
static void open_impatient(zero_comm **comms)
{
    zero_error error = {0};
    zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = 1};
    if (zero_comm_threads(2, &options, comms, &error) != ZERO_OK)
        fail_msg("%s", error.message);
}

static int train_stuck(const char *launch)
{
    static harness_result out;
    harness_failure ranks[2] = {0};
    const harness_case run = {.ranks = 2,
                              .stage = 2,
                              .accumulation = 1,
                              .batch = 1,
                              .backend = "cuda",
                              .open = open_impatient};
    setenv("EMULATED_STUCK", launch, 1);
    setenv("EMULATED_LEAKS", "0", 1);
    alarm(60);
    harness_try(&run, &out, ranks);
    int late = 0, others = 0;
    for (int r = 0; r < 2; r++) {
        late += ranks[r].status == ZERO_ERR_TIMEOUT &&
                strstr(ranks[r].error.message, "cuda:0 has not ended what it was given within 1 s");
        others += ranks[r].status == ZERO_ERR_PEER || ranks[r].status == ZERO_ERR_TIMEOUT;
    }
    for (int r = 0; r < 2 && (late == 0 || others < 2); r++)
        fprintf(stderr, "rank %d: %s: %s\n", r, zero_status_name(ranks[r].status),
                ranks[r].error.message);
    return late >= 1 && others == 2 ? 0 : 1;
}

static void a_stuck_card_ends_in_time(void **state)
{
    static const char *const launches[] = {"1", "30", "100"};
    for (int i = 0; i < ZR_COUNT(launches); i++) {
        int status = 0;
        pid_t process = fork();
        if (process == 0)
            _exit(train_stuck(launches[i]));
        assert_int_equal(waitpid(process, &status, 0), process);
        if (status)
            fail_msg("launch %s never ends, status %x", launches[i], (unsigned)status);
    }
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stuck_card_ends_in_time), // before this process has a driver
        cmocka_unit_test(stages_and_orders_have_the_same_bits),
        cmocka_unit_test(numbers_of_ranks_have_the_same_bits),
        cmocka_unit_test(states_on_every_tier_have_the_same_bits),
        cmocka_unit_test(divided_models_train),
    };
    all = getenv("ZERO_TEST_ALL") || (count > 1 && strcmp(arguments[1], "--all") == 0);
    zr_cuda_offer();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
