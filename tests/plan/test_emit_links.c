// Around the calls of a chunk's first and last unit: slots of links are received and taken as late,
// and sent and given as early, as these allow.
#include "pass_text.h"
#include "pipeline_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const pass_concern links = {
    BIT(ZR_CALL) | BIT(ZR_RECEIVE) | BIT(ZR_TAKE) | BIT(ZR_SEND) | BIT(ZR_GIVE), 0, 0};

// Six units on three pipeline stages.
static void make(zr_pipeline_kind kind, bool splits, int64_t checkpoints, pipeline_plans *out)
{
    static pipeline_model model;
    const zr_pipeline pipeline = pipeline_of(kind, 3, 1, 4);
    zr_settings settings = fixture_settings(ZERO_F32, 1, pipeline.micro_batches);
    settings.activation_checkpoints = checkpoints;
    pipeline_build(&model, 4, (pipeline_style){.splits = splits});
    pipeline_plans_make(&model.f.model, &pipeline, &settings,
                        &(zr_machine){.ranks = 1, .threads = 1, .mapped = true}, out);
}

static void expect_part(const pipeline_plans *stages, int stage, zr_chunk_part part,
                        const char *expected)
{
    expect_pass(&stages->plans[stage]->program.passes[zr_chunk_pass(part, 0)], &links, expected);
}

static void activations_go_up_and_gradients_down(void **state)
{
    pipeline_plans stages;
    make(ZR_PIPELINE_1F1B, false, 0, &stages);
    expect_part(&stages, 0, ZR_CHUNK_FORWARD, "CALL forward 0 | TAKE 0 | CALL forward 1 | SEND 0");
    expect_part(&stages, 1, ZR_CHUNK_FORWARD,
                "RECEIVE 0 | CALL forward 0 | TAKE 2 | CALL forward 1 | SEND 2");
    expect_part(&stages, 2, ZR_CHUNK_FORWARD, "RECEIVE 2 | CALL forward 0");
    expect_part(&stages, 2, ZR_CHUNK_BACKWARD,
                "CALL forward_backward 1 | TAKE 3 | CALL backward 0 | SEND 3 | GIVE 2");
    expect_part(&stages, 1, ZR_CHUNK_BACKWARD,
                "RECEIVE 3 | CALL backward 1 | GIVE 3 | TAKE 1 | CALL backward 0 | SEND 1 | "
                "GIVE 0");
    expect_part(&stages, 0, ZR_CHUNK_BACKWARD,
                "RECEIVE 1 | CALL backward 1 | GIVE 1 | CALL backward 0");
    pipeline_plans_free(&stages);
}

// Nothing comes back in an evaluation, so an input is given back once it has been read.
static void an_evaluation_gives_inputs_back_at_once(void **state)
{
    pipeline_plans stages;
    make(ZR_PIPELINE_1F1B, false, 0, &stages);
    expect_part(&stages, 0, ZR_CHUNK_EVALUATION,
                "CALL forward 0 | TAKE 0 | CALL forward 1 | SEND 0");
    expect_part(&stages, 1, ZR_CHUNK_EVALUATION,
                "RECEIVE 0 | CALL forward 0 | GIVE 0 | TAKE 2 | CALL forward 1 | SEND 2");
    expect_part(&stages, 2, ZR_CHUNK_EVALUATION,
                "RECEIVE 2 | CALL forward 0 | GIVE 2 | CALL forward 1");
    pipeline_plans_free(&stages);
}

// The weights' part of the first unit reads the input once more.
static void a_split_unit_gives_its_input_back_after_the_weights_part(void **state)
{
    pipeline_plans stages;
    make(ZR_PIPELINE_ZB_H1, true, 0, &stages);
    expect_part(&stages, 1, ZR_CHUNK_BACKWARD,
                "RECEIVE 3 | CALL backward of the input 1 | GIVE 3 | TAKE 1 | "
                "CALL backward of the input 0 | SEND 1");
    expect_part(&stages, 1, ZR_CHUNK_WEIGHT,
                "CALL backward of the weights 1 | CALL backward of the weights 0 | GIVE 0");
    pipeline_plans_free(&stages);
    make(ZR_PIPELINE_ZB_H1, false, 0, &stages);
    expect_part(&stages, 1, ZR_CHUNK_BACKWARD,
                "RECEIVE 3 | CALL backward 1 | GIVE 3 | TAKE 1 | CALL backward 0 | SEND 1 | "
                "GIVE 0");
    expect_part(&stages, 1, ZR_CHUNK_WEIGHT, "");
    pipeline_plans_free(&stages);
}

// What is computed again neither comes nor goes once more, and gradients are waited for after it.
static void what_is_computed_again_uses_no_link(void **state)
{
    pipeline_plans stages;
    make(ZR_PIPELINE_GPIPE, false, 1, &stages);
    expect_part(&stages, 1, ZR_CHUNK_BACKWARD,
                "CALL forward again 0 | CALL forward again 1 | RECEIVE 3 | CALL backward 1 | "
                "GIVE 3 | TAKE 1 | CALL backward 0 | SEND 1 | GIVE 0");
    pipeline_plans_free(&stages);
}

// Each is given back in the same pass in which it was received, or in a later one of its
// micro-batch; and each names the bytes of its link.
static void check_balance(const zr_plan *plan)
{
    for (int c = 0; c < plan->chunk_count; c++) {
        int received = 0, given = 0, taken = 0, sent = 0;
        for (zr_chunk_part part = ZR_CHUNK_FORWARD; part <= ZR_CHUNK_WEIGHT; part++) {
            const zr_pass *pass = &plan->program.passes[zr_chunk_pass(part, c)];
            for (const zr_instruction *i = pass->at; i < pass->at + pass->count; i++) {
                received += i->code == ZR_RECEIVE;
                given += i->code == ZR_GIVE;
                taken += i->code == ZR_TAKE;
                sent += i->code == ZR_SEND;
                if (i->slot.kind == ZR_SLOT_LINK)
                    assert_int_equal(i->bytes, plan->links[i->slot.index].bytes);
            }
        }
        const zr_chunk_plan *chunk = &plan->chunks[c];
        assert_int_equal(received, (chunk->input >= 0) + (chunk->gradient_in >= 0));
        assert_int_equal(given, received);
        assert_int_equal(taken, (chunk->output >= 0) + (chunk->gradient_out >= 0));
        assert_int_equal(sent, taken);
    }
}

static void every_link_of_a_chunk_is_used_once(void **state) { pipeline_for_each(check_balance); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_go_up_and_gradients_down),
        cmocka_unit_test(an_evaluation_gives_inputs_back_at_once),
        cmocka_unit_test(a_split_unit_gives_its_input_back_after_the_weights_part),
        cmocka_unit_test(what_is_computed_again_uses_no_link),
        cmocka_unit_test(every_link_of_a_chunk_is_used_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
