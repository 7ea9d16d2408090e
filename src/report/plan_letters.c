// zero plan --draw -: one row for each flat parameter, one column for each CALL. The letter says
// what happens to the flat parameter while the unit computes; if several things do, the last in
// this order is shown: f < g < o < r < b < F, B.
#include "plan/program.h"
#include "report/plan_in_flight.h"
#include "report/plan_show.h"

#include <stdio.h>
#include <string.h>

typedef struct table {
    const zr_plan *plan;
    const zr_pass *pass;
    zr_buffer *out;
    int call_count;
    int *calls;    // (call_count) instruction numbers
    char *letters; // (flat_param_count, call_count)
    // (flat_param_count) State at the current instruction: units read the flat parameter; units add
    // to its gradient.
    bool *reading, *adding;
} table;

static char *letter(const table *t, int flat_param, int call)
{
    return &t->letters[(size_t)flat_param * (size_t)t->call_count + (size_t)call];
}

static int call_end(const table *t, int call)
{
    return t->calls[call] + t->pass->at[t->calls[call]].body;
}

// Writes `what` for a flat parameter from instruction `from` to instruction `to`: into every call
// that runs in between.
static void put_from_to(table *t, char what, int flat_param, int from, int to)
{
    for (int c = 0; c < t->call_count; c++)
        if (from <= call_end(t, c) && t->calls[c] < to)
            *letter(t, flat_param, c) = what;
}

static void put_live_ranges(table *t, const zr_live_ranges *live_ranges, bool gathered)
{
    for (const zr_live_range *live_range = live_ranges->at;
         live_range < live_ranges->at + live_ranges->count; live_range++) {
        bool parameters = live_range->buffer == ZR_BUFFER_GATHERED;
        bool gradient =
            live_range->buffer == ZR_BUFFER_GRADIENTS || live_range->buffer == ZR_BUFFER_OPEN_SUMS;
        if (gathered ? parameters : gradient)
            put_from_to(t, gathered ? 'g' : 'o', live_range->flat_param, live_range->from,
                        live_range->to);
    }
}

static void put_flights(table *t, const zr_in_flight *flights, zr_slot_kind kind, char what)
{
    for (const zr_in_flight_range *f = flights->at; f < flights->at + flights->count; f++) {
        const zr_instruction *begins = &t->pass->at[f->from];
        if (begins->slot.kind == kind)
            put_from_to(t, what, begins->flat_param, f->from, f->to);
    }
}

static void follow_letters(table *t, const zr_instruction *i)
{
    bool comes = i->code == ZR_BIND || i->code == ZR_OPEN;
    if (!comes && i->code != ZR_UNBIND)
        return;
    zr_buffer_id buffer = i->place.buffer;
    bool parameters = buffer == ZR_BUFFER_PARAMETERS || buffer == ZR_BUFFER_GATHERED;
    (parameters ? t->reading : t->adding)[i->flat_param] = comes;
}

static void put_flat_param(table *t, int flat_param, int call)
{
    zr_call what = (zr_call)t->pass->at[t->calls[call]].what;
    bool backward = what == ZR_CALL_BACKWARD || what == ZR_CALL_BOTH;
    if (backward && t->adding[flat_param])
        *letter(t, flat_param, call) = 'B';
    else if (t->reading[flat_param] && *letter(t, flat_param, call) != 'B')
        *letter(t, flat_param, call) = backward ? 'b' : 'F';
}

static void put_unit(table *t, int call)
{
    const zr_unit_plan *unit = &t->plan->units[t->pass->at[t->calls[call]].unit];
    for (int i = 0; i < unit->flat_param_count; i++)
        put_flat_param(t, unit->flat_params[i], call);
}

// Writes what a call finds bound when it begins, and what is bound while it runs.
static void put_calls(table *t)
{
    int call = -1;
    for (int i = 0; i < t->pass->count; i++) {
        follow_letters(t, &t->pass->at[i]);
        if (t->pass->at[i].code == ZR_CALL)
            call++;
        if (call >= 0 && i <= call_end(t, call))
            put_unit(t, call);
    }
}

static zero_status fill_letters(table *t, zero_error *error)
{
    zr_live_ranges live_ranges = {0};
    zr_in_flight exchanges = {0}, transfers = {0};
    zero_status status = zr_live_ranges_of(t->plan, ZR_PASS_MICRO_BATCH, &live_ranges, error);
    if (status == ZERO_OK)
        status = zr_in_flight_of(t->pass, ZR_LANE_EXCHANGES, &exchanges, error);
    if (status == ZERO_OK)
        status = zr_in_flight_of(t->pass, ZR_LANE_TRANSFERS, &transfers, error);
    if (status == ZERO_OK) {
        put_flights(t, &transfers, ZR_SLOT_FETCHED, 'f');
        put_live_ranges(t, &live_ranges, true);
        put_live_ranges(t, &live_ranges, false);
        put_flights(t, &exchanges, ZR_SLOT_SUM, 'r');
        put_calls(t);
    }
    zr_in_flight_free(&transfers);
    zr_in_flight_free(&exchanges);
    zr_live_ranges_free(&live_ranges);
    return status;
}

