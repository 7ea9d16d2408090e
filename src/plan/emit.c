// Writes the program: every pass, by means of the emitters. What lay in a place before is known
// here, so the engine waits only for that.
//
// A pass in which units run begins after any other of these. To find the places that they leave
// taken, all are written once beforehand.
#include "plan/emit.h"

#include "plan/plan_parts.h"
#include "plan/pipeline/tied_weights.h"

#include <string.h>

const zr_stage_emitter *zr_stage_of(const zr_plan *plan)
{
    switch (plan->holding) {
    case ZR_HOLDS_SHARDS: return &zr_emit_gathered;
    case ZR_HOLDS_A_MAP: return &zr_emit_mapped;
    default: return plan->updates_whole ? &zr_emit_stage0 : &zr_emit_stage12;
    }
}

// Makes room for one more element of `size` bytes in a list; where there is none, sets the status
// and returns false.
static bool make_room_in_list(zr_emitter *e, void **list, size_t size, int count, int *capacity)
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
    if (!make_room_in_list(e, (void **)&pass->at, sizeof *pass->at, pass->count, &pass->capacity))
        return;
    pass->at[pass->count] = *next;
    pass->at[pass->count++].unit = e->unit;
}

void zr_emit_bind(zr_emitter *e, int flat_param, zr_buffer_ref place)
{
    zr_emit(e, &(zr_instruction){.code = ZR_BIND, .flat_param = flat_param, .place = place});
}

void zr_emit_unbind(zr_emitter *e, int flat_param, zr_buffer_id buffer)
{
    zr_emit(e,
            &(zr_instruction){.code = ZR_UNBIND, .flat_param = flat_param, .place.buffer = buffer});
}

void zr_emit_await(zr_emitter *e, zr_when when, zr_slot_kind kind, int index)
{
    const zr_slot slot = {kind, index};
    zr_emit(e, &(zr_instruction){.code = ZR_AWAIT, .when = when, .flat_param = -1, .slot = slot});
}

void zr_emit_await_readers(zr_emitter *e, zr_when when, zr_buffer_id window, int flat_param)
{
    const zr_slot slot = {ZR_SLOT_READERS, flat_param};
    zr_emit(e, &(zr_instruction){.code = ZR_AWAIT,
                                 .when = when,
                                 .flat_param = flat_param,
                                 .place.buffer = window,
                                 .slot = slot});
}

void zr_emit_mark(zr_emitter *e, zr_mark mark, int flat_param)
{
    zr_instruction *last = e->pass->count ? &e->pass->at[e->pass->count - 1] : NULL;
    if (last && last->mark == ZR_UNMARKED && last->code != ZR_CALL) {
        last->mark = mark;
        last->stream = flat_param;
        return;
    }
    zr_emit(e, &(zr_instruction){.code = ZR_UNBIND,
                                 .flat_param = flat_param,
                                 .place.buffer = ZR_BUFFER_PARAMETERS,
                                 .mark = mark,
                                 .stream = flat_param});
}

static bool overlaps_place(const zr_occupant *lies, zr_buffer_ref place, int64_t end)
{
    return lies->place.buffer == place.buffer && lies->place.first < end && place.first < lies->end;
}

static bool is_same_slot(zr_slot a, zr_slot b) { return a.kind == b.kind && a.index == b.index; }

void zr_emit_await_buffer(zr_emitter *e, zr_when when, zr_buffer_ref place, int64_t bytes)
{
    for (int i = 0; i < e->occupants.count; i++) {
        const zr_occupant *lies = &e->occupants.at[i];
        if (!overlaps_place(lies, place, place.first + bytes))
            continue;
        if (lies->slot.kind == ZR_SLOT_READERS)
            zr_emit_await_readers(e, when, place.buffer, lies->slot.index);
        else
            zr_emit_await(e, when, lies->slot.kind, lies->slot.index);
    }
}

// Removes the occupants of these bytes of a buffer, and where this slot was in this buffer before.
static void remove_occupants(zr_occupants *occupants, zr_buffer_ref place, int64_t end,
                             zr_slot slot)
{
    int kept = 0;
    for (int i = 0; i < occupants->count; i++) {
        const zr_occupant *lies = &occupants->at[i];
        bool same = lies->place.buffer == place.buffer && is_same_slot(lies->slot, slot);
        if (!same && !overlaps_place(lies, place, end))
            occupants->at[kept++] = *lies;
    }
    occupants->count = kept;
}

static void add_occupant(zr_emitter *e, const zr_occupant *lies)
{
    zr_occupants *all = &e->occupants;
    if (make_room_in_list(e, (void **)&all->at, sizeof *all->at, all->count, &all->capacity))
        all->at[all->count++] = *lies;
}

void zr_emit_occupy(zr_emitter *e, zr_buffer_ref place, int64_t bytes, zr_slot slot)
{
    const zr_occupant lies = {place, place.first + bytes, slot};
    remove_occupants(&e->occupants, place, lies.end, slot);
    add_occupant(e, &lies);
}

static bool is_of_chunk(zr_pass_kind kind) { return kind >= ZR_PASS_COUNT; }

