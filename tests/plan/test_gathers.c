// What stage 3 gathers when: what is needed soon stays, within the limits, and transfers run ahead.
#include "fixture.h"
#include "program_checks.h"
#include "plan/emit.h"
#include "plan/plan_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

// Fetches never fall behind the visit that is gathered next, and go no further than the pass.
static void check_fetches(const zr_plan *plan)
{
    for (int v = 0; v < plan->visit_count; v++) {
        int end = plan->visits[v].pass_end, fetched = zr_last_fetched(plan, v, end);
        int next = zr_last_fetched(plan, v + 1, end);
        assert_true(fetched >= v && fetched < end && next >= fetched);
        assert_true(next >= ZR_MIN(v + 1, end - 1));
    }
}

// Says whether an earlier visit has gathered a flat parameter.
static bool has(const zr_visit *visit, int flat_param)
{
    for (int i = 0; i < visit->flat_param_count; i++)
        if (visit->flat_params[i] == flat_param)
            return true;
    return false;
}

// Returns the number of visits that gather nothing, because an earlier visit's flat parameters
// stay.
static int reusing(const zr_plan *plan)
{
    int count = 0;
    for (int w = 0; w < plan->visit_count; w++) {
        const zr_visit *later = &plan->visits[w];
        for (int i = 0; i < later->flat_param_count && later->reuses >= 0; i++) {
            assert_true(has(&plan->visits[later->reuses], later->flat_params[i]));
            assert_false(zr_visit_gathers(plan, w, i) || zr_visit_stages(plan, w, i));
        }
        count += later->reuses >= 0;
    }
    program_check_live_ranges(plan);
    program_check_replay(plan);
    return count;
}

static void what_is_needed_soon_stays(void **state)
{
    fixture f;
    fixture_build(&f, 5, 1000, 96);
    zr_tiering tiering = fixture_on_nvme;
    zr_plan *plan = fixture_plan_on_tiers(&f, 3, 2, 1, &tiering);
    int64_t none = plan->gather_bytes, read = plan->moves.micro_batch.nvme_read,
            block = plan->flat_params[1].padded;
    assert_int_equal(reusing(plan), 0);
    zr_plan_destroy(plan);
    tiering.reuse = 1000000000;
    plan = fixture_plan_on_tiers(&f, 3, 2, 1, &tiering);
    assert_int_equal(reusing(plan), 6); // the backward of every block, and of the head
    assert_true(plan->gather_bytes > none && plan->moves.micro_batch.nvme_read < read);
    int64_t all = plan->moves.micro_batch.nvme_read;
    zr_plan_destroy(plan);
    // the head, and a block's forward and backward
    tiering.reuse = 1000 * 96 + 96 + 2048 * 4 + 2 * block;
    plan = fixture_plan_on_tiers(&f, 3, 2, 1, &tiering);
    int few = reusing(plan);
    assert_true(few > 0 && few < 6 && plan->moves.micro_batch.nvme_read > all);
    zr_plan_destroy(plan);
    tiering.live = 1; // one unit is always whole, and no other next to it
    plan = fixture_plan_on_tiers(&f, 3, 2, 1, &tiering);
    assert_int_equal(reusing(plan), 0);
    zr_plan_destroy(plan);
    for (int live = 0; live <= 1000000000; live += 1000000000) { // 0 is a limit too
        char said[128];
        snprintf(said, sizeof said,
                 "\"stage3_param_persistence_threshold\": 0, \"stage3_max_reuse_distance\": 1e9, "
                 "\"stage3_max_live_parameters\": %d",
                 live);
        plan = fixture_plan_as_said(&f, said);
        assert_int_equal(reusing(plan), live ? 6 : 0);
        zr_plan_destroy(plan);
    }
}

static int64_t elements_of(const zr_plan *plan, int v)
{
    int64_t elements = 0;
    for (int i = 0; i < plan->visits[v].flat_param_count; i++)
        elements += plan->flat_params[plan->visits[v].flat_params[i]].padded;
    return elements;
}

static bool stays(const zr_plan *plan, int v)
{
    for (int w = v + 1; w < plan->visit_count; w++)
        if (plan->visits[w].reuses == v)
            return true;
    return false;
}

// Returns the elements that are gathered while a visit computes: its own, those that stay for a
// later one, and the next visit's.
static int64_t gathered_at(const zr_plan *plan, int v)
{
    int64_t elements = plan->visits[v].reuses < 0 && !stays(plan, v) ? elements_of(plan, v) : 0;
    for (int w = v; w < plan->visit_count; w++)
        if (plan->visits[w].reuses >= 0 && plan->visits[w].reuses <= v)
            elements += elements_of(plan, w);
    if (v + 1 < plan->visits[v].pass_end && plan->visits[v + 1].ahead &&
        plan->visits[v + 1].reuses < 0)
        elements += elements_of(plan, v + 1);
    return elements;
}

