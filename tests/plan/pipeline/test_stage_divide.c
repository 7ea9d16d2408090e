// Divisions of units among chunks: compared with all divisions that there are, where these are few,
// and with what DeepSpeed's functions return.
#include "base/alloc.h"
#include "plan/pipeline/stage_divide.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_UNITS = 16, MOST_PARTS = 8 };

typedef struct problem {
    zr_unit_cost units[MOST_UNITS];
    int sets[MOST_PARTS];
    zr_division_of_units of;
} problem;

static uint32_t seed = 1;

static int draw(int below) // 0 .. below - 1
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)below);
}

static void make(problem *p, int count, int stages, int chunks)
{
    *p = (problem){.of = {.units = p->units,
                          .count = count,
                          .stages = stages,
                          .chunks = chunks,
                          .sets = p->sets}};
    for (int u = 0; u < count; u++)
        p->units[u] = (zr_unit_cost){
            .time = draw(20), .states = draw(20), .activations = draw(10), .workspace = draw(10)};
    for (int c = 0; c < stages * chunks; c++)
        p->sets[c] = 1 + draw(4);
}

static double largest_time(const zr_division_of_units *of, const int *first)
{
    double largest = 0;
    for (int s = 0; s < of->stages; s++)
        largest = fmax(largest, zr_divided_time(of, first, s));
    return largest;
}

static int64_t largest_bytes(const zr_division_of_units *of, const int *first)
{
    int64_t largest = 0;
    for (int s = 0; s < of->stages; s++)
        largest = ZR_MAX(largest, zr_divided_bytes(of, first, s));
    return largest;
}

static double squares(const zr_division_of_units *of, const int *first)
{
    double sum = 0;
    for (int s = 0; s < of->stages; s++)
        sum += pow(zr_divided_time(of, first, s), 2);
    return sum;
}

typedef struct found {    // over all divisions
    double least_time;    // of those within the limit; INFINITY: there is none
    double least_squares; // of those with that time
    int64_t least_bytes;
} found;

static void look(const zr_division_of_units *of, const int *first, found *f)
{
    int64_t bytes = largest_bytes(of, first);
    double time = largest_time(of, first), sum = squares(of, first);
    f->least_bytes = ZR_MIN(f->least_bytes, bytes);
    if (of->memory_limit && bytes > of->memory_limit)
        return;
    if (time < f->least_time || (time == f->least_time && sum < f->least_squares))
        f->least_squares = sum;
    f->least_time = fmin(f->least_time, time);
}

// Looks at all divisions whose first `part` beginnings are set.
static void try_all(const zr_division_of_units *of, int part, int *first, found *f)
{
    int parts = of->stages * of->chunks;
    if (part == parts) {
        look(of, first, f);
        return;
    }
    for (first[part] = first[part - 1] + 1; first[part] <= of->count - (parts - part);
         first[part]++)
        try_all(of, part + 1, first, f);
}

static found best_of_all(const zr_division_of_units *of)
{
    found f = {INFINITY, INFINITY, INT64_MAX};
    int first[MOST_PARTS + 1] = {0};
    first[of->stages * of->chunks] = of->count;
    try_all(of, 1, first, &f);
    return f;
}

static void check_division(const int *first, int units, int parts)
{
    assert_int_equal(first[0], 0);
    assert_int_equal(first[parts], units);
    for (int c = 0; c < parts; c++)
        assert_true(first[c] < first[c + 1]);
}

static bool divide(const zr_division_of_units *of, int *first)
{
    zero_error error;
    bool fits = false;
    assert_int_equal(zr_divide_best(of, first, &fits, &error), ZERO_OK);
    check_division(first, of->count, of->stages * of->chunks);
    return fits;
}

static void with_one_chunk_nothing_is_better(void **state)
{
    for (int i = 0; i < 400; i++) {
        problem p;
        int first[MOST_PARTS + 1], stages = 1 + draw(4);
        make(&p, stages + draw(8), stages, 1);
        p.of.memory_limit = draw(3) ? 40 + draw(160) : 0;
        const found best = best_of_all(&p.of);
        assert_int_equal(divide(&p.of, first), best.least_time < INFINITY);
        if (best.least_time == INFINITY) {
            assert_int_equal(largest_bytes(&p.of, first), best.least_bytes);
            continue;
        }
        assert_true(largest_time(&p.of, first) == best.least_time);
        assert_true(squares(&p.of, first) == best.least_squares);
        assert_true(!p.of.memory_limit || largest_bytes(&p.of, first) <= p.of.memory_limit);
    }
}

static int64_t excess(const zr_division_of_units *of, const int *first)
{
    int64_t sum = 0;
    for (int s = 0; s < of->stages && of->memory_limit; s++)
        sum += ZR_MAX(zr_divided_bytes(of, first, s) - of->memory_limit, 0);
    return sum;
}

