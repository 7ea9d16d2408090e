// zr_tree_sum against the plain recursion, element by element and bit by bit.
#include "exercise.h"

#include "base/random.h"

#include <stdlib.h>
#include <string.h>
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

static float *make_values(int ranks, int64_t count)
{
    float *values = malloc(sizeof *values * (size_t)(ranks * count + 1));
    zr_random_normal(77, 0, ranks * count, 1.0f, values);
    for (int64_t i = 0; i < ranks * count; i++)
        values[i] *= (float)(1 << (i % 23)); // so that every other order rounds differently somewhere
    return values;
}

static void check(int ranks, int64_t count, bool add, int alias)
{
    const float *sources[ZERO_MAX_RANKS];
    float column[ZERO_MAX_RANKS], *values = make_values(ranks, count), *old = malloc(sizeof *old * (size_t)(count + 1));
    for (int r = 0; r < ranks; r++)
        sources[r] = values + r * count;
    float *want = malloc(sizeof *want * (size_t)(count + 1)), *dst = alias >= 0 ? values + alias * count : old;
    for (int64_t i = 0; i < count; i++) {
        old[i] = (float)i;
        for (int r = 0; r < ranks; r++)
            column[r] = sources[r][i];
        want[i] = oracle_sum(column, ranks) + (add ? dst[i] : 0.0f);
    }
    zr_tree_sum(dst, sources, ranks, count, add, 2);
    for (int64_t i = 0; i < count; i++)
        if (dst[i] != want[i])
            fail_msg("%d ranks, element %lld of %lld: %.9g, not %.9g", ranks, (long long)i, (long long)count, dst[i], want[i]);
    free(want);
    free(old);
    free(values);
}

static void every_rank_count_up_to_nine(void **state)
{
    for (int ranks = 1; ranks <= 9; ranks++)
        for (int add = 0; add < 2; add++) {
            check(ranks, 5000, add, -1);
            check(ranks, 1, add, -1);
            check(ranks, 0, add, -1);
        }
}

static void odd_large_and_largest_rank_counts(void **state)
{
    static const int counts[] = {15, 16, 17, 31, 33, 100, 127, 1023, 1024};
    for (int i = 0; i < ZR_COUNT(counts); i++)
        check(counts[i], 300, i & 1, -1);
}

static void counts_large_enough_for_threads(void **state)
{
    check(3, 400001, false, -1);
    check(2, 1300001, false, -1); // streams its result
    check(2, 1300001, false, 1);
    check(6, 150000, true, -1);
}

static void result_in_place_of_a_source(void **state)
{
    for (int ranks = 2; ranks <= 8; ranks++)
        check(ranks, 4500, false, ranks / 2);
}

static void another_order_gives_other_bits(void **state)
{
    float *values = make_values(5, 1000);
    int different = 0;
    for (int i = 0; i < 1000; i++) {
        float column[5], running = 0;
        for (int r = 0; r < 5; r++)
            running = r ? running + values[r * 1000 + i] : values[i], column[r] = values[r * 1000 + i];
        different += running != oracle_sum(column, 5);
    }
    assert_true(different > 10); // else these values could not tell the tree from a chain
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_count_up_to_nine),
        cmocka_unit_test(odd_large_and_largest_rank_counts),
        cmocka_unit_test(counts_large_enough_for_threads),
        cmocka_unit_test(result_in_place_of_a_source),
        cmocka_unit_test(another_order_gives_other_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
