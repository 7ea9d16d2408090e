// What the engine reserves is what the plan's tables list, row by row; and its program begins each
// exchange before it awaits it, and awaits each before the step ends. An AWAIT of a transfer may
// find nothing under way: there is none before the first step, and a store in memory is copied at
// once. AWAIT stands between two files of the engine, where the linker puts this test's own
// function (meson.build).
#include "harness.h"

#include "engine/engine_internal.h"
#include "engine/interpret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static atomic_int exchanges_awaited;

zero_status __real_zr_execute_await(zero_engine *engine, const zr_instruction *i,
                                    zero_error *error);
zero_status __wrap_zr_execute_await(zero_engine *engine, const zr_instruction *i,
                                    zero_error *error);

zero_status __wrap_zr_execute_await(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    if (i->slot.kind != ZR_SLOT_SUM && i->slot.kind != ZR_SLOT_GATHER)
        return __real_zr_execute_await(engine, i, error);
    const zr_handle *handle = &engine->slots[i->slot.kind][i->slot.index].exchange;
    if (!handle->pending || handle->slot != i->slot.index)
        return zr_fail(error, ZERO_ERR_INTERNAL, "AWAIT of %s %d, which nobody has begun",
                       zr_slot_names[i->slot.kind], i->slot.index);
    exchanges_awaited++;
    return __real_zr_execute_await(engine, i, error);
}

static zero_status differs(const char *what, int row, int64_t reserved, int64_t planned,
                           zero_error *error)
{
    return zr_fail(error, ZERO_ERR_INTERNAL, "%s %d has %lld, the plan says %lld", what, row,
                   (long long)reserved, (long long)planned);
}

static zero_status check_space(const zero_engine *engine, int s, zero_error *error)
{
    const zr_space_plan *plan = &engine->plan->spaces[s];
    const zr_space *space = &engine->spaces[s];
    bool window = plan->kind != ZR_SPACE_NONE && plan->kind != ZR_SPACE_ARENA;
    int64_t bytes = window ? space->window.bytes : (int64_t)space->arena.bytes;
    if (bytes != plan->bytes)
        return differs("space", s, bytes, plan->bytes, error);
    if (window != (space->window.comm != NULL) ||
        (plan->kind == ZR_SPACE_ARENA) != (space->arena.base != NULL))
        return differs("the kind of space", s, window, plan->kind, error);
    if (plan->kind == ZR_SPACE_ARENA &&
        (space->arena.place.tier != plan->tier || space->arena.place.category != plan->category))
        return differs("the tier of space", s, space->arena.place.tier, plan->tier, error);
    return space->at == (window ? space->window.mine : space->arena.base)
               ? ZERO_OK
               : differs("the address of space", s, 0, 0, error);
}

static zero_status check_reserved(zero_engine *engine, int step, zero_error *error)
{
    for (int s = 0; s < ZR_SPACE_COUNT && step < 0; s++)
        ZERO_TRY(check_space(engine, s, error));
    for (int s = 0; s < ZR_STORE_COUNT && step < 0; s++) {
        const zr_store_plan *plan = &engine->plan->stores[s];
        const zr_store *store = &engine->stores[s];
        if (store->bytes != plan->bytes)
            return differs("store", s, store->bytes, plan->bytes, error);
        if (store->bytes && (store->tier != plan->tier || store->category != plan->category))
            return differs("the tier of store", s, store->tier, plan->tier, error);
    }
    for (zr_slot_kind kind = ZR_SLOT_SUM; kind <= ZR_SLOT_GATHER; kind++)
        for (int i = 0; i < engine->plan->slots[kind]; i++)
            if (engine->slots[kind][i].exchange.pending)
                return differs("an exchange that is under way after a step", i, kind, 0, error);
    return ZERO_OK;
}

static void run(harness_case c)
{
    static harness_result out;
    c.after = check_reserved;
    c.steps = 2;
    c.batch = 1;
    harness_run(&c, &out);
    harness_expect_held(&out);
}

static void every_stage_reserves_its_rows(void **state)
{
    exchanges_awaited = 0;
    for (int stage = 0; stage < 4; stage++)
        for (int ranks = 1; ranks <= 2; ranks++)
            run((harness_case){.stage = stage,
                               .ranks = ranks,
                               .accumulation = 2,
                               .precision = stage % 2 ? "\"bf16\": {\"enabled\": true}" : NULL});
    assert_true(exchanges_awaited > 0);
}

static void every_tier_reserves_its_rows(void **state)
{
    for (int optimizer = ZERO_TIER_device; optimizer < ZERO_TIER_COUNT; optimizer++)
        for (int parameters = ZERO_TIER_device; parameters <= optimizer; parameters++)
            run((harness_case){.stage = 3,
                               .ranks = 2,
                               .accumulation = 2,
                               .tiers = harness_tiers(optimizer, parameters)});
    run((harness_case){.stage = 2,
                       .ranks = 2,
                       .accumulation = 1,
                       .tiers = harness_tiers(ZERO_TIER_host, ZERO_TIER_device),
                       .precision = "\"bf16\": {\"enabled\": true}, \"libzero\": "
                                    "{\"delayed_update\": {\"start_step\": 1}}"});
}

static void tensor_ranks_and_pipelines_reserve_their_rows(void **state)
{
    run((harness_case){.stage = 3, .ranks = 2, .accumulation = 1, .slices = 2, .tensor = 2});
    for (int stage = 0; stage < 4; stage++)
        run((harness_case){.stage = stage, .ranks = 2, .accumulation = 4, .stages = 2});
    run((harness_case){.stage = 1, .ranks = 1, .accumulation = 4, .stages = 2, .schedule = "2bw"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stage_reserves_its_rows),
        cmocka_unit_test(every_tier_reserves_its_rows),
        cmocka_unit_test(tensor_ranks_and_pipelines_reserve_their_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
