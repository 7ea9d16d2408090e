#include "program_checks.h"

#include "fixture.h"

#include "plan/lives.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const zr_tiering tierings[] = {
    {0},
    {.optimizer = ZERO_TIER_host},
    {.optimizer = ZERO_TIER_nvme, .read_ahead = true, .block = 1 << 20},
    {.parameters = ZERO_TIER_host,
     .optimizer = ZERO_TIER_host,
     .persistent = 50000,
     .persistent_most = 200000},
    {.parameters = ZERO_TIER_nvme,
     .optimizer = ZERO_TIER_nvme,
     .visits_ahead = 2,
     .block = 1 << 20},
    {.parameters = ZERO_TIER_nvme,
     .optimizer = ZERO_TIER_nvme,
     .visits_ahead = 1,
     .reuse = 1000000000,
     .block = 1 << 20},
    {.parameters = ZERO_TIER_nvme,
     .optimizer = ZERO_TIER_host,
     .persistent = 50000,
     .persistent_most = 100000,
     .block = 1 << 20},
};

static int least_stage(const zr_tiering *tiering)
{
    return tiering->parameters != ZERO_TIER_device  ? 3
           : tiering->optimizer != ZERO_TIER_device ? 1
                                                    : 0;
}

static void for_settings(const fixture *f, zr_settings settings, program_check check)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int mapped = 0; mapped < 2; mapped++) {
            zr_plan *plan = fixture_plan_of(f, &settings, ranks, mapped);
            check(plan);
            zr_plan_destroy(plan);
        }
}

static void for_tiers(const fixture *f, program_check check)
{
    for (int t = 0; t < ZR_COUNT(tierings); t++)
        for (int stage = least_stage(&tierings[t]); stage < 4; stage++)
            for (int variant = 0; variant < 12; variant++) {
                zr_settings settings =
                    fixture_settings(variant % 2 ? ZERO_BF16 : ZERO_F32, stage, 1 + variant % 3);
                settings.tiering = tierings[t];
                settings.activation_checkpoints = variant % 4 == 3 ? 3 : 0;
                settings.activation_checkpoint_tier = variant == 7    ? ZERO_TIER_host
                                                      : variant == 11 ? ZERO_TIER_nvme
                                                                      : ZERO_TIER_device;
                settings.delayed = variant % 5 == 4 && stage > 0;
                for_settings(f, settings, check);
            }
}

// On a tensor rank, with activation checkpoints that the tensor ranks divide.
static void for_divided(program_check check)
{
    fixture whole, part;
    fixture_build(&whole, 5, 1000, 96);
    fixture_cut(&part, &whole, 1, 2);
    for (int stage = 0; stage < 4; stage++)
        for (zero_tier tier = ZERO_TIER_device; tier <= ZERO_TIER_nvme; tier++) {
            zr_settings settings = fixture_settings(ZERO_F32, stage, 2);
            settings.activation_checkpoints = 4;
            settings.activation_checkpoint_tier = tier;
            settings.partition_activations = true;
            zr_plan *plan = fixture_plan_set(&part, &settings, 2, 1, 2);
            check(plan);
            zr_plan_destroy(plan);
        }
}

void program_for_all(program_check check)
{
    fixture f;
    for_divided(check);
    fixture_build(&f, 5, 1000, 96);
    for_tiers(&f, check);
    fixture_build_streamed(&f, 3, 1000, 96);
    for_tiers(&f, check);
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
                fail_msg("pass %s, instruction %d: piece %d comes to where piece %d is needed "
                         "until %d (%s)",
                         zr_pass_name(kind), b->from, b->piece, a->piece, a->to,
                         zr_space_name(a->space));
        }
    assert_true(zr_lives_end(&lives, ZR_SPACE_GATHERED) <= plan->gather_bytes);
    if (kind == ZR_PASS_MICRO_BATCH) {
        assert_int_equal(zr_lives_end(&lives, ZR_SPACE_GATHERED), plan->gather_bytes);
        assert_int_equal(zr_lives_end(&lives, ZR_SPACE_GRADIENTS), plan->grad_bytes);
        assert_int_equal(zr_lives_end(&lives, ZR_SPACE_OPEN_SUMS), plan->open_bytes);
        assert_int_equal(zr_lives_end(&lives, ZR_SPACE_STAGED_PARAMETERS),
                         plan->staged_parameter_bytes);
        assert_int_equal(zr_lives_end(&lives, ZR_SPACE_STAGED_SUMS), plan->staged_gradient_bytes);
    }
    zr_lives_free(&lives);
}