// Some stays, and no more than the limit is ever there.
static void what_is_gathered_keeps_within_the_limit(void **state)
{
    fixture f;
    zr_tiering tiering = fixture_on_nvme;
    int last = 0;
    bool some = false;
    tiering.reuse = 1000000000;
    fixture_build(&f, 5, 1000, 96);
    for (int64_t live = 200000; live <= 800000; live += 25000) {
        tiering.live = live;
        zr_plan *plan = fixture_plan_on_tiers(&f, 3, 2, 1, &tiering);
        last = reusing(plan);
        some = some || (last > 1 && last < 6);
        for (int v = 0; v < plan->visit_count; v++)
            assert_true(gathered_at(plan, v) <= live);
        zr_plan_destroy(plan);
    }
    assert_true(some && last == 6);
}

// A bucket that is just as large as a block takes it ahead, one of an element less does not.
static void the_bucket_bounds_what_is_gathered_ahead(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 96);
    zr_settings settings = fixture_settings(ZERO_F32, 3, 1);
    zr_plan *plan = fixture_plan_of(&f, &settings, 2, false);
    int64_t block = plan->flat_params[1].padded;
    zr_plan_destroy(plan);
    for (int less = 0; less < 2; less++) {
        settings.prefetch_bucket = block - less;
        plan = fixture_plan_of(&f, &settings, 2, false);
        for (int v = 0; v < plan->visit_count; v++)
            if (elements_of(plan, v) == block && v > 0 && plan->visits[v - 1].pass_end > v)
                assert_int_equal(plan->visits[v].ahead, !less);
        zr_plan_destroy(plan);
    }
}

static void fetches_run_ahead(void **state)
{
    fixture f;
    for (int blocks = 1; blocks <= 9; blocks += 4) {
        fixture_build(&f, blocks, 1000, 96);
        for (int persistent = 0; persistent <= 100000; persistent += 50000) {
            zr_tiering tiering = fixture_on_nvme;
            tiering.persistent = persistent;
            tiering.persistent_most = 200000;
            zr_plan *plan = fixture_plan_on_tiers(&f, 3, 4, 2, &tiering);
            check_fetches(plan);
            zr_plan_destroy(plan);
        }
    }
}

// The messages are the same on any machines; what a rank fetches and holds of them is not.
static void test_machines_share_what_they_gather(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    zr_plan *alone = fixture_plan(&f, 3, 8, 1, false);
    zr_plan *shared = fixture_plan_on_machines(&f, 8, 4, false),
            *kept = fixture_plan_on_machines(&f, 8, 4, true);
    const zr_traffic_plan *a = &alone->traffic[ZR_PASS_MICRO_BATCH].data,
                          *s = &shared->traffic[ZR_PASS_MICRO_BATCH].data,
                          *k = &kept->traffic[ZR_PASS_MICRO_BATCH].data;
    assert_true(a->hash == s->hash && a->hash == k->hash && a->messages == k->messages);
    assert_int_equal(a->bytes[ZERO_COMM_all_gather], 7 * s->bytes[ZERO_COMM_all_gather]);
    assert_int_equal(k->bytes[ZERO_COMM_all_gather], kept->full_bytes / 8);
    assert_true(s->bytes[ZERO_COMM_all_gather] > k->bytes[ZERO_COMM_all_gather]);
    assert_int_equal(alone->gather_share, alone->gather_bytes);
    assert_int_equal(shared->gather_share, alone->gather_share / 4);
    assert_int_equal(kept->gather_share, kept->full_bytes / 4);
    assert_int_equal(zr_plan_total_bytes(alone) - zr_plan_total_bytes(shared),
                     alone->gather_share - shared->gather_share);
    assert_true(alone->hash != shared->hash && shared->hash != kept->hash);
    zr_plan_destroy(alone);
    zr_plan_destroy(shared);
    zr_plan_destroy(kept);
}

// The host's buffers hold what is on its way, and not the model.
static void buffers_are_given_back(void **state)
{
    fixture f;
    zr_tiering tiering = fixture_on_nvme;
    tiering.elems_ahead = 1; // the next visit's, and no others
    fixture_build(&f, 9, 1000, 96);
    zr_plan *plan = fixture_plan_on_tiers(&f, 3, 2, 1, &tiering);
    int64_t most = 0;
    for (int v = 0; v < plan->visit_count; v++) {
        int64_t bytes = 0;
        for (int i = 0; i < plan->visits[v].flat_param_count; i++)
            bytes += zr_flat_param_shard_bytes(&plan->flat_params[plan->visits[v].flat_params[i]]);
        most = ZR_MAX(most, bytes);
    }
    assert_int_equal(plan->staged_parameter_bytes, most);
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_needed_soon_stays),
        cmocka_unit_test(what_is_gathered_keeps_within_the_limit),
        cmocka_unit_test(the_bucket_bounds_what_is_gathered_ahead),
        cmocka_unit_test(fetches_run_ahead),
        cmocka_unit_test(test_machines_share_what_they_gather),
        cmocka_unit_test(buffers_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
