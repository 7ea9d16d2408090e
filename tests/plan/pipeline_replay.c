#include "pipeline_replay.h"

#include "plan/plan_parts.h"
#include "program_turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { WINDOWS = 2, EVALUATIONS = 3, MOST_CONTENTS = 2048, MOST_SLOTS = 64, MOST_STEPS = 16 };

typedef enum what { BOUNDARY, SHARE, SAVED, HELD, GRADIENT } what;

typedef struct content { // in bytes [first, end) of a buffer
    zr_buffer_id buffer; // NONE: the arena of activations
    int64_t first, end;
    what what;
    int unit; // of the plan; BOUNDARY and GRADIENT: that writes the boundary
    int micro_batch;
    bool lasts; // after its action
} content;

typedef struct move {   // of an activation checkpoint, under way
    bool out, in;       // to its store, or from it; neither: nothing is
    int64_t first, end; // in the buffers
    content comes;      // when it has ended
} move;

// A slot of a link. The sender takes it, writes it and sends it; the receiver receives and gives.
typedef enum slot_state { FREE, TAKEN, WRITTEN, SENT, RECEIVED, USED_UP } slot_state;

typedef struct slot {
    slot_state state;
    int number;    // of its turn
    uint32_t sums; // of a step: the stages that are in them, a bit for each
} slot;

typedef struct stage { // that runs
    const zr_plan *plan;
    pipeline_turn turns[PROGRAM_MOST_TURNS];
    int count, at, next; // turns; the current one; the next instruction of its pass
    content contents[MOST_CONTENTS];
    int content_count;
    move moves[2];             // by buffer
    uint32_t sums[MOST_STEPS]; // of each step, as far as they have come
} stage;

typedef struct pipeline {
    stage stages[4];
    slot slots[2 * PIPELINE_MOST_CHUNKS][MOST_SLOTS]; // by link
    int count;
} pipeline;

static const pipeline_turn *now(const stage *s) { return &s->turns[s->at]; }

static const zr_chunk_plan *chunk_of(const stage *s, int unit)
{
    return zr_plan_chunk_of(s->plan, unit);
}

static bool is_first(const stage *s, int unit) { return unit == chunk_of(s, unit)->first_unit; }

static bool is_last(const stage *s, int unit) { return unit == chunk_of(s, unit)->end_unit - 1; }

static int64_t buffer_bytes(const zr_plan *plan, zr_buffer_id buffer)
{
    switch (buffer) {
    case ZR_BUFFER_NONE: return plan->activation_bytes;
    case ZR_BUFFER_STORED: return plan->activation_checkpoint_bytes;
    default: return plan->activation_checkpoint_buffer_bytes;
    }
}

static bool overlap(int64_t first, int64_t end, int64_t other, int64_t other_end)
{
    return first < other_end && other < end;
}

// Writes bytes, which are then no more what they were.
static void overwrite(stage *s, zr_buffer_id buffer, int64_t first, int64_t end)
{
    int left = 0;
    for (int i = 0; i < s->content_count; i++) {
        const content *c = &s->contents[i];
        if (c->buffer != buffer || !overlap(first, end, c->first, c->end))
            s->contents[left++] = *c;
    }
    s->content_count = left;
    assert_true(first >= 0 && end <= buffer_bytes(s->plan, buffer));
    for (int b = 0; b < 2 && buffer == ZR_BUFFER_ACTIVATION_CHECKPOINTS; b++)
        if (s->moves[b].out || s->moves[b].in)
            assert_false(overlap(first, end, s->moves[b].first, s->moves[b].end));
}

static void put(stage *s, const content *c)
{
    overwrite(s, c->buffer, c->first, c->end);
    assert_true(s->content_count < MOST_CONTENTS);
    s->contents[s->content_count++] = *c;
}

static const content *find(const stage *s, zr_buffer_id buffer, what what, int unit)
{
    for (int i = 0; i < s->content_count; i++) {
        const content *c = &s->contents[i];
        if (c->buffer == buffer && c->what == what && c->unit == unit &&
            c->micro_batch == now(s)->number)
            return c;
    }
    return NULL;
}