void program_check_lives(const zr_plan *plan)
{
    check_apart(plan, ZR_PASS_MICRO_BATCH);
    check_apart(plan, ZR_PASS_EVALUATION);
}

typedef enum kept { GONE, COMES, SHARE, WHOLE } kept; // how much of a boundary is in its place

typedef struct replay { // of a pass: what is begun, and what units see
    bool gathering[64], summing[64], bound[64], collecting[64];
    kept kept[64]; // activation checkpoints, by the unit that writes them
} replay;

// What is put into a place takes it from what was there.
static void put_boundary(const zr_plan *plan, replay *r, int unit, kept how)
{
    for (int u = 0; u < plan->unit_count; u++)
        if (plan->units[u].out_kept && plan->units[u].out_first == plan->units[unit].out_first)
            r->kept[u] = GONE;
    r->kept[unit] = how;
}

// Returns the unit whose boundary enters a segment after the first.
static int unit_before(const zr_plan *plan, int segment)
{
    return zr_plan_segment_first(plan, segment) - 1;
}

static void replay_fetch(const zr_plan *plan, replay *r, const zr_instruction *i)
{
    if (i->slot.kind == ZR_SLOT_KEPT)
        put_boundary(plan, r, unit_before(plan, plan->units[i->unit].segment - 1), COMES);
}

static void replay_kept(const zr_plan *plan, replay *r, int buffer)
{
    for (int s = 1; s < plan->segment_count; s++) {
        kept *kept = &r->kept[unit_before(plan, s)];
        if (s % 2 == buffer && *kept == COMES)
            *kept = plan->checkpoint_shares > 1 ? SHARE : WHOLE;
    }
}

static void replay_join(const zr_plan *plan, replay *r, const zr_instruction *i)
{
    int unit = unit_before(plan, plan->units[i->unit].segment);
    assert_int_equal(r->kept[unit], SHARE);
    r->kept[unit] = WHOLE;
}

// A call finds the activation checkpoint that enters it whole, and forward writes the next one.
static void replay_boundaries(const zr_plan *plan, replay *r, const zr_instruction *i)
{
    if (i->unit > 0 && plan->units[i->unit - 1].out_kept)
        assert_int_equal(r->kept[i->unit - 1], WHOLE);
    if (i->what == ZR_CALL_FORWARD && plan->units[i->unit].out_kept)
        put_boundary(plan, r, i->unit, WHOLE);
}

static void replay_await(const zr_plan *plan, replay *r, const zr_instruction *i)
{
    if (i->slot.kind == ZR_SLOT_KEPT)
        replay_kept(plan, r, i->slot.index);
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
        assert_true(plan->pieces[p].streamed || !(backward || i->what == ZR_CALL_BOTH) ||
                    r->collecting[p]);
    }
}

// Where gradients are bound they are collected, and where parameters are bound they are read.
static bool *bound_at(replay *r, const zr_instruction *i)
{
    bool gradients = i->place.space == ZR_SPACE_GRADIENTS || i->place.space == ZR_SPACE_OPEN_SUMS;
    return gradients ? &r->collecting[i->piece] : &r->bound[i->piece];
}

static void expect_at_rest(const replay *r, int piece)
{
    assert_false(r->collecting[piece] || r->summing[piece]);
}

static void replay_gather(replay *r, const zr_instruction *i)
{
    if (i->place.space == ZR_SPACE_NONE)
        return;
    assert_false(r->gathering[i->piece]);
    r->gathering[i->piece] = true;
}

static void replay_bind(replay *r, const zr_instruction *i)
{
    assert_false(r->gathering[i->piece]);
    *bound_at(r, i) = true;
}

static void replay_open(replay *r, const zr_instruction *i)
{
    expect_at_rest(r, i->piece);
    r->collecting[i->piece] = true;
}

static void replay_reduce(replay *r, const zr_instruction *i)
{
    expect_at_rest(r, i->piece);
    r->summing[i->piece] = true;
}

