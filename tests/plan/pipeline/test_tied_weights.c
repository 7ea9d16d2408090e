// Tied weights: a flat parameter that units of two chunks share has an owner and a tied copy, on
// the same rank or on two, and their shards are exchanged at the boundary and at the publication.
#include "pass_text.h"
#include "pipeline_replay.h"
#include "plan/pipeline/tied_weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const pass_concern exchange = {.codes = BIT(ZR_RECEIVE) | BIT(ZR_TAKE) | BIT(ZR_SEND) |
                                               BIT(ZR_GIVE) | BIT(ZR_TIED_WEIGHT)};

static int count(const zr_plan *plan, zr_pass_kind kind, zr_code code)
{
    int found = 0;
    for (int i = 0; i < plan->program.passes[kind].count; i++)
        found += plan->program.passes[kind].at[i].code == code;
    return found;
}

static void make_of(fixture *f, const zr_pipeline *pipeline, int stage, pipeline_plans *out)
{
    const zr_settings settings = fixture_settings(ZERO_BF16, stage, pipeline->micro_batches);
    const zr_machine machine = {.ranks = 2, .threads = 1, .mapped = true};
    fixture_build(f, 4, 1000, 100);
    pipeline_plans_make(&f->model, pipeline, &settings, &machine, out);
}

static void make(fixture *f, zr_pipeline_kind kind, int stages, int stage, pipeline_plans *out)
{
    const zr_pipeline pipeline = pipeline_of(kind, stages, 1, 4);
    make_of(f, &pipeline, stage, out);
}

// The fixture's head borrows the embedding's flat parameter.
static void the_last_stage_has_a_tied_copy(void **state)
{
    static pipeline_plans plans;
    fixture f;
    for (int stage = 0; stage <= 3; stage++) {
        make(&f, ZR_PIPELINE_1F1B, 3, stage, &plans);
        const zr_plan *first = plans.plans[0], *middle = plans.plans[1], *last = plans.plans[2];
        const zr_tied_weight_plan *owner = &first->tied_weights[0],
                                  *tied_copy = &last->tied_weights[0];
        assert_int_equal(first->tied_weight_count, 1);
        assert_true(owner->owner >= 0 && owner->tied_copy < 0);
        assert_true(tied_copy->tied_copy >= 0 && tied_copy->owner < 0);
        assert_true(middle->tied_weights[0].owner < 0 && middle->tied_weights[0].tied_copy < 0);
        const zr_flat_param *own = &first->flat_params[owner->owner],
                            *copy = &last->flat_params[tied_copy->tied_copy];
        assert_true(own->counted && !copy->counted && copy->tied_copy);
        assert_int_equal(own->shard, copy->shard);
        assert_true(own->state_first >= 0 && copy->state_first < 0);
        assert_true(copy->accumulator_first >= 0);
        pipeline_plans_free(&plans);
    }
}

// Each way there is one link, with a slot of one data rank's shard in the type that goes there.
static void shards_go_there_and_back(void **state)
{
    static pipeline_plans plans;
    fixture f;
    make(&f, ZR_PIPELINE_GPIPE, 3, 2, &plans);
    const zr_plan *first = plans.plans[0], *last = plans.plans[2];
    const zr_tied_weight_plan *tied_weight = &first->tied_weights[0];
    const zr_link *sums = &first->links[tied_weight->sum_link],
                  *parameters = &first->links[tied_weight->parameter_link];
    int64_t shard = first->flat_params[tied_weight->owner].shard;
    assert_int_equal(first->link_count, 2 * 2 + 2);
    assert_true(sums->from == 2 && sums->to == 0 && sums->slots == 1);
    assert_true(parameters->from == 0 && parameters->to == 2 && parameters->slots == 1);
    assert_int_equal(sums->message, shard * 4); // over several micro-batches in fp32
    assert_int_equal(parameters->message, shard * 2);
    assert_memory_equal(sums, &last->links[tied_weight->sum_link], sizeof *sums);
    expect_pass(&last->program.passes[ZR_PASS_BOUNDARY], &exchange, "TAKE 4 | TIE 2 | SEND 4");
    expect_pass(&first->program.passes[ZR_PASS_BOUNDARY], &exchange, "RECEIVE 4 | TIE 0 | GIVE 4");
    expect_pass(&first->program.passes[ZR_PASS_PUBLISH], &exchange, "TAKE 5 | TIE 0 | SEND 5");
    expect_pass(&last->program.passes[ZR_PASS_PUBLISH], &exchange,
                "RECEIVE 5 | TIE 2 if changed | GIVE 5");
    for (int kind = 0; kind < ZR_PASS_COUNT; kind++)
        assert_int_equal(count(plans.plans[1], (zr_pass_kind)kind, ZR_TIED_WEIGHT), 0);
    assert_int_equal(first->traffic[ZR_PASS_PUBLISH].pipeline.bytes[ZERO_COMM_send], shard * 2);
    assert_int_equal(last->traffic[ZR_PASS_BOUNDARY].pipeline.bytes[ZERO_COMM_send], shard * 4);
    pipeline_plans_free(&plans);
}

