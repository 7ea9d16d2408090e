// Philox, compared with Random123's published vectors; vectors that do not depend on how they are
// divided; permutations.
#include "scratch_directory.h"

#include "base/random.h"
#include <math.h>

static void assert_words(zr_philox got, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    assert_int_equal(got.v[0], a);
    assert_int_equal(got.v[1], b);
    assert_int_equal(got.v[2], c);
    assert_int_equal(got.v[3], d);
}

static void philox_gives_random123_s_vectors(void **state) // kat_vectors, "philox4x32 10"
{
    assert_words(zr_philox4x32(0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
    assert_words(zr_philox4x32(UINT64_MAX, UINT64_MAX, UINT64_MAX), 0x408f276d, 0x41c83b0e,
                 0xa20bc7c6, 0x6d5451fd);
    assert_words(zr_philox4x32(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
                 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

static void xxh64_gives_its_published_values(void **state)
{
    assert_true(zr_hash_bytes("", 0, 0) == 0xef46db3751d8e999ull);
    assert_true(zr_hash_text("abc") == 0x44bc2cf5ad770999ull);
    assert_true(zr_hash_bytes("abc", 3, 1) != zr_hash_text("abc"));
}

// Python, from the definition in random.c
static void values_are_those_of_an_independent_program(void **state)
{
    static const double normal[] = {0.8864975059014409,   0.43935606943792715,
                                    -0.15660962291201797, -0.013718678830210551,
                                    -0.494100512669746,   -0.372166861244103};
    static const double uniform[] = {-0.9798822999000549, -0.7475002408027649, -0.5358676314353943,
                                     0.423225462436676,   -0.7422006726264954, 0.9829747080802917};
    float got[6];
    zr_random_normal(42, 0, 6, 2.0f, got);
    for (int i = 0; i < 6; i++)
        assert_true(got[i] == (float)(2 * normal[i]));
    zr_random_uniform(42, 0, 6, 0.5f, got);
    for (int i = 0; i < 6; i++)
        assert_true(got[i] == (float)(0.5 * uniform[i]));
}

// where the counter's lower word is full, with a key that fills both words
static void normals_are_drawn_by_philox(void **state)
{
    enum { N = ZR_NORMAL_BLOCK };
    const uint64_t key = 0x9e3779b97f4a7c15u, pair = ((uint64_t)1 << 32) - 7;
    uint64_t radius[N], angle[N];
    double want[2 * N];
    float got[2 * N];
    for (int i = 0; i < N; i++) {
        zr_philox random = zr_philox4x32(key, 0, pair + (uint64_t)i);
        radius[i] = (uint64_t)random.v[0] << 32 | random.v[1];
        angle[i] = (uint64_t)random.v[2] << 32 | random.v[3];
    }
    zr_normal_block(radius, angle, want);
    zr_random_normal(key, 2 * (int64_t)pair, 2 * N, 1, got);
    for (int i = 0; i < 2 * N; i++)
        assert_true(got[i] == (float)want[i]);
}

typedef void (*filler)(uint64_t key, int64_t start, int64_t count, float scale, float *out);

static void assert_cuts_do_not_matter(filler fill)
{
    enum { N = 103 };
    float whole[N], piece[N + 1];
    fill(9, 0, N, 1.0f, whole);
    for (int start = 0; start < N; start++) {
        for (int count = 0; start + count <= N; count++) {
            piece[count] = 1234.0f;
            fill(9, start, count, 1.0f, piece);
            assert_memory_equal(piece, whole + start, (size_t)count * sizeof *piece);
            assert_true(piece[count] == 1234.0f);
        }
    }
    float far[8], again[8];
    fill(9, (int64_t)1 << 40, 8, 1.0f, far);
    fill(9, ((int64_t)1 << 40) + 3, 5, 1.0f, again);
    assert_memory_equal(far + 3, again, 5 * sizeof *far);
    assert_memory_not_equal(far, whole, sizeof far);
    fill(10, 0, N, 1.0f, piece);
    assert_memory_not_equal(piece, whole, sizeof whole);
}

static void any_range_gives_the_same_values(void **state)
{
    assert_cuts_do_not_matter(zr_random_normal);
    assert_cuts_do_not_matter(zr_random_uniform);
}

static void moments_are_right(void **state)
{
    enum { N = 200000 };
    float *x = malloc(N * sizeof *x);
    double mean = 0, square = 0, fourth = 0, neighbours = 0;
    zr_random_normal(3, 0, N, 0.02f, x);
    for (int i = 0; i < N; i++) {
        double z = x[i] / 0.02;
        mean += z / N;
        square += z * z / N;
        fourth += z * z * z * z / N;
        neighbours += i ? z * x[i - 1] / 0.02 / N : 0;
    }
    assert_true(fabs(mean) < 0.01 && fabs(square - 1) < 0.015 && fabs(fourth - 3) < 0.1 &&
                fabs(neighbours) < 0.01);
    mean = square = 0;
    zr_random_uniform(3, 0, N, 4.0f, x);
    for (int i = 0; i < N; i++) {
        assert_true(x[i] > -4.0f && x[i] < 4.0f);
        mean += x[i] / N;
        square += (double)x[i] * x[i] / N;
    }
    assert_true(fabs(mean) < 0.03 && fabs(square - 16.0 / 3) < 0.05);
    free(x);
}

// against the math library, extreme bits included
static void normals_are_box_and_muller_s(void **state)
{
    enum { N = ZR_NORMAL_BLOCK };
    uint64_t radius[N], angle[N];
    double got[2 * N];
    for (uint64_t block = 0; block < 2000; block++) {
        for (uint64_t i = 0; i < N; i++) {
            radius[i] = zr_hash_bytes(&i, sizeof i, 2 * block);
            angle[i] = block ? zr_hash_bytes(&i, sizeof i, 2 * block + 1) : i << 59;
        }
        radius[0] = 0;
        radius[1] = UINT64_MAX;
        angle[2] = UINT64_MAX;
        zr_normal_block(radius, angle, got);
        for (int i = 0; i < N; i++) {
            double u = ((double)(radius[i] >> 12) + 0.5) * 0x1p-52,
                   v = ((double)(angle[i] >> 12) + 0.5) * 0x1p-52;
            double length = sqrt(-2 * log(u));
            assert_true(fabs(got[2 * i] - length * cos(2 * M_PI * v)) < 4e-15 * length);
            assert_true(fabs(got[2 * i + 1] - length * sin(2 * M_PI * v)) < 4e-15 * length);
        }
    }
}

static void assert_permutation(uint64_t key, uint64_t n)
{
    unsigned char *seen = calloc(n, 1);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t to = zr_permute(key, i, n);
        assert_true(to < n);
        assert_int_equal(seen[to]++, 0);
    }
    free(seen);
}

static void every_position_is_taken_once(void **state)
{
    for (uint64_t n = 1; n <= 130; n++)
        assert_permutation(n, n);
    assert_permutation(1, 4096);
    assert_permutation(1, 65537);
}

static void large_permutations_stay_inside(void **state)
{
    static const uint64_t sizes[] = {(uint64_t)1 << 32, ((uint64_t)1 << 40) + 1, (uint64_t)1 << 63,
                                     UINT64_MAX};
    for (int s = 0; s < ZR_COUNT(sizes); s++) {
        uint64_t first = zr_permute(5, 0, sizes[s]);
        for (uint64_t i = 1; i < 1000; i++) {
            uint64_t to = zr_permute(5, sizes[s] - i, sizes[s]);
            assert_true(to < sizes[s] && to != first);
        }
    }
}

static void permutations_mix(void **state)
{
    enum { N = 1000 };
    int fixed = 0, same = 0, ascents = 0;
    for (uint64_t i = 0; i < N; i++) {
        fixed += zr_permute(1, i, N) == i;
        same += zr_permute(1, i, N) == zr_permute(2, i, N);
        ascents += i && zr_permute(1, i, N) > zr_permute(1, i - 1, N);
    }
    assert_true(fixed < 10 && same < 10 && ascents > 400 && ascents < 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_random123_s_vectors),
        cmocka_unit_test(xxh64_gives_its_published_values),
        cmocka_unit_test(values_are_those_of_an_independent_program),
        cmocka_unit_test(normals_are_drawn_by_philox),
        cmocka_unit_test(any_range_gives_the_same_values),
        cmocka_unit_test(moments_are_right),
        cmocka_unit_test(normals_are_box_and_muller_s),
        cmocka_unit_test(every_position_is_taken_once),
        cmocka_unit_test(large_permutations_stay_inside),
        cmocka_unit_test(permutations_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
