// Both ranks run the same trace, and the other rank is as far behind as the AWAITs of this one
// allow. If this rank has awaited a sum, the other has started it; if it has awaited a gather from
// outside its window, the other awaits that too; and so on (others_before).
#include "await_reasons.h"

#include "plan/accumulators.h"

#include <stdlib.h>

// A barrier follows when weights were rewritten: like scalars, every rank has to come to it.
static const zr_instruction rewritten = {.code = ZR_SCALARS};

static void add(trace *trace, const traced *next)
{
    if (trace->count == trace->capacity) {
        trace->capacity = trace->capacity ? 2 * trace->capacity : 1024;
        trace->at = realloc(trace->at, (size_t)trace->capacity * sizeof *trace->at);
        if (!trace->at)
            abort();
    }
    trace->at[trace->count++] = *next;
}

static void add_pass(trace *trace, zr_pass_kind kind, uint32_t holds)
{
    const zr_pass *pass = &trace->plan->program.passes[kind];
    for (int i = 0; i < pass->count; i++)
        if (pass->at[i].when == ZR_ALWAYS || holds >> pass->at[i].when & 1)
            add(trace, &(traced){&pass->at[i], kind, i});
}

static uint32_t kept_flat_params(bool *outdated)
{
    uint32_t holds = 1u << (*outdated ? ZR_OUTDATED : ZR_FRESH);
    *outdated = false;
    return holds;
}

static void add_micro_batches(trace *trace, bool *outdated)
{
    const zr_settings *settings = &trace->plan->settings;
    int64_t last = settings->accumulation - 1;
    for (int64_t k = 0; k <= last; k++) {
        bool later = zr_sum_slots_of(settings, k).adds > 0;
        add_pass(trace, ZR_PASS_MICRO_BATCH,
                 kept_flat_params(outdated) | (uint32_t)(k == 0) << ZR_FIRST |
                     (uint32_t)later << ZR_LATER | (uint32_t)(k == last) << ZR_LAST);
    }
}

static void add_update(trace *trace, int step)
{
    bool delayed = trace->plan->settings.delayed;
    add_pass(trace, ZR_PASS_UPDATE,
             1u << ZR_FINITE | 1u << ZR_CHANGED | (uint32_t)!delayed << ZR_AT_ONCE |
                 (uint32_t)(delayed && step > 0) << ZR_STALE);
    add_pass(trace, ZR_PASS_PUBLISH, (uint32_t)delayed << ZR_OVERLAPPED);
}

void trace_of(const zr_plan *plan, bool shares, int steps, trace *out)
{
    bool outdated = true;
    *out = (trace){.plan = plan, .shares = shares};
    add_pass(out, ZR_PASS_PUBLISH, 1u << ZR_REWRITTEN);
    add(out, &(traced){&rewritten, ZR_PASS_COUNT, 0});
    add_pass(out, ZR_PASS_EVALUATION, kept_flat_params(&outdated));
    for (int step = 0; step < steps; step++) {
        add_micro_batches(out, &outdated);
        add_pass(out, ZR_PASS_BOUNDARY, 0);
        add_update(out, step);
        outdated = true;
    }
    add_pass(out, ZR_PASS_EVALUATION, kept_flat_params(&outdated));
    add_pass(out, ZR_PASS_EVALUATION, kept_flat_params(&outdated));
}

void trace_free(trace *trace) { free(trace->at); }

typedef struct view { // of a trace that lacks some AWAITs
    const trace *trace;
    const dropped *without;
} view;

static const zr_instruction *at(const view *v, int t) { return v->trace->at[t].i; }

static bool awaits(const view *v, int t)
{
    const traced *now = &v->trace->at[t];
    return now->i->code == ZR_AWAIT && !v->without->at[now->pass][now->at];
}

static bool awaits_slot(const view *v, int t, zr_slot slot)
{
    const zr_slot *other = &at(v, t)->slot;
    bool covers =
        slot.kind == ZR_SLOT_GROUP ? other->index <= slot.index : other->index == slot.index;
    return awaits(v, t) && other->kind == slot.kind && covers;
}

static bool begins(const view *v, int t, zr_slot slot)
{
    const zr_instruction *i = at(v, t);
    if (i->code == ZR_AWAIT || i->slot.kind != slot.kind)
        return false;
    return slot.kind == ZR_SLOT_GROUP || i->slot.index == slot.index;
}

// The last before t that begins what the slot is about; -1: nothing has.
static int begin_before(const view *v, int t, zr_slot slot)
{
    while (--t >= 0 && !begins(v, t, slot))
        ;
    return t;
}

static int await_after(const view *v, int t, zr_slot slot)
{
    while (++t < v->trace->count && !awaits_slot(v, t, slot))
        ;
    return t;
}

// Where the flat parameter's last exchange in this window before t was awaited, and drained; -1:
// none was.
static int drained_before(const view *v, int t, zr_buffer_id window, int flat_param)
{
    for (int b = t - 1; b >= 0; b--) {
        const zr_instruction *i = at(v, b);
        bool sums = i->code == ZR_REDUCE, exchanges = sums || i->code == ZR_GATHER;
        if (exchanges && i->flat_param == flat_param && i->place.buffer == window)
            return await_after(v, b, (zr_slot){sums ? ZR_SLOT_SUM : ZR_SLOT_GATHER, flat_param});
    }
    return -1;
}

