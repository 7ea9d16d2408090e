// Adafactor's operations: cpu compared with ref; sums by rows and columns are the same bits
// however a matrix is cut, and directions do not depend on their place.
#include "compute/compute.h"
#include "compute_check.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SIDE = 5000, MOST_CHUNKS = 40 };

// Matrices and vectors (of one row), whole or from an element on, some of them of several parts.
static const zr_factored shapes[] = {
    {.width = 1, .stride = 1, .parts = 1, .count = 1},
    {.width = 7, .stride = 7, .parts = 1, .first = 3, .count = 40},
    {.width = 64, .stride = 64, .parts = 1, .count = 64 * 50, .place = 1999},
    {.width = 1500, .stride = 1500, .parts = 1, .first = 1100, .count = 40001, .place = 2047},
    {.width = 2100, .stride = 2100, .parts = 1, .first = 70, .count = 1900, .place = 64},
    {.width = 3, .stride = 3, .parts = 1, .count = 3 * 4096},
    {.width = 33, .stride = 100, .parts = 3, .first = 50, .count = 9000, .place = 7},
};

static const zr_factored_values values = {.gradient_scale = 0.75f,
                                          .most = 2,
                                          .keep = 0.99f,
                                          .step = 0.01f,
                                          .coarse = 0x1p-40,
                                          .fine = 0x1p-80};

typedef struct sums {
    int64_t rows[2 * MOST_SIDE], columns[2 * MOST_SIDE];
} sums;

static sums *sums_new(void)
{
    sums *s = calloc(1, sizeof *s);
    assert_non_null(s);
    return s;
}

static zr_factored with_types(const zr_factored *shape, zero_dtype gradient, zero_dtype copy)
{
    zr_factored s = *shape;
    s.gradient = gradient;
    s.parameters = copy;
    return s;
}

// Returns the elements from number `from` on, as a stretch, and the row in which it begins.
static zr_factored rest_of(const zr_factored *s, int64_t from, int64_t *row)
{
    zr_factored rest = *s;
    int64_t wide = s->width * s->parts;
    *row = (s->first + from) / wide;
    rest.first = (s->first + from) % wide;
    rest.count -= from;
    rest.place += from;
    return rest;
}

static void add_sums(zr_queue *queue, const zr_factored *s, void *g, bool vector, sums *to)
{
    zr_run(queue, zr_op_factor_sums(s, &values, g, vector ? NULL : to->rows, to->columns));
}

static void add_sums_in_two(zr_queue *queue, const zr_factored *s, void *g, bool vector, sums *to)
{
    int64_t half = s->count / 3, row;
    zr_factored head = *s, tail = rest_of(s, half, &row);
    head.count = half;
    zr_run(queue, zr_op_factor_sums(&tail, &values, array_at(s->gradient, g, half),
                                    vector ? NULL : to->rows + 2 * row, to->columns));
    if (half)
        add_sums(queue, &head, g, vector, to);
}

// In units of the last place of double, the sum of a row is that of its squares.
static void check_row(const zr_factored *s, const float *g, const sums *got)
{
    long double want = 0;
    int64_t wide = s->width * s->parts;
    for (int64_t i = 0; i < s->count && (s->first + i) / wide == 0; i++) {
        float scaled = g[i] * values.gradient_scale;
        want += (long double)scaled * scaled;
    }
    long double is = (long double)got->rows[0] * values.coarse + got->rows[1] * values.fine;
    assert_true(fabsl(is - want) <= 1e-15L * want + values.fine * (double)s->count);
}

static void sums_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int i = 0; i < ZR_COUNT(shapes); i++)
        for (int t = 0; t < STORAGE_TYPES * 2; t++) {
            const zr_factored s = with_types(&shapes[i], storage_types[t / 2], ZERO_BF16);
            bool vector = t % 2;
            // Squares in 4096 rows are small beside the coarse unit.
            void *g = array_random(s.gradient, s.count, 1, s.width == 3 ? 1e-7f : 3);
            float *wide = array_floats(s.gradient, g, s.count);
            sums *want = sums_new(), *got = sums_new(), *cut = sums_new();
            add_sums(ref, &s, g, vector, want);
            add_sums(queue, &s, g, vector, got);
            add_sums_in_two(queue, &s, g, vector, cut);
            check_same_bits("sums", got, want, sizeof *got);
            check_same_bits("sums of two stretches", cut, want, sizeof *got);
            if (!vector)
                check_row(&s, wide, got);
            free(want), free(got), free(cut);
            floats_free(wide);
            array_free(g);
        }
}

