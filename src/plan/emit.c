// Writes the program: every pass, by means of the emitters. What lay in a place before is known
// here, so the engine waits only for that.
//
// A pass begins after another of its kind, or after an evaluation. To find the places that these
// leave taken, both are written once beforehand.
#include "plan/emit.h"

#include "plan/plan_parts.h"

#include <string.h>

const zr_stage_emitter *zr_stage_of(const zr_plan *plan)
{
    static const zr_stage_emitter *const stages[] = {
        &zr_emit_stage0,
        &zr_emit_stage12,
        &zr_emit_stage12,
        &zr_emit_mapped,
    };
    return plan->holding == ZR_HOLDS_SHARDS ? &zr_emit_gathered : stages[plan->settings.stage];
}

// Makes room for one more element of `size` bytes in a list; where there is none, sets the status
// and returns false.
static bool has_room(zr_emitter *e, void **list, size_t size, int count, int *capacity)
{
    void *grown =
        e->status == ZERO_OK ? zr_list_grow(*list, count, capacity, size, e->error) : NULL;
    if (!grown) {
        e->status = ZERO_ERR_MEMORY;
        return false;
    }
    *list = grown;
    return true;
}

void zr_emit(zr_emitter *e, const zr_instruction *next)
{
    zr_pass *pass = e->pass;
    if (!has_room(e, (void **)&pass->at, sizeof *pass->at, pass->count, &pass->capacity))
        return;
    pass->at[pass->count] = *next;
    pass->at[pass->count++].unit = e->unit;
}

void zr_emit_bind(zr_emitter *e, int piece, zr_place place)
{
    zr_emit(e, &(zr_instruction){.code = ZR_BIND, .piece = piece, .place = place});
}

void zr_emit_unbind(zr_emitter *e, int piece, zr_space space)
{
    zr_emit(e, &(zr_instruction){.code = ZR_UNBIND, .piece = piece, .place.space = space});
}

void zr_emit_await(zr_emitter *e, zr_when when, zr_slot_kind kind, int index)
{
    const zr_slot slot = {kind, index};
    zr_emit(e, &(zr_instruction){.code = ZR_AWAIT, .when = when, .piece = -1, .slot = slot});
}

void zr_emit_await_readers(zr_emitter *e, zr_when when, zr_space window, int piece)
{
    const zr_slot slot = {ZR_SLOT_READERS, piece};
    zr_emit(
        e,
        &(zr_instruction){
            .code = ZR_AWAIT, .when = when, .piece = piece, .place.space = window, .slot = slot});
}

void zr_emit_mark(zr_emitter *e, zr_mark mark, int piece)
{
    zr_instruction *last = e->pass->count ? &e->pass->at[e->pass->count - 1] : NULL;
    if (last && last->mark == ZR_UNMARKED && last->code != ZR_CALL) {
        last->mark = mark;
        last->stream = piece;
        return;
    }
    zr_emit(e, &(zr_instruction){.code = ZR_UNBIND,
                                 .piece = piece,
                                 .place.space = ZR_SPACE_PARAMETERS,
                                 .mark = mark,
                                 .stream = piece});
}

static bool overlaps(const zr_occupant *lies, zr_place place, int64_t end)
{
    return lies->place.space == place.space && lies->place.first < end && place.first < lies->end;
}

static bool is_slot(zr_slot a, zr_slot b) { return a.kind == b.kind && a.index == b.index; }

void zr_emit_await_place(zr_emitter *e, zr_when when, zr_place place, int64_t bytes)
{
    for (int i = 0; i < e->occupants.count; i++) {
        const zr_occupant *lies = &e->occupants.at[i];
        if (!overlaps(lies, place, place.first + bytes))
            continue;
        if (lies->slot.kind == ZR_SLOT_READERS)
            zr_emit_await_readers(e, when, place.space, lies->slot.index);
        else
            zr_emit_await(e, when, lies->slot.kind, lies->slot.index);
    }
}