static zr_chunk_part chunk_part_of_pass(zr_pass_kind kind)
{
    return (zr_chunk_part)((kind - ZR_PASS_COUNT) % ZR_CHUNK_PARTS);
}

static int first_visit_of_pass(const zr_emitter *e, zr_pass_kind kind)
{
    const zr_chunk_plan *chunk = &e->plan->chunks[e->chunk];
    if (is_of_chunk(kind) && chunk_part_of_pass(kind) == ZR_CHUNK_BACKWARD)
        return chunk->backward_visit;
    if (is_of_chunk(kind) && chunk_part_of_pass(kind) == ZR_CHUNK_WEIGHT)
        return chunk->weight_visit;
    return chunk->first_visit;
}

static void begin_pass(zr_emitter *e, zr_pass_kind kind)
{
    const zr_plan *plan = e->plan;
    e->pass = &e->program->passes[kind];
    e->pass->count = 0;
    e->unit = e->returned = e->segment = -1;
    e->chunk = is_of_chunk(kind) ? (kind - ZR_PASS_COUNT) / ZR_CHUNK_PARTS : 0;
    e->trains = is_of_chunk(kind) ? chunk_part_of_pass(kind) != ZR_CHUNK_EVALUATION
                                  : kind == ZR_PASS_MICRO_BATCH;
    int first = first_visit_of_pass(e, kind);
    e->fetched = first - 1;
    e->sealed = 0;
    while (e->sealed < plan->sealed_count &&
           plan->flat_params[plan->sealed[e->sealed]].sealed_at < first)
        e->sealed++;
    e->reduced = e->sealed;
}

// Writes a pass anew. The occupants change from those with which it begins to those with which it
// ends.
static void write_pass(zr_emitter *e, zr_pass_kind kind)
{
    void (*const writers[ZR_PASS_COUNT])(zr_emitter *) = {
        [ZR_PASS_MICRO_BATCH] = e->order->micro_batch,
        [ZR_PASS_EVALUATION] = e->order->evaluation,
        [ZR_PASS_BOUNDARY] = zr_emit_boundary,
        [ZR_PASS_TOTAL] = zr_emit_total,
        [ZR_PASS_UPDATE] = zr_emit_update,
        [ZR_PASS_TIED_WEIGHTS] = zr_emit_tied_weights,
        [ZR_PASS_PUBLISH] = zr_emit_publish,
    };
    begin_pass(e, kind);
    if (is_of_chunk(kind))
        e->order->chunk(e, chunk_part_of_pass(kind));
    else
        writers[kind](e);
}

// Says whether the program has the pass, and whether units run in it.
static bool pass_exists(const zr_emitter *e, zr_pass_kind kind)
{
    bool trains = !e->plan->settings.inference;
    bool whole = kind == ZR_PASS_MICRO_BATCH || kind == ZR_PASS_EVALUATION;
    if (is_of_chunk(kind))
        return e->plan->pipeline &&
               (int)(kind - ZR_PASS_COUNT) / ZR_CHUNK_PARTS < e->plan->chunk_count;
    if (whole && e->plan->pipeline)
        return false;
    return trains || kind == ZR_PASS_EVALUATION || kind == ZR_PASS_PUBLISH;
}

static bool runs_units(zr_pass_kind kind)
{
    return is_of_chunk(kind) || kind == ZR_PASS_MICRO_BATCH || kind == ZR_PASS_EVALUATION;
}

// Returns what the passes in which units run leave behind, because any of it may lie there when the
// next pass begins.
static zr_occupants occupants_at_begin(zr_emitter *e)
{
    zr_occupants all = {0};
    for (int kind = 0; kind < ZR_PASSES; kind++) {
        if (!pass_exists(e, kind) || !runs_units(kind))
            continue;
        e->occupants.count = 0;
        write_pass(e, kind);
        const zr_occupants left = e->occupants;
        e->occupants = all;
        for (int i = 0; i < left.count; i++)
            add_occupant(e, &left.at[i]);
        all = e->occupants;
        e->occupants = left;
    }
    e->occupants.count = 0;
    return all;
}

static void begin_with_occupants(zr_emitter *e, const zr_occupants *occupants)
{
    e->occupants.count = 0;
    for (int i = 0; i < occupants->count; i++)
        add_occupant(e, &occupants->at[i]);
}

zero_status zr_emit_program(zr_plan *plan, const zr_stage_emitter *stage,
                            const zr_order_emitter *order, zero_error *error)
{
    zr_emitter e = {
        .plan = plan, .program = &plan->program, .stage = stage, .order = order, .error = error};
    const zr_occupants first = occupants_at_begin(&e);
    for (int kind = 0; kind < ZR_PASSES; kind++) {
        begin_with_occupants(&e, &first);
        if (pass_exists(&e, kind))
            write_pass(&e, kind);
    }
    plan->program.fetch_count = plan->visit_count * ZERO_MAX_FLAT_PARAMS;
    zr_free(first.at);
    zr_free(e.occupants.at);
    return e.status;
}

zero_status zr_plan_program(zr_plan *plan, zero_error *error)
{
    const zr_order_emitter *order = plan->pipeline ? &zr_emit_pipeline : &zr_emit_accumulate;
    return zr_emit_program(plan, zr_stage_of(plan), order, error);
}
