// Models of pipeline stages: every unit is in one of them, with the flat parameters that it knows
// under the same numbers, whether it owns them, borrows them or has tied copies.
#include "no_arithmetic.h"
#include "base/alloc.h"
#include "model/pipeline_stage_cut.h"
#include "model/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static zero_model *language_model(bool tied, int layers, int64_t tiles)
{
    zr_lm_config config = {.kind = ZR_LM_LLAMA};
    zero_model *model = NULL;
    zero_error error = {0};
    zero_llama_defaults(&config.llama);
    config.llama.vocab_size = 257;
    config.llama.hidden_size = 64;
    config.llama.intermediate_size = 96;
    config.llama.n_layer = layers;
    config.llama.n_head = 8;
    config.llama.n_kv_head = 2;
    config.llama.tied = tied;
    config.llama.tiles_embedding = tiles;
    if (zr_lm_build(&config, NULL, &ops, &model, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return model;
}

static zero_model *cut(const zero_model *model, const zr_unit_range *chunks, int count, bool exact)
{
    zero_model *stage = NULL;
    zero_error error = {0};
    if (zr_pipeline_stage_cut(model, chunks, count, exact, &stage, &error) != ZERO_OK ||
        zr_model_check(stage, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return stage;
}

// The flat parameters of a unit have the tensors that they have in the model that was cut, by
// number.
static void check_flat_params(const zero_model *stage, const zero_model *origin, int unit)
{
    int number = zr_pipeline_stage_unit(stage, unit);
    const zero_unit *is = &stage->units[unit], *was = &origin->units[number];
    assert_string_equal(is->name, was->name);
    assert_ptr_equal(is->ops, was->ops);
    assert_ptr_equal(is->hyper, was->hyper);
    assert_int_equal(is->flat_param_count + is->borrowed_count,
                     was->flat_param_count + was->borrowed_count);
    for (int i = 0; i < was->flat_param_count + was->borrowed_count; i++) {
        const zero_flat_param_desc *here = zr_flat_param_desc(stage,
                                                              zr_unit_flat_param(stage, unit, i)),
                                   *there = zr_flat_param_desc(
                                       origin, zr_unit_flat_param(origin, number, i));
        assert_ptr_equal(here->tensors, there->tensors);
        assert_int_equal(here->tensor_count, there->tensor_count);
        assert_int_equal(here->kind, there->kind);
        assert_int_equal(here->streamed, there->streamed);
        assert_int_equal(here->replicas, there->replicas);
    }
}

static void check_stage(const zero_model *stage, const zero_model *origin)
{
    assert_ptr_equal(zr_pipeline_stage_origin(stage), origin);
    assert_ptr_equal(stage->whole, origin->whole ? origin->whole : origin);
    assert_string_equal(stage->name, origin->name);
    for (int u = 0; u < stage->unit_count; u++)
        check_flat_params(stage, origin, u);
    int count;
    const zr_tied_copy *tied_copies = zr_pipeline_stage_tied_copies(stage, &count);
    for (int r = 0; r < count; r++) {
        const zr_tied_copy *it = &tied_copies[r];
        assert_ptr_equal(zr_flat_param_desc(stage, it->at)->tensors,
                         zr_flat_param_desc(origin, it->owner)->tensors);
        assert_ptr_equal(zr_pipeline_stage_tied_copy_at(stage, it->at), it);
    }
}

static void a_stage_is_a_range_of_units(void **state)
{
    zero_model *model = language_model(false, 4, 0);
    static const zr_unit_range ranges[] = {{0, 3}, {3, 6}};
    for (int s = 0; s < 2; s++) {
        zero_model *stage = cut(model, &ranges[s], 1, false);
        check_stage(stage, model);
        assert_int_equal(stage->unit_count, 3);
        int count;
        zr_pipeline_stage_tied_copies(stage, &count);
        assert_int_equal(count, 0);
        for (int u = 0; u < 3; u++)
            assert_int_equal(zr_pipeline_stage_unit(stage, u), 3 * s + u);
        zr_pipeline_stage_free(stage);
    }
    zr_lm_free(model);
}

// A model that nobody has cut is its own origin.
static void a_whole_model_is_no_stage(void **state)
{
    zero_model *model = language_model(true, 1, 0);
    int count = 1;
    assert_ptr_equal(zr_pipeline_stage_origin(model), model);
    assert_int_equal(zr_pipeline_stage_unit(model, 2), 2);
    assert_null(zr_pipeline_stage_tied_copies(model, &count));
    assert_int_equal(count, 0);
    assert_null(zr_pipeline_stage_tied_copy_at(model, (zero_flat_param_ref){0, 0}));
    zr_lm_free(model);
}

static void chunks_follow_each_other(void **state)
{
    zero_model *model = language_model(false, 6, 0);
    static const zr_unit_range chunks[] = {{2, 4}, {6, 8}};
    static const int numbers[] = {2, 3, 6, 7};
    zero_model *stage = cut(model, chunks, 2, false);
    check_stage(stage, model);
    assert_int_equal(stage->unit_count, 4);
    for (int u = 0; u < 4; u++)
        assert_int_equal(zr_pipeline_stage_unit(stage, u), numbers[u]);
    zr_pipeline_stage_free(stage);
    zr_lm_free(model);
}

static void expect_tied_copies(const zero_model *model, const zr_unit_range *chunks,
                               int chunk_count, bool exact, int expected)
{
    zero_model *stage = cut(model, chunks, chunk_count, exact);
    int count, last = stage->unit_count - 1;
    const zr_tied_copy *tied_copies = zr_pipeline_stage_tied_copies(stage, &count);
    check_stage(stage, model);
    assert_int_equal(count, expected);
    for (int r = 0; r < count; r++) {
        assert_int_equal(tied_copies[r].at.unit, last);
        assert_int_equal(tied_copies[r].at.flat_param,
                         model->units[model->unit_count - 1].flat_param_count + r);
        assert_int_equal(tied_copies[r].owner.unit, 0);
    }
    zr_pipeline_stage_free(stage);
}

// The head's table is borrowed within a chunk, and a tied copy in any other case.
static void a_table_of_another_chunk_is_a_tied_copy(void **state)
{
    static const zr_unit_range all[] = {{0, 6}}, first[] = {{0, 3}}, second[] = {{3, 6}},
                               both[] = {{0, 2}, {4, 6}};
    zero_model *model = language_model(true, 4, 0);
    expect_tied_copies(model, all, 1, false, 0);
    expect_tied_copies(model, first, 1, false, 0);
    expect_tied_copies(model, second, 1, false, 1);
    expect_tied_copies(model, both, 2, false, 1);
    expect_tied_copies(model, all, 1, true, 1);
    expect_tied_copies(model, first, 1, true, 0);
    expect_tied_copies(model, both, 2, true, 1);
    zr_lm_free(model);
}

// Tiles of a table are flat parameters that come and go, in the stage as in the model.
static void tiles_of_a_table_are_tied_copies(void **state)
{
    zero_model *model = language_model(true, 2, 4);
    static const zr_unit_range last[] = {{2, 4}};
    int tiles = model->units[3].borrowed_count;
    assert_true(tiles > 1);
    expect_tied_copies(model, last, 1, false, tiles);
    zr_lm_free(model);
}

// A stage of the part that a tensor rank holds is a part of the same whole.
static void a_part_is_cut_as_a_whole_is(void **state)
{
    zero_model *model = language_model(true, 4, 0), *part = NULL;
    zero_error error = {0};
    const zr_lm_slices slices = {.count = 4, .ranks = 2, .rank = 1};
    static const zr_unit_range last[] = {{3, 6}};
    assert_int_equal(zr_lm_cut(model, &slices, NULL, &part, &error), ZERO_OK);
    zero_model *stage = cut(part, last, 1, false);
    assert_ptr_equal(stage->whole, model);
    zr_pipeline_stage_free(stage);
    expect_tied_copies(part, last, 1, false, 2);
    zr_lm_free(part);
    zr_lm_free(model);
}

typedef struct chain { // a, b, c: c borrows of a and of b
    zero_tensor_desc tensors[3];
    zero_flat_param_desc flat_params[3];
    zero_flat_param_ref borrowed[2];
    zero_unit units[3];
    zero_model model;
} chain;

static void chain_set(chain *m, int first_lender)
{
    static const char *const names[] = {"a", "b", "c"};
    *m = (chain){.borrowed = {{first_lender, 0}, {1 - first_lender, 0}}};
    for (int i = 0; i < 3; i++) {
        m->tensors[i] =
            (zero_tensor_desc){.name = names[i], .dims = 1, .shape = {i + 1}, .tp_axis = -1};
        m->flat_params[i] = (zero_flat_param_desc){.tensor_count = 1, .tensors = &m->tensors[i]};
        m->units[i] = (zero_unit){.name = names[i],
                                  .ops = &no_ops,
                                  .flat_param_count = 1,
                                  .flat_params = &m->flat_params[i]};
    }
    m->units[2].borrowed_count = 2;
    m->units[2].borrowed = m->borrowed;
    m->model = (zero_model){.name = "chain", .unit_count = 3, .units = m->units};
}

// Of c's flat parameters, that of b stays borrowed where c knows it by a number above that of a;
// else it has to be a tied copy too, because tied copies come before what is borrowed.
static void numbers_of_flat_params_stay(void **state)
{
    static const zr_unit_range last[] = {{1, 3}};
    for (int first = 0; first < 2; first++) {
        chain m;
        int count;
        chain_set(&m, first);
        zero_model *stage = cut(&m.model, last, 1, false);
        check_stage(stage, &m.model);
        const zr_tied_copy *tied_copies = zr_pipeline_stage_tied_copies(stage, &count);
        assert_int_equal(count, first == 0 ? 1 : 2);
        assert_int_equal(stage->units[1].borrowed_count, first == 0 ? 1 : 0);
        if (first == 0)
            assert_int_equal(stage->units[1].borrowed[0].unit, 0);
        assert_int_equal(tied_copies[count - 1].owner.unit, 0);
        zr_pipeline_stage_free(stage);
    }
}

// What stays borrowed is found in the stage's own numbers, also after other chunks.
static void lenders_have_local_numbers(void **state)
{
    static const zr_unit_range both[] = {{0, 1}, {1, 3}};
    chain m;
    chain_set(&m, 0);
    zero_model *stage = cut(&m.model, both, 2, false);
    check_stage(stage, &m.model);
    assert_int_equal(stage->units[2].borrowed_count, 1);
    assert_int_equal(stage->units[2].borrowed[0].unit, 1);
    zr_pipeline_stage_free(stage);
}

static void tied_copies_of_buffers_are_refused(void **state)
{
    static const zr_unit_range last[] = {{2, 3}};
    chain m;
    zero_error error = {0};
    zero_model *stage = NULL;
    chain_set(&m, 0);
    m.flat_params[1].kind = ZERO_BUFFER;
    assert_int_equal(zr_pipeline_stage_cut(&m.model, last, 1, false, &stage, &error),
                     ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "unit \"c\" borrows a buffer (\"b\") of unit \"b\""));
    assert_null(stage);
}

// The names of tied copies are not counted twice; other names are.
static void other_names_stay_unique(void **state)
{
    static const zr_unit_range all[] = {{0, 3}};
    chain m;
    zero_error error = {0};
    chain_set(&m, 0);
    zero_model *stage = cut(&m.model, all, 1, true);
    m.tensors[2].name = "a";
    assert_int_equal(zr_model_check(stage, &error), ZERO_ERR_USAGE);
    assert_string_equal(error.message,
                        "two tensors are named \"a\": names must be unique in a model");
    zr_pipeline_stage_free(stage);
}

static void no_memory_leaves_nothing(void **state)
{
    static const zr_unit_range last[] = {{2, 3}};
    chain m;
    zero_error error;
    zero_model *stage = NULL;
    chain_set(&m, 0);
    zero_status status = ZERO_ERR_MEMORY;
    for (int nth = 1; status != ZERO_OK; nth++) {
        assert_int_equal(status, ZERO_ERR_MEMORY);
        assert_null(stage);
        zr_alloc_fail_at(nth);
        status = zr_pipeline_stage_cut(&m.model, last, 1, false, &stage, &error);
        zr_alloc_fail_at(0);
    }
    zr_pipeline_stage_free(stage);
    zr_pipeline_stage_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_is_a_range_of_units),
        cmocka_unit_test(a_whole_model_is_no_stage),
        cmocka_unit_test(chunks_follow_each_other),
        cmocka_unit_test(a_table_of_another_chunk_is_a_tied_copy),
        cmocka_unit_test(tiles_of_a_table_are_tied_copies),
        cmocka_unit_test(a_part_is_cut_as_a_whole_is),
        cmocka_unit_test(numbers_of_flat_params_stay),
        cmocka_unit_test(lenders_have_local_numbers),
        cmocka_unit_test(tied_copies_of_buffers_are_refused),
        cmocka_unit_test(other_names_stay_unique),
        cmocka_unit_test(no_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
