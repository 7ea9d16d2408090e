// zr_tree_sum, compared with plain recursion over single conversions, element by element and bit by
// bit, from every storage type into every other.
#include "compute/tree_sum.h"
#include "stored_values.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <zero/comm.h>

static const zero_dtype dtypes[] = {ZERO_F32, ZERO_BF16, ZERO_F16};

// Of a range that makes every other order round differently somewhere, and that f16 can hold.
static float *make_values(int ranks, int64_t count, zero_dtype dtype)
{
    float *values = malloc(sizeof *values * (size_t)(ranks * count + 1));
    zr_random_normal(77, 0, ranks * count, 1.0f, values);
    for (int64_t i = 0; i < ranks * count; i++)
        values[i] =
            rounded_to(dtype, values[i] * (float)(1 << (i % (dtype == ZERO_F16 ? 11 : 23))));
    return values;
}

// To the bit, but for what is not a number.
static bool same(float a, float b)
{
    return a == b ? signbit(a) == signbit(b) : isnan(a) && isnan(b);
}

typedef struct sum_case {
    int ranks;
    int64_t count;
    zero_dtype from, to;
    int adds;  // earlier sums
    int alias; // the source in whose place the sum goes, or -1
} sum_case;

// values: (ranks, count), as c->from holds them.
static void check_values(const sum_case *c, const float *values)
{
    const void *sources[ZERO_MAX_RANKS];
    float column[ZERO_MAX_RANKS];
    size_t size = zero_dtype_bytes(c->from), shard = size * (size_t)c->count;
    char *operands = malloc(shard * (size_t)c->ranks + 1),
         *own = malloc(zero_dtype_bytes(c->to) * (size_t)(c->count * ZR_MAX(c->adds, 1)) + 1);
    float *want = malloc(sizeof *want * (size_t)(c->count + 1));
    for (int r = 0; r < c->ranks; r++)
        sources[r] = operands + shard * (size_t)r;
    for (int64_t i = 0; i < c->ranks * c->count; i++)
        store_as(c->from, operands, i, values[i]);
    const zr_sum_target to = {.data = c->alias >= 0 ? operands + shard * (size_t)c->alias : own,
                              .dtype = c->to,
                              .adds = c->adds,
                              .stride = c->count};
    for (int64_t i = 0; i < c->count; i++) {
        for (int e = 0; e < ZR_MAX(c->adds, 1); e++)
            store_as(c->to, own, e * c->count + i,
                     (float)((e + 1) * (i % 1021)) / (float)(1 + 2 * e));
        for (int r = 0; r < c->ranks; r++)
            column[r] = values[r * c->count + i];
        float sum = oracle_sum(column, c->ranks);
        for (int e = c->adds - 1; e >= 0; e--)
            sum = load_as(c->to, to.data, e * c->count + i) + sum;
        want[i] = rounded_to(c->to, sum);
    }
    zr_tree_sum(&to, c->from, sources, c->ranks, c->count, 2);
    for (int64_t i = 0; i < c->count; i++)
        if (!same(load_as(c->to, to.data, i), want[i]))
            fail_msg("%d ranks, %s into %s%s, element %lld of %lld: %.9g, not %.9g", c->ranks,
                     zr_dtype_name(c->from), zr_dtype_name(c->to), c->adds ? " adding" : "",
                     (long long)i, (long long)c->count, load_as(c->to, to.data, i), want[i]);
    free(want);
    free(own);
    free(operands);
}

static void check(const sum_case *c)
{
    float *values = make_values(c->ranks, c->count, c->from);
    check_values(c, values);
    free(values);
}

static void check_types(int ranks, int64_t count, int adds)
{
    for (int from = 0; from < ZR_COUNT(dtypes); from++)
        for (int to = 0; to < ZR_COUNT(dtypes); to++)
            check(&(sum_case){ranks, count, dtypes[from], dtypes[to], adds, -1});
}

static void every_rank_count_up_to_nine(void **state)
{
    for (int ranks = 1; ranks <= 9; ranks++)
        for (int adds = 0; adds < 4; adds++) {
            check_types(ranks, 2500, adds);
            check_types(ranks, 1, adds);
            check_types(ranks, 0, adds);
        }
}

static void odd_large_and_largest_rank_counts(void **state)
{
    static const int counts[] = {15, 16, 17, 31, 33, 100, 127, 1023, 1024};
    for (int i = 0; i < ZR_COUNT(counts); i++)
        check_types(counts[i], 75, i & 3);
}

