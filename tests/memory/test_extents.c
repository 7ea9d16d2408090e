// Extents: every cut and every block is a bound, nothing crosses a stripe, and ranges are found.
#include "io_harness.h"

#include "base/alloc.h"

#define PAGE ((int64_t)ZR_IO_ALIGN)

static zr_scratch pretended(int count, int64_t bytes, int64_t stripe)
{
    return (zr_scratch){.count = count, .bytes = bytes, .stripe = stripe};
}

static void assert_bounds(const zr_io_extents *extents, const int64_t *pages, int count)
{
    assert_int_equal(extents->count, count - 1);
    for (int i = 0; i < count; i++)
        assert_int_equal(extents->bounds[i], pages[i] * PAGE);
}

static void bounds_are_blocks_and_cuts(void **state)
{
    zr_scratch scratch = pretended(2, 64 * PAGE, 8 * PAGE);
    zr_io_extents extents;
    const int64_t cuts[] = {0, PAGE, PAGE, 4 * PAGE, 11 * PAGE, 13 * PAGE, 99 * PAGE};
    assert_int_equal(zr_io_extents_create(&scratch, 5 * PAGE, 13 * PAGE, cuts, ZR_COUNT(cuts),
                                          4 * PAGE, &extents, NULL),
                     ZERO_OK);
    // blocks begin at 8, 12 and 16 of the scratch
    assert_bounds(&extents, (int64_t[]){0, 1, 3, 4, 7, 11, 13}, 7);
    assert_ptr_equal(extents.scratch, &scratch);
    assert_int_equal(extents.place, 5 * PAGE);
    for (int i = 0; i < extents.count; i++)
        assert_int_equal(extents.written[i] | extents.checksums[i], 0);
    zr_io_extents_destroy(&extents);
    zr_io_extents_destroy(&extents);
    assert_int_equal(
        zr_io_extents_create(&scratch, 8 * PAGE, 17 * PAGE, NULL, 0, 8 * PAGE, &extents, NULL),
        ZERO_OK);
    assert_bounds(&extents, (int64_t[]){0, 8, 16, 17}, 4);
    zr_io_extents_destroy(&extents);
    assert_int_equal(
        zr_io_extents_create(&scratch, 64 * PAGE, 0, NULL, 0, 8 * PAGE, &extents, NULL), ZERO_OK);
    assert_bounds(&extents, (int64_t[]){0}, 1);
    zr_io_extents_destroy(&extents);
}

static void no_extent_crosses_a_stripe(void **state)
{
    uint64_t random = 4711;
    for (int round = 0; round < 200; round++) {
        int64_t block = PAGE << draw(&random) % 5,
                stripe = block * (int64_t)(1 + draw(&random) % 4);
        int64_t place = (int64_t)(draw(&random) % 100) * PAGE,
                bytes = (int64_t)(draw(&random) % 200) * PAGE, cuts[8] = {0}, offset;
        zr_scratch scratch = pretended(1 + (int)(draw(&random) % 3), 300 * PAGE, stripe);
        zr_io_extents extents;
        for (int i = 1; i < ZR_COUNT(cuts); i++)
            cuts[i] = cuts[i - 1] + (int64_t)(draw(&random) % 40) * PAGE;
        assert_int_equal(zr_io_extents_create(&scratch, place, bytes, cuts, ZR_COUNT(cuts), block,
                                              &extents, NULL),
                         ZERO_OK);
        assert_int_equal(extents.bounds[0], 0);
        assert_int_equal(extents.bounds[extents.count], bytes);
        for (int i = 0; i < extents.count; i++) {
            int64_t first = place + extents.bounds[i], last = place + extents.bounds[i + 1] - 1;
            assert_true(first <= last && last - first < block);
            assert_int_equal(first / block, last / block);
            int file = zr_scratch_find(&scratch, first, &offset);
            int64_t end;
            assert_int_equal(zr_scratch_find(&scratch, last, &end), file);
            assert_int_equal(end - offset, last - first);
        }
        for (int i = 0, begin, count; i < ZR_COUNT(cuts); i++)
            if (cuts[i] <= bytes)
                assert_int_equal(
                    zr_io_extents_find(&extents, cuts[i], bytes - cuts[i], &begin, &count, NULL),
                    ZERO_OK);
        zr_io_extents_destroy(&extents);
    }
}

