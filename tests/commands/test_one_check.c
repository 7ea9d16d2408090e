// Commands agree on what can be: whatever zero plan prints and zero simulate predicts, the
// configuration of a training accepts. Grids, schedules, batches and stages are drawn at random.
#include "base/random.h"
#include "setup/model_part.h"
#include "setup/resolve.h"
#include "simulate/run.h"
#include "../simulate/example.h"
#include <zero/comm.h>
#include <zero/plan.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MODEL "gpt2:layers=6,heads=4,width=32,context=16,vocab=64"

static const char *const schedules[] = {
    "1f1b", "gpipe", "interleaved:2", "interleaved:3", "zb-h1", "pipedream", "2bw"};

typedef struct grid {
    int ranks, tensor, pipeline, stage;
    long long micro_batch, accumulation;
    const char *schedule; // NULL: nobody says it
    bool sequence_parallel;
    const char *optimizer, *parameters; // the devices to which they are offloaded
} grid;

static int drawn(uint64_t key, int what, int count)
{
    return (int)(zr_philox4x32(key, (uint64_t)what, 0).v[0] % (unsigned)count);
}

static grid draw(uint64_t key)
{
    static const int few[] = {1, 1, 2, 3, 4};
    grid g = {.tensor = few[drawn(key, 0, 4)],
              .pipeline = few[drawn(key, 1, 5)],
              .stage = drawn(key, 2, 4),
              .micro_batch = 1 + drawn(key, 3, 2),
              .accumulation = 1 + drawn(key, 4, 8),
              .schedule = schedules[drawn(key, 5, ZR_COUNT(schedules))]};
    g.ranks = g.tensor * g.pipeline * few[drawn(key, 6, 5)] + (drawn(key, 7, 20) == 0);
    if (drawn(key, 8, 40) == 0)
        g.ranks += 1024 * g.tensor * g.pipeline;
    g.sequence_parallel = drawn(key, 9, 3) == 0;
    g.optimizer = drawn(key, 10, 3) == 0 ? "cpu" : "none";
    g.parameters = drawn(key, 11, 4) == 0 ? "cpu" : "none";
    return g;
}

typedef struct flags { // must not move, because `at` points into it
    char stage[24], micro_batch[24], accumulation[24];
    zero_override at[6];
} flags;

static void fill_flags(const grid *g, flags *out)
{
    const zero_override at[] = {
        {"zero_optimization.stage", out->stage, "--stage"},
        {"train_micro_batch_size_per_gpu", out->micro_batch, "--micro-batch"},
        {"gradient_accumulation_steps", out->accumulation, "--accumulation"},
        {"gradient_clipping", "0", "--clip"},
        {"zero_optimization.offload_optimizer.device", g->optimizer, "--optimizer"},
        {"zero_optimization.offload_param.device", g->parameters, "--parameters"},
    };
    memcpy(out->at, at, sizeof at);
    snprintf(out->stage, sizeof out->stage, "%d", g->stage);
    snprintf(out->micro_batch, sizeof out->micro_batch, "%lld", g->micro_batch);
    snprintf(out->accumulation, sizeof out->accumulation, "%lld", g->accumulation);
}

// Resolves the configuration of a training of a grid, as zero train does.
static zero_status accepts(const grid *g, zero_error *error)
{
    flags flags;
    fill_flags(g, &flags);
    zr_resolution how = {.flags = flags.at,
                         .flag_count = ZR_COUNT(flags.at),
                         .quiet = true,
                         .facts = zr_resolve_facts(&(zr_run_outline){
                             .ranks = g->ranks, .parameters = 100000, .steps = 1000})};
    zr_config *config = NULL;
    how.facts.batch = 8;
    how.facts.parallel.tensor = g->tensor;
    how.facts.parallel.pipeline = g->pipeline;
    how.facts.parallel.schedule = g->schedule;
    how.facts.parallel.sequence_parallel = g->sequence_parallel;
    if (g->ranks > ZERO_MAX_RANKS)
        return zr_fail(error, ZERO_ERR_USAGE, "%d ranks", g->ranks);
    zero_status status = zr_resolve(&how, &config, error);
    zr_config_destroy(config);
    return status;
}

