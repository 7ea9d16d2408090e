// Writes the program: every pass, by means of the emitters, which name values. assign.c finds where
// these lie, and adds the waits for what lay there before.
#include "plan/emit.h"

#include "plan/accumulators.h"
#include "plan/plan_parts.h"
#include "plan/pipeline/tied_weights.h"

#include <limits.h>

const zr_stage_emitter *zr_stage_of(const zr_plan *plan)
{
    switch (plan->holding) {
    case ZR_HOLDS_SHARDS: return &zr_emit_gathered;
    case ZR_HOLDS_A_MAP: return &zr_emit_mapped;
    default: return plan->updates_whole ? &zr_emit_stage0 : &zr_emit_stage12;
    }
}

void zr_emit(zr_emitter *e, const zr_instruction *next)
{
    if (e->status == ZERO_OK)
        e->status = zr_pass_add(e->pass, next, e->error);
    if (e->status == ZERO_OK)
        e->pass->at[e->pass->count - 1].unit = e->unit;
}

zr_buffer_ref zr_emit_value(zr_emitter *e, zr_buffer_id buffer, int number, int64_t bytes)
{
    zr_plan_values *values = &e->values;
    if (!values->at[number].from) {
        values->at[number] =
            (zr_plan_value){.buffer = buffer, .bytes = bytes, .from = e->written + e->pass->count};
        values->begun[values->begun_count++] = number;
    }
    return (zr_buffer_ref){.buffer = buffer, .value = number};
}

zr_buffer_ref zr_emit_sums(zr_emitter *e, zr_buffer_id buffer, int p)
{
    return zr_emit_value(e, buffer, zr_value_of_flat_param(buffer, p),
                         zr_bytes_in_buffer(e->plan, &e->plan->flat_params[p], buffer));
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

void zr_emit_await_bytes(zr_emitter *e, zr_when when, int p, zr_buffer_ref value, zr_slot_kind slot)
{
    zr_emit(
        e, &(zr_instruction){
               .code = ZR_AWAIT, .when = when, .flat_param = p, .place = value, .slot = {slot, p}});
}

void zr_emit_await_readers(zr_emitter *e, zr_when when, zr_buffer_id window, int flat_param)
{
    zr_emit_await_bytes(e, when, flat_param, (zr_buffer_ref){.buffer = window}, ZR_SLOT_READERS);
}

void zr_emit_link(zr_emitter *e, zr_code code, int link)
{
    if (link < 0)
        return;
    zr_emit(e, &(zr_instruction){.code = code,
                                 .flat_param = -1,
                                 .bytes = e->plan->links[link].message,
                                 .slot = {ZR_SLOT_LINK, link}});
}

void zr_emit_mark(zr_emitter *e, zr_body_mark mark, int flat_param)
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

static bool is_of_chunk(zr_pass_kind kind) { return kind >= ZR_PASS_COUNT; }

static zr_chunk_part chunk_part_of_pass(zr_pass_kind kind)
{
    return (zr_chunk_part)((kind - ZR_PASS_COUNT) % ZR_CHUNK_PARTS);
}

static int first_visit_of_pass(const zr_emitter *e, zr_pass_kind kind)
{
    const zr_chunk_plan *chunk = &e->plan->chunks[e->chunk];
    zr_chunk_part part = is_of_chunk(kind) ? chunk_part_of_pass(kind) : ZR_CHUNK_FORWARD;
    return part == ZR_CHUNK_BACKWARD ? chunk->backward_visit
           : part == ZR_CHUNK_WEIGHT ? chunk->weight_visit
                                     : chunk->first_visit;
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

// Whole gradients have their places in the window throughout, in the order of flat parameters.
static void name_whole_gradients(zr_plan *plan, zr_emitter *e)
{
    for (int p = 0; p < plan->flat_param_count; p++) {
        zr_flat_param *flat_param = &plan->flat_params[p];
        if (!zr_flat_param_collects(flat_param))
            continue;
        const zr_buffer_ref named = zr_emit_sums(e, ZR_BUFFER_GRADIENTS, p);
        e->values.at[named.value].to = INT_MAX;
        if (flat_param->whole.buffer == ZR_BUFFER_GRADIENTS)
            flat_param->whole = named;
    }
}

zero_status zr_emit_program(zr_plan *plan, const zr_stage_emitter *stage,
                            const zr_order_emitter *order, zero_error *error)
{
    zr_emitter e = {.plan = plan,
                    .program = &plan->program,
                    .stage = stage,
                    .order = order,
                    .pass = plan->program.passes,
                    .written = ZR_FIRST_INSTRUCTION,
                    .error = error};
    e.status = zr_values_begin(&e.values, plan, error);
    if (e.status == ZERO_OK && zr_plan_whole_gradients(plan))
        name_whole_gradients(plan, &e);
    for (int kind = 0; kind < ZR_PASSES && e.status == ZERO_OK; kind++) {
        if (pass_exists(&e, kind))
            write_pass(&e, kind);
        e.written += plan->program.passes[kind].count;
    }
    plan->program.fetch_count = plan->visit_count * ZERO_MAX_FLAT_PARAMS;
    if (e.status == ZERO_OK)
        e.status = zr_assign_places(plan, &e.values, error);
    zr_values_end(&e.values);
    return e.status;
}

zero_status zr_plan_program(zr_plan *plan, zero_error *error)
{
    const zr_order_emitter *order = plan->pipeline ? &zr_emit_pipeline : &zr_emit_accumulate;
    return zr_emit_program(plan, zr_stage_of(plan), order, error);
}