static bool is_better(const zr_division_of_units *of, const int *a, const int *b)
{
    if (excess(of, a) != excess(of, b))
        return excess(of, a) < excess(of, b);
    double of_a = largest_time(of, a), of_b = largest_time(of, b);
    return of_a != of_b ? of_a < of_b : squares(of, a) < squares(of, b);
}

// Checks that no unit can move to a neighbour, past the chunks of others or not, for the better.
static void no_move_is_better(const zr_division_of_units *of, const int *first)
{
    int parts = of->stages * of->chunks, moved[MOST_PARTS + 1];
    for (int begin = 1; begin < parts; begin++)
        for (int end = begin; end < ZR_MIN(begin + of->stages, parts); end++)
            for (int by = -1; by <= 1; by += 2) {
                memcpy(moved, first, sizeof moved);
                for (int c = begin; c <= end; c++)
                    moved[c] += by;
                if (moved[begin - 1] < moved[begin] && moved[end] < moved[end + 1])
                    assert_false(is_better(of, moved, first));
            }
}

// With several chunks a division is within the limit if it says so, no single move makes it better,
// it is seldom worse than the best there is, and never by much.
static void several_chunks_are_near_the_best(void **state)
{
    int best_found = 0, tried = 0, overlooked = 0;
    double worst = 1;
    for (int i = 0; i < 300; i++) {
        problem p;
        int first[MOST_PARTS + 1], stages = 2 + draw(2), chunks = 2;
        make(&p, stages * chunks + draw(7), stages, chunks);
        p.of.memory_limit = draw(3) ? 60 + draw(200) : 0;
        const found best = best_of_all(&p.of);
        bool fits = divide(&p.of, first);
        no_move_is_better(&p.of, first);
        assert_true(!fits || best.least_time < INFINITY);
        overlooked += !fits && best.least_time < INFINITY;
        if (!fits)
            continue;
        assert_true(!p.of.memory_limit || largest_bytes(&p.of, first) <= p.of.memory_limit);
        assert_true(largest_time(&p.of, first) <= 1.2 * best.least_time);
        worst = fmax(worst, largest_time(&p.of, first) / best.least_time);
        best_found += largest_time(&p.of, first) == best.least_time;
        tried++;
    }
    print_message("%d of %d are the best, the worst takes %.2f times as long, %d overlooked\n",
                  best_found, tried, worst, overlooked);
    assert_true(best_found >= tried * 5 / 6);
    assert_true(overlooked == 0);
}

// A table, 12 blocks and a head as large as 5 blocks: chunks alone would leave the stage of the
// head with more.
static void chunks_of_a_stage_add_up(void **state)
{
    problem p = {.sets = {1, 1, 1, 1},
                 .of = {.units = p.units, .count = 14, .stages = 2, .chunks = 2, .sets = p.sets}};
    int first[5];
    for (int u = 1; u < 13; u++)
        p.units[u].time = 1;
    p.units[13].time = 5;
    assert_true(divide(&p.of, first));
    assert_true(largest_time(&p.of, first) == 9);
}

// The first stage keeps three versions of the parameters, so it has one unit.
static void versions_count_where_they_are_kept(void **state)
{
    const int versions[] = {3, 1};
    problem p = {.sets = {1, 1},
                 .units = {{.time = 1, .states = 10, .version = 8},
                           {.time = 1, .states = 10, .version = 8},
                           {.time = 1, .states = 10, .version = 8}},
                 .of = {.units = p.units, .count = 3, .stages = 2, .chunks = 1, .sets = p.sets}};
    int first[3] = {0, 2, 3};
    assert_int_equal(zr_divided_bytes(&p.of, first, 0), 20);
    p.of.versions = versions;
    assert_int_equal(zr_divided_bytes(&p.of, first, 0), 52);
    p.of.memory_limit = 40;
    assert_true(divide(&p.of, first));
    assert_int_equal(first[1], 1);
    assert_int_equal(zr_divided_bytes(&p.of, first, 0), 26);
    p.of.memory_limit = 25;
    assert_false(divide(&p.of, first));
}

static void what_does_not_fit_is_told(void **state)
{
    problem p = {.sets = {2, 1},
                 .units = {{.time = 1, .states = 10, .activations = 5},
                           {.time = 1, .states = 10, .activations = 5, .workspace = 3},
                           {.time = 1, .states = 10, .activations = 5, .workspace = 4}},
                 .of = {.units = p.units, .count = 3, .stages = 2, .chunks = 1, .sets = p.sets}};
    int first[3];
    assert_true(divide(&p.of, first));
    p.of.memory_limit = 34;
    assert_true(divide(&p.of, first));
    assert_int_equal(first[1], 1);
    assert_int_equal(zr_divided_bytes(&p.of, first, 0), 20);
    assert_int_equal(zr_divided_bytes(&p.of, first, 1), 34);
    p.of.memory_limit = 33;
    assert_false(divide(&p.of, first));
    assert_int_equal(zr_divided_bytes(&p.of, first, 1), 34);
}

