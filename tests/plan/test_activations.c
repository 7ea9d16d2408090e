// Where activations are: everything that is kept has a place of its own, segments that are
// recomputed share one area, and activation checkpoints that leave the device, or that tensor ranks
// divide, go through two buffers.
#include "fixture.h"
#include "plan/plan_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

// bytes of the fixture's units, aligned
enum { BLOCKS = 5, UNITS = BLOCKS + 2, SAVED = 128, BOUNDARY = 64 };

static zr_plan *planned(int activation_checkpoints, zero_tier tier, bool inference)
{
    static fixture f;
    zr_settings settings = fixture_settings(ZERO_F32, 2, 1);
    fixture_build(&f, BLOCKS, 1000, 96);
    settings.activation_checkpoints = activation_checkpoints;
    settings.activation_checkpoint_tier = tier;
    settings.inference = inference;
    return fixture_plan_of(&f, &settings, 2, true);
}

static int64_t out_of(int unit) { return unit == UNITS - 1 ? 0 : BOUNDARY; }

static void everything_kept_has_a_place_of_its_own(void **state)
{
    zr_plan *plan = planned(0, ZERO_TIER_device, false);
    int64_t at = 0;
    assert_int_equal(plan->segment_count, 0);
    for (int u = 0; u < UNITS; u++) {
        assert_int_equal(plan->units[u].saved_first, at);
        assert_int_equal(plan->units[u].out_first, at + SAVED);
        assert_false(plan->units[u].out_kept);
        assert_false(zr_plan_ends_segment(plan, u));
        at += SAVED + out_of(u);
    }
    assert_int_equal(plan->boundary_first[0], at);
    assert_int_equal(plan->boundary_first[1], at + BOUNDARY);
    assert_int_equal(plan->activation_bytes, at + 2 * BOUNDARY);
    assert_int_equal(plan->activation_checkpoint_buffer_bytes + plan->activation_checkpoint_bytes,
                     0);
    zr_plan_destroy(plan);
}

// Six units before the last, three segments: [0 1] c1 [2 3] c2 [4 5] last.
static void segments_share_one_area(void **state)
{
    zr_plan *plan = planned(3, ZERO_TIER_device, false);
    // of the last segment, which keeps both boundaries in it
    const int64_t area = 2 * (SAVED + BOUNDARY);
    assert_int_equal(plan->segment_count, 3);
    for (int u = 0; u < UNITS - 1; u++) {
        const zr_unit_plan *unit = &plan->units[u];
        bool first = u % 2 == 0, enters_next = u == 1 || u == 3;
        assert_int_equal(unit->segment, u / 2);
        assert_int_equal(unit->saved_first, first ? 0 : SAVED + BOUNDARY);
        assert_int_equal(unit->out_kept, enters_next);
        assert_int_equal(zr_plan_ends_segment(plan, u), !first);
        if (!enters_next)
            assert_int_equal(unit->out_first, unit->saved_first + SAVED);
    }
    for (int s = 0; s <= 3; s++)
        assert_int_equal(zr_plan_segment_first(plan, s), 2 * s);
    // in the arena of activation checkpoints, one after the other
    assert_int_equal(plan->units[1].out_first, 0);
    assert_int_equal(plan->units[3].out_first, BOUNDARY);
    assert_int_equal(plan->activation_checkpoint_buffer_bytes, 2 * BOUNDARY);
    assert_int_equal(plan->activation_checkpoint_bytes, 0);
    // the last unit is never computed again
    assert_int_equal(plan->units[UNITS - 1].saved_first, area);
    assert_int_equal(plan->activation_bytes, area + SAVED + 2 * BOUNDARY);
    zr_plan_destroy(plan);
}

static void boundaries_that_leave_go_through_two_buffers(void **state)
{
    zr_plan *plan = planned(6, ZERO_TIER_nvme, false);
    assert_int_equal(plan->segment_count, 6);
    assert_int_equal(plan->activation_checkpoint_buffer_bytes, 2 * ZR_IO_PAGE);
    for (int s = 1; s < 6; s++) {
        const zr_unit_plan *before = &plan->units[zr_plan_segment_first(plan, s) - 1];
        assert_true(before->out_kept);
        assert_int_equal(before->out_first, s % 2 * ZR_IO_PAGE);
        // the last stays
        assert_int_equal(zr_activation_checkpoint_bytes(plan, s), s < 5 ? ZR_IO_PAGE : 0);
    }
    assert_int_equal(zr_activation_checkpoint_bytes(plan, 0), 0); // the batch
    assert_int_equal(plan->activation_checkpoint_bytes, 4 * ZR_IO_PAGE);
    zr_plan_destroy(plan);
}

enum { RANKS = 4, FIRST = 80, SECOND = 200 }; // FIRST, SECOND: bytes of a boundary's tensors

static zero_status (*plain)(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                            zero_unit_sizes *out);

static zero_status with_two_tensors(const zero_unit *unit, const zero_shape *shape,
                                    const zero_tensors *in, zero_unit_sizes *out)
{
    zero_status status = plain(unit, shape, in, out);
    out->out.count = 2;
    out->out.at[0] = (zero_tensor){.dtype = ZERO_F32, .dims = 1, .shape = {FIRST / 4}};
    out->out.at[1] = (zero_tensor){.dtype = ZERO_F32, .dims = 1, .shape = {SECOND / 4}};
    return status;
}

typedef struct division {
    int segments;
    zero_tier tier;
    int rank, ranks;
    bool split, divides; // the model has a split; partition_activations
} division;

