// Asynchronous schedules against the same training written out, with all versions of the weights:
// every stage computes a micro-batch, forward and backward, with the weights that the schedule
// says, bit for bit.
#include "chain.h"
#include "harness.h"

#include "engine/engine_api.h"
#include "engine/rank_grid.h"

#include "../sanitizers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_ACCUMULATION = 4 };

static const char *const splits[] = {[2] = "0,2", [3] = "0,2,4", [4] = "0,1,2,4"};
static const int first_layers[][5] = {[2] = {0, 2, 5}, [3] = {0, 2, 4, 5}, [4] = {0, 1, 2, 4, 5}};

// pipedream: stage s has begun the forwards of p - 1 - s later micro-batches when a backward is
// due. So when it begins a forward it has made the update of each step whose backwards are all of
// micro-batches at least p - 1 - s before it. A window begins with all updates made.
static int updates_of_pipedream(const chain_run *run, int stage, int step, int k)
{
    int first = step - step % run->window, updates = first;
    int place = (step - first) * run->accumulation + k; // in the window
    for (int t = first; t < step; t++) {
        int last_of_step = (t - first + 1) * run->accumulation - 1;
        updates += last_of_step < place - (run->stages - 1 - stage);
    }
    return updates;
}

// 2bw: all stages compute a step without the update before it.
static int updates_of_2bw(const chain_run *run, int stage, int step, int k)
{
    return step > 0 ? step - 1 : 0;
}

// What the ranks of a run tell.
static const chain_run *running;
static float start[CHAIN_ELEMS];
static zero_step_info told[CHAIN_STEPS];
static _Atomic int unlike; // ranks with other steps, or that do not hold what was planned

static zero_status train_window(zero_engine *engine, int64_t steps, zero_step_info *infos,
                                zero_error *error)
{
    static _Thread_local chain_samples samples[CHAIN_STEPS * MOST_ACCUMULATION];
    zero_tensors batches[CHAIN_STEPS * MOST_ACCUMULATION];
    int64_t step, g, each = running->accumulation;
    zero_position(engine, &step, &g);
    for (int64_t k = 0; k < steps * each; k++) {
        chain_batch(step + k / each, g + k % each * running->data, &samples[k]);
        batches[k] = chain_tensors(&samples[k]);
    }
    return zero_train_window(engine, batches, steps, infos, error);
}

static zero_status read_start(zero_engine *engine, zero_error *error)
{
    float values[CHAIN_LAYER];
    for (int l = 0; l < CHAIN_LAYERS; l++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%d.w", l);
        ZERO_TRY(zero_read_parameter(engine, name, values, CHAIN_WEIGHTS, error));
        snprintf(name, sizeof name, "layer.%d.b", l);
        ZERO_TRY(zero_read_parameter(engine, name, values + CHAIN_WEIGHTS, CHAIN_WIDTH, error));
        if (zr_engine_comm(engine)->rank == 0)
            memcpy(start + l * CHAIN_LAYER, values, sizeof values);
    }
    return ZERO_OK;
}

static zero_status drive(zero_engine *engine, zero_error *error)
{
    zero_step_info infos[CHAIN_STEPS] = {{0}};
    zero_memory memory;
    ZERO_TRY(read_start(engine, error));
    for (int step = 0; step < CHAIN_STEPS; step += running->window)
        ZERO_TRY(
            train_window(engine, ZR_MIN(running->window, CHAIN_STEPS - step), &infos[step], error));
    zero_memory_report(engine, &memory);
    unlike += memcmp(memory.planned, memory.held, sizeof memory.held) != 0;
    if (zr_engine_comm(engine)->rank == 0)
        memcpy(told, infos, sizeof told);
    return ZERO_OK;
}

static const zero_model *use_chain(const zero_model *model) { return chain_model(); }

