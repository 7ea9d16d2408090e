// The exact accumulator, compared with 128-bit integer arithmetic, with cases of CPython's
// math.fsum, and with itself in shuffled orders.
#include "scratch_directory.h"

#include "base/numbers.h"
#include "base/random.h"
#include <float.h>
#include <math.h>

static double sum_of(const double *values, int count)
{
    zr_exact sum;
    zr_exact_zero(&sum);
    for (int i = 0; i < count; i++)
        zr_exact_add(&sum, values[i]);
    return zr_exact_value(&sum);
}

typedef struct golden {
    double addends[8]; // the rest is 0
    double sum;
} golden;

static void sums_are_correctly_rounded(void **state)
{
    static const golden cases[] = {
        {{0}, 0.0},
        {{0.1, 0.2, 0.3}, 0.6},
        {{1e100, 1.0, -1e100, 1e-100, 1e50, -1.0, -1e50}, 1e-100},
        {{0x1p53, -0.5, -0x1p-54}, 0x1p53 - 1},
        {{0x1p53, 1.0}, 0x1p53},     // a tied weight, to even
        {{0x1p53, 3.0}, 0x1p53 + 4}, // a tied weight, to even, upwards
        {{-0x1p53, -3.0}, -0x1p53 - 4},
        {{0x1p53, 1.0, 0x1p-1074}, 0x1p53 + 2}, // no tied weight: the smallest number that there is
        {{0x1p53, 1.0, -0x1p-1074}, 0x1p53},
        {{0x1p53, 3.0, -0x1p-1074}, 0x1p53 + 2},
        {{0x1p53 + 10, 1.0, 0x1p-100}, 0x1p53 + 12},
        {{0x1p53 - 4, 0.5, 0x1p-54}, 0x1p53 - 3},
        {{1e16, 1.0, 1e-16}, 10000000000000002.0},
        {{DBL_MAX, 0x1p-1074, -DBL_MAX}, 0x1p-1074},
        {{DBL_MAX, DBL_MAX, -DBL_MAX}, DBL_MAX},
        {{-DBL_MAX, -DBL_MAX, -DBL_MAX, DBL_MAX, DBL_MAX}, -DBL_MAX},
        {{DBL_MAX, 0x1p969}, DBL_MAX},
        {{DBL_MAX, 0x1p970}, INFINITY}, // half a unit in the last place: even is beyond
        {{-DBL_MAX, -DBL_MAX}, -INFINITY},
        {{0x1p-1074, 0x1p-1074, 0x1p-1074}, 0x1.8p-1073},
        {{0x1p-1022, -0x1p-1074}, 0x0.fffffffffffffp-1022},
        {{0x0.fffffffffffffp-1022, 0x1p-1074}, 0x1p-1022},
        {{-0x1p-1022, 0x1p-1073}, -0x0.ffffffffffffep-1022},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        double got = sum_of(cases[i].addends, 8);
        if (got != cases[i].sum)
            fail_msg("case %d: %a instead of %a", i, got, cases[i].sum);
    }
}

// k x 2^e with |k| < 2^53, 0 <= e < 40: sums of 1,000 fit into 128 bits.
static void draw(uint64_t key, uint64_t i, int64_t *k, int *e)
{
    zr_philox random = zr_philox4x32(key, 0, i);
    int64_t magnitude = (int64_t)((uint64_t)random.v[0] << 21 ^ random.v[1] >> 11);
    *k = random.v[2] & 1 ? magnitude : -magnitude;
    *e = (int)(random.v[3] % 40);
}

static void random_sums_equal_integer_arithmetic(void **state)
{
    static const int exponents[] = {-1074, -1060, -600, -33, -32, -1, 0, 500, 900};
    for (int seed = 0; seed < 300; seed++) {
        int base = exponents[seed % ZR_COUNT(exponents)], count = 1 + seed * 3;
        __int128 reference = 0;
        double values[1000];
        for (int i = 0; i < count; i++) {
            int64_t k;
            int e;
            draw((uint64_t)seed, (uint64_t)i, &k, &e);
            reference += (__int128)k * ((int64_t)1 << e);
            values[i] = ldexp((double)k, e + base);
        }
        assert_true(sum_of(values, count) == ldexp((double)reference, base));
    }
}

