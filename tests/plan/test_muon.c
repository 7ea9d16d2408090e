// Muon's part of a plan: which tensors are its matrices, who computes their directions and in which
// order, and the bytes of the space for that.
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { BLOCKS = 7, WIDTH = 96 };

static zr_settings settings_of(int stage, bool gram)
{
    zr_settings settings = fixture_settings(ZERO_F32, stage, 1);
    settings.orthogonal = true;
    settings.gram = gram;
    return settings;
}

static zr_plan *plan_of(const fixture *f, bool gram, int ranks)
{
    const zr_settings settings = settings_of(2, gram);
    return fixture_plan_of(f, &settings, ranks, true);
}

// Builds blocks whose matrices differ in size, in no order.
static void build_uneven(fixture *f)
{
    static const int64_t columns[BLOCKS] = {40, 96, 300, 8, 300, 1, 170};
    fixture_build(f, BLOCKS, 1000, WIDTH);
    for (int b = 0; b < BLOCKS; b++)
        f->tensors[2 * b + 1].shape[1] = columns[b];
}

static const zr_muon_matrix *matrix_of(const zr_plan *plan, int number)
{
    for (int i = 0; i < plan->matrix_count; i++)
        if (plan->matrices[i].number == number)
            return &plan->matrices[i];
    return NULL;
}

// Of the fixture's tensors these are odd numbers, after the embedding and before the head.
static void matrices_are_those_of_blocks(void **state)
{
    fixture f;
    build_uneven(&f);
    zr_plan *plan = plan_of(&f, false, 3);
    assert_int_equal(plan->matrix_count, BLOCKS);
    for (int number = 0; number < plan->tensor_count; number++) {
        bool is_matrix = number % 2 == 1 && number < 2 * BLOCKS;
        const zr_muon_matrix *matrix = matrix_of(plan, number);
        assert_int_equal(matrix != NULL, is_matrix);
        if (matrix)
            assert_true(matrix->rows == WIDTH && matrix->cols == f.tensors[number].shape[1]);
    }
    for (int p = 0; p < plan->flat_param_count; p++)
        for (int t = 0; t < plan->flat_params[p].tensor_count; t++) {
            const zr_plan_tensor *tensor = &plan->flat_params[p].tensors[t];
            assert_int_equal(tensor->orthogonal, matrix_of(plan, tensor->number) != NULL);
        }
    zr_plan_destroy(plan);
}

static void other_optimizers_have_none(void **state)
{
    fixture f;
    build_uneven(&f);
    zr_plan *plan = fixture_plan(&f, 2, 3, 1, true);
    assert_int_equal(plan->matrix_count, 0);
    assert_int_equal(plan->spaces[ZR_SPACE_MUON].bytes, 0);
    zr_plan_destroy(plan);
}

// A block of a frozen matrix and an adapter's two.
static void adapters_are_matrices_and_frozen_ones_are_not(void **state)
{
    zero_tensor_desc adapter[2];
    fixture f;
    fixture_build(&f, 1, 1000, WIDTH);
    adapter[0] = adapter[1] = f.tensors[1];
    adapter[0].name = "lora_A";
    adapter[0].shape[0] = adapter[1].shape[1] = 4;
    adapter[1].name = "lora_B";
    const zero_flat_param_desc flat_params[] = {{ZERO_FROZEN, 2, &f.tensors[1]},
                                                {ZERO_TRAINABLE, 2, adapter}};
    f.units[1].flat_param_count = 2;
    f.units[1].flat_params = flat_params;
    zr_plan *plan = plan_of(&f, false, 2);
    assert_int_equal(plan->matrix_count, 2);
    for (int i = 0; i < 2; i++)
        assert_true(plan->matrices[i].rows == 4 || plan->matrices[i].cols == 4);
    zr_plan_destroy(plan);
}

static double flops_of(const zr_plan *plan, const zr_muon_matrix *matrix)
{
    const zr_orthogonal of = zr_plan_orthogonal(plan, matrix->rows, matrix->cols);
    return zr_orthogonal_flops(&of);
}

// No rank has more work than the mean and one matrix.
static void check_loads(const zr_plan *plan, int ranks)
{
    double loads[16] = {0}, sum = 0, largest = 0;
    for (int i = 0; i < plan->matrix_count; i++) {
        double flops = flops_of(plan, &plan->matrices[i]);
        assert_true(flops > 0 && plan->matrices[i].owner >= 0 && plan->matrices[i].owner < ranks);
        loads[plan->matrices[i].owner] += flops;
        sum += flops;
        largest = ZR_MAX(largest, flops);
    }
    for (int r = 0; r < ranks; r++)
        assert_true(loads[r] <= sum / ranks + largest);
}

