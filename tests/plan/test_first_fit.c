// First-fit places in a buffer: places that are needed at the same time do not overlap, each is as
// far in front as possible, and the bytes needed are the farthest end that ever occurred.
#include "plan/plan_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define MOST 24

static zr_first_fit begin(int capacity)
{
    zr_first_fit region;
    assert_int_equal(zr_first_fit_begin(&region, capacity, NULL), ZERO_OK);
    return region;
}

static void a_gap_is_filled_before_the_end(void **state)
{
    zr_first_fit region = begin(4);
    assert_int_equal(zr_first_fit_take(&region, 1, 10), 0);
    assert_int_equal(zr_first_fit_take(&region, 2, 20), 10);
    assert_int_equal(zr_first_fit_take(&region, 3, 5), 30);
    zr_first_fit_give_back(&region, 2);
    assert_int_equal(zr_first_fit_take(&region, 4, 12), 10);
    zr_first_fit_give_back(&region, 1);
    assert_int_equal(zr_first_fit_take(&region, 5, 10), 0); // a gap of just this size
    assert_int_equal(region.bytes, 35);
    zr_first_fit_end(&region);
}

static void what_fits_in_no_gap_goes_to_the_end(void **state)
{
    zr_first_fit region = begin(4);
    zr_first_fit_take(&region, 1, 10);
    zr_first_fit_take(&region, 2, 10);
    zr_first_fit_give_back(&region, 1);
    assert_int_equal(zr_first_fit_take(&region, 3, 11), 20);
    assert_int_equal(region.bytes, 31);
    zr_first_fit_end(&region);
}

static void bytes_are_the_most_that_were_ever_needed(void **state)
{
    zr_first_fit region = begin(2);
    for (int i = 0; i < 100; i++) { // the same place again and again
        assert_int_equal(zr_first_fit_take(&region, i, 64), 0);
        zr_first_fit_give_back(&region, i);
    }
    assert_int_equal(region.bytes, 64);
    assert_int_equal(region.count, 0);
    zr_first_fit_end(&region);
    assert_null(region.taken);
    zr_first_fit_end(&region); // a zeroed one may be freed
}

typedef struct held { // what the test knows is taken
    int64_t first[MOST], bytes[MOST];
    bool taken[MOST];
    int64_t most;
} held;

static bool is_free(const held *h, int64_t first, int64_t bytes)
{
    for (int i = 0; i < MOST; i++)
        if (h->taken[i] && h->first[i] < first + bytes && first < h->first[i] + h->bytes[i])
            return false;
    return true;
}

static void take(held *h, zr_first_fit *region, int owner, int64_t bytes)
{
    int64_t at = zr_first_fit_take(region, owner, bytes);
    assert_true(is_free(h, at, bytes));
    for (int64_t before = 0; before < at; before++)
        assert_false(is_free(h, before, bytes)); // it is the first that fits
    h->first[owner] = at;
    h->bytes[owner] = bytes;
    h->taken[owner] = true;
    h->most = ZR_MAX(h->most, at + bytes);
    assert_int_equal(region->bytes, h->most);
}

static void give_back(held *h, zr_first_fit *region, int owner)
{
    zr_first_fit_give_back(region, owner);
    h->taken[owner] = false;
}

// The same sequence in every run.
static uint32_t next_random(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

static void random_sequences_keep_the_promise(void **state)
{
    for (uint32_t seed = 1; seed <= 20; seed++) {
        zr_first_fit region = begin(MOST);
        held h = {0};
        uint32_t random = seed;
        for (int i = 0; i < 300; i++) {
            int owner = (int)(next_random(&random) % MOST);
            if (h.taken[owner])
                give_back(&h, &region, owner);
            else
                take(&h, &region, owner, 1 + next_random(&random) % 40);
        }
        zr_first_fit_end(&region);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_is_filled_before_the_end),
        cmocka_unit_test(what_fits_in_no_gap_goes_to_the_end),
        cmocka_unit_test(bytes_are_the_most_that_were_ever_needed),
        cmocka_unit_test(random_sequences_keep_the_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
