// Transfers between tiers are begun early, awaited before the data is used, and stored when it is
// complete.
#include "fixture.h"
#include "pass_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const uint32_t moves = BIT(ZR_FETCH) | BIT(ZR_STORE) | BIT(ZR_AWAIT);

static zr_plan *planned(const zr_tiering *tiering, int64_t accumulation)
{
    static fixture f;
    fixture_build(&f, 1, 1000, 96);
    return fixture_plan_on_tiers(&f, 3, 2, accumulation, tiering);
}

static const zr_pass *pass_of(const zr_plan *plan, zr_pass_kind kind)
{
    return &plan->program.passes[kind];
}

// Slot visit * ZERO_MAX_FLAT_PARAMS + i: flat parameter i of the visit. Two visits ahead of the one
// that is gathered.
static void parameters_are_fetched_ahead_of_their_gather(void **state)
{
    const pass_concern concern = {moves | BIT(ZR_GATHER) | BIT(ZR_CALL), BIT(ZR_SLOT_FETCHED), 0};
    zr_tiering tiering = fixture_on_nvme;
    tiering.elems_ahead = 1; // those of the visit that is gathered next, and no others
    zr_plan *plan = planned(&tiering, 1);
    assert_int_equal(ZERO_MAX_FLAT_PARAMS, 32);
    expect_pass(pass_of(plan, ZR_PASS_EVALUATION), &concern,
                "FETCH fetched 0 | AWAIT fetched 0 | GATHER 0 | FETCH fetched 32"
                " | AWAIT fetched 32 | GATHER 1 | CALL forward 0"
                " | FETCH fetched 64 | FETCH fetched 65"
                " | AWAIT fetched 64 | GATHER 2 | AWAIT fetched 65 | GATHER 0 | CALL forward 1"
                " | CALL forward 2");
    zr_plan_destroy(plan);
    plan = planned(&fixture_on_nvme, 1);
    const zr_pass *pass = pass_of(plan, ZR_PASS_MICRO_BATCH);
    expect_between(
        pass, 0, find_instruction(pass, ZR_CALL, -1, 0), &concern,
        "FETCH fetched 0 | FETCH fetched 32 | FETCH fetched 64 | FETCH fetched 65"
        " | FETCH fetched 96 | AWAIT fetched 0 | GATHER 0 | AWAIT fetched 32 | GATHER 1");
    for (int i = 0; i < pass->count; i++) { // from the shard's place in the store
        const zr_instruction *fetch = &pass->at[i];
        if (fetch->code != ZR_FETCH || fetch->slot.kind != ZR_SLOT_FETCHED)
            continue;
        assert_int_equal(fetch->from.buffer, ZR_BUFFER_STORED);
        assert_int_equal(fetch->from.first, plan->flat_params[fetch->flat_param].shard_first);
        assert_int_equal(fetch->bytes,
                         zr_flat_param_shard_bytes(&plan->flat_params[fetch->flat_param]));
    }
    zr_plan_destroy(plan);
}

static void what_is_kept_travels_only_when_it_is_outdated(void **state)
{
    const pass_concern concern = {BIT(ZR_FETCH), BIT(ZR_SLOT_FETCHED), 0};
    zr_tiering tiering = fixture_on_nvme;
    tiering.persistent = tiering.persistent_most = 50000; // the block's and the head's
    zr_plan *plan = planned(&tiering, 1);
    expect_pass(pass_of(plan, ZR_PASS_EVALUATION), &concern,
                "FETCH fetched 0 | FETCH fetched 32 if stale | FETCH fetched 64 if stale"
                " | FETCH fetched 65");
    zr_plan_destroy(plan);
}

// The sums so far come while the visit before computes; this micro-batch's are stored when they are
// complete.
static void sums_come_before_they_are_added_to_and_leave_after(void **state)
{
    const pass_concern concern = {moves | BIT(ZR_CALL) | BIT(ZR_REDUCE) | BIT(ZR_SQUARES),
                                  BIT(ZR_SLOT_TRAVELLED) | BIT(ZR_SLOT_SUM), 0};
    const zr_tiering tiering = {.optimizer = ZERO_TIER_nvme, .block = 1 << 20};
    zr_plan *plan = planned(&tiering, 2);
    const zr_pass *pass = pass_of(plan, ZR_PASS_MICRO_BATCH);
    expect_between(pass, find_instruction(pass, ZR_CALL, -1, 1) + 1, pass->count, &concern,
                   "AWAIT travelled 1 if later | FETCH travelled 1 if later"
                   " | AWAIT travelled 2 if later | FETCH travelled 2 if later"
                   " | CALL forward_backward 2"
                   " | AWAIT travelled 2 | AWAIT travelled 2 if later | REDUCE 2"
                   " | AWAIT travelled 0 if later | FETCH travelled 0 if later | CALL backward 1"
                   " | AWAIT travelled 1 | AWAIT travelled 1 if later | REDUCE 1"
                   " | AWAIT sum 2 | SQUARES 2 if last | STORE travelled 2"
                   " | CALL backward 0"
                   " | AWAIT travelled 0 | AWAIT travelled 0 if later | REDUCE 0"
                   " | AWAIT sum 1 | SQUARES 1 if last | STORE travelled 1"
                   " | AWAIT sum 0 | SQUARES 0 if last | STORE travelled 0");
    expect_pass(pass_of(plan, ZR_PASS_BOUNDARY), &concern,
                "AWAIT travelled 0 | AWAIT travelled 1 | AWAIT travelled 2");
    // the one that is needed first takes its bytes first
    assert_int_equal(plan->flat_params[2].accumulator_first, 0);
    zr_plan_destroy(plan);
}