static void need_at(const stage *s, zr_buffer_id buffer, what what, int unit)
{
    static const char *const names[] = {"boundary", "share", "saved", "held", "gradient"};
    const zr_pipeline *pipeline = &s->plan->pipeline->pipeline;
    if (!find(s, buffer, what, unit))
        fail_msg("%s, %d micro-batches, pipeline stage %d of %d: %s of micro-batch %d finds no %s "
                 "of unit %d",
                 zr_pipeline_kind_name(pipeline->kind), pipeline->micro_batches,
                 s->plan->pipeline->stage, pipeline->stages, zr_pass_name(now(s)->pass),
                 now(s)->number, names[what], unit);
}

static slot *slot_of(pipeline *p, const stage *s, int link)
{
    int count = s->plan->links[link].slots;
    assert_in_range(count, 1, MOST_SLOTS);
    return &p->slots[link][now(s)->slot % count];
}

static void expect_slot(pipeline *p, const stage *s, int link, slot_state state)
{
    const slot *slot = slot_of(p, s, link);
    assert_int_equal(slot->state, state);
    assert_int_equal(slot->number, now(s)->number);
}

// The turn writes a slot that it has taken, or uses up one that it has received.
static void use_slot(pipeline *p, const stage *s, int link, bool writes)
{
    expect_slot(p, s, link, writes ? TAKEN : RECEIVED);
    slot_of(p, s, link)->state = writes ? WRITTEN : USED_UP;
}

// Checks that a place that lasts lies in one of the chunk's sets, and any other outside of all.
static void expect_in_sets(const stage *s, const content *c)
{
    for (int i = 0; i < s->plan->chunk_count; i++) {
        const zr_chunk_plan *chunk = &s->plan->chunks[i];
        int64_t first = chunk->set_first, end = first + chunk->buffers.sets * chunk->set_bytes;
        bool own = c->lasts && chunk == chunk_of(s, c->unit);
        if (own)
            assert_true(c->first >= first && c->end <= end);
        else
            assert_false(overlap(c->first, c->end, first, end));
    }
}

static void put_activations(stage *s, what what, int unit, int64_t first, int64_t bytes,
                            bool in_set)
{
    int64_t at = first + (in_set ? now(s)->set * chunk_of(s, unit)->set_bytes : 0);
    const content c = {ZR_BUFFER_NONE, at, at + bytes, what, unit, now(s)->number, in_set};
    assert_int_equal(at % ZR_ACTIVATION_ALIGN, 0);
    expect_in_sets(s, &c);
    put(s, &c);
}

static void put_saved(stage *s, int unit)
{
    const zr_unit_plan *plan = &s->plan->units[unit];
    put_activations(s, SAVED, unit, plan->saved_first, (int64_t)plan->sizes.saved_bytes,
                    plan->in_set);
}

static void put_held(stage *s, int unit)
{
    const zr_unit_plan *plan = &s->plan->units[unit];
    put_activations(s, HELD, unit, plan->held_first, (int64_t)plan->sizes.held_bytes, true);
}

static int64_t boundary_of(const stage *s, int unit)
{
    return zr_boundary_bytes(&s->plan->units[unit].sizes.out);
}

static content kept_boundary(const stage *s, what what, int unit)
{
    int64_t first = s->plan->units[unit].out_first + now(s)->set * chunk_of(s, unit)->kept_bytes;
    return (content){ZR_BUFFER_ACTIVATION_CHECKPOINTS,
                     first,
                     first + boundary_of(s, unit),
                     what,
                     unit,
                     now(s)->number,
                     true};
}

static void put_boundary(pipeline *p, stage *s, int unit)
{
    const zr_unit_plan *plan = &s->plan->units[unit];
    int link = is_last(s, unit) ? chunk_of(s, unit)->output : -1;
    if (link >= 0) {
        use_slot(p, s, link, true);
    } else if (plan->out_kept) {
        const content c = kept_boundary(s, BOUNDARY, unit);
        put(s, &c);
    } else {
        put_activations(s, BOUNDARY, unit, plan->out_first, boundary_of(s, unit), plan->out_in_set);
    }
}