// At stage 0 peers copy whole tied copies, which are not overwritten before.
static void copied_tied_copies_are_awaited(void **state)
{
    static const pass_concern taken = {.codes = BIT(ZR_AWAIT) | BIT(ZR_TIED_WEIGHT),
                                       .slots = BIT(ZR_SLOT_READERS)};
    static pipeline_plans plans;
    fixture f;
    make(&f, ZR_PIPELINE_GPIPE, 3, 0, &plans);
    expect_pass(&plans.plans[2]->program.passes[ZR_PASS_PUBLISH], &taken,
                "AWAIT readers 2 if changed | TIE 2 if changed");
    pipeline_plans_free(&plans);
}

// With exact_pipeline one rank has both flat parameters, and nothing is sent.
static void one_rank_has_both(void **state)
{
    fixture f;
    zero_model *stage = NULL;
    zr_plan *plan = NULL;
    zero_error error = {0};
    const zr_unit_range all[] = {{0, 6}};
    const zr_settings settings = fixture_settings(ZERO_F32, 2, 2);
    const zr_machine machine = {.ranks = 2, .threads = 1, .mapped = true};
    const zero_shape shape = {.batch = 1, .seq = 8};
    fixture_build(&f, 4, 1000, 100);
    assert_int_equal(zr_pipeline_stage_cut(&f.model, all, 1, true, &stage, &error), ZERO_OK);
    assert_int_equal(zr_plan_create(stage, &shape, &settings, &machine, &plan, &error), ZERO_OK);
    assert_true(plan->tied_weights[0].owner >= 0 && plan->tied_weights[0].tied_copy >= 0);
    assert_int_equal(plan->link_count, 0);
    assert_int_equal(count(plan, ZR_PASS_BOUNDARY, ZR_TIED_WEIGHT), 1);
    assert_int_equal(count(plan, ZR_PASS_PUBLISH, ZR_TIED_WEIGHT), 1);
    assert_int_equal(count(plan, ZR_PASS_BOUNDARY, ZR_SEND), 0);
    zr_plan_destroy(plan);
    zr_pipeline_stage_free(stage);
}

// What is tied stays in memory, also where everything else goes to NVMe.
static void what_is_tied_is_not_on_nvme(void **state)
{
    static pipeline_plans plans;
    fixture f;
    const zr_pipeline pipeline = pipeline_of(ZR_PIPELINE_1F1B, 2, 1, 4);
    zr_settings settings = fixture_settings(ZERO_BF16, 3, 4);
    const zr_machine machine = {.ranks = 2, .threads = 1, .mapped = true};
    settings.tiering = fixture_on_nvme;
    fixture_build(&f, 4, 1000, 100);
    pipeline_plans_make(&f.model, &pipeline, &settings, &machine, &plans);
    for (int s = 0; s < 2; s++)
        for (int p = 0; p < plans.plans[s]->flat_param_count; p++) {
            const zr_flat_param *flat_param = &plans.plans[s]->flat_params[p];
            bool tied = zr_flat_param_is_tied(plans.plans[s], flat_param);
            assert_int_equal(flat_param->state_tier == ZERO_TIER_nvme, !tied);
            assert_int_equal(flat_param->parameter_tier == ZERO_TIER_nvme, !tied);
        }
    pipeline_plans_free(&plans);
}