// Removes the occupants of these bytes of a space, and where this slot was in this space before.
static void forget(zr_occupants *occupants, zr_place place, int64_t end, zr_slot slot)
{
    int kept = 0;
    for (int i = 0; i < occupants->count; i++) {
        const zr_occupant *lies = &occupants->at[i];
        bool same = lies->place.space == place.space && is_slot(lies->slot, slot);
        if (!same && !overlaps(lies, place, end))
            occupants->at[kept++] = *lies;
    }
    occupants->count = kept;
}

static void add_occupant(zr_emitter *e, const zr_occupant *lies)
{
    zr_occupants *all = &e->occupants;
    if (has_room(e, (void **)&all->at, sizeof *all->at, all->count, &all->capacity))
        all->at[all->count++] = *lies;
}

void zr_emit_occupy(zr_emitter *e, zr_place place, int64_t bytes, zr_slot slot)
{
    const zr_occupant lies = {place, place.first + bytes, slot};
    forget(&e->occupants, place, lies.end, slot);
    add_occupant(e, &lies);
}

// Writes a pass anew. The occupants change from those with which it begins to those with which it
// ends.
static void write_pass(zr_emitter *e, zr_pass_kind kind)
{
    void (*const writers[ZR_PASS_COUNT])(zr_emitter *) = {
        [ZR_PASS_MICRO_BATCH] = e->order->micro_batch, [ZR_PASS_EVALUATION] = e->order->evaluation,
        [ZR_PASS_BOUNDARY] = zr_emit_boundary,         [ZR_PASS_UPDATE] = zr_emit_update,
        [ZR_PASS_PUBLISH] = zr_emit_publish,
    };
    e->pass = &e->program->passes[kind];
    e->pass->count = 0;
    e->trains = kind == ZR_PASS_MICRO_BATCH;
    e->unit = e->fetched = e->returned = e->segment = -1;
    e->sealed = e->reduced = 0;
    writers[kind](e);
}

// Returns what a micro-batch and an evaluation leave behind, because any of it may lie there when
// the next pass begins.
static zr_occupants occupants_at_begin(zr_emitter *e, bool trains)
{
    write_pass(e, ZR_PASS_EVALUATION);
    const zr_occupants evaluated = e->occupants;
    e->occupants = (zr_occupants){0};
    if (trains)
        write_pass(e, ZR_PASS_MICRO_BATCH);
    for (int i = 0; i < evaluated.count; i++)
        add_occupant(e, &evaluated.at[i]);
    zr_free(evaluated.at);
    const zr_occupants both = e->occupants;
    e->occupants = (zr_occupants){0};
    return both;
}

static void begin_with(zr_emitter *e, const zr_occupants *occupants)
{
    e->occupants.count = 0;
    for (int i = 0; i < occupants->count; i++)
        add_occupant(e, &occupants->at[i]);
}

zero_status zr_emit_program(zr_plan *plan, const zr_stage_emitter *stage,
                            const zr_order_emitter *order, zero_error *error)
{
    bool trains = !plan->settings.inference;
    zr_emitter e = {
        .plan = plan, .program = &plan->program, .stage = stage, .order = order, .error = error};
    const zr_occupants first = occupants_at_begin(&e, trains);
    for (zr_pass_kind kind = 0; kind < ZR_PASS_COUNT; kind++) {
        begin_with(&e, &first);
        if (trains || kind == ZR_PASS_EVALUATION || kind == ZR_PASS_PUBLISH)
            write_pass(&e, kind);
    }
    plan->program.fetch_count = plan->visit_count * ZERO_MAX_PIECES;
    zr_free(first.at);
    zr_free(e.occupants.at);
    return e.status;
}

zero_status zr_plan_program(zr_plan *plan, zero_error *error)
{
    return zr_emit_program(plan, zr_stage_of(plan), &zr_emit_accumulate, error);
}
