#include "program_checks.h"

#include "fixture.h"
#include "program_turns.h"

#include "plan/accumulators.h"
#include "plan/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

const zr_tiering program_tierings[PROGRAM_TIERINGS] = {
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

int program_least_stage(const zr_tiering *tiering)
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

// Trained weights have codes where they are gathered from memory.
static void add_codes(zr_settings *settings, int variant)
{
    if (settings->stage == 3 && settings->tiering.parameters != ZERO_TIER_nvme)
        settings->weight_bits = variant % 3 == 1 ? 0 : 8;
    settings->gradient_bits = variant % 3 == 2 ? 0 : 4 << variant % 2;
}

static void for_tiers(const fixture *f, bool codes, program_check check)
{
    for (int t = 0; t < PROGRAM_TIERINGS; t++)
        for (int stage = ZR_MAX(program_least_stage(&program_tierings[t]), codes); stage < 4;
             stage++)
            for (int variant = 0; variant < 12; variant++) {
                zr_settings settings =
                    fixture_settings(variant % 2 ? ZERO_BF16 : ZERO_F32, stage, 1 + variant % 3);
                settings.tiering = program_tierings[t];
                settings.activation_checkpoints = variant % 4 == 3 ? 3 : 0;
                settings.activation_checkpoint_tier = variant == 7    ? ZERO_TIER_host
                                                      : variant == 11 ? ZERO_TIER_nvme
                                                                      : ZERO_TIER_device;
                settings.delayed = variant % 5 == 4 && stage > 0;
                if (codes)
                    add_codes(&settings, variant);
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
    for_tiers(&f, false, check);
    fixture_build_streamed(&f, 3, 1000, 96);
    for_tiers(&f, false, check);
}

void program_for_all_codes(program_check check)
{
    fixture f;
    fixture_build(&f, 5, 1000, 96);
    for_tiers(&f, true, check);
    fixture_build_streamed(&f, 3, 1000, 96);
    for_tiers(&f, true, check);
}

static bool overlap_in_bytes(const zr_live_range *a, const zr_live_range *b)
{
    return a->buffer == b->buffer && a->first < b->first + b->bytes &&
           b->first < a->first + a->bytes;
}

// Returns the bytes that a rank has of a buffer whose live ranges are followed; of others none are.
static int64_t window_bytes(const zr_plan *plan, zr_buffer_id buffer)
{
    switch (buffer) {
    case ZR_BUFFER_GATHERED: return plan->gather_bytes;
    case ZR_BUFFER_GRADIENTS: return plan->grad_bytes;
    case ZR_BUFFER_OPEN_SUMS: return plan->open_bytes;
    case ZR_BUFFER_STAGED_PARAMETERS: return plan->staged_parameter_bytes;
    case ZR_BUFFER_STAGED_SUMS: return plan->staged_gradient_bytes;
    default: return 0;
    }
}

// most: of each buffer, the end of the last place so far.
static void check_apart(const zr_plan *plan, zr_pass_kind kind, int64_t most[ZR_BUFFER_COUNT])
{
    zr_live_ranges live_ranges;
    assert_int_equal(zr_live_ranges_of(plan, kind, &live_ranges, NULL), ZERO_OK);
    for (int i = 0; i < live_ranges.count; i++)
        for (int k = 0; k < i; k++) {
            const zr_live_range *a = &live_ranges.at[k], *b = &live_ranges.at[i];
            if (overlap_in_bytes(a, b) && b->from < a->to)
                fail_msg("pass %s, instruction %d: flat parameter %d comes to where flat parameter "
                         "%d is needed "
                         "until %d (%s)",
                         zr_pass_name(kind), b->from, b->flat_param, a->flat_param, a->to,
                         zr_buffer_names[a->buffer]);
        }
    for (int buffer = 0; buffer < ZR_BUFFER_COUNT; buffer++) {
        int64_t end = zr_live_ranges_end(&live_ranges, (zr_buffer_id)buffer);
        assert_true(end <= window_bytes(plan, (zr_buffer_id)buffer));
        most[buffer] = ZR_MAX(most[buffer], end);
    }
    zr_live_ranges_free(&live_ranges);
}

static bool is_evaluation(int kind)
{
    return kind == ZR_PASS_EVALUATION ||
           (kind >= ZR_PASS_COUNT &&
            (kind - ZR_PASS_COUNT) % ZR_CHUNK_PARTS == ZR_CHUNK_EVALUATION);
}

void program_check_live_ranges(const zr_plan *plan)
{
    int64_t trained[ZR_BUFFER_COUNT] = {0}, evaluated[ZR_BUFFER_COUNT] = {0};
    for (int kind = 0; kind < ZR_PASSES; kind++)
        check_apart(plan, (zr_pass_kind)kind, is_evaluation(kind) ? evaluated : trained);
    for (int buffer = 0; buffer < ZR_BUFFER_COUNT; buffer++)
        assert_int_equal(trained[buffer], window_bytes(plan, (zr_buffer_id)buffer));
}

typedef struct operand { // of an exchange, in a window; peers may read it until it is drained
    zr_buffer_ref place;
    int64_t end;
    bool read;
} operand;

typedef struct operands {
    operand gathered[64], reduced[64]; // by flat parameter
} operands;

static int64_t operand_bytes(const zr_plan *plan, const zr_instruction *i)
{
    const zr_flat_param *flat_param = &plan->flat_params[i->flat_param];
    bool gathered = i->place.buffer == ZR_BUFFER_GATHERED;
    return plan->ranks * (gathered ? zr_flat_param_shard_bytes(flat_param)
                                   : zr_flat_param_gradient_shard_bytes(flat_param));
}

static void expect_drained(const operand *list, const zr_plan *plan, const zr_instruction *writes)
{
    int64_t first = writes->place.first, end = first + operand_bytes(plan, writes);
    for (int p = 0; p < plan->flat_param_count; p++)
        if (list[p].read && list[p].place.first < end && first < list[p].end)
            fail_msg("flat parameter %d is written (%s) where peers read flat parameter %d",
                     writes->flat_param, zr_code_names[writes->code], p);
}

static bool gathers_into_window(const zr_instruction *i)
{
    return i->code == ZR_GATHER && i->place.buffer == ZR_BUFFER_GATHERED;
}

// The operands that this instruction writes over, or among; NULL: it writes into no window.
static operand *written_by(operands *all, const zr_instruction *i)
{
    bool opens = i->code == ZR_OPEN && i->place.buffer == ZR_BUFFER_GRADIENTS;
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
    if (i->place.buffer == ZR_BUFFER_GATHERED)
        return all->gathered;
    return i->place.buffer == ZR_BUFFER_GRADIENTS ? all->reduced : NULL;
}

static void replay_operands(const zr_plan *plan, operands *all, const zr_instruction *i)
{
    const operand *written = written_by(all, i);
    operand *offered = offered_by(all, i), *drained = drained_by(all, i);
    if (written)
        expect_drained(written, plan, i);
    if (offered)
        offered[i->flat_param] = (operand){i->place, i->place.first + operand_bytes(plan, i), true};
    if (drained)
        drained[i->slot.index].read = false;
}

// A pass finds what those before it have left.
void program_check_readers(const zr_plan *plan)
{
    program_turn turns[PROGRAM_MOST_TURNS];
    operands all = {0};
    assert_true(plan->flat_param_count <= 64);
    int count = program_turns(plan, turns);
    for (int t = 0; t < count; t++) {
        const zr_pass *pass = &plan->program.passes[turns[t].pass];
        for (int i = 0; i < pass->count; i++)
            replay_operands(plan, &all, &pass->at[i]);
    }
}

typedef struct transfers {        // bytes that a transfer reads or writes until it is awaited
    operand sums[64], parked[64]; // by flat parameter
} transfers;

// Returns the transfers of a slot; NULL if it is none of these.
static operand *transfer_of(transfers *all, zr_slot slot)
{
    return slot.kind == ZR_SLOT_TRAVELLED ? &all->sums[slot.index]
           : slot.kind == ZR_SLOT_PARKED  ? &all->parked[slot.index]
                                          : NULL;
}

// Returns where an instruction writes into the open arena or the host's buffer of sums.
static zr_buffer_ref written_sums(const zr_plan *plan, const zr_instruction *i)
{
    const zr_flat_param *flat_param = i->flat_param >= 0 ? &plan->flat_params[i->flat_param] : NULL;
    if (i->code == ZR_REDUCE && zr_flat_param_sums_on_nvme(flat_param))
        return (zr_buffer_ref){ZR_BUFFER_STAGED_SUMS, flat_param->accumulator_first};
    bool writes = (i->code == ZR_OPEN && i->place.buffer == ZR_BUFFER_OPEN_SUMS) ||
                  (i->code == ZR_FETCH && flat_param && i->slot.kind != ZR_SLOT_FETCHED);
    return writes ? i->place : (zr_buffer_ref){0};
}

static void expect_no_transfer(const operand *list, const zr_plan *plan, const zr_instruction *i)
{
    const zr_buffer_ref place = written_sums(plan, i);
    for (int p = 0; p < plan->flat_param_count && place.buffer; p++) {
        int64_t end =
            place.first + zr_bytes_in_buffer(plan, &plan->flat_params[i->flat_param], place.buffer);
        if (list[p].read && list[p].place.buffer == place.buffer && list[p].place.first < end &&
            place.first < list[p].end)
            fail_msg("flat parameter %d is written (%s) where a transfer of flat parameter %d is "
                     "under way",
                     i->flat_param, zr_code_names[i->code], p);
    }
}

static void replay_transfers(const zr_plan *plan, transfers *all, const zr_instruction *i)
{
    operand *transfer = transfer_of(all, i->slot);
    expect_no_transfer(all->sums, plan, i);
    expect_no_transfer(all->parked, plan, i);
    if (!transfer)
        return;
    const zr_buffer_ref place = i->code == ZR_FETCH ? i->place : i->from;
    if (i->code == ZR_AWAIT)
        transfer->read = false;
    else
        *transfer = (operand){
            place,
            place.first + zr_bytes_in_buffer(plan, &plan->flat_params[i->flat_param], place.buffer),
            true};
}

void program_check_transfers(const zr_plan *plan)
{
    program_turn turns[PROGRAM_MOST_TURNS];
    transfers all = {0};
    assert_true(plan->flat_param_count <= 64);
    int count = program_turns(plan, turns);
    for (int t = 0; t < count; t++) {
        const zr_pass *pass = &plan->program.passes[turns[t].pass];
        for (int i = 0; i < pass->count; i++)
            if (pass->at[i].when != ZR_LATER || turns[t].holds >> ZR_LATER & 1)
                replay_transfers(plan, &all, &pass->at[i]);
    }
}

static void check_micro_batch(const zr_plan *plan)
{
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    int forward = 0, backward = plan->unit_count - 1;
    for (int i = 0; i < pass->count; i++) {
        const zr_instruction *call = &pass->at[i];
        if (call->code != ZR_CALL || call->what == ZR_CALL_AGAIN)
            continue;
        bool first = call->what != ZR_CALL_BACKWARD;
        assert_int_equal(first, i < pass->forward_end);
        assert_int_equal(call->unit, first ? forward++ : backward);
        backward -= call->what != ZR_CALL_FORWARD;
    }
    assert_int_equal(forward, plan->unit_count);
    assert_int_equal(backward, -1);
}

// Says whether a unit has a call in a pass of its chunk, and which one.
static bool called(const zr_unit_plan *unit, zr_chunk_part part, zr_call *what)
{
    *what = part != ZR_CHUNK_BACKWARD ? (part == ZR_CHUNK_WEIGHT ? ZR_CALL_WEIGHT : ZR_CALL_FORWARD)
            : unit->fused             ? ZR_CALL_BOTH
            : unit->split             ? ZR_CALL_INPUT
                                      : ZR_CALL_BACKWARD;
    return part == ZR_CHUNK_FORWARD ? !unit->fused : part == ZR_CHUNK_WEIGHT ? unit->split : true;
}

// Checks the calls of a pass, each of which comes after those of the units before it (forward) or
// after it (backward).
static void check_chunk(const zr_plan *plan, int c, zr_chunk_part part)
{
    const zr_chunk_plan *chunk = &plan->chunks[c];
    const zr_pass *pass = &plan->program.passes[zr_chunk_pass(part, c)];
    bool ascending = part == ZR_CHUNK_FORWARD || part == ZR_CHUNK_EVALUATION;
    int step = ascending ? 1 : -1, u = ascending ? chunk->first_unit : chunk->end_unit - 1;
    zr_call what;
    for (int i = 0; i < pass->count; i++) {
        const zr_instruction *call = &pass->at[i];
        if (call->code != ZR_CALL || call->what == ZR_CALL_AGAIN)
            continue;
        while (u >= chunk->first_unit && u < chunk->end_unit &&
               !called(&plan->units[u], part, &what))
            u += step;
        assert_in_range(u, chunk->first_unit, chunk->end_unit - 1);
        (void)called(&plan->units[u], part, &what);
        assert_int_equal(call->unit, u);
        assert_int_equal(call->what, what);
        u += step;
    }
    for (; u >= chunk->first_unit && u < chunk->end_unit; u += step)
        assert_false(called(&plan->units[u], part, &what));
}

void program_check_calls(const zr_plan *plan)
{
    if (!plan->pipeline)
        check_micro_batch(plan);
    for (int c = 0; c < plan->chunk_count && plan->pipeline; c++)
        for (zr_chunk_part part = ZR_CHUNK_FORWARD; part < ZR_CHUNK_PARTS; part++)
            check_chunk(plan, c, part);
}

static bool is_exchange(const zr_instruction *i, zr_code code)
{
    return i->code == code && i->place.buffer != ZR_BUFFER_NONE;
}

int program_calls_overlapped(const zr_plan *plan, zr_code code)
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
