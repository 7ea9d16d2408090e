// Into which accumulator the sum of a micro-batch goes (the drawing in plan/accumulators.h), and
// that each sum is added once for every K, along one tree over the micro-batches. What is known of
// the sums of a flat parameter, over types, kinds and tiers.
#include "plan/accumulators.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define MOST_ACCUMULATORS 16

static zr_settings exact(int64_t accumulation)
{
    return (zr_settings){.exact_world = true, .accumulation = accumulation};
}

static void one_accumulator_is_put_into_then_added_to(void **state)
{
    const zr_settings settings = {.accumulation = 6};
    assert_int_equal(zr_accumulators(&settings), 1);
    for (int k = 0; k < 6; k++) {
        zr_sum_slots place = zr_sum_slots_of(&settings, k);
        assert_int_equal(place.slot, 0);
        assert_int_equal(place.adds, k > 0);
    }
}

static void the_drawing_is_true(void **state)
{
    const zr_sum_slots drawn[] = {{0, 0}, {0, 1}, {1, 0}, {0, 2}, {1, 0}};
    const zr_settings settings = exact(8);
    for (int k = 0; k < ZR_COUNT(drawn); k++) {
        zr_sum_slots place = zr_sum_slots_of(&settings, k);
        assert_int_equal(place.slot, drawn[k].slot);
        assert_int_equal(place.adds, drawn[k].adds);
    }
}

typedef struct sum { // of micro-batches [first, first + count)
    int64_t first, count;
} sum;

// Two neighbours of one size that make up an aligned whole: one node of the tree.
static sum added(sum before, sum after)
{
    assert_int_equal(before.first + before.count, after.first);
    assert_int_equal(before.count, after.count);
    assert_int_equal(before.first % (2 * before.count), 0);
    return (sum){before.first, 2 * before.count};
}

static void check_tree(int64_t accumulation)
{
    const zr_settings settings = exact(accumulation);
    int accumulators = zr_accumulators(&settings), waiting = 0;
    sum held[MOST_ACCUMULATORS];
    assert_in_range(accumulators, 1, MOST_ACCUMULATORS);
    for (int64_t k = 0; k < accumulation; k++) {
        zr_sum_slots place = zr_sum_slots_of(&settings, k);
        sum now = {k, 1};
        assert_int_equal(place.slot + place.adds, waiting); // no sum that waits is overwritten
        for (int i = place.slot + place.adds - 1; i >= place.slot; i--)
            now = added(held[i], now);
        assert_in_range(place.slot, 0, accumulators - 1);
        held[place.slot] = now;
        waiting = place.slot + 1;
    }
    assert_int_equal(waiting, 1);
    assert_int_equal(held[0].first, 0);
    assert_int_equal(held[0].count, accumulation);
}

static void each_sum_is_added_once_in_tree_order(void **state)
{
    for (int64_t accumulation = 1; accumulation <= 1 << 12; accumulation *= 2)
        check_tree(accumulation);
}

// As many accumulators as sums that wait at one time, and no more.
static void no_accumulator_is_idle(void **state)
{
    for (int64_t accumulation = 2; accumulation <= 1 << 12; accumulation *= 2) {
        const zr_settings settings = exact(accumulation);
        int most = 0;
        for (int64_t k = 0; k < accumulation; k++)
            most = ZR_MAX(most, zr_sum_slots_of(&settings, k).slot + 1);
        assert_int_equal(zr_accumulators(&settings), most);
    }
}

static void bytes_are_of_the_sums_own_type(void **state)
{
    zr_flat_param flat_param = {.shard = 2048, .padded = 3 * 2048, .gradient_dtype = ZERO_BF16};
    flat_param.accumulator_dtype = ZERO_F32;
    assert_int_equal(zr_flat_param_sum_bytes(&flat_param), 2048 * 4);
    flat_param.accumulator_dtype = ZERO_BF16;
    assert_int_equal(zr_flat_param_sum_bytes(&flat_param), 2048 * 2);
    assert_int_equal(zr_flat_param_open_bytes(&flat_param), 3 * 2048 * 4);
}

static void only_what_is_trained_goes_on_to_nvme(void **state)
{
    for (int kind = ZERO_TRAINABLE; kind <= ZERO_BUFFER; kind++)
        for (int tier = 0; tier < ZERO_TIER_COUNT; tier++) {
            const zr_flat_param flat_param = {.kind = (zero_class)kind,
                                              .state_tier = (zero_tier)tier};
            bool goes = kind == ZERO_TRAINABLE && tier == ZERO_TIER_nvme;
            assert_int_equal(zr_flat_param_sums_on_nvme(&flat_param), goes);
        }
}

static void what_no_unit_contributes_to_collects_nothing(void **state)
{
    assert_true(zr_flat_param_collects(&(zr_flat_param){.first_backward = 0}));
    assert_false(zr_flat_param_collects(&(zr_flat_param){.first_backward = -1}));
}

static void what_is_rounded_or_parked_collects_apart(void **state)
{
    zr_flat_param flat_param = {.gradient_dtype = ZERO_F32, .parked_first = -1};
    assert_false(zr_flat_param_collects_apart(&flat_param));
    flat_param.parked_first = 0;
    assert_true(zr_flat_param_collects_apart(&flat_param));
    flat_param = (zr_flat_param){.gradient_dtype = ZERO_BF16, .parked_first = -1};
    assert_true(zr_flat_param_collects_apart(&flat_param));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_accumulator_is_put_into_then_added_to),
        cmocka_unit_test(the_drawing_is_true),
        cmocka_unit_test(each_sum_is_added_once_in_tree_order),
        cmocka_unit_test(no_accumulator_is_idle),
        cmocka_unit_test(bytes_are_of_the_sums_own_type),
        cmocka_unit_test(only_what_is_trained_goes_on_to_nvme),
        cmocka_unit_test(what_no_unit_contributes_to_collects_nothing),
        cmocka_unit_test(what_is_rounded_or_parked_collects_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
