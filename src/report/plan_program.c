// zero plan --program: the passes as they are, in columns as wide as their widest cells.
#include "report/plan_show.h"

#include <stdio.h>
#include <string.h>

enum { CELL = 256, INDENT = 2 };

typedef struct line { // an instruction and its position
    const zr_plan *plan;
    const zr_instruction *at;
    int number;
    bool inside; // it is in the body of a CALL
} line;

static void write_number(const line *l, char out[static CELL])
{
    snprintf(out, CELL, "%d", l->number);
}

static const char *name_of_part(const zr_instruction *i)
{
    if (i->code == ZR_CALL)
        return zr_call_names[i->what];
    if (i->code == ZR_SCALARS && i->what != ZR_SCALARS_OF_ALL)
        return zr_scalars_part_names[i->what];
    if (i->code == ZR_TIED_WEIGHT)
        return zr_tied_weight_part_names[i->what];
    return i->code == ZR_UPDATE ? zr_update_part_names[i->what] : "";
}

static void write_code(const line *l, char out[static CELL])
{
    const char *detail = name_of_part(l->at);
    snprintf(out, CELL, "%*s%s%s%s", l->inside ? INDENT : 0, "", zr_code_names[l->at->code],
             *detail ? " " : "", detail);
}

static void write_when(const line *l, char out[static CELL])
{
    snprintf(out, CELL, "%s", l->at->when == ZR_ALWAYS ? "" : zr_when_names[l->at->when]);
}

static void write_unit(const line *l, char out[static CELL])
{
    snprintf(out, CELL, "%s", l->at->unit < 0 ? "" : zr_plan_unit_name(l->plan, l->at->unit));
}

static const char *flat_param_name(const zr_plan *plan, int flat_param)
{
    return flat_param < 0 ? "" : plan->flat_params[flat_param].name;
}

static void write_flat_param(const line *l, char out[static CELL])
{
    snprintf(out, CELL, "%s", flat_param_name(l->plan, l->at->flat_param));
}

static void write_buffer(zr_buffer_ref place, char out[static CELL])
{
    snprintf(out, CELL, "%s+%lld", zr_buffer_names[place.buffer], (long long)place.first);
}

// Writes the place of an instruction. An AWAIT of readers and an UNBIND name only a buffer, because
// the flat parameter has just one place in it.
static void write_place(const line *l, char out[static CELL])
{
    zr_buffer_ref place = l->at->place;
    bool whole = l->at->code == ZR_AWAIT || l->at->code == ZR_UNBIND;
    if (place.buffer == ZR_BUFFER_NONE)
        *out = 0;
    else if (whole)
        snprintf(out, CELL, "%s", zr_buffer_names[place.buffer]);
    else
        write_buffer(place, out);
}

static void write_from(const line *l, char out[static CELL])
{
    *out = 0;
    if (l->at->from.buffer != ZR_BUFFER_NONE)
        write_buffer(l->at->from, out);
}

static void write_bytes(const line *l, char out[static CELL])
{
    bool moves = l->at->code == ZR_GATHER || l->at->code == ZR_REDUCE || l->at->code == ZR_FETCH ||
                 l->at->code == ZR_STORE || l->at->code == ZR_JOIN || l->at->code == ZR_SEND ||
                 l->at->code == ZR_RECEIVE;
    *out = 0;
    if (moves)
        snprintf(out, CELL, "%lld", (long long)l->at->bytes);
}

// Writes the flat parameter and the visit of a fetch. Its number counts ZERO_MAX_FLAT_PARAMS for
// every visit.
static void write_fetched(const line *l, int index, char out[static CELL])
{
    const zr_visit *visit = &l->plan->visits[index / ZERO_MAX_FLAT_PARAMS];
    snprintf(out, CELL, "%s %s for visit %d", zr_slot_names[ZR_SLOT_FETCHED],
             flat_param_name(l->plan, visit->flat_params[index % ZERO_MAX_FLAT_PARAMS]),
             index / ZERO_MAX_FLAT_PARAMS);
}

static void write_slot(const line *l, char out[static CELL])
{
    zr_slot slot = l->at->slot;
    const char *kind = zr_slot_names[slot.kind];
    switch (slot.kind) {
    case ZR_NO_SLOT: *out = 0; break;
    case ZR_SLOT_FETCHED: write_fetched(l, slot.index, out); break;
    case ZR_SLOT_KEPT: snprintf(out, CELL, "%s buffer %d", kind, slot.index); break;
    case ZR_SLOT_LINK: snprintf(out, CELL, "%s %s", kind, l->plan->links[slot.index].name); break;
    case ZR_SLOT_GROUP:
        if (slot.index < 0)
            snprintf(out, CELL, "every %s", kind);
        else
            snprintf(out, CELL, "%s %d", kind, slot.index);
        break;
    default: snprintf(out, CELL, "%s %s", kind, flat_param_name(l->plan, slot.index));
    }
}

static void write_mark(const line *l, char out[static CELL])
{
    *out = 0;
    if (l->at->mark != ZR_UNMARKED)
        snprintf(out, CELL, "%s %s", l->at->mark == ZR_BEGUN ? "begun" : "ended",
                 flat_param_name(l->plan, l->at->stream));
}

typedef struct column {
    const char *heading;
    void (*write)(const line *l, char out[static CELL]);
    bool right; // aligned right, because it holds numbers
    const char *means;
} column;

