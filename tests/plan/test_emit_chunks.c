// The order of a pipeline: each chunk of units has passes of its own, what is put off to the
// weights' part is sealed there, and the programs of all pipeline stages get to their end together.
#include "pass_text.h"
#include "pipeline_replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const pass_concern calls = {BIT(ZR_CALL), 0, 0};
static const pass_concern sums = {BIT(ZR_CALL) | BIT(ZR_OPEN) | BIT(ZR_REDUCE) | BIT(ZR_AWAIT),
                                  BIT(ZR_SLOT_SUM), 0};

static const zr_pass *pass_of(const pipeline_plans *stages, int stage, zr_chunk_part part,
                              int chunk)
{
    return &stages->plans[stage]->program.passes[zr_chunk_pass(part, chunk)];
}

// An embedding, `blocks` blocks and a head on two pipeline stages or more.
static void make(int blocks, pipeline_style style, zr_pipeline pipeline, int64_t checkpoints,
                 pipeline_plans *out)
{
    static pipeline_model model;
    zr_settings settings = fixture_settings(ZERO_F32, 2, pipeline.micro_batches);
    settings.activation_checkpoints = checkpoints;
    pipeline_build(&model, blocks, style);
    pipeline_plans_make(&model.f.model, &pipeline, &settings,
                        &(zr_machine){.ranks = 2, .threads = 1, .mapped = true}, out);
}

static void each_chunk_has_passes_of_its_own(void **state)
{
    pipeline_plans stages;
    make(2, (pipeline_style){.splits = true}, pipeline_of(ZR_PIPELINE_1F1B, 2, 1, 2), 0, &stages);
    expect_pass(pass_of(&stages, 0, ZR_CHUNK_FORWARD, 0), &calls,
                "CALL forward 0 | CALL forward 1");
    expect_pass(pass_of(&stages, 0, ZR_CHUNK_BACKWARD, 0), &calls,
                "CALL backward 1 | CALL backward 0");
    expect_pass(pass_of(&stages, 0, ZR_CHUNK_EVALUATION, 0), &calls,
                "CALL forward 0 | CALL forward 1");
    expect_pass(pass_of(&stages, 1, ZR_CHUNK_FORWARD, 0), &calls, "CALL forward 0");
    expect_pass(pass_of(&stages, 1, ZR_CHUNK_BACKWARD, 0), &calls,
                "CALL forward_backward 1 | CALL backward 0");
    expect_pass(pass_of(&stages, 1, ZR_CHUNK_EVALUATION, 0), &calls,
                "CALL forward 0 | CALL forward 1");
    for (int s = 0; s < 2; s++) {
        const zr_pass *passes = stages.plans[s]->program.passes;
        assert_int_equal(pass_of(&stages, s, ZR_CHUNK_WEIGHT, 0)->count, 0);
        assert_int_equal(pass_of(&stages, s, ZR_CHUNK_FORWARD, 1)->count, 0);
        assert_int_equal(passes[ZR_PASS_MICRO_BATCH].count, 0);
        assert_int_equal(passes[ZR_PASS_EVALUATION].count, 0);
        assert_true(passes[ZR_PASS_BOUNDARY].count > 0 && passes[ZR_PASS_UPDATE].count > 0);
    }
    pipeline_plans_free(&stages);
}

static void a_last_unit_of_two_functions_runs_forward_in_forward(void **state)
{
    pipeline_plans stages;
    make(2, (pipeline_style){.apart = true}, pipeline_of(ZR_PIPELINE_GPIPE, 2, 1, 2), 0, &stages);
    expect_pass(pass_of(&stages, 1, ZR_CHUNK_FORWARD, 0), &calls,
                "CALL forward 0 | CALL forward 1");
    expect_pass(pass_of(&stages, 1, ZR_CHUNK_BACKWARD, 0), &calls,
                "CALL backward 1 | CALL backward 0");
    pipeline_plans_free(&stages);
}

// Of one call, it has no forward of its own: its chunk's forward computes nothing.
static void a_last_unit_alone_computes_in_backward(void **state)
{
    pipeline_plans stages;
    make(2, (pipeline_style){0}, pipeline_of(ZR_PIPELINE_INTERLEAVED, 2, 2, 2), 0, &stages);
    expect_pass(pass_of(&stages, 0, ZR_CHUNK_FORWARD, 1), &calls, "CALL forward 1");
    expect_pass(pass_of(&stages, 1, ZR_CHUNK_FORWARD, 0), &calls, "CALL forward 0");
    expect_pass(pass_of(&stages, 1, ZR_CHUNK_FORWARD, 1), &calls, "");
    expect_pass(pass_of(&stages, 1, ZR_CHUNK_BACKWARD, 1), &calls, "CALL forward_backward 1");
    expect_pass(pass_of(&stages, 1, ZR_CHUNK_EVALUATION, 1), &calls, "CALL forward 1");
    pipeline_plans_free(&stages);
}

