// A toy stage: stage 3 with gathering, which never looks ahead. The pieces of a visit are fetched,
// gathered and awaited when they are read, into the places that gathers.c has found. Units read the
// same bytes, so no bit changes; only the waiting differs.
#include "plan/emit.h"
#include "plan/plan_parts.h"
#include "program_checks.h"
#include "toy.h"

// Kept pieces have a place of their own; others take theirs from the piece that had it last.
static void take_place(zr_emitter *e, zr_when when, int p, zr_place place)
{
    int64_t bytes = e->plan->ranks * zr_piece_shard_bytes(&e->plan->pieces[p]);
    if (e->plan->pieces[p].kept_first >= 0) {
        zr_emit_await_readers(e, when, ZR_SPACE_GATHERED, p);
        return;
    }
    zr_emit_await_place(e, when, place, bytes);
    zr_emit_occupy(e, place, bytes, (zr_slot){ZR_SLOT_READERS, p});
}

static void gather(zr_emitter *e, int v, int i, zr_when when)
{
    const zr_visit *visit = &e->plan->visits[v];
    const zr_piece *piece = &e->plan->pieces[visit->pieces[i]];
    const zr_place place = {ZR_SPACE_GATHERED, visit->gather_first[i]};
    bool staged = visit->staged_first[i] >= 0;
    zr_place own = {ZR_SPACE_SHARDS, piece->shard_first};
    if (staged)
        own = (zr_place){ZR_SPACE_STAGED_PARAMETERS, visit->staged_first[i]};
    take_place(e, when, visit->pieces[i], place);
    if (staged)
        zr_emit_await(e, when, ZR_SLOT_FETCHED, v * ZERO_MAX_PIECES + i);
    zr_emit(e, &(zr_instruction){.code = ZR_GATHER,
                                 .when = when,
                                 .piece = visit->pieces[i],
                                 .place = place,
                                 .from = own,
                                 .bytes = (e->plan->ranks - 1) * zr_piece_shard_bytes(piece),
                                 .slot = {ZR_SLOT_GATHER, visit->pieces[i]}});
}

static void acquire(zr_emitter *e, int v, int visits)
{
    const zr_visit *visit = &e->plan->visits[v];
    zr_emit_fetches(e, v);
    for (int i = 0; i < visit->piece_count; i++) {
        int p = visit->pieces[i];
        bool gathers = visit->gathers[i], kept = e->plan->pieces[p].kept_first >= 0;
        if (gathers)
            gather(e, v, i, kept ? ZR_STALE : ZR_ALWAYS);
        if (!gathers || kept) // every acquire is a message, if only of no bytes
            zr_emit(e, &(zr_instruction){
                           .code = ZR_GATHER, .piece = p, .when = gathers ? ZR_FRESH : ZR_ALWAYS});
        if (gathers)
            zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_GATHER, p);
        zr_emit_bind(e, p, (zr_place){ZR_SPACE_GATHERED, visit->gather_first[i]});
    }
}

static const zr_stage_emitter when_read = {.acquire = acquire};

static bool chosen;

// Here the stage is.
zero_status __wrap_zr_plan_program(zr_plan *plan, zero_error *error);
zero_status __wrap_zr_plan_program(zr_plan *plan, zero_error *error)
{
    bool gathers = chosen && plan->holding == ZR_HOLDS_SHARDS;
    const zr_stage_emitter *stage = gathers ? &when_read : zr_stage_of(plan);
    return zr_emit_program(plan, stage, &zr_emit_accumulate, error);
}

static void check(const zr_plan *plan)
{
    assert_int_equal(program_calls_beside(plan, ZR_GATHER), 0);
    program_check_lives(plan);
    program_check_replay(plan);
    program_check_readers(plan);
}

static void its_programs_hold(void **state)
{
    chosen = true;
    program_for_all(check);
}

static void it_trains_to_the_same_bits(void **state)
{
    harness_case c = {.stage = 3, .ranks = 2, .accumulation = 2, .batch = 2};
    for (int tier = 1; tier <= 2; tier++) {
        c.tiers = harness_tiers(tier, tier);
        toy_trains_alike(&c, &chosen);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_programs_hold),
        cmocka_unit_test(it_trains_to_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
