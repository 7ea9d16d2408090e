// Mixtures: shares are exact over any run, each source's samples come in order and once, and only
// the sample's number decides.
#include "data/dataset.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { MOST = 64 };

static void check(const double *weights, int count, int64_t from, int64_t samples)
{
    int64_t had[MOST] = {0}, next[MOST];
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += weights[i];
        next[i] = -1;
    }
    for (int64_t s = from; s < from + samples; s++) {
        int64_t of;
        int source = zr_mixture_source(weights, count, s, &of);
        assert_in_range(source, 0, count - 1);
        assert_true(next[source] < 0 || of == next[source]); // every sample of a source, in order
        assert_true(of >= 0 && of <= s);
        next[source] = of + 1;
        had[source]++;
        if (s % 97 && s + 1 < from + samples)
            continue;
        for (int i = 0; i < count; i++) {
            double share = weights[i] / sum, due = share * (double)(s + 1 - from);
            assert_true(fabs((double)had[i] - due) <= i + 2); // in any run, from any start
            assert_true(from > 0 || next[i] < 0 || next[i] == had[i]);
        }
    }
}

static void test_exact_shares(void **state)
{
    static const double cases[][4] = {
        {0.7, 0.3}, {1, 1}, {0.999, 0.001}, {1e-6, 1}, {3, 1}, {1.0 / 3, 2.0 / 3}, {1e9, 1e9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check(cases[i], 2, 0, 20000);
        check(cases[i], 2, 123456789, 5000);
        check(cases[i], 2, INT64_C(1) << 50, 5000);
    }
}

static void test_many_sources(void **state)
{
    double weights[MOST];
    for (int count = 1; count <= MOST; count++) {
        for (int i = 0; i < count; i++)
            weights[i] = 1 + (double)((i * 7919 + 13) % 101) / 7;
        check(weights, count, 0, 3000);
        check(weights, count, INT64_C(1) << 40, 1000);
    }
}

// What the header promises of source i after any number of samples: above its share - 1, below its
// share and the sum.
static double bound(const double *weights, int count, int i)
{
    double sum = 0;
    for (int k = 1; k <= i; k++) {
        double rest = 0;
        for (int j = k; j < count; j++)
            rest += weights[j];
        sum += weights[i] / rest;
    }
    return sum;
}

// Returns how far the worst source was from its share.
static double check_bound(const double *weights, int count, int samples)
{
    double sum = 0, most[MOST], worst = 0;
    int64_t had[MOST] = {0}, of;
    for (int i = 0; i < count; i++) {
        sum += weights[i];
        most[i] = bound(weights, count, i) + 1e-9;
    }
    for (int s = 0; s < samples; s++) {
        had[zr_mixture_source(weights, count, s, &of)]++;
        for (int i = 0; i < count; i++) {
            double off = (double)had[i] - weights[i] / sum * (s + 1);
            assert_true(off < most[i]);
            assert_true(off > (i + 1 == count ? -1e-9 : -1 - 1e-9));
            worst = fmax(worst, fabs(off));
        }
    }
    return worst;
}

static void test_bound(void **state)
{
    const double three[] = {0.55, 0.13, 0.32}, sorted[] = {0.55, 0.32, 0.13};
    double weights[MOST];
    uint32_t random = 1;
    for (int round = 0; round < 400; round++) {
        int count = 2 + round % 9;
        for (int i = 0; i < count; i++) {
            random = random * 1664525u + 1013904223u;
            weights[i] = round % 3 ? 1e-3 + (double)(random >> 8) / (1 << 24)
                                   : 1 + random % 7919 * (random >> 31);
        }
        double worst = check_bound(weights, count, 700);
        assert_true(count > 2 || worst < 1 + 1e-9);
    }
    double off = check_bound(three, 3, 1000);
    assert_true(off > 1.5 && off < 1.72); // more than one: the bound of three is not that of two
    assert_true(check_bound(sorted, 3, 1000) < 1.3);
}

// A share comes evenly: between two samples of a source lie about as many others as its share says.
static void test_evenly(void **state)
{
    const double weights[] = {0.2, 0.8};
    int64_t last = 0, of;
    for (int64_t s = 0; s < 10000; s++) {
        if (zr_mixture_source(weights, 2, s, &of))
            continue;
        assert_in_range(s - last, 4, 6);
        last = s;
    }
}

static void test_long_run(void **state)
{
    const double weights[] = {0.7, 0.2, 0.1};
    int64_t first[3] = {-1, -1, -1}, of;
    const int64_t far = INT64_C(1000000000000);
    for (int64_t s = far; first[0] < 0 || first[1] < 0 || first[2] < 0; s++) {
        int source = zr_mixture_source(weights, 3, s, &of);
        first[source] = first[source] < 0 ? of : first[source];
    }
    // a share of 52 bits: 10^12 samples on, none too many
    assert_in_range(first[0], 699999999998, 700000000002);
    assert_in_range(first[1], 199999999998, 200000000002);
    assert_in_range(first[2], 99999999998, 100000000002);
}

// Weights next to which others vanish: subtracted from the sum of all they would leave nothing to
// divide by.
static void test_weights_of_all_sizes(void **state)
{
    const double weights[] = {1e300, 1e-10, 1e-10}, last[] = {1e-10, 1e-10, 1e300};
    int64_t of;
    for (int64_t s = 0; s < 1000; s++) {
        assert_int_equal(zr_mixture_source(weights, 3, s, &of), 0);
        assert_int_equal(of, s);
        assert_int_equal(zr_mixture_source(last, 3, s, &of), 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_shares), cmocka_unit_test(test_many_sources),
        cmocka_unit_test(test_bound),        cmocka_unit_test(test_evenly),
        cmocka_unit_test(test_long_run),     cmocka_unit_test(test_weights_of_all_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