typedef struct roots {
    float *rows, *columns;
} roots;

static void squares_agree(zr_queue *queue, zr_queue *ref, const zr_factored *s, void *g, roots by)
{
    double want[MOST_CHUNKS], got[MOST_CHUNKS], rest[MOST_CHUNKS];
    int64_t parts = zr_factored_sums(s), row,
            first = ZR_SQUARES_CHUNK - s->place % ZR_SQUARES_CHUNK;
    assert_true(parts <= MOST_CHUNKS);
    zr_run(ref, zr_op_factored_squares(s, &values, g, by.rows, by.columns, want));
    zr_run(queue, zr_op_factored_squares(s, &values, g, by.rows, by.columns, got));
    for (int64_t k = 0; k < parts; k++)
        assert_true(fabs(got[k] - want[k]) <= 1e-6 * want[k]);
    if (parts < 2)
        return;
    const zr_factored later = rest_of(s, first, &row);
    zr_run(queue, zr_op_factored_squares(&later, &values, array_at(s->gradient, g, first),
                                         by.rows ? by.rows + row : NULL, by.columns, rest));
    check_same_bits("squares without the first chunk", rest, got + 1,
                    (int64_t)sizeof *got * (parts - 1));
}

static void updates_agree(zr_queue *queue, zr_queue *ref, const zr_factored *s, void *g, roots by)
{
    float *p = floats_random(s->count, 2, 1), *want = floats_copy(p, s->count),
          *cut = floats_copy(p, s->count);
    void *copy = array_new(s->parameters, s->count), *other = array_new(s->parameters, s->count);
    int64_t half = s->count / 2, row;
    zr_factored head = *s, tail = rest_of(s, half, &row);
    head.count = half;
    zr_run(ref, zr_op_factored_update(s, &values, want, g, by.rows, by.columns, other));
    zr_run(queue, zr_op_factored_update(s, &values, p, g, by.rows, by.columns, copy));
    check_close("updated", p, want, s->count, 1e-6, 1e-7);
    check_stored("copy", s->parameters, copy, p, s->count);
    if (half)
        zr_run(queue, zr_op_factored_update(&head, &values, cut, g, by.rows, by.columns, NULL));
    zr_run(queue, zr_op_factored_update(&tail, &values, cut + half, array_at(s->gradient, g, half),
                                        by.rows ? by.rows + row : NULL, by.columns, NULL));
    check_same_bits("update of two stretches", cut, p, (int64_t)sizeof *p * s->count);
    floats_free(p), floats_free(want), floats_free(cut);
    array_free(copy), array_free(other);
}

// Some roots are beyond what fp32 has, and some products above `most`.
static void directions_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int i = 0; i < ZR_COUNT(shapes); i++)
        for (int t = 0; t < STORAGE_TYPES * 2; t++) {
            const zr_factored s =
                with_types(&shapes[i], storage_types[t / 2], t % 2 ? ZERO_BF16 : ZERO_F16);
            void *g = array_random(s.gradient, s.count, 1, 3);
            int64_t rows = zr_factored_rows(&s), columns = zr_factored_columns(&s);
            roots by = {floats_random(rows, 3, 1), floats_random(columns, 4, 3)};
            for (int64_t r = 0; r < rows; r++)
                by.rows[r] = r % 5 == 4 ? INFINITY : fabsf(by.rows[r]) + 0.1f;
            for (int64_t c = 0; c < columns; c++)
                by.columns[c] = fabsf(by.columns[c]) + 0.1f;
            const roots of_vector = {NULL, by.columns};
            squares_agree(queue, ref, &s, g, t % 2 ? of_vector : by);
            updates_agree(queue, ref, &s, g, t % 2 ? of_vector : by);
            floats_free(by.rows), floats_free(by.columns);
            array_free(g);
        }
}

static void sums_agree(void **state) { check_each_kernels(sums_body); }

static void directions_agree(void **state) { check_each_kernels(directions_body); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_agree),
                                       cmocka_unit_test(directions_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
