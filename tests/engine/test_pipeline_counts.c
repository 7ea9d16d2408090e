// What a pipeline sends and holds: as many messages and bytes as its plan has, which are those of
// the formula, and on every rank the memory that was planned.
#include "harness.h"

#include "base/alloc.h"
#include "comm/channel.h"
#include "engine/engine_api.h"
#include "engine/rank_grid.h"

#include "../sanitizers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { WIDTH = 16, LAYERS = 6, MOST_STAGES = 4 };

// Of all ranks, in all steps of a run.
static _Atomic int64_t sent, sent_planned, fetched, messages, unlike, activations[MOST_STAGES];

// Adds up what the plan of this rank has for a step.
static void add_planned(const zr_plan *plan)
{
    static const zr_chunk_part parts[] = {[ZR_ACT_FORWARD] = ZR_CHUNK_FORWARD,
                                          [ZR_ACT_BACKWARD] = ZR_CHUNK_BACKWARD,
                                          [ZR_ACT_WEIGHT] = ZR_CHUNK_WEIGHT};
    for (int i = 0; i < plan->action_count; i++) {
        const zr_action *action = &plan->actions[i];
        zr_pass_kind kind = zr_chunk_pass(parts[action->act], action->chunk);
        sent_planned += plan->traffic[kind].pipeline.bytes[ZERO_COMM_send];
    }
}

// The slots that the plan counts are those that the channels have.
static bool slots_are_planned(const zr_plan *plan)
{
    zr_channel_shape shapes[4 * ZR_MOST_CHUNKS * MOST_STAGES];
    const zr_pipeline_part *part = plan->pipeline;
    assert_true(plan->link_count <= ZR_COUNT(shapes));
    for (int i = 0; i < plan->link_count; i++)
        shapes[i] = (zr_channel_shape){.from = plan->links[i].from,
                                       .to = plan->links[i].to,
                                       .slots = plan->links[i].slots,
                                       .bytes = plan->links[i].bytes};
    return zr_plan_link_bytes(plan) ==
           zr_channel_shapes_bytes(shapes, plan->link_count, part->stage, part->mapped);
}

static zero_status count_step(zero_engine *engine, int step, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(engine);
    zero_traffic traffic;
    zero_memory memory;
    if (step >= 0)
        add_planned(plan);
    if (step < HARNESS_STEPS - 1)
        return ZERO_OK;
    zr_engine_traffic(engine, ZERO_AXIS_pipeline, &traffic);
    zero_memory_report(engine, &memory);
    sent += traffic.bytes[ZERO_COMM_send];
    messages += traffic.calls[ZERO_COMM_send];
    fetched += traffic.bytes[ZERO_COMM_recv];
    unlike += memcmp(memory.planned, memory.held, sizeof memory.held) != 0;
    unlike += !slots_are_planned(plan);
    activations[plan->pipeline->stage] = memory.planned[ZERO_TIER_device][ZERO_MEM_activations];
    return ZERO_OK;
}

static void count(harness_case c)
{
    static harness_result out;
    sent = sent_planned = fetched = messages = unlike = 0;
    c.after = count_step;
    harness_run(&c, &out);
}

static int64_t chunks_of(const harness_case *c)
{
    return c->stages * (strcmp(c->schedule, "interleaved:2") ? 1 : 2);
}

static void expect_counts(const harness_case *c)
{
    count(*c);
    int64_t links = 2 * (chunks_of(c) - 1), rows = c->batch * HARNESS_SEQ;
    int64_t each = HARNESS_STEPS * links * c->accumulation * c->ranks;
    int64_t tensor = c->slices ? c->tensor : 1, parts = c->by_rows ? tensor : 1;
    assert_int_equal(messages, each * tensor);
    assert_int_equal(sent, each * tensor * (rows / parts) * WIDTH * 4);
    assert_int_equal(sent, sent_planned);
    assert_int_equal(fetched, 0); // receivers read where the sender has written
    assert_int_equal(unlike, 0);
}

