// Numbers of tensors: those of the whole model, whichever part of it is planned.
#include "fixture.h"
#include "model/pipeline_stage_cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void a_whole_model_counts_in_order(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    zr_plan *plan = fixture_plan(&f, 2, 2, 1, true);
    int number = 0;
    for (int p = 0; p < plan->flat_param_count; p++)
        for (int t = 0; t < plan->flat_params[p].tensor_count; t++)
            assert_int_equal(plan->flat_params[p].tensors[t].number, number++);
    assert_int_equal(plan->tensor_count, number);
    zr_plan_destroy(plan);
}

// Tiles of one tensor, in pieces that follow each other, share a number.
static void tiles_share_a_number(void **state)
{
    fixture f;
    fixture_build_streamed(&f, 1, 1000, 100);
    f.tensors[0].tile = (zero_tile){"embedding", 0, 0, 1000};
    f.tensors[1].tile = (zero_tile){"embedding", 0, 500, 1000};
    zr_plan *plan = fixture_plan(&f, 3, 2, 1, true);
    assert_int_equal(plan->flat_params[0].tensors[0].number, 0);
    assert_int_equal(plan->flat_params[1].tensors[0].number, 0);
    assert_int_equal(plan->flat_params[2].tensors[0].number, 1);
    zr_plan_destroy(plan);
}

static void parts_have_the_numbers_of_the_whole(void **state)
{
    fixture whole, part;
    fixture_build(&whole, 2, 1000, 100);
    zr_plan *all = fixture_plan(&whole, 1, 2, 1, true);
    for (int rank = 0; rank < 4; rank++) {
        fixture_cut(&part, &whole, rank, 4);
        zr_plan *plan = fixture_plan_cut(&part, 1, 2, rank, 4);
        assert_int_equal(plan->tensor_count, all->tensor_count);
        assert_int_equal(plan->parameters, all->parameters);
        for (int p = 0; p < plan->flat_param_count; p++)
            for (int t = 0; t < plan->flat_params[p].tensor_count; t++)
                assert_int_equal(plan->flat_params[p].tensors[t].number,
                                 all->flat_params[p].tensors[t].number);
        zr_plan_destroy(plan);
    }
    zr_plan_destroy(all);
}

// Units are found by name: a part may have its tensors in other flat parameters, and other orders
// of them.
static void the_order_of_a_part_is_its_own(void **state)
{
    fixture whole, part;
    fixture_build(&whole, 1, 1000, 100);
    fixture_cut(&part, &whole, 0, 2);
    const zero_tensor_desc weight = part.tensors[1];
    part.tensors[1] = part.tensors[2];
    part.tensors[2] = weight;
    zr_plan *plan = fixture_plan_cut(&part, 1, 1, 0, 2);
    assert_int_equal(plan->flat_params[1].tensors[0].number, 2);
    assert_int_equal(plan->flat_params[1].tensors[1].number, 1);
    zr_plan_destroy(plan);
}

static void refused(const fixture *f, const char *words)
{
    zero_error error = {0};
    zr_plan *plan = NULL;
    const zero_shape shape = {.batch = 2, .seq = 8};
    const zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    const zr_machine machine = {.ranks = 1, .tensor_ranks = 2};
    assert_int_equal(zr_plan_create(&f->model, &shape, &settings, &machine, &plan, &error),
                     ZERO_ERR_USAGE);
    if (!strstr(error.message, words))
        fail_msg("\"%s\" lacks \"%s\"", error.message, words);
}

static void what_is_no_part_is_refused(void **state)
{
    fixture whole, part;
    fixture_build(&whole, 1, 1000, 100);
    fixture_cut(&part, &whole, 0, 2);
    part.tensors[1].tile.whole = "nothing";
    refused(&part, "tensor \"t1/0\" of unit \"h.0\" is no part of the whole model fixture");
    fixture_cut(&part, &whole, 0, 2);
    snprintf(part.unit_names[1], sizeof part.unit_names[1], "x");
    refused(&part, "tensor \"t1/0\" of unit \"x\" is no part of");
    fixture_cut(&part, &whole, 0, 2);
    part.tensors[1].shape[0]++;
    refused(&part, "tensor \"t1/0\" has another shape or class than \"t1\"");
    fixture_cut(&part, &whole, 0, 2);
    part.tensors[0].tile.size++;
    refused(&part, "tensor \"t0/0\" has another shape or class than \"t0\"");
    fixture_cut(&part, &whole, 0, 2);
    part.flat_params[2].kind = ZERO_FROZEN;
    refused(&part, "tensor \"t3\" has another shape or class than \"t3\"");
}