// A unit that is computed again writes a boundary that is there already, or that has left, to where
// the gradient of the next one was.
static void put_boundary_again(pipeline *p, stage *s, int unit)
{
    int64_t first = s->plan->boundary_first[(unit + 1) % 2];
    bool leaves = is_last(s, unit) && chunk_of(s, unit)->output >= 0;
    if (leaves || s->plan->units[unit].out_kept)
        overwrite(s, ZR_BUFFER_NONE, first, first + boundary_of(s, unit));
    else
        put_boundary(p, s, unit);
}

static void need_input(pipeline *p, const stage *s, int unit)
{
    int link = chunk_of(s, unit)->input;
    bool kept = unit > 0 && s->plan->units[unit - 1].out_kept;
    if (!is_first(s, unit))
        need_at(s, kept ? ZR_BUFFER_ACTIVATION_CHECKPOINTS : ZR_BUFFER_NONE, BOUNDARY, unit - 1);
    else if (link >= 0)
        expect_slot(p, s, link, RECEIVED);
}

// The gradient of the boundary that the unit has written; it may be overwritten.
static void need_gradient(pipeline *p, const stage *s, int unit)
{
    int link = chunk_of(s, unit)->gradient_in;
    if (!is_last(s, unit))
        need_at(s, ZR_BUFFER_NONE, GRADIENT, unit);
    else if (link >= 0)
        expect_slot(p, s, link, RECEIVED);
}

static void use_up_gradient(pipeline *p, stage *s, int unit)
{
    const zr_chunk_plan *chunk = chunk_of(s, unit);
    int64_t first = s->plan->boundary_first[unit % 2];
    if (is_last(s, unit) && chunk->gradient_in >= 0)
        slot_of(p, s, chunk->gradient_in)->state = USED_UP;
    else
        overwrite(s, ZR_BUFFER_NONE, first, first + boundary_of(s, unit));
}

static void put_input_gradient(pipeline *p, stage *s, int unit)
{
    int link = chunk_of(s, unit)->gradient_out;
    if (!is_first(s, unit)) {
        put_activations(s, GRADIENT, unit - 1, s->plan->boundary_first[(unit - 1) % 2],
                        boundary_of(s, unit - 1), false);
    } else if (link >= 0) {
        use_slot(p, s, link, true);
    }
}

static void need(pipeline *p, const stage *s, const zr_instruction *i)
{
    need_input(p, s, i->unit);
    if (i->what == ZR_CALL_BACKWARD || i->what == ZR_CALL_INPUT || i->what == ZR_CALL_WEIGHT)
        need_at(s, ZR_BUFFER_NONE, SAVED, i->unit);
    if (i->what == ZR_CALL_BACKWARD || i->what == ZR_CALL_INPUT)
        need_gradient(p, s, i->unit);
    if (i->what == ZR_CALL_WEIGHT)
        need_at(s, ZR_BUFFER_NONE, HELD, i->unit);
}

static void write_results(pipeline *p, stage *s, const zr_instruction *i)
{
    bool forward = i->what == ZR_CALL_FORWARD;
    if (forward || i->what == ZR_CALL_AGAIN || i->what == ZR_CALL_BOTH)
        put_saved(s, i->unit);
    if (forward)
        put_boundary(p, s, i->unit);
    if (i->what == ZR_CALL_AGAIN)
        put_boundary_again(p, s, i->unit);
    if (i->what == ZR_CALL_INPUT)
        put_held(s, i->unit);
    if (i->what == ZR_CALL_BACKWARD || i->what == ZR_CALL_INPUT || i->what == ZR_CALL_BOTH)
        put_input_gradient(p, s, i->unit);
}

// What a call reads is there before it, and after it has written what it writes.
static void call(pipeline *p, stage *s, const zr_instruction *i)
{
    need(p, s, i);
    write_results(p, s, i);
    need(p, s, i);
    if (i->what == ZR_CALL_BACKWARD || i->what == ZR_CALL_INPUT)
        use_up_gradient(p, s, i->unit);
}

