// Races among made-up candidates: who wins, who leaves, and what ends them.
#include "tune/race.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct made_up {
    double cost[ZR_RACE_LANES]; // of each lane; below 0: it fails
    double noise;               // added and taken away by turns
    int runs[ZR_RACE_LANES];
    int order[256], made; // lanes in the order in which they ran
    int time;             // trials for which there is time
    bool fails_later;     // every trial but the first of a lane
} made_up;

static zero_status run(void *user, int lane, double *cost, bool *failed, zero_error *error)
{
    made_up *m = user;
    double sign = m->runs[lane] % 2 ? 1 : -1;
    m->order[m->made++] = lane;
    m->runs[lane]++;
    *cost = m->cost[lane] * (1 + sign * m->noise);
    *failed = m->cost[lane] < 0 || (m->fails_later && m->runs[lane] > 1);
    return ZERO_OK;
}

static bool has_time(void *user)
{
    const made_up *m = user;
    return m->made < m->time;
}

static int race(made_up *m, int count, int most, int early, zr_race *out)
{
    int best = -2;
    *out = (zr_race){.count = count,
                     .most_trials = most,
                     .early_stopping = early,
                     .run = run,
                     .has_time = has_time,
                     .user = m};
    assert_int_equal(zr_race_run(out, &best, NULL), ZERO_OK);
    return best;
}

static void test_clear_winner_needs_one_round(void **state)
{
    zr_race r;
    made_up m = {.cost = {3, 2, 1}, .time = 100};
    assert_int_equal(race(&m, 3, 100, 0, &r), 2);
    assert_int_equal(m.made, 3);
    assert_true(r.lanes[0].parted && r.lanes[1].parted && !r.lanes[2].parted);
    assert_int_equal(zr_race_best(&r, 2), 1);
}

static void test_close_ones_run_in_turn(void **state)
{
    zr_race r;
    made_up m = {.cost = {1.00, 1.06, 2}, .noise = 0.005, .time = 100};
    assert_int_equal(race(&m, 3, 100, 0, &r), 0);
    assert_int_equal(m.runs[2], 1);
    assert_true(m.runs[0] > 1 && m.runs[0] == m.runs[1]);
    for (int i = 3; i < m.made; i++)
        assert_int_equal(m.order[i], (i - 3) % 2);
    assert_true(r.lanes[1].parted);
}

static void test_equal_ones_end_after_all_rounds(void **state)
{
    zr_race r;
    made_up m = {.cost = {1, 1}, .noise = 0.02, .time = 100};
    assert_true(race(&m, 2, 100, 0, &r) >= 0);
    assert_int_equal(m.made, 2 * ZR_RACE_ROUNDS);
}

static void test_failures_are_not_run_again(void **state)
{
    zr_race r;
    made_up m = {.cost = {-1, 1, 1.01, -1}, .time = 100};
    assert_int_equal(race(&m, 4, 100, 0, &r), 1);
    assert_int_equal(m.runs[0], 1);
    assert_int_equal(m.runs[3], 1);
    made_up all = {.cost = {-1, -1}, .time = 100};
    assert_int_equal(race(&all, 2, 100, 0, &r), -1);
}

static void test_earlier_trials_of_what_fails_later_count(void **state)
{
    zr_race r;
    made_up m = {.cost = {1.01, 1, 2}, .time = 100, .fails_later = true};
    assert_int_equal(race(&m, 3, 100, 0, &r), 1);
    assert_int_equal(m.made, 5);
    assert_true(r.lanes[0].trials == 1 && r.lanes[1].trials == 1);
}

static void test_limits_end_it(void **state)
{
    zr_race r;
    made_up few = {.cost = {1, 1, 1}, .time = 100}, late = {.cost = {2, 1, 1}, .time = 2};
    race(&few, 3, 4, 0, &r);
    assert_int_equal(few.made, 4);
    assert_int_equal(race(&late, 3, 100, 0, &r), 1);
    assert_int_equal(late.made, 2);
    made_up early = {.cost = {2, 3, 4, 5, 1}, .time = 100};
    assert_int_equal(race(&early, 5, 100, 2, &r), 0);
    assert_int_equal(early.made, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clear_winner_needs_one_round),
        cmocka_unit_test(test_close_ones_run_in_turn),
        cmocka_unit_test(test_equal_ones_end_after_all_rounds),
        cmocka_unit_test(test_failures_are_not_run_again),
        cmocka_unit_test(test_earlier_trials_of_what_fails_later_count),
        cmocka_unit_test(test_limits_end_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
