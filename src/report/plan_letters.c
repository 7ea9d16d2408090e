// zero plan --draw -: one row for each flat parameter, one column for each CALL. The letter says
// what happens to the flat parameter while the unit computes; if several things do, the last in
// this order is shown: f < g < o < r < b < F, B.
#include "plan/program.h"
#include "report/plan_show.h"
#include "report/plan_timeline.h"

#include <string.h>

typedef struct table {
    const zr_plan *plan;
    const zr_pass *pass;
    zr_timeline *t;
    int call_count;
    int *calls;  // (call_count) instruction numbers
    int first;   // the lane of flat parameter 0
    bool *bound; // (flat_param_count) units use the flat parameter at the current instruction
} table;

static const char legend[] =
    "f  its shard is fetched from its tier      F  it is read in forward\n"
    "g  it is gathered, or has been             B  backward adds to its gradient\n"
    "o  it holds a gradient of this micro-batch b  it is only read in backward\n"
    "r  its gradient is being reduced           .  nothing of that\n\n"
    "calls\n";

// Adds lines of the calls' numbers, which count from 1 and are read from top to bottom.
static void add_numbers(table *t)
{
    const char *heading = "column";
    int unit = 1;
    while (unit * 10 <= t->call_count)
        unit *= 10;
    for (; unit; unit /= 10, heading = "") {
        int lane =
            zr_timeline_add_lane(t->t, &(zr_timeline_lane){.name = heading, .background = ' '});
        for (int c = unit - 1; c < t->call_count; c++)
            zr_timeline_add(t->t,
                            &(zr_timeline_interval){.lane = lane,
                                                    .begin = c,
                                                    .end = c + 1,
                                                    .letter = (char)('0' + (c + 1) / unit % 10)});
        t->first = lane + 1;
    }
}

static void add_lanes(table *t)
{
    int width = (int)strlen("column");
    add_numbers(t);
    for (int p = 0; p < t->plan->flat_param_count; p++) {
        const char *name = t->plan->flat_params[p].name;
        width = ZR_MAX(width, (int)strlen(name));
        zr_timeline_add_lane(t->t, &(zr_timeline_lane){.name = name, .background = '.'});
    }
    t->t->name_width = width + 1;
    t->t->columns = t->call_count;
}

static int call_end(const table *t, int call)
{
    return t->calls[call] + t->pass->at[t->calls[call]].body;
}

// Adds a letter of a flat parameter for the calls [begin, end).
static void add_letter(table *t, char letter, int flat_param, int begin, int end)
{
    if (begin < end)
        zr_timeline_add(
            t->t, &(zr_timeline_interval){
                      .lane = t->first + flat_param, .begin = begin, .end = end, .letter = letter});
}

// Adds a letter for every call that runs between two instructions.
static void add_from_to(table *t, char letter, int flat_param, int from, int to)
{
    int begin = 0, end = t->call_count;
    while (begin < end && call_end(t, begin) < from)
        begin++;
    while (end > begin && t->calls[end - 1] >= to)
        end--;
    add_letter(t, letter, flat_param, begin, end);
}

static void add_flights(table *t, zr_code code, zr_slot_kind kind, char letter)
{
    for (int i = 0; i < t->pass->count; i++) {
        const zr_instruction *begins = &t->pass->at[i];
        if (begins->code == code && begins->slot.kind == kind)
            add_from_to(t, letter, begins->flat_param, i, zr_plan_flight_end(t->pass, i));
    }
}

static void add_live_ranges(table *t, const zr_live_ranges *ranges, bool gradients, char letter)
{
    for (const zr_live_range *range = ranges->at; range < ranges->at + ranges->count; range++) {
        bool gradient =
            range->buffer == ZR_BUFFER_GRADIENTS || range->buffer == ZR_BUFFER_OPEN_SUMS;
        if (gradients ? gradient : range->buffer == ZR_BUFFER_GATHERED)
            add_from_to(t, letter, range->flat_param, range->from, range->to);
    }
}

// Adds the letter of a flat parameter's parameters, or of its gradient, that a call uses.
static void add_use(table *t, bool gradients, int flat_param, int call)
{
    zr_call what = (zr_call)t->pass->at[t->calls[call]].what;
    bool backward = what == ZR_CALL_BACKWARD || what == ZR_CALL_BOTH;
    char letter = gradients ? 'B' : backward ? 'b' : 'F';
    if (t->bound[flat_param] && (backward || !gradients))
        add_letter(t, letter, flat_param, call, call + 1);
}

