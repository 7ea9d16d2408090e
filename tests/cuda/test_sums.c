// Sums on a card whose bits are those of every path: squares by chunks of a vector, exact sums of
// parts, and sums over ranks.
#include "cuda_check.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK = ZR_SQUARES_CHUNK };
static const cuda_tolerance exact = {0, 0};
static const int64_t counts[] = {1, 7, 33, 2049, 100000};

// ---- squares ----

static const zr_squares ranges[] = {
    {ZERO_F32, 0, 1},       {ZERO_F32, 2047, 1},  {ZERO_F32, 5, 2},       {ZERO_F32, 2047, 2},
    {ZERO_F32, 1997, 2048}, {ZERO_F32, 0, 2048},  {ZERO_F32, 2000, 2149}, {ZERO_F32, 2048, 5000},
    {ZERO_F32, 3, 33001},   {ZERO_F32, 61, 4096}, {ZERO_F32, 0, 0},       {ZERO_F32, 7777, 90007}};

static void *squares_new(zero_dtype dtype, int64_t n)
{
    return array_random(dtype, n, 1, dtype == ZERO_F16 ? 6e4f : 1e15f);
}

static void squares_have_refs_bits(void **state)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int i = 0; i < ZR_COUNT(ranges); i++) {
            zr_squares s = ranges[i];
            s.dtype = storage_types[t];
            void *g = squares_new(s.dtype, s.count);
            double *sums = array_new(ZERO_F64, zr_squares_parts(&s));
            cuda_check("square_sums", zr_op_square_sums(&s, g, sums), exact);
            array_free(sums);
            array_free(g);
        }
}

static void squares_of_what_is_not_finite(void **state)
{
    enum { N = 3 * CHUNK + 100 };
    const zr_squares s = {ZERO_F32, 11, N};
    double sums[5];
    float *g = floats_random(N, 1, 1e15f);
    g[0] = NAN;
    g[N - 1] = -INFINITY;
    cuda_check("square_sums", zr_op_square_sums(&s, g, sums), exact);
    floats_free(g);
}

// ---- exact sums ----

// Parts of a vector: most go to accumulator 1, and every fifth to another. Returns their elements.
static int64_t cut(zr_square_part *parts, int count, int64_t first, int64_t n)
{
    int64_t each = n / count, all = 0;
    for (int p = 0; p < count; p++) {
        const int64_t skip = p % 3;
        parts[p] = (zr_square_part){first + p * each + skip, ZR_MAX(each - 2 * skip, 0),
                                    p % 5 == 4 ? p % 3 : 1};
        all += parts[p].count;
    }
    return all;
}

static zr_square_parts shape_of(zero_dtype dtype, int64_t n, int parts)
{
    return (zr_square_parts){
        .dtype = dtype, .first = 3 * CHUNK + 5, .count = n, .parts = parts, .sums = 3};
}

// What the accumulators hold already remains, word by word.
static void exact_sums_have_refs_words(void **state)
{
    static const int part_counts[] = {1, 3, 127, 129, ZR_MOST_SQUARE_PARTS};
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int c = 0; c < ZR_COUNT(counts); c++)
            for (int p = 0; p < ZR_COUNT(part_counts); p++) {
                zr_square_part parts[ZR_MOST_SQUARE_PARTS];
                zr_exact sums[3] = {0};
                zr_square_parts s = shape_of(storage_types[t], counts[c], part_counts[p]);
                void *g = squares_new(s.dtype, s.count);
                s.elements = cut(parts, (int)s.parts, s.first, s.count);
                zr_exact_add(&sums[1], 1e300);
                zr_exact_add(&sums[2], 1e-300);
                sums[0].nonfinite = 4;
                cuda_check("square_sums_exact", zr_op_square_sums_exact(&s, parts, g, sums), exact);
                array_free(g);
            }
}

// From the least number whose square counts, over zeros, up to those that are not finite, in one
// accumulator that is the blocks' own and in others.
static void exact_sums_of_any_number(void **state)
{
    enum { N = 40 * CHUNK };
    zr_square_part parts[40];
    zr_exact sums[3] = {0};
    zr_square_parts s = shape_of(ZERO_F32, N, ZR_COUNT(parts));
    float *g = floats_random(N, 1, 1);
    s.elements = cut(parts, ZR_COUNT(parts), s.first, s.count);
    for (int64_t i = 0; i < N; i++)
        g[i] = ldexpf(g[i], (int)(i / CHUNK % 37) * 7 - 149);
    for (int64_t i = 5 * CHUNK; i < 7 * CHUNK; i++)
        g[i] = 0;
    g[9 * CHUNK + 3] = NAN;
    g[14 * CHUNK - 50] = INFINITY;
    g[14 * CHUNK + 50] = -INFINITY;
    cuda_check("square_sums_exact", zr_op_square_sums_exact(&s, parts, g, sums), exact);
    floats_free(g);
}