static void counts_large_enough_for_threads(void **state)
{
    static const sum_case cases[] = {
        {3, 200001, ZERO_F32, ZERO_F32, 0, -1},
        {6, 150000, ZERO_F32, ZERO_F32, 1, -1},
        {2, 150001, ZERO_F32, ZERO_F32, 3, -1},
        {3, 200001, ZERO_BF16, ZERO_F32, 1, -1},
        {4, 150001, ZERO_F16, ZERO_F16, 2, -1},
        // of those, streamed where apart
        {2, 1100001, ZERO_F32, ZERO_F32, 0, -1},
        {2, 1100001, ZERO_F32, ZERO_F32, 0, 1},
        {2, 2100001, ZERO_BF16, ZERO_BF16, 0, -1},
        {1, 2100001, ZERO_F32, ZERO_F16, 0, -1},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++)
        check(&cases[i]);
}

static void result_in_place_of_a_source(void **state)
{
    for (int ranks = 1; ranks <= 8; ranks++)
        for (int d = 0; d < ZR_COUNT(dtypes); d++)
            for (int adds = 0; adds < 2; adds++)
                check(&(sum_case){ranks, 4500, dtypes[d], dtypes[d], adds, ranks / 2});
}

// What is not finite, too small, or becomes so: sums that only fp32 holds, and that f16 rounds to
// infinity or to a denormal.
static void extreme_values(void **state)
{
    static const float extremes[] = {INFINITY,       -INFINITY, NAN,      0.0f,      -0.0f,
                                     65504.0f,       32768.0f,  16.0f,    -65504.0f, 3.3895314e38f,
                                     -3.3895314e38f, 0x1p-14f,  0x1p-24f, -0x1p-24f, 0x3p-26f,
                                     0x1p-133f,      1.0f,      0x1p-8f};
    enum { RANKS = 7, COUNT = 1500 };
    static float values[RANKS * COUNT];
    for (int from = 0; from < ZR_COUNT(dtypes); from++)
        for (int to = 0; to < ZR_COUNT(dtypes); to++)
            for (int ranks = 1; ranks <= RANKS; ranks++) {
                for (int i = 0; i < ranks * COUNT; i++) {
                    zr_philox random = zr_philox4x32(3, (uint64_t)ranks, (uint64_t)i);
                    values[i] =
                        rounded_to(dtypes[from], extremes[random.v[0] % ZR_COUNT(extremes)]);
                }
                check_values(&(sum_case){ranks, COUNT, dtypes[from], dtypes[to], ranks & 1, -1},
                             values);
            }
}

static void check_leaves(bool portable, zero_dtype dtype, int64_t first, int64_t count)
{
    enum { ROOM = 48 };
    uint32_t data[4][ROOM];
    const void *sources[4];
    float *values = make_values(4, ROOM, dtype), sum[ROOM + 1];
    for (int r = 0; r < 4; r++) {
        sources[r] = data[r];
        for (int i = 0; i < ROOM; i++)
            store_as(dtype, data[r], i, values[r * ROOM + i]);
    }
    for (zr_tree_leaf leaf = ZR_LEAF_ADD; leaf <= ZR_LEAF_FOUR; leaf++) {
        for (int i = 0; i <= ROOM; i++)
            sum[i] = (float)i;
        (portable ? zr_tree_leaf_sum_portable : zr_tree_leaf_sum)(leaf, dtype, sum, sources, first,
                                                                  count);
        for (int64_t i = 0; i < count; i++) {
            const float *v = values + first + i, two = v[0] + v[ROOM];
            assert_true(sum[i] == (leaf == ZR_LEAF_ADD    ? (float)i + v[0]
                                   : leaf == ZR_LEAF_PAIR ? two
                                                          : two + (v[2 * ROOM] + v[3 * ROOM])));
        }
        for (int64_t i = count; i <= ROOM; i++)
            assert_true(sum[i] == (float)i); // nothing around it
    }
    free(values);
}

static void leaves_of_every_instruction_set_at_any_count(void **state)
{
    for (int d = 0; d < ZR_COUNT(dtypes); d++)
        for (int64_t count = 0; count <= 40; count++)
            for (int64_t first = 0; first < 8; first += 3) {
                check_leaves(true, dtypes[d], first, count);
                check_leaves(false, dtypes[d], first, count);
            }
}

static void another_order_gives_other_bits(void **state)
{
    float *values = make_values(5, 1000, ZERO_F32);
    int different = 0;
    for (int i = 0; i < 1000; i++) {
        float column[5], running = 0;
        for (int r = 0; r < 5; r++)
            running = r ? running + values[r * 1000 + i] : values[i],
            column[r] = values[r * 1000 + i];
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
        cmocka_unit_test(extreme_values),
        cmocka_unit_test(leaves_of_every_instruction_set_at_any_count),
        cmocka_unit_test(another_order_gives_other_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
