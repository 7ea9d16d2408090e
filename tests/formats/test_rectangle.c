// Rectangles against their elements, listed one by one.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "formats/rectangle.h"

#include <string.h>

enum { WHOLE = 400, ROUNDS = 20000 };

static uint32_t seed = 1;
static int64_t draw(int64_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (int64_t)(seed >> 8) % below;
}

static zr_rectangle any_rectangle(void)
{
    zr_rectangle r = {.stride = 1 + draw(40)};
    r.width = 1 + draw(r.stride);
    r.rows = 1 + draw(6);
    r.first = draw(WHOLE - (r.rows - 1) * r.stride - r.width);
    return r;
}

// Numbers of the rectangle's elements, by elements of the whole; -1: it does not hold it.
static void number(const zr_rectangle *r, int numbers[static WHOLE])
{
    int n = 0;
    memset(numbers, -1, WHOLE * sizeof *numbers);
    for (int64_t row = 0; row < r->rows; row++)
        for (int64_t i = 0; i < r->width; i++)
            numbers[r->first + row * r->stride + i] = n++;
}

static void what_two_have_in_common(void **state)
{
    for (int round = 0; round < ROUNDS; round++) {
        zr_rectangle a = any_rectangle(), b = any_rectangle();
        if (draw(2)) // slices of one tensor
            b.stride = a.stride;
        b.width = ZR_MIN(b.width, b.stride);
        b.first = ZR_MIN(b.first, WHOLE - (b.rows - 1) * b.stride - b.width);
        int in_a[WHOLE], in_b[WHOLE], found = 0, wanted = 0;
        number(&a, in_a);
        number(&b, in_b);
        for (int i = 0; i < WHOLE; i++)
            wanted += in_a[i] >= 0 && in_b[i] >= 0;
        assert_int_equal(zr_rectangles_overlap(&a, &b), wanted > 0);
        for (zr_common c = {0}; zr_rectangles_next_common(&a, &b, &c); found += (int)c.count)
            for (int64_t i = 0; i < c.count; i++) {
                assert_int_equal(in_a[c.next - c.count + i], c.in_a + i);
                assert_int_equal(in_b[c.next - c.count + i], c.in_b + i);
            }
        assert_int_equal(found, wanted);
    }
}

static void parts_make_up_the_rectangle(void **state)
{
    for (int round = 0; round < ROUNDS; round++) {
        const zr_rectangle r = any_rectangle();
        int64_t most = 1 + draw(100), taken;
        int numbers[WHOLE];
        number(&r, numbers);
        for (int64_t done = 0; done < zr_rectangle_elements(&r); done += taken) {
            zr_rectangle part;
            taken = zr_rectangle_take(&r, done, most, &part);
            assert_int_equal(taken, zr_rectangle_elements(&part));
            assert_in_range(taken, 1, most);
            for (int64_t i = 0; i < taken; i++)
                assert_int_equal(
                    numbers[part.first + i / part.width * part.stride + i % part.width], done + i);
            bool whole_rows = part.rows > 1;
            assert_int_equal(part.rows, whole_rows ? part.rows : 1);
            if (!whole_rows)
                assert_int_equal(part.stride, part.width);
        }
    }
}

static void rows_without_gaps_are_one(void **state)
{
    const zr_rectangle r = {.first = 7, .width = 5, .stride = 5, .rows = 4};
    zr_rectangle part;
    assert_int_equal(zr_rectangle_take(&r, 3, 100, &part), 17);
    assert_int_equal(part.first, 10);
    assert_int_equal(part.rows, 1);
    assert_int_equal(zr_rectangle_end(&r), 27);
}

static void nothing_meets_nothing(void **state)
{
    const zr_rectangle none = zr_rectangle_of_stretch(5, 0), all = zr_rectangle_of_stretch(0, 10);
    assert_false(zr_rectangles_overlap(&none, &all));
    assert_false(zr_rectangles_overlap(&all, &none));
    assert_int_equal(zr_rectangle_end(&none), 5);
    const zr_rectangle bytes =
        zr_rectangle_scaled(&(zr_rectangle){.first = 3, .width = 2, .stride = 7, .rows = 9}, 4);
    assert_int_equal(bytes.first, 12);
    assert_int_equal(bytes.width, 8);
    assert_int_equal(bytes.stride, 28);
    assert_int_equal(bytes.rows, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_two_have_in_common),
        cmocka_unit_test(parts_make_up_the_rectangle),
        cmocka_unit_test(rows_without_gaps_are_one),
        cmocka_unit_test(nothing_meets_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
