// Gives every value its bytes, as a compiler gives virtual registers their registers.
//
//   1. ends     live ranges (live_ranges.c) give the last instruction that needs a value
//   2. places   first fit, in the order in which values begin: a place begins in the lowest gap
//               that is large enough, and the buffer needs the highest end that is ever reached
//   3. program  instructions get bytes instead of values, and an AWAIT of a value's bytes becomes
//               the AWAITs of what lay there: its readers have drained it, or its transfer has
//               ended. So the engine never looks for what lay where
//
// A value ends in the pass in which it begins; other passes use it in the same place. Passes may
// run in any order, so each begins with what any of them leaves behind.
#include "base/alloc.h"
#include "plan/accumulators.h"
#include "plan/emit.h"

enum { OF_FLAT_PARAM = 3 }; // values

typedef struct region { // one buffer
    zr_plan_value **at; // (count) what lies there, sorted by first
    int count, capacity;
    int64_t first; // from here on places are given
    int64_t bytes; // that it needs
} region;

typedef struct occupant { // what was last begun in bytes [place.first, end) of a buffer
    zr_buffer_ref place;
    int64_t end;
    zr_slot slot;
} occupant;

typedef struct occupants {
    occupant *at; // (count)
    int count, capacity;
} occupants;

typedef struct assigner {
    zr_plan *plan;
    zr_plan_values *values;
    region regions[ZR_BUFFER_COUNT];
    occupants first;    // what any pass leaves behind
    occupants now;      // where the pass is
    zero_status status; // sticky: ZERO_ERR_MEMORY
    zero_error *error;
} assigner;

int zr_value_of_flat_param(zr_buffer_id buffer, int p)
{
    int i = buffer == ZR_BUFFER_GRADIENTS ? 0 : buffer == ZR_BUFFER_OPEN_SUMS ? 1 : 2;
    return 1 + p * OF_FLAT_PARAM + i;
}

// After the values of all flat parameters.
int zr_value_of_visit(const zr_plan *plan, int v, int i)
{
    bool stages = plan->settings.tiering.parameters == ZERO_TIER_nvme;
    int of_visit = ZR_VALUE_STAGED + (stages ? ZERO_MAX_FLAT_PARAMS : 0);
    return 1 + plan->flat_param_count * OF_FLAT_PARAM + v * of_visit + i;
}

zero_status zr_values_begin(zr_plan_values *values, const zr_plan *plan, zero_error *error)
{
    *values = (zr_plan_values){.count = zr_value_of_visit(plan, plan->visit_count, 0)};
    values->at = zr_alloc((size_t)values->count * sizeof *values->at, error);
    values->begun = zr_alloc((size_t)values->count * sizeof *values->begun, error);
    return values->at && values->begun ? ZERO_OK : ZERO_ERR_MEMORY;
}

void zr_values_end(zr_plan_values *values)
{
    zr_free(values->at);
    zr_free(values->begun);
    *values = (zr_plan_values){0};
}

// Notes that an instruction of a pass needs a value, if the value has begun in that pass.
static void need_value(zr_plan_values *values, int number, int pass_first, int instruction)
{
    zr_plan_value *value = &values->at[number];
    if (number && value->from >= pass_first)
        value->to = instruction;
}

// Finds the ends of the values that begin in a pass. What is stored leaves with its STORE, because
// what comes to its bytes then waits for the transfer.
static void find_ends(assigner *a, zr_pass_kind kind, int first)
{
    const zr_pass *pass = &a->plan->program.passes[kind];
    zr_live_ranges ranges = {0};
    if (pass->count > 0)
        a->status = zr_live_ranges_of(a->plan, kind, &ranges, a->error);
    for (const zr_live_range *r = ranges.at; r < ranges.at + ranges.count; r++)
        if (first + r->to > a->values->at[r->value].to)
            need_value(a->values, r->value, first, first + r->to);
    for (int i = 0; i < pass->count; i++)
        if (pass->at[i].code == ZR_STORE)
            need_value(a->values, pass->at[i].from.value, first, first + i);
    zr_live_ranges_free(&ranges);
}