// Rounds come in order, and an owner has at most one matrix in each: its largest ones first.
static void check_rounds(const zr_plan *plan)
{
    for (int i = 0; i < plan->matrix_count; i++)
        for (int k = 0; k < i; k++) {
            const zr_muon_matrix *before = &plan->matrices[k], *after = &plan->matrices[i];
            assert_true(before->round <= after->round);
            assert_true(before->owner != after->owner || before->round < after->round);
            if (before->owner == after->owner)
                assert_true(flops_of(plan, before) >= flops_of(plan, after));
        }
}

static void work_is_divided(void **state)
{
    fixture f;
    build_uneven(&f);
    for (int ranks = 1; ranks <= 9; ranks++)
        for (int gram = 0; gram < 2; gram++) {
            zr_plan *plan = plan_of(&f, gram, ranks);
            assert_int_equal(plan->matrix_count, BLOCKS);
            check_loads(plan, ranks);
            check_rounds(plan);
            zr_plan_destroy(plan);
        }
}

static void check_same_matrices(const zr_plan *a, const zr_plan *b)
{
    assert_int_equal(a->matrix_count, b->matrix_count);
    for (int i = 0; i < a->matrix_count; i++) {
        const zr_muon_matrix *x = &a->matrices[i], *y = &b->matrices[i];
        assert_true(x->number == y->number && x->rows == y->rows && x->cols == y->cols &&
                    x->owner == y->owner && x->round == y->round);
    }
}

// Tensor ranks hold slices, and data ranks any part of those; the list is one.
static void all_ranks_have_one_list(void **state)
{
    fixture whole, part;
    fixture_build(&whole, BLOCKS, 1000, WIDTH);
    for (int stage = 0; stage <= 3; stage++) {
        const zr_settings settings = settings_of(stage, true);
        zr_plan *all = fixture_plan_of(&whole, &settings, 6, true);
        assert_int_equal(all->matrix_count, BLOCKS);
        for (int rank = 0; rank < 3; rank++) {
            fixture_cut(&part, &whole, rank, 3);
            zr_plan *plan = fixture_plan_set(&part, &settings, 2, rank, 3);
            check_same_matrices(plan, all);
            check_loads(plan, 6);
            zr_plan_destroy(plan);
        }
        zr_plan_destroy(all);
    }
}

static void what_comes_in_tiles_is_refused(void **state)
{
    fixture f;
    fixture_build_streamed(&f, 1, 1000, WIDTH);
    zero_error error = {0};
    zr_plan *plan = NULL;
    const zero_shape shape = {.batch = 2, .seq = 8};
    const zr_settings settings = settings_of(3, false);
    const zr_machine machine = {.ranks = 2, .threads = 1};
    assert_int_equal(zr_plan_create(&f.model, &shape, &settings, &machine, &plan, &error),
                     ZERO_ERR_CONFIG);
    assert_null(plan);
    assert_string_equal(error.message,
                        "planning fixture with Muon: the matrix \"t3\" comes in tiles "
                        "(libzero.tiling), and its direction is computed of the whole matrix; "
                        "expected no tiles, or another optimizer");
}

static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// The matrix and a message in bf16, sums in fp32, squares of the shorter side: gram has three.
static void the_space_holds_the_largest(void **state)
{
    fixture f;
    build_uneven(&f);
    for (int gram = 0; gram < 2; gram++) {
        zr_plan *plan = plan_of(&f, gram, 2);
        int64_t elements = (int64_t)WIDTH * 300, square = aligned((int64_t)WIDTH * WIDTH * 2);
        int64_t bytes = 2 * aligned(elements * 2) + aligned(elements * 4) + square * (gram ? 3 : 1);
        assert_int_equal(plan->spaces[ZR_SPACE_MUON].bytes, bytes);
        assert_int_equal(plan->spaces[ZR_SPACE_MUON].category, ZERO_MEM_optimizer);
        zr_plan_destroy(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_are_those_of_blocks),
        cmocka_unit_test(other_optimizers_have_none),
        cmocka_unit_test(adapters_are_matrices_and_frozen_ones_are_not),
        cmocka_unit_test(work_is_divided),
        cmocka_unit_test(all_ranks_have_one_list),
        cmocka_unit_test(what_comes_in_tiles_is_refused),
        cmocka_unit_test(the_space_holds_the_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