static void one_micro_batch_fetches_no_sums(void **state)
{
    const pass_concern concern = {moves, BIT(ZR_SLOT_TRAVELLED), 0};
    const zr_tiering tiering = {.optimizer = ZERO_TIER_nvme, .block = 1 << 20};
    zr_plan *plan = planned(&tiering, 1);
    const zr_pass *pass = pass_of(plan, ZR_PASS_MICRO_BATCH);
    for (int i = 0; i < pass->count; i++)
        assert_false(pass->at[i].code == ZR_FETCH);
    const zr_instruction *store = &pass->at[find_instruction(pass, ZR_STORE, 0, 0)];
    assert_int_equal(store->from.buffer, ZR_BUFFER_STAGED_SUMS);
    expect_between(pass, find_instruction(pass, ZR_REDUCE, 0, 0), pass->count, &concern,
                   "STORE travelled 1 | STORE travelled 0");
    zr_plan_destroy(plan);
}

static void on_the_device_nothing_travels(void **state)
{
    const zr_tiering nothing = {0};
    const pass_concern concern = {
        moves, BIT(ZR_SLOT_FETCHED) | BIT(ZR_SLOT_TRAVELLED) | BIT(ZR_SLOT_PARKED), 0};
    zr_plan *plan = planned(&nothing, 2);
    for (int kind = 0; kind < ZR_PASS_COUNT; kind++)
        expect_pass(&plan->program.passes[kind], &concern, "");
    zr_plan_destroy(plan);
}

// The embedding's two tiles collect from the head, leave, and come back for the embedding: the
// second while the first is computed.
static void what_a_unit_has_parked_comes_back_for_the_next(void **state)
{
    const pass_concern concern = {
        .codes = moves | BIT(ZR_OPEN) | BIT(ZR_BIND) | BIT(ZR_UNBIND) | BIT(ZR_ROUND),
        .slots = BIT(ZR_SLOT_PARKED),
        .buffers = BIT(ZR_BUFFER_OPEN_SUMS),
    };
    fixture f;
    fixture_build_streamed(&f, 1, 1000, 96);
    zr_plan *plan = fixture_plan(&f, 2, 2, 1, true);
    const zr_pass *pass = pass_of(plan, ZR_PASS_MICRO_BATCH);
    expect_between(pass, 0, pass->forward_end, &concern,
                   "OPEN 5 | AWAIT parked 1 | OPEN 1 | UNBIND 1 open sums"
                   " | AWAIT parked 1 | STORE parked 1"
                   " | AWAIT parked 1 | OPEN 0 | UNBIND 0 open sums"
                   " | AWAIT parked 0 | STORE parked 0");
    expect_between(pass, find_instruction(pass, ZR_CALL, -1, 3) + 1, pass->count, &concern,
                   "OPEN 4 | OPEN 3 | AWAIT parked 0 | AWAIT parked 1 | FETCH parked 1"
                   " | AWAIT parked 0 | FETCH parked 0"
                   " | AWAIT parked 1 | BIND 1 open sums | ROUND 1"
                   " | AWAIT parked 0 | BIND 0 open sums | ROUND 0");
    for (int p = 0; p < 2; p++) {
        const zr_instruction *out = &pass->at[find_instruction(pass, ZR_STORE, p, 0)];
        const zr_instruction *back = &pass->at[find_instruction(pass, ZR_FETCH, p, 0)];
        const zr_instruction *bind = &pass->at[find_instruction(pass, ZR_ROUND, p, 0)];
        expect_place(back->from, out->place);
        expect_place(bind->from, back->place);
        assert_int_equal(out->bytes, plan->flat_params[p].padded * 4);
        assert_int_equal(back->bytes, out->bytes);
    }
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_fetched_ahead_of_their_gather),
        cmocka_unit_test(what_is_kept_travels_only_when_it_is_outdated),
        cmocka_unit_test(sums_come_before_they_are_added_to_and_leave_after),
        cmocka_unit_test(one_micro_batch_fetches_no_sums),
        cmocka_unit_test(on_the_device_nothing_travels),
        cmocka_unit_test(what_a_unit_has_parked_comes_back_for_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