static void replay_one(const zr_plan *plan, replay *r, const zr_instruction *i)
{
    switch (i->code) {
    case ZR_GATHER: replay_gather(r, i); break;
    case ZR_BIND: replay_bind(r, i); break;
    case ZR_UNBIND: *bound_at(r, i) = false; break;
    case ZR_OPEN: replay_open(r, i); break;
    case ZR_ROUND: expect_at_rest(r, i->piece); break;
    case ZR_REDUCE: replay_reduce(r, i); break;
    case ZR_AWAIT: replay_await(plan, r, i); break;
    case ZR_FETCH: replay_fetch(plan, r, i); break;
    case ZR_JOIN: replay_join(plan, r, i); break;
    case ZR_CALL:
        replay_call(plan, r, i);
        replay_boundaries(plan, r, i);
        break;
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

void program_check_replay(const zr_plan *plan)
{
    replay_pass(plan, ZR_PASS_MICRO_BATCH);
    replay_pass(plan, ZR_PASS_EVALUATION);
    replay_pass(plan, ZR_PASS_BOUNDARY);
}

typedef struct operand { // of an exchange, in a window; peers may read it until it is drained
    zr_place place;
    int64_t end;
    bool read;
} operand;

typedef struct operands {
    operand gathered[64], reduced[64]; // by piece
} operands;

static int64_t operand_bytes(const zr_plan *plan, const zr_instruction *i)
{
    const zr_piece *piece = &plan->pieces[i->piece];
    bool gathered = i->place.space == ZR_SPACE_GATHERED;
    return plan->ranks *
           (gathered ? zr_piece_shard_bytes(piece) : zr_piece_gradient_shard_bytes(piece));
}

static void expect_drained(const operand *list, const zr_plan *plan, const zr_instruction *writes)
{
    int64_t first = writes->place.first, end = first + operand_bytes(plan, writes);
    for (int p = 0; p < plan->piece_count; p++)
        if (list[p].read && list[p].place.first < end && first < list[p].end)
            fail_msg("piece %d is written (%s) where peers read piece %d", writes->piece,
                     zr_code_name(writes->code), p);
}

static bool gathers_into_window(const zr_instruction *i)
{
    return i->code == ZR_GATHER && i->place.space == ZR_SPACE_GATHERED;
}

// The operands that this instruction writes over, or among; NULL: it writes into no window.
static operand *written_by(operands *all, const zr_instruction *i)
{
    bool opens = i->code == ZR_OPEN && i->place.space == ZR_SPACE_GRADIENTS;
    if (gathers_into_window(i))
        return all->gathered;
    return opens || i->code == ZR_ROUND ? all->reduced : NULL;
}

// The operands that peers read once this instruction has begun.
static operand *offered_by(operands *all, const zr_instruction *i)
{
    if (gathers_into_window(i))
        return all->gathered;
    return i->code == ZR_REDUCE ? all->reduced : NULL;
}

// The operands that nobody reads any longer after this instruction.
static operand *drained_by(operands *all, const zr_instruction *i)
{
    if (i->code != ZR_AWAIT || i->slot.kind != ZR_SLOT_READERS)
        return NULL;
    if (i->place.space == ZR_SPACE_GATHERED)
        return all->gathered;
    return i->place.space == ZR_SPACE_GRADIENTS ? all->reduced : NULL;
}

static void replay_operands(const zr_plan *plan, operands *all, const zr_instruction *i)
{
    const operand *written = written_by(all, i);
    operand *offered = offered_by(all, i), *drained = drained_by(all, i);
    if (written)
        expect_drained(written, plan, i);
    if (offered)
        offered[i->piece] = (operand){i->place, i->place.first + operand_bytes(plan, i), true};
    if (drained)
        drained[i->slot.index].read = false;
}

// Twice: a micro-batch finds what the one before has left.
void program_check_readers(const zr_plan *plan)
{
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    operands all = {0};
    assert_true(plan->piece_count <= 64);
    for (int i = 0; i < 2 * pass->count; i++)
        replay_operands(plan, &all, &pass->at[i % pass->count]);
}

void program_check_calls(const zr_plan *plan)
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

static bool is_exchange(const zr_instruction *i, zr_code code)
{
    return i->code == code && i->place.space != ZR_SPACE_NONE;
}

int program_calls_beside(const zr_plan *plan, zr_code code)
{
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    const zr_slot_kind kind = code == ZR_GATHER ? ZR_SLOT_GATHER : ZR_SLOT_SUM;
    bool under_way[64] = {false};
    int count = 0, calls = 0;
    for (const zr_instruction *i = pass->at; i < pass->at + pass->count; i++) {
        bool ends = i->code == ZR_AWAIT && i->slot.kind == kind && under_way[i->slot.index];
        calls += i->code == ZR_CALL && count > 0;
        count += is_exchange(i, code) - ends;
        if (ends || is_exchange(i, code))
            under_way[i->slot.index] = !ends;
    }
    return calls;
}