// Adds what a call finds bound when it begins, and what is bound while it runs.
static void add_uses(table *t, bool gradients)
{
    int call = -1;
    memset(t->bound, 0, (size_t)t->plan->flat_param_count * sizeof *t->bound);
    for (int i = 0; i < t->pass->count; i++) {
        const zr_instruction *at = &t->pass->at[i];
        bool comes = at->code == ZR_BIND || at->code == ZR_OPEN;
        bool gradient = at->place.buffer != ZR_BUFFER_PARAMETERS &&
                        at->place.buffer != ZR_BUFFER_FROZEN &&
                        at->place.buffer != ZR_BUFFER_GATHERED;
        if ((comes || at->code == ZR_UNBIND) && gradient == gradients) {
            t->bound[at->flat_param] = comes;
            if (call >= 0 && i <= call_end(t, call))
                add_use(t, gradients, at->flat_param, call);
        }
        if (at->code != ZR_CALL)
            continue;
        const zr_unit_plan *unit = &t->plan->units[at->unit];
        call++;
        for (int p = 0; p < unit->flat_param_count; p++)
            add_use(t, gradients, unit->flat_params[p], call);
    }
}

// Writes lines like "  1 to 4 forward: embed h.0 h.1 h.2", one for each run of calls of one kind.
static void put_names(const table *t, zr_buffer *out)
{
    for (int c = 0, end; c < t->call_count; c = end) {
        int what = t->pass->at[t->calls[c]].what;
        for (end = c; end < t->call_count && t->pass->at[t->calls[end]].what == what; end++)
            ;
        zr_buffer_printf(out, "  %d", c + 1);
        if (end > c + 1)
            zr_buffer_printf(out, " to %d", end);
        zr_buffer_printf(out, " %s:", zr_call_names[what]);
        for (int n = c; n < end; n++)
            zr_buffer_printf(out, " %s", zr_plan_unit_name(t->plan, t->pass->at[t->calls[n]].unit));
        zr_buffer_printf(out, "\n");
    }
}

static void add_all(table *t, const zr_live_ranges *ranges)
{
    int end = 0; // the first call after the end of forward
    for (int i = 0; i < t->pass->count; i++) {
        if (t->pass->at[i].code != ZR_CALL)
            continue;
        end += i < t->pass->forward_end;
        t->calls[t->call_count++] = i;
    }
    t->t->heading = "A micro-batch: a row a flat parameter, a column a call of a "
                    "unit; |: zero_forward returns";
    add_lanes(t);
    zr_timeline_add(t->t, &(zr_timeline_interval){.lane = ZR_ALL_LANES, .begin = end, .end = end});
    add_flights(t, ZR_FETCH, ZR_SLOT_FETCHED, 'f');
    add_live_ranges(t, ranges, false, 'g');
    add_live_ranges(t, ranges, true, 'o');
    add_flights(t, ZR_REDUCE, ZR_SLOT_SUM, 'r');
    add_uses(t, false);
    add_uses(t, true);
    zr_buffer_printf(&t->t->notes, "%s", legend);
    put_names(t, &t->t->notes);
}

zero_status zr_plan_letters(const zr_plan *plan, zr_timeline *timeline, zero_error *error)
{
    table t = {.plan = plan, .pass = &plan->program.passes[ZR_PASS_MICRO_BATCH], .t = timeline};
    zr_live_ranges ranges;
    zero_status status = zr_live_ranges_of(plan, ZR_PASS_MICRO_BATCH, &ranges, error);
    if (status == ZERO_OK) {
        t.calls = zr_alloc((size_t)t.pass->count * sizeof *t.calls, error);
        t.bound = zr_alloc((size_t)plan->flat_param_count * sizeof *t.bound, error);
        status = t.calls && t.bound ? ZERO_OK : ZERO_ERR_MEMORY;
    }
    if (status == ZERO_OK)
        add_all(&t, &ranges);
    zr_free(t.bound);
    zr_free(t.calls);
    zr_live_ranges_free(&ranges);
    return status;
}
