// What stages partition, and the paper's Tables 1 and 2.
#include "paper_states.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

// Table 1, GB a device; the 7.5B column is rounded, the other two are truncated.
static const struct {
    int ranks;
    double gb[3][3];
} table1[] = {
    {1, {{120, 120, 120}, {2048, 2048, 2048}, {16000, 16000, 16000}}},
    {4, {{52.5, 41.3, 30}, {896, 704, 512}, {7000, 5500, 4000}}},
    {16, {{35.6, 21.6, 7.5}, {608, 368, 128}, {4750, 2875, 1000}}},
    {64, {{31.4, 16.6, 1.88}, {536, 284, 32}, {4187, 2218, 250}}},
    {256, {{30.4, 15.4, 0.47}, {518, 263, 8}, {4046, 2054, 62.5}}},
    {1024, {{30.1, 15.1, 0.12}, {513, 257, 2}, {4011, 2013, 15.6}}},
};

static void test_table1(void **state)
{
    static const double sizes[] = {7.5e9, 128e9, 1e12};
    for (size_t row = 0; row < sizeof table1 / sizeof *table1; row++)
        for (int m = 0; m < 3; m++)
            for (int s = 0; s < 3; s++) {
                double gb = paper_states_total(&paper_mixed, sizes[m], s + 1, table1[row].ranks) /
                            1e9,
                       printed = table1[row].gb[m][s];
                double unit = printed >= 100 || printed == floor(printed) ? 1
                              : printed < 2                               ? 0.01
                                                                          : 0.1;
                assert_true(gb >= printed - unit && gb < printed + unit);
            }
}

// Table 2, theory, 32 GB devices: baseline, P_os, P_os+g, P_os+g+p in billions, for 64
// data-parallel ranks and MP = 1.
static void test_table2(void **state)
{
    static const double billions[] = {2, 7.6, 14.4, 128};
    for (int mp = 1; mp <= 16; mp *= 2)
        for (int stage = 0; stage < 4; stage++)
            assert_true(fabs(mp * 32 / paper_states_total(&paper_mixed, 1, stage, 64) -
                             mp * billions[stage]) < 0.05 * mp);
}

static void test_fp32(void **state)
{
    assert_true(paper_states_total(&paper_fp32, 1, 0, 4) == 16);
    assert_true(paper_states_total(&paper_fp32, 1, 1, 4) == 10);
    assert_true(paper_states_total(&paper_fp32, 1, 2, 4) == 7);
    assert_true(paper_states_total(&paper_fp32, 1, 3, 4) == 4);
}

// Each stage partitions what the one before it does, and one thing more.
static void test_one_more_each(void **state)
{
    for (int stage = 0; stage < ZR_STAGE_COUNT; stage++) {
        const zr_stage_traits *traits = zr_stage_traits_of(stage);
        const bool shards[] = {traits->shards_optimizer, traits->shards_gradients,
                               traits->shards_parameters};
        for (int i = 0; i < ZR_STAGE_COUNT - 1; i++)
            assert_int_equal(shards[i], i < stage);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table1), cmocka_unit_test(test_table2),
                                       cmocka_unit_test(test_fp32),
                                       cmocka_unit_test(test_one_more_each)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