// Plans units whose boundaries have two tensors, but for the last.
static zr_plan *divided(const division *d)
{
    static fixture whole, part;
    static zero_unit_ops ops;
    zr_settings settings = fixture_settings(ZERO_F32, 2, 1);
    fixture_build(&whole, BLOCKS, 1000, 96);
    fixture_cut(&part, &whole, d->rank, d->ranks);
    ops = *part.units[0].ops;
    plain = ops.sizes;
    ops.sizes = with_two_tensors;
    for (int u = 0; u < UNITS - 1; u++)
        part.units[u].ops = &ops;
    if (!d->split)
        part.model.whole = NULL;
    settings.activation_checkpoints = d->segments;
    settings.activation_checkpoint_tier = d->tier;
    settings.partition_activations = d->divides;
    return fixture_plan_set(&part, &settings, 2, d->rank, d->ranks);
}

// All of a boundary's bytes are divided, whichever tensor they are of: 128 + 256 bytes aligned, so
// 96 of each rank, in places of 128.
static void tensor_ranks_divide_boundaries(void **state)
{
    const int64_t whole = 128 + 256, share = 128;
    const division d = {6, ZERO_TIER_device, 1, RANKS, true, true};
    zr_plan *plan = divided(&d);
    assert_int_equal(plan->checkpoint_shares, RANKS);
    assert_true(RANKS * share >= whole);
    for (int s = 1; s < 6; s++) {
        const zr_unit_plan *before = &plan->units[zr_plan_segment_first(plan, s) - 1];
        assert_int_equal(before->out_first, s % 2 * RANKS * share);
        assert_int_equal(zr_activation_checkpoint_bytes(plan, s), s < 5 ? share : 0);
    }
    assert_int_equal(plan->activation_checkpoint_buffer_bytes, 2 * RANKS * share);
    assert_int_equal(plan->activation_checkpoint_bytes, 4 * share);
    assert_int_equal(plan->exchange_bytes, RANKS * share);
    assert_int_equal(plan->bytes[ZERO_TIER_device][ZERO_MEM_checkpoints], (2 * RANKS + 4) * share);
    zr_plan_destroy(plan);
}

// More ranks than a boundary has bytes: each still has a place, so that all of them hold it.
static void shares_are_rounded_up(void **state)
{
    const division d = {6, ZERO_TIER_device, 1, 400, true, true};
    zr_plan *plan = divided(&d);
    assert_int_equal(zr_activation_checkpoint_bytes(plan, 1), ZR_ACTIVATION_ALIGN);
    zr_plan_destroy(plan);
}

// Shares on another tier are whole pages.
static void shares_that_leave_are_pages(void **state)
{
    for (zero_tier tier = ZERO_TIER_host; tier <= ZERO_TIER_nvme; tier++) {
        const division d = {6, tier, 3, RANKS, true, true};
        zr_plan *plan = divided(&d);
        assert_int_equal(zr_activation_checkpoint_bytes(plan, 1), ZR_IO_PAGE);
        assert_int_equal(plan->activation_checkpoint_buffer_bytes, 2 * RANKS * ZR_IO_PAGE);
        assert_int_equal(plan->bytes[tier][ZERO_MEM_checkpoints], 4 * ZR_IO_PAGE);
        zr_plan_destroy(plan);
    }
}

// One tensor rank, a model without a split, or a single checkpoint, which is used at once.
static void nobody_divides_what_is_not_to_be_divided(void **state)
{
    const division whole[] = {{6, ZERO_TIER_device, 1, RANKS, true, false},
                              {6, ZERO_TIER_device, 1, RANKS, false, true},
                              {6, ZERO_TIER_device, 0, 1, true, true},
                              {2, ZERO_TIER_device, 1, RANKS, true, true}};
    for (int i = 0; i < ZR_COUNT(whole); i++) {
        zr_plan *plan = divided(&whole[i]);
        assert_int_equal(plan->activation_checkpoint_bytes, 0);
        assert_int_equal(plan->activation_checkpoint_buffer_bytes,
                         (whole[i].segments - 1) * (128 + 256));
        assert_int_equal(plan->exchange_bytes, 0);
        zr_plan_destroy(plan);
    }
}

static void there_are_no_more_segments_than_units(void **state)
{
    zr_plan *many = planned(1000, ZERO_TIER_device, false);
    zr_plan *one = planned(1, ZERO_TIER_device, false);
    assert_int_equal(many->segment_count, UNITS - 1);
    for (int u = 0; u < UNITS - 1; u++)
        assert_int_equal(many->units[u].segment, u);
    assert_int_equal(one->segment_count, 1);
    assert_int_equal(one->activation_checkpoint_buffer_bytes, 0);
    assert_true(many->activation_bytes < one->activation_bytes);
    zr_plan_destroy(many);
    zr_plan_destroy(one);
}

static void inference_keeps_two_boundaries_in_turn(void **state)
{
    zr_plan *plan = planned(3, ZERO_TIER_device, true);
    assert_int_equal(plan->segment_count, 0);
    for (int u = 0; u < UNITS; u++) {
        assert_int_equal(plan->units[u].saved_first, 0);
        assert_int_equal(plan->units[u].out_first, SAVED + u % 2 * BOUNDARY);
    }
    assert_int_equal(plan->activation_bytes, SAVED + 2 * BOUNDARY);
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_kept_has_a_place_of_its_own),
        cmocka_unit_test(segments_share_one_area),
        cmocka_unit_test(boundaries_that_leave_go_through_two_buffers),
        cmocka_unit_test(tensor_ranks_divide_boundaries),
        cmocka_unit_test(shares_are_rounded_up),
        cmocka_unit_test(shares_that_leave_are_pages),
        cmocka_unit_test(nobody_divides_what_is_not_to_be_divided),
        cmocka_unit_test(there_are_no_more_segments_than_units),
        cmocka_unit_test(inference_keeps_two_boundaries_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