static int64_t set_in_store(const stage *s, int unit)
{
    return now(s)->set * chunk_of(s, unit)->stored_bytes;
}

// The unit of the instruction has just written the boundary.
static void store(stage *s, const zr_instruction *i)
{
    move *m = &s->moves[i->slot.index];
    int64_t first = i->place.first + set_in_store(s, i->unit);
    need_at(s, ZR_BUFFER_ACTIVATION_CHECKPOINTS, BOUNDARY, i->unit);
    assert_false(m->out || m->in);
    overwrite(s, ZR_BUFFER_STORED, first, first + i->bytes);
    *m = (move){
        true,
        false,
        i->from.first,
        i->from.first + i->bytes,
        {ZR_BUFFER_STORED, first, first + i->bytes, BOUNDARY, i->unit, now(s)->number, true}};
}

static const content *stored_at(const stage *s, int64_t first)
{
    for (int i = 0; i < s->content_count; i++)
        if (s->contents[i].buffer == ZR_BUFFER_STORED && s->contents[i].first == first)
            return &s->contents[i];
    fail_msg("pipeline stage %d: %s of micro-batch %d fetches what is not stored",
             s->plan->pipeline->stage, zr_pass_name(now(s)->pass), now(s)->number);
    return NULL;
}

static void fetch(stage *s, const zr_instruction *i)
{
    move *m = &s->moves[i->slot.index];
    const content *from = stored_at(s, i->from.first + set_in_store(s, i->unit));
    what comes = s->plan->checkpoint_shares > 1 ? SHARE : BOUNDARY;
    int64_t end = i->place.first + i->bytes;
    assert_int_equal(from->micro_batch, now(s)->number);
    assert_int_equal(from->end - from->first, i->bytes);
    assert_false(m->out || m->in);
    const content whole = kept_boundary(s, comes, from->unit);
    overwrite(s, ZR_BUFFER_ACTIVATION_CHECKPOINTS, i->place.first, end);
    *m = (move){false, true, i->place.first, end, whole};
}

static void join(stage *s, const zr_instruction *i)
{
    int unit = zr_plan_segment_first(s->plan, s->plan->units[i->unit].segment) - 1;
    const content whole = kept_boundary(s, BOUNDARY, unit);
    need_at(s, ZR_BUFFER_ACTIVATION_CHECKPOINTS, SHARE, unit);
    assert_int_equal(i->place.first, whole.first);
    put(s, &whole);
}

static void await_move(stage *s, int buffer)
{
    move m = s->moves[buffer];
    s->moves[buffer] = (move){0};
    if (m.out || m.in)
        put(s, &m.comes);
}

// Returns false if the stage has to wait for another one.
static bool use_link(pipeline *p, const stage *s, const zr_instruction *i)
{
    const zr_link *link = &s->plan->links[i->slot.index];
    slot *slot = slot_of(p, s, i->slot.index);
    bool sends = i->code == ZR_TAKE || i->code == ZR_SEND;
    int k = now(s)->number;
    assert_int_equal(sends ? link->from : link->to, s->plan->pipeline->stage);
    assert_int_equal(i->bytes, link->message);
    if ((i->code == ZR_TAKE && slot->state != FREE) ||
        (i->code == ZR_RECEIVE && slot->state != SENT))
        return false;
    if (i->code == ZR_TAKE) {
        slot->number = k;
        slot->state = TAKEN;
        return true;
    }
    assert_int_equal(slot->number, k);
    if (i->code == ZR_SEND)
        assert_int_equal(slot->state, WRITTEN);
    if (i->code == ZR_GIVE)
        assert_true(slot->state == RECEIVED || slot->state == USED_UP);
    slot->state = i->code == ZR_SEND ? SENT : i->code == ZR_RECEIVE ? RECEIVED : FREE;
    return true;
}