static void messages_and_bytes_are_those_of_the_formula(void **state)
{
    static const char *const schedules[] = {"gpipe", "1f1b", "interleaved:2", "zb-h1"};
    zero_llama_config config = harness_llama();
    config.n_layer = LAYERS;
    config.tied = 0;
    for (int s = 0; s < 4; s++)
        for (int stages = 2; stages <= MOST_STAGES; stages += 1 + SANITIZED)
            for (int kind = SANITIZED ? s % 3 : 0; kind < 3; kind += SANITIZED ? 3 : 1) {
                bool cut = kind == 2 && stages == 2;
                const harness_case c = {.stage = (s + kind) % 4,
                                        .ranks = 1 + kind % 2,
                                        .accumulation = stages * 2,
                                        .batch = 2,
                                        .precision =
                                            kind == 1 ? "\"bf16\": {\"enabled\": true}" : NULL,
                                        .llama = &config,
                                        .slices = cut ? 2 : 0,
                                        .tensor = cut ? 2 : 0,
                                        .by_rows = cut && s % 2,
                                        .stages = stages,
                                        .schedule = schedules[s]};
                expect_counts(&c);
            }
}

// gpipe keeps the activations of all micro-batches, 1f1b those of as many as there are stages from
// here on.
static void stages_hold_what_their_schedule_says(void **state)
{
    zero_llama_config config = harness_llama();
    config.n_layer = LAYERS;
    config.tied = 0;
    harness_case c = {.stage = 1,
                      .ranks = 1,
                      .accumulation = 8,
                      .batch = 1,
                      .llama = &config,
                      .stages = 4,
                      .schedule = "1f1b",
                      .split = "0,2,4,6"};
    int64_t few[MOST_STAGES];
    count(c);
    for (int s = 0; s < MOST_STAGES; s++)
        few[s] = activations[s];
    c.schedule = "gpipe";
    count(c);
    // Stages 1 and 2 have two blocks each: what a set of these takes is known from either.
    int64_t set = few[1] - few[2];
    assert_true(set > 0);
    assert_int_equal(activations[1] - few[1], (8 - 3) * set);
    assert_int_equal(activations[2] - few[2], (8 - 2) * set);
    assert_true(activations[0] > few[0]);
    assert_true(few[0] > few[3]);
}

static int64_t rows_evaluated;

static zero_status evaluate_some(zero_engine *engine, zero_error *error)
{
    static _Thread_local harness_rows r;
    zero_traffic before, after;
    double loss;
    harness_batch(0, 0, rows_evaluated, r.tokens, r.targets);
    const zero_tensors batch = harness_tensors(rows_evaluated, r.tokens, r.targets);
    zr_engine_traffic(engine, ZERO_AXIS_pipeline, &before);
    ZERO_TRY(zr_engine_evaluate(engine, &batch, &loss, error)); // it shares no loss
    zr_engine_traffic(engine, ZERO_AXIS_pipeline, &after);
    sent += zero_traffic_between(&before, &after).bytes[ZERO_COMM_send];
    return ZERO_OK;
}

// Of a batch that is smaller than planned, such as the last one of a text, only its rows are sent.
static void a_small_batch_is_sent_in_small_messages(void **state)
{
    static const char *const schedules[] = {"1f1b", "interleaved:2"};
    static harness_result out;
    zero_llama_config config = harness_llama();
    config.n_layer = LAYERS;
    for (int s = 0; s < 2; s++)
        for (rows_evaluated = 1; rows_evaluated <= 3; rows_evaluated++) {
            const harness_case c = {.stage = 1,
                                    .ranks = 2,
                                    .accumulation = 2,
                                    .batch = 3,
                                    .llama = &config,
                                    .stages = 2,
                                    .schedule = schedules[s],
                                    .drive = evaluate_some};
            sent = 0;
            harness_run(&c, &out);
            assert_int_equal(sent, c.ranks * (chunks_of(&c) - 1) * rows_evaluated * HARNESS_SEQ *
                                       WIDTH * 4);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_batch_is_sent_in_small_messages),
        cmocka_unit_test(messages_and_bytes_are_those_of_the_formula),
        cmocka_unit_test(stages_hold_what_their_schedule_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