static int name_width(const zr_plan *plan)
{
    int width = (int)strlen("column");
    for (int p = 0; p < plan->flat_param_count; p++)
        width = ZR_MAX(width, (int)strlen(plan->flat_params[p].name));
    return width;
}

// Returns the first call after the end of forward; call_count if there is none.
static int forward_end_call(const table *t)
{
    int c = 0;
    while (c < t->call_count && t->calls[c] < t->pass->forward_end)
        c++;
    return c;
}

// Writes one line of the column numbers, which count from 1 and are read from top to bottom: the
// digit of each number that `unit` selects.
static void append_digits(const table *t, const char *heading, int width, int unit)
{
    int forward_end = forward_end_call(t);
    zr_buffer_printf(t->out, "%-*s ", width, heading);
    for (int c = 0; c < t->call_count; c++) {
        bool shown = c + 1 >= unit;
        zr_buffer_printf(t->out, "%s%c", c == forward_end ? "|" : "",
                         shown ? '0' + (c + 1) / unit % 10 : ' ');
    }
    zr_buffer_printf(t->out, "\n");
}

static void append_numbers(const table *t, int width)
{
    int unit = 1;
    while (unit * 10 <= t->call_count)
        unit *= 10;
    for (const char *heading = "column"; unit; unit /= 10, heading = "")
        append_digits(t, heading, width, unit);
}

static void append_rows(const table *t, int width)
{
    int forward_end = forward_end_call(t);
    for (int p = 0; p < t->plan->flat_param_count; p++) {
        zr_buffer_printf(t->out, "%-*s ", width, t->plan->flat_params[p].name);
        zr_buffer_append(t->out, letter(t, p, 0), (size_t)forward_end);
        zr_buffer_printf(t->out, forward_end < t->call_count ? "|" : "");
        zr_buffer_append(t->out, letter(t, p, 0) + forward_end,
                         (size_t)(t->call_count - forward_end));
        zr_buffer_printf(t->out, "\n");
    }
}

static const char *unit_name(const table *t, int call)
{
    return zr_plan_unit_name(t->plan, t->pass->at[t->calls[call]].unit);
}

// Appends lines like "  1 to 4 forward: embed h.0 h.1 h.2", one for each run of calls of one kind.
static void append_names(const table *t)
{
    for (int c = 0, end; c < t->call_count; c = end) {
        int what = t->pass->at[t->calls[c]].what;
        for (end = c; end < t->call_count && t->pass->at[t->calls[end]].what == what; end++)
            ;
        zr_buffer_printf(t->out, "  %d", c + 1);
        if (end > c + 1)
            zr_buffer_printf(t->out, " to %d", end);
        zr_buffer_printf(t->out, " %s:", zr_call_name((zr_call)what));
        for (int n = c; n < end; n++)
            zr_buffer_printf(t->out, " %s", unit_name(t, n));
        zr_buffer_printf(t->out, "\n");
    }
}

static void append_table(const table *t, const char *title)
{
    int width = name_width(t->plan);
    zr_buffer_printf(t->out,
                     "%s\nA micro-batch: a row a piece, a column a call of a unit; "
                     "|: zero_forward returns\n\n",
                     title);
    append_numbers(t, width);
    append_rows(t, width);
    zr_buffer_printf(t->out,
                     "\nf  its shard is fetched from its tier      F  it is read in forward\n"
                     "g  it is gathered, or has been             B  backward adds to its gradient\n"
                     "o  it holds a gradient of this micro-batch b  it is only read in backward\n"
                     "r  its gradient is being reduced           .  nothing of that\n\n"
                     "calls\n");
    append_names(t);
}

static zero_status open_table(table *t, zero_error *error)
{
    size_t flat_params = (size_t)t->plan->flat_param_count;
    for (int i = 0; i < t->pass->count; i++)
        t->call_count += t->pass->at[i].code == ZR_CALL;
    t->calls = zr_alloc((size_t)t->call_count * sizeof *t->calls, error);
    t->letters = zr_alloc(flat_params * (size_t)t->call_count, error);
    t->reading = zr_alloc(2 * flat_params * sizeof *t->reading, error);
    if (!t->calls || !t->letters || !t->reading)
        return ZERO_ERR_MEMORY;
    t->adding = t->reading + flat_params;
    memset(t->letters, '.', flat_params * (size_t)t->call_count);
    for (int i = 0, c = 0; i < t->pass->count; i++)
        if (t->pass->at[i].code == ZR_CALL)
            t->calls[c++] = i;
    return ZERO_OK;
}

zero_status zr_plan_draw_letters(const zr_plan *plan, const char *title, zr_buffer *out,
                                 zero_error *error)
{
    table t = {.plan = plan, .pass = &plan->program.passes[ZR_PASS_MICRO_BATCH], .out = out};
    zero_status status = open_table(&t, error);
    if (status == ZERO_OK)
        status = fill_letters(&t, error);
    if (status == ZERO_OK)
        append_table(&t, title);
    zr_free(t.reading);
    zr_free(t.letters);
    zr_free(t.calls);
    return status;
}
