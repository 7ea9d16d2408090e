// The program that plan/ writes, by itself: what is begun is awaited before its place is taken again,
// what units read and add to is there, no two places overlap while both are needed, and the windows are
// as large as the places need. Over stages, types, tiers, checkpoints and numbers of ranks.
#include "fixture.h"

#include "plan/lives.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

typedef void (*check)(const zr_plan *plan);

static const zr_tiering tierings[] = {
    {0},
    {.optimizer = ZERO_TIER_host},
    {.optimizer = ZERO_TIER_nvme, .read_ahead = true, .block = 1 << 20},
    {.parameters = ZERO_TIER_host, .optimizer = ZERO_TIER_host, .persistent = 50000, .persistent_most = 200000},
    {.parameters = ZERO_TIER_nvme, .optimizer = ZERO_TIER_nvme, .visits_ahead = 2, .block = 1 << 20},
    {.parameters = ZERO_TIER_nvme, .optimizer = ZERO_TIER_nvme, .visits_ahead = 1, .reuse = 1000000000, .block = 1 << 20},
    {.parameters = ZERO_TIER_nvme, .optimizer = ZERO_TIER_host, .persistent = 50000, .persistent_most = 100000, .block = 1 << 20},
};

static int least_stage(const zr_tiering *tiering)
{
    return tiering->parameters != ZERO_TIER_device ? 3 : tiering->optimizer != ZERO_TIER_device ? 1 : 0;
}

static void for_settings(const fixture *f, zr_settings settings, check check)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int mapped = 0; mapped < 2; mapped++) {
            zr_plan *plan = fixture_plan_of(f, &settings, ranks, mapped);
            check(plan);
            zr_plan_destroy(plan);
        }
}

static void for_tiers(const fixture *f, check check)
{
    for (int t = 0; t < ZR_COUNT(tierings); t++)
        for (int stage = least_stage(&tierings[t]); stage < 4; stage++)
            for (int variant = 0; variant < 12; variant++) {
                zr_settings settings = fixture_settings(variant % 2 ? ZERO_BF16 : ZERO_F32, stage, 1 + variant % 3);
                settings.tiering = tierings[t];
                settings.checkpoints = variant % 4 == 3 ? 3 : 0;
                settings.checkpoint_tier = variant == 7 ? ZERO_TIER_host : variant == 11 ? ZERO_TIER_nvme : ZERO_TIER_device;
                settings.delayed = variant % 5 == 4 && stage > 0;
                for_settings(f, settings, check);
            }
}

static void for_all(check check)
{
    fixture f;
    fixture_build(&f, 5, 1000, 96);
    for_tiers(&f, check);
    fixture_build_streamed(&f, 3, 1000, 96);
    for_tiers(&f, check);
}

// Every code and every condition is met somewhere, so that the checks below look at all of them.
static uint32_t codes, conditions;

static void note_codes(const zr_plan *plan)
{
    for (int kind = 0; kind < ZR_PASS_COUNT; kind++)
        for (int i = 0; i < plan->program.passes[kind].count; i++) {
            codes |= 1u << plan->program.passes[kind].at[i].code;
            conditions |= 1u << plan->program.passes[kind].at[i].when;
        }
}

static void every_code_is_written(void **state)
{
    codes = conditions = 0;
    for_all(note_codes);
    for (int code = 0; code < ZR_CODE_COUNT; code++)
        if (!(codes >> code & 1))
            fail_msg("%s is in no program", zr_code_name((zr_code)code));
    const uint32_t of_buffers = 1u << ZR_FINITE; // the fixture has none
    assert_int_equal(conditions | of_buffers, (1u << ZR_WHEN_COUNT) - 1);
}

static bool overlap_in_bytes(const zr_life *a, const zr_life *b)
{
    return a->space == b->space && a->first < b->first + b->bytes && b->first < a->first + a->bytes;
}

static void check_apart(const zr_plan *plan, zr_pass_kind kind)
{
    zr_lives lives;
    assert_int_equal(zr_lives_of(plan, kind, &lives, NULL), ZERO_OK);
    for (int i = 0; i < lives.count; i++)
        for (int k = 0; k < i; k++) {
            const zr_life *a = &lives.at[k], *b = &lives.at[i];
            if (overlap_in_bytes(a, b) && b->from < a->to)
                fail_msg("pass %s, instruction %d: piece %d comes to where piece %d is needed until %d (%s)", zr_pass_name(kind),
                         b->from, b->piece, a->piece, a->to, zr_space_name(a->space));
        }
    assert_true(zr_lives_end(&lives, ZR_SPACE_GATHERED) <= plan->gather_bytes);
    if (kind == ZR_PASS_MICRO_BATCH) {
        assert_int_equal(zr_lives_end(&lives, ZR_SPACE_GATHERED), plan->gather_bytes);
        assert_int_equal(zr_lives_end(&lives, ZR_SPACE_GRADIENTS), plan->grad_bytes);
        assert_int_equal(zr_lives_end(&lives, ZR_SPACE_OPEN_SUMS), plan->open_bytes);
        assert_int_equal(zr_lives_end(&lives, ZR_SPACE_STAGED_PARAMETERS), plan->staged_parameter_bytes);
        assert_int_equal(zr_lives_end(&lives, ZR_SPACE_STAGED_SUMS), plan->staged_gradient_bytes);
    }
    zr_lives_free(&lives);
}

static void check_lives(const zr_plan *plan)
{
    check_apart(plan, ZR_PASS_MICRO_BATCH);
    check_apart(plan, ZR_PASS_EVALUATION);
}

static void places_do_not_overlap_while_both_are_needed(void **state) { for_all(check_lives); }

typedef struct replay { // of a pass: what is begun, and what units see
    bool gathering[64], summing[64], bound[64], collecting[64];
} replay;

