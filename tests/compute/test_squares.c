// Sums of squares by chunks of a vector: cpu compared with ref bit by bit, both with sums in long
// double; a chunk's sum depends on its own elements alone. And exact sums of parts, in any order.
#include "compute/compute.h"
#include "compute_check.h"

// Elements of a vector, among them less than a vector register, a part alone, neighbours of every
// kind (longer, shorter, cut at either end), and enough for every thread.
static const zr_squares ranges[] = {
    {ZERO_F32, 0, 1},       {ZERO_F32, 2047, 1},  {ZERO_F32, 5, 2},       {ZERO_F32, 2047, 2},
    {ZERO_F32, 1997, 2048}, {ZERO_F32, 0, 2048},  {ZERO_F32, 2000, 2149}, {ZERO_F32, 2048, 5000},
    {ZERO_F32, 3, 33001},   {ZERO_F32, 61, 4096}, {ZERO_F32, 7777, 90007}};

enum { MOST_PARTS = 60, CHUNK = 2048 };

// The number of the chunk in which element i of the range lies, among those of the range.
static int64_t chunk_of(const zr_squares *s, int64_t i)
{
    return (s->first + i) / CHUNK - s->first / CHUNK;
}

static void check_sums(const zr_squares *s, const float *values, const double *sums, int64_t parts)
{
    long double want[MOST_PARTS] = {0};
    assert_int_equal(parts, chunk_of(s, s->count - 1) + 1);
    for (int64_t i = 0; i < s->count; i++)
        want[chunk_of(s, i)] += (long double)values[i] * values[i];
    for (int64_t k = 0; k < parts; k++)
        assert_true(fabsl(want[k] - sums[k]) <= 1e-14L * want[k]);
}

// The sums of a part do not depend on those next to it: without the first part, and without the
// last one, they are the same.
static void check_neighbours(zr_queue *queue, const zr_squares *s, void *g, const double *sums,
                             int64_t parts)
{
    double got[MOST_PARTS];
    zr_squares later = *s, fewer = *s;
    int64_t end = CHUNK - s->first % CHUNK; // of the first part
    later.first += end;
    later.count -= end;
    fewer.count = (s->first / CHUNK + parts - 1) * CHUNK - s->first;
    if (parts < 2)
        return;
    zr_run(queue, zr_op_square_sums(&later, array_at(s->dtype, g, end), got));
    check_same_bits("sums of squares", got, sums + 1, (int64_t)sizeof(*got) * (parts - 1));
    zr_run(queue, zr_op_square_sums(&fewer, g, got));
    check_same_bits("sums of squares", got, sums, (int64_t)sizeof(*got) * (parts - 1));
}

// What is not finite stays in its part.
static void check_not_finite(zr_queue *queue, const zr_squares *s, float *values, int64_t parts)
{
    double sums[MOST_PARTS];
    values[0] = NAN;
    values[s->count - 1] = INFINITY;
    void *g = array_of(s->dtype, values, s->count);
    zr_run(queue, zr_op_square_sums(s, g, sums));
    for (int64_t k = 0; k < parts && parts > 1; k++) {
        assert_int_equal(isnan(sums[k]), k == 0);
        assert_int_equal(isinf(sums[k]), k == parts - 1);
    }
    array_free(g);
}

static void squares_of(zr_queue *queue, zr_queue *ref, zr_squares s)
{
    void *g = array_random(s.dtype, s.count, 1, s.dtype == ZERO_F16 ? 6e4f : 1e15f);
    float *values = array_floats(s.dtype, g, s.count);
    double want[MOST_PARTS], *got = array_new(ZERO_F64, zr_squares_parts(&s));
    int64_t parts = zr_squares_parts(&s);
    assert_true(parts <= MOST_PARTS);
    zr_run(queue, zr_op_square_sums(&s, g, got));
    zr_run(ref, zr_op_square_sums(&s, g, want));
    check_same_bits("sums of squares", got, want, (int64_t)sizeof(*got) * parts);
    check_sums(&s, values, got, parts);
    check_neighbours(queue, &s, g, got, parts);
    check_not_finite(queue, &s, values, parts);
    array_free(got);
    floats_free(values);
    array_free(g);
}

static void squares_body_of(zero_dtype dtype, zr_queue *queue, zr_queue *ref)
{
    for (int i = 0; i < ZR_COUNT(ranges); i++) {
        zr_squares s = ranges[i];
        s.dtype = dtype;
        squares_of(queue, ref, s);
    }
    for (int64_t first = 1; first < CHUNK; first += 31) // both parts of every length
        squares_of(queue, ref, (zr_squares){dtype, first, CHUNK});
}

static void squares_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        squares_body_of(storage_types[t], queue, ref);
}

enum { EXACT_CHUNKS = 530, EXACT_ELEMS = EXACT_CHUNKS * CHUNK - 77 }; // more than one batch

// Adds the squares of a part to a sum one chunk at a time.
static void add_part(zr_queue *ref, const zr_square_part *part, const float *g, int64_t first,
                     zr_exact *sum)
{
    for (int64_t at = part->first, end = at + part->count, stop; at < end; at = stop) {
        double squares;
        stop = ZR_MIN(end, (at / CHUNK + 1) * CHUNK);
        const zr_squares chunk = {ZERO_F32, at, stop - at};
        zr_run(ref, zr_op_square_sums(&chunk, g + at - first, &squares));
        zr_exact_add(sum, squares);
    }
}

// Parts that begin and end inside of chunks go to their own sums, in any order of parts; what the
// sums hold already remains.
static void exact_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    const int64_t first = 3 * CHUNK + 5;
    zr_square_part parts[] = {{first + 9, 700, 1},
                              {first + 900, EXACT_ELEMS - 1000, 0},
                              {first + EXACT_ELEMS - 90, 90, 1}};
    const zr_square_parts shape = {.first = first, .count = EXACT_ELEMS, .parts = 3, .sums = 2};
    float *g = array_random(ZERO_F32, EXACT_ELEMS, 1, 1e10f);
    zr_exact want[2] = {0}, got[2] = {0};
    for (int i = 0; i < 3; i++)
        add_part(ref, &parts[i], g, first, &want[parts[i].sum]);
    zr_run(queue, zr_op_square_sums_exact(&shape, parts, g, got));
    const zr_square_part swapped = parts[0];
    for (int k = 0; k < 2; k++)
        assert_true(zr_exact_value(&got[k]) == zr_exact_value(&want[k]));
    parts[0] = parts[2];
    parts[2] = swapped;
    zr_run(queue, zr_op_square_sums_exact(&shape, parts, g, got)); // twice as much
    for (int k = 0; k < 2; k++)
        assert_true(zr_exact_value(&got[k]) == 2 * zr_exact_value(&want[k]));
    array_free(g);
}

static void exact_sums_agree(void **state) { check_each_kernels(exact_body); }

static void square_sums_agree(void **state) { check_each_kernels(squares_body); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(square_sums_agree),
                                       cmocka_unit_test(exact_sums_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