// ---- over ranks ----

typedef struct sum_case {
    int ranks;
    int64_t count;
    zero_dtype from, to;
    int adds;
    int alias;    // the source in whose place the sum goes, or -1
    int64_t skew; // elements by which the sources begin after each other's places
} sum_case;

// Of a range that makes other orders round differently somewhere, and that fp16 holds.
static void fill(zero_dtype dtype, void *array, int64_t n, int seed)
{
    float *values = floats_random(n, (uint64_t)seed, 1);
    for (int64_t i = 0; i < n; i++)
        values[i] *= (float)(1 << ((i * 7 + seed) % 11));
    void *stored = array_of(dtype, values, n);
    memcpy(array, stored, (size_t)n * zero_dtype_bytes(dtype));
    array_free(stored);
    floats_free(values);
}

static void check_sum(const sum_case *c)
{
    const void *sources[64];
    const int64_t stride = c->count + c->skew, all = c->ranks * stride,
                  earlier = ZR_MAX(c->adds, 1) * stride;
    void *contributions = array_new(c->from, all), *own = array_new(c->to, earlier);
    char what[100];
    fill(c->from, contributions, all, 3);
    fill(c->to, own, earlier, 5);
    for (int r = 0; r < c->ranks; r++)
        sources[r] = array_at(c->from, contributions, r * stride);
    const zr_tree s = {.dtype = c->from,
                       .ranks = c->ranks,
                       .count = c->count,
                       .to = {.dtype = c->to, .adds = c->adds, .stride = stride}};
    snprintf(what, sizeof what, "tree_sum of %d ranks, %lld elements, types %d and %d, %d adds",
             c->ranks, (long long)c->count, c->from, c->to, c->adds);
    cuda_check(what, zr_op_tree_sum(&s, sources, c->alias < 0 ? own : (void *)sources[c->alias]),
               exact);
    array_free(own);
    array_free(contributions);
}

static void sums_over_ranks_have_refs_bits(void **state)
{
    static const int rank_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33};
    for (int r = 0; r < ZR_COUNT(rank_counts); r++)
        for (int k = 0; k < 4 * STORAGE_TYPES * STORAGE_TYPES; k++) {
            const int64_t count = k % 4 == 3 ? 2049 : counts[k % 4];
            check_sum(&(sum_case){rank_counts[r], count, storage_types[k / 4 % 3],
                                  storage_types[k / 12], (k + r) % 4, -1, 0});
        }
    check_sum(&(sum_case){6, 100000, ZERO_BF16, ZERO_F32, 1, -1, 0});
}

// The sum takes the place of a contribution; sources and earlier sums begin anywhere.
static void sums_go_anywhere(void **state)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int k = 0; k < 6; k++) {
            const zero_dtype type = storage_types[t];
            check_sum(&(sum_case){5, 1000, type, type, k % 2, k - 1, 0});
            check_sum(&(sum_case){5, 1000, type, type, k, -1, k});
            check_sum(&(sum_case){5, 1001, type, type, k, -1, 0});
        }
}

// What no kernel sums is refused, and nothing is written.
static void other_sums_are_refused(void **state)
{
    static const void *sources[300];
    float out[ZR_BLOCK];
    const zr_tree shapes[] = {
        {.source_bits = 8, .ranks = 2, .count = ZR_BLOCK},
        {.ranks = 2, .count = ZR_BLOCK, .to.bits = 4},
        {.ranks = 257, .count = ZR_BLOCK},
    };
    for (int i = 0; i < ZR_COUNT(shapes); i++) {
        zr_queue *queue = NULL;
        zero_error error = {0};
        assert_int_equal(zr_queue_open("cuda", NULL, 1, &queue, &error), ZERO_OK);
        zr_op op = zr_op_tree_sum(&shapes[i], sources, out);
        assert_int_equal(check_run(queue, op, &error), ZERO_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, "tree_sum of "));
        zr_queue_close(queue);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(squares_have_refs_bits),
        cmocka_unit_test(squares_of_what_is_not_finite),
        cmocka_unit_test(exact_sums_have_refs_words),
        cmocka_unit_test(exact_sums_of_any_number),
        cmocka_unit_test(sums_over_ranks_have_refs_bits),
        cmocka_unit_test(sums_go_anywhere),
        cmocka_unit_test(other_sums_are_refused),
    };
    return cmocka_run_group_tests(tests, cuda_check_setup, cuda_check_teardown);
}
