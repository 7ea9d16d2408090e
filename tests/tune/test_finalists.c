// Which candidates are measured, of made-up ones.
#include "tune/tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static zr_run_candidate made_up(int ranks, int tensor, int64_t micro_batch, double milliseconds)
{
    return (zr_run_candidate){.ranks = ranks,
                              .threads = 4 / ranks,
                              .tensor = tensor,
                              .stages = 1,
                              .micro_batch = micro_batch,
                              .state = ZR_CANDIDATE_FITS,
                              .tokens = 1000,
                              .step = {.seconds = milliseconds * 1e-3,
                                       .low = milliseconds * 0.9e-3,
                                       .high = milliseconds * 1.1e-3}};
}

// Expects these candidates, ended by -1, in this order.
static void expect_by(zr_tuning_metric metric, zr_tuning_order order, zr_run_candidate *list,
                      int count, const int *wanted)
{
    zr_tuning *t = calloc(1, sizeof *t);
    int i = 0;
    assert_non_null(t);
    t->candidates = (zr_candidates){.at = list, .count = count};
    t->settings.order = order;
    t->settings.metric = metric;
    t->race.most_trials = 50;
    assert_int_equal(zr_tuning_choose_finalists(t, NULL), ZERO_OK);
    for (; wanted[i] >= 0; i++) {
        assert_true(i < t->race.count);
        assert_int_equal(t->finalists[i].candidate, wanted[i]);
    }
    assert_int_equal(t->race.count, i);
    free(t);
}

static void expect(zr_tuning_order order, zr_run_candidate *list, int count, const int *wanted)
{
    expect_by(ZR_METRIC_THROUGHPUT, order, list, count, wanted);
}

// Large batches have more tokens a second, small ones the shorter steps.
static void test_the_metric_decides(void **state)
{
    zr_run_candidate list[] = {
        made_up(4, 1, 1, 10.0), made_up(4, 1, 2, 12.0),  made_up(4, 1, 4, 14.0),
        made_up(4, 1, 8, 80.0), made_up(4, 1, 16, 81.0), made_up(4, 1, 32, 82.0),
    };
    for (int i = 3; i < 6; i++)
        list[i].tokens = 100000;
    expect_by(ZR_METRIC_LATENCY, ZR_ORDER_MODEL, list, 6, (int[]){0, 1, 2, -1});
    expect_by(ZR_METRIC_THROUGHPUT, ZR_ORDER_MODEL, list, 6, (int[]){3, 4, 5, -1});
}

static void test_best_predicted_of_several_grids(void **state)
{
    zr_run_candidate list[] = {
        made_up(4, 1, 1, 11.0), made_up(4, 1, 2, 10.0), made_up(4, 1, 4, 10.1),
        made_up(4, 1, 8, 10.2), made_up(4, 2, 2, 10.3), made_up(4, 2, 4, 30.0),
    };
    expect(ZR_ORDER_MODEL, list, 6, (int[]){1, 2, 3, 4, -1}); // the last one is hopeless
}

static void test_few_of_a_micro_batch_and_only_what_fits(void **state)
{
    zr_run_candidate list[] = {made_up(4, 1, 2, 10.0), made_up(4, 1, 2, 10.1),
                               made_up(4, 1, 2, 10.2), made_up(4, 1, 4, 10.3),
                               made_up(4, 1, 8, 1.0)};
    list[4].state = ZR_CANDIDATE_TOO_LARGE;
    expect(ZR_ORDER_MODEL, list, 5, (int[]){0, 1, 3, -1});
}

static void test_what_saves_memory_has_to_gain(void **state)
{
    zr_run_candidate list[] = {made_up(4, 1, 2, 10.0), made_up(4, 1, 2, 9.9)};
    list[1].delayed = true;
    expect(ZR_ORDER_MODEL, list, 2, (int[]){0, -1});
    list[1].step.seconds = 9e-3;
    expect(ZR_ORDER_MODEL, list, 2, (int[]){1, 0, -1});
}

static void test_other_ranks_are_tried(void **state)
{
    zr_run_candidate list[] = {
        made_up(4, 1, 1, 10.0), made_up(4, 1, 2, 10.1), made_up(4, 1, 4, 10.2),
        made_up(4, 2, 1, 10.3), made_up(4, 2, 2, 10.4), made_up(2, 1, 2, 14.0),
        made_up(1, 1, 2, 16.0),
    };
    expect(ZR_ORDER_MODEL, list, 7, (int[]){0, 1, 2, 3, 5, -1});
    expect(ZR_ORDER_GRID, list, 7, (int[]){0, 1, 2, 3, 4, 5, 6, -1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_metric_decides),
        cmocka_unit_test(test_best_predicted_of_several_grids),
        cmocka_unit_test(test_few_of_a_micro_batch_and_only_what_fits),
        cmocka_unit_test(test_what_saves_memory_has_to_gain),
        cmocka_unit_test(test_other_ranks_are_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