static void ranges_are_found(void **state)
{
    zr_scratch scratch = pretended(1, 64 * PAGE, 8 * PAGE);
    zr_io_extents extents;
    zero_error error = {0};
    const int64_t cuts[] = {3 * PAGE, 10 * PAGE};
    int begin = -1, count = -1;
    // 0 3 8 10 16 20
    assert_int_equal(
        zr_io_extents_create(&scratch, 0, 20 * PAGE, cuts, 2, 8 * PAGE, &extents, NULL), ZERO_OK);
    assert_int_equal(zr_io_extents_find(&extents, 3 * PAGE, 13 * PAGE, &begin, &count, NULL),
                     ZERO_OK);
    assert_int_equal(begin, 1);
    assert_int_equal(count, 3);
    assert_int_equal(zr_io_extents_find(&extents, 0, 20 * PAGE, &begin, &count, NULL), ZERO_OK);
    assert_int_equal(begin, 0);
    assert_int_equal(count, 5);
    assert_int_equal(zr_io_extents_find(&extents, 20 * PAGE, 0, &begin, &count, NULL), ZERO_OK);
    assert_int_equal(begin, 5);
    assert_int_equal(count, 0);
    const int64_t wrong[][2] = {{PAGE, 2 * PAGE}, {0, 4 * PAGE}, {8 * PAGE, -5 * PAGE},
                                {0, 21 * PAGE},   {-PAGE, PAGE}, {1, 0}};
    for (int i = 0; i < ZR_COUNT(wrong); i++)
        assert_int_equal(
            zr_io_extents_find(&extents, wrong[i][0], wrong[i][1], &begin, &count, &error),
            ZERO_ERR_INTERNAL);
    assert_contains(error.message, "no whole extents");
    zr_io_extents_destroy(&extents);
}

static void wrong_cuts_are_refused(void **state)
{
    zr_scratch scratch = pretended(1, 64 * PAGE, 8 * PAGE);
    zr_io_extents extents;
    const int64_t falling[] = {2 * PAGE, PAGE}, crooked[] = {100};
    assert_int_equal(zr_io_extents_create(&scratch, 0, 8 * PAGE, falling, 2, PAGE, &extents, NULL),
                     ZERO_ERR_INTERNAL);
    assert_int_equal(zr_io_extents_create(&scratch, 0, 8 * PAGE, crooked, 1, PAGE, &extents, NULL),
                     ZERO_ERR_INTERNAL);
    assert_int_equal(zr_io_extents_create(&scratch, 0, 8 * PAGE, NULL, 0, 3 * PAGE, &extents, NULL),
                     ZERO_ERR_INTERNAL);
    assert_int_equal(
        zr_io_extents_create(&scratch, 60 * PAGE, 5 * PAGE, NULL, 0, PAGE, &extents, NULL),
        ZERO_ERR_INTERNAL);
    assert_int_equal(zr_io_extents_create(&scratch, 0, 100, NULL, 0, PAGE, &extents, NULL),
                     ZERO_ERR_INTERNAL);
    assert_null(extents.bounds);
    zr_io_extents_destroy(&extents);
    zr_alloc_fail_at(1);
    assert_int_equal(zr_io_extents_create(&scratch, 0, 8 * PAGE, NULL, 0, PAGE, &extents, NULL),
                     ZERO_ERR_MEMORY);
    zr_alloc_fail_at(0);
    zr_io_extents_destroy(&extents);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_blocks_and_cuts),
        cmocka_unit_test(no_extent_crosses_a_stripe),
        cmocka_unit_test(ranges_are_found),
        cmocka_unit_test(wrong_cuts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
