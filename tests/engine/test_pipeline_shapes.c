// Evaluations of batches that are smaller than the engine's, as the last one of a text is: over a
// pipeline every rank gets the loss that it has without one, between steps of any schedule.
#include "harness.h"

#include "base/errors.h"

#include "../sanitizers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { BATCH = 4, SEQ = HARNESS_SEQ, MOST_LOSSES = 64 };

// Batches that are evaluated one after the other. By rows, a rank has fewer rows of some than its
// neighbour, or none.
static const struct {
    int64_t batch, seq;
} shapes[] = {{BATCH, SEQ}, {2, SEQ}, {4, 4}, {2, 6}, {1, SEQ}, {4, SEQ}, {3, 5}, {1, 1}, {1, 2}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct losses { // in the order of evaluations
    double at[MOST_LOSSES];
} losses;

static losses expected;
static bool compares;         // else they become the expected ones, on the one rank that tells
static _Atomic int different; // losses that are not the expected ones

static void fill(int64_t step, int64_t batch, int64_t seq, int32_t *tokens, int32_t *targets)
{
    int32_t whole[2][BATCH * SEQ];
    harness_batch(500 + step, 0, BATCH, whole[0], whole[1]);
    for (int64_t b = 0; b < batch; b++) {
        memcpy(tokens + b * seq, whole[0] + b * SEQ, (size_t)seq * sizeof *tokens);
        memcpy(targets + b * seq, whole[1] + b * SEQ, (size_t)seq * sizeof *targets);
    }
}

static zero_status evaluate_all(zero_engine *engine, int step, zero_error *error)
{
    for (int i = 0; i < SHAPES; i++) {
        int32_t tokens[BATCH * SEQ], targets[BATCH * SEQ];
        int64_t batch = shapes[i].batch, seq = shapes[i].seq;
        double loss = 0, *want = &expected.at[(step + 1) * SHAPES + i];
        fill(step, batch, seq, tokens, targets);
        const zero_tensors given = {
            2, {{tokens, ZERO_I32, 2, {batch, seq}}, {targets, ZERO_I32, 2, {batch, seq}}}};
        ZERO_TRY(zero_evaluate(engine, &given, &loss, error));
        if (!compares)
            *want = loss;
        else if (loss != *want)
            different++;
    }
    return ZERO_OK;
}

static void run(harness_case c, bool compare)
{
    static harness_result out;
    c.after = evaluate_all;
    compares = compare;
    different = 0;
    harness_run(&c, &out);
}

static void expect_same(harness_case c, const char *schedule, int stages)
{
    c.schedule = schedule;
    c.stages = stages;
    run(c, true);
    if (different)
        fail_msg("stage %d, %d x %d x %d ranks, %s: %d other losses", c.stage, stages, c.ranks,
                 c.slices ? c.tensor : 1, schedule, different);
}

static void every_schedule(harness_case c, int most_stages)
{
    static const char *const schedules[] = {"gpipe", "1f1b", "interleaved:2", "zb-h1"};
    for (int s = 0; s < 4; s++)
        for (int stages = 2; stages <= most_stages; stages += 2)
            if (!SANITIZED || stages == 2 + s % 2 * (most_stages - 2))
                expect_same(c, schedules[s], stages);
}

static harness_case case_of(const zero_llama_config *llama, int stage)
{
    return (harness_case){.stage = stage,
                          .ranks = 1,
                          .accumulation = 4,
                          .batch = BATCH,
                          .steps = 2,
                          .clipping = 1,
                          .llama = llama};
}

static void smaller_batches_have_the_losses_of_no_pipeline(void **state)
{
    zero_llama_config config = harness_llama();
    config.n_layer = 6;
    config.tied = 0;
    for (int stage = 0; stage <= 3; stage += 1 + 2 * SANITIZED) {
        harness_case c = case_of(&config, stage);
        run(c, false);
        every_schedule(c, 4);
    }
}

// By rows, each tensor rank sends its part of a smaller boundary.
static void smaller_batches_over_tensor_ranks(void **state)
{
    zero_llama_config config = harness_llama();
    config.n_layer = 6;
    config.tied = 0;
    for (int by_rows = 0; by_rows < 2; by_rows++) {
        harness_case c = case_of(&config, 1 + 2 * by_rows);
        c.slices = 2;
        c.tensor = 1;
        run(c, false);
        c.tensor = 2;
        c.by_rows = by_rows;
        every_schedule(c, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smaller_batches_have_the_losses_of_no_pipeline),
        cmocka_unit_test(smaller_batches_over_tensor_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