// The flat parameter of a split unit is opened and sealed in the weights' pass, which awaits its
// sum; the embedding's, whose backward is one, in backward.
static void what_is_split_is_sealed_in_the_weights_pass(void **state)
{
    pipeline_plans stages;
    make(4, (pipeline_style){.splits = true}, pipeline_of(ZR_PIPELINE_ZB_H1, 2, 1, 2), 0, &stages);
    expect_pass(pass_of(&stages, 0, ZR_CHUNK_BACKWARD, 0), &sums,
                "CALL backward of the input 2 | CALL backward of the input 1 | OPEN 0 | "
                "CALL backward 0 | REDUCE 0 | AWAIT sum 0");
    expect_pass(pass_of(&stages, 0, ZR_CHUNK_WEIGHT, 0), &sums,
                "OPEN 2 | CALL backward of the weights 2 | REDUCE 2 | "
                "OPEN 1 | CALL backward of the weights 1 | REDUCE 1 | AWAIT sum 2 | AWAIT sum 1");
    expect_pass(pass_of(&stages, 1, ZR_CHUNK_BACKWARD, 0), &sums,
                "OPEN 2 | CALL forward_backward 2 | REDUCE 2 | CALL backward of the input 1 | "
                "AWAIT sum 2 | CALL backward of the input 0");
    pipeline_plans_free(&stages);
}

// Where segments are computed again, what they hold would be gone; streamed flat parameters come
// and go in one call.
static void what_cannot_be_split_is_whole_in_backward(void **state)
{
    static const char *const whole =
        "CALL forward again 0 | CALL forward again 1 | CALL backward 1 | CALL backward 0";
    pipeline_plans stages;
    make(2, (pipeline_style){.splits = true}, pipeline_of(ZR_PIPELINE_ZB_H1, 2, 1, 2), 1, &stages);
    expect_pass(pass_of(&stages, 0, ZR_CHUNK_BACKWARD, 0), &calls, whole);
    expect_pass(pass_of(&stages, 0, ZR_CHUNK_WEIGHT, 0), &calls, "");
    pipeline_plans_free(&stages);
    make(2, (pipeline_style){.splits = true, .streamed = true},
         pipeline_of(ZR_PIPELINE_ZB_H1, 2, 1, 2), 0, &stages);
    expect_pass(pass_of(&stages, 0, ZR_CHUNK_BACKWARD, 0), &calls,
                "CALL backward 1 | CALL backward 0");
    expect_pass(pass_of(&stages, 0, ZR_CHUNK_WEIGHT, 0), &calls, "");
    pipeline_plans_free(&stages);
}

// At stage 3, the weights' pass gathers the flat parameters that its calls read, and no others.
static void the_weights_pass_gathers_what_it_reads(void **state)
{
    static const pass_concern gathers = {BIT(ZR_CALL) | BIT(ZR_GATHER), 0, 0};
    static pipeline_model model;
    const zr_pipeline zb_h1 = pipeline_of(ZR_PIPELINE_ZB_H1, 2, 1, 2);
    const zr_settings settings = fixture_settings(ZERO_F32, 3, 2);
    for (int keeps = 0; keeps < 2; keeps++) {
        pipeline_plans stages;
        pipeline_build(&model, 4, (pipeline_style){.splits = true, .keeps = keeps});
        pipeline_plans_make(&model.f.model, &zb_h1, &settings,
                            &(zr_machine){.ranks = 2, .threads = 1, .mapped = true}, &stages);
        expect_pass(pass_of(&stages, 0, ZR_CHUNK_WEIGHT, 0), &gathers,
                    keeps ? "CALL backward of the weights 2 | CALL backward of the weights 1"
                          : "GATHER 2 | CALL backward of the weights 2 | GATHER 1 | "
                            "CALL backward of the weights 1");
        pipeline_plans_free(&stages);
    }
}

static void what_a_call_reads_is_there_in_its_micro_batch(void **state)
{
    pipeline_for_all(pipeline_check_replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_chunk_has_passes_of_its_own),
        cmocka_unit_test(a_last_unit_of_two_functions_runs_forward_in_forward),
        cmocka_unit_test(a_last_unit_alone_computes_in_backward),
        cmocka_unit_test(what_is_split_is_sealed_in_the_weights_pass),
        cmocka_unit_test(what_cannot_be_split_is_whole_in_backward),
        cmocka_unit_test(the_weights_pass_gathers_what_it_reads),
        cmocka_unit_test(what_a_call_reads_is_there_in_its_micro_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