static const column columns[] = {
    {"number", write_number, true, "of the instruction in its pass"},
    {"code", write_code, false,
     "what is done; indented: in the body of the CALL above, run from inside of the unit"},
    {"when", write_when, false, "what has to hold for it to be run; blank: it always is"},
    {"unit", write_unit, false, "on whose behalf"},
    {"flat parameter", write_flat_param, false, "whose parameters or gradients"},
    {"place", write_place, false, "where they go to, or lie: space + first byte"},
    {"from", write_from, false, "where they come from"},
    {"bytes", write_bytes, true,
     "that this rank gets from other ranks, or that travel between tiers"},
    {"slot", write_slot, false,
     "what begins here and may go on; of an AWAIT: what has to have ended"},
    {"mark", write_mark, false,
     "the unit goes on after this instruction: the streamed flat parameter has come, or gone"},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

// Returns the number of columns up to the last one that is not blank.
static int columns_used(const line *l)
{
    char cell[CELL];
    for (int c = COLUMNS - 1; c >= 0; c--) {
        columns[c].write(l, cell);
        if (*cell)
            return c + 1;
    }
    return 0;
}

static void append_cell(const char *cell, const column *c, int width, bool last, zr_buffer *out)
{
    int padding = last && !c->right ? 0 : width;
    zr_buffer_printf(out, c->right ? "%*s" : "%-*s", padding, cell);
    zr_buffer_printf(out, last ? "\n" : "  ");
}

static void append_program_line(const line *l, const int widths[static COLUMNS], zr_buffer *out)
{
    char cell[CELL];
    int used = columns_used(l);
    for (int c = 0; c < used; c++) {
        columns[c].write(l, cell);
        append_cell(cell, &columns[c], widths[c], c + 1 == used, out);
    }
}

static void append_headings(const int widths[static COLUMNS], zr_buffer *out)
{
    for (int c = 0; c < COLUMNS; c++)
        append_cell(columns[c].heading, &columns[c], widths[c], c + 1 == COLUMNS, out);
}

// Calls `take` for every instruction of a pass, in order.
static void for_each_line(const zr_plan *plan, const zr_pass *pass, void *user,
                          void (*take)(void *user, const line *l))
{
    int inside_until = 0;
    for (int i = 0; i < pass->count; i++) {
        const line l = {plan, &pass->at[i], i, i < inside_until};
        take(user, &l);
        if (l.at->code == ZR_CALL)
            inside_until = i + 1 + l.at->body;
    }
}

static void widen_columns(void *user, const line *l)
{
    int *widths = user;
    char cell[CELL];
    for (int c = 0; c < COLUMNS; c++) {
        columns[c].write(l, cell);
        widths[c] = ZR_MAX(widths[c], (int)strlen(cell));
    }
}

typedef struct writer {
    const int *widths; // (COLUMNS)
    int forward_end; // number of the instruction before which zero_forward returns; -1: not in this
                     // pass
    zr_buffer *out;
} writer;

static void append_forward_end(const writer *w, int number)
{
    if (number == w->forward_end)
        zr_buffer_printf(
            w->out, "------  end of forward: zero_forward returns, zero_backward goes on here\n");
}

static void append_next(void *user, const line *l)
{
    const writer *w = user;
    append_forward_end(w, l->number);
    append_program_line(l, w->widths, w->out);
}

static void append_pass(const zr_plan *plan, zr_pass_kind kind, const int *widths, zr_buffer *out)
{
    const zr_pass *pass = &plan->program.passes[kind];
    int forward_end = kind == ZR_PASS_MICRO_BATCH ? pass->forward_end : -1;
    writer w = {.widths = widths, .forward_end = forward_end, .out = out};
    zr_buffer_printf(out, "\n%s", zr_pass_name(kind));
    if (kind >= ZR_PASS_COUNT)
        zr_buffer_printf(out, " of chunk %d", (kind - ZR_PASS_COUNT) / ZR_CHUNK_PARTS);
    zr_buffer_printf(out, ": ");
    zr_pass_summary(pass, out);
    zr_buffer_printf(out, "\n");
    if (!pass->count)
        return;
    append_headings(widths, out);
    for_each_line(plan, pass, &w, append_next);
    append_forward_end(&w, pass->count);
}

// Says in which order passes are run.
static const char *describe_pass_order(const zr_plan *plan)
{
    if (!plan->pipeline)
        return "The program that every rank runs: micro-batch as often as the step has them, then "
               "boundary, update and publish";
    if (!zr_plan_is_asynchronous(plan))
        return "The program that a rank of this pipeline stage runs: the passes of its chunks as "
               "its list of actions says, then boundary, update and publish";
    return zr_plan_schedule(plan) == ZR_PIPELINE_2BW
               ? "The program that a rank of this pipeline stage runs, as its list of actions "
                 "says: the passes of its chunks; boundary as norm; total, update and publish as "
                 "update"
               : "The program that a rank of this pipeline stage runs, as its list of actions "
                 "says: the passes of its chunks; boundary, update, ties and publish as update";
}

void zr_plan_list_program(const zr_plan *plan, const char *title, zr_buffer *out)
{
    int widths[COLUMNS];
    for (int c = 0; c < COLUMNS; c++)
        widths[c] = (int)strlen(columns[c].heading);
    for (int kind = 0; kind < ZR_PASSES; kind++)
        for_each_line(plan, &plan->program.passes[kind], widths, widen_columns);
    zr_buffer_printf(out, "%s\n%s.\n\n", title, describe_pass_order(plan));
    for (int c = 0; c < COLUMNS; c++)
        zr_buffer_printf(out, "  %-6s  %s\n", columns[c].heading, columns[c].means);
    for (int kind = 0; kind < ZR_PASSES; kind++)
        if (zr_plan_shows_pass(plan, kind))
            append_pass(plan, (zr_pass_kind)kind, widths, out);
}