// Takes the lowest bytes that are free from when a value begins.
static zero_status take_place(region *r, zr_plan_value *value, zero_error *error)
{
    int left = 0, i = 0;
    void *grown = zr_list_grow(r->at, r->count, &r->capacity, sizeof *r->at, error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    r->at = grown;
    for (int k = 0; k < r->count; k++)
        if (r->at[k]->to >= value->from)
            r->at[left++] = r->at[k];
    r->count = left;
    value->first = r->first;
    for (; i < r->count && r->at[i]->first - value->first < value->bytes; i++)
        value->first = r->at[i]->first + r->at[i]->bytes;
    for (int k = r->count++; k > i; k--)
        r->at[k] = r->at[k - 1];
    r->at[i] = value;
    r->bytes = ZR_MAX(r->bytes, value->first + value->bytes);
    return ZERO_OK;
}

// Kept flat parameters come first in the gather window.
static void place_values(assigner *a)
{
    region *gathered = &a->regions[ZR_BUFFER_GATHERED];
    gathered->first = gathered->bytes = a->plan->gather_bytes;
    for (int i = 0; i < a->values->begun_count && a->status == ZERO_OK; i++) {
        zr_plan_value *value = &a->values->at[a->values->begun[i]];
        a->status = take_place(&a->regions[value->buffer], value, a->error);
    }
}

static zr_buffer_ref place_of(const zr_plan_values *values, zr_buffer_ref named)
{
    if (named.value)
        named.first += values->at[named.value].first;
    named.value = 0;
    return named;
}

static void note_places(assigner *a)
{
    zr_plan *plan = a->plan;
    plan->gather_bytes = a->regions[ZR_BUFFER_GATHERED].bytes;
    plan->gather_share = zr_plan_share_of_machine(plan, plan->gather_bytes);
    plan->grad_bytes = a->regions[ZR_BUFFER_GRADIENTS].bytes;
    plan->open_bytes = a->regions[ZR_BUFFER_OPEN_SUMS].bytes;
    plan->staged_parameter_bytes = a->regions[ZR_BUFFER_STAGED_PARAMETERS].bytes;
    plan->staged_gradient_bytes = a->regions[ZR_BUFFER_STAGED_SUMS].bytes;
    for (int p = 0; p < plan->flat_param_count; p++) {
        zr_flat_param *flat_param = &plan->flat_params[p];
        const zr_plan_value *gradient =
            &a->values->at[zr_value_of_flat_param(ZR_BUFFER_GRADIENTS, p)];
        const zr_plan_value *sum = &a->values->at[zr_value_of_flat_param(ZR_BUFFER_STAGED_SUMS, p)];
        if (gradient->from)
            flat_param->grad_first = gradient->first;
        if (sum->from)
            flat_param->accumulator_first = sum->first;
        flat_param->whole = place_of(a->values, flat_param->whole);
    }
}

static bool overlaps(const occupant *a, const occupant *b)
{
    return a->place.buffer == b->place.buffer && a->place.first < b->end && b->place.first < a->end;
}

static bool is_same_slot(const occupant *a, const occupant *b)
{
    return a->place.buffer == b->place.buffer && a->slot.kind == b->slot.kind &&
           a->slot.index == b->slot.index;
}

static void add_occupant(assigner *a, occupants *all, const occupant *next)
{
    void *grown = zr_list_grow(all->at, all->count, &all->capacity, sizeof *all->at, a->error);
    if (!grown) {
        a->status = ZERO_ERR_MEMORY;
        return;
    }
    all->at = grown;
    all->at[all->count++] = *next;
}

// Records what was begun in these bytes. Forgets what was there, and where this slot was in the
// buffer before.
static void occupy(assigner *a, const occupant *next)
{
    int left = 0;
    for (int i = 0; i < a->now.count; i++) {
        const occupant *lies = &a->now.at[i];
        if (!is_same_slot(lies, next) && !overlaps(lies, next))
            a->now.at[left++] = *lies;
    }
    a->now.count = left;
    add_occupant(a, &a->now, next);
}

static void add_instruction(assigner *a, zr_pass *out, const zr_instruction *next)
{
    if (a->status == ZERO_OK)
        a->status = zr_pass_add(out, next, a->error);
}

// Says whether what lies somewhere is awaited before the next one comes. On a far device the others
// read where a slot was before, and what comes there once the slot is elsewhere does not wait for
// them; on the host a rank writes where others may read only when they have come as far.
static bool is_awaited(const assigner *a, const occupant *lies, const occupant *next)
{
    return overlaps(lies, next) ||
           (a->plan->far && lies->slot.kind == ZR_SLOT_READERS && is_same_slot(lies, next));
}

static void await_occupants(assigner *a, const zr_instruction *i, const occupant *next,
                            zr_pass *out)
{
    for (int k = 0; k < a->now.count; k++) {
        const occupant *lies = &a->now.at[k];
        bool read = lies->slot.kind == ZR_SLOT_READERS;
        if (is_awaited(a, lies, next))
            add_instruction(
                a, out,
                &(zr_instruction){.code = ZR_AWAIT,
                                  .when = i->when,
                                  .unit = i->unit,
                                  .flat_param = read ? lies->slot.index : -1,
                                  .place.buffer = read ? lies->place.buffer : ZR_BUFFER_NONE,
                                  .slot = lies->slot});
    }
}

// Follows an instruction. An AWAIT of a value's bytes becomes the AWAITs of what lies there, and
// the value comes there in its turn. out: NULL if the program is not written yet.
static void follow_occupants(assigner *a, const zr_instruction *i, zr_pass *out)
{
    bool awaits = i->code == ZR_AWAIT && i->place.value;
    bool leaves = i->code == ZR_STORE && i->slot.kind == ZR_SLOT_PARKED;
    if (!awaits && !leaves)
        return;
    occupant next = {place_of(a->values, awaits ? i->place : i->from), 0, i->slot};
    next.end = next.place.first +
               zr_bytes_in_buffer(a->plan, &a->plan->flat_params[i->flat_param], next.place.buffer);
    if (out && awaits)
        await_occupants(a, i, &next, out);
    if (i->slot.kind != ZR_NO_SLOT)
        occupy(a, &next);
}

static void find_left_behind(assigner *a, const zr_pass *pass)
{
    a->now.count = 0;
    for (int i = 0; i < pass->count; i++)
        follow_occupants(a, &pass->at[i], NULL);
    for (int i = 0; i < a->now.count && a->status == ZERO_OK; i++)
        add_occupant(a, &a->first, &a->now.at[i]);
}

static void write_instruction(assigner *a, const zr_instruction *i, zr_pass *out)
{
    zr_instruction next = *i;
    next.place = place_of(a->values, i->place);
    next.from = place_of(a->values, i->from);
    if (i->code != ZR_AWAIT || !i->place.value)
        add_instruction(a, out, &next);
}

// Writes a pass anew. Bodies of calls and the end of forward move with their instructions.
static void write_pass(assigner *a, zr_pass *pass)
{
    zr_pass out = {0};
    int call = 0, body_end = -1;
    a->now.count = 0;
    for (int i = 0; i < a->first.count && a->status == ZERO_OK; i++)
        add_occupant(a, &a->now, &a->first.at[i]);
    for (int i = 0; i <= pass->count && a->status == ZERO_OK; i++) {
        if (i == pass->forward_end)
            out.forward_end = out.count;
        if (i == body_end)
            out.at[call].body = out.count - call - 1;
        if (i == pass->count)
            break;
        if (pass->at[i].code == ZR_CALL) {
            call = out.count;
            body_end = i + pass->at[i].body + 1;
        }
        follow_occupants(a, &pass->at[i], &out);
        write_instruction(a, &pass->at[i], &out);
    }
    zr_free(pass->at);
    *pass = out;
}

zero_status zr_assign_places(zr_plan *plan, zr_plan_values *values, zero_error *error)
{
    assigner a = {.plan = plan, .values = values, .error = error};
    zr_pass *passes = plan->program.passes;
    for (int kind = 0, first = ZR_FIRST_INSTRUCTION; kind < ZR_PASSES && a.status == ZERO_OK;
         first += passes[kind++].count)
        find_ends(&a, (zr_pass_kind)kind, first);
    place_values(&a);
    note_places(&a);
    for (int kind = 0; kind < ZR_PASSES && a.status == ZERO_OK; kind++)
        find_left_behind(&a, &passes[kind]);
    for (int kind = 0; kind < ZR_PASSES && a.status == ZERO_OK; kind++)
        write_pass(&a, &passes[kind]);
    for (int buffer = 0; buffer < ZR_BUFFER_COUNT; buffer++)
        zr_free(a.regions[buffer].at);
    zr_free(a.first.at);
    zr_free(a.now.at);
    return a.status;
}