static void run(const chain_run *as, const char *schedule, int zero_stage, harness_result *out)
{
    char precision[256];
    snprintf(precision, sizeof precision,
             "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": 0.004, "
             "\"warmup_max_lr\": 0.01, \"warmup_num_steps\": 4, \"warmup_type\": \"linear\"}}, "
             "\"libzero\": {\"pipeline\": {\"flush_every\": %d}}",
             as->window);
    const harness_case c = {.stage = zero_stage,
                            .ranks = as->data,
                            .accumulation = as->accumulation,
                            .batch = CHAIN_BATCH,
                            .clipping = as->clipping,
                            .tuned = use_chain,
                            .stages = as->stages,
                            .schedule = schedule,
                            .split = splits[as->stages],
                            .precision = precision,
                            .drive = drive};
    running = as;
    unlike = 0;
    harness_run(&c, out);
    assert_int_equal(unlike, 0);
    assert_int_equal(out->elems, CHAIN_ELEMS);
}

static void expect_emulated(chain_run as, const char *schedule, int zero_stage)
{
    static harness_result engine;
    static chain_result emulated;
    for (int s = 0; s < as.stages; s++)
        for (int l = first_layers[as.stages][s]; l < first_layers[as.stages][s + 1]; l++)
            as.stage_of[l] = s;
    run(&as, schedule, zero_stage, &engine);
    double lr[CHAIN_STEPS];
    for (int s = 0; s < CHAIN_STEPS; s++) {
        lr[s] = told[s].lr;
        assert_true(fabs(lr[s] - (0.004 + 0.006 * fmin(fmax(s - 1, 0) / 4, 1))) < 1e-9);
    }
    as.start = start;
    as.lr = lr;
    chain_emulate(&as, &emulated);
    for (int s = 0; s < CHAIN_STEPS; s++)
        if (told[s].loss != emulated.loss[s] || told[s].grad_norm != emulated.norm[s])
            fail_msg("%s, ZeRO stage %d, %d data ranks, %d pipeline stages, K %d, windows of %d: "
                     "step %d has loss %.17g, norm %.17g, not %.17g, %.17g",
                     schedule, zero_stage, as.data, as.stages, as.accumulation, as.window, s,
                     told[s].loss, told[s].grad_norm, emulated.loss[s], emulated.norm[s]);
    if (memcmp(engine.parameters, emulated.weights, sizeof emulated.weights) != 0)
        fail_msg("%s, ZeRO stage %d, %d data ranks, %d pipeline stages, K %d: other weights",
                 schedule, zero_stage, as.data, as.stages, as.accumulation);
}

static void pipedream_is_its_emulation(void **state)
{
    static const int windows[] = {6, 4, 3, 5};
    for (int stages = 2; stages <= 4; stages++)
        for (int accumulation = 1; accumulation <= 3; accumulation++)
            for (int zero_stage = 0; zero_stage <= 2; zero_stage++)
                for (int data = 1; data <= 2; data++) {
                    int turn = stages + 2 * accumulation + zero_stage + 2 * data;
                    if (!SANITIZED || turn % 4 == 0)
                        expect_emulated((chain_run){.data = data,
                                                    .accumulation = accumulation,
                                                    .stages = stages,
                                                    .window = windows[(turn + stages) % 4],
                                                    .updates_of = updates_of_pipedream},
                                        "pipedream", zero_stage);
                }
}

static void two_buffered_weights_are_their_emulation(void **state)
{
    for (int stages = 2; stages <= 4; stages++)
        for (int zero_stage = 0; zero_stage <= 3; zero_stage++)
            expect_emulated((chain_run){.data = 1 + (stages + zero_stage) % 2,
                                        .accumulation = 4,
                                        .stages = stages,
                                        .window = 2 + zero_stage,
                                        .clipping = zero_stage % 2 ? 0.05 : 0,
                                        .updates_of = updates_of_2bw},
                            "2bw", zero_stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipedream_is_its_emulation),
        cmocka_unit_test(two_buffered_weights_are_their_emulation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