static void keep(void *user, const char *text)
{
    zr_buffer *out = user;
    zr_buffer_printf(out, "%s", text);
}

static long long number_of(const char *command, const char *flag, long long otherwise)
{
    const char *at = strstr(command, flag);
    return at ? atoll(at + strlen(flag)) : otherwise;
}

// What a printed command says replaces what was asked.
static grid command_of(const char *command, grid g)
{
    g.ranks = (int)number_of(command, " --ranks ", 0);
    g.tensor = (int)number_of(command, " --tensor ", 0);
    g.pipeline = (int)number_of(command, " --pipeline ", 0);
    g.stage = (int)number_of(command, " --stage ", 0);
    g.micro_batch = number_of(command, " --micro-batch ", 0);
    g.accumulation = number_of(command, " --accumulation ", 0);
    return g;
}

// Plans a grid; returns whether a command was printed, and writes its grid.
static bool plan(const grid *asked, int64_t memory, grid *out)
{
    flags flags;
    fill_flags(asked, &flags);
    const zero_plan_options options = {.struct_size = sizeof options,
                                       .new_spec = MODEL,
                                       .overrides = flags.at,
                                       .override_count = ZR_COUNT(flags.at),
                                       .ranks = asked->ranks,
                                       .memory = memory,
                                       .tensor = asked->tensor,
                                       .pipeline = asked->pipeline,
                                       .schedule = asked->schedule,
                                       .sequence_parallel = asked->sequence_parallel};
    zr_buffer text = {0};
    const char *command = NULL;
    if (zero_plan(&options, keep, &text, NULL) == ZERO_OK)
        command = strstr(text.data, "zero train ");
    if (command)
        *out = command_of(command, *asked);
    zr_buffer_free(&text);
    return command;
}

static void a_training_accepts_what_plan_prints(void **state)
{
    int printed = 0;
    for (uint64_t key = 0; key < 100; key++) {
        zero_error error = {0};
        grid asked = draw(key), command;
        if (!plan(&asked, key % 3 == 0 ? 3000000 : 0, &command))
            continue;
        printed++;
        if (accepts(&command, &error) != ZERO_OK)
            fail_msg("case %d, %s: plan prints what is refused: %s", (int)key, command.schedule,
                     error.message);
    }
    assert_true(printed > 15);
}

static void a_training_accepts_what_simulate_predicts(void **state)
{
    int predicted = 0;
    for (uint64_t key = 0; key < 2000; key++) {
        zero_error error = {0};
        const grid g = draw(key);
        zr_sim_run run = sim_example_run();
        run.devices = g.ranks;
        run.tensor = g.tensor;
        run.pipeline = g.pipeline;
        run.data = 0;
        run.stage = g.stage;
        run.optimizer_on_host = !strcmp(g.optimizer, "cpu");
        run.parameters_on_host = !strcmp(g.parameters, "cpu");
        run.global_batch = 0;
        run.micro_batch = g.micro_batch;
        run.accumulation = g.accumulation;
        assert_true(zr_pipeline_kind_read(g.schedule, &run.schedule, &run.chunks));
        if (g.ranks > ZERO_MAX_RANKS || zr_sim_run_complete(&run, NULL) != ZERO_OK ||
            zr_sim_run_check(&run, NULL) != ZERO_OK)
            continue;
        predicted++;
        if (accepts(&g, &error) != ZERO_OK)
            fail_msg("case %d, %s: simulate predicts what is refused: %s", (int)key, g.schedule,
                     error.message);
    }
    assert_true(predicted > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_accepts_what_plan_prints),
        cmocka_unit_test(a_training_accepts_what_simulate_predicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