static void what_is_missing_is_named(void **state)
{
    fixture whole, part;
    fixture_build(&whole, 2, 1000, 100);
    fixture_cut(&part, &whole, 0, 2);
    part.flat_params[1].tensor_count = 1;
    refused(&part, "it has neither tensor \"t2\" of the whole model fixture nor a tile of it");
}

static zr_plan *plan_stage(const zero_model *stage, int tensor_ranks)
{
    zero_error error = {0};
    zr_plan *plan = NULL;
    const zero_shape shape = {.batch = 2, .seq = 8};
    const zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    const zr_machine machine = {.ranks = 1, .tensor_ranks = tensor_ranks};
    if (zr_plan_create(stage, &shape, &settings, &machine, &plan, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return plan;
}

// Stages of a whole model and of a tensor rank's part: each tensor counts in the stage of its unit,
// and the tied copy of the table, in the last one, has the number of the table.
static void pipeline_stages_have_the_numbers_of_the_whole(void **state)
{
    static const zr_unit_range chunks[] = {{0, 3}, {3, 5}};
    fixture whole, part;
    fixture_build(&whole, 3, 1000, 100);
    fixture_cut(&part, &whole, 0, 2);
    for (int tensor_ranks = 1; tensor_ranks <= 2; tensor_ranks++) {
        int next = 0;
        for (int s = 0; s < 2; s++) {
            zero_model *stage = NULL;
            const zero_model *model = tensor_ranks == 1 ? &whole.model : &part.model;
            zero_error error;
            assert_int_equal(zr_pipeline_stage_cut(model, &chunks[s], 1, false, &stage, &error),
                             ZERO_OK);
            zr_plan *plan = plan_stage(stage, tensor_ranks);
            assert_int_equal(plan->tensor_count, 8);
            for (int p = 0; p < plan->flat_param_count; p++)
                for (int t = 0; t < plan->flat_params[p].tensor_count; t++) {
                    bool tied_copy = s == 1 && p == plan->flat_param_count - 1;
                    assert_int_equal(plan->flat_params[p].tied_copy, tied_copy);
                    assert_int_equal(plan->flat_params[p].counted, !tied_copy);
                    assert_int_equal(plan->flat_params[p].tensors[t].number,
                                     tied_copy ? 0 : next++);
                }
            zr_plan_destroy(plan);
            zr_pipeline_stage_free(stage);
        }
        assert_int_equal(next, 8);
    }
}

// What a unit of the stage lacks is missed; what other stages have is not.
static void what_a_stage_lacks_is_named(void **state)
{
    static const zr_unit_range last = {2, 4};
    fixture whole, part;
    zero_model *stage = NULL;
    zero_error error = {0};
    fixture_build(&whole, 2, 1000, 100);
    fixture_cut(&part, &whole, 0, 2);
    part.flat_params[2].tensor_count = 1;
    assert_int_equal(zr_pipeline_stage_cut(&part.model, &last, 1, false, &stage, &error), ZERO_OK);
    fixture as_stage = {.model = *stage};
    refused(&as_stage, "it has neither tensor \"t4\" of the whole model fixture nor a tile of it");
    zr_pipeline_stage_free(stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_model_counts_in_order),
        cmocka_unit_test(tiles_share_a_number),
        cmocka_unit_test(parts_have_the_numbers_of_the_whole),
        cmocka_unit_test(the_order_of_a_part_is_its_own),
        cmocka_unit_test(what_is_no_part_is_refused),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(pipeline_stages_have_the_numbers_of_the_whole),
        cmocka_unit_test(what_a_stage_lacks_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