// Having passed t, this rank knows that the others have done all before this instruction.
static int others_before(const view *v, int t)
{
    const zr_instruction *i = at(v, t);
    if (i->code == ZR_SCALARS)
        return t;
    if (!awaits(v, t))
        return 0;
    int begun = begin_before(v, t, i->slot);
    switch (i->slot.kind) {
    case ZR_SLOT_GATHER:
        if (begun >= 0 && at(v, begun)->place.buffer == ZR_BUFFER_GATHERED)
            return await_after(v, begun, i->slot);
        return begun + 1;
    case ZR_SLOT_SUM:
    case ZR_SLOT_PUBLISHED:
    case ZR_SLOT_RELEASED: return begun + 1;
    case ZR_SLOT_READERS: return drained_before(v, t, i->place.buffer, i->slot.index) + 1;
    default: return 0;
    }
}

// Contributions that are opened in a place of their own find zeros in its gaps, and leave them.
static bool touches(const view *v, const zr_instruction *i)
{
    static const bool does[ZR_CODE_COUNT] = {
        [ZR_REDUCE] = true, [ZR_FETCH] = true,  [ZR_STORE] = true,   [ZR_ROUND] = true,
        [ZR_CALL] = true,   [ZR_UPDATE] = true, [ZR_SQUARES] = true, [ZR_SCALARS] = true,
    };
    if (i->code == ZR_OPEN)
        return i->place.buffer != ZR_BUFFER_GRADIENTS || !zr_plan_whole_gradients(v->trace->plan);
    return does[i->code] || (i->code == ZR_GATHER && i->place.buffer != ZR_BUFFER_NONE);
}

static int touched_after(const view *v, int t)
{
    while (++t < v->trace->count && !touches(v, at(v, t)))
        ;
    return t;
}

// A call reads the boundary before it and, in forward, writes the one after it.
static bool is_in_buffer(const view *v, int unit, int buffer)
{
    const zr_unit_plan *units = v->trace->plan->units;
    return unit >= 0 && units[unit].out_kept && (units[unit].segment + 1) % 2 == buffer;
}

static int buffer_touched_after(const view *v, int t, bool comes)
{
    int buffer = at(v, t)->slot.index;
    while (++t < v->trace->count) {
        const zr_instruction *i = at(v, t);
        bool calls = i->code == ZR_CALL, forward = calls && i->what == ZR_CALL_FORWARD;
        if (begins(v, t, (zr_slot){ZR_SLOT_KEPT, buffer}) ||
            (forward && is_in_buffer(v, i->unit, buffer)) ||
            (calls && comes && is_in_buffer(v, i->unit - 1, buffer)))
            break;
    }
    return t;
}

static bool stores_sum(const zr_instruction *i, int flat_param)
{
    return i->code == ZR_STORE && i->slot.kind == ZR_SLOT_TRAVELLED && i->flat_param == flat_param;
}

// The sum that an update beside reads is overwritten by the reduction, or by what stores it.
static int sum_touched_after(const view *v, int t)
{
    while (++t < v->trace->count && at(v, t)->code != ZR_REDUCE)
        ;
    if (t == v->trace->count)
        return t;
    int flat_param = at(v, t)->flat_param;
    bool stored = v->trace->plan->flat_params[flat_param].state_tier == ZERO_TIER_nvme;
    while (stored && t < v->trace->count && !stores_sum(at(v, t), flat_param))
        t++;
    return t;
}

static int own_touched_after(const view *v, int t, int begun)
{
    zr_slot slot = at(v, t)->slot;
    if (slot.kind == ZR_SLOT_KEPT)
        return buffer_touched_after(v, t, at(v, begun)->code == ZR_FETCH);
    return slot.kind == ZR_SLOT_GROUP && slot.index >= 0 ? sum_touched_after(v, t)
                                                         : touched_after(v, t);
}

// What this rank itself has begun.
static reason of_own(const view *v, int t)
{
    zr_slot slot = at(v, t)->slot;
    int begun = begin_before(v, t, slot);
    if (begun < 0 || await_after(v, begun, slot) < t)
        return ENDED;
    return await_after(v, t, slot) < own_touched_after(v, t, begun) ? NEXT : NEEDED;
}

// What others have to have done before instruction `end`: all up to `done`.
static reason of_others(const view *v, int done, int end)
{
    for (int a = done + 1; a < end && a < v->trace->count; a++)
        if (others_before(v, a) > done)
            return PASSED;
    return done < 0 ? ENDED : NEEDED;
}

// A call that brings tiles reads nothing before the first: in a pass the embedding reads first.
static int read_after(const view *v, int t)
{
    while (++t < v->trace->count) {
        const zr_instruction *i = at(v, t);
        if (i->code == ZR_CALL ? i->body == 0 : i->mark == ZR_BEGUN)
            break;
    }
    return t;
}

static int update_before(const view *v, int t)
{
    while (--t >= 0 && at(v, t)->code != ZR_UPDATE)
        ;
    return t;
}

static reason of_occurrence(const view *v, int t)
{
    const zr_instruction *i = at(v, t);
    switch (i->slot.kind) {
    case ZR_SLOT_READERS:
        if (i->place.buffer == ZR_BUFFER_GATHERED && v->trace->shares)
            return ENTERED;
        return of_others(v, drained_before(v, t, i->place.buffer, i->slot.index),
                         touched_after(v, t));
    case ZR_SLOT_PUBLISHED:
        return of_others(v, update_before(v, begin_before(v, t, i->slot)), read_after(v, t));
    case ZR_SLOT_RELEASED: return of_others(v, begin_before(v, t, i->slot), touched_after(v, t));
    default: return of_own(v, t);
    }
}

reason reason_without(const trace *trace, const dropped *without, zr_pass_kind pass, int index)
{
    const view v = {trace, without};
    reason most = NEVER_RUN;
    for (int t = 0; t < trace->count; t++) {
        const traced *now = &trace->at[t];
        if (now->pass != pass || now->at != index)
            continue;
        reason why = of_occurrence(&v, t);
        if (why == NEEDED)
            return NEEDED;
        most = ZR_MAX(most, why);
    }
    return most;
}