static void fill_wide(uint64_t key, double *values, int count)
{
    for (int i = 0; i < count; i++) {
        zr_philox random = zr_philox4x32(key, 1, (uint64_t)i);
        uint64_t bits = (uint64_t)random.v[0] << 32 | random.v[1];
        memcpy(&values[i], &bits, sizeof bits);
        if (!isfinite(values[i]))
            values[i] = 1.0;
        values[i] *= 0.25; // so that no sum of these is beyond the largest double
    }
}

// As an all-reduce does it.
static void add_words(zr_exact *sum, const zr_exact *other)
{
    const int64_t *from = (const int64_t *)other;
    int64_t *to = (int64_t *)sum;
    for (int i = 0; i < ZR_EXACT_WORDS; i++)
        to[i] += from[i];
}

// One million additions of every sign and size, in another order and in parts: the same bits.
static void order_and_grouping_do_not_matter(void **state)
{
    enum { N = 2000, PARTS = 7 };
    double values[N];
    for (uint64_t key = 0; key < 50; key++) {
        fill_wide(key, values, N);
        double expected = sum_of(values, N);
        zr_exact part[PARTS] = {0}, total;
        for (uint64_t i = 0; i < N; i++) {
            uint64_t shuffled = zr_permute(key, i, N);
            zr_exact_add(&part[i % PARTS], values[shuffled]);
        }
        zr_exact_zero(&total);
        for (int i = 0; i < PARTS; i++)
            add_words(&total, &part[PARTS - 1 - i]);
        double got = zr_exact_value(&total);
        assert_memory_equal(&got, &expected, sizeof got);
        for (int i = 0; i < N; i++)
            zr_exact_add(&total, -values[i]);
        assert_true(zr_exact_value(&total) == 0.0);
    }
}

// With the most ranks that there may be, and limbs as full as zr_exact_add leaves them.
static double sum_of_ranks(int limbs, int64_t sign)
{
    zr_exact rank = {0}, total = {0};
    for (int i = 0; i < limbs; i++)
        rank.limb[i] = sign * ((int64_t)1 << 51);
    for (int r = 0; r < 1024; r++)
        add_words(&total, &rank);
    return zr_exact_value(&total);
}

static void words_may_be_added_by_a_communicator(void **state)
{
    for (int sign = -1; sign <= 1; sign += 2) {
        for (int limbs = 1; limbs <= 60; limbs++) {
            // Each limb is 2^-32 of the next one; what is after the second is below half a unit.
            double largest = ldexp(sign * 0x1p61, 32 * (limbs - 1) - ZR_EXACT_BIAS);
            assert_true(sum_of_ranks(limbs, sign) == largest * (limbs > 1 ? 1 + 0x1p-32 : 1));
        }
        // The last limb takes carries only.
        assert_true(sum_of_ranks(ZR_EXACT_LIMBS - 1, sign) == sign * INFINITY);
    }
}

static void many_equal_addends_do_not_overflow(void **state)
{
    zr_exact sum;
    zr_exact_zero(&sum);
    double all_ones = 0x1.fffffffffffffp+31 * (1 << 10);
    for (int i = 0; i < 3 << 20; i++) // passes the limb's soft limit several times
        zr_exact_add(&sum, all_ones);
    for (int i = 0; i < ZR_EXACT_LIMBS; i++)
        assert_true(llabs(sum.limb[i]) < (int64_t)1 << 52);
    __int128 reference = (__int128)0x1fffffffffffffll * (3 << 20);
    assert_true(zr_exact_value(&sum) == ldexp((double)reference, -52 + 41));
}

static void nonfinite_addends_are_counted(void **state)
{
    zr_exact a, b;
    zr_exact_zero(&a);
    zr_exact_zero(&b);
    zr_exact_add(&a, 1.0);
    assert_true(zr_exact_value(&a) == 1.0);
    zr_exact_add(&b, INFINITY);
    zr_exact_add(&b, -INFINITY);
    zr_exact_add(&b, NAN);
    assert_int_equal(b.nonfinite, 3);
    add_words(&a, &b);
    assert_int_equal(a.nonfinite, 3);
    assert_true(isnan(zr_exact_value(&a)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_correctly_rounded),
        cmocka_unit_test(random_sums_equal_integer_arithmetic),
        cmocka_unit_test(order_and_grouping_do_not_matter),
        cmocka_unit_test(words_may_be_added_by_a_communicator),
        cmocka_unit_test(many_equal_addends_do_not_overflow),
        cmocka_unit_test(nonfinite_addends_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
