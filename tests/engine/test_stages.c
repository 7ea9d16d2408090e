// The strongest promise (contract 3): stages 0 to 3 give the same bits, for any number of ranks,
// accumulation, optimizer and backend; and at a given global batch, any numbers of ranks agree up
// to rounding.
#include "harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void test_ranks_and_accumulation(void **state)
{
    static const int ranks[] = {1, 2, 3, 4, 8};
    for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++)
        for (int k = 1; k <= 3; k += 2)
            harness_stages_agree(
                (harness_case){.ranks = ranks[r], .accumulation = k, .batch = 2, .clipping = 1});
}

static void test_optimizers(void **state)
{
    static const char *const optimizers[] = {"Adam", "SGD", "Adagrad", "Lion", "LAMB"};
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        harness_stages_agree(
            (harness_case){.ranks = 3, .accumulation = 2, .batch = 1, .optimizer = optimizers[i]});
}

static void test_dropout(void **state)
{
    harness_stages_agree(
        (harness_case){.ranks = 2, .accumulation = 2, .batch = 2, .dropout = 0.1f});
}

static void test_cpu_backend(void **state)
{
    harness_stages_agree(
        (harness_case){.ranks = 2, .accumulation = 2, .batch = 2, .backend = "cpu"});
}

// Small ceilings reduce every flat parameter at once; bits do not depend on when.
static void test_bucket_size(void **state)
{
    static harness_result wide, narrow;
    harness_case c = {.stage = 2, .ranks = 2, .accumulation = 2, .batch = 2, .layers = 4};
    harness_run(&c, &wide);
    c.bucket = 1;
    harness_run(&c, &narrow);
    assert_true(harness_equal(&wide, &narrow));
}

// Reduced meanwhile on another thread, or in its wait: the same bits.
static void test_overlap(void **state)
{
    static harness_result plain, overlapped;
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 2; ranks <= 3; ranks++) {
            harness_case c = {.stage = stage,
                              .ranks = ranks,
                              .accumulation = 2,
                              .batch = 2,
                              .layers = 4,
                              .bucket = 3000};
            harness_run(&c, &plain);
            c.overlap = true;
            harness_run(&c, &overlapped);
            assert_true(harness_equal(&plain, &overlapped));
        }
}

static double worst_difference(const harness_result *a, const harness_result *b)
{
    double worst = 0;
    for (int s = 0; s < HARNESS_STEPS; s++)
        worst = fmax(worst, fabs(a->loss[s] - b->loss[s]));
    return worst;
}

// 8 samples a step, cut in any way, are one batch: a dropped micro-batch or a wrong factor would
// show at once.
static void test_same_global_batch(void **state)
{
    static harness_result one, other;
    static const harness_case cuts[] = {{.stage = 3, .ranks = 8, .accumulation = 1, .batch = 1},
                                        {.stage = 2, .ranks = 4, .accumulation = 2, .batch = 1},
                                        {.stage = 1, .ranks = 2, .accumulation = 2, .batch = 2},
                                        {.stage = 0, .ranks = 2, .accumulation = 4, .batch = 1},
                                        {.stage = 3, .ranks = 1, .accumulation = 8, .batch = 1}};
    harness_run(
        &(harness_case){.stage = 0, .ranks = 1, .accumulation = 1, .batch = 8, .optimizer = "SGD"},
        &one);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        harness_case c = cuts[i];
        c.optimizer = "SGD";
        harness_run(&c, &other);
        assert_true(worst_difference(&one, &other) < 1e-5);
        for (int s = 0; s < HARNESS_STEPS; s++)
            assert_true(fabs(one.norm[s] - other.norm[s]) < 1e-4 * one.norm[s]);
    }
}

static void test_memory_falls(void **state)
{
    static harness_result r[4];
    for (int stage = 0; stage < 4; stage++)
        harness_run(&(harness_case){.stage = stage, .ranks = 4, .accumulation = 1, .batch = 1},
                    &r[stage]);
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        for (int stage = 0; stage < 4; stage++)
            assert_int_equal(r[stage].memory.planned[ZERO_TIER_device][c],
                             r[stage].memory.held[ZERO_TIER_device][c]);
    assert_true(r[1].memory.held[ZERO_TIER_device][ZERO_MEM_optimizer] * 4 ==
                r[0].memory.held[ZERO_TIER_device][ZERO_MEM_optimizer]);
    assert_true(r[2].memory.held[ZERO_TIER_device][ZERO_MEM_gradients] * 4 ==
                r[1].memory.held[ZERO_TIER_device][ZERO_MEM_gradients]);
    assert_true(r[3].memory.held[ZERO_TIER_device][ZERO_MEM_parameters] * 4 ==
                r[2].memory.held[ZERO_TIER_device][ZERO_MEM_parameters]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranks_and_accumulation),
                                       cmocka_unit_test(test_optimizers),
                                       cmocka_unit_test(test_dropout),
                                       cmocka_unit_test(test_cpu_backend),
                                       cmocka_unit_test(test_bucket_size),
                                       cmocka_unit_test(test_overlap),
                                       cmocka_unit_test(test_same_global_batch),
                                       cmocka_unit_test(test_memory_falls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