static void equal_numbers_are_deepspeeds(void **state)
{
    static const int expected[] = {0, 4, 8, 11, 14};
    int first[5];
    zr_divide_evenly(14, 4, first);
    assert_memory_equal(first, expected, sizeof expected);
    for (int parts = 1; parts <= MOST_PARTS; parts++)
        for (int units = parts; units < 20; units++) {
            int all[MOST_PARTS + 1];
            zr_divide_evenly(units, parts, all);
            check_division(all, units, parts);
        }
}

typedef struct balanced { // partition_balanced of DeepSpeed 0.19.8 returns this
    int units, parts;
    double weights[MOST_UNITS];
    int first[MOST_PARTS + 1];
} balanced;

static const balanced deepspeeds[] = {
    {14, 2, {39, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0}, {0, 4, 14}},
    {14, 4, {39, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0}, {0, 1, 5, 9, 14}},
    {14, 2, {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}, {0, 7, 14}},
    {14, 4, {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}, {0, 4, 7, 10, 14}},
    {14, 5, {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}, {0, 4, 7, 9, 11, 14}},
    {6, 3, {0, 1, 0, 0, 1, 0}, {0, 4, 5, 6}},
    {6, 6, {1, 1, 1, 1, 1, 1}, {0, 1, 2, 3, 4, 5, 6}},
    {3, 1, {3, 1, 2}, {0, 3}},
    {6, 6, {8, 2, 5, 9, 7, 9}, {0, 1, 2, 3, 4, 5, 6}},
    {4, 4, {0, 7, 4, 8}, {0, 1, 2, 3, 4}},
    {6, 3, {7, 8, 8, 7, 6, 2}, {0, 2, 4, 6}},
    {6, 3, {8, 6, 0, 1, 2, 9}, {0, 1, 5, 6}},
    {3, 3, {0, 4, 7}, {0, 1, 2, 3}},
    {12, 7, {6, 6, 6, 9, 7, 2, 5, 1, 0, 2, 7, 3}, {0, 1, 2, 3, 4, 6, 10, 12}},
    {7, 7, {6, 4, 6, 8, 6, 9, 5}, {0, 1, 2, 3, 4, 5, 6, 7}},
    {11, 6, {6, 9, 3, 5, 0, 4, 9, 2, 5, 8, 9}, {0, 1, 3, 6, 8, 10, 11}},
    {12, 2, {3, 9, 4, 4, 1, 1, 7, 7, 1, 5, 1, 6}, {0, 6, 12}},
    {5, 2, {4, 6, 6, 1, 0}, {0, 2, 5}},
    {12, 6, {0, 6, 9, 5, 8, 4, 8, 3, 0, 4, 0, 1}, {0, 2, 3, 4, 6, 9, 12}},
    {4, 4, {8, 0, 3, 6}, {0, 1, 2, 3, 4}},
};

static void balanced_sums_are_deepspeeds(void **state)
{
    zero_error error;
    for (int i = 0; i < ZR_COUNT(deepspeeds); i++) {
        const balanced *b = &deepspeeds[i];
        problem p;
        int first[MOST_PARTS + 1];
        make(&p, b->units, b->parts, 1);
        for (int u = 0; u < b->units; u++)
            p.units[u].time = b->weights[u];
        assert_int_equal(zr_divide_balanced(&p.of, first, &error), ZERO_OK);
        check_division(first, b->units, b->parts);
        assert_memory_equal(first, b->first, (size_t)(b->parts + 1) * sizeof *first);
    }
}

static void no_memory_is_said(void **state)
{
    problem p;
    int first[MOST_PARTS + 1];
    bool fits;
    zero_error error;
    make(&p, 3, 2, 1);
    for (int nth = 1; nth <= 2; nth++) {
        zr_alloc_fail_at(nth);
        assert_int_equal(zr_divide_best(&p.of, first, &fits, &error), ZERO_ERR_MEMORY);
    }
    zr_alloc_fail_at(1);
    assert_int_equal(zr_divide_balanced(&p.of, first, &error), ZERO_ERR_MEMORY);
    zr_alloc_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_one_chunk_nothing_is_better),
        cmocka_unit_test(several_chunks_are_near_the_best),
        cmocka_unit_test(chunks_of_a_stage_add_up),
        cmocka_unit_test(versions_count_where_they_are_kept),
        cmocka_unit_test(what_does_not_fit_is_told),
        cmocka_unit_test(equal_numbers_are_deepspeeds),
        cmocka_unit_test(balanced_sums_are_deepspeeds),
        cmocka_unit_test(no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