static void replay_await(replay *r, const zr_instruction *i)
{
    if (i->slot.kind == ZR_SLOT_GATHER)
        r->gathering[i->slot.index] = false;
    if (i->slot.kind == ZR_SLOT_SUM) {
        assert_true(r->summing[i->slot.index]);
        r->summing[i->slot.index] = false;
    }
}

// In a call, pieces of the unit that do not stream are there, and are collected where they train.
static void replay_call(const zr_plan *plan, const replay *r, const zr_instruction *i)
{
    const zr_unit_plan *unit = &plan->units[i->unit];
    bool backward = i->what == ZR_CALL_BACKWARD, forward = !backward;
    for (int k = 0; k < unit->piece_count; k++) {
        int p = unit->pieces[k];
        bool reads = forward || (unit->sizes.backward_reads >> k & 1);
        assert_true(plan->pieces[p].streamed || !reads || r->bound[p]);
        assert_true(plan->pieces[p].streamed || !(backward || i->what == ZR_CALL_BOTH) || r->collecting[p]);
    }
}

static void replay_one(const zr_plan *plan, replay *r, const zr_instruction *i)
{
    bool gradients = i->place.space == ZR_SPACE_GRADIENTS || i->place.space == ZR_SPACE_OPEN_SUMS;
    switch (i->code) {
    case ZR_GATHER:
        assert_false(r->gathering[i->piece] && i->place.space != ZR_SPACE_NONE);
        r->gathering[i->piece] |= i->place.space != ZR_SPACE_NONE;
        break;
    case ZR_BIND:
        assert_false(r->gathering[i->piece]);
        *(gradients ? &r->collecting[i->piece] : &r->bound[i->piece]) = true;
        break;
    case ZR_UNBIND: *(gradients ? &r->collecting[i->piece] : &r->bound[i->piece]) = false; break;
    case ZR_OPEN:
        assert_false(r->collecting[i->piece] || r->summing[i->piece]);
        r->collecting[i->piece] = true;
        break;
    case ZR_ROUND: assert_false(r->collecting[i->piece] || r->summing[i->piece]); break;
    case ZR_REDUCE:
        assert_false(r->collecting[i->piece] || r->summing[i->piece]);
        r->summing[i->piece] = true;
        break;
    case ZR_AWAIT: replay_await(r, i); break;
    case ZR_CALL: replay_call(plan, r, i); break;
    default: break;
    }
}

static void replay_pass(const zr_plan *plan, zr_pass_kind kind)
{
    const zr_pass *pass = &plan->program.passes[kind];
    replay r = {0};
    assert_true(plan->piece_count <= 64);
    for (int i = 0; i < pass->count; i++)
        replay_one(plan, &r, &pass->at[i]);
    for (int p = 0; p < plan->piece_count; p++) // nothing of a pass goes on after it
        assert_false(r.gathering[p] || r.summing[p] || r.bound[p] || r.collecting[p]);
}

static void check_replay(const zr_plan *plan)
{
    replay_pass(plan, ZR_PASS_MICRO_BATCH);
    replay_pass(plan, ZR_PASS_EVALUATION);
    replay_pass(plan, ZR_PASS_BOUNDARY);
}

static void what_units_see_is_there(void **state) { for_all(check_replay); }

// Forward of every unit once, then backward of every unit, last first; the seam lies between them.
static void check_calls(const zr_plan *plan)
{
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    int forward = 0, backward = plan->unit_count - 1;
    for (int i = 0; i < pass->count; i++) {
        const zr_instruction *call = &pass->at[i];
        if (call->code != ZR_CALL || call->what == ZR_CALL_AGAIN)
            continue;
        bool first = call->what != ZR_CALL_BACKWARD;
        assert_int_equal(first, i < pass->seam);
        assert_int_equal(call->unit, first ? forward++ : backward);
        backward -= call->what != ZR_CALL_FORWARD;
    }
    assert_int_equal(forward, plan->unit_count);
    assert_int_equal(backward, -1);
}

static void units_run_in_order(void **state) { for_all(check_calls); }

static bool is_same_place(zr_place a, zr_place b)
{
    return a.space == b.space && a.first == b.first;
}

static bool is_same(const zr_instruction *a, const zr_instruction *b)
{
    return a->code == b->code && a->when == b->when && a->mark == b->mark && a->what == b->what && a->unit == b->unit
           && a->piece == b->piece && a->bytes == b->bytes && a->body == b->body && is_same_place(a->place, b->place)
           && is_same_place(a->from, b->from) && a->slot.kind == b->slot.kind && a->slot.index == b->slot.index;
}

// Passes are written once, whatever the number of micro-batches: nothing depends on it but its conditions.
static void no_pass_depends_on_the_number_of_micro_batches(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 96);
    zr_settings settings = fixture_settings(ZERO_F32, 2, 2);
    zr_plan *two = fixture_plan_of(&f, &settings, 2, true);
    settings.accumulation = 7;
    zr_plan *seven = fixture_plan_of(&f, &settings, 2, true);
    for (int kind = 0; kind < ZR_PASS_COUNT; kind++) {
        const zr_pass *a = &two->program.passes[kind], *b = &seven->program.passes[kind];
        assert_int_equal(a->count, b->count);
        for (int i = 0; i < a->count; i++)
            assert_true(is_same(&a->at[i], &b->at[i]));
    }
    zr_plan_destroy(two);
    zr_plan_destroy(seven);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_is_written),
        cmocka_unit_test(places_do_not_overlap_while_both_are_needed),
        cmocka_unit_test(what_units_see_is_there),
        cmocka_unit_test(units_run_in_order),
        cmocka_unit_test(no_pass_depends_on_the_number_of_micro_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
