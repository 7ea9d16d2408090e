// program_check_replay: every pass in turn, with what is begun, bound and gathered.
#include "program_checks.h"

#include "plan/accumulators.h"
#include "program_turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

typedef enum kept { GONE, COMES, SHARE, WHOLE } kept; // how much of a boundary is in its place

typedef struct parameters { // a flat parameter in a window
    int flat_param;
    int64_t first, end; // bytes
    int slot;           // of its fetch
    bool came;
} parameters;

typedef struct window { // what lies in it, and was not written over
    parameters at[256];
    int count;
} window;

typedef struct replay { // what is begun, and what units see
    bool gathering[64], summing[64], bound[64], collecting[64];
    bool fetched_sum[64]; // of earlier micro-batches
    int fetching;         // fetches of parameters under way
    kept kept[64];        // activation checkpoints, by the unit that writes them
    // Since the weights have changed: what was gathered, and own shards that came from NVMe.
    window gathered, staged;
    uint32_t holds; // bit for each zr_when
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

// What comes into a window takes its place from what lay there.
static parameters *put_parameters(window *w, const zr_instruction *i, int64_t bytes)
{
    int64_t first = i->place.first, end = first + bytes;
    int left = 0;
    for (int g = 0; g < w->count; g++)
        if (w->at[g].end <= first || end <= w->at[g].first)
            w->at[left++] = w->at[g];
    assert_true(left < ZR_COUNT(w->at));
    w->at[left] = (parameters){.flat_param = i->flat_param, .first = first, .end = end};
    w->count = left + 1;
    return &w->at[left];
}

static const parameters *find_parameters(const window *w, int flat_param, int64_t first)
{
    for (int g = 0; g < w->count; g++)
        if (w->at[g].flat_param == flat_param && w->at[g].first == first)
            return &w->at[g];
    fail_msg("flat parameter %d is not at byte %lld, where it is read", flat_param,
             (long long)first);
    return NULL;
}

static void replay_fetched(const zr_plan *plan, replay *r, const zr_instruction *i)
{
    put_parameters(&r->staged, i, zr_flat_param_shard_bytes(&plan->flat_params[i->flat_param]))
        ->slot = i->slot.index;
    r->fetching++;
}

static void replay_fetch(const zr_plan *plan, replay *r, const zr_instruction *i)
{
    if (i->slot.kind == ZR_SLOT_FETCHED)
        replay_fetched(plan, r, i);
    if (i->slot.kind == ZR_SLOT_TRAVELLED)
        r->fetched_sum[i->flat_param] = true;
    if (i->slot.kind == ZR_SLOT_KEPT && !plan->pipeline)
        put_boundary(plan, r, unit_before(plan, plan->units[i->unit].segment - 1), COMES);
}

static void await_fetched(replay *r, int slot)
{
    r->fetching--;
    for (int g = 0; g < r->staged.count; g++)
        if (r->staged.at[g].slot == slot)
            r->staged.at[g].came = true;
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
    if (plan->pipeline)
        return;
    assert_int_equal(r->kept[unit], SHARE);
    r->kept[unit] = WHOLE;
}

// A call finds the activation checkpoint that enters it whole, and forward writes the next one. In
// a pipeline there are several of each (pipeline_replay.h).
static void replay_boundaries(const zr_plan *plan, replay *r, const zr_instruction *i)
{
    if (plan->pipeline)
        return;
    if (i->unit > 0 && plan->units[i->unit - 1].out_kept)
        assert_int_equal(r->kept[i->unit - 1], WHOLE);
    if (i->what == ZR_CALL_FORWARD && plan->units[i->unit].out_kept)
        put_boundary(plan, r, i->unit, WHOLE);
}

static void replay_await(const zr_plan *plan, replay *r, const zr_instruction *i)
{
    if (i->slot.kind == ZR_SLOT_KEPT && !plan->pipeline)
        replay_kept(plan, r, i->slot.index);
    if (i->slot.kind == ZR_SLOT_FETCHED)
        await_fetched(r, i->slot.index);
    if (i->slot.kind == ZR_SLOT_GATHER)
        r->gathering[i->slot.index] = false;
    if (i->slot.kind == ZR_SLOT_SUM) {
        assert_true(r->summing[i->slot.index]);
        r->summing[i->slot.index] = false;
    }
}

static bool call_reads(const zr_unit_plan *unit, zr_call what, int flat_param)
{
    switch (what) {
    case ZR_CALL_BACKWARD:
    case ZR_CALL_INPUT: return unit->sizes.backward_reads >> flat_param & 1;
    case ZR_CALL_WEIGHT: return unit->sizes.weight_reads >> flat_param & 1;
    default: return true;
    }
}

static bool call_adds(zr_call what)
{
    return what == ZR_CALL_BACKWARD || what == ZR_CALL_BOTH || what == ZR_CALL_WEIGHT;
}

// In a call, flat parameters of the unit that do not stream are there, and are collected where they
// train.
static void replay_call(const zr_plan *plan, const replay *r, const zr_instruction *i)
{
    const zr_unit_plan *unit = &plan->units[i->unit];
    for (int k = 0; k < unit->flat_param_count; k++) {
        int p = unit->flat_params[k];
        if (plan->flat_params[p].streamed)
            continue;
        assert_true(!call_reads(unit, (zr_call)i->what, k) || r->bound[p]);
        assert_true(!call_adds((zr_call)i->what) || r->collecting[p]);
    }
}

// Where gradients are bound they are collected, and where parameters are bound they are read.
static bool *bound_at(replay *r, const zr_instruction *i)
{
    bool gradients =
        i->place.buffer == ZR_BUFFER_GRADIENTS || i->place.buffer == ZR_BUFFER_OPEN_SUMS;
    return gradients ? &r->collecting[i->flat_param] : &r->bound[i->flat_param];
}

static void expect_at_rest(const replay *r, int flat_param)
{
    assert_false(r->collecting[flat_param] || r->summing[flat_param]);
}

static void replay_gather(const zr_plan *plan, replay *r, const zr_instruction *i)
{
    if (i->place.buffer == ZR_BUFFER_NONE)
        return;
    assert_false(r->gathering[i->flat_param]);
    r->gathering[i->flat_param] = true;
    if (i->from.buffer == ZR_BUFFER_STAGED_PARAMETERS)
        assert_true(find_parameters(&r->staged, i->flat_param, i->from.first)->came);
    put_parameters(&r->gathered, i,
                   plan->ranks * zr_flat_param_shard_bytes(&plan->flat_params[i->flat_param]));
}

static void replay_bind(replay *r, const zr_instruction *i)
{
    assert_false(r->gathering[i->flat_param]);
    if (i->place.buffer == ZR_BUFFER_GATHERED)
        assert_non_null(find_parameters(&r->gathered, i->flat_param, i->place.first));
    *bound_at(r, i) = true;
}

static void replay_open(replay *r, const zr_instruction *i)
{
    expect_at_rest(r, i->flat_param);
    r->collecting[i->flat_param] = true;
}

// Earlier micro-batches' sums have been fetched to where this one's is added to them.
static void replay_reduce(const zr_plan *plan, replay *r, const zr_instruction *i)
{
    bool adds = plan->settings.accumulation > 1 && r->holds >> ZR_LATER & 1;
    expect_at_rest(r, i->flat_param);
    if (adds && zr_flat_param_sums_on_nvme(&plan->flat_params[i->flat_param]))
        assert_true(r->fetched_sum[i->flat_param]);
    r->fetched_sum[i->flat_param] = false;
    r->summing[i->flat_param] = true;
}

static void replay_one(const zr_plan *plan, replay *r, const zr_instruction *i)
{
    switch (i->code) {
    case ZR_GATHER: replay_gather(plan, r, i); break;
    case ZR_BIND: replay_bind(r, i); break;
    case ZR_UNBIND: *bound_at(r, i) = false; break;
    case ZR_OPEN: replay_open(r, i); break;
    case ZR_ROUND: expect_at_rest(r, i->flat_param); break;
    case ZR_REDUCE: replay_reduce(plan, r, i); break;
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

// Says whether an instruction runs; what holds for a whole step or pass alike does.
static bool runs(const replay *r, const zr_instruction *i)
{
    const uint32_t differing = 1u << ZR_FIRST | 1u << ZR_LATER | 1u << ZR_OUTDATED | 1u << ZR_FRESH;
    return !(differing >> i->when & 1) || r->holds >> i->when & 1;
}

static void replay_pass(const zr_plan *plan, replay *r, zr_pass_kind kind)
{
    const zr_pass *pass = &plan->program.passes[kind];
    for (int i = 0; i < pass->count; i++)
        if (runs(r, &pass->at[i]))
            replay_one(plan, r, &pass->at[i]);
    for (int p = 0; p < plan->flat_param_count; p++) // nothing of a pass goes on after it
        assert_false(r->gathering[p] || r->summing[p] || r->bound[p] || r->collecting[p]);
    assert_int_equal(r->fetching, 0);
}

static void begin_turn(replay *r, const program_turn *next)
{
    r->holds = next->holds;
    if (next->changed)
        r->gathered.count = r->staged.count = 0;
    for (int u = 0; u < 64; u++)
        r->kept[u] = GONE;
}

void program_check_replay(const zr_plan *plan)
{
    program_turn turns[PROGRAM_MOST_TURNS];
    replay r = {0};
    assert_true(plan->flat_param_count <= 64);
    int count = program_turns(plan, turns);
    for (int t = 0; t < count; t++) {
        begin_turn(&r, &turns[t]);
        replay_pass(plan, &r, turns[t].pass);
    }
    replay_pass(plan, &r, ZR_PASS_BOUNDARY);
}
