// Costs of units: those of GPT-2 124M, from which its split follows, and their memory against that
// of plans.
#include "fixture.h"
#include "layers/layers.h"
#include "plan/pipeline/stage_split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { GPT2_UNITS = 14, MOST_UNITS = 32 };

static zero_model *gpt2(void)
{
    zr_lm_config config = {.kind = ZR_LM_GPT2};
    zero_model *model = NULL;
    zero_error error = {0};
    zero_gpt2_defaults(&config.gpt2);
    if (zr_lm_create(&config, &model, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_int_equal(model->unit_count, GPT2_UNITS);
    return model;
}

static void costs_of(const zero_model *model, const zr_settings *settings, int ranks,
                     zr_unit_cost *out)
{
    const zero_shape shape = {.batch = 4, .seq = 256, .threads = 1};
    zero_error error = {0};
    if (zr_unit_costs(model, &shape, settings, ZR_PIPELINE_1F1B, ranks, out, &error) != ZERO_OK)
        fail_msg("%s", error.message);
}

static double total_time(const zr_unit_cost *units, int count)
{
    double total = 0;
    for (int u = 0; u < count; u++)
        total += units[u].time;
    return total;
}

// Blocks have 12 C^2 weights each, the head V C, each of which costs 6 FLOPs a position.
static void flops_are_those_of_the_weights(void **state)
{
    zero_model *model = gpt2();
    const zr_settings settings = fixture_settings(ZERO_F32, 1, 8);
    zr_unit_cost units[GPT2_UNITS];
    costs_of(model, &settings, 1, units);
    double rows = 4 * 256, width = 768, head = 6 * rows * width * 50257,
           block = 6 * rows * 12 * width * width;
    assert_true(units[0].time == 0);
    for (int u = 1; u <= 12; u++)
        assert_true(units[u].time == block);
    assert_true(units[13].time == head);
    double share = head / total_time(units, GPT2_UNITS);
    assert_true(share > 0.305 && share < 0.315);
    assert_int_equal(units[0].parameters, (50257 + 1024) * 768);
    assert_int_equal(units[13].parameters, 2 * 768);
    assert_string_equal(units[3].name, "h.2");
    assert_string_equal(units[3].kind, "block");
    zr_lm_free(model);
}

static void gpt2_is_split_by_its_flops(void **state)
{
    static const int sets[] = {1, 1, 1, 1};
    zero_model *model = gpt2();
    const zr_settings settings = fixture_settings(ZERO_F32, 1, 8);
    zr_unit_cost units[GPT2_UNITS];
    zr_pipeline_split split;
    zr_buffer text = {0};
    zero_error error;
    costs_of(model, &settings, 1, units);
    zr_division_of_units costs = {
        .units = units, .count = GPT2_UNITS, .stages = 2, .chunks = 1, .sets = sets};
    const zr_pipeline_spec two = {.stages = 2, .chunks = 1}, four = {.stages = 4, .chunks = 1};
    assert_int_equal(zr_pipeline_split_make(&two, &costs, &split, &error), ZERO_OK);
    zr_pipeline_stage_list_units(units, split.first, 2, 1, 0, &text);
    assert_string_equal(text.data, "embedding, h.0 to h.8");
    assert_true(split.stage[0].share > 0.515 && split.stage[0].share < 0.525);
    assert_true(split.imbalance > 1.03 && split.imbalance < 1.045);
    zr_pipeline_split_free(&split);
    costs.stages = 4;
    assert_int_equal(zr_pipeline_split_make(&four, &costs, &split, &error), ZERO_OK);
    assert_memory_equal(split.first, ((int[]){0, 5, 9, 13, 14}), 5 * sizeof(int));
    assert_true(split.imbalance > 1.23 && split.imbalance < 1.25);
    zr_pipeline_split_free(&split);
    zr_buffer_free(&text);
    zr_lm_free(model);
}

static int64_t planned(const zr_plan *plan, zero_memory_category category)
{
    return plan->bytes[ZERO_TIER_device][category] + plan->bytes[ZERO_TIER_host][category];
}

// Adds up the states of all units. The head's share of a table counts twice, because units are
// counted as if each were in a chunk of its own; it is left out here.
static int64_t states_of(const zero_model *model, const zr_settings *settings, int ranks,
                         zr_unit_cost *units)
{
    zero_model untied = *model;
    zero_unit all[MOST_UNITS];
    memcpy(all, model->units, (size_t)model->unit_count * sizeof *all);
    all[model->unit_count - 1].borrowed_count = 0;
    untied.units = all;
    int64_t states = 0;
    costs_of(&untied, settings, ranks, units);
    for (int u = 0; u < model->unit_count; u++)
        states += units[u].states;
    return states;
}

// Apart from the window in which stage 0 makes sums whole, and from where gradients pass through.
static void memory_is_that_of_a_plan(void **state)
{
    fixture f;
    fixture_build(&f, 5, 5000, 200);
    for (int stage = 0; stage < 4; stage++)
        for (int accumulation = 1; accumulation <= 2; accumulation++)
            for (zero_dtype dtype = ZERO_F32; dtype <= ZERO_BF16; dtype++) {
                zr_unit_cost units[MOST_UNITS];
                const zr_settings settings = fixture_settings(dtype, stage, accumulation);
                zr_plan *plan = fixture_plan_in(&f, dtype, stage, 2, accumulation, true);
                int64_t states = states_of(&f.model, &settings, 2, units);
                assert_int_equal(states, planned(plan, ZERO_MEM_parameters) +
                                             planned(plan, ZERO_MEM_gradients) - plan->whole_bytes +
                                             planned(plan, ZERO_MEM_optimizer));
                zr_plan_destroy(plan);
            }
}

// In fp32, where only asynchronous schedules have a master, at ZeRO 1 over 2 data ranks.
static void asynchronous_schedules_keep_a_master_and_more_sums(void **state)
{
    fixture f;
    zr_unit_cost one[MOST_UNITS], dream[MOST_UNITS], two[MOST_UNITS];
    fixture_build(&f, 5, 1000, 100);
    zr_settings settings = fixture_settings(ZERO_F32, 1, 4);
    const zero_shape shape = {.batch = 2, .seq = 8};
    zero_error e;
    assert_int_equal(
        zr_unit_costs(&f.model, &shape, &settings, ZR_PIPELINE_1F1B, 2, one, &e) |
            zr_unit_costs(&f.model, &shape, &settings, ZR_PIPELINE_PIPEDREAM, 2, dream, &e) |
            zr_unit_costs(&f.model, &shape, &settings, ZR_PIPELINE_2BW, 2, two, &e),
        ZERO_OK);
    for (int u = 0; u < f.model.unit_count; u++) {
        int64_t master = dream[u].states - one[u].states, sums = two[u].states - dream[u].states;
        assert_int_equal(one[u].version, dream[u].version);
        assert_true(sums >= master); // also of what the unit borrows
        if (f.model.units[u].borrowed_count == 0 && one[u].parameters > 0)
            assert_true(master > 0 && sums == master && one[u].version == 2 * master);
    }
}

static void activations_are_those_of_a_plan(void **state)
{
    fixture f;
    zr_unit_cost units[MOST_UNITS];
    fixture_build(&f, 5, 1000, 100);
    zr_plan *plan = fixture_plan(&f, 1, 2, 1, true);
    zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    const zero_shape shape = {.batch = 2, .seq = 8};
    int64_t activations = 0;
    zero_error error;
    assert_int_equal(zr_unit_costs(&f.model, &shape, &settings, ZR_PIPELINE_1F1B, 2, units, &error),
                     ZERO_OK);
    for (int u = 0; u < f.model.unit_count; u++)
        activations += units[u].activations;
    assert_int_equal(activations, plan->activation_bytes - 2 * plan->boundary_bytes);
    assert_int_equal(units[3].workspace, 50);
    zr_plan_destroy(plan);
}

// Of units that are computed again only the boundaries between segments stay, and they take longer.
static void what_is_computed_again_is_not_kept(void **state)
{
    zero_model *model = gpt2();
    zr_settings settings = fixture_settings(ZERO_F32, 1, 8);
    zr_unit_cost kept[GPT2_UNITS], again[GPT2_UNITS];
    costs_of(model, &settings, 1, kept);
    settings.activation_checkpoints = 13;
    costs_of(model, &settings, 1, again);
    int64_t boundary = 4 * 256 * 768 * 4;
    assert_true(again[5].time == kept[5].time * 4 / 3);
    assert_true(again[13].time == kept[13].time);
    assert_int_equal(again[0].activations, boundary);
    assert_int_equal(again[11].activations, boundary);
    assert_int_equal(again[12].activations, 0); // the last unit follows
    assert_int_equal(again[13].activations, kept[13].activations);
    assert_true(kept[5].activations > 10 * boundary);
    assert_int_equal(again[5].workspace, kept[5].workspace + kept[5].activations);
    settings.activation_checkpoint_tier = ZERO_TIER_nvme;
    costs_of(model, &settings, 1, again);
    assert_int_equal(again[0].activations, 0);
    zr_lm_free(model);
}

static void what_is_on_nvme_takes_no_memory(void **state)
{
    zero_model *model = gpt2();
    zr_settings settings = fixture_settings(ZERO_BF16, 3, 8);
    zr_unit_cost units[GPT2_UNITS];
    settings.tiering = fixture_on_nvme;
    costs_of(model, &settings, 1, units);
    for (int u = 0; u < GPT2_UNITS; u++)
        assert_int_equal(units[u].states, 0);
    zr_lm_free(model);
}

// A model that lists no products is split by the number of its units.
static void units_without_products_are_alike(void **state)
{
    fixture f;
    zr_unit_cost units[MOST_UNITS];
    const zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    fixture_build(&f, 3, 1000, 100);
    costs_of(&f.model, &settings, 1, units);
    for (int u = 0; u < f.model.unit_count; u++)
        assert_true(units[u].time == 1);
}

static void a_unit_that_refuses_is_named(void **state)
{
    zero_model *model = gpt2();
    const zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    const zero_shape shape = {.batch = 1, .seq = 4096};
    zr_unit_cost units[GPT2_UNITS];
    zero_error error = {0};
    assert_int_equal(zr_unit_costs(model, &shape, &settings, ZR_PIPELINE_1F1B, 1, units, &error),
                     ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "planning unit \"embedding\" for micro-batch 1 x 4096"));
    zr_lm_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flops_are_those_of_the_weights),
        cmocka_unit_test(gpt2_is_split_by_its_flops),
        cmocka_unit_test(memory_is_that_of_a_plan),
        cmocka_unit_test(asynchronous_schedules_keep_a_master_and_more_sums),
        cmocka_unit_test(activations_are_those_of_a_plan),
        cmocka_unit_test(what_is_computed_again_is_not_kept),
        cmocka_unit_test(what_is_on_nvme_takes_no_memory),
        cmocka_unit_test(units_without_products_are_alike),
        cmocka_unit_test(a_unit_that_refuses_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
