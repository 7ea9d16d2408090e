// The recorder: it appends records, counts those that it has no room for, and computes own times of
// collectives; and running without a recorder costs nothing.
#include "base/alloc.h"
#include "base/clock.h"
#include "base/recorder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static zr_recorder *recorder_new(int64_t capacity)
{
    zr_recorder *recorder;
    assert_int_equal(zr_recorder_create(capacity, &recorder, NULL), ZERO_OK);
    return recorder;
}

static void test_add(void **state)
{
    zr_recorder *r = recorder_new(4);
    assert_int_equal(r->unit, -1);
    r->unit = 3;
    int64_t before = zr_clock_nanoseconds(), begin = zr_recorder_begin(r);
    zr_recorder_add(r, ZR_ACTIVITY_product, begin, 100, 200, -1);
    int64_t after = zr_clock_nanoseconds();
    r->unit = -1;
    zr_recorder_add(r, ZR_ACTIVITY_reduce_scatter, begin, 7, 0, 5);
    assert_int_equal(r->count, 2);
    const zr_record *product = &r->records[0], *reduce = &r->records[1];
    assert_true(before <= product->begin && product->begin <= product->end &&
                product->end <= after && product->end <= reduce->end);
    assert_true(product->what == ZR_ACTIVITY_product && product->bytes == 100 &&
                product->flops == 200 && product->unit == 3 && product->slot == -1);
    assert_true(reduce->what == ZR_ACTIVITY_reduce_scatter && reduce->bytes == 7 &&
                reduce->unit == -1 && reduce->slot == 5 && reduce->begin == begin);
    zr_recorder_destroy(r);
}

static void test_full(void **state)
{
    zr_recorder *r = recorder_new(2);
    for (int i = 0; i < 5; i++)
        zr_recorder_add(r, ZR_ACTIVITY_gelu, i, i, 0, -1);
    assert_true(r->count == 2 && r->dropped == 3 && r->records[1].bytes == 1);
    zr_recorder_clear(r);
    assert_true(r->count == 0 && r->dropped == 0 && r->capacity == 2);
    zr_recorder_add(r, ZR_ACTIVITY_gelu, 0, 9, 0, -1);
    assert_true(r->count == 1 && r->records[0].bytes == 9);
    zr_recorder_destroy(r);
}

static void test_recording_allocates_nothing(void **state)
{
    zr_recorder *r = recorder_new(100);
    int64_t allocations = zr_alloc_count();
    for (int i = 0; i < 200; i++)
        zr_recorder_add(r, ZR_ACTIVITY_gelu, zr_recorder_begin(r), 0, 0, -1);
    assert_int_equal(zr_alloc_count(), allocations);
    zr_recorder_destroy(r);
}

static void test_none(void **state)
{
    zero_error error = {0};
    zr_recorder *r = (zr_recorder *)&error;
    assert_int_equal(zr_recorder_begin(NULL), 0);
    zr_recorder_add(NULL, ZR_ACTIVITY_gelu, 0, 0, 0, -1);
    zr_recorder_destroy(NULL);
    zr_alloc_fail_at(1);
    assert_int_equal(zr_recorder_create(8, &r, &error), ZERO_ERR_MEMORY);
    assert_null(r);
}

static void put(zr_recorder *r, zr_activity what, int64_t begin, int64_t end)
{
    r->records[r->count++] =
        (zr_record){.begin = begin, .end = end, .bytes = 10, .flops = 3, .what = what};
}

static void test_own_times(void **state)
{
    zr_recorder *r = recorder_new(16);
    zr_activity_sum sums[ZR_ACTIVITY_COUNT];
    put(r, ZR_ACTIVITY_wait, 0, 5); // before the collective: not inside of it
    put(r, ZR_ACTIVITY_wait, 12, 14);
    put(r, ZR_ACTIVITY_wait, 15, 18);
    put(r, ZR_ACTIVITY_reduce_scatter, 10, 30); // with two waits
    put(r, ZR_ACTIVITY_all_gather, 30, 34);
    put(r, ZR_ACTIVITY_product, 40, 50);
    put(r, ZR_ACTIVITY_backward, 0, 60); // a phase keeps what lies inside of it
    assert_int_equal(zr_recorder_own_time(r, 0, 3), 15);
    assert_int_equal(zr_recorder_own_time(r, 2, 3), 17); // of the records from the third on
    assert_int_equal(zr_recorder_own_time(r, 0, 1), 2);
    zr_recorder_sum(r, 0, sums);
    assert_true(sums[ZR_ACTIVITY_wait].calls == 3 && sums[ZR_ACTIVITY_wait].nanoseconds == 10);
    assert_true(sums[ZR_ACTIVITY_reduce_scatter].nanoseconds == 15 &&
                sums[ZR_ACTIVITY_all_gather].nanoseconds == 4);
    assert_true(sums[ZR_ACTIVITY_product].flops == 3 && sums[ZR_ACTIVITY_product].bytes == 10);
    assert_int_equal(sums[ZR_ACTIVITY_backward].nanoseconds, 60);
    assert_int_equal(sums[ZR_ACTIVITY_gelu].calls, 0);
    zr_recorder_sum(r, 4, sums);
    assert_true(sums[ZR_ACTIVITY_wait].calls == 0 && sums[ZR_ACTIVITY_all_gather].calls == 1);
    zr_recorder_destroy(r);
}

static void test_activities(void **state)
{
    int of_track[ZR_TRACK_COUNT] = {0};
    for (int a = 0; a < ZR_ACTIVITY_COUNT; a++) {
        assert_true(strlen(zr_activity_name(a)) > 0 && strlen(zr_activity_text(a)) > 0);
        of_track[zr_activity_track(a)]++;
    }
    assert_string_equal(zr_activity_name(ZR_ACTIVITY_square_sum), "square_sum");
    assert_string_equal(zr_activity_text(ZR_ACTIVITY_square_sum), "gradient norm");
    assert_true(of_track[ZR_TRACK_PHASE] == 4 &&
                zr_activity_track(ZR_ACTIVITY_wait) == ZR_TRACK_COMM);
    assert_true(of_track[ZR_TRACK_COMPUTE] > 0 && of_track[ZR_TRACK_COMM] > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_recording_allocates_nothing),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_own_times),
        cmocka_unit_test(test_activities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
