// Where Adafactor's averages lie: those of rows and columns of the whole model's matrices, and of
// vectors' elements, the same on every rank.
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { BLOCKS = 3, VOCAB = 1000, WIDTH = 96 };

static zr_settings factored(int stage)
{
    zr_settings settings = fixture_settings(ZERO_BF16, stage, 2);
    settings.factored = true;
    settings.state_vectors = 0;
    return settings;
}

// The embedding, a weight and a bias of each block, and a gain of the head.
static void check_tensors(const zr_plan *plan)
{
    int64_t first = 0;
    int vectors = 0;
    for (int t = 0; t < plan->tensor_count; t++) {
        const zr_tensor_factors *of = &plan->factors[t];
        assert_int_equal(of->first, first);
        assert_true(of->columns > 0);
        vectors += of->rows == 0;
        first += of->rows + of->columns;
    }
    assert_int_equal(plan->factor_elems, first);
    assert_int_equal(first, VOCAB + WIDTH + BLOCKS * (WIDTH + 4 * WIDTH + 4 * WIDTH) + WIDTH);
    assert_int_equal(vectors, BLOCKS + 1);
    assert_int_equal(zr_factors_elements(&plan->factors[0]), VOCAB * WIDTH);
}

static void test_every_stage_has_all(void **state)
{
    fixture f;
    fixture_build(&f, BLOCKS, VOCAB, WIDTH);
    for (int stage = 0; stage < 4; stage++) {
        const zr_settings settings = factored(stage);
        zr_plan *plan = fixture_plan_of(&f, &settings, 2, true);
        const zr_space_plan *space = &plan->spaces[ZR_SPACE_FACTORS];
        check_tensors(plan);
        assert_int_equal(space->bytes, plan->factor_elems * ZR_FACTOR_BYTES);
        assert_int_equal(space->counted, space->bytes);
        assert_int_equal(space->tier, ZERO_TIER_device);
        assert_int_equal(space->category, ZERO_MEM_optimizer);
        zr_plan_destroy(plan);
    }
}

// A part of a model has the averages of the whole's tensors.
static void test_parts_have_all(void **state)
{
    fixture whole, part;
    fixture_build(&whole, BLOCKS, VOCAB, WIDTH);
    for (int rank = 0; rank < 2; rank++) {
        const zr_settings settings = factored(2);
        fixture_cut(&part, &whole, rank, 2);
        zr_plan *plan = fixture_plan_set(&part, &settings, 2, rank, 2);
        check_tensors(plan);
        assert_string_equal(plan->factors[0].name, whole.tensors[0].name);
        zr_plan_destroy(plan);
    }
}

// They are in memory, though other states be on NVMe; other optimizers have none.
static void test_tiers(void **state)
{
    fixture f;
    fixture_build(&f, BLOCKS, VOCAB, WIDTH);
    zr_settings settings = factored(3);
    settings.tiering = fixture_on_nvme;
    zr_plan *plan = fixture_plan_of(&f, &settings, 2, false);
    assert_int_equal(plan->spaces[ZR_SPACE_FACTORS].tier, ZERO_TIER_host);
    zr_plan_destroy(plan);
    settings.factored = false;
    plan = fixture_plan_of(&f, &settings, 2, false);
    assert_int_equal(plan->spaces[ZR_SPACE_FACTORS].kind, ZR_SPACE_NONE);
    assert_null(plan->factors);
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_stage_has_all),
                                       cmocka_unit_test(test_parts_have_all),
                                       cmocka_unit_test(test_tiers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