// The sums of a step: those of one stage, of all stages, or as they are on their way.
static void use_sums(pipeline *p, stage *s, const zr_instruction *i)
{
    uint32_t *own = &s->sums[now(s)->number];
    slot *slot = i->slot.kind == ZR_SLOT_LINK ? slot_of(p, s, i->slot.index) : NULL;
    if (i->what == ZR_SCALARS_OF_PIPELINE_STAGE) {
        assert_int_equal(*own, 0);
        *own = 1u << s->plan->pipeline->stage;
        return;
    }
    assert_non_null(slot);
    use_slot(p, s, i->slot.index, i->what == ZR_SCALARS_GIVE);
    if (i->what == ZR_SCALARS_GIVE)
        slot->sums = *own;
    else
        *own = slot->sums | (i->what == ZR_SCALARS_ADD ? *own : 0);
}

// An update by the groups has the norm of all stages, or, where each is alone, its own.
static void need_sums(const pipeline *p, const stage *s)
{
    bool alone = s->plan->pipeline->pipeline.kind == ZR_PIPELINE_PIPEDREAM;
    uint32_t own = 1u << s->plan->pipeline->stage, all = (1u << p->count) - 1;
    assert_int_equal(s->sums[now(s)->number], alone ? own : all);
}

static void run_kept(stage *s, const zr_instruction *i)
{
    switch (i->code) {
    case ZR_STORE: store(s, i); break;
    case ZR_FETCH: fetch(s, i); break;
    case ZR_AWAIT: await_move(s, i->slot.index); break;
    default: break;
    }
}

static bool run(pipeline *p, stage *s, const zr_instruction *i)
{
    bool gives = i->what == ZR_TIED_WEIGHT_GIVE_SUM || i->what == ZR_TIED_WEIGHT_GIVE_PARAMETERS;
    switch (i->code) {
    case ZR_TAKE:
    case ZR_SEND:
    case ZR_RECEIVE:
    case ZR_GIVE: return use_link(p, s, i);
    case ZR_CALL: call(p, s, i); break;
    case ZR_JOIN: join(s, i); break;
    case ZR_TIED_WEIGHT: use_slot(p, s, i->slot.index, gives); break;
    case ZR_SCALARS: use_sums(p, s, i); break;
    case ZR_UPDATE: need_sums(p, s); break;
    default: break;
    }
    if (i->slot.kind == ZR_SLOT_KEPT)
        run_kept(s, i);
    return true;
}

static void end_turn(stage *s)
{
    int left = 0;
    for (int i = 0; i < s->content_count; i++)
        if (s->contents[i].lasts)
            s->contents[left++] = s->contents[i];
    s->content_count = left;
    s->at++;
    s->next = 0;
}

// Runs a stage until it has to wait; returns whether it has got anywhere.
static bool advance(pipeline *p, stage *s)
{
    bool moved = false;
    while (s->at < s->count) {
        const zr_pass *pass = &s->plan->program.passes[now(s)->pass];
        while (s->next < pass->count) {
            if (!run(p, s, &pass->at[s->next]))
                return moved;
            s->next++;
            moved = true;
        }
        end_turn(s);
        moved = true;
    }
    return moved;
}

void pipeline_check_replay(const pipeline_plans *stages)
{
    static pipeline p;
    memset(&p, 0, sizeof p);
    p.count = stages->count;
    assert_in_range(p.count, 2, 4);
    for (int s = 0; s < p.count; s++) {
        p.stages[s].plan = stages->plans[s];
        p.stages[s].count =
            pipeline_turns(stages->plans[s], WINDOWS, EVALUATIONS, p.stages[s].turns);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < p.count; s++)
            moved = advance(&p, &p.stages[s]) || moved;
    }
    for (int s = 0; s < p.count; s++)
        if (p.stages[s].at < p.stages[s].count)
            fail_msg("pipeline stage %d of %d waits without an end in its turn %d", s, p.count,
                     p.stages[s].at);
    for (int l = 0; l < stages->plans[0]->link_count; l++)
        for (int i = 0; i < MOST_SLOTS; i++)
            assert_int_equal(p.slots[l][i].state, FREE);
}