// Asynchronous schedules exchange shards while other steps are under way; nobody waits for ever.
static void tables_are_exchanged_between_steps(void **state)
{
    static const zr_pipeline_kind kinds[] = {ZR_PIPELINE_PIPEDREAM, ZR_PIPELINE_2BW};
    static pipeline_plans plans;
    fixture f;
    for (int k = 0; k < ZR_COUNT(kinds); k++)
        for (int stages = 2; stages <= 4; stages++) {
            bool late = kinds[k] == ZR_PIPELINE_PIPEDREAM;
            make(&f, kinds[k], stages, 2, &plans);
            const zr_plan *first = plans.plans[0], *last = plans.plans[stages - 1];
            assert_int_equal(zr_plan_tied_weights_are_late(last), late);
            assert_int_equal(last->flat_params[last->tied_weights[0].tied_copy].late, late);
            assert_int_equal(count(first, ZR_PASS_BOUNDARY, ZR_TIED_WEIGHT), 1);
            assert_int_equal(count(first, ZR_PASS_PUBLISH, ZR_TIED_WEIGHT), 1);
            assert_int_equal(count(last, ZR_PASS_PUBLISH, ZR_TIED_WEIGHT), !late);
            assert_int_equal(count(last, ZR_PASS_TIED_WEIGHTS, ZR_TIED_WEIGHT), late);
            pipeline_check_replay(&plans);
            pipeline_plans_free(&plans);
        }
}

// A slot for what is sent before the first of it is taken; and what peers still copy is not
// overwritten.
static void late_shards_wait_in_slots(void **state)
{
    static const pass_concern all = {.codes = BIT(ZR_RECEIVE) | BIT(ZR_TIED_WEIGHT) | BIT(ZR_GIVE) |
                                              BIT(ZR_GATHER) | BIT(ZR_AWAIT),
                                     .slots = BIT(ZR_SLOT_READERS) | BIT(ZR_SLOT_GATHER)};
    static const struct {
        int stages, micro_batches, slots;
    } cases[] = {{3, 4, 2}, {4, 2, 3}, {4, 1, 4}, {2, 1, 2}};
    static pipeline_plans plans;
    fixture f;
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        const zr_pipeline pipeline = {ZR_PIPELINE_PIPEDREAM, cases[i].stages, 1,
                                      cases[i].micro_batches, 6};
        make_of(&f, &pipeline, 1, &plans);
        const zr_plan *last = plans.plans[cases[i].stages - 1];
        assert_int_equal(last->links[last->tied_weights[0].sum_link].slots, cases[i].slots);
        assert_int_equal(last->links[last->tied_weights[0].parameter_link].slots, cases[i].slots);
        if (i == 0)
            expect_pass(&last->program.passes[ZR_PASS_TIED_WEIGHTS], &all,
                        "AWAIT readers 2 if changed | RECEIVE 5 | TIE 2 | GIVE 5 | GATHER 2 | "
                        "AWAIT gather 2");
        pipeline_plans_free(&plans);
    }
}

// After the last stage's update of a step, its tied copy has what the owner, on the first stage,
// had when that began the forward of the micro-batch which the last stage computes next.
static void check_late(const pipeline_plans *plans)
{
    const zr_plan *first = plans->plans[0], *last = plans->plans[plans->count - 1];
    int m = first->pipeline->pipeline.micro_batches;
    for (int a = 0; a < first->action_count; a++) {
        const zr_action *action = &first->actions[a];
        int step = action->micro_batch / m - 1; // whose update comes before on the last stage
        if (action->act == ZR_ACT_FORWARD && step >= 0 && action->micro_batch % m == 0)
            assert_int_equal(zr_plan_tied_weights_taken(last, step), action->version);
    }
}

static void a_late_tied_copy_is_that_of_the_same_micro_batch(void **state)
{
    static pipeline_plans plans;
    fixture f;
    for (int stages = 2; stages <= 4; stages++)
        for (int m = 1; m <= 5; m++)
            for (int steps = 1; steps <= 6; steps++) {
                const zr_pipeline pipeline = {ZR_PIPELINE_PIPEDREAM, stages, 1, m, steps};
                make_of(&f, &pipeline, 1, &plans);
                check_late(&plans);
                pipeline_check_replay(&plans);
                pipeline_plans_free(&plans);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_stage_has_a_tied_copy),
        cmocka_unit_test(shards_go_there_and_back),
        cmocka_unit_test(copied_tied_copies_are_awaited),
        cmocka_unit_test(one_rank_has_both),
        cmocka_unit_test(what_is_tied_is_not_on_nvme),
        cmocka_unit_test(tables_are_exchanged_between_steps),
        cmocka_unit_test(late_shards_wait_in_slots),
        cmocka_unit_test(a_late_tied_copy_is_that_of_the_same_micro_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
